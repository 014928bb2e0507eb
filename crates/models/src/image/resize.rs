//! Resizing with the arithmetic of the libraries that networks were trained with.
//!
//! Pillow rounds weights to 22 bits. torch rounds those for 8-bit images to 16 bits, with a precision that depends on the
//! largest weight. Floating-point images are not rounded. Images are filtered along one axis, rounded, and filtered along
//! the other, so that the order matters: rows come first, except in Pillow 13 and later when the height shrinks by more
//! than twice as many pixels as the width. `fast_image_resize` 6.1 has other weights: it differs by one level, at most
//! two, in up to a quarter of the values of `tests/golden/images`.
//!
//! Only the part of the output that a crop keeps is computed.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::filter::{Filter, Weights, nearest_exact, nearest_running};
use super::pixels::Pixels;

/// The arithmetic of resizing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kernel {
    /// `PIL.Image.resize` of Pillow 13 and later.
    Pillow,
    /// `PIL.Image.resize` of earlier versions, which always filter rows first. Differences are at most one level.
    Pillow12,
    /// torch on an 8-bit tensor, with antialias (`torchvision.transforms.v2` on tensors).
    TensorU8,
    /// torch on a floating-point tensor, with antialias; the result is not rounded.
    TensorF32,
}

impl Kernel {
    /// The name, as in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Kernel::Pillow => "pillow",
            Kernel::Pillow12 => "pillow12",
            Kernel::TensorU8 => "tensor_u8",
            Kernel::TensorF32 => "tensor_f32",
        }
    }

    /// Whether the library has the filter.
    pub fn supports(self, filter: Filter) -> bool {
        match self {
            Kernel::Pillow | Kernel::Pillow12 => true,
            Kernel::TensorU8 | Kernel::TensorF32 => !matches!(filter, Filter::Box | Filter::Hamming),
        }
    }
}

/// One axis: the resized length, and the part of it that is computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    /// The resized length.
    pub resized: usize,
    /// The part to compute.
    pub kept: Range<usize>,
}

/// The part of the resized image, interleaved, rounded to 8 bits.
pub(super) fn resize_u8(pixels: &Pixels, filter: Filter, kernel: Kernel, x: &Axis, y: &Axis) -> Vec<u8> {
    if filter == Filter::Nearest {
        return gather(pixels, kernel, x, y);
    }
    let pillow = |_, _: &Axis| Fixed { precision: 22 };
    match kernel {
        Kernel::Pillow => {
            let shrinks = |from: usize, to: usize| from as i64 - to as i64;
            let down = shrinks(pixels.height(), y.resized);
            let columns_first = down > 0 && down > 2 * shrinks(pixels.width(), x.resized);
            filtered(pixels, filter, x, y, columns_first, pillow)
        }
        Kernel::Pillow12 => filtered(pixels, filter, x, y, false, pillow),
        Kernel::TensorU8 => filtered(pixels, filter, x, y, false, |input, axis| Fixed {
            precision: sixteen_bits(Weights::new(filter, input, axis.resized).largest()),
        }),
        Kernel::TensorF32 => {
            let exact = resize_f32(pixels, filter, x, y);
            exact.into_iter().map(|value| value.clamp(0.0, 255.0).round_ties_even() as u8).collect()
        }
    }
}

/// The part of the resized image, interleaved, not rounded: values from 0 to 255 and, for cubics, slightly beyond.
pub(super) fn resize_f32(pixels: &Pixels, filter: Filter, x: &Axis, y: &Axis) -> Vec<f32> {
    if filter == Filter::Nearest {
        return gather(pixels, Kernel::TensorF32, x, y).into_iter().map(f32::from).collect();
    }
    filtered(pixels, filter, x, y, false, |_, _| Float)
}

/// The number of bits after the point for which the largest weight still fits into 16 bits.
fn sixteen_bits(largest: f64) -> u32 {
    (0..22).find(|bits| (0.5 + largest * f64::from(1 << (bits + 1))) as i32 >= 1 << 15).unwrap_or(22)
}

fn gather(pixels: &Pixels, kernel: Kernel, x: &Axis, y: &Axis) -> Vec<u8> {
    let nearest = match kernel {
        Kernel::Pillow | Kernel::Pillow12 => nearest_running,
        Kernel::TensorU8 | Kernel::TensorF32 => nearest_exact,
    };
    let columns = nearest(pixels.width(), x.resized, x.kept.clone());
    let mut values = Vec::with_capacity(columns.len() * y.kept.len() * 3);
    for row in nearest(pixels.height(), y.resized, y.kept.clone()) {
        let row = &pixels.rgb()[row * pixels.width() * 3..];
        columns.iter().for_each(|column| values.extend_from_slice(&row[column * 3..column * 3 + 3]));
    }
    values
}

/// The numbers of a pass: 8-bit values with integer weights, or floating-point values.
trait Arithmetic {
    /// Values between the passes and in the result.
    type Value: Copy + Into<Self::Number> + From<u8>;
    /// Weights and sums.
    type Number: Copy + From<u8>;
    fn weight(&self, weight: f64) -> Self::Number;
    fn start(&self) -> Self::Number;
    fn add(sum: Self::Number, weight: Self::Number, value: Self::Number) -> Self::Number;
    fn finish(&self, sum: Self::Number) -> Self::Value;
}

struct Fixed {
    precision: u32,
}

impl Arithmetic for Fixed {
    type Value = u8;
    type Number = i32;

    fn weight(&self, weight: f64) -> i32 {
        let scaled = weight * f64::from(1 << self.precision);
        (if weight < 0.0 { scaled - 0.5 } else { scaled + 0.5 }) as i32
    }

    fn start(&self) -> i32 {
        1 << (self.precision - 1)
    }

    #[inline(always)]
    fn add(sum: i32, weight: i32, value: i32) -> i32 {
        // The magnitudes of the weights sum to less than 2, so 32 bits suffice. Checks for overflow would prevent
        // vector instructions.
        sum.wrapping_add(weight.wrapping_mul(value))
    }

    #[inline(always)]
    fn finish(&self, sum: i32) -> u8 {
        (sum >> self.precision).clamp(0, 255) as u8
    }
}

struct Float;

impl Arithmetic for Float {
    type Value = f32;
    type Number = f32;

    fn weight(&self, weight: f64) -> f32 {
        weight as f32
    }

    fn start(&self) -> f32 {
        0.0
    }

    #[inline(always)]
    fn add(sum: f32, weight: f32, value: f32) -> f32 {
        sum + weight * value
    }

    fn finish(&self, sum: f32) -> f32 {
        sum
    }
}

/// The weights of the kept pixels of an axis.
struct Taps<W> {
    /// The first input pixel and the range of weights.
    spans: Vec<(usize, Range<usize>)>,
    weights: Vec<W>,
}

impl<W> Taps<W> {
    fn new(filter: Filter, input: usize, axis: &Axis, round: impl Fn(f64) -> W) -> Taps<W> {
        let all = Weights::new(filter, input, axis.resized);
        let mut taps = Taps { spans: Vec::with_capacity(axis.kept.len()), weights: Vec::new() };
        let mut exact = Vec::new();
        for index in axis.kept.clone() {
            let first = all.at(index, &mut exact);
            let start = taps.weights.len();
            taps.weights.extend(exact.iter().map(|&weight| round(weight)));
            taps.spans.push((first, start..taps.weights.len()));
        }
        taps
    }

    /// The input pixels that are used.
    fn inputs(&self) -> Range<usize> {
        let first = self.spans.iter().map(|(first, _)| *first).min().unwrap_or(0);
        let end = self.spans.iter().map(|(first, weights)| first + weights.len()).max().unwrap_or(0);
        first..end
    }
}

/// Filters both axes; an axis that keeps its length is only cut.
fn filtered<A: Arithmetic>(
    pixels: &Pixels,
    filter: Filter,
    x: &Axis,
    y: &Axis,
    columns_first: bool,
    arithmetic: impl Fn(usize, &Axis) -> A,
) -> Vec<A::Value> {
    let (bytes, width, height) = (pixels.rgb(), pixels.width(), pixels.height());
    let (across, down) = (arithmetic(width, x), arithmetic(height, y));
    let taps = |input: usize, axis: &Axis, arithmetic: &A| {
        (axis.resized != input).then(|| Taps::new(filter, input, axis, |weight| arithmetic.weight(weight)))
    };
    let (cut, whole) = (x.kept.start * 3..x.kept.end * 3, x.kept.len() * 3);
    match (taps(width, x, &across), taps(height, y, &down)) {
        (None, None) => {
            let rows = bytes.chunks_exact(width * 3).skip(y.kept.start).take(y.kept.len());
            rows.flat_map(|row| row[cut.clone()].iter().map(|&byte| byte.into())).collect()
        }
        (Some(row_taps), None) => filter_rows(bytes, width * 3, y.kept.clone(), &row_taps, 0, &across),
        (None, Some(column_taps)) => filter_columns(bytes, width * 3, cut, &column_taps, 0, &down),
        (Some(row_taps), Some(column_taps)) if columns_first => {
            let used = row_taps.inputs();
            let short = filter_columns(bytes, width * 3, used.start * 3..used.end * 3, &column_taps, 0, &down);
            filter_rows(&short, used.len() * 3, 0..y.kept.len(), &row_taps, used.start, &across)
        }
        (Some(row_taps), Some(column_taps)) => {
            let used = column_taps.inputs();
            let narrow = filter_rows(bytes, width * 3, used.clone(), &row_taps, 0, &across);
            filter_columns(&narrow, whole, 0..whole, &column_taps, used.start, &down)
        }
    }
}

/// Filters some of the rows of `values`, which have `stride` values each; the first pixel of a row is pixel `first`.
fn filter_rows<A: Arithmetic, V: Copy + Into<A::Number>>(
    values: &[V],
    stride: usize,
    rows: Range<usize>,
    taps: &Taps<A::Number>,
    first: usize,
    arithmetic: &A,
) -> Vec<A::Value> {
    let mut filtered = Vec::with_capacity(rows.len() * taps.spans.len() * 3);
    for row in values.chunks_exact(stride).skip(rows.start).take(rows.len()) {
        for (pixel, weights) in &taps.spans {
            let mut sums = [arithmetic.start(); 3];
            let pixels = row[(pixel - first) * 3..].chunks_exact(3);
            for (&weight, pixel) in taps.weights[weights.clone()].iter().zip(pixels) {
                for (sum, &value) in sums.iter_mut().zip(pixel) {
                    *sum = A::add(*sum, weight, value.into());
                }
            }
            filtered.extend(sums.map(|sum| arithmetic.finish(sum)));
        }
    }
    filtered
}

/// Filters some of the columns of `values`, which has rows of `stride` values; its first row is row `first`.
fn filter_columns<A: Arithmetic, V: Copy + Into<A::Number>>(
    values: &[V],
    stride: usize,
    columns: Range<usize>,
    taps: &Taps<A::Number>,
    first: usize,
    arithmetic: &A,
) -> Vec<A::Value> {
    let mut filtered = Vec::with_capacity(columns.len() * taps.spans.len());
    let mut sums = vec![arithmetic.start(); columns.len()];
    for (row, weights) in &taps.spans {
        sums.fill(arithmetic.start());
        let rows = values[(row - first) * stride..].chunks_exact(stride);
        for (&weight, row) in taps.weights[weights.clone()].iter().zip(rows) {
            for (sum, &value) in sums.iter_mut().zip(&row[columns.clone()]) {
                *sum = A::add(*sum, weight, value.into());
            }
        }
        filtered.extend(sums.iter().map(|&sum| arithmetic.finish(sum)));
    }
    filtered
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(length: usize) -> Axis {
        Axis { resized: length, kept: 0..length }
    }

    /// The red values of a line, resized along its length.
    fn line(reds: &[u8], length: usize, filter: Filter, kernel: Kernel) -> Vec<u8> {
        let rgb = reds.iter().flat_map(|&red| [red, 0, 255]).collect();
        let pixels = Pixels::new(reds.len(), 1, rgb).unwrap();
        let across = resize_u8(&pixels, filter, kernel, &whole(length), &whole(1));
        assert!(across.chunks_exact(3).all(|pixel| pixel[1..] == [0, 255]));
        let upright = Pixels::new(1, reds.len(), pixels.into_rgb()).unwrap();
        assert_eq!(resize_u8(&upright, filter, kernel, &whole(1), &whole(length)), across);
        across.into_iter().step_by(3).collect()
    }

    #[test]
    fn a_line_of_four_pixels() {
        let reds = [0, 100, 200, 250];
        // Weights 3/7, 3/7, 1/7: 500 / 7 = 71.4; 1/7, 3/7, 3/7: 1450 / 7 = 207.1.
        assert_eq!(line(&reds, 2, Filter::Bilinear, Kernel::Pillow), [71, 207]);
        assert_eq!(line(&reds, 2, Filter::Bilinear, Kernel::TensorU8), [71, 207]);
        // Means of pairs.
        assert_eq!(line(&reds, 2, Filter::Box, Kernel::Pillow), [50, 225]);
        assert_eq!(line(&reds, 2, Filter::Nearest, Kernel::Pillow), [100, 250]);
        // Twice as long: quarters between neighbours, and the ends repeat.
        assert_eq!(line(&reds, 8, Filter::Bilinear, Kernel::Pillow), [0, 25, 75, 125, 175, 213, 238, 250]);
        assert_eq!(line(&reds, 4, Filter::Lanczos, Kernel::Pillow), reds);
    }

    #[test]
    fn overshoot_is_clipped() {
        // Pixel 3 has its centre at 1.75: 255 * (0.2265625 - 0.0234375) = 51.8. Pixel 2: 255 * (-0.0703125) is below 0.
        assert_eq!(line(&[0, 0, 255, 255], 8, Filter::Bicubic, Kernel::Pillow), [0, 0, 0, 52, 203, 255, 255, 255]);
    }

    #[test]
    fn a_part_equals_that_part_of_the_whole() {
        let rgb: Vec<u8> = (0..17 * 13 * 3).map(|i| (i * i * 7 % 251) as u8).collect();
        let pixels = Pixels::new(17, 13, rgb).unwrap();
        for filter in [Filter::Nearest, Filter::Box, Filter::Bilinear, Filter::Bicubic, Filter::Lanczos] {
            for kernel in [Kernel::Pillow, Kernel::Pillow12, Kernel::TensorU8, Kernel::TensorF32] {
                for (width, height) in [(7, 5), (30, 40), (30, 5), (17, 5), (7, 13), (17, 13)] {
                    let all = resize_u8(&pixels, filter, kernel, &whole(width), &whole(height));
                    let x = Axis { resized: width, kept: 2..width - 1 };
                    let y = Axis { resized: height, kept: 1..height - 2 };
                    let part = resize_u8(&pixels, filter, kernel, &x, &y);
                    let rows = all.chunks_exact(width * 3).skip(1).take(height - 3);
                    let expected: Vec<u8> = rows.flat_map(|row| row[6..(width - 1) * 3].to_vec()).collect();
                    assert_eq!(part, expected, "{filter:?} {kernel:?} {width} {height}");
                }
            }
        }
    }

    #[test]
    fn the_order_of_passes() {
        // One pixel of value 2 in the corner of a black image, made a single pixel by means of rows and columns.
        let corner = |width: usize, height: usize, kernel| {
            let mut rgb = vec![0; width * height * 3];
            rgb[..3].fill(2);
            resize_u8(&Pixels::new(width, height, rgb).unwrap(), Filter::Box, kernel, &whole(1), &whole(1))
        };
        // The height shrinks by 3, the width by 1. Columns first: 0.5 → 1 and 0, then 0.5 → 1. Rows first: 1, 0, 0, 0,
        // then 0.25 → 0.
        assert_eq!(corner(2, 4, Kernel::Pillow), [1; 3]);
        assert_eq!(corner(2, 4, Kernel::Pillow12), [0; 3]);
        // By 2 and 1, which is not more than twice as much: 1, 0, 0, then 0.33 → 0.
        assert_eq!(corner(2, 3, Kernel::Pillow), [0; 3]);
    }

    #[test]
    fn precision_of_sixteen_bits() {
        // 0.5 + 1 * 2^14 < 2^15 <= 0.5 + 1 * 2^15.
        assert_eq!(sixteen_bits(1.0), 14);
        assert_eq!(sixteen_bits(0.4), 16);
        assert_eq!(sixteen_bits(0.0), 22);
    }
}
