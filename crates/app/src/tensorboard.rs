//! TensorBoard event files, one folder per dictionary. A record is a length, a checksum, a protocol buffer and another
//! checksum. Written here because the crates for this format depend on a protocol buffer compiler.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use etalon::error::{Error, Result};

/// One event file.
pub struct Events {
    file: File,
    path: PathBuf,
}

impl Events {
    /// Creates a file in a folder that starts at `step`. TensorBoard drops later steps of an interrupted run when it reads
    /// this file.
    pub fn create(folder: &Path, step: u64) -> Result<Events> {
        std::fs::create_dir_all(folder).map_err(Error::io("create a folder", folder))?;
        // TensorBoard reads files in the order of their names, which start with a time.
        let path = folder.join(format!("events.out.tfevents.{:010}.{step}.etalon", now() as u64));
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(Error::io("create a TensorBoard file", &path))?;
        let mut events = Events { file, path };
        events.event(0, 3, b"brain.Event:2")?;
        // A session log with the status START.
        events.event(step, 7, &[0x08, 1])?;
        Ok(events)
    }

    /// Appends the values of a step.
    pub fn numbers(&mut self, step: u64, numbers: &[(String, f64)]) -> Result<()> {
        let mut summary = Vec::new();
        for (name, number) in numbers {
            let mut value = Vec::new();
            field(&mut value, 1, name.as_bytes());
            value.push(2 << 3 | 5);
            value.extend((*number as f32).to_le_bytes());
            field(&mut summary, 1, &value);
        }
        self.event(step, 5, &summary)
    }

    /// Writes one event: time, step, and a field of bytes.
    fn event(&mut self, step: u64, number: u8, bytes: &[u8]) -> Result<()> {
        let mut event = vec![1 << 3 | 1];
        event.extend(now().to_le_bytes());
        event.push(2 << 3);
        varint(&mut event, step);
        field(&mut event, number, bytes);
        let length = (event.len() as u64).to_le_bytes();
        let record = [&length[..], &checksum(&length), &event, &checksum(&event)].concat();
        self.file.write_all(&record).map_err(Error::io("write a TensorBoard file", &self.path))
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// A field of bytes.
fn field(into: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    into.push(number << 3 | 2);
    varint(into, bytes.len() as u64);
    into.extend(bytes);
}

/// Seven bits per byte, lowest first.
fn varint(into: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        into.push(number as u8 | 0x80);
        number >>= 7;
    }
    into.push(number as u8);
}

/// The masked CRC-32C of the format: rotated by 15 bits plus a constant.
fn checksum(bytes: &[u8]) -> [u8; 4] {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_framed_and_contain_the_values() {
        let folder = tempfile::tempdir().unwrap();
        let mut events = Events::create(folder.path(), 300).unwrap();
        events.numbers(300, &[("loss".into(), 0.5), ("l0".into(), 8.0)]).unwrap();
        let bytes = std::fs::read(&events.path).unwrap();
        let (mut rest, mut records) = (&bytes[..], Vec::new());
        while !rest.is_empty() {
            let length = u64::from_le_bytes(rest[..8].try_into().unwrap()) as usize;
            assert_eq!(rest[8..12], checksum(&rest[..8]));
            let (event, after) = rest[12..].split_at(length);
            assert_eq!(after[..4], checksum(event));
            records.push(event.to_vec());
            rest = &after[4..];
        }
        // Time (9 bytes), step (300 is 0xac 0x02), then version, session log and summary.
        assert_eq!(records.len(), 3);
        assert_eq!(records[0][9..13], [2 << 3, 0, 3 << 3 | 2, 13]);
        assert_eq!(records[1][9..], [2 << 3, 0xac, 0x02, 7 << 3 | 2, 2, 0x08, 1]);
        let mut expected = vec![2 << 3, 0xac, 0x02, 5 << 3 | 2, 24];
        expected.extend([1 << 3 | 2, 11, 1 << 3 | 2, 4]);
        expected.extend(b"loss");
        expected.push(2 << 3 | 5);
        expected.extend(0.5f32.to_le_bytes());
        expected.extend([1 << 3 | 2, 9, 1 << 3 | 2, 2]);
        expected.extend(b"l0");
        expected.push(2 << 3 | 5);
        expected.extend(8f32.to_le_bytes());
        assert_eq!(records[2][9..], expected);
    }
}
