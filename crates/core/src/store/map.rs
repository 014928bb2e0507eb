//! The bytes of mapped files as numbers, and the memory that they occupy.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

pub use crate::input::Map;

/// Limits the resident memory of a long scan: counts the bytes that were read, and releases the maps regularly.
#[derive(Debug, Default)]
pub struct Residency {
    bytes: AtomicU64,
}

/// A scan keeps about this many bytes of mapped files resident.
const RESIDENT: u64 = 32 << 20;

impl Residency {
    /// Counts bytes that are about to be read from some of these maps.
    pub fn count<'a>(&self, bytes: usize, maps: impl Iterator<Item = &'a Map>) {
        if self.bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64 > RESIDENT {
            self.bytes.store(0, Ordering::Relaxed);
            maps.for_each(Map::release);
        }
    }
}

/// Bytes as numbers; they must be aligned.
pub fn numbers<T: bytemuck::AnyBitPattern>(bytes: &[u8]) -> Result<&[T]> {
    // An empty slice may not be aligned.
    if bytes.is_empty() {
        return Ok(&[]);
    }
    bytemuck::try_cast_slice(bytes).map_err(|error| Error::Bug(format!("stored numbers are not aligned: {error}")))
}

/// Bytes as `f32`, copied only where they are not aligned.
pub fn floats(bytes: &[u8]) -> Cow<'_, [f32]> {
    match bytemuck::try_cast_slice(bytes) {
        Ok(values) => Cow::Borrowed(values),
        Err(_) => bytes.as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aligned_bytes_are_numbers() {
        assert_eq!(numbers::<f32>(&1f32.to_le_bytes()[..0]).unwrap(), [0f32; 0]);
        assert!(numbers::<u64>(&[]).unwrap().is_empty() && numbers::<f32>(&[0; 5]).is_err());
    }

    #[test]
    fn values_that_are_not_aligned_are_copied() {
        let bytes: Vec<u8> = [0u8].into_iter().chain(2.5f32.to_le_bytes()).collect();
        let values = floats(&bytes[1..]);
        assert_eq!(values[..], [2.5]);
        assert_eq!(matches!(values, Cow::Borrowed(_)), (bytes[1..].as_ptr() as usize).is_multiple_of(4));
    }
}
