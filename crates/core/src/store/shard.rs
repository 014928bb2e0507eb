//! A stored file with its seal: read in place, every block checked when it is first touched.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::disk::{self, NewFile};
use super::manifest::StoredFile;
use super::map::{Map, numbers};
use super::seal::{Seal, Sealing};
use crate::error::{Error, InputError, Result};

/// A set of blocks that only grows; used by many threads at once.
#[derive(Debug)]
pub struct Seen(Vec<AtomicU64>);

impl Seen {
    /// None of `blocks` yet.
    pub fn new(blocks: usize) -> Seen {
        Seen((0..blocks.div_ceil(64)).map(|_| AtomicU64::new(0)).collect())
    }

    /// Runs the check for those blocks that have not passed it yet.
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

/// What every block of a file must be, apart from undamaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Any bytes.
    Any,
    /// Finite `f32`.
    Finite,
}

/// A stored file, mapped.
#[derive(Debug)]
pub struct Shard {
    map: Map,
    content: Content,
    seal: Seal,
    seen: Seen,
}

impl Shard {
    /// Maps a file that a manifest lists, and checks its length and its seal.
    pub fn open(directory: &Path, listed: &StoredFile, block_bytes: usize, content: Content) -> Result<Shard> {
        let map = Map::open(&directory.join(&listed.file))?;
        if map.length() != listed.bytes {
            return Err(damaged(map.path())
                .expected(format!("{} bytes", listed.bytes))
                .found(format!("{} bytes", map.length()))
                .into());
        }
        let seal = Seal::read(map.path(), listed.bytes, block_bytes)?;
        if seal.hash.to_hex().as_str() != listed.blake3 {
            return Err(damaged(map.path()).expected(&listed.blake3).found(seal.hash.to_hex()).into());
        }
        let seen = Seen::new(seal.table.len());
        Ok(Shard { map, content, seal, seen })
    }

    /// The mapped file.
    pub fn map(&self) -> &Map {
        &self.map
    }

    /// BLAKE3 of the file, as its seal says.
    pub fn hash(&self) -> blake3::Hash {
        self.seal.hash
    }

    /// A run of numbers, counted in numbers.
    pub fn read<T: bytemuck::AnyBitPattern>(&self, items: Range<usize>) -> Result<&[T]> {
        let size = size_of::<T>();
        let bytes = self.map.bytes(items.start * size..items.end * size)?;
        if !bytes.is_empty() {
            let block = self.seal.block_bytes;
            let blocks = items.start * size / block..(items.end * size).div_ceil(block);
            self.seen.check(blocks, |block| self.block(block).map(drop))?;
        }
        numbers(bytes)
    }

    /// All bytes of a block, if it is undamaged.
    fn block(&self, block: usize) -> Result<&[u8]> {
        // A file that was cut must not be touched beyond its new end.
        self.map.check_unchanged()?;
        let start = block * self.seal.block_bytes;
        let range = start..(start + self.seal.block_bytes).min(self.seal.bytes);
        let bytes = self.map.bytes(range.clone())?;
        let (expected, found) = (self.seal.table[block], crc32c::crc32c(bytes));
        let place = format!("bytes {} to {}", range.start, range.end);
        if expected != found {
            let complaint = damaged(self.map.path()).expected(format!("checksum {expected:08x}"));
            return Err(complaint.found(format!("checksum {found:08x}")).at(place).into());
        }
        // Our writer refuses such values; a directory may come from elsewhere.
        if self.content == Content::Finite && !numbers::<f32>(bytes)?.iter().all(|value| value.is_finite()) {
            return Err(damaged(self.map.path()).found("a value that is not finite").at(place).into());
        }
        Ok(bytes)
    }

    /// Reads every byte: all blocks, then the BLAKE3. Hands the blocks on as they pass.
    pub fn check_all(&self, mut each: impl FnMut(&[u8]) -> Result<()>) -> Result<()> {
        let mut hash = blake3::Hasher::new();
        for block in 0..self.seal.table.len() {
            let bytes = self.block(block)?;
            hash.update(bytes);
            each(bytes)?;
            self.map.release();
        }
        let found = hash.finalize();
        if found == self.seal.hash {
            return Ok(());
        }
        Err(damaged(self.map.path()).expected(self.seal.hash.to_hex()).found(found.to_hex()).into())
    }
}

/// A file that is not what was written.
pub fn damaged(file: &Path) -> InputError {
    InputError::new("a stored file is damaged")
        .advice("delete the directory and make it again from its source")
        .file(file)
}

/// A stored file on its way to disk.
///
/// What an earlier run left under the same name is compared with what is appended, and kept if it is the same; from
/// the first difference on, a new file is written. So a resumed run needs no trust in what it finds, and an
/// undisturbed one ends with the same bytes.
#[derive(Debug)]
pub struct ShardWriter {
    target: PathBuf,
    earlier: Option<Map>,
    new: Option<NewFile>,
    sealing: Sealing,
    /// A finished directory: the file may be confirmed, not changed.
    finished: bool,
}

/// What is copied at a time when a file turns out to differ.
const COPY_BYTES: usize = 4 << 20;

impl ShardWriter {
    /// Starts a file. In a finished directory, it must turn out to be the one that is there.
    pub fn create(target: PathBuf, block_bytes: usize, finished: bool) -> Result<ShardWriter> {
        let earlier = if target.exists() { Some(Map::open(&target)?) } else { None };
        let mut writer = ShardWriter { target, earlier, new: None, sealing: Sealing::new(block_bytes), finished };
        if writer.earlier.is_none() {
            writer.part()?;
        }
        Ok(writer)
    }

    /// How many bytes were appended.
    pub fn bytes(&self) -> usize {
        self.sealing.bytes()
    }

    /// Appends bytes.
    pub fn append(&mut self, bytes: &[u8]) -> Result<()> {
        if let Some(earlier) = &self.earlier {
            let start = self.sealing.bytes();
            let same = start + bytes.len() <= earlier.length() && earlier.bytes(start..start + bytes.len())? == bytes;
            earlier.release();
            if !same {
                self.part()?;
            }
        }
        if let Some(new) = &mut self.new {
            new.write(bytes)?;
        }
        self.sealing.update(bytes);
        Ok(())
    }

    /// From here on the file differs from what was there.
    fn part(&mut self) -> Result<()> {
        if self.finished {
            return Err(differs(&self.target).into());
        }
        let mut new = NewFile::create(&self.target)?;
        if let Some(earlier) = self.earlier.take() {
            let same = earlier.bytes(0..self.sealing.bytes())?;
            same.chunks(COPY_BYTES).try_for_each(|bytes| {
                new.write(bytes)?;
                earlier.release();
                Ok::<(), Error>(())
            })?;
        }
        self.new = Some(new);
        Ok(())
    }

    /// Gives the file its name, then its seal.
    pub fn finish(mut self) -> Result<(StoredFile, blake3::Hash)> {
        if self.earlier.as_ref().is_some_and(|earlier| earlier.length() != self.sealing.bytes()) {
            self.part()?;
        }
        if let Some(new) = self.new {
            new.finish()?;
        }
        let seal = self.sealing.finish();
        if Seal::read(&self.target, seal.bytes, seal.block_bytes).ok().as_ref() != Some(&seal) {
            disk::write(&Seal::beside(&self.target), &seal.to_bytes())?;
        }
        let file = self.target.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((StoredFile { file, bytes: seal.bytes, blake3: seal.hash.to_hex().to_string() }, seal.hash))
    }
}

/// The answer to a writer that would change a finished directory.
pub fn differs(target: &Path) -> InputError {
    InputError::new("the output directory holds another finished store")
        .expected("a new directory, or one with the very same content")
        .advice("choose another directory, or delete this one first; `etalon verify` says whether it is damaged")
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
    fn only_touched_blocks_are_checked() {
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
    fn an_earlier_file_is_kept_while_it_agrees() {
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
