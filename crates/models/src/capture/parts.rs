//! Finished parts of a capture: a file per part, with the rows of all sites.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use etalon::context::{Context, Reserved};
use etalon::error::{Error, InputError, Result};
use etalon::input::{RowReader, Shape};
use etalon::network::Grid;
use etalon::store::disk;

/// The directory of parts. A part is a file of lists, each with its length and a checksum: the sample of every row, and the
/// rows of every site. A list can be read without the others.
#[derive(Debug)]
pub(super) struct Parts {
    directory: PathBuf,
    sites: usize,
}

/// What is in the parts: read once for all sites.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The sample of every row.
    pub samples: Vec<u32>,
    /// The rows of every part.
    rows: Vec<usize>,
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
        path(&self.directory, part)
    }

    /// Whether a directory has a part.
    pub fn any(directory: &Path) -> bool {
        path(directory, 0).exists()
    }

    /// The rows of a part, if it is finished and undamaged.
    pub fn rows(&self, part: usize) -> Option<usize> {
        let mut file = Lists::open(&self.path(part)).ok()?;
        let rows = file.next().ok()?.len() / 4;
        (0..self.sites).try_for_each(|_| file.next().map(|_| ())).ok()?;
        Some(rows)
    }

    /// Writes a part: the sample of every row, and per site its rows.
    pub fn write(&self, part: usize, samples: &[u32], sites: &[Vec<f32>]) -> Result<()> {
        let lists = std::iter::once(bytemuck::cast_slice::<u32, u8>(samples));
        let lists = lists.chain(sites.iter().map(|rows| bytemuck::cast_slice::<f32, u8>(rows)));
        let mut bytes = Vec::new();
        lists.for_each(|list| add_list(&mut bytes, list));
        disk::write(&self.path(part), &bytes)
    }

    /// Writes the grid of the rows of every site. It is written before the first part: without it no part counts.
    pub fn write_grids(&self, grids: &[Option<Grid>]) -> Result<()> {
        let numbers = |grid: &Option<Grid>| grid.map_or([0; 3], |grid| [grid.prefix, grid.height, grid.width]);
        let list: Vec<u8> = grids.iter().flat_map(numbers).flat_map(|number| (number as u32).to_le_bytes()).collect();
        let mut bytes = Vec::new();
        add_list(&mut bytes, &list);
        disk::write(&self.directory.join(GRIDS), &bytes)
    }

    /// The grid of the rows of every site, if it is known and undamaged.
    pub fn grids(&self) -> Option<Vec<Option<Grid>>> {
        let list = Lists::open(&self.directory.join(GRIDS)).ok()?.next().ok()?;
        let numbers: Vec<usize> =
            list.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes) as usize).collect();
        let grid = |&[prefix, height, width]: &[usize; 3]| (height > 0).then_some(Grid { prefix, height, width });
        let grids: Vec<Option<Grid>> = numbers.as_chunks::<3>().0.iter().map(grid).collect();
        (grids.len() == self.sites).then_some(grids)
    }

    /// The rows of one site of a part.
    fn read(&self, part: usize, site: usize) -> Result<Vec<f32>> {
        let mut file = Lists::open(&self.path(part))?;
        // The list of samples, and the sites before.
        (0..=site).try_for_each(|_| file.skip())?;
        let values = file.next()?;
        Ok(values.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect())
    }

    /// The samples of all rows.
    pub fn content(&self) -> Result<Content> {
        let mut content = Content::default();
        for part in (0..).take_while(|part| self.path(*part).exists()) {
            let bytes = Lists::open(&self.path(part))?.next()?;
            content.samples.extend(bytes.as_chunks::<4>().0.iter().map(|value| u32::from_le_bytes(*value)));
            content.rows.push(bytes.len() / 4);
        }
        Ok(content)
    }

    /// Removes all parts.
    pub fn remove(self) -> Result<()> {
        std::fs::remove_dir_all(&self.directory).map_err(Error::io("remove the parts of a capture", &self.directory))
    }
}

/// The file of the grids.
const GRIDS: &str = "grids";

/// Adds a list: its length, its bytes, a checksum.
fn add_list(bytes: &mut Vec<u8>, list: &[u8]) {
    bytes.extend((list.len() as u64).to_le_bytes());
    bytes.extend_from_slice(list);
    bytes.extend(crc32c::crc32c(list).to_le_bytes());
}

fn path(directory: &Path, part: usize) -> PathBuf {
    directory.join(format!("{part:06}"))
}

/// Reads the lists of a part in their order.
struct Lists {
    path: PathBuf,
    file: File,
    /// Bytes that are not read yet: no list can be longer.
    left: u64,
}

impl Lists {
    fn open(path: &Path) -> Result<Lists> {
        let file = File::open(path).map_err(Error::io("read a part of a capture", path))?;
        let left = file.metadata().map_err(Error::io("read a part of a capture", path))?.len();
        Ok(Lists { path: path.to_path_buf(), file, left })
    }

    fn damaged(&self) -> Error {
        InputError::new("a part of the capture is damaged")
            .advice("delete the output directory and run again")
            .file(&self.path)
            .into()
    }

    fn take(&mut self, count: u64) -> Result<Vec<u8>> {
        self.left = self.left.checked_sub(count).ok_or_else(|| self.damaged())?;
        let mut bytes = vec![0; usize::try_from(count).map_err(|_| self.damaged())?];
        match self.file.read_exact(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Err(self.damaged()),
            read => read.map(|()| bytes).map_err(Error::io("read a part of a capture", &self.path)),
        }
    }

    /// The length of the next list in bytes.
    fn length(&mut self) -> Result<u64> {
        let bytes = self.take(8)?;
        bytes.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(|| self.damaged())
    }

    /// The bytes of the next list.
    fn next(&mut self) -> Result<Vec<u8>> {
        let length = self.length()?;
        let values = self.take(length)?;
        let check = self.take(4)?;
        if check != crc32c::crc32c(&values).to_le_bytes() {
            return Err(self.damaged());
        }
        Ok(values)
    }

    /// Passes over the next list.
    fn skip(&mut self) -> Result<()> {
        let length = self.length()?;
        let count = length.checked_add(4).filter(|count| *count <= self.left).ok_or_else(|| self.damaged())?;
        self.left -= count;
        let moved = i64::try_from(count).map_err(|_| self.damaged())?;
        self.file.seek(SeekFrom::Current(moved)).map_err(Error::io("read a part of a capture", &self.path))?;
        Ok(())
    }
}

/// Reads the rows of one site from all parts.
pub(super) struct PartsReader<'a> {
    parts: &'a Parts,
    site: usize,
    shape: Shape,
    next: usize,
    count: usize,
    rows: Reserved<Vec<f32>>,
    /// Values of `rows` that were read.
    taken: usize,
}

impl<'a> PartsReader<'a> {
    pub fn new(
        parts: &'a Parts,
        content: &Content,
        site: usize,
        width: usize,
        context: &Context,
    ) -> Result<PartsReader<'a>> {
        let largest = content.rows.iter().max().copied().unwrap_or(0);
        // The bytes of a part and its values.
        let memory = context.budget().reserve((2 * largest * width * 4) as u64, "a part of the capture")?;
        let shape = Shape { rows: content.samples.len(), width, rows_per_sample: None };
        let (count, rows) = (content.rows.len(), Reserved::new(Vec::new(), memory));
        Ok(PartsReader { parts, site, shape, next: 0, count, rows, taken: 0 })
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
                if self.next == self.count {
                    break;
                }
                *self.rows = self.parts.read(self.next, self.site)?;
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
        let content = parts.content().unwrap();
        assert_eq!((&content.samples[..], &content.rows[..]), (&[3, 3, 4][..], &[2, 1][..]));
        let mut reader = PartsReader::new(&parts, &content, 1, 2, &context).unwrap();
        assert_eq!(reader.shape().rows, 3);
        let mut out = [0.0; 8];
        assert_eq!(reader.read(&mut out).unwrap(), 3);
        assert_eq!(out[..6], [5.0, 5.0, 5.0, 5.0, 6.0, 7.0]);
        assert_eq!(reader.read(&mut out).unwrap(), 0);
        assert_eq!((parts.rows(1), parts.rows(2)), (Some(1), None));
        assert_eq!(parts.grids(), None);
        let grids = [None, Some(Grid { prefix: 5, height: 2, width: 3 })];
        parts.write_grids(&grids).unwrap();
        assert_eq!(parts.grids().as_deref(), Some(&grids[..]));
        let mut bytes = std::fs::read(parts.directory.join(GRIDS)).unwrap();
        bytes[20] ^= 1;
        std::fs::write(parts.directory.join(GRIDS), bytes).unwrap();
        assert_eq!(parts.grids(), None);
        let path = parts.path(1);
        // One flipped bit anywhere, and every shorter file.
        let whole = std::fs::read(&path).unwrap();
        for index in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[index] ^= 1;
            std::fs::write(&path, &bytes).unwrap();
            assert_eq!(parts.rows(1), None, "{index}");
            std::fs::write(&path, &whole[..index]).unwrap();
            assert_eq!(parts.rows(1), None, "{index}");
        }
        // The last site lacks a byte; the one before it is whole.
        assert!(parts.read(1, 1).unwrap_err().to_string().contains("damaged"));
        assert_eq!(parts.read(1, 0).unwrap(), [3.0]);
        assert!(Parts::open(&directory.path().join("parts"), "a", 2).unwrap().rows(0).is_some());
        assert!(Parts::open(&directory.path().join("parts"), "b", 2).unwrap().rows(0).is_none());
    }
}
