//! The number type of stored rows.

use std::borrow::Cow;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use serde::{Deserialize, Serialize};

use super::map::numbers;
use crate::error::{InputError, Key, Result};

/// How the values of a store are written. They are `f32` wherever they are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoredNumber {
    /// 32 bits: exact.
    #[default]
    F32,
    /// 16 bits: 11 significant bits, up to 65504.
    F16,
    /// 16 bits: 8 significant bits, the range of `f32`.
    Bf16,
}

impl StoredNumber {
    /// The names, for options and the endings of files.
    pub const NAMES: [&'static str; 3] = ["f32", "f16", "bf16"];

    /// The type of a name.
    pub fn parse(name: &str) -> Option<StoredNumber> {
        [StoredNumber::F32, StoredNumber::F16, StoredNumber::Bf16].into_iter().find(|number| number.name() == name)
    }

    /// The name.
    pub fn name(self) -> &'static str {
        match self {
            StoredNumber::F32 => "f32",
            StoredNumber::F16 => "f16",
            StoredNumber::Bf16 => "bf16",
        }
    }

    /// True for `f32`, which manifests and settings do not mention.
    pub fn is_f32(&self) -> bool {
        *self == StoredNumber::F32
    }

    /// Bytes per value.
    pub(crate) fn bytes(self) -> usize {
        if self.is_f32() { 4 } else { 2 }
    }

    /// The stored form of finite values. Refuses values that are too large for it.
    pub(crate) fn encode(self, values: &[f32], first_row: usize, width: usize) -> Result<Cow<'_, [u8]>> {
        let bits: Vec<u16> = match self {
            StoredNumber::F32 => return Ok(Cow::Borrowed(bytemuck::cast_slice(values))),
            StoredNumber::F16 => {
                let mut stored = vec![f16::ZERO; values.len()];
                stored.convert_from_f32_slice(values);
                stored.into_iter().map(f16::to_bits).collect()
            }
            StoredNumber::Bf16 => values.iter().map(|value| bf16::from_f32(*value).to_bits()).collect(),
        };
        let infinite = self.infinite();
        if let Some(index) = bits.iter().position(|bits| bits & infinite == infinite) {
            let (largest, advice) = match self {
                StoredNumber::F16 => ("65504", Key("dtype bf16")),
                StoredNumber::Bf16 | StoredNumber::F32 => ("3.39e38", Key("dtype f32")),
            };
            return Err(InputError::new(format!("a value is too large for {}", self.name()))
                .expected(format!("values up to {largest}"))
                .found(values[index])
                .at(format!("row {}, column {}", first_row + index / width, index % width))
                .advice(format!("store the rows with {advice}"))
                .into());
        }
        Ok(Cow::Owned(bits.iter().flat_map(|bits| bits.to_le_bytes()).collect()))
    }

    /// Stored values of 16 bits as `f32`.
    pub(super) fn decode(self, stored: &[u16]) -> Vec<f32> {
        match self {
            StoredNumber::Bf16 => stored.iter().map(|bits| bf16::from_bits(*bits).to_f32()).collect(),
            StoredNumber::F16 | StoredNumber::F32 => {
                let mut values = vec![0.0; stored.len()];
                bytemuck::cast_slice::<u16, f16>(stored).convert_to_f32_slice(&mut values);
                values
            }
        }
    }

    /// Whether all values of a block are finite.
    pub(super) fn is_finite(self, bytes: &[u8]) -> Result<bool> {
        if self.is_f32() {
            return Ok(numbers::<f32>(bytes)?.iter().all(|value| value.is_finite()));
        }
        let infinite = self.infinite();
        Ok(numbers::<u16>(bytes)?.iter().all(|bits| bits & infinite != infinite))
    }

    /// The bits of the exponent, which are all set in infinities and NaN only.
    fn infinite(self) -> u16 {
        match self {
            StoredNumber::F16 => 0x7c00,
            StoredNumber::Bf16 | StoredNumber::F32 => 0x7f80,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(number: StoredNumber, values: &[f32]) -> Vec<f32> {
        let bytes = number.encode(values, 0, 1).unwrap();
        let bits: Vec<u16> = bytes.as_chunks::<2>().0.iter().map(|bits| u16::from_le_bytes(*bits)).collect();
        assert!(number.is_finite(bytemuck::cast_slice(&bits)).unwrap());
        number.decode(&bits)
    }

    #[test]
    fn values_keep_their_precision() {
        let values: Vec<f32> = (1..200).map(|i| (i as f32 - 100.0) * 1.2345).collect();
        for (number, error) in [(StoredNumber::F16, 2f32.powi(-11)), (StoredNumber::Bf16, 2f32.powi(-8))] {
            for (found, value) in round_trip(number, &values).iter().zip(&values) {
                assert!((found - value).abs() <= error * value.abs(), "{found} {value}");
            }
        }
        assert_eq!(round_trip(StoredNumber::F16, &[65504.0, -0.5, 0.0]), [65504.0, -0.5, 0.0]);
        assert_eq!(round_trip(StoredNumber::Bf16, &[1e38, -2.0])[1], -2.0);
    }

    #[test]
    fn values_that_are_too_large_are_refused() {
        let error = StoredNumber::F16.encode(&[1.0, 2.0, 3.0, -70000.0], 10, 2).unwrap_err().to_string();
        assert!(error.contains("-70000") && error.contains("row 11, column 1") && error.contains("bf16"), "{error}");
        let error = StoredNumber::Bf16.encode(&[f32::MAX], 0, 1).unwrap_err().to_string();
        assert!(error.contains("dtype f32"), "{error}");
    }

    #[test]
    fn names_are_those_of_files() {
        for name in StoredNumber::NAMES {
            assert_eq!(StoredNumber::parse(name).unwrap().name(), name);
        }
        assert!(StoredNumber::parse("f64").is_none());
        assert!(!StoredNumber::F16.is_finite(&0x7c00u16.to_le_bytes().repeat(4)).unwrap_or(true));
    }
}
