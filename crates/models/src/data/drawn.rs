//! The samples that were drawn from a published data set.

use std::path::{Path, PathBuf};

use etalon::context::Budget;
use etalon::error::{InputError, Key, Result};
use etalon::input::{Cell, Record, RecordReader, open_records};

use super::draw::{ChosenRecord, Draw, TableColumns, draw};
use super::files::text;
use super::folder::{Folder, FolderFiles};
use super::input::{Item, Source};
use super::layouts::DataLayout;
use super::options::{ContentKind, InputOptions};
use super::sample::{Content, Label, Sample};

/// Samples of a published data set.
pub(super) struct DrawnSamples {
    layout: &'static DataLayout,
    files: Vec<PathBuf>,
    options: InputOptions,
    draw: Draw,
    next: usize,
    /// The open file, by its number, and its next record.
    open: Option<(u32, u64, Box<dyn RecordReader>)>,
    label_columns: Vec<String>,
    budget: Budget,
}

impl DrawnSamples {
    /// Draws the samples of a data set in a folder or file.
    pub fn open(
        layout: &'static DataLayout,
        path: &Path,
        options: &InputOptions,
        budget: &Budget,
    ) -> Result<DrawnSamples> {
        let files = if path.is_dir() {
            match Folder::list(path, &InputOptions::default(), budget)?.files {
                FolderFiles::Tables(files) => files,
                FolderFiles::Samples(..) => {
                    return Err(InputError::new(format!("the folder has no tables of `{}`", layout.name))
                        .expected("parquet or JSONL files as they are published")
                        .file(path)
                        .into());
                }
            }
        } else {
            vec![path.to_path_buf()]
        };
        let all: Vec<String> = std::iter::once(layout.class_column).chain(layout.group).map(String::from).collect();
        if let Some(unknown) = options.label_columns.iter().flatten().find(|name| !all.contains(name))
            && !options.any_labels
        {
            let known: Vec<&str> = all.iter().map(String::as_str).collect();
            let error = InputError::new(format!("`{}` has no labels `{unknown}`", layout.name));
            return Err(error
                .advice(format!("{} takes names of labels", Key("label-columns")))
                .one_of(unknown, &known)
                .into());
        }
        let is_asked = |name: &String| options.label_columns.as_ref().is_none_or(|names| names.contains(name));
        let label_columns = all.into_iter().filter(is_asked).collect();
        let draw = draw(layout, path, &files, options, budget)?;
        let (options, budget) = (options.clone(), budget.clone());
        Ok(DrawnSamples { layout, files, options, draw, next: 0, open: None, label_columns, budget })
    }

    /// The text of a record.
    fn text(&mut self, record: &ChosenRecord) -> Result<std::result::Result<Content, String>> {
        let at = record.at;
        let is_behind = |(file, next, _): &(u32, u64, Box<dyn RecordReader>)| *file == at.file && *next <= at.record;
        let mut open = match self.open.take().filter(is_behind) {
            Some(open) => open,
            None => {
                let file = self.files.get(at.file as usize).cloned().unwrap_or_default();
                let mut reader = open_records(&file, &self.budget)?;
                let columns = TableColumns::find(&*reader, &file, self.layout, &self.options)?;
                reader.select(&[columns.text]);
                (at.file, 0, reader)
            }
        };
        open.2.skip(at.record - open.1)?;
        open.1 = at.record + 1;
        let found = open.2.read()?;
        self.open = Some(open);
        Ok(match found {
            Some(Record::Cells(cells)) => match cells.into_iter().next() {
                Some(Cell::Text(content)) => text(self.cut(&content).as_bytes().to_vec()),
                _ => Err("there is no text".into()),
            },
            Some(Record::Corrupt(reason)) => Err(reason),
            None => Err("the file has changed".into()),
        })
    }

    /// The text without its first characters.
    fn cut<'a>(&self, text: &'a str) -> &'a str {
        let start = text.char_indices().nth(self.layout.cut).map_or(text.len(), |(start, _)| start);
        if self.layout.cut == 0 { text } else { text.get(start..).unwrap_or_default() }
    }
}

impl Source for DrawnSamples {
    fn kind(&self) -> ContentKind {
        ContentKind::Text
    }

    fn label_columns(&self) -> &[String] {
        &self.label_columns
    }

    fn count(&self) -> Option<u64> {
        Some(self.draw.chosen.len() as u64)
    }

    fn notes(&self) -> Vec<String> {
        self.draw.notes.clone()
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        // What is drawn also depends on the name of the data set.
        None
    }

    fn read(&mut self) -> Result<Option<Item>> {
        let Some(record) = self.draw.chosen.get(self.next).cloned() else { return Ok(None) };
        self.next += 1;
        let file = self.files.get(record.at.file as usize).and_then(|file| file.file_stem()).unwrap_or_default();
        let id = format!("{}:{}", file.to_string_lossy(), record.at.record);
        let content = match self.text(&record)? {
            Ok(content) => content,
            Err(reason) => return Ok(Some(Item::Corrupt(Some(id), reason))),
        };
        let value = |name: &String| match &record.group {
            Some(group) if Some(name.as_str()) == self.layout.group => Label::Value(group.clone()),
            _ if name == self.layout.class_column => Label::Value(record.class.clone()),
            _ => Label::Missing,
        };
        let labels = self.label_columns.iter().map(value).collect();
        Ok(Some(Item::Sample(Box::new(Sample {
            position: 0,
            id,
            content,
            file: None,
            caption: None,
            labels,
            words: None,
            marked: None,
        }))))
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        (self.next, self.open) = (usize::try_from(position).unwrap_or(usize::MAX), None);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use super::super::Input;
    use super::*;

    struct Files(tempfile::TempDir);

    impl Files {
        fn new() -> Files {
            Files(tempfile::tempdir().unwrap())
        }

        /// Writes lines of JSON.
        fn write(&self, name: &str, count: usize, line: impl Fn(usize) -> serde_json::Value) {
            let path = self.0.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            let mut text = String::new();
            (0..count).for_each(|index| writeln!(text, "{}", line(index)).unwrap());
            std::fs::write(path, text).unwrap();
        }

        fn open(&self, layout: &str, options: &InputOptions) -> Result<Input> {
            Input::open(&format!("{layout}:{}", self.0.path().display()), options, &Budget::new(1 << 24))
        }

        fn samples(&self, layout: &str, options: &InputOptions) -> Vec<Sample> {
            let mut input = self.open(layout, options).unwrap();
            let mut found = Vec::new();
            while let Some(sample) = input.next().unwrap() {
                found.push(sample);
            }
            assert_eq!(input.skipped(), []);
            found
        }
    }

    fn text_of(sample: &Sample) -> &str {
        let Content::Text(text) = &sample.content else { panic!("{sample:?}") };
        text
    }

    /// How many samples have these labels.
    fn counts(samples: &[Sample]) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for sample in samples {
            let label = |label: &Label| match label {
                Label::Value(value) => value.clone(),
                other => format!("{other:?}"),
            };
            let key: Vec<String> = sample.labels.iter().map(label).collect();
            *counts.entry(key.join(" ")).or_insert(0) += 1;
        }
        counts
    }

    fn options(per_class: u64, classes: &[&str]) -> InputOptions {
        let classes = classes.iter().map(|class| class.to_string()).collect();
        InputOptions { per_class: Some(per_class), classes, ..InputOptions::default() }
    }

    /// Professions 0 to 2, the last one with few women.
    fn bios() -> Files {
        let files = Files::new();
        for (part, count) in [("train", 300), ("test", 90), ("dev", 30)] {
            files.write(&format!("data/{part}-00000-of-00001.jsonl"), count, |index| {
                let profession = index % 3;
                let gender = usize::from(if profession == 2 { index % 30 == 2 } else { index / 3 % 2 == 1 });
                serde_json::json!({"hard_text": format!("{part} {index}"), "profession": profession, "gender": gender})
            });
        }
        files
    }

    #[test]
    fn biographies_are_balanced_by_gender_and_keep_their_parts() {
        let files = bios();
        let found = files.samples("bias_in_bios", &options(40, &[]));
        // 20 of each gender: 16 from the training part, 4 from the test part. Profession 2 has 10 + 3 women.
        let expected = ["accountant female", "accountant male", "architect female", "architect male"];
        assert_eq!(counts(&found), expected.map(|key| (key.to_string(), 20)).into_iter().collect());
        let of_part = |part: &str| found.iter().filter(|sample| text_of(sample).starts_with(part)).count();
        assert_eq!([of_part("train "), of_part("test "), of_part("dev ")], [64, 16, 0]);
        let mut input = files.open("bias_in_bios", &options(40, &[])).unwrap();
        assert_eq!(input.notes()[0], "classes with too few texts are left out: attorney");
        assert_eq!(input.label_columns(), ["profession", "gender"]);
        // The same seed draws the same, another one does not; an interrupted capture continues.
        let texts = |found: &[Sample]| found.iter().map(|sample| text_of(sample).to_string()).collect::<Vec<_>>();
        assert_eq!(texts(&found), texts(&files.samples("bias_in_bios", &options(40, &[]))));
        assert_ne!(texts(&found), texts(&files.samples("bias_in_bios", &InputOptions { seed: 1, ..options(40, &[]) })));
        input.seek(70).unwrap();
        assert_eq!(text_of(&input.next().unwrap().unwrap()), text_of(&found[70]));
        // Texts are those of the labels.
        for sample in &found {
            let index: usize = text_of(sample).split(' ').nth(1).unwrap().parse().unwrap();
            let class = ["accountant", "architect"][index % 3];
            assert_eq!(sample.labels[0], Label::Value(class.into()));
        }
    }

    #[test]
    fn classes_are_chosen_by_number_or_name() {
        let files = bios();
        for class in ["1", "architect"] {
            let found = files.samples("bias_in_bios", &options(10, &[class]));
            assert_eq!(counts(&found).keys().collect::<Vec<_>>(), ["architect female", "architect male"]);
        }
        let labels = InputOptions { label_columns: Some(vec!["profession".into()]), ..options(10, &["0", "1"]) };
        assert_eq!(
            counts(&files.samples("bias_in_bios", &labels)).keys().collect::<Vec<_>>(),
            ["accountant", "architect"]
        );
        let error = |options: &InputOptions| files.open("bias_in_bios", options).map(drop).unwrap_err().to_string();
        assert!(error(&options(10, &["9"])).contains("no class `filmmaker`"), "{}", error(&options(10, &["9"])));
        assert!(error(&options(5000, &[])).contains("no class of `bias_in_bios` has enough texts"));
        let wrong = InputOptions { label_columns: Some(vec!["gendre".into()]), ..options(10, &[]) };
        assert!(error(&wrong).contains("did you mean `gender`"), "{}", error(&wrong));
        let error = files.open("ag_news", &options(10, &[])).map(drop).unwrap_err().to_string();
        assert!(error.contains("not one of `ag_news`") && error.contains("no column `text`"), "{error}");
    }

    #[test]
    fn reviews_and_news_have_their_labels() {
        let files = Files::new();
        let review = |index: usize| serde_json::json!({"text": format!("review {index}"), "category": index % 4, "rating": if (index / 4).is_multiple_of(2) { 1.0 } else { 5.0 }});
        files.write("train.jsonl", 160, review);
        files.write("test.jsonl", 80, review);
        let found = files.samples("amazon_reviews", &options(10, &["1", "3"]));
        let expected = ["category_1 five_stars", "category_1 one_star", "category_3 five_stars", "category_3 one_star"];
        assert_eq!(counts(&found), expected.map(|key| (key.to_string(), 5)).into_iter().collect());
        let found = files.samples("amazon_sentiment", &options(20, &[]));
        assert_eq!(counts(&found), [("five_stars".to_string(), 20), ("one_star".into(), 20)].into_iter().collect());
        let news = Files::new();
        news.write("all.jsonl", 100, |index| serde_json::json!({"text": format!("n {index}"), "label": index % 4}));
        let found = news.samples("ag_news", &options(25, &[]));
        assert_eq!(
            counts(&found).into_iter().collect::<Vec<_>>(),
            [("business".to_string(), 25), ("science".into(), 25), ("sports".into(), 25), ("world".into(), 25)]
        );
    }

    #[test]
    fn languages_come_from_the_first_records() {
        let files = Files::new();
        for pair in ["de-en", "en-fr"] {
            let (one, other) = pair.split_once('-').unwrap();
            files.write(
                &format!("{pair}/train-00000-of-00001.jsonl"),
                50,
                |index| serde_json::json!({one: format!("{one} {index}"), other: format!("{other} {index}")}),
            );
        }
        let found = files.samples("europarl", &options(20, &[]));
        assert_eq!(counts(&found), [("de".to_string(), 20), ("en".into(), 20)].into_iter().collect());
        for sample in &found {
            let (language, index) = text_of(sample).split_once(' ').unwrap();
            assert_eq!(sample.labels, [Label::Value(language.into())]);
            assert!(index.parse::<usize>().unwrap() < 21, "{index}");
        }
    }

    #[test]
    fn programs_lose_their_beginning() {
        let files = Files::new();
        let head = "é".repeat(150);
        files.write("x.jsonl", 60, |index| {
            let long = format!("{head}{index} {}", "x".repeat(400));
            let code = if index % 3 == 0 { "short".to_string() } else { long };
            let language = ["C", "Python", "Rust"][index / 3 % 3];
            serde_json::json!({"code": code, "language": language, "path": "p"})
        });
        let found = files.samples("github_code", &options(10, &["C", "Python"]));
        assert_eq!(counts(&found), [("C".to_string(), 10), ("Python".into(), 10)].into_iter().collect());
        for sample in &found {
            let index: usize = text_of(sample).split(' ').next().unwrap().parse().unwrap();
            assert!(!index.is_multiple_of(3) && text_of(sample).ends_with('x'), "{index}");
        }
    }
}
