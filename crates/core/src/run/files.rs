//! Files of states: postcard bytes, their length and their CRC32C.

use std::fs::{self, File};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::store::disk::NewFile;

/// Length and CRC32C behind the bytes.
const TRAILER: usize = 8 + 4;

/// Bytes that are summed and written together.
const BUFFER: usize = 1 << 16;

/// Passes bytes on and sums them up.
struct Summed<W> {
    to: W,
    length: u64,
    crc: u32,
    hash: blake3::Hasher,
}

impl<W> Summed<W> {
    fn new(to: W) -> Summed<W> {
        Summed { to, length: 0, crc: 0, hash: blake3::Hasher::new() }
    }

    fn trailer(&self) -> [u8; TRAILER] {
        let mut trailer = [0; TRAILER];
        trailer[..8].copy_from_slice(&self.length.to_le_bytes());
        trailer[8..].copy_from_slice(&self.crc.to_le_bytes());
        trailer
    }
}

impl<W: Write> Write for Summed<W> {
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

/// Stores a state under its final name only when it is whole; returns the hash of its bytes.
pub fn write<S: Serialize>(target: &Path, state: &S) -> Result<blake3::Hash> {
    let bug = |error: postcard::Error| Error::Bug(format!("a state cannot be stored: {error}"));
    let io = Error::io("store a state", target);
    // The buffer comes first, so that sums are taken over large pieces.
    let mut out = BufWriter::with_capacity(BUFFER, Summed::new(NewFile::create(target)?));
    postcard::to_io(state, &mut out).map_err(bug)?;
    let mut summed = out.into_inner().map_err(|error| io(error.into_error()))?;
    let trailer = summed.trailer();
    summed.to.write_all(&trailer).map_err(Error::io("store a state", target))?;
    let hash = summed.hash.finalize();
    summed.to.finish()?;
    Ok(hash)
}

/// The hash of a file's bytes, if it is there and whole.
pub fn verify(file: &Path) -> Option<blake3::Hash> {
    let mut input = BufReader::with_capacity(BUFFER, File::open(file).ok()?);
    let length = file.metadata().ok()?.len().checked_sub(TRAILER as u64)?;
    let mut summed = Summed::new(io::sink());
    io::copy(&mut input.by_ref().take(length), &mut summed).ok()?;
    let mut trailer = [0; TRAILER];
    input.read_exact(&mut trailer).ok()?;
    (summed.trailer() == trailer).then(|| summed.hash.finalize())
}

/// Reads what [`verify`] found whole.
pub fn read<S: DeserializeOwned>(file: &Path, context: &Context) -> Result<S> {
    let length = file.metadata().map_err(Error::io("read a state", file))?.len();
    let _memory = context.budget().reserve(length, "the file of a state")?;
    let bytes = fs::read(file).map_err(Error::io("read a state", file))?;
    match bytes.split_last_chunk::<TRAILER>().map(|(body, _)| postcard::take_from_bytes(body)) {
        Some(Ok((state, []))) => Ok(state),
        _ => Err(Error::Bug(format!("{} has another layout than its name says", file.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_round_trip_and_every_flipped_or_cut_byte_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("state");
        let context = Context::silent(1, 1 << 20).unwrap();
        let state = (vec![1.5f64, -0.0], vec![Some(3u32), None], String::from("ä"));
        let hash = write(&file, &state).unwrap();
        assert_eq!(verify(&file), Some(hash));
        assert_eq!(read::<(Vec<f64>, Vec<Option<u32>>, String)>(&file, &context).unwrap(), state);
        let bytes = fs::read(&file).unwrap();
        for index in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[index] ^= 0x10;
            fs::write(&file, &flipped).unwrap();
            assert_eq!(verify(&file), None, "byte {index}");
            fs::write(&file, &bytes[..index]).unwrap();
            assert_eq!(verify(&file), None, "cut at {index}");
        }
        // Trailing bytes that the type does not ask for are refused.
        write(&file, &(1u8, 2u8)).unwrap();
        assert!(read::<u8>(&file, &context).is_err());
    }
}
