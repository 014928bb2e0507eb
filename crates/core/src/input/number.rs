//! The number types of arrays, and their conversion to `f32`.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// A number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Number {
    /// Bytes per number.
    pub fn size(self) -> usize {
        match self {
            Number::Bool | Number::I8 | Number::U8 => 1,
            Number::I16 | Number::U16 | Number::F16 | Number::Bf16 => 2,
            Number::I32 | Number::U32 | Number::F32 => 4,
            Number::I64 | Number::U64 | Number::F64 => 8,
        }
    }

    /// The type of an element of numpy, without its byte order: `f4`.
    pub fn of_numpy(code: &str) -> Option<Number> {
        Some(match code {
            "b1" | "?" => Number::Bool,
            "i1" => Number::I8,
            "i2" => Number::I16,
            "i4" => Number::I32,
            "i8" => Number::I64,
            "u1" => Number::U8,
            "u2" => Number::U16,
            "u4" => Number::U32,
            "u8" => Number::U64,
            "f2" => Number::F16,
            "f4" => Number::F32,
            "f8" => Number::F64,
            _ => return None,
        })
    }

    /// Its name in numpy and torch.
    pub fn name(self) -> &'static str {
        match self {
            Number::Bool => "bool",
            Number::I8 => "int8",
            Number::I16 => "int16",
            Number::I32 => "int32",
            Number::I64 => "int64",
            Number::U8 => "uint8",
            Number::U16 => "uint16",
            Number::U32 => "uint32",
            Number::U64 => "uint64",
            Number::F16 => "float16",
            Number::Bf16 => "bfloat16",
            Number::F32 => "float32",
            Number::F64 => "float64",
        }
    }
}

/// A number type and its byte order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberFormat {
    pub number: Number,
    pub big_endian: bool,
}

impl NumberFormat {
    /// Little-endian numbers.
    pub fn little(number: Number) -> NumberFormat {
        NumberFormat { number, big_endian: false }
    }

    /// Bytes per number.
    pub fn size(self) -> usize {
        self.number.size()
    }

    /// The name, with the byte order if that is big-endian.
    pub fn name(self) -> String {
        let order = if self.big_endian && self.size() > 1 { ", big-endian" } else { "" };
        format!("{}{order}", self.number.name())
    }

    /// True when the bytes are `f32` in the byte order of this machine, so that a copy is enough.
    pub fn is_plain(self) -> bool {
        self.number == Number::F32 && self.big_endian == cfg!(target_endian = "big")
    }

    /// Converts as many numbers as both sides have. Integers and `f64` are rounded to the nearest `f32`.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        let big = self.big_endian;
        match self.number {
            Number::Bool => each(big, bytes, out, |[byte]| f32::from(byte != 0)),
            Number::I8 => each(big, bytes, out, |b| f32::from(i8::from_le_bytes(b))),
            Number::U8 => each(big, bytes, out, |[byte]| f32::from(byte)),
            Number::I16 => each(big, bytes, out, |b| f32::from(i16::from_le_bytes(b))),
            Number::U16 => each(big, bytes, out, |b| f32::from(u16::from_le_bytes(b))),
            Number::I32 => each(big, bytes, out, |b| i32::from_le_bytes(b) as f32),
            Number::U32 => each(big, bytes, out, |b| u32::from_le_bytes(b) as f32),
            Number::I64 => each(big, bytes, out, |b| i64::from_le_bytes(b) as f32),
            Number::U64 => each(big, bytes, out, |b| u64::from_le_bytes(b) as f32),
            Number::F32 => each(big, bytes, out, f32::from_le_bytes),
            Number::F64 => each(big, bytes, out, |b| f64::from_le_bytes(b) as f32),
            Number::Bf16 => each(big, bytes, out, |b| bf16::from_le_bytes(b).to_f32()),
            Number::F16 => match bytemuck::try_cast_slice::<u8, f16>(bytes) {
                // The crate converts whole slices with the processor's own instructions.
                Ok(halves) if big == cfg!(target_endian = "big") => {
                    let count = halves.len().min(out.len());
                    halves[..count].convert_to_f32_slice(&mut out[..count]);
                }
                _ => each(big, bytes, out, |b| f16::from_le_bytes(b).to_f32()),
            },
        }
    }

    /// How many numbers are not 0 and became 0 in [`NumberFormat::decode`]: `f64` below the range of `f32`.
    pub fn underflowed(self, bytes: &[u8], decoded: &[f32]) -> u64 {
        if self.number != Number::F64 {
            return 0;
        }
        let big = self.big_endian;
        let value = |bytes: [u8; 8]| if big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) };
        let items = bytes.as_chunks::<8>().0.iter().zip(decoded);
        items.map(|(&bytes, &decoded)| u64::from(decoded == 0.0 && value(bytes) != 0.0)).sum()
    }

    /// The numbers as integers; `None` for other types. Unsigned ones beyond `i64` become negative.
    pub fn integers(self, bytes: &[u8]) -> Option<Vec<i64>> {
        let mut out = vec![0i64; bytes.len() / self.size()];
        let big = self.big_endian;
        match self.number {
            Number::I8 => each(big, bytes, &mut out, |b| i64::from(i8::from_le_bytes(b))),
            Number::U8 => each(big, bytes, &mut out, |[byte]| i64::from(byte)),
            Number::I16 => each(big, bytes, &mut out, |b| i64::from(i16::from_le_bytes(b))),
            Number::U16 => each(big, bytes, &mut out, |b| i64::from(u16::from_le_bytes(b))),
            Number::I32 => each(big, bytes, &mut out, |b| i64::from(i32::from_le_bytes(b))),
            Number::U32 => each(big, bytes, &mut out, |b| i64::from(u32::from_le_bytes(b))),
            Number::I64 | Number::U64 => each(big, bytes, &mut out, i64::from_le_bytes),
            Number::Bool | Number::F16 | Number::Bf16 | Number::F32 | Number::F64 => return None,
        }
        Some(out)
    }
}

/// One simple loop per number type, so that the compiler can vectorise it.
fn each<const SIZE: usize, T>(big_endian: bool, bytes: &[u8], out: &mut [T], convert: impl Fn([u8; SIZE]) -> T) {
    let items = bytes.as_chunks::<SIZE>().0;
    if big_endian {
        for (value, item) in out.iter_mut().zip(items) {
            let mut item = *item;
            item.reverse();
            *value = convert(item);
        }
    } else {
        for (value, item) in out.iter_mut().zip(items) {
            *value = convert(*item);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_type_in_both_byte_orders() {
        // −2 and 5 (2 and 5 where there is no sign, 0 and 1 for bool) in each kind.
        let cases: [(Number, Vec<u8>, [f32; 2]); 13] = [
            (Number::Bool, vec![0, 7], [0.0, 1.0]),
            (Number::I8, [-2i8, 5].map(i8::to_le_bytes).concat(), [-2.0, 5.0]),
            (Number::U8, vec![2, 5], [2.0, 5.0]),
            (Number::I16, [-2i16, 5].map(i16::to_le_bytes).concat(), [-2.0, 5.0]),
            (Number::U16, [2u16, 5].map(u16::to_le_bytes).concat(), [2.0, 5.0]),
            (Number::I32, [-2i32, 5].map(i32::to_le_bytes).concat(), [-2.0, 5.0]),
            (Number::U32, [2u32, 5].map(u32::to_le_bytes).concat(), [2.0, 5.0]),
            (Number::I64, [-2i64, 5].map(i64::to_le_bytes).concat(), [-2.0, 5.0]),
            (Number::U64, [2u64, 5].map(u64::to_le_bytes).concat(), [2.0, 5.0]),
            (Number::F16, [-2.0, 5.0].map(|v| f16::from_f32(v).to_le_bytes()).concat(), [-2.0, 5.0]),
            (Number::Bf16, [-2.0, 5.0].map(|v| bf16::from_f32(v).to_le_bytes()).concat(), [-2.0, 5.0]),
            (Number::F32, [-2f32, 5.0].map(f32::to_le_bytes).concat(), [-2.0, 5.0]),
            (Number::F64, [-2f64, 5.0].map(f64::to_le_bytes).concat(), [-2.0, 5.0]),
        ];
        for (number, little, expected) in cases {
            let big: Vec<u8> = little.chunks(number.size()).flat_map(|item| item.iter().rev().copied()).collect();
            for (big_endian, bytes) in [(false, little), (true, big)] {
                let layout = NumberFormat { number, big_endian };
                let mut out = [f32::NAN; 2];
                layout.decode(&bytes, &mut out);
                assert_eq!(out, expected, "{}", layout.name());
                // A copy that starts at an odd address must give the same.
                let shifted = [&[0][..], &bytes].concat();
                layout.decode(&shifted[1..], &mut out);
                assert_eq!(out, expected, "{}", layout.name());
                if let Some(integers) = layout.integers(&bytes) {
                    assert_eq!(integers.iter().map(|&i| i as f32).collect::<Vec<_>>(), expected);
                }
            }
        }
    }

    #[test]
    fn large_numbers_round_and_overflow_is_infinite() {
        let mut out = [0.0; 2];
        NumberFormat::little(Number::U64).decode(&[u64::MAX, (1 << 24) + 1].map(u64::to_le_bytes).concat(), &mut out);
        assert_eq!(out, [18446744073709551616.0, 16777216.0]);
        NumberFormat::little(Number::F64).decode(&[1e300f64, 0.1].map(f64::to_le_bytes).concat(), &mut out);
        assert_eq!(out, [f32::INFINITY, 0.1]);
        for big_endian in [false, true] {
            let format = NumberFormat { number: Number::F64, big_endian };
            let bytes =
                [1e-50f64, 0.0, -1e-46, 0.1].map(|v| if big_endian { v.to_be_bytes() } else { v.to_le_bytes() });
            let mut out = [1.0; 4];
            format.decode(&bytes.concat(), &mut out);
            assert_eq!(format.underflowed(&bytes.concat(), &out), 2);
        }
    }
}
