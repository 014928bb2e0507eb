//! Changes of the weights as TransformerLens makes them: predictions stay the same, some activations do not.
//!
//! Sums are computed in double precision and rounded once.

use etalon::network::Processing;

use crate::layer::{Linear, Norm};
use crate::transformer::{Attention, Block};

impl Block {
    /// The block with changed weights.
    #[must_use]
    pub(super) fn processed(mut self, processing: Processing, attention: &Attention) -> Block {
        if processing.fold_ln {
            (self.norm1, self.qkv) = fold_norm(self.norm1, self.qkv);
            (self.norm2, self.up) = fold_norm(self.norm2, self.up);
        }
        let centres = processing.center_writing_weights && matches!(self.norm1, Norm::Layer { .. });
        if centres {
            (self.out, self.down) = (centred_outputs(self.out), centred_outputs(self.down));
        }
        if processing.fold_value_biases {
            (self.qkv, self.out) = fold_values(self.qkv, self.out, attention);
        }
        self
    }
}

/// Moves factors and summands of a norm into the map that reads its result. A layer norm subtracts the mean, so that the mean
/// of the weights of every output has no effect: it is subtracted too.
fn fold_norm(norm: Norm, linear: Linear) -> (Norm, Linear) {
    let (from, to) = (linear.from(), linear.to());
    let mut weight = wide(&linear.weight());
    let mut bias = linear.bias().map(wide);
    let plain = match norm {
        Norm::Rms { weight: factors, eps } => {
            scale_inputs(&mut weight, &factors);
            Norm::Rms { weight: vec![1.0; from], eps }
        }
        Norm::Layer { weight: factors, bias: summands, eps } => {
            let sums = bias.get_or_insert_with(|| vec![0.0; to]);
            for (line, summand) in weight.chunks_exact(to).zip(&summands) {
                sums.iter_mut().zip(line).for_each(|(sum, weight)| *sum += weight * f64::from(*summand));
            }
            scale_inputs(&mut weight, &factors);
            subtract_means_of_columns(&mut weight, to);
            Norm::Layer { weight: vec![1.0; from], bias: vec![0.0; from], eps }
        }
    };
    (plain, Linear::new(from, to, &narrow(&weight), bias.as_deref().map(narrow)))
}

/// The outputs of the map have mean 0.
fn centred_outputs(linear: Linear) -> Linear {
    let mut weight = wide(&linear.weight());
    subtract_means_of_rows(&mut weight, linear.to());
    let bias = linear.bias().map(|bias| {
        let mut bias = wide(bias);
        let to = bias.len();
        subtract_means_of_rows(&mut bias, to);
        narrow(&bias)
    });
    Linear::new(linear.from(), linear.to(), &narrow(&weight), bias)
}

/// Moves the biases of values behind the output of attention: probabilities sum to 1.
fn fold_values(qkv: Linear, out: Linear, attention: &Attention) -> (Linear, Linear) {
    let Some(bias) = qkv.bias() else { return (qkv, out) };
    let (heads, kv_heads, dim) = (attention.heads, attention.kv_heads, attention.dim);
    let (others, values) = bias.split_at((heads + kv_heads) * dim);
    let weight = out.weight();
    let mut sums = out.bias().map_or_else(|| vec![0.0; out.to()], wide);
    for (index, line) in weight.chunks_exact(out.to()).enumerate() {
        // The value of the head that a query head reads.
        let value = values[index / dim / (heads / kv_heads) * dim + index % dim];
        sums.iter_mut().zip(line).for_each(|(sum, weight)| *sum += f64::from(*weight) * f64::from(value));
    }
    let kept = [others, &vec![0.0; values.len()]].concat();
    let qkv = Linear::new(qkv.from(), qkv.to(), &qkv.weight(), Some(kept));
    (qkv, Linear::new(out.from(), out.to(), &weight, Some(narrow(&sums))))
}

/// The embeddings of a processed network: what they write to the stream is centred if its norms subtract the mean.
pub(super) fn centre_embeddings(rows: &mut [f32], width: usize) {
    let mut values = wide(rows);
    subtract_means_of_rows(&mut values, width);
    rows.copy_from_slice(&narrow(&values));
}

/// The head of a processed network and its last norm: weights (vocabulary, width) and biases.
pub(super) fn head(
    processing: Processing,
    norm: Norm,
    weight: &[f32],
    bias: Option<Vec<f32>>,
    capped: bool,
) -> (Norm, Vec<f32>, Option<Vec<f32>>) {
    let width = norm.width();
    let (mut weight, mut bias) = (wide(weight), bias.as_deref().map(wide));
    let norm = if processing.fold_ln { fold_last_norm(norm, &mut weight, &mut bias) } else { norm };
    // A cap is not the same for logits and shifted logits.
    if processing.center_unembed && !capped {
        subtract_means_of_columns(&mut weight, width);
        if let Some(bias) = &mut bias {
            let vocabulary = bias.len();
            subtract_means_of_rows(bias, vocabulary);
        }
    }
    (norm, narrow(&weight), bias.as_deref().map(narrow))
}

fn fold_last_norm(norm: Norm, weight: &mut [f64], bias: &mut Option<Vec<f64>>) -> Norm {
    let width = norm.width();
    let multiply = |weight: &mut [f64], factors: &[f32]| {
        for row in weight.chunks_exact_mut(width) {
            row.iter_mut().zip(factors).for_each(|(weight, factor)| *weight *= f64::from(*factor));
        }
    };
    match norm {
        Norm::Rms { weight: factors, eps } => {
            multiply(weight, &factors);
            Norm::Rms { weight: vec![1.0; width], eps }
        }
        Norm::Layer { weight: factors, bias: summands, eps } => {
            let sums = bias.get_or_insert_with(|| vec![0.0; weight.len() / width]);
            for (row, sum) in weight.chunks_exact(width).zip(sums) {
                *sum += row.iter().zip(&summands).map(|(weight, summand)| weight * f64::from(*summand)).sum::<f64>();
            }
            multiply(weight, &factors);
            subtract_means_of_rows(weight, width);
            Norm::Layer { weight: vec![1.0; width], bias: vec![0.0; width], eps }
        }
    }
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|value| f64::from(*value)).collect()
}

fn narrow(values: &[f64]) -> Vec<f32> {
    values.iter().map(|value| *value as f32).collect()
}

/// Multiplies the weights (in, out) of every input.
fn scale_inputs(weight: &mut [f64], factors: &[f32]) {
    let to = weight.len() / factors.len().max(1);
    for (line, factor) in weight.chunks_exact_mut(to.max(1)).zip(factors) {
        line.iter_mut().for_each(|weight| *weight *= f64::from(*factor));
    }
}

/// Subtracts its mean from every row of `width` values.
fn subtract_means_of_rows(values: &mut [f64], width: usize) {
    for row in values.chunks_exact_mut(width.max(1)) {
        let mean = row.iter().sum::<f64>() / width as f64;
        row.iter_mut().for_each(|value| *value -= mean);
    }
}

/// Subtracts its mean from every column of rows of `width` values.
fn subtract_means_of_columns(values: &mut [f64], width: usize) {
    let mut means = vec![0.0; width];
    for row in values.chunks_exact(width.max(1)) {
        means.iter_mut().zip(row).for_each(|(mean, value)| *mean += value);
    }
    let rows = (values.len() / width.max(1)).max(1) as f64;
    for row in values.chunks_exact_mut(width.max(1)) {
        row.iter_mut().zip(&means).for_each(|(value, mean)| *value -= mean / rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_layer_norm_is_folded_by_hand() {
        // Inputs (a, b), one output 2a + 4b + 1. Factors (3, 5) and summands (1, −1): weights 6 and 20, which have the
        // mean 13, and a bias of 1 + 2 − 4.
        let linear = Linear::new(2, 1, &[2.0, 4.0], Some(vec![1.0]));
        let norm = Norm::Layer { weight: vec![3.0, 5.0], bias: vec![1.0, -1.0], eps: 1e-5 };
        let (norm, linear) = fold_norm(norm, linear);
        assert_eq!((linear.weight(), linear.bias().unwrap()), (vec![-7.0, 7.0], &[-1.0][..]));
        assert!(matches!(norm, Norm::Layer { weight, bias, .. } if weight == [1.0; 2] && bias == [0.0; 2]));
        let rms = Norm::Rms { weight: vec![3.0, 5.0], eps: 1e-5 };
        let (_, linear) = fold_norm(rms, Linear::new(2, 1, &[2.0, 4.0], None));
        assert_eq!((linear.weight(), linear.bias()), (vec![6.0, 20.0], None));
    }

    #[test]
    fn outputs_are_centred_by_hand() {
        let linear = centred_outputs(Linear::new(1, 3, &[1.0, 2.0, 6.0], Some(vec![0.0, 3.0, 0.0])));
        assert_eq!((linear.weight(), linear.bias().unwrap()), (vec![-2.0, -1.0, 3.0], &[-1.0, 2.0, -1.0][..]));
    }

    #[test]
    fn value_biases_are_folded_by_hand() {
        // Two query heads share one value head of width 1, with the bias 5: the output gets 5 · (2 + 3).
        let attention = Attention {
            heads: 2,
            kv_heads: 1,
            dim: 1,
            scale: 1.0,
            soft_cap: None,
            causal: true,
            window: None,
            rope: None,
        };
        let qkv = Linear::new(1, 4, &[1.0; 4], Some(vec![1.0, 2.0, 3.0, 5.0]));
        let (qkv, out) = fold_values(qkv, Linear::new(2, 1, &[2.0, 3.0], Some(vec![1.0])), &attention);
        assert_eq!((qkv.bias().unwrap(), out.bias().unwrap()), (&[1.0, 2.0, 3.0, 0.0][..], &[26.0][..]));
    }

    #[test]
    fn the_head_by_hand() {
        // Two tokens, width 2, factors (1, 2), summands (0, 1). Token 0: (1, 3) → (1, 6), bias 3, centred (−2.5, 2.5);
        // token 1: (2, 2) → (2, 4), bias 2, centred (−1, 1). Means over tokens: (−1.75, 1.75) and 2.5.
        let norm = Norm::Layer { weight: vec![1.0, 2.0], bias: vec![0.0, 1.0], eps: 1e-5 };
        let all = Processing::TRANSFORMER_LENS;
        let (_, weight, bias) = head(all, norm.clone(), &[1.0, 3.0, 2.0, 2.0], None, false);
        assert_eq!((weight, bias.unwrap()), (vec![-0.75, 0.75, 0.75, -0.75], vec![0.5, -0.5]));
        let (_, weight, _) = head(all, norm, &[1.0, 3.0, 2.0, 2.0], None, true);
        assert_eq!(weight, [-2.5, 2.5, -1.0, 1.0]);
    }
}
