//! Linear maps.

use std::str::FromStr;

use etalon_kernel::neural::{self, Bf16Rows, Bf16Weights, Filters, Finish, Int8Rows, Int8Weights};
use rayon::prelude::*;

use super::CHUNK;

/// The number type of the weights of linear maps while they are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum WeightNumber {
    /// 32 bits.
    #[default]
    F32,
    /// 16 bits with the range of `f32`; the rows are rounded too.
    Bf16,
    /// 8 bits with a step per group of 128; the rows are rounded too, except outliers.
    Int8,
}

impl WeightNumber {
    /// The names, for options.
    pub const NAMES: [&'static str; 3] = ["f32", "bf16", "int8"];

    /// The name of this one.
    pub fn name(self) -> &'static str {
        WeightNumber::NAMES[self as usize]
    }

    /// Whether it is the default.
    pub fn is_f32(&self) -> bool {
        *self == WeightNumber::F32
    }
}

impl FromStr for WeightNumber {
    type Err = ();

    fn from_str(name: &str) -> Result<WeightNumber, ()> {
        let all = [WeightNumber::F32, WeightNumber::Bf16, WeightNumber::Int8];
        all.into_iter().find(|number| number.name() == name).ok_or(())
    }
}

/// `y = x W + b`. Every output is computed alike, whatever else is computed with it, so its bits do not depend on how rows and
/// columns are divided into tasks.
#[derive(Clone, Debug)]
pub struct Linear {
    from: usize,
    to: usize,
    weight: Packed,
    bias: Option<Vec<f32>>,
}

/// Weights in the order of the products.
#[derive(Clone, Debug)]
enum Packed {
    F32(Filters),
    Bf16(Bf16Weights),
    Int8(Int8Weights),
}

/// Buffers of a task.
#[derive(Default)]
struct Buffers {
    starts: Vec<usize>,
    sums: Vec<f32>,
    bf16: Bf16Rows,
    int8: Int8Rows,
}

/// Panels that one task computes for a single row.
const PANELS: usize = 8;

/// Fewest rows of a task.
const FEWEST_ROWS: usize = 12;

impl Linear {
    /// From the order (in, out).
    pub fn new(from: usize, to: usize, weight: &[f32], bias: Option<Vec<f32>>) -> Linear {
        debug_assert!(weight.len() == from * to && bias.as_ref().is_none_or(|bias| bias.len() == to));
        let weight = Packed::F32(Filters::pack(1, from, to, |index, column| weight[index * to + column]));
        Linear { from, to, weight, bias }
    }

    /// From PyTorch's order (out, in). Several maps of the same input are put side by side.
    pub fn stacked(from: usize, parts: &[&[f32]], bias: Option<Vec<f32>>) -> Linear {
        let rows: Vec<&[f32]> = parts.iter().flat_map(|part| part.chunks_exact(from)).collect();
        let weight = Packed::F32(Filters::pack(1, from, rows.len(), |index, column| rows[column][index]));
        Linear { from, to: rows.len(), weight, bias }
    }

    /// Values per input row.
    pub fn from(&self) -> usize {
        self.from
    }

    /// Values per output row.
    pub fn to(&self) -> usize {
        self.to
    }

    /// The same map with weights of another number type.
    #[must_use]
    pub fn with_numbers(self, number: WeightNumber) -> Linear {
        let (Packed::F32(filters), to) = (&self.weight, self.to) else { return self };
        let weight = match number {
            WeightNumber::F32 => return self,
            WeightNumber::Bf16 => {
                let values = filters.unpack();
                Packed::Bf16(Bf16Weights::pack(self.from, to, |index, column| values[index * to + column]))
            }
            WeightNumber::Int8 => {
                let values = filters.unpack();
                Packed::Int8(Int8Weights::pack(self.from, to, |index, column| values[index * to + column]))
            }
        };
        Linear { weight, ..self }
    }

    /// The weights, in the order (in, out).
    pub fn weight(&self) -> Vec<f32> {
        match &self.weight {
            Packed::F32(weight) => weight.unpack(),
            Packed::Bf16(weight) => weight.unpack(),
            Packed::Int8(weight) => weight.unpack(),
        }
    }

    /// The bias.
    pub fn bias(&self) -> Option<&[f32]> {
        self.bias.as_deref()
    }

    /// `out = x W + b`.
    pub fn apply(&self, x: &[f32], out: &mut [f32]) {
        self.product(x, out, false);
    }

    /// `out += x W + b`.
    pub fn add(&self, x: &[f32], out: &mut [f32]) {
        self.product(x, out, true);
    }

    fn product(&self, x: &[f32], out: &mut [f32], add: bool) {
        if let (Packed::F32(filters), true) = (&self.weight, x.len() == self.from) {
            return self.single(filters, x, out, add);
        }
        // Equal parts for all threads.
        let count = x.len().checked_div(self.from).unwrap_or(0);
        let tasks = count.div_ceil(CHUNK).next_multiple_of(rayon::current_num_threads().max(1));
        let rows = count.div_ceil(tasks.max(1)).max(FEWEST_ROWS);
        let chunks = out.par_chunks_mut(rows * self.to).zip(x.par_chunks(rows * self.from));
        chunks.for_each_init(Buffers::default, |buffers, (out, x)| {
            if add {
                let mut sums = std::mem::take(&mut buffers.sums);
                sums.resize(out.len(), 0.0);
                self.chunk(x, &mut sums, buffers);
                neural::add(&sums, out);
                buffers.sums = sums;
            } else {
                self.chunk(x, out, buffers);
            }
        });
    }

    fn chunk(&self, x: &[f32], out: &mut [f32], buffers: &mut Buffers) {
        match &self.weight {
            Packed::F32(filters) => {
                buffers.starts.clear();
                buffers.starts.extend((0..x.len() / self.from.max(1)).map(|row| row * self.from));
                return filters.apply(x, &buffers.starts, &Finish { bias: self.bias(), ..Finish::NONE }, out);
            }
            Packed::Bf16(weight) => {
                buffers.bf16.fill(x, self.from);
                weight.apply(&buffers.bf16, out);
            }
            Packed::Int8(weight) => {
                buffers.int8.fill(x, self.from);
                weight.apply(&buffers.int8, out);
            }
        }
        if let Some(bias) = &self.bias {
            neural::add_rows(bias, out);
        }
    }

    /// One row: its outputs are divided between tasks.
    fn single(&self, filters: &Filters, x: &[f32], out: &mut [f32], add: bool) {
        let mut parts = Vec::with_capacity(filters.panels().div_ceil(PANELS));
        let mut left = out;
        for first in (0..filters.panels()).step_by(PANELS) {
            let panels = first..(first + PANELS).min(filters.panels());
            let columns = filters.columns_of(panels.clone());
            let (part, rest) = left.split_at_mut(columns.len());
            parts.push((panels, columns, part));
            left = rest;
        }
        parts.into_par_iter().for_each(|(panels, columns, out)| {
            let finish = Finish { bias: self.bias().map(|bias| &bias[columns.clone()]), ..Finish::NONE };
            if add {
                let mut sums = vec![0.0; out.len()];
                filters.apply_panels(panels, x, &[0], &finish, &mut sums);
                neural::add(&sums, out);
            } else {
                filters.apply_panels(panels, x, &[0], &finish, out);
            }
        });
    }

    /// The map of gradients: from the gradient at the output to that at the input, `out = d Wᵀ`. Weights of fewer bits
    /// count as the numbers that they are rounded to.
    #[must_use]
    pub fn transposed(&self) -> Linear {
        let weight = match &self.weight {
            Packed::F32(filters) => filters.transposed(),
            _ => Filters::pack(1, self.from, self.to, {
                let (values, to) = (self.weight(), self.to);
                move |index, column| values[index * to + column]
            })
            .transposed(),
        };
        Linear { from: self.to, to: self.from, weight: Packed::F32(weight), bias: None }
    }

    /// The gradient at the input: `out = d Wᵀ`.
    pub fn back(&self, d: &[f32], out: &mut [f32]) {
        self.transposed().apply(d, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_by_hand() {
        // Two maps of width 2: (x, y) → x + 2y and (x, y) → 3x, then their bias.
        let linear = Linear::stacked(2, &[&[1.0, 2.0], &[3.0, 0.0]], Some(vec![0.5, -1.0]));
        let mut out = [0.0; 4];
        linear.apply(&[1.0, 1.0, 2.0, 0.0], &mut out);
        assert_eq!(out, [3.5, 2.0, 2.5, 5.0]);
        linear.add(&[1.0, 0.0, 0.0, 0.0], &mut out);
        assert_eq!(out, [5.0, 4.0, 3.0, 4.0]);
        let mut back = [0.0; 2];
        linear.back(&[1.0, 1.0], &mut back);
        assert_eq!(back, [4.0, 2.0]);
    }

    #[test]
    fn one_row_equals_the_row_among_others() {
        let (from, to) = (40, 1300);
        let part: Vec<f32> = (0..from * to).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect();
        let linear = Linear::stacked(from, &[&part], Some(vec![0.25; to]));
        let x: Vec<f32> = (0..2 * from).map(|i| (i % 7) as f32 - 3.0).collect();
        let (mut both, mut one) = (vec![0.0; 2 * to], vec![0.0; to]);
        linear.apply(&x, &mut both);
        linear.apply(&x[..from], &mut one);
        assert_eq!(one, both[..to]);
        let (mut added, mut alone) = (both.clone(), one.clone());
        linear.add(&x, &mut added);
        linear.add(&x[..from], &mut alone);
        assert_eq!(alone, added[..to]);
    }

    #[test]
    fn fewer_bits_are_close_and_do_not_depend_on_threads() {
        let (from, to, rows) = (200, 150, 300);
        let part: Vec<f32> = (0..from * to).map(|i| ((i * 7919) % 1013) as f32 / 500.0 - 1.0).collect();
        let x: Vec<f32> = (0..rows * from).map(|i| ((i * 104_729) % 997) as f32 / 400.0 - 1.2).collect();
        let linear = Linear::stacked(from, &[&part], Some(vec![0.25; to]));
        let run = |linear: &Linear, threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            let mut out = vec![1.0; rows * to];
            pool.install(|| linear.add(&x, &mut out));
            out
        };
        let exact = run(&linear, 1);
        let size = (exact.iter().map(|value| value * value).sum::<f32>() / exact.len() as f32).sqrt();
        for (number, most) in [(WeightNumber::F32, 0.0), (WeightNumber::Bf16, 0.01), (WeightNumber::Int8, 0.02)] {
            let linear = linear.clone().with_numbers(number);
            let out = run(&linear, 1);
            assert!(out == run(&linear, 2) && out == run(&linear, 7), "{number:?}");
            let error = exact.iter().zip(&out).map(|(a, b)| (a - b) * (a - b)).sum::<f32>() / exact.len() as f32;
            assert!(error.sqrt() <= most * size, "{number:?}: {} of {size}", error.sqrt());
            assert!(number == WeightNumber::F32 || error > 0.0);
            // The gradient is that of the rounded weights.
            let (weight, mut back) = (linear.weight(), vec![0.0; from]);
            let mut d = vec![0.0; to];
            d[3] = 2.0;
            linear.back(&d, &mut back);
            assert!(back.iter().enumerate().all(|(index, value)| *value == 2.0 * weight[index * to + 3]));
            assert_eq!(number.name().parse(), Ok(number));
        }
        assert!("f64".parse::<WeightNumber>().is_err());
    }
}
