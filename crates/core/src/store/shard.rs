//! A stored file with its checksums: memory-mapped, every block checked when it is first read.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::checksums::{ChecksumBuilder, Checksums};
use super::disk::{self, NewFile};
use super::manifest::StoredFile;
use super::map::{Map, numbers};
use super::stored_number::StoredNumber;
use crate::error::{Command, Error, InputError, Result};

/// The set of blocks that were checked, shared by threads.
#[derive(Debug)]
pub struct CheckedBlocks(Vec<AtomicU64>);

impl CheckedBlocks {
    /// None of `blocks` is checked yet.
    pub fn new(blocks: usize) -> CheckedBlocks {
        CheckedBlocks((0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Runs the check for the blocks that have not passed it yet.
    pub fn check(&self, blocks: Range<usize>, mut check: impl FnMut(usize) -> Result<()>) -> Result<()> {
        for block in blocks {
            let (word, bit) = (&self.0[block / 64], 1 << (block % 64));
            if word.load(Ordering::Relaxed) & bit == 0 {
                check(block)?;
                word.fetch_or(bit, Ordering::Relaxed);
            }
        }
        Ok(())
    }
}

/// What is checked of a block besides its checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Any bytes.
    Any,
    /// Finite numbers of a type.
    Finite(StoredNumber),
}

/// A stored file, memory-mapped.
#[derive(Debug)]
pub struct Shard {
    map: Map,
    content: Content,
    checksums: Checksums,
    checked: CheckedBlocks,
}

impl Shard {
    /// Maps a file that a manifest lists; checks its length and the file of checksums.
    pub fn open(directory: &Path, listed: &StoredFile, block_bytes: usize, content: Content) -> Result<Shard> {
        let map = Map::open(&directory.join(&listed.file))?;
        if map.length() != listed.bytes {
            return Err(damaged(map.path())
                .expected(format!("{} bytes", listed.bytes))
                .found(format!("{} bytes", map.length()))
                .into());
        }
        let checksums = Checksums::read(map.path(), listed.bytes, block_bytes)?;
        if checksums.hash.to_hex().as_str() != listed.blake3 {
            return Err(damaged(map.path()).expected(&listed.blake3).found(checksums.hash.to_hex()).into());
        }
        let checked = CheckedBlocks::new(checksums.table.len());
        Ok(Shard { map, content, checksums, checked })
    }

    /// The mapped file.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// BLAKE3 of the file, according to its checksums.
    pub fn hash(&self) -> blake3::Hash {
        self.checksums.hash
    }

    /// Consecutive numbers, by their index.
    pub fn read<T: bytemuck::AnyBitPattern>(&self, items: Range<usize>) -> Result<&[T]> {
        let size = size_of::<T>();
        let bytes = self.map.bytes(items.start * size..items.end * size)?;
        if !bytes.is_empty() {
            let block = self.checksums.block_bytes;
            let blocks = items.start * size / block..(items.end * size).div_ceil(block);
            self.checked.check(blocks, |block| self.block(block).map(drop))?;
        }
        numbers(bytes)
    }

    /// All bytes of a block, if it is undamaged.
    fn block(&self, block: usize) -> Result<&[u8]> {
        // A truncated file must not be read beyond its new end.
        self.map.check_unchanged()?;
        let start = block * self.checksums.block_bytes;
        let range = start..(start + self.checksums.block_bytes).min(self.checksums.bytes);
        let bytes = self.map.bytes(range.clone())?;
        let (expected, found) = (self.checksums.table[block], crc32c::crc32c(bytes));
        let position = format!("bytes {} to {}", range.start, range.end);
        if expected != found {
            let error = damaged(self.map.path()).expected(format!("checksum {expected:08x}"));
            return Err(error.found(format!("checksum {found:08x}")).at(position).into());
        }
        // The writer refuses such values, but the directory may be from another program.
        if let Content::Finite(dtype) = self.content
            && !dtype.is_finite(bytes)?
        {
            return Err(damaged(self.map.path())
                .expected("finite numbers")
                .found("NaN or an infinite value")
                .at(position)
                .into());
        }
        Ok(bytes)
    }

    /// Reads every byte: checks all blocks, then the BLAKE3. Calls `each` with every block.
    pub fn check_all(&self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut hash = blake3::Hasher::new();
        for block in 0..self.checksums.table.len() {
            let bytes = self.block(block)?;
            hash.update(bytes);
            each(bytes)?;
            self.map.release();
        }
        let found = hash.finalize();
        if found == self.checksums.hash {
            return Ok(());
        }
        Err(damaged(self.map.path()).expected(self.checksums.hash.to_hex()).found(found.to_hex()).into())
    }
}

/// The error for a file whose content is not what was written.
pub fn damaged(file: &Path) -> InputError {
    InputError::new("a stored file is damaged")
        .advice("delete the directory and create it again from its source")
        .file(file)
}

/// Writes a stored file.
///
/// If an earlier run left a file of the same name, its bytes are compared with the appended ones and kept while they are
/// equal; from the first difference on, a new file is written. So a resumed run does not trust earlier files, and ends
/// with the same bytes as an uninterrupted one.
#[derive(Debug)]
pub struct ShardWriter {
    target: PathBuf,
    earlier: Option<Map>,
    new: Option<NewFile>,
    builder: ChecksumBuilder,
    /// The directory is finished: the file may be confirmed, not changed.
    finished: bool,
}

/// Bytes copied at a time when a file turns out to differ.
const COPY_BYTES: usize = 4 << 20;

impl ShardWriter {
    /// Starts a file. In a finished directory, it must turn out to be equal to the existing one.
    pub fn create(target: PathBuf, block_bytes: usize, finished: bool) -> Result<ShardWriter> {
        let earlier = if target.exists() { Some(Map::open(&target)?) } else { None };
        let mut writer =
            ShardWriter { target, earlier, new: None, builder: ChecksumBuilder::new(block_bytes), finished };
        if writer.earlier.is_none() {
            writer.start_new()?;
        }
        Ok(writer)
    }

    /// Number of bytes that were appended.
    pub fn bytes(&self) -> usize {
        self.builder.bytes()
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(earlier) = &self.earlier {
            let start = self.builder.bytes();
            let same = start + bytes.len() <= earlier.length() && earlier.bytes(start..start + bytes.len())? == bytes;
            earlier.release();
            if !same {
                self.start_new()?;
            }
        }
        if let Some(new) = &mut self.new {
            new.write(bytes)?;
        }
        self.builder.update(bytes);
        Ok(())
    }

    /// From here on the file differs from the earlier one: starts a new file with the bytes so far.
    fn start_new(&mut self) -> Result<()> {
        if self.finished {
            return Err(differs(&self.target).into());
        }
        let mut new = NewFile::create(&self.target)?;
        if let Some(earlier) = self.earlier.take() {
            let same = earlier.bytes(0..self.builder.bytes())?;
            same.chunks(COPY_BYTES).try_for_each(|bytes| {
                new.write(bytes)?;
                earlier.release();
                Ok::<(), Error>(())
            })?;
        }
        self.new = Some(new);
        Ok(())
    }

    /// Gives the file its name, then writes its checksums.
    pub fn finish(mut self) -> Result<(StoredFile, blake3::Hash)> {
        if self.earlier.as_ref().is_some_and(|earlier| earlier.length() != self.builder.bytes()) {
            self.start_new()?;
        }
        if let Some(new) = self.new {
            new.finish()?;
        }
        let checksums = self.builder.finish();
        if Checksums::read(&self.target, checksums.bytes, checksums.block_bytes).ok().as_ref() != Some(&checksums) {
            disk::write(&Checksums::path_of(&self.target), &checksums.to_bytes())?;
        }
        let file = self.target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((StoredFile { file, bytes: checksums.bytes, blake3: checksums.hash.to_hex().to_string() }, checksums.hash))
    }
}

/// The error for a write that would change a finished directory.
pub fn differs(target: &Path) -> InputError {
    InputError::new("the output directory contains another finished store")
        .expected("a new directory, or one with exactly the same content")
        .advice(format!(
            "choose another directory, or delete this one first; {} checks it for damage",
            Command("verify")
        ))
        .file(target)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt;

    fn write(target: &Path, data: &[u8], finished: bool) -> Result<StoredFile> {
        let mut writer = ShardWriter::create(target.to_path_buf(), 16, finished)?;
        data.chunks(7).try_for_each(|bytes| writer.append(bytes))?;
        Ok(writer.finish()?.0)
    }

    #[test]
    fn only_the_blocks_that_are_read_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.bin");
        let data: Vec<u8> = (0..60).collect();
        let listed = write(&path, &data, false).unwrap();
        let mut flipped = data.clone();
        flipped[33] ^= 1;
        fs::write(&path, flipped).unwrap();
        let shard = Shard::open(directory.path(), &listed, 16, Content::Any).unwrap();
        assert_eq!(shard.read::<u8>(0..32).unwrap(), &data[..32]);
        assert_eq!(shard.read::<u32>(12..15).unwrap()[0].to_le_bytes(), [48, 49, 50, 51]);
        for range in [32..33, 0..60, 47..49] {
            let error = shard.read::<u8>(range).unwrap_err().to_string();
            assert!(error.contains("bytes 32 to 48") && error.contains("a.bin"), "{error}");
        }
        assert!(shard.check_all(|_| Ok(())).is_err());
        assert!(shard.read::<u8>(50..61).is_err());
    }

    #[test]
    fn an_earlier_file_is_kept_if_it_is_equal() {
        let directory = tempfile::tempdir().unwrap();
        let (path, other) = (directory.path().join("a.bin"), directory.path().join("b.bin"));
        let data: Vec<u8> = (0..60).collect();
        let expected = write(&other, &data, false).unwrap().blake3;
        let (mut longer, mut late) = (data.clone(), data.clone());
        longer.push(1);
        late[59] = 0;
        for earlier in [&data[..], &data[..20], &longer, &late, &[]] {
            fs::write(&path, earlier).unwrap();
            fs::write(directory.path().join("a.crc"), b"rubbish").unwrap();
            let before = fs::metadata(&path).unwrap().ino();
            assert_eq!(write(&path, &data, true).is_ok(), earlier == data);
            assert_eq!(write(&path, &data, false).unwrap().blake3, expected);
            assert_eq!(fs::read(&path).unwrap(), data);
            assert_eq!(fs::metadata(&path).unwrap().ino() == before, earlier == data);
            assert_eq!(
                fs::read(directory.path().join("a.crc")).unwrap(),
                fs::read(directory.path().join("b.crc")).unwrap()
            );
        }
        assert!(write(&directory.path().join("c.bin"), &data, true).is_err());
    }
}
