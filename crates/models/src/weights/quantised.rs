//! Blocks of 32 values with one scale, and for some types a smallest value.
//!
//! A byte holds two values: its low half one of the first 16, its high half one of the last 16.

use half::f16;

/// A number of two bytes.
pub(super) fn half(low: u8, high: u8) -> f32 {
    f16::from_le_bytes([low, high]).to_f32()
}

/// Four bits per value, from -8 to 7.
pub(super) fn q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let [low, high, codes @ ..] = block;
    let scale = half(*low, *high);
    for (index, code) in codes.iter().enumerate() {
        out[index] = scale * (f32::from(code & 15) - 8.0);
        out[index + 16] = scale * (f32::from(code >> 4) - 8.0);
    }
}

/// Four bits per value, from 0, above the smallest value.
pub(super) fn q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let [low, high, least_low, least_high, codes @ ..] = block;
    let (scale, least) = (half(*low, *high), half(*least_low, *least_high));
    for (index, code) in codes.iter().enumerate() {
        out[index] = scale * f32::from(code & 15) + least;
        out[index + 16] = scale * f32::from(code >> 4) + least;
    }
}

/// The codes of five bits: the fifth bit of value i is bit i of `fifth`.
fn five_bits(fifth: [u8; 4], codes: &[u8; 16], mut write: impl FnMut(usize, f32)) {
    let fifth = u32::from_le_bytes(fifth);
    for (index, code) in codes.iter().enumerate() {
        let bit = |value: usize| ((fifth >> value & 1) << 4) as u8;
        write(index, f32::from(code & 15 | bit(index)));
        write(index + 16, f32::from(code >> 4 | bit(index + 16)));
    }
}

/// Five bits per value, from -16 to 15.
pub(super) fn q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let [low, high, a, b, c, d, codes @ ..] = block;
    let scale = half(*low, *high);
    five_bits([*a, *b, *c, *d], codes, |index, code| out[index] = scale * (code - 16.0));
}

/// Five bits per value, from 0, above the smallest value.
pub(super) fn q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let [low, high, least_low, least_high, a, b, c, d, codes @ ..] = block;
    let (scale, least) = (half(*low, *high), half(*least_low, *least_high));
    five_bits([*a, *b, *c, *d], codes, |index, code| out[index] = scale * code + least);
}

/// Eight bits per value, from -128 to 127.
pub(super) fn q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let [low, high, codes @ ..] = block;
    let scale = half(*low, *high);
    out.iter_mut().zip(codes).for_each(|(value, code)| *value = f32::from(code.cast_signed()) * scale);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A block whose scale is 0.5 and, if it has one, whose smallest value is -1.
    fn block<const BYTES: usize>(least: bool, rest: impl Fn(usize) -> u8) -> [u8; BYTES] {
        let start = [f16::from_f32(0.5).to_le_bytes(), f16::from_f32(-1.0).to_le_bytes()].concat();
        let start = &start[..if least { 4 } else { 2 }];
        std::array::from_fn(|index| start.get(index).copied().unwrap_or_else(|| rest(index - start.len())))
    }

    #[test]
    fn four_bits() {
        // Byte i is 16 × (15 − i) + i: values i and 15 − i.
        let code = |index: usize| (16 * (15 - index) + index) as u8;
        let mut out = [0.0; 32];
        q4_0(&block(false, code), &mut out);
        assert_eq!((out[0], out[15], out[16], out[31]), (-4.0, 3.5, 3.5, -4.0));
        q4_1(&block(true, code), &mut out);
        assert_eq!((out[0], out[15], out[16], out[31]), (-1.0, 6.5, 6.5, -1.0));
    }

    #[test]
    fn five_bits() {
        // The fifth bit of values 1 and 31 only; all others bits are those of byte i, which is i in both halves.
        let code = |index: usize| if index < 4 { [2, 0, 0, 128][index] } else { (17 * (index - 4)) as u8 };
        let mut out = [0.0; 32];
        q5_0(&block(false, code), &mut out);
        assert_eq!((out[0], out[1], out[17], out[31]), (-8.0, 0.5, -7.5, 7.5));
        q5_1(&block(true, code), &mut out);
        assert_eq!((out[0], out[1], out[17], out[31]), (-1.0, 7.5, -0.5, 14.5));
    }

    #[test]
    fn eight_bits() {
        let mut out = [0.0; 32];
        q8_0(&block(false, |index| [0, 1, 127, 128, 255][index.min(4)]), &mut out);
        assert_eq!(out[..5], [0.0, 0.5, 63.5, -64.0, -0.5]);
    }
}
