//! Files of states: postcard bytes, followed by their length and CRC32C.

use std::fs;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use super::erased::{AnyState, StateType};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::input::open_regular;
use crate::store::disk::NewFile;

/// Bytes of length and CRC32C at the end of a file.
const TRAILER: usize = 8 + 4;

/// Bytes that are hashed and written at a time.
const BUFFER: usize = 1 << 16;

/// Writes bytes and computes their length, CRC32C and hash.
struct HashingWriter<W> {
    to: W,
    length: u64,
    crc: u32,
    hash: blake3::Hasher,
}

impl<W> HashingWriter<W> {
    fn new(to: W) -> HashingWriter<W> {
        HashingWriter { to, length: 0, crc: 0, hash: blake3::Hasher::new() }
    }

    fn trailer(&self) -> [u8; TRAILER] {
        let mut trailer = [0; TRAILER];
        trailer[..8].copy_from_slice(&self.length.to_le_bytes());
        trailer[8..].copy_from_slice(&self.crc.to_le_bytes());
        trailer
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to.write_all(bytes)?;
        self.length += bytes.len() as u64;
        self.crc = crc32c::crc32c_append(self.crc, bytes);
        self.hash.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// Writes a state; the file gets its name when it is complete. Returns the hash of its bytes.
pub fn write(target: &Path, state: &AnyState) -> Result<blake3::Hash> {
    let io = Error::io("store a state", target);
    // The buffer is in front of the hasher, so that hashes are computed over large pieces.
    let mut out = BufWriter::with_capacity(BUFFER, HashingWriter::new(NewFile::create(target)?));
    state.store(&mut out)?;
    let mut writer = out.into_inner().map_err(|error| io(error.into_error()))?;
    let trailer = writer.trailer();
    writer.to.write_all(&trailer).map_err(Error::io("store a state", target))?;
    let hash = writer.hash.finalize();
    writer.to.finish()?;
    Ok(hash)
}

/// The hash of a state's bytes; `None` if the file is missing or damaged.
pub fn verify(file: &Path) -> Option<blake3::Hash> {
    let mut input = BufReader::with_capacity(BUFFER, open_regular(file).ok()?.0);
    let length = file.metadata().ok()?.len().checked_sub(TRAILER as u64)?;
    let mut writer = HashingWriter::new(io::sink());
    io::copy(&mut input.by_ref().take(length), &mut writer).ok()?;
    let mut trailer = [0; TRAILER];
    input.read_exact(&mut trailer).ok()?;
    (writer.trailer() == trailer).then(|| writer.hash.finalize())
}

/// Reads a state that [`verify`] accepted.
pub fn read(file: &Path, kind: &StateType, context: &Context) -> Result<AnyState> {
    let length = file.metadata().map_err(Error::io("read a state", file))?.len();
    let _memory = context.budget().reserve(length, "the file of a state")?;
    let bytes = fs::read(file).map_err(Error::io("read a state", file))?;
    let state = bytes.split_last_chunk::<TRAILER>().and_then(|(body, _)| (kind.read)(body));
    state.ok_or_else(|| Error::Bug(format!("the layout of {} does not match its name", file.display())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::state::List;

    #[test]
    fn states_round_trip_and_every_flipped_or_missing_byte_is_detected() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state");
        let context = Context::silent(1, 1 << 20).unwrap();
        let state = List(vec![(1.5f64, Some(3u32), String::from("ä")), (-0.0, None, String::new())]);
        let hash = write(&file, &AnyState::new(state.clone())).unwrap();
        assert_eq!(verify(&file), Some(hash));
        let kind = StateType::of::<List<(f64, Option<u32>, String)>>();
        let stored = read(&file, &kind, &context).unwrap();
        assert_eq!(stored.into_inner::<List<(f64, Option<u32>, String)>>().unwrap(), state);
        let bytes = fs::read(&file).unwrap();
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 0x10;
            fs::write(&file, &flipped).unwrap();
            assert_eq!(verify(&file), None, "byte {index}");
            fs::write(&file, &bytes[..index]).unwrap();
            assert_eq!(verify(&file), None, "cut at {index}");
        }
        // Trailing bytes are refused.
        write(&file, &AnyState::new(vec![(); 2])).unwrap();
        assert!(read(&file, &StateType::of::<()>(), &context).is_err());
    }
}
