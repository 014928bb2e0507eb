//! The checksums of a stored file: its length, BLAKE3 and the CRC32C of every block, in a separate `.crc` file.
//!
//! They are not appended to the data file, so that it stays a plain array that any program can map.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, InputError, Result};

/// Bytes that one checksum covers: small enough to check on first access, large enough for a short table.
pub const BLOCK_BYTES: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"ETALCRC1";
/// Magic, block size, length, BLAKE3; and the checksum at the end.
const FIXED_BYTES: usize = 8 + 8 + 8 + 32 + 4;

/// Length and checksums of a stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checksums {
    /// Bytes per block.
    pub block_bytes: usize,
    /// Length of the file.
    pub bytes: usize,
    /// BLAKE3 of the file.
    pub hash: blake3::Hash,
    /// CRC32C of every block; the last may be shorter.
    pub table: Vec<u32>,
}

impl Checksums {
    /// The path of the checksums of a file: same name, ending `crc`.
    pub fn path_of(file: &Path) -> PathBuf {
        file.with_extension("crc")
    }

    /// Magic, numbers, table, and a checksum of all that.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend((self.block_bytes as u64).to_le_bytes());
        bytes.extend((self.bytes as u64).to_le_bytes());
        bytes.extend(self.hash.as_bytes());
        self.table.iter().for_each(|check| bytes.extend(check.to_le_bytes()));
        let check = crc32c::crc32c(&bytes);
        bytes.extend(check.to_le_bytes());
        bytes
    }

    /// Reads the checksums of a file whose length and block size are known; no length stated in them is trusted.
    pub fn read(file: &Path, bytes: usize, block_bytes: usize) -> Result<Checksums> {
        let path = Checksums::path_of(file);
        let damaged = |found: String| {
            InputError::new("the checksums of a stored file are damaged")
                .found(found)
                .advice("delete the directory and create it again from its source")
                .file(&path)
        };
        let length = fs::metadata(&path).map_err(Error::io("open the checksums of a stored file", &path))?.len();
        let blocks = bytes.div_ceil(block_bytes.max(1));
        if length != (FIXED_BYTES + 4 * blocks) as u64 {
            return Err(damaged(format!("{length} bytes"))
                .expected(format!("{} bytes", FIXED_BYTES + 4 * blocks))
                .into());
        }
        let all = fs::read(&path).map_err(Error::io("read the checksums of a stored file", &path))?;
        let checksums = parse(&all).ok_or_else(|| damaged("a wrong checksum".into()))?;
        if (checksums.bytes, checksums.block_bytes, checksums.table.len()) != (bytes, block_bytes, blocks) {
            return Err(damaged(format!("checksums of a file of {} bytes", checksums.bytes))
                .expected(format!("{bytes} bytes in blocks of {block_bytes}"))
                .into());
        }
        Ok(checksums)
    }
}

fn parse(bytes: &[u8]) -> Option<Checksums> {
    let (rest, check) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(rest) != u32::from_le_bytes(*check) {
        return None;
    }
    let (block_bytes, rest) = rest.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let (bytes, rest) = rest.split_first_chunk::<8>()?;
    let (hash, table) = rest.split_first_chunk::<32>()?;
    Some(Checksums {
        block_bytes: usize::try_from(u64::from_le_bytes(*block_bytes)).ok()?,
        bytes: usize::try_from(u64::from_le_bytes(*bytes)).ok()?,
        hash: blake3::Hash::from_bytes(*hash),
        table: table.as_chunks::<4>().0.iter().map(|&check| u32::from_le_bytes(check)).collect(),
    })
}

/// Computes the checksums of a file while it is written.
#[derive(Debug)]
pub struct ChecksumBuilder {
    checksums: Checksums,
    hash: blake3::Hasher,
    /// Checksum of the block that is not full yet.
    open: u32,
}

impl ChecksumBuilder {
    /// No bytes yet.
    pub fn new(block_bytes: usize) -> ChecksumBuilder {
        let hash = blake3::Hasher::new();
        let checksums = Checksums { block_bytes, bytes: 0, hash: hash.finalize(), table: Vec::new() };
        ChecksumBuilder { checksums, hash, open: 0 }
    }

    /// Number of bytes so far.
    pub fn bytes(&self) -> usize {
        self.checksums.bytes
    }

    /// Adds the next bytes of the file.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.hash.update(bytes);
        while !bytes.is_empty() {
            let free = self.checksums.block_bytes - self.checksums.bytes % self.checksums.block_bytes;
            let (now, later) = bytes.split_at(free.min(bytes.len()));
            self.open = crc32c::crc32c_append(self.open, now);
            self.checksums.bytes += now.len();
            if now.len() == free {
                self.checksums.table.push(std::mem::take(&mut self.open));
            }
            bytes = later;
        }
    }

    /// The checksums of the complete file.
    pub fn finish(mut self) -> Checksums {
        if !self.checksums.bytes.is_multiple_of(self.checksums.block_bytes) {
            self.checksums.table.push(self.open);
        }
        self.checksums.hash = self.hash.finalize();
        self.checksums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_do_not_depend_on_the_size_of_writes() {
        let data: Vec<u8> = (0..100).collect();
        let mut expected = ChecksumBuilder::new(16);
        expected.update(&data);
        let expected = expected.finish();
        assert_eq!(expected.table.len(), 7);
        assert_eq!(expected.table[6], crc32c::crc32c(&data[96..]));
        for size in [1, 5, 16, 33] {
            let mut builder = ChecksumBuilder::new(16);
            data.chunks(size).for_each(|bytes| builder.update(bytes));
            assert_eq!(builder.finish(), expected);
        }
        assert_eq!(parse(&expected.to_bytes()), Some(expected));
    }

    #[test]
    fn every_flipped_bit_is_detected() {
        let mut builder = ChecksumBuilder::new(16);
        builder.update(&[7; 40]);
        let bytes = builder.finish().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped), None);
        }
    }
}
