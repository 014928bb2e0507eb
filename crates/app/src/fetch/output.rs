//! The files of an entry while it is converted.

use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use etalon::context::{Budget, Context};
use etalon::error::{Error, Result};
use etalon::store::disk::{self, NewFile};
use etalon::store::{csv_text, npy_header};
use etalon_models::data::{ConceptOptions, Concepts, Part};

/// Bytes that are written at a time.
const BLOCK: usize = 1 << 20;

/// The files, parts and counts of an entry.
pub(super) struct Output<'a> {
    directory: PathBuf,
    parts: Vec<Part>,
    counts: Vec<(String, u64)>,
    context: &'a Context,
}

/// A file that is written in blocks.
pub(super) struct OutputFile {
    file: BufWriter<NewFile>,
    path: PathBuf,
}

impl OutputFile {
    /// Appends bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(Error::io("write", &self.path))
    }

    /// Appends a value as a line of JSON.
    pub fn json(&mut self, value: &serde_json::Value) -> Result<()> {
        self.write(format!("{value}\n").as_bytes())
    }

    /// Makes the file durable and gives it its name.
    pub fn finish(self) -> Result<()> {
        let file = self.file.into_inner().map_err(|error| Error::io("write", &self.path)(error.into_error()))?;
        file.finish()
    }
}

impl<'a> Output<'a> {
    /// The files of a directory.
    pub fn new(directory: PathBuf, context: &'a Context) -> Output<'a> {
        Output { directory, parts: Vec::new(), counts: Vec::new(), context }
    }

    /// The parts and the counts.
    pub fn finish(self) -> (Vec<Part>, Vec<(String, u64)>) {
        (self.parts, self.counts)
    }

    /// The memory limit.
    pub fn budget(&self) -> &Budget {
        self.context.budget()
    }

    /// Stops if the user cancelled.
    pub fn check(&self) -> Result<()> {
        self.context.check()
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Starts a file.
    pub fn create(&self, name: &str) -> Result<OutputFile> {
        let path = self.path(name);
        Ok(OutputFile { file: BufWriter::with_capacity(BLOCK, NewFile::create(&path)?), path })
    }

    /// Writes a file.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<()> {
        disk::write(&self.path(name), bytes)
    }

    /// Writes a file of known length from a reader.
    pub fn copy(&self, name: &str, from: &mut dyn Read, length: u64) -> Result<()> {
        let mut file = self.create(name)?;
        let mut block = vec![0; BLOCK];
        let mut left = length;
        while left > 0 {
            self.check()?;
            let count = left.min(BLOCK as u64) as usize;
            from.read_exact(&mut block[..count]).map_err(|error| super::archive::damaged(Path::new(name), error))?;
            file.write(&block[..count])?;
            left -= count as u64;
        }
        file.finish()
    }

    /// Writes a table as CSV.
    pub fn csv<R, C>(&self, name: &str, records: impl IntoIterator<Item = R>) -> Result<()>
    where
        R: IntoIterator<Item = C>,
        C: AsRef<[u8]>,
    {
        self.write(name, csv_text(records)?.as_bytes())
    }

    /// Starts an array of bytes; `shape` is in the notation of numpy.
    pub fn pixels(&self, name: &str, shape: &str) -> Result<OutputFile> {
        let mut file = self.create(name)?;
        file.write(&npy_header("|u1", shape))?;
        Ok(file)
    }

    /// Writes labels; returns the number of concepts.
    pub fn labels(&self, name: &str, labels: Concepts, options: &ConceptOptions<'_>) -> Result<u64> {
        let table = labels.finish(options)?;
        self.write(name, table.to_csv()?.as_bytes())?;
        Ok(table.labels.concepts() as u64)
    }

    /// Adds something that can be opened, with its labels.
    pub fn part(&mut self, name: &str, path: &str, labels: Option<&str>) {
        let labels = labels.map(str::to_string);
        self.parts.push(Part { name: name.into(), path: path.into(), labels, pairs: None });
    }

    /// Adds pairs to the last part.
    pub fn pairs(&mut self, path: &str) {
        if let Some(part) = self.parts.last_mut() {
            part.pairs = Some(path.into());
        }
    }

    /// Adds a number to report.
    pub fn count(&mut self, what: &str, number: u64) {
        self.counts.push((what.into(), number));
    }
}
