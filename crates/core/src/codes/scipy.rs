//! Writes codes as `scipy.sparse.save_npz` does: an archive of the arrays of a CSR matrix.

use std::io::{BufWriter, Error as IoError, Seek, Write};
use std::path::Path;

use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use super::{Codes, CodesView};
use crate::error::{Error, Result};
use crate::store::{disk::NewFile, npy_header};

impl Codes {
    /// Writes an `.npz` file that `scipy.sparse.load_npz` reads.
    pub fn save_npz(&self, path: &Path) -> Result<()> {
        let failed = |error: IoError| Error::io("write an archive", path)(error);
        let mut archive = ZipWriter::new_stream(BufWriter::new(NewFile::create(path)?));
        write_arrays(&mut archive, self.all()?, self.latents()).map_err(failed)?;
        let file = archive.finish().map_err(|error| failed(error.into()))?.into_inner();
        file.into_inner().map_err(|error| failed(error.into_error()))?.finish()
    }
}

fn write_arrays<W: Write + Seek>(
    archive: &mut ZipWriter<W>,
    codes: CodesView<'_>,
    latents: usize,
) -> Result<(), IoError> {
    let (rows, indices, values) = (codes.rows(), codes.latents(), codes.values());
    // scipy has 32-bit indices if all numbers fit.
    let narrow = i32::try_from(values.len()).is_ok() && i32::try_from(latents).is_ok();
    let integers = if narrow { "<i4" } else { "<i8" };
    let write = |archive: &mut ZipWriter<W>, number: u64| {
        let bytes = number.to_le_bytes();
        archive.write_all(if narrow { &bytes[..4] } else { &bytes })
    };
    start(archive, "format", "|S3", "()")?;
    archive.write_all(b"csr")?;
    start(archive, "shape", "<i8", "(2,)")?;
    archive.write_all(&[rows as u64, latents as u64].map(u64::to_le_bytes).concat())?;
    start(archive, "indptr", integers, &format!("({},)", rows + 1))?;
    for row in 0..rows {
        write(archive, codes.entries(row).start as u64)?;
    }
    write(archive, values.len() as u64)?;
    start(archive, "indices", integers, &format!("({},)", indices.len()))?;
    indices.iter().try_for_each(|&index| write(archive, index.into()))?;
    start(archive, "data", "<f4", &format!("({},)", values.len()))?;
    archive.write_all(bytemuck::cast_slice(values))
}

/// Starts an array of the archive.
fn start<W: Write + Seek>(archive: &mut ZipWriter<W>, name: &str, kind: &str, shape: &str) -> Result<(), IoError> {
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored).large_file(true);
    archive.start_file(format!("{name}.npy"), options)?;
    archive.write_all(&npy_header(kind, shape))
}

#[cfg(test)]
mod tests {
    use crate::codes::CodesBuilder;
    use crate::context::Budget;
    use crate::input::{Source, read_sparse};

    #[test]
    fn written_codes_are_read_back() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("z.npz");
        let mut codes = CodesBuilder::new(5);
        codes.push(&[1, 4], &[0.5, -2.0]).unwrap();
        codes.push(&[], &[]).unwrap();
        codes.push(&[0], &[3.0]).unwrap();
        codes.finish().save_npz(&path).unwrap();
        let source = Source { path, key: None };
        let sparse = read_sparse(&source, &Budget::new(1 << 20)).unwrap().unwrap();
        assert_eq!((sparse.rows, sparse.columns), (3, 5));
        assert_eq!((sparse.offsets, sparse.indices), (vec![0, 2, 2, 3], vec![1, 4, 0]));
        assert_eq!(sparse.values, [0.5, -2.0, 3.0]);
    }
}
