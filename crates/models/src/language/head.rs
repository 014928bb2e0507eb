//! The head of a language model: from the normalised stream to logits.
//!
//! Columns of the vocabulary are computed in blocks that stay in the second-level cache, so that a cross-entropy needs no
//! memory for all logits.

use std::borrow::Cow;
use std::ops::Range;

use etalon_kernel::neural::{self, Filters, Finish};
use etalon_kernel::product::{Shape, Strided, Update, strided};

/// Logits of all tokens of the vocabulary.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// The weights in the order of the product, if the memory limit allows a second copy of tied embeddings.
    packed: Option<Vec<Filters>>,
    bias: Option<Vec<f32>>,
    width: usize,
    vocabulary: usize,
    /// Logits become `cap · tanh(logit / cap)`.
    soft_cap: Option<f32>,
}

/// Tokens of a block. The bits of a logit do not depend on it, but those of a cross-entropy do.
const BLOCK: usize = 512;

/// A sum of exponentials of logits, block by block.
#[derive(Clone, Copy, Debug)]
struct SumOfExp {
    most: f32,
    /// Divided by the exponential of `most`.
    sum: f32,
}

impl SumOfExp {
    const EMPTY: SumOfExp = SumOfExp { most: f32::MIN, sum: 0.0 };

    fn add(&mut self, logits: &[f32]) {
        let (most, sum) = neural::sum_of_exp(logits);
        // The larger of both is the new scale.
        if most > self.most {
            *self = SumOfExp { most, sum: self.sum * (self.most - most).exp() + sum };
        } else {
            self.sum += sum * (most - self.most).exp();
        }
    }

    fn logarithm(self) -> f32 {
        self.most + self.sum.ln()
    }
}

impl Head {
    /// From weights (vocabulary, width). Without a copy, the embeddings of the caller are packed for every use.
    pub fn new(weight: &[f32], width: usize, copy: bool, bias: Option<Vec<f32>>, soft_cap: Option<f32>) -> Head {
        let packed = copy.then(|| weight.chunks(BLOCK * width).map(|block| pack(block, width)).collect());
        Head { packed, bias, width, vocabulary: weight.len() / width, soft_cap }
    }

    fn blocks(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let vocabulary = self.vocabulary;
        (0..vocabulary.div_ceil(BLOCK)).map(move |block| (block, block * BLOCK..((block + 1) * BLOCK).min(vocabulary)))
    }

    /// The logits of a block of tokens.
    fn block(&self, weight: &[f32], block: usize, tokens: Range<usize>, x: &[f32], starts: &[usize], out: &mut [f32]) {
        let packed = match &self.packed {
            Some(packed) => Cow::Borrowed(&packed[block]),
            None => Cow::Owned(pack(&weight[tokens.start * self.width..tokens.end * self.width], self.width)),
        };
        let finish = Finish { bias: self.bias.as_deref().map(|bias| &bias[tokens]), ..Finish::NONE };
        packed.apply(x, starts, &finish, out);
        if let Some(cap) = self.soft_cap {
            neural::soft_cap(out, cap);
        }
    }

    fn starts(&self, x: &[f32]) -> Vec<usize> {
        (0..x.len() / self.width).map(|row| row * self.width).collect()
    }

    /// Logits of some rows, on the calling thread. `weight` are the weights (vocabulary, width).
    pub fn logits(&self, weight: &[f32], x: &[f32], out: &mut [f32]) {
        let starts = self.starts(x);
        let mut buffer = vec![0.0; starts.len() * BLOCK];
        for (block, tokens) in self.blocks() {
            let buffer = &mut buffer[..starts.len() * tokens.len()];
            self.block(weight, block, tokens.clone(), x, &starts, buffer);
            for (out, logits) in out.chunks_exact_mut(self.vocabulary).zip(buffer.chunks_exact(tokens.len())) {
                out[tokens.clone()].copy_from_slice(logits);
            }
        }
    }

    /// The cross-entropy of every row with a target, on the calling thread.
    pub fn losses(&self, weight: &[f32], x: &[f32], targets: &[Option<u32>]) -> Vec<f32> {
        let starts = self.starts(x);
        let mut buffer = vec![0.0; starts.len() * BLOCK];
        let mut rows = TargetRows::new(targets);
        for (block, tokens) in self.blocks() {
            let buffer = &mut buffer[..starts.len() * tokens.len()];
            self.block(weight, block, tokens.clone(), x, &starts, buffer);
            rows.add(buffer, tokens);
        }
        rows.losses().flatten().collect()
    }

    /// The cross-entropy of every row with a target, and the gradient of their sum times `scale` with respect to the rows.
    /// `buffer` holds the logits of all rows.
    pub fn gradient(
        &self,
        weight: &[f32],
        x: &[f32],
        targets: &[Option<u32>],
        scale: f32,
        out: &mut [f32],
        buffer: &mut Vec<f32>,
    ) -> Vec<f32> {
        let starts = self.starts(x);
        let count = starts.len();
        buffer.resize(count * self.vocabulary, 0.0);
        let mut rows = TargetRows::new(targets);
        for (block, tokens) in self.blocks() {
            let part = &mut buffer[tokens.start * count..tokens.end * count];
            self.block(weight, block, tokens.clone(), x, &starts, part);
            rows.add(part, tokens);
        }
        out.fill(0.0);
        for (_, tokens) in self.blocks() {
            let part = &mut buffer[tokens.start * count..tokens.end * count];
            for (d, (target, sum)) in part.chunks_exact_mut(tokens.len()).zip(targets.iter().zip(&rows.sums)) {
                self.row_back(d, target.map(|target| target as usize), &tokens, sum.logarithm(), scale);
            }
            let shape = Shape { rows: count, columns: self.width, inner: tokens.len() };
            let weight = &weight[tokens.start * self.width..tokens.end * self.width];
            let (d, weight) = (Strided::rows(part, tokens.len()), Strided::rows(weight, self.width));
            strided(shape, Update::ADD, d, weight, out, self.width);
        }
        rows.losses().flatten().collect()
    }

    /// Replaces the logits of a row by their gradients.
    fn row_back(&self, logits: &mut [f32], target: Option<usize>, tokens: &Range<usize>, total: f32, scale: f32) {
        let Some(target) = target else { return logits.fill(0.0) };
        let capped = self.soft_cap.map(|cap| (cap, logits.to_vec()));
        neural::scaled_exp(logits, total, scale);
        if tokens.contains(&target) {
            logits[target - tokens.start] -= scale;
        }
        if let Some((cap, values)) = capped {
            neural::soft_cap_back(&values, cap, logits);
        }
    }
}

fn pack(block: &[f32], width: usize) -> Filters {
    Filters::pack(1, width, block.len() / width, |index, column| block[column * width + index])
}

/// What is known of the rows so far.
struct TargetRows<'a> {
    targets: &'a [Option<u32>],
    sums: Vec<SumOfExp>,
    /// The logits of the targets.
    logits: Vec<f32>,
}

impl<'a> TargetRows<'a> {
    fn new(targets: &'a [Option<u32>]) -> TargetRows<'a> {
        TargetRows { targets, sums: vec![SumOfExp::EMPTY; targets.len()], logits: vec![0.0; targets.len()] }
    }

    fn add(&mut self, part: &[f32], tokens: Range<usize>) {
        for (row, logits) in part.chunks_exact(tokens.len()).enumerate() {
            let Some(target) = self.targets[row].map(|target| target as usize) else { continue };
            self.sums[row].add(logits);
            if tokens.contains(&target) {
                self.logits[row] = logits[target - tokens.start];
            }
        }
    }

    fn losses(&self) -> impl Iterator<Item = Option<f32>> {
        let rows = self.targets.iter().zip(&self.sums).zip(&self.logits);
        rows.map(|((target, sum), logit)| target.map(|_| sum.logarithm() - logit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1013) as f32 / 317.0 - 1.5).collect()
    }

    #[test]
    fn blocks_agree_with_whole_rows() {
        let (width, vocabulary, rows) = (20, 1300, 5);
        let (weight, x) = (numbers(1, width * vocabulary), numbers(2, rows * width));
        let targets = [Some(3), Some(1299), None, Some(600), Some(512)];
        for soft_cap in [None, Some(5.0)] {
            let bias = Some(numbers(3, vocabulary));
            let head = Head::new(&weight, width, true, bias.clone(), soft_cap);
            let mut logits = vec![0.0; rows * vocabulary];
            head.logits(&weight, &x, &mut logits);
            let losses = head.losses(&weight, &x, &targets);
            let expected: Vec<f32> = logits
                .chunks_exact(vocabulary)
                .zip(targets)
                .filter_map(|(row, target)| Some(neural::log_sum_exp(row) - row[target? as usize]))
                .collect();
            assert!(losses.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-5), "{losses:?} {expected:?}");
            let (mut out, mut buffer) = (vec![7.0; x.len()], Vec::new());
            assert_eq!(head.gradient(&weight, &x, &targets, 0.25, &mut out, &mut buffer), losses);
            let total = |x: &[f32]| head.losses(&weight, x, &targets).iter().map(|loss| f64::from(*loss)).sum::<f64>();
            for at in [0, 21, 45, 99] {
                let moved = |by: f32| {
                    let mut x = x.clone();
                    x[at] += by;
                    total(&x)
                };
                let slope = (moved(0.01) - moved(-0.01)) / 0.02 * 0.25;
                assert!((f64::from(out[at]) - slope).abs() < 2e-3, "{} {slope}", out[at]);
            }
            // Without a copy of the weights, all bits are the same.
            let other = Head::new(&weight, width, false, bias, soft_cap);
            let mut again = vec![0.0; logits.len()];
            other.logits(&weight, &x, &mut again);
            assert!(again == logits && other.losses(&weight, &x, &targets) == losses);
        }
    }
}
