//! The headers of the pages of a column, checked before the parquet crate reads them.

use std::sync::{Arc, Mutex, PoisonError};

use ::parquet::errors::{ParquetError, Result as ParquetResult};

use super::file::Regular;
use super::parquet_thrift::{PAGE, PAGE_BYTES, PAGE_KIND, Thrift};

/// Bytes that are read for a header at first. Statistics of long texts need more.
const SHORT: u64 = 256;

/// Maximum length of a header in bytes.
const LONGEST: u64 = 1 << 24;

/// The positions of the pages of a column.
pub(super) struct Headers {
    /// Shared by all columns, so that a file with thousands of columns needs one handle.
    file: Arc<Mutex<Regular>>,
    /// The byte of the next page, and the end of the column.
    next: u64,
    end: u64,
    /// The byte of the page after the next one, once the header of the next one is checked.
    after: Option<u64>,
}

impl Headers {
    /// The pages in a byte range of a file.
    pub fn new(file: Arc<Mutex<Regular>>, start: u64, end: u64) -> Headers {
        Headers { file, next: start, end, after: None }
    }

    /// Checks the header of the next page, if there is one.
    pub fn check(&mut self) -> ParquetResult<()> {
        if self.after.is_some() || self.next >= self.end {
            return Ok(());
        }
        let wrong = || ParquetError::General(format!("the page at byte {} has an invalid header", self.next));
        let left = self.end - self.next;
        let mut length = SHORT.min(left);
        loop {
            let mut bytes = vec![0; length as usize];
            let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
            file.read_at(self.next, &mut bytes).map_err(|error| ParquetError::General(error.to_string()))?;
            if let Some((header, page)) = walk(&bytes) {
                let whole = header.checked_add(page).filter(|whole| *whole <= left).ok_or_else(wrong)?;
                self.after = Some(self.next + whole);
                return Ok(());
            }
            if length >= LONGEST.min(left) {
                return Err(wrong());
            }
            length = (length * 16).min(left).min(LONGEST);
        }
    }

    /// Moves on to the next page, after one was read or skipped.
    pub fn advance(&mut self) {
        self.next = self.after.take().unwrap_or(self.end);
    }
}

/// The length of a header and of the page that follows it.
fn walk(bytes: &[u8]) -> Option<(u64, u64)> {
    let mut header = Thrift { bytes };
    let (mut kind, mut page) = (None, None);
    header.structure(PAGE, &mut |number, value| match number {
        PAGE_KIND => kind = Some(value),
        PAGE_BYTES => page = Some(value),
        _ => {}
    })?;
    // Data, dictionary, data of version 2. Index pages are never written in practice, and the crate misreads them.
    kind.filter(|kind| matches!(kind, 0 | 2 | 3))?;
    let length = bytes.len() - header.bytes.len();
    Some((length as u64, u64::try_from(page?).ok()?))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::context::Budget;
    use crate::input::parquet_pages::ParquetFile;
    use crate::input::{Finite, Source, read_rows, read_table};

    #[test]
    fn headers_give_the_length_of_pages() {
        // kind 0, 8 bytes, 8 bytes, data: 2 values, plain, levels in runs.
        let good = [0x15, 0, 0x15, 16, 0x15, 16, 0x2c, 0x15, 4, 0x15, 0, 0x15, 6, 0x15, 6, 0, 0];
        assert_eq!(walk(&[&good[..], &[9, 9]].concat()), Some((good.len() as u64, 8)));
        for end in 0..good.len() {
            assert_eq!(walk(&good[..end]), None);
        }
        let with = |index: usize, byte: u8| {
            let mut bytes = good;
            bytes[index] = byte;
            walk(&bytes)
        };
        // An index page, an unknown kind of page, a negative length, and a checksum that is text.
        assert_eq!([with(1, 2), with(1, 8), with(5, 1), with(6, 0x28)], [None; 4]);
        // A list of billions of booleans in an unknown field.
        let list = [0x09, 0xc8, 0x01, 0xf1, 0xff, 0xff, 0xff, 0xff, 0x07, 0];
        assert_eq!(walk(&[&good[..good.len() - 1], &list].concat()), None);
    }

    /// The indices of all bytes of pages, without their headers, which have no checksum.
    fn bodies(path: &Path) -> Vec<usize> {
        let (file, bytes) = (ParquetFile::open(path).unwrap(), std::fs::read(path).unwrap());
        let mut indices = Vec::new();
        for column in file.metadata().row_groups().iter().flat_map(|group| group.columns()) {
            let (start, length) = column.byte_range();
            let (mut next, end) = (start as usize, (start + length) as usize);
            while next < end {
                let (header, page) = walk(&bytes[next..end]).unwrap();
                indices.extend(next + header as usize..next + (header + page) as usize);
                next += (header + page) as usize;
            }
        }
        indices
    }

    #[test]
    fn every_flipped_byte_of_a_page_with_a_checksum_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let budget = Budget::new(1 << 20);
        for name in ["plain", "packed", "words"] {
            let golden =
                Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/golden/parquet/{name}.parquet"));
            let (bytes, indices) = (std::fs::read(&golden).unwrap(), bodies(&golden));
            assert!(indices.len() > 100, "{name}: {}", indices.len());
            for index in indices {
                let mut flipped = bytes.clone();
                flipped[index] ^= 1 << (index % 8);
                let path = directory.path().join("x.parquet");
                std::fs::write(&path, flipped).unwrap();
                let source = Source { path: path.clone(), key: None };
                let result = match name {
                    "words" => read_table(&path, &budget).map(drop),
                    _ => read_rows(&source, Finite::DropRows, &budget).map(drop),
                };
                let error = result.unwrap_err().to_string();
                assert!(error.contains("checksum (CRC)"), "{name}, byte {index}: {error}");
            }
        }
    }
}
