//! The seal of a stored file: its length, BLAKE3 and the CRC32C of every block, in a file beside it.
//!
//! Beside it and not behind the last row, so that the data file stays a plain array that any program can map.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Error, InputError, Result};

/// Bytes that one checksum covers: small enough to check on first touch, large enough for a short table.
pub const BLOCK_BYTES: usize = 1 << 20;

const MAGIC: &[u8; 8] = b"ETALCRC1";
/// Magic, block size, length, BLAKE3; and the checksum at the end.
const FIXED_BYTES: usize = 8 + 8 + 8 + 32 + 4;

/// What is known of a stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seal {
    /// Bytes per block.
    pub block_bytes: usize,
    /// Length of the file.
    pub bytes: usize,
    /// BLAKE3 of the file.
    pub hash: blake3::Hash,
    /// CRC32C of every block; the last may be shorter.
    pub table: Vec<u32>,
}

impl Seal {
    /// Where the seal of a file is: same name, ending `crc`.
    pub fn beside(file: &Path) -> PathBuf {
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

    /// Reads the seal of a file of which length and block size are known, so that no length in it is trusted.
    pub fn read(file: &Path, bytes: usize, block_bytes: usize) -> Result<Seal> {
        let path = Seal::beside(file);
        let broken = |why: String| InputError::new("the checksums of a stored file are damaged").found(why).file(&path);
        let length = fs::metadata(&path).map_err(Error::io("open the checksums of a stored file", &path))?.len();
        let blocks = bytes.div_ceil(block_bytes.max(1));
        if length != (FIXED_BYTES + 4 * blocks) as u64 {
            return Err(broken(format!("{length} bytes"))
                .expected(format!("{} bytes", FIXED_BYTES + 4 * blocks))
                .into());
        }
        let all = fs::read(&path).map_err(Error::io("read the checksums of a stored file", &path))?;
        let seal = parse(&all).ok_or_else(|| broken("a wrong checksum".into()))?;
        if (seal.bytes, seal.block_bytes, seal.table.len()) != (bytes, block_bytes, blocks) {
            return Err(broken(format!("checksums of a file of {} bytes", seal.bytes))
                .expected(format!("{bytes} bytes in blocks of {block_bytes}"))
                .into());
        }
        Ok(seal)
    }
}

fn parse(bytes: &[u8]) -> Option<Seal> {
    let (rest, check) = bytes.split_last_chunk::<4>()?;
    if crc32c::crc32c(rest) != u32::from_le_bytes(*check) {
        return None;
    }
    let (block_bytes, rest) = rest.strip_prefix(MAGIC)?.split_first_chunk::<8>()?;
    let (bytes, rest) = rest.split_first_chunk::<8>()?;
    let (hash, table) = rest.split_first_chunk::<32>()?;
    Some(Seal {
        block_bytes: usize::try_from(u64::from_le_bytes(*block_bytes)).ok()?,
        bytes: usize::try_from(u64::from_le_bytes(*bytes)).ok()?,
        hash: blake3::Hash::from_bytes(*hash),
        table: table.as_chunks::<4>().0.iter().map(|&check| u32::from_le_bytes(check)).collect(),
    })
}

/// A seal that grows with its file.
#[derive(Debug)]
pub struct Sealing {
    seal: Seal,
    hash: blake3::Hasher,
    /// Checksum of the block that is not full yet.
    open: u32,
}

impl Sealing {
    /// The seal of nothing yet.
    pub fn new(block_bytes: usize) -> Sealing {
        let hash = blake3::Hasher::new();
        let seal = Seal { block_bytes, bytes: 0, hash: hash.finalize(), table: Vec::new() };
        Sealing { seal, hash, open: 0 }
    }

    /// How many bytes it covers.
    pub fn bytes(&self) -> usize {
        self.seal.bytes
    }

    /// The file grew by these bytes.
    pub fn update(&mut self, mut bytes: &[u8]) {
        self.hash.update(bytes);
        while !bytes.is_empty() {
            let room = self.seal.block_bytes - self.seal.bytes % self.seal.block_bytes;
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.open = crc32c::crc32c_append(self.open, now);
            self.seal.bytes += now.len();
            if now.len() == room {
                self.seal.table.push(std::mem::take(&mut self.open));
            }
            bytes = later;
        }
    }

    /// The file is complete.
    pub fn finish(mut self) -> Seal {
        if !self.seal.bytes.is_multiple_of(self.seal.block_bytes) {
            self.seal.table.push(self.open);
        }
        self.seal.hash = self.hash.finalize();
        self.seal
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_does_not_depend_on_how_the_bytes_came() {
        let data: Vec<u8> = (0..100).collect();
        let mut expected = Sealing::new(16);
        expected.update(&data);
        let expected = expected.finish();
        assert_eq!(expected.table.len(), 7);
        assert_eq!(expected.table[6], crc32c::crc32c(&data[96..]));
        for piece in [1, 5, 16, 33] {
            let mut sealing = Sealing::new(16);
            data.chunks(piece).for_each(|bytes| sealing.update(bytes));
            assert_eq!(sealing.finish(), expected);
        }
        assert_eq!(parse(&expected.to_bytes()), Some(expected));
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut sealing = Sealing::new(16);
        sealing.update(&[7; 40]);
        let bytes = sealing.finish().to_bytes();
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(parse(&flipped), None);
        }
    }
}
