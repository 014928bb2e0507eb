//! Several inputs, one after the other.

use std::path::PathBuf;

use etalon::error::{InputError, Result};

use super::input::{Item, Source};
use super::options::ContentKind;
use super::sample::Label;

/// The samples of several inputs. A sample has the label columns of all inputs; those of another input are missing.
pub(super) struct Joined {
    parts: Vec<JoinedPart>,
    /// The input that is read.
    current: usize,
    label_columns: Vec<String>,
}

struct JoinedPart {
    source: Box<dyn Source>,
    /// Where each label of a sample is among those of all inputs.
    columns: Vec<usize>,
    /// Items that were read.
    read: u64,
}

impl Joined {
    /// Joins inputs of the same kind.
    pub fn new(sources: Vec<Box<dyn Source>>) -> Result<Joined> {
        let mut label_columns: Vec<String> = Vec::new();
        let mut parts: Vec<JoinedPart> = Vec::new();
        for source in sources {
            let kind = source.kind();
            if let Some(first) = parts.first().map(|part| part.source.kind()).filter(|first| *first != kind) {
                return Err(InputError::new("the inputs are of different kinds")
                    .expected(first.plural())
                    .found(kind.plural())
                    .advice("capture texts and images separately")
                    .into());
            }
            let mut columns = Vec::new();
            for name in source.label_columns() {
                let known = label_columns.iter().position(|other| other == name);
                columns.push(known.unwrap_or(label_columns.len()));
                if known.is_none() {
                    label_columns.push(name.clone());
                }
            }
            parts.push(JoinedPart { source, columns, read: 0 });
        }
        Ok(Joined { parts, current: 0, label_columns })
    }
}

impl Source for Joined {
    fn kind(&self) -> ContentKind {
        self.parts.first().map_or(ContentKind::Text, |part| part.source.kind())
    }

    fn label_columns(&self) -> &[String] {
        &self.label_columns
    }

    fn word_columns(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.source.word_columns()).collect()
    }

    fn count(&self) -> Option<u64> {
        self.parts.iter().map(|part| part.source.count()).sum()
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        let files: Option<Vec<Vec<PathBuf>>> = self.parts.iter().map(|part| part.source.files()).collect();
        Some(files?.concat())
    }

    fn notes(&self) -> Vec<String> {
        self.parts.iter().flat_map(|part| part.source.notes()).collect()
    }

    fn read(&mut self) -> Result<Option<Item>> {
        while let Some(part) = self.parts.get_mut(self.current) {
            let Some(item) = part.source.read()? else {
                self.current += 1;
                continue;
            };
            // An item without an id has its position in its own input.
            let position = part.read.to_string();
            part.read += 1;
            return Ok(Some(match item {
                Item::Sample(mut sample) => {
                    let mut labels = vec![Label::Missing; self.label_columns.len()];
                    for (label, &column) in sample.labels.drain(..).zip(&part.columns) {
                        labels[column] = label;
                    }
                    sample.labels = labels;
                    if sample.id.is_empty() {
                        sample.id = position;
                    }
                    Item::Sample(sample)
                }
                Item::Corrupt(id, reason) => Item::Corrupt(id.filter(|id| !id.is_empty()).or(Some(position)), reason),
            }));
        }
        Ok(None)
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        let mut left = position;
        self.current = 0;
        for part in &mut self.parts {
            (part.read, _) = (0, part.source.seek(0)?);
        }
        // The number of items is not always known: items are read until the position is found.
        while left > 0 {
            let Some(part) = self.parts.get_mut(self.current) else { break };
            match part.source.count() {
                Some(count) if count <= left => {
                    left -= count;
                    self.current += 1;
                }
                Some(_) => {
                    part.source.seek(left)?;
                    (part.read, left) = (left, 0);
                }
                None => match self.read()? {
                    Some(_) => left -= 1,
                    None => break,
                },
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etalon::context::Budget;

    use super::super::{Content, Input, InputOptions};
    use super::*;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        let lines = |n: usize, line: &dyn Fn(usize) -> String| (0..n).map(line).collect::<String>();
        write(
            "a.jsonl",
            &lines(5, &|i| format!("{{\"text\":\"a{i}\",\"class\":\"c{}\",\"long\":{}}}\n", i % 2, i % 2)),
        );
        write("b.csv", &format!("id,text,mood\n{}", lines(4, &|i| format!("x{i},b{i},m{}\n", i % 3))));
        write("image.npy", "");
        folder
    }

    fn open(folder: &tempfile::TempDir, names: &[&str], options: &InputOptions) -> Result<Input> {
        let names: Vec<String> = names.iter().map(|name| folder.path().join(name).display().to_string()).collect();
        Input::open(&names.join(","), options, &Budget::new(1 << 24))
    }

    fn texts(input: &mut Input) -> Vec<String> {
        let mut found = Vec::new();
        while let Some(sample) = input.next().unwrap() {
            let Content::Text(text) = sample.content else { panic!() };
            found.push(format!("{}:{}:{text}", sample.position, sample.id));
        }
        found
    }

    #[test]
    fn inputs_follow_each_other_with_all_label_columns() {
        let folder = folder();
        let mut input = open(&folder, &["a.jsonl", "b.csv"], &InputOptions::default()).unwrap();
        assert_eq!(input.label_columns(), ["class", "long", "mood"]);
        let first = input.next().unwrap().unwrap();
        assert_eq!(first.labels, [Label::Value("c0".into()), Label::Value("0".into()), Label::Missing]);
        input.seek(6).unwrap();
        let second = input.next().unwrap().unwrap();
        assert_eq!((second.id.as_str(), &second.labels[..2]), ("x1", &[Label::Missing, Label::Missing][..]));
        assert_eq!(second.labels[2], Label::Value("m1".into()));
        // A column that only one of the inputs has can be chosen.
        let chosen = InputOptions { label_columns: Some(vec!["mood".into(), "class".into()]), ..Default::default() };
        assert_eq!(open(&folder, &["a.jsonl", "b.csv"], &chosen).unwrap().label_columns(), ["class", "mood"]);
        let wrong = InputOptions { label_columns: Some(vec!["nothing".into()]), ..Default::default() };
        assert!(open(&folder, &["a.jsonl", "b.csv"], &wrong).is_err_and(|error| error.to_string().contains("nothing")));
    }

    #[test]
    fn every_input_has_its_own_step_and_limit() {
        let folder = folder();
        let options = InputOptions { every: vec![2, 3], ..InputOptions::default() };
        let mut input = open(&folder, &["a.jsonl", "b.csv"], &options).unwrap();
        let all = ["0:0:a0", "1:1:a2", "2:2:a4", "3:x0:b0", "4:x3:b3"];
        assert_eq!(texts(&mut input), all);
        for position in 0..6 {
            let mut later = open(&folder, &["a.jsonl", "b.csv"], &options).unwrap();
            later.seek(position).unwrap();
            assert_eq!(texts(&mut later), all[position as usize..], "{position}");
        }
        let options = InputOptions { limit: vec![1, 2], ..InputOptions::default() };
        let mut input = open(&folder, &["b.csv", "a.jsonl"], &options).unwrap();
        assert_eq!(texts(&mut input), ["0:x0:b0", "1:0:a0", "2:1:a1"]);
        let options = InputOptions { limit: vec![1, 2], ..InputOptions::default() };
        let error = open(&folder, &["a.jsonl"], &options).map(drop).unwrap_err().to_string();
        assert!(error.contains("limit") && error.contains("2 numbers"), "{error}");
    }
}
