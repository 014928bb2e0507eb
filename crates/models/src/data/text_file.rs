//! A text file whose lines are samples. Empty lines are not.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::{Error, InputError, Result};
use etalon::input::open_regular;

use super::files::text;
use super::input::{Item, Source};
use super::options::ContentKind;
use super::sample::Sample;

/// Maximum length of a line in bytes.
const LONGEST_LINE: u64 = 1 << 26;

/// The lines of a text file.
pub(super) struct LineSamples {
    reader: BufReader<File>,
    line: u64,
    path: PathBuf,
    /// The longest line so far.
    memory: Reservation,
}

impl LineSamples {
    pub fn open(path: &Path, budget: &Budget) -> Result<LineSamples> {
        let (file, _) = open_regular(path)?;
        let memory = budget.reserve(0, "a line of the input")?;
        Ok(LineSamples { reader: BufReader::with_capacity(1 << 16, file), line: 0, path: path.to_path_buf(), memory })
    }

    /// The next line that is not empty.
    fn advance(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            let mut bytes = Vec::new();
            let read = (&mut self.reader).take(LONGEST_LINE + 1).read_until(b'\n', &mut bytes);
            if read.map_err(Error::io("read the file", &self.path))? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if bytes.len() as u64 > LONGEST_LINE {
                return Err(InputError::new("a line is too long")
                    .expected(format!("at most {LONGEST_LINE} bytes"))
                    .at(format!("line {}", self.line))
                    .advice("read the file as one text instead of one text per line")
                    .file(&self.path)
                    .into());
            }
            if bytes.capacity() as u64 > self.memory.bytes() {
                self.memory.resize(bytes.capacity() as u64, "a line of the input")?;
            }
            while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
                bytes.pop();
            }
            if !bytes.trim_ascii().is_empty() {
                return Ok(Some(bytes));
            }
        }
    }
}

impl Source for LineSamples {
    fn kind(&self) -> ContentKind {
        ContentKind::Text
    }

    fn label_columns(&self) -> &[String] {
        &[]
    }

    fn count(&self) -> Option<u64> {
        None
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        Some(vec![self.path.clone()])
    }

    fn notes(&self) -> Vec<String> {
        Vec::new()
    }

    fn read(&mut self) -> Result<Option<Item>> {
        let Some(bytes) = self.advance()? else { return Ok(None) };
        let sample = |content| Sample {
            position: 0,
            id: String::new(),
            content,
            file: None,
            caption: None,
            labels: Vec::new(),
            words: None,
            marked: None,
        };
        Ok(Some(match text(bytes) {
            Ok(content) => Item::Sample(Box::new(sample(content))),
            Err(reason) => Item::Corrupt(None, format!("line {}: {reason}", self.line)),
        }))
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.reader.seek(SeekFrom::Start(0)).map_err(Error::io("read the file", &self.path))?;
        self.line = 0;
        for _ in 0..position {
            if self.advance()?.is_none() {
                break;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::input::Input;
    use super::super::options::InputOptions;
    use super::super::sample::Content;
    use super::*;

    #[test]
    fn lines_or_the_whole_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.txt");
        std::fs::write(&path, b"\xef\xbb\xbfone\r\n\n\xff\n two").unwrap();
        let open = |lines: bool| {
            let options = InputOptions { lines, ..InputOptions::default() };
            Input::open(path.to_str().unwrap(), &options, &Budget::new(1 << 20)).unwrap()
        };
        let mut input = open(true);
        let mut texts = Vec::new();
        while let Some(sample) = input.next().unwrap() {
            let Content::Text(text) = sample.content else { panic!() };
            texts.push((sample.id, text));
        }
        assert_eq!(texts, [("0".to_string(), "one".to_string()), ("2".into(), " two".into())]);
        assert_eq!(input.skipped()[0].reason, "line 3: not UTF-8 text (byte 0)");
        let mut input = open(true);
        input.seek(2).unwrap();
        assert_eq!(input.next().unwrap().unwrap().position, 2);
        assert!(open(false).next().unwrap_err().to_string().contains("not UTF-8"));
    }
}
