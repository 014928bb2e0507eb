//! Concept labels from label columns: yes or no as it is, one concept per class, one per tag.

use std::collections::{BTreeMap, BTreeSet};

use etalon::context::{Budget, Reservation};
use etalon::error::Result;
use etalon::input::TextTable;
use etalon::labels::{Annotations, Label as Truth};

use super::sample::Label;

/// Settings of a concept table.
#[derive(Clone, Copy, Debug)]
pub struct ConceptOptions<'a> {
    /// Minimum number of samples that have a concept.
    pub fewest: usize,
    /// Maximum number of classes of a column; a column with more, such as one of free text, is left out.
    pub most_classes: usize,
    /// A table whose first column names classes; its other columns are concepts that a class has (1) or has not (0).
    pub hierarchy: Option<&'a TextTable>,
    /// Classes and tags have the name of their column in front, `genre/news`, so that metrics treat columns as groups.
    pub grouped: bool,
}

impl Default for ConceptOptions<'_> {
    fn default() -> Self {
        ConceptOptions { fewest: 1, most_classes: 1000, hierarchy: None, grouped: false }
    }
}

/// Collects the labels of samples.
#[derive(Debug)]
pub struct Concepts {
    names: Vec<String>,
    columns: Vec<Values>,
    ids: Vec<String>,
    memory: Reservation,
    /// Bytes that are not reserved yet.
    pending: u64,
}

/// The values of a column. Each distinct text is stored once.
#[derive(Debug, Default)]
struct Values {
    numbers: BTreeMap<String, u32>,
    rows: Vec<Cell>,
    has_tags: bool,
}

#[derive(Debug)]
enum Cell {
    Missing,
    Value(u32),
    Tags(Vec<u32>),
}

/// Concept labels of samples, in the format of labels.
#[derive(Debug)]
pub struct ConceptTable {
    /// The labels.
    pub labels: Annotations,
    /// The ids of the samples.
    pub ids: Vec<String>,
    /// Which columns were left out, and why.
    pub notes: Vec<String>,
}

impl ConceptTable {
    /// The table as CSV.
    pub fn to_csv(&self) -> Result<String> {
        self.labels.to_csv(Some(&self.ids))
    }
}

impl Values {
    fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.numbers.len() as u32;
        self.numbers.insert(text.to_string(), number);
        number
    }

    /// Whether every value is a yes, a no or an unknown.
    fn is_binary(&self) -> bool {
        !self.has_tags && !self.numbers.is_empty() && self.numbers.keys().all(|text| truth(text).is_some())
    }

    /// The texts with their numbers, numbers in their own order before the rest.
    fn sorted(&self) -> Vec<(&str, u32)> {
        let mut sorted: Vec<(&str, u32)> = self.numbers.iter().map(|(text, &number)| (text.as_str(), number)).collect();
        let key = |text: &str| text.parse::<i64>().unwrap_or(i64::MAX);
        sorted.sort_by(|(a, _), (b, _)| key(a).cmp(&key(b)).then(a.cmp(b)));
        sorted
    }
}

/// The truth of a cell, as tables of labels write it.
fn truth(text: &str) -> Option<Truth> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "t" | "y" => Some(Truth::Yes),
        "0" | "false" | "no" | "f" | "n" => Some(Truth::No),
        "?" | "na" | "nan" | "-1" | "unknown" => Some(Truth::Unknown),
        _ => None,
    }
}

/// A concept: where it comes from.
enum Origin {
    /// A column of yes and no; the truth of each value.
    Binary(usize, BTreeMap<u32, Truth>),
    /// A class or a tag of a column.
    Value(usize, u32),
    /// A column of the hierarchy; the truth of each class of a column.
    Above(usize, BTreeMap<u32, Truth>),
}

impl Concepts {
    /// Labels for columns of these names.
    pub fn new(columns: &[String], budget: &Budget) -> Result<Concepts> {
        let memory = budget.reserve(0, "labels of samples")?;
        let values = columns.iter().map(|_| Values::default()).collect();
        Ok(Concepts { names: columns.to_vec(), columns: values, ids: Vec::new(), memory, pending: 0 })
    }

    /// Adds a sample, with one label per column.
    pub fn push(&mut self, id: &str, labels: &[Label]) -> Result<()> {
        for (index, values) in self.columns.iter_mut().enumerate() {
            let cell = match labels.get(index) {
                None | Some(Label::Missing) => Cell::Missing,
                Some(Label::Value(text)) => Cell::Value(values.number(text)),
                Some(Label::Tags(tags)) => {
                    values.has_tags = true;
                    Cell::Tags(tags.iter().map(|tag| values.number(tag)).collect())
                }
            };
            self.pending += 32 + if let Cell::Tags(tags) = &cell { 4 * tags.len() as u64 } else { 0 };
            values.rows.push(cell);
        }
        self.pending += 24 + id.len() as u64;
        self.ids.push(id.to_string());
        if self.pending > 1 << 20 {
            let bytes = self.memory.bytes() + std::mem::take(&mut self.pending);
            self.memory.resize(bytes, "labels of samples")?;
        }
        Ok(())
    }

    /// Whether a column has values.
    pub fn is_empty(&self) -> bool {
        self.columns.iter().all(|values| values.numbers.is_empty())
    }

    /// The concept table.
    pub fn finish(self, options: &ConceptOptions<'_>) -> Result<ConceptTable> {
        let mut notes = Vec::new();
        let mut found: Vec<(String, Origin)> = Vec::new();
        for (column, (name, values)) in self.names.iter().zip(&self.columns).enumerate() {
            let distinct = values.numbers.len();
            if values.is_binary() {
                let truths = values.numbers.iter().filter_map(|(text, &number)| Some((number, truth(text)?))).collect();
                found.push((name.clone(), Origin::Binary(column, truths)));
            } else if !values.has_tags && distinct > options.most_classes {
                notes.push(format!("`{name}` is left out: {distinct} different values"));
            } else if !values.has_tags && distinct > 2 && 10 * distinct > 9 * self.ids.len() {
                notes.push(format!("`{name}` is left out: nearly every sample has another value"));
            } else {
                let group = if options.grouped { format!("{name}/") } else { String::new() };
                let concept = |(text, number): (&str, u32)| (format!("{group}{text}"), Origin::Value(column, number));
                found.extend(values.sorted().into_iter().map(concept));
                found.extend(options.hierarchy.into_iter().flat_map(|table| above(column, values, table)));
            }
        }
        self.name(&mut found);
        let rows = self.ids.len();
        let has = |row: usize, concept: usize| self.truth(row, &found[concept].1);
        let counts =
            |&concept: &usize| (0..rows).filter(|&row| has(row, concept) == Truth::Yes).count() >= options.fewest;
        let kept: Vec<usize> = (0..found.len()).filter(counts).collect();
        if kept.len() < found.len() {
            notes.push(format!("{} concepts have fewer than {} samples", found.len() - kept.len(), options.fewest));
        }
        let names = kept.iter().map(|&concept| found[concept].0.clone()).collect();
        let labels = Annotations::new(names, rows, |row, concept| has(row, kept[concept]))?;
        Ok(ConceptTable { labels, ids: self.ids, notes })
    }

    /// Makes names unique: those that several columns share get the name of their column.
    fn name(&self, found: &mut [(String, Origin)]) {
        let mut seen = BTreeMap::new();
        for (name, _) in found.iter() {
            *seen.entry(name.clone()).or_insert(0) += 1;
        }
        for (name, origin) in found {
            if seen.get(name).is_some_and(|&count| count > 1) {
                let (column, what) = match origin {
                    Origin::Binary(column, _) | Origin::Value(column, _) => (*column, ""),
                    Origin::Above(column, _) => (*column, " kind"),
                };
                *name = format!("{}{what}={name}", self.names[column]);
            }
        }
    }

    fn truth(&self, row: usize, origin: &Origin) -> Truth {
        let cell = |column: usize| self.columns[column].rows.get(row).unwrap_or(&Cell::Missing);
        let of = |truths: &BTreeMap<u32, Truth>, number: &u32| truths.get(number).copied().unwrap_or(Truth::Unknown);
        match origin {
            Origin::Value(column, number) => match cell(*column) {
                Cell::Missing => Truth::Unknown,
                Cell::Value(value) => yes(value == number),
                Cell::Tags(tags) => yes(tags.contains(number)),
            },
            Origin::Binary(column, truths) | Origin::Above(column, truths) => match cell(*column) {
                Cell::Value(value) => of(truths, value),
                Cell::Missing | Cell::Tags(_) => Truth::Unknown,
            },
        }
    }
}

fn yes(is: bool) -> Truth {
    if is { Truth::Yes } else { Truth::No }
}

/// The concepts of a hierarchy for a column of classes; none if it knows no class.
fn above(column: usize, values: &Values, table: &TextTable) -> Vec<(String, Origin)> {
    let classes: BTreeMap<&str, usize> =
        table.cells.iter().enumerate().filter_map(|(row, cells)| Some((cells.first()?.as_str(), row))).collect();
    let known: Vec<(u32, usize)> =
        values.numbers.iter().filter_map(|(text, &number)| Some((number, *classes.get(text.as_str())?))).collect();
    if known.is_empty() {
        return Vec::new();
    }
    let names: BTreeSet<&str> = values.numbers.keys().map(String::as_str).collect();
    let of =
        |row: usize, index: usize| table.cells.get(row).and_then(|cells| cells.get(index)).and_then(|text| truth(text));
    let concept = |(index, name): (usize, &String)| {
        let truths = known.iter().filter_map(|&(number, row)| Some((number, of(row, index)?))).collect();
        (name.clone(), Origin::Above(column, truths))
    };
    // A class that is also above others has its own concept already.
    let columns = table.header.iter().enumerate().skip(1).filter(|(_, name)| !names.contains(name.as_str()));
    columns.map(concept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(columns: &[&str], rows: &[&[Label]], options: &ConceptOptions<'_>) -> ConceptTable {
        let columns: Vec<String> = columns.iter().map(|name| name.to_string()).collect();
        let mut concepts = Concepts::new(&columns, &Budget::new(1 << 20)).unwrap();
        for (index, labels) in rows.iter().enumerate() {
            concepts.push(&format!("s{index}"), labels).unwrap();
        }
        concepts.finish(options).unwrap()
    }

    fn value(text: &str) -> Label {
        Label::Value(text.into())
    }

    fn tags(tags: &[&str]) -> Label {
        Label::Tags(tags.iter().map(|tag| tag.to_string()).collect())
    }

    #[test]
    fn classes_tags_and_yes_or_no_become_concepts() {
        let rows: [&[Label]; 3] = [
            &[value("cat"), tags(&["furry", "small"]), value("1"), value("free text a")],
            &[value("dog"), tags(&[]), Label::Missing, value("free text b")],
            &[Label::Missing, Label::Missing, value("0"), value("free text c")],
        ];
        let made = table(&["class", "tags", "indoors", "note"], &rows, &ConceptOptions::default());
        let csv = "sample,cat,dog,furry,small,indoors\ns0,1,0,1,1,1\ns1,0,1,0,0,\ns2,,,,,0\n";
        assert_eq!(made.to_csv().unwrap(), csv);
        assert_eq!(made.notes, ["`note` is left out: nearly every sample has another value"]);
        let options = ConceptOptions { grouped: true, ..ConceptOptions::default() };
        let made = table(&["class", "tags", "indoors", "note"], &rows, &options);
        assert_eq!(made.labels.names(), ["class/cat", "class/dog", "tags/furry", "tags/small", "indoors"]);
    }

    #[test]
    fn shared_names_are_prefixed_and_rare_concepts_are_left_out() {
        let rows: [&[Label]; 3] =
            [&[value("orange"), value("orange")], &[value("orange"), value("navel")], &[value("pear"), value("pear")]];
        let options = ConceptOptions { fewest: 1, ..ConceptOptions::default() };
        let made = table(&["coarse", "fine"], &rows, &options);
        // Names of columns that are left out are no conflict.
        assert_eq!(made.labels.names(), ["orange", "pear"]);
        assert_eq!(made.notes, ["`fine` is left out: nearly every sample has another value"]);
        let rows: [&[Label]; 4] = [
            &[value("10"), value("a")],
            &[value("9"), value("10")],
            &[value("9"), value("a")],
            &[value("10"), value("b")],
        ];
        let made = table(&["n", "m"], &rows, &ConceptOptions { fewest: 2, ..ConceptOptions::default() });
        assert_eq!(made.labels.names(), ["9", "n=10", "a"]);
        assert_eq!(made.notes, ["2 concepts have fewer than 2 samples"]);
    }

    #[test]
    fn a_hierarchy_adds_what_a_class_is() {
        let texts = |texts: [&str; 4]| texts.map(String::from).to_vec();
        let hierarchy = TextTable {
            header: texts(["class", "animal", "vehicle", "cat"]),
            cells: [["cat", "1", "0", "1"], ["car", "0", "1", "0"]].map(texts).to_vec(),
            ..TextTable::default()
        };
        let rows: [&[Label]; 4] = [&[value("cat")], &[value("car")], &[value("cat")], &[value("table")]];
        let made =
            table(&["class"], &rows, &ConceptOptions { hierarchy: Some(&hierarchy), ..ConceptOptions::default() });
        assert_eq!(made.to_csv().unwrap().lines().nth(1), Some("s0,0,1,0,1,0"));
        assert_eq!(made.labels.names(), ["car", "cat", "table", "animal", "vehicle"]);
        // The hierarchy says nothing about tables.
        assert_eq!(made.to_csv().unwrap().lines().nth(4), Some("s3,0,0,1,,"));
    }
}
