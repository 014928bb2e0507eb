//! The number types of tensors in files, and their conversion to `f32`.

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use rayon::prelude::*;

use super::{quantised, quantised_k};

/// How the values of a tensor are stored, little-endian.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Encoding {
    F16,
    Bf16,
    F32,
    F64,
    I32,
    /// A byte, times the scale, plus the least value.
    Affine8 {
        scale: f32,
        least: f32,
    },
    /// Two bytes, times the scale, plus the least value.
    Affine16 {
        scale: f32,
        least: f32,
    },
    Q4_0,
    Q4_1,
    Q5_0,
    Q5_1,
    Q8_0,
    Q2K,
    Q3K,
    Q4K,
    Q5K,
    Q6K,
}

/// Values that a thread converts at a time.
const CHUNK: usize = 1 << 12;

impl Encoding {
    /// Values of a block, and its bytes.
    pub fn block(self) -> (usize, usize) {
        match self {
            Encoding::Affine8 { .. } => (1, 1),
            Encoding::F16 | Encoding::Bf16 | Encoding::Affine16 { .. } => (1, 2),
            Encoding::F32 | Encoding::I32 => (1, 4),
            Encoding::F64 => (1, 8),
            Encoding::Q4_0 => (32, 18),
            Encoding::Q4_1 => (32, 20),
            Encoding::Q5_0 => (32, 22),
            Encoding::Q5_1 => (32, 24),
            Encoding::Q8_0 => (32, 34),
            Encoding::Q2K => (256, 84),
            Encoding::Q3K => (256, 110),
            Encoding::Q4K => (256, 144),
            Encoding::Q5K => (256, 176),
            Encoding::Q6K => (256, 210),
        }
    }

    /// The name, as in numpy and in GGUF.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::F16 => "float16",
            Encoding::Bf16 => "bfloat16",
            Encoding::F32 => "float32",
            Encoding::F64 => "float64",
            Encoding::I32 => "int32",
            Encoding::Affine8 { .. } => "uint8, scaled",
            Encoding::Affine16 { .. } => "uint16, scaled",
            Encoding::Q4_0 => "Q4_0",
            Encoding::Q4_1 => "Q4_1",
            Encoding::Q5_0 => "Q5_0",
            Encoding::Q5_1 => "Q5_1",
            Encoding::Q8_0 => "Q8_0",
            Encoding::Q2K => "Q2_K",
            Encoding::Q3K => "Q3_K",
            Encoding::Q4K => "Q4_K",
            Encoding::Q5K => "Q5_K",
            Encoding::Q6K => "Q6_K",
        }
    }

    /// The bytes of `length` values; `None` if they do not fill blocks, or on overflow.
    pub fn bytes(self, length: usize) -> Option<usize> {
        let (values, bytes) = self.block();
        length.is_multiple_of(values).then(|| (length / values).checked_mul(bytes)).flatten()
    }

    /// Converts as many blocks as both sides have.
    pub fn decode(self, bytes: &[u8], out: &mut [f32]) {
        match self {
            Encoding::F32 => blocks(bytes, out, |&block, [value]| *value = f32::from_le_bytes(block)),
            Encoding::F64 => blocks(bytes, out, |&block, [value]| *value = f64::from_le_bytes(block) as f32),
            Encoding::Bf16 => blocks(bytes, out, |&block, [value]| *value = bf16::from_le_bytes(block).to_f32()),
            Encoding::I32 => blocks(bytes, out, |&block, [value]| *value = i32::from_le_bytes(block) as f32),
            Encoding::Affine8 { scale, least } => {
                blocks(bytes, out, |&[byte], [value]| *value = f32::from(byte) * scale + least);
            }
            Encoding::Affine16 { scale, least } => {
                blocks(bytes, out, |&block, [value]| *value = f32::from(u16::from_le_bytes(block)) * scale + least);
            }
            Encoding::F16 => {
                out.par_chunks_mut(CHUNK).zip(bytes.par_chunks(2 * CHUNK)).for_each(|(out, bytes)| halves(bytes, out))
            }
            Encoding::Q4_0 => blocks(bytes, out, quantised::q4_0),
            Encoding::Q4_1 => blocks(bytes, out, quantised::q4_1),
            Encoding::Q5_0 => blocks(bytes, out, quantised::q5_0),
            Encoding::Q5_1 => blocks(bytes, out, quantised::q5_1),
            Encoding::Q8_0 => blocks(bytes, out, quantised::q8_0),
            Encoding::Q2K => blocks(bytes, out, quantised_k::q2),
            Encoding::Q3K => blocks(bytes, out, quantised_k::q3),
            Encoding::Q4K => blocks(bytes, out, quantised_k::q4),
            Encoding::Q5K => blocks(bytes, out, quantised_k::q5),
            Encoding::Q6K => blocks(bytes, out, quantised_k::q6),
        }
    }
}

/// Converts blocks of a constant size.
fn blocks<const BYTES: usize, const VALUES: usize>(
    bytes: &[u8],
    out: &mut [f32],
    convert: impl Fn(&[u8; BYTES], &mut [f32; VALUES]) + Sync,
) {
    let (blocks, out) = (bytes.as_chunks::<BYTES>().0, out.as_chunks_mut::<VALUES>().0);
    out.par_iter_mut().zip(blocks).with_min_len(CHUNK / VALUES).for_each(|(out, block)| convert(block, out));
}

/// Converts `float16`: a whole slice at a time, because a single conversion asks the processor for its features.
fn halves(bytes: &[u8], out: &mut [f32]) {
    let mut halves = [f16::ZERO; CHUNK];
    let blocks = bytes.as_chunks::<2>().0;
    halves.iter_mut().zip(blocks).for_each(|(half, block)| *half = f16::from_le_bytes(*block));
    let count = out.len().min(blocks.len()).min(CHUNK);
    halves[..count].convert_to_f32_slice(&mut out[..count]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(encoding: Encoding, bytes: &[u8], length: usize) -> Vec<f32> {
        let mut out = vec![f32::NAN; length];
        encoding.decode(bytes, &mut out);
        out
    }

    #[test]
    fn plain_numbers() {
        let half = [-2.0, 0.5].map(|value| f16::from_f32(value).to_le_bytes()).concat();
        assert_eq!(decoded(Encoding::F16, &half, 2), [-2.0, 0.5]);
        let brain = [-2.0, 0.5].map(|value| bf16::from_f32(value).to_le_bytes()).concat();
        assert_eq!(decoded(Encoding::Bf16, &brain, 2), [-2.0, 0.5]);
        assert_eq!(decoded(Encoding::F32, &[-2f32, 0.5].map(f32::to_le_bytes).concat(), 2), [-2.0, 0.5]);
        assert_eq!(decoded(Encoding::F64, &[-2f64, 0.5].map(f64::to_le_bytes).concat(), 2), [-2.0, 0.5]);
        assert_eq!(decoded(Encoding::I32, &[-2i32, 7].map(i32::to_le_bytes).concat(), 2), [-2.0, 7.0]);
        assert_eq!(decoded(Encoding::Affine8 { scale: 0.5, least: -1.0 }, &[0, 255], 2), [-1.0, 126.5]);
        let wide = [0u16, 300].map(u16::to_le_bytes).concat();
        assert_eq!(decoded(Encoding::Affine16 { scale: 0.5, least: 1.0 }, &wide, 2), [1.0, 151.0]);
    }

    #[test]
    fn long_tensors_are_converted_completely() {
        let values: Vec<f32> = (0..3 * CHUNK + 5).map(|value| (value % 2000) as f32).collect();
        let bytes: Vec<u8> = values.iter().flat_map(|&value| f16::from_f32(value).to_le_bytes()).collect();
        assert_eq!(decoded(Encoding::F16, &bytes, values.len()), values);
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(decoded(Encoding::F32, &bytes, values.len()), values);
    }

    #[test]
    fn bytes_of_whole_blocks() {
        assert_eq!((Encoding::Q4_1.bytes(64), Encoding::Q4_1.bytes(40)), (Some(40), None));
        assert_eq!((Encoding::F64.bytes(3), Encoding::F64.bytes(usize::MAX)), (Some(24), None));
    }
}
