//! Results arranged for a report: input sets, measures, and the results of each measure on each set.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use serde_json::Value;

use super::figure::{COLOURS, Stroke, span};
use super::words::{natural, plain, slug, tidy};
use crate::metrics::{self, Better, Card, METRICS};
use crate::results::{
    Aggregate, Comparison, CurrentResults, Headline, Metadata, Stored, current, measure_key, seedless_key,
    seedless_name, unnamed,
};

/// The results of a report, ordered.
pub struct Gathered<'a> {
    /// The input sets.
    pub sets: Vec<InputSet>,
    /// The measures.
    pub measures: Vec<Measure>,
    /// The notes of the results, without duplicates.
    pub notes: Vec<Note>,
    /// Superseded results, with measure and input set, ordered by seed.
    pub superseded: Vec<(usize, usize, &'a Stored)>,
    /// Current results by measure and input set, ordered by seed. Those of a cell have the same inputs.
    cells: BTreeMap<(usize, usize), Vec<&'a Stored>>,
    /// By measure, the comparison of the input sets by its main number; computed on first use.
    comparisons: Vec<OnceLock<Comparison>>,
}

/// One representation under test, such as a trained dictionary.
pub struct InputSet {
    /// A unique label.
    pub label: String,
    /// The given name, which several sets may share.
    pub name: String,
    /// The group, if it has one.
    pub group: Option<String>,
    /// The description, if it has one.
    pub description: Option<String>,
    /// Numeric metadata, averaged over its results.
    pub numbers: BTreeMap<String, f64>,
}

/// One metric with one choice of parameters.
pub struct Measure {
    /// The metric's name.
    pub metric: String,
    /// The metric's title, with the parameters that distinguish it from other measures of the metric.
    pub title: String,
    /// A unique name for files and anchors.
    pub slug: String,
    /// The keys of its headline numbers. The first is its main number, by which input sets are compared.
    pub keys: Vec<String>,
    /// The metric's card, if this version has the metric.
    pub card: Option<&'static Card>,
    /// Whether it is the first measure of its metric.
    pub first: bool,
}

/// A note of some results.
pub struct Note {
    /// The measure.
    pub measure: usize,
    /// The input sets.
    pub sets: BTreeSet<usize>,
    /// The text.
    pub text: String,
}

impl<'a> Gathered<'a> {
    /// Arranges results. Their order does not matter.
    pub fn of(results: impl IntoIterator<Item = &'a Stored>) -> Gathered<'a> {
        let by_seed = |mut results: Vec<&'a Stored>| {
            results.sort_by(|a, b| a.result.recipe.seed.cmp(&b.result.recipe.seed).then(a.id.cmp(&b.id)));
            results.dedup_by(|a, b| a.id == b.id && a.about == b.about);
            results
        };
        let CurrentResults { current, superseded } = current(results);
        let (results, superseded) = (by_seed(current), by_seed(superseded));

        let mut by_set: BTreeMap<String, Vec<&Stored>> = BTreeMap::new();
        let mut by_measure: BTreeMap<String, Vec<&Stored>> = BTreeMap::new();
        for &stored in &results {
            by_set.entry(seedless_key(stored)).or_default().push(stored);
            by_measure.entry(measure_key(stored)).or_default().push(stored);
        }
        let mut sets: Vec<(&String, InputSet)> = by_set.iter().map(|(key, of)| (key, input_set(of))).collect();
        sets.sort_by(|(key_a, a), (key_b, b)| {
            let order = rank(&a.name).cmp(&rank(&b.name)).then_with(|| a.group.cmp(&b.group));
            order.then_with(|| natural(&a.name, &b.name)).then_with(|| natural(key_a, key_b))
        });
        let mut measures: Vec<(&String, &Vec<&Stored>)> = by_measure.iter().collect();
        let listed = |of: &Vec<&Stored>| {
            let metric = of[0].result.recipe.metric.as_str();
            METRICS.iter().position(|other| other.card().name == metric).unwrap_or(usize::MAX)
        };
        measures.sort_by(|(key_a, a), (key_b, b)| listed(a).cmp(&listed(b)).then_with(|| natural(key_a, key_b)));

        let cell_of = |stored: &Stored| {
            let (measure, set) = (measure_key(stored), seedless_key(stored));
            let measure = measures.iter().position(|(other, _)| **other == measure)?;
            Some((measure, sets.iter().position(|(other, _)| **other == set)?))
        };
        let mut cells: BTreeMap<(usize, usize), Vec<&Stored>> = BTreeMap::new();
        for &stored in &results {
            if let Some(cell) = cell_of(stored) {
                cells.entry(cell).or_default().push(stored);
            }
        }
        let superseded = superseded
            .into_iter()
            .filter_map(|stored| cell_of(stored).map(|(measure, set)| (measure, set, stored)))
            .collect();
        let mut sets: Vec<InputSet> = sets.into_iter().map(|(_, set)| set).collect();
        make_unique(&mut sets);
        let measures = name_measures(&measures.iter().map(|(_, of)| of.as_slice()).collect::<Vec<_>>());
        let notes = notes(&cells);
        let comparisons = measures.iter().map(|_| OnceLock::new()).collect();
        Gathered { sets, measures, notes, superseded, cells, comparisons }
    }

    /// The results of a measure on an input set, ordered by seed.
    pub fn runs(&self, measure: usize, set: usize) -> &[&'a Stored] {
        self.cells.get(&(measure, set)).map_or(&[], Vec::as_slice)
    }

    /// The comparison of all input sets by the main number of a measure; `None` if it has no numbers.
    pub fn comparison(&self, measure: usize) -> Option<&Comparison> {
        let key = self.measures[measure].keys.first()?;
        let runs: Vec<&[&Stored]> = (0..self.sets.len()).map(|set| self.runs(measure, set)).collect();
        Some(self.comparisons.get(measure)?.get_or_init(|| Comparison::of(&runs, key)))
    }

    /// A headline number of a measure on an input set; `None` if it was not measured.
    pub fn cell(&self, measure: usize, set: usize, key: &str) -> Option<Aggregate> {
        if self.measures[measure].keys.first().is_some_and(|first| first == key) {
            return self.main(measure, set);
        }
        Comparison::of(&[self.runs(measure, set)], key).aggregate(0)
    }

    /// The main number of a measure on an input set; `None` if it was not measured.
    pub fn main(&self, measure: usize, set: usize) -> Option<Aggregate> {
        self.comparison(measure)?.aggregate(set)
    }

    /// The mean of a headline number over some input sets.
    pub fn mean(&self, measure: usize, sets: &[usize], key: &str) -> Option<Aggregate> {
        let cells: Vec<Aggregate> = sets.iter().filter_map(|&set| self.cell(measure, set, key)).collect();
        if let [one] = cells[..] { Some(one) } else { Aggregate::of_sets(&cells) }
    }

    /// At most `most` of some input sets, in order: one baseline of every kind, and the first of the others.
    pub fn choose(&self, sets: impl IntoIterator<Item = usize>, most: usize) -> Vec<usize> {
        let sets: Vec<usize> = sets.into_iter().collect();
        if sets.len() <= most {
            return sets;
        }
        let kind = |set: usize| self.sets[set].baseline().map(|_| rank(&self.sets[set].name));
        let mut chosen: BTreeSet<usize> = BTreeSet::new();
        let mut kinds = BTreeSet::new();
        chosen.extend(sets.iter().copied().filter(|&set| kind(set).is_some_and(|kind| kinds.insert(kind))).take(most));
        let tested = sets.iter().copied().filter(|&set| kind(set).is_none());
        let others = sets.iter().copied().filter(|&set| kind(set).is_some());
        for set in tested.chain(others) {
            if chosen.len() < most {
                chosen.insert(set);
            }
        }
        chosen.into_iter().collect()
    }

    /// The colour of an input set, the same in all figures. With more sets than colours, the sets of
    /// [`Gathered::choose`] have one each; another set has that of a chosen one of its name or group, else that
    /// of one under test: never that of a baseline.
    pub fn colour(&self, set: usize) -> usize {
        let chosen = self.choose(0..self.sets.len(), COLOURS.len());
        let find = |matches: &dyn Fn(&InputSet) -> bool| chosen.iter().position(|&other| matches(&self.sets[other]));
        let about = &self.sets[set];
        let own = chosen.iter().position(|&other| other == set);
        let by_name = || find(&|other| other.name == about.name);
        let by_group = || about.group.as_ref().and_then(|group| find(&|other| other.group.as_ref() == Some(group)));
        let tested = |colour: &usize| self.sets[chosen[*colour]].baseline().is_none();
        let others: Vec<usize> = (0..chosen.len()).filter(tested).collect();
        let other = || others.get(set % others.len().max(1)).copied();
        own.or_else(by_name).or_else(by_group).or_else(other).unwrap_or(set % COLOURS.len())
    }

    /// The colour of several input sets: that of the first with a fixed colour.
    pub fn colour_of(&self, sets: &[usize]) -> usize {
        let chosen = self.choose(0..self.sets.len(), COLOURS.len());
        sets.iter().find(|set| chosen.contains(set)).or(sets.first()).map_or(0, |&set| self.colour(set))
    }

    /// The smallest and the largest L0 of the sets under test, if they differ by more than a tenth: then the best of a
    /// column is not the best at equal sparsity.
    pub fn l0_range(&self) -> Option<(f64, f64)> {
        let tested = self.sets.iter().filter(|set| set.baseline().is_none());
        let (low, high) = span(tested.filter_map(|set| set.numbers.get("l0").copied()))?;
        (high > 1.1 * low).then_some((low, high))
    }

    /// The index of the note that explains an undefined value.
    pub fn explanation(&self, measure: usize, set: usize) -> Option<usize> {
        let about = |note: &&(usize, &Note)| note.1.measure == measure && note.1.sets.contains(&set);
        let notes: Vec<(usize, &Note)> = self.notes.iter().enumerate().filter(|note| about(&note)).collect();
        let explains = notes.iter().find(|(_, note)| note.text.to_lowercase().contains("undefined"));
        explains.or(notes.first()).map(|(index, _)| *index)
    }
}

/// A headline of a result by key.
pub fn headline<'a>(stored: &'a Stored, key: &str) -> Option<&'a Headline> {
    stored.result.scores.headline.iter().find(|headline| headline.key == key)
}

/// The position of an input set in tables, by its name: upper bounds first, lower bounds last.
fn rank(name: &str) -> usize {
    let name = name.to_lowercase();
    let begins = |word: &str| name.starts_with(word);
    match () {
        () if begins("oracle") || begins("truth") => 0,
        () if begins("trained") => 1,
        () if begins("untrained") => 3,
        () if begins("shuffled") => 4,
        () if begins("random") => 5,
        () => 2,
    }
}

fn text_of(about: &Metadata, name: &str) -> Option<String> {
    let value = about.get(name).filter(|value| !value.is_null())?;
    Some(tidy(&value.as_str().map_or_else(|| value.to_string(), str::to_string))).filter(|text| !text.trim().is_empty())
}

fn input_set(of: &[&Stored]) -> InputSet {
    let about = &of[0].about;
    let name_of = |stored: &Stored| text_of(&stored.about, "inputs").unwrap_or_else(|| unnamed(stored));
    let name = name_of(of[0]);
    // Dictionaries that were trained with several seeds are one input set, named without a seed.
    let several = of.iter().any(|stored| name_of(stored) != name);
    let name = if several { seedless_name(&name).0.to_string() } else { name };
    let mut lists: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (name, value) in of.iter().flat_map(|stored| &stored.about).filter(|(name, _)| *name != "seed") {
        if let Some(number) = value.as_f64() {
            lists.entry(tidy(name)).or_default().push(number);
        }
    }
    let mean = |list: &Vec<f64>| list.iter().sum::<f64>() / list.len() as f64;
    InputSet {
        label: name.clone(),
        name,
        // Without a group, dictionaries are grouped by architecture.
        group: text_of(about, "group").or_else(|| text_of(about, "architecture")),
        description: text_of(about, "description"),
        numbers: lists.iter().map(|(name, list)| (name.clone(), mean(list))).collect(),
    }
}

/// Makes labels unique: adds to equal ones the number of latents, k, the group or a count, whichever differs.
fn make_unique(sets: &mut [InputSet]) {
    let shared = |sets: &[InputSet], set: usize| sets.iter().filter(|other| other.label == sets[set].label).count() > 1;
    let addition = |set: &InputSet, which: usize| match which {
        0 => set.numbers.get("latents").map(|latents| format!("{} latents", plain(*latents))),
        1 => set.numbers.get("k").map(|k| format!("k {}", plain(*k))),
        _ => set.group.clone(),
    };
    for which in 0..3 {
        let ambiguous: Vec<usize> = (0..sets.len()).filter(|&set| shared(sets, set)).collect();
        let mut values: Vec<Option<String>> = ambiguous.iter().map(|&set| addition(&sets[set], which)).collect();
        values.dedup();
        if values.len() > 1 {
            for set in ambiguous {
                if let Some(text) = addition(&sets[set], which) {
                    sets[set].label = format!("{}, {text}", sets[set].label);
                }
            }
        }
    }
    for set in 1..sets.len() {
        let mut count = 2;
        let label = sets[set].label.clone();
        while sets[..set].iter().any(|other| other.label == sets[set].label) {
            sets[set].label = format!("{label} ({count})");
            count += 1;
        }
    }
}

fn name_measures(measures: &[&[&Stored]]) -> Vec<Measure> {
    let mut slugs = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut named = Vec::new();
    for of in measures {
        let recipe = &of[0].result.recipe;
        let card = metrics::find(&recipe.metric).map(|metric| metric.card());
        let siblings: Vec<_> =
            measures.iter().map(|of| &of[0].result.recipe).filter(|other| other.metric == recipe.metric).collect();
        let mut differences = Vec::new();
        for (name, value) in &recipe.params {
            if siblings.iter().any(|other| other.params.get(name) != Some(value)) {
                differences.push(format!("{} = {}", tidy(name), tidy(&setting(value))));
            }
        }
        if siblings.iter().any(|other| other.profile != recipe.profile) {
            differences.push(format!("{} profile", recipe.profile.name()));
        }
        if siblings.iter().any(|other| other.version != recipe.version) {
            differences.push(format!("version {}", recipe.version));
        }
        let title = card.map_or_else(|| tidy(&recipe.metric), |card| card.title.to_string());
        let title = if differences.is_empty() { title } else { format!("{title} ({})", differences.join(", ")) };
        let mut keys: Vec<String> =
            card.map_or_else(Vec::new, |card| card.headline.iter().map(|o| o.key.into()).collect());
        for headline in of.iter().flat_map(|stored| &stored.result.scores.headline) {
            if !keys.contains(&headline.key) {
                keys.push(headline.key.clone());
            }
        }
        keys.retain(|key| of.iter().any(|stored| headline(stored, key).is_some()));
        let base = slug(&format!("{} {}", recipe.metric, differences.join(" ")));
        let mut name = base.clone();
        let mut count = 2;
        while !slugs.insert(name.clone()) {
            name = format!("{base}-{count}");
            count += 1;
        }
        let first = seen.insert(recipe.metric.clone());
        named.push(Measure { metric: tidy(&recipe.metric), title, slug: name, keys, card, first });
    }
    named
}

/// A parameter's value without the quotation marks of JSON.
pub fn setting(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(setting).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn notes(cells: &BTreeMap<(usize, usize), Vec<&Stored>>) -> Vec<Note> {
    let mut notes: Vec<Note> = Vec::new();
    for (&(measure, set), of) in cells {
        for text in of.iter().flat_map(|stored| &stored.result.scores.notes).map(|text| tidy(text)) {
            match notes.iter_mut().find(|note| note.measure == measure && note.text == text) {
                Some(note) => drop(note.sets.insert(set)),
                None => notes.push(Note { measure, sets: BTreeSet::from([set]), text }),
            }
        }
    }
    notes
}

impl InputSet {
    /// Whether it is the ground truth, an upper bound for dictionaries.
    pub fn is_ceiling(&self) -> bool {
        rank(&self.name) == 0
    }

    /// The line style: dashed for references, which are baselines and simple dictionaries.
    pub fn stroke(&self) -> Stroke {
        let name = self.name.to_lowercase();
        let is_simple = ["pca", "identity", "neurons", "kmeans", "k-means"].iter().any(|word| name.starts_with(word));
        if is_simple || self.baseline().is_some() { Stroke::Dashed } else { Stroke::Solid }
    }

    /// Which bound a baseline gives, `ceiling` or `floor`; `None` for a set under test.
    pub fn baseline(&self) -> Option<&'static str> {
        match rank(&self.name) {
            0 => Some("ceiling"),
            3.. => Some("floor"),
            _ => None,
        }
    }
}

impl Measure {
    /// Whether higher or lower values of a headline number are better. Higher is assumed for metrics without a card.
    pub fn better(&self, key: &str) -> Better {
        match self.card {
            Some(card) => {
                card.headline.iter().find(|output| output.key == key).map_or(Better::Neither, |output| output.better)
            }
            None => Better::Higher,
        }
    }
}
