//! Writes tables as CSV, quoted where needed.

use std::io::Write;
use std::path::Path;

use super::disk::NewFile;
use crate::context::Context;
use crate::error::{Error, Result};

/// Size of a write to disk.
const BUFFER: usize = 1 << 16;

/// Writes records of the same length to a file, one by one, until the user cancels; returns the hash of the file.
pub fn write_csv<R, C>(path: &Path, records: impl IntoIterator<Item = R>, context: &Context) -> Result<blake3::Hash>
where
    R: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let mut file = NewFile::create(path)?;
    let mut hash = blake3::Hasher::new();
    let mut writer =
        csv::WriterBuilder::new().buffer_capacity(BUFFER).from_writer(Hashed { file: &mut file, hash: &mut hash });
    let failed = |error: std::io::Error| Error::io("write", path)(error);
    for record in records {
        context.check()?;
        writer.write_record(record).map_err(|error| failed(error.into()))?;
    }
    writer.flush().map_err(failed)?;
    drop(writer);
    file.finish()?;
    Ok(hash.finalize())
}

/// A file and the hash of what is written to it.
struct Hashed<'a> {
    file: &'a mut NewFile,
    hash: &'a mut blake3::Hasher,
}

impl Write for Hashed<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.hash.update(bytes);
        Write::write(self.file, bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Write::flush(self.file)
    }
}

/// Formats records of the same length as CSV.
pub fn csv_text<R, C>(records: impl IntoIterator<Item = R>) -> Result<String>
where
    R: IntoIterator<Item = C>,
    C: AsRef<[u8]>,
{
    let bug = |error: String| Error::Bug(format!("a table to CSV: {error}"));
    let mut writer = csv::Writer::from_writer(Vec::new());
    records.into_iter().try_for_each(|record| writer.write_record(record)).map_err(|error| bug(error.to_string()))?;
    let bytes = writer.into_inner().map_err(|error| bug(error.to_string()))?;
    String::from_utf8(bytes).map_err(|error| bug(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::{csv_text, write_csv};
    use crate::context::Context;

    #[test]
    fn quotes_only_where_needed() {
        let text = csv_text([["name", "value"], ["a b", "-0.5"], ["a,\"b\"", ""], ["two\nlines", "x"]]).unwrap();
        assert_eq!(text, "name,value\na b,-0.5\n\"a,\"\"b\"\"\",\n\"two\nlines\",x\n");
        assert!(csv_text([&["a"][..], &["a", "b"]]).unwrap_err().to_string().contains("CSV"));
        assert_eq!(csv_text([[""; 0]; 0]).unwrap(), "");
    }

    #[test]
    fn files_are_written_record_by_record() {
        let folder = tempfile::tempdir().unwrap();
        let (file, context) = (folder.path().join("x.csv"), Context::silent(1, 0).unwrap());
        let records = || (0..40_000).map(|row| [row.to_string(), "a,b".into()]);
        let hash = write_csv(&file, records(), &context).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!((blake3::hash(text.as_bytes()), &text), (hash, &csv_text(records()).unwrap()));
        context.cancel();
        assert!(write_csv(&folder.path().join("y.csv"), records(), &context).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
