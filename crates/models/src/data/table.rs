//! Samples of a table, or of several with the same columns, one after the other.

use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::{InFile, InputError, Result};
use etalon::input::{Cell, CellKind, Column, Record, RecordReader, open_records};

use super::columns::{Chosen, choose, describe};
use super::files::{image, read_file, text};
use super::input::{Item, Source};
use super::options::{ContentKind, InputOptions};
use super::sample::{Content, Label, Sample, Words};
use super::words;

/// What separates the tags of a cell.
const TAG_SEPARATOR: char = '|';

/// The records of tables.
pub(super) struct TableSamples {
    files: Vec<PathBuf>,
    /// The current file.
    file: usize,
    reader: Option<Box<dyn RecordReader>>,
    fields: Fields,
    columns: Vec<Column>,
    /// Number of records of all files, if every file states it.
    count: Option<u64>,
    notes: Vec<String>,
    budget: Budget,
    memory: Reservation,
}

/// Where the parts of a sample are among the selected cells, which are read in this order.
pub(super) struct Fields {
    chosen: Chosen,
    selected: Vec<usize>,
    pub label_columns: Vec<String>,
    /// Whether the cells of a label column are split into tags.
    split: Vec<bool>,
    word_tags: Vec<String>,
}

/// The parts of a record that describe a sample.
#[derive(Default)]
pub(super) struct Described {
    content: Option<Cell>,
    words: Option<Cell>,
    pub id: String,
    pub caption: Option<String>,
    pub labels: Vec<Label>,
    word_tags: Vec<(String, Cell)>,
}

impl Fields {
    fn new(chosen: Chosen, columns: &[Column], options: &InputOptions) -> Fields {
        let single = [chosen.content, chosen.words, chosen.id, chosen.path, chosen.caption];
        let selected =
            single.into_iter().flatten().chain(chosen.labels.clone()).chain(chosen.word_tags.clone()).collect();
        let names = |chosen: &[usize]| chosen.iter().map(|&column| columns[column].name.clone()).collect::<Vec<_>>();
        let label_columns = names(&chosen.labels);
        let split = label_columns.iter().map(|name| options.tag_columns.contains(name)).collect();
        Fields { selected, split, word_tags: names(&chosen.word_tags), label_columns, chosen }
    }

    /// The fields of a table that only describes samples.
    pub fn describing(columns: &[Column], options: &InputOptions) -> Result<Fields> {
        Ok(Fields::new(describe(columns, options, None, None)?, columns, options))
    }

    /// The columns to select.
    pub fn selected(&self) -> &[usize] {
        &self.selected
    }

    /// Sorts the cells of a record.
    pub fn sort(&self, cells: Vec<Cell>) -> Described {
        let mut cells = cells.into_iter();
        let mut next = |column: Option<usize>| column.and_then(|_| cells.next());
        let (content, words) = (next(self.chosen.content), next(self.chosen.words));
        let text = |cell: Option<Cell>| match cell {
            Some(Cell::Text(text)) => Some(text.trim().to_string()).filter(|text| !text.is_empty()),
            _ => None,
        };
        let (id, path) = (text(next(self.chosen.id)), text(next(self.chosen.path)));
        let caption = text(next(self.chosen.caption));
        let labels = self.split.iter().map(|&split| label(cells.next(), split)).collect();
        let word_tags = self.word_tags.iter().map(|name| (name.clone(), cells.next().unwrap_or(Cell::Null))).collect();
        Described { content, words, id: id.or(path).unwrap_or_default(), caption, labels, word_tags }
    }
}

/// The label of a cell.
fn label(cell: Option<Cell>, split: bool) -> Label {
    match cell {
        Some(Cell::Text(text)) if split => {
            let tags = text.split(TAG_SEPARATOR).map(str::trim).filter(|tag| !tag.is_empty());
            Label::Tags(tags.map(str::to_string).collect())
        }
        Some(Cell::Text(text)) if !text.trim().is_empty() => Label::Value(text.trim().to_string()),
        Some(Cell::List(tags)) => {
            let tags = tags.iter().map(|tag| tag.trim().to_string()).filter(|tag| !tag.is_empty());
            Label::Tags(tags.collect())
        }
        _ => Label::Missing,
    }
}

impl TableSamples {
    /// Opens tables, of which there is at least one.
    pub fn open(
        files: &[PathBuf],
        notes: Vec<String>,
        options: &InputOptions,
        budget: &Budget,
    ) -> Result<TableSamples> {
        let first = files.first().map_or(Path::new(""), PathBuf::as_path);
        let reader = open_records(first, budget)?;
        let columns = reader.columns().to_vec();
        let chosen = choose(&columns, options).in_file(first)?;
        let notes = notes.into_iter().chain(chosen.notes.clone()).collect();
        let fields = Fields::new(chosen, &columns, options);
        let memory = budget.reserve(0, "a file of the input")?;
        let count = if files.len() == 1 { reader.count() } else { None };
        let files = files.to_vec();
        let budget = budget.clone();
        let mut samples = TableSamples { files, file: 0, reader: None, fields, columns, count, notes, budget, memory };
        samples.start(reader)?;
        Ok(samples)
    }

    /// Starts with a file, whose columns must be those of the first.
    fn start(&mut self, mut reader: Box<dyn RecordReader>) -> Result<()> {
        let names = |columns: &[Column]| columns.iter().map(|column| column.name.clone()).collect::<Vec<_>>();
        let (expected, found) = (names(&self.columns), names(reader.columns()));
        if expected != found {
            return Err(InputError::new("the tables of the folder have different columns")
                .expected(expected.join(", "))
                .found(found.join(", "))
                .advice("open one of the tables instead of the folder")
                .into());
        }
        reader.select(self.fields.selected());
        self.reader = Some(reader);
        Ok(())
    }

    /// Moves to the next file; false if there is none.
    fn next_file(&mut self) -> Result<bool> {
        self.reader = None;
        self.file += 1;
        let Some(path) = self.files.get(self.file).cloned() else { return Ok(false) };
        let reader = open_records(&path, &self.budget)?;
        self.start(reader).in_file(&path)?;
        Ok(true)
    }

    fn item(&mut self, record: Record) -> Result<Item> {
        let cells = match record {
            Record::Corrupt(reason) => return Ok(Item::Corrupt(None, reason)),
            Record::Cells(cells) => cells,
        };
        let mut described = self.fields.sort(cells);
        let content = match self.fields.chosen.kind {
            ContentKind::Text => text_content(&mut described).map(|(content, words)| (content, None, words)),
            ContentKind::Image => {
                self.image_content(described.content.take())?.map(|(content, file)| (content, file, None))
            }
        };
        let id = described.id;
        Ok(match content {
            Err(reason) => Item::Corrupt(Some(id), reason),
            Ok((content, file, words)) => {
                let (caption, labels) = (described.caption, described.labels);
                Item::Sample(Box::new(Sample { position: 0, id, content, file, caption, labels, words, marked: None }))
            }
        })
    }

    /// An image from bytes, or from a path relative to the table, with that path.
    fn image_content(&mut self, cell: Option<Cell>) -> Result<std::result::Result<FoundImage, String>> {
        Ok(match cell {
            Some(Cell::Bytes(bytes)) => image(bytes).map(|content| (content, None)),
            Some(Cell::Text(path)) if !path.trim().is_empty() => {
                let table = self.files.get(self.file).and_then(|file| file.parent()).unwrap_or(Path::new(""));
                let path = table.join(path.trim());
                let named = |reason: String| format!("{reason}: {}", path.display());
                let content = read_file(&path, &mut self.memory)?.and_then(image).map_err(named);
                content.map(|content| (content, Some(path)))
            }
            _ => Err("there is no image".into()),
        })
    }
}

/// An image, and its file if it is one.
type FoundImage = (Content, Option<PathBuf>);

/// The text and the annotations of its words.
fn text_content(described: &mut Described) -> std::result::Result<(Content, Option<Words>), String> {
    let list = |cell: Option<Cell>| match cell {
        Some(Cell::List(list)) => Some(list),
        _ => None,
    };
    let words = list(described.words.take());
    let text = match described.content.take() {
        Some(Cell::Text(content)) => text(content.into_bytes())?,
        Some(Cell::Bytes(bytes)) => text(bytes)?,
        Some(Cell::List(_) | Cell::Nested) => return Err("the text is a list or an object".into()),
        Some(Cell::Null) => return Err("there is no text".into()),
        None => text(words.as_deref().map(|list| words::join(list).0).unwrap_or_default().into_bytes())?,
    };
    let (Some(list_of_words), Content::Text(found)) = (words, &text) else { return Ok((text, None)) };
    let spans = words::find(found, &list_of_words)?;
    let mut tags = Vec::new();
    for (name, cell) in std::mem::take(&mut described.word_tags) {
        tags.push((name, list(Some(cell)).unwrap_or_default()));
    }
    Ok((text, Some(words::annotate(spans, tags)?)))
}

impl Source for TableSamples {
    fn kind(&self) -> ContentKind {
        self.fields.chosen.kind
    }

    fn label_columns(&self) -> &[String] {
        &self.fields.label_columns
    }

    fn word_columns(&self) -> Vec<String> {
        self.fields.word_tags.clone()
    }

    fn count(&self) -> Option<u64> {
        self.count
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        // Images may be elsewhere, and change there.
        let chosen = &self.fields.chosen;
        let is_inside = |column: usize| self.columns[column].kind == CellKind::Bytes;
        let inside = chosen.kind == ContentKind::Text || chosen.content.is_some_and(is_inside);
        inside.then(|| self.files.clone())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn read(&mut self) -> Result<Option<Item>> {
        loop {
            let Some(reader) = &mut self.reader else { return Ok(None) };
            match reader.read()? {
                Some(record) => return self.item(record).map(Some),
                None if self.next_file()? => {}
                None => return Ok(None),
            }
        }
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        let Some(path) = self.files.first().cloned() else { return Ok(()) };
        self.file = 0;
        let reader = open_records(&path, &self.budget)?;
        self.start(reader).in_file(&path)?;
        let mut left = position;
        while let Some(reader) = &mut self.reader {
            left -= reader.skip(left)?;
            if left == 0 {
                break;
            }
            self.next_file()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::*;

    fn golden(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/records").join(name)
    }

    fn open(path: &Path, options: &InputOptions) -> Result<Input> {
        Input::open(path.to_str().unwrap(), options, &Budget::new(1 << 24))
    }

    fn samples(input: &mut Input) -> Vec<Sample> {
        let mut samples = Vec::new();
        while let Some(sample) = input.next().unwrap() {
            samples.push(sample);
        }
        samples
    }

    fn text_of(sample: &Sample) -> &str {
        let Content::Text(text) = &sample.content else { panic!("{sample:?}") };
        text
    }

    #[test]
    fn every_table_format_gives_the_same_texts() {
        let folder = tempfile::tempdir().unwrap();
        let csv = folder.path().join("t.csv");
        std::fs::write(&csv, "id,text\na,one\nb,\nc,\nd,a text of more than twelve bytes\ne,żółw\n").unwrap();
        let names = ["lz4.feather", "zstd.feather", "stream.arrow", "table.parquet"];
        for path in names.iter().map(|name| golden(name)).chain([csv]) {
            let mut input = open(&path, &InputOptions::default()).unwrap();
            let found = samples(&mut input);
            let texts: Vec<(u64, &str, &str)> =
                found.iter().map(|sample| (sample.position, sample.id.as_str(), text_of(sample))).collect();
            let expected = [(0, "a", "one"), (3, "d", "a text of more than twelve bytes"), (4, "e", "żółw")];
            assert_eq!(texts, expected, "{}", path.display());
            let skipped: Vec<&str> = input.skipped().iter().map(|skipped| skipped.id.as_str()).collect();
            assert_eq!(skipped, ["b", "c"]);
        }
    }

    #[test]
    fn labels_come_from_the_other_columns() {
        let mut input = open(&golden("table.parquet"), &InputOptions::default()).unwrap();
        let columns: Vec<&str> = input.label_columns().iter().map(String::as_str).collect();
        assert_eq!(columns, ["n", "score", "yes", "tags", "ids", "image.path", "class"]);
        let first = input.next().unwrap().unwrap();
        assert_eq!(first.labels[2..4], [Label::Value("true".into()), Label::Tags(vec!["x".into(), "y".into()])]);
        let last = samples(&mut input).pop().unwrap();
        assert_eq!(last.labels[5], Label::Missing);
        let options = InputOptions { label_columns: Some(vec!["class".into()]), ..InputOptions::default() };
        assert_eq!(open(&golden("table.parquet"), &options).unwrap().label_columns(), ["class"]);
    }

    #[test]
    fn images_are_bytes_or_paths_beside_the_table() {
        let options = InputOptions { kind: Some(ContentKind::Image), ..InputOptions::default() };
        let error = open(&golden("table.parquet"), &options).unwrap().next().unwrap_err().to_string();
        assert!(error.contains("none of the images") && error.contains("not a PNG"), "{error}");
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("pictures")).unwrap();
        std::fs::write(folder.path().join("pictures/a.png"), b"\x89PNG\r\n").unwrap();
        let table = folder.path().join("t.csv");
        std::fs::write(&table, "image,caption,kind\npictures/a.png,a bird,bird|red\nmissing.png,,\n").unwrap();
        let options = InputOptions { tag_columns: vec!["kind".into()], ..InputOptions::default() };
        let mut input = open(&table, &options).unwrap();
        let found = samples(&mut input);
        assert_eq!((input.kind(), found.len(), found[0].caption.as_deref()), (ContentKind::Image, 1, Some("a bird")));
        assert_eq!(found[0].labels, [Label::Tags(vec!["bird".into(), "red".into()])]);
        assert!(input.skipped()[0].reason.contains("missing.png"), "{:?}", input.skipped());
    }

    #[test]
    fn words_are_annotated() {
        let folder = tempfile::tempdir().unwrap();
        let table = folder.path().join("t.jsonl");
        let lines = [
            r#"{"text": "A bird.", "words": ["A", " bird", "."], "pos": ["det", "noun", "punct"], "genre": "news"}"#,
            r#"{"text": "A bird.", "words": ["A", "dog"], "pos": ["det", "noun"], "genre": "news"}"#,
            r#"{"text": "A", "words": ["A"], "pos": [], "genre": "news"}"#,
        ];
        std::fs::write(&table, lines.join("\n")).unwrap();
        let mut input = open(&table, &InputOptions::default()).unwrap();
        let found = samples(&mut input);
        let words = found[0].words.as_ref().unwrap();
        assert_eq!(
            (words.spans[1].clone(), words.tags[0].0.as_str(), words.tags[0].1[1].as_str()),
            (2..6, "pos", "noun")
        );
        assert!(input.skipped()[0].reason.contains("`dog`") && input.skipped()[1].reason.contains("`pos`"));
        assert_eq!(input.label_columns(), ["genre"]);
    }

    #[test]
    fn the_tables_of_a_folder_follow_one_another() {
        let folder = tempfile::tempdir().unwrap();
        for (name, lines) in
            [("b.jsonl", "{\"text\": \"3\"}\n"), ("a.jsonl", "{\"text\": \"1\"}\nx\n{\"text\": \"2\"}\n")]
        {
            std::fs::write(folder.path().join(name), lines).unwrap();
        }
        let mut input = open(folder.path(), &InputOptions::default()).unwrap();
        let texts: Vec<String> = samples(&mut input).iter().map(|sample| text_of(sample).to_string()).collect();
        assert_eq!(texts, ["1", "2", "3"]);
        for (position, expected) in
            [(0, Some("1")), (1, Some("2")), (2, Some("2")), (3, Some("3")), (4, None), (9, None)]
        {
            let mut input = open(folder.path(), &InputOptions::default()).unwrap();
            input.seek(position).unwrap();
            let sample = if position == 0 { input.next().unwrap() } else { input.next().unwrap_or(None) };
            assert_eq!(sample.as_ref().map(text_of), expected, "{position}");
        }
        let limited = InputOptions { limit: vec![3], ..InputOptions::default() };
        assert_eq!(samples(&mut open(folder.path(), &limited).unwrap()).len(), 2);
        std::fs::write(folder.path().join("c.jsonl"), "{\"other\": \"4\"}\n").unwrap();
        let mut input = open(folder.path(), &InputOptions::default()).unwrap();
        let error = std::iter::from_fn(|| input.next().transpose()).find_map(Result::err).unwrap().to_string();
        assert!(error.contains("different columns") && error.contains("c.jsonl"), "{error}");
    }

    #[test]
    fn the_same_samples_have_the_same_address() {
        use super::super::identity::input_id;
        let context = etalon::context::Context::silent(1, 1 << 24).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let id = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            input_id(path.to_str().unwrap(), &InputOptions::default(), &context).unwrap()
        };
        let first = id("a.csv", "id,text\na,one\nb,two\n");
        assert_eq!(first, id("b.jsonl", "{\"id\": \"a\", \"text\": \"one\"}\n{\"id\": \"b\", \"text\": \"two\"}\n"));
        assert_ne!(first, id("c.csv", "id,text\na,one\nb,tow\n"));
        assert_ne!(first, id("d.csv", "id,text\nb,two\na,one\n"));
    }
}
