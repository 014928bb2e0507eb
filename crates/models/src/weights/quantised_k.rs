//! Blocks of 256 values in groups of 16 or 32, each group with its own scale, which is itself quantised.

use super::quantised::half;

/// Two bytes at an offset, as a number.
fn half_at(block: &[u8], offset: usize) -> f32 {
    half(block[offset], block[offset + 1])
}

/// Two bits of every value: 32 bytes hold values 0 to 31 in their lowest bits, 32 to 63 in the next, and so on.
fn two_bits(codes: &[u8], value: usize) -> u8 {
    codes[value / 128 * 32 + value % 32] >> (value % 128 / 32 * 2) & 3
}

/// Scales and smallest values of 6 bits of the eight groups of 32 values. The first four of each are in the low bits of
/// bytes 0 to 3 and 4 to 7; the last four have their low bits in bytes 8 to 11, their high bits above the first four.
fn scales(packed: &[u8], group: usize) -> (f32, f32) {
    let (scale, least) = match group {
        0..4 => (packed[group] & 63, packed[group + 4] & 63),
        _ => {
            let low = packed[group + 4];
            (low & 15 | packed[group - 4] >> 6 << 4, low >> 4 | packed[group] >> 6 << 4)
        }
    };
    (f32::from(scale), f32::from(least))
}

/// Two bits per value; scale and smallest value of four bits for 16 values. 16 bytes of these, 64 of codes, two
/// numbers.
pub(super) fn q2(block: &[u8; 84], out: &mut [f32; 256]) {
    let (scale, least) = (half_at(block, 80), half_at(block, 82));
    for (index, value) in out.iter_mut().enumerate() {
        let group = block[index / 16];
        let code = f32::from(two_bits(&block[16..80], index));
        *value = scale * f32::from(group & 15) * code - least * f32::from(group >> 4);
    }
}

/// Three bits per value, from -4 to 3; scales of six bits, from -32 to 31, for 16 values. 32 bytes of third bits, 64 of
/// codes, 12 of scales, one number.
pub(super) fn q3(block: &[u8; 110], out: &mut [f32; 256]) {
    let (packed, scale) = (&block[96..108], half_at(block, 108));
    for (index, value) in out.iter_mut().enumerate() {
        let group = index / 16;
        let low = packed[group % 8] >> (group / 8 * 4) & 15;
        let high = packed[8 + group % 4] >> (group / 4 * 2) & 3;
        let group_scale = scale * (f32::from(low | high << 4) - 32.0);
        // The offset is 4 where the third bit is not set.
        let third = block[index % 32] >> (index / 32) & 1;
        *value = group_scale * (f32::from(two_bits(&block[32..96], index)) - f32::from(4 * (1 - third)));
    }
}

/// Four bits per value; scale and smallest value of six bits for 32 values. Two numbers, 12 bytes of scales, 128 of
/// codes.
pub(super) fn q4(block: &[u8; 144], out: &mut [f32; 256]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    for (group, values) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (group_scale, group_least) = scales(&block[4..16], group);
        let (group_scale, group_least) = (scale * group_scale, least * group_least);
        for (index, value) in values.iter_mut().enumerate() {
            let code = block[16 + group / 2 * 32 + index] >> (group % 2 * 4) & 15;
            *value = group_scale * f32::from(code) - group_least;
        }
    }
}

/// Five bits per value; scales as in [`q4`]. Two numbers, 12 bytes of scales, 32 of fifth bits, 128 of codes.
pub(super) fn q5(block: &[u8; 176], out: &mut [f32; 256]) {
    let (scale, least) = (half_at(block, 0), half_at(block, 2));
    for (group, values) in out.as_chunks_mut::<32>().0.iter_mut().enumerate() {
        let (group_scale, group_least) = scales(&block[4..16], group);
        let (group_scale, group_least) = (scale * group_scale, least * group_least);
        for (index, value) in values.iter_mut().enumerate() {
            let code = block[48 + group / 2 * 32 + index] >> (group % 2 * 4) & 15;
            let fifth = block[16 + index] >> group & 1;
            *value = group_scale * f32::from(code | fifth << 4) - group_least;
        }
    }
}

/// Six bits per value, from -32 to 31; scales of eight bits for 16 values. 128 bytes of low bits, 64 of high bits, 16
/// of scales, one number.
pub(super) fn q6(block: &[u8; 210], out: &mut [f32; 256]) {
    let scale = half_at(block, 208);
    for (index, value) in out.iter_mut().enumerate() {
        let low = block[index / 128 * 64 + index % 64] >> (index % 128 / 64 * 4) & 15;
        let high = two_bits(&block[128..192], index);
        let group_scale = scale * f32::from(block[192 + index / 16].cast_signed());
        *value = group_scale * (f32::from(low | high << 4) - 32.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    /// A block of zeros with numbers at some offsets.
    fn block<const BYTES: usize>(bytes: &[(usize, u8)], halves: &[(usize, f32)]) -> [u8; BYTES] {
        let mut block = [0; BYTES];
        bytes.iter().for_each(|&(offset, byte)| block[offset] = byte);
        for &(offset, value) in halves {
            block[offset..offset + 2].copy_from_slice(&f16::from_f32(value).to_le_bytes());
        }
        block
    }

    #[test]
    fn two_and_three_bits() {
        // Value 37 is in the second two bits of byte 5; its group is 2, with scale 3 and smallest value 2.
        let mut out = [0.0; 256];
        q2(&block(&[(16 + 5, 0b1100), (2, 3 | 2 << 4)], &[(80, 0.5), (82, 0.25)]), &mut out);
        assert_eq!((out[37], out[36], out[0]), (0.5 * 3.0 * 3.0 - 0.5, -0.5, 0.0));
        // The same code with its third bit: byte 5, bit 1. Scale of group 2: low bits 7, high bits 2: 39 − 32 = 7.
        let scales = [(96 + 2, 7), (96 + 8 + 2, 0b10)];
        q3(&block(&[(32 + 5, 0b1100), (5, 0b10), scales[0], scales[1]], &[(108, 0.5)]), &mut out);
        assert_eq!((out[37], out[36]), (0.5 * 7.0 * 3.0, 0.5 * 7.0 * -4.0));
    }

    #[test]
    fn four_and_five_bits() {
        // Value 170 is in group 5: high half of byte 64 + 10. The low bits of its scale and smallest value are in byte
        // 9, the high bits in bytes 1 and 5: 3 + 16 × 2 = 35 and 1 + 16 × 1 = 17.
        let scales = [(4 + 9, 3 | 1 << 4), (4 + 1, 2 << 6), (4 + 5, 1 << 6)];
        let mut out = [0.0; 256];
        let code = (16 + 64 + 10, 9 << 4);
        q4(&block(&[scales[0], scales[1], scales[2], code], &[(0, 0.5), (2, 0.25)]), &mut out);
        assert_eq!((out[170], out[160]), (0.5 * 35.0 * 9.0 - 0.25 * 17.0, -0.25 * 17.0));
        // With the fifth bit: bit 5 of byte 10.
        let (code, fifth) = ((48 + 64 + 10, 9 << 4), (16 + 10, 1 << 5));
        q5(&block(&[scales[0], scales[1], scales[2], code, fifth], &[(0, 0.5), (2, 0.25)]), &mut out);
        assert_eq!((out[170], out[160]), (0.5 * 35.0 * 25.0 - 0.25 * 17.0, -0.25 * 17.0));
        // The first groups have their scales in one place.
        q4(&block(&[(4, 63), (8, 5), (16, 1)], &[(0, 1.0), (2, 1.0)]), &mut out);
        assert_eq!((out[0], out[1]), (63.0 - 5.0, -5.0));
    }

    #[test]
    fn six_bits() {
        // Value 200: half 1, second 64 of it (high bits of byte 64 + 8), third 32 of it (bits 4 and 5 of byte 32 + 8).
        let mut out = [0.0; 256];
        q6(&block(&[(64 + 8, 5 << 4), (128 + 32 + 8, 3 << 4), (192 + 12, 254)], &[(208, 0.5)]), &mut out);
        assert_eq!((out[200], out[201]), (0.5 * -2.0 * (53.0 - 32.0), 32.0));
    }
}
