//! Finished parts of a capture: a file per part, with the rows of all sites.

use std::path::{Path, PathBuf};

use etalon::context::{Context, Reserved};
use etalon::error::{Error, InFile, InputError, Result};
use etalon::input::{RowReader, Shape};
use etalon::store::disk;

/// The directory of parts. A part is a file: the number of rows, the sample of every row, the rows of every site, and a
/// checksum.
#[derive(Debug)]
pub(super) struct Parts {
    directory: PathBuf,
    sites: usize,
}

impl Parts {
    /// Opens the directory of a capture. Parts of another capture are removed.
    pub fn open(directory: &Path, id: &str, sites: usize) -> Result<Parts> {
        let owner = directory.join("id");
        let same = disk::read(&owner).is_ok_and(|bytes| bytes == id.as_bytes());
        if !same && directory.exists() {
            std::fs::remove_dir_all(directory).map_err(Error::io("remove the parts of another capture", directory))?;
        }
        if !same {
            disk::make_directory(directory)?;
            disk::write(&owner, id.as_bytes())?;
        }
        Ok(Parts { directory: directory.to_path_buf(), sites })
    }

    fn path(&self, part: usize) -> PathBuf {
        self.directory.join(format!("{part:06}"))
    }

    /// The rows of a part, if it is finished and undamaged.
    pub fn rows(&self, part: usize) -> Option<usize> {
        self.read(part).ok().map(|part| part.samples.len())
    }

    /// Writes a part: the sample of every row, and per site its rows.
    pub fn write(&self, part: usize, samples: &[u32], sites: &[Vec<f32>]) -> Result<()> {
        let mut bytes = (samples.len() as u64).to_le_bytes().to_vec();
        bytes.extend_from_slice(bytemuck::cast_slice(samples));
        for rows in sites {
            bytes.extend((rows.len() as u64).to_le_bytes());
            bytes.extend_from_slice(bytemuck::cast_slice(rows));
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        disk::write(&self.path(part), &bytes)
    }

    fn read(&self, part: usize) -> Result<Part> {
        let path = self.path(part);
        let bytes = disk::read(&path).map_err(Error::io("read a part of a capture", &path))?;
        parse(&bytes, self.sites).in_file(&path)
    }

    /// The number of finished parts.
    fn count(&self) -> usize {
        (0..).take_while(|part| self.path(*part).exists()).count()
    }

    /// Removes all parts.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_dir_all(&self.directory).map_err(Error::io("remove the parts of a capture", &self.directory))
    }
}

struct Part {
    samples: Vec<u32>,
    sites: Vec<Vec<f32>>,
}

fn parse(bytes: &[u8], sites: usize) -> Result<Part> {
    let damaged =
        || InputError::new("a part of the capture is damaged").advice("delete the output directory and run again");
    let (body, check) = bytes.split_last_chunk::<4>().ok_or_else(damaged)?;
    if crc32c::crc32c(body) != u32::from_le_bytes(*check) {
        return Err(damaged().into());
    }
    let mut rest = body;
    let mut list = |size: u64| -> Result<&[u8]> {
        let (length, after) = rest.split_first_chunk::<8>().ok_or_else(damaged)?;
        let length = u64::from_le_bytes(*length).checked_mul(size).and_then(|length| usize::try_from(length).ok());
        let (values, after) = length.and_then(|length| after.split_at_checked(length)).ok_or_else(damaged)?;
        rest = after;
        Ok(values)
    };
    let samples = list(4)?.as_chunks::<4>().0.iter().map(|value| u32::from_le_bytes(*value)).collect();
    let site = |bytes: &[u8]| bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
    let sites = (0..sites).map(|_| list(4).map(site)).collect::<Result<Vec<Vec<f32>>>>()?;
    Ok(Part { samples, sites })
}

/// Reads the rows of one site from all parts.
pub(super) struct PartsReader<'a> {
    parts: &'a Parts,
    site: usize,
    shape: Shape,
    next: usize,
    rows: Reserved<Vec<f32>>,
    /// Values of `rows` that were read.
    taken: usize,
}

impl<'a> PartsReader<'a> {
    pub fn new(parts: &'a Parts, site: usize, width: usize, context: &Context) -> Result<PartsReader<'a>> {
        let mut rows = 0;
        let mut largest = 0;
        for part in 0..parts.count() {
            let count = parts.read(part)?.samples.len();
            (rows, largest) = (rows + count, largest.max(count));
        }
        let memory = context.budget().reserve((largest * width * 4) as u64, "a part of the capture")?;
        let shape = Shape { rows, width, rows_per_sample: None };
        Ok(PartsReader { parts, site, shape, next: 0, rows: Reserved::new(Vec::new(), memory), taken: 0 })
    }

    /// The sample of every row.
    pub fn samples(&self) -> Result<Vec<u32>> {
        let mut samples = Vec::with_capacity(self.shape.rows);
        for part in 0..self.parts.count() {
            samples.extend(self.parts.read(part)?.samples);
        }
        Ok(samples)
    }
}

impl RowReader for PartsReader<'_> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn kind(&self) -> &str {
        "capture"
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let mut filled = 0;
        while filled < out.len() {
            if self.taken == self.rows.len() {
                if self.next == self.parts.count() {
                    break;
                }
                let mut part = self.parts.read(self.next)?;
                *self.rows = part.sites.swap_remove(self.site);
                (self.next, self.taken) = (self.next + 1, 0);
                continue;
            }
            let count = (out.len() - filled).min(self.rows.len() - self.taken);
            out[filled..filled + count].copy_from_slice(&self.rows[self.taken..self.taken + count]);
            (filled, self.taken) = (filled + count, self.taken + count);
        }
        Ok(filled / self.shape.width)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_read_in_order_and_damage_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let parts = Parts::open(&directory.path().join("parts"), "a", 2).unwrap();
        parts.write(0, &[3, 3], &[vec![1.0, 2.0], vec![5.0; 4]]).unwrap();
        parts.write(1, &[4], &[vec![3.0], vec![6.0, 7.0]]).unwrap();
        let context = Context::silent(1, 1 << 20).unwrap();
        let mut reader = PartsReader::new(&parts, 1, 2, &context).unwrap();
        assert_eq!((reader.shape().rows, reader.samples().unwrap()), (3, vec![3, 3, 4]));
        let mut out = [0.0; 8];
        assert_eq!(reader.read(&mut out).unwrap(), 3);
        assert_eq!(out[..6], [5.0, 5.0, 5.0, 5.0, 6.0, 7.0]);
        assert_eq!(reader.read(&mut out).unwrap(), 0);
        assert_eq!((parts.rows(1), parts.rows(2)), (Some(1), None));
        let path = parts.path(1);
        let mut bytes = std::fs::read(&path).unwrap();
        bytes[9] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(parts.rows(1), None);
        assert!(Parts::open(&directory.path().join("parts"), "a", 2).unwrap().rows(0).is_some());
        assert!(Parts::open(&directory.path().join("parts"), "b", 2).unwrap().rows(0).is_none());
    }
}
