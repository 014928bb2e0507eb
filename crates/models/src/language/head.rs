//! The head of a language model: from the normalised stream to logits.

use etalon_kernel::neural;
use etalon_kernel::product::{Shape, Strided, Update, strided};

/// Logits of all tokens of the vocabulary.
#[derive(Clone, Debug)]
pub(super) struct Head {
    /// One row per input value, if the memory limit allows a second copy of tied embeddings; else `None`.
    by_input: Option<Vec<f32>>,
    bias: Option<Vec<f32>>,
    width: usize,
    vocabulary: usize,
    /// Logits become `cap · tanh(logit / cap)`.
    soft_cap: Option<f32>,
}

impl Head {
    /// From weights (vocabulary, width). Without a copy, [`Head::logits`] reads the embeddings of the caller.
    pub fn new(weight: &[f32], width: usize, copy: bool, bias: Option<Vec<f32>>, soft_cap: Option<f32>) -> Head {
        let vocabulary = weight.len() / width;
        let by_input = copy.then(|| crate::layer::Linear::stacked(width, &[weight], None).into_weight());
        Head { by_input, bias, width, vocabulary, soft_cap }
    }

    /// Logits of some rows, on the calling thread. `weight` are the weights (vocabulary, width).
    pub fn logits(&self, weight: &[f32], x: &[f32], out: &mut [f32]) {
        let shape = Shape { rows: x.len() / self.width, columns: self.vocabulary, inner: self.width };
        let weight = match &self.by_input {
            Some(by_input) => Strided::rows(by_input, self.vocabulary),
            None => Strided::transposed(weight, self.width),
        };
        strided(shape, Update::SET, Strided::rows(x, self.width), weight, out, self.vocabulary);
        if let Some(bias) = &self.bias {
            neural::add_rows(bias, out);
        }
        if let Some(cap) = self.soft_cap {
            neural::soft_cap(out, cap);
        }
    }

    /// The gradient at the rows, given that at their logits, which is overwritten; `logits` are those of the forward run.
    pub fn back(&self, weight: &[f32], logits: &[f32], d: &mut [f32], out: &mut [f32]) {
        if let Some(cap) = self.soft_cap {
            neural::soft_cap_back(logits, cap, d);
        }
        let shape = Shape { rows: d.len() / self.vocabulary, columns: self.width, inner: self.vocabulary };
        let (d, weight) = (Strided::rows(d, self.vocabulary), Strided::rows(weight, self.width));
        strided(shape, Update::SET, d, weight, out, self.width);
    }
}
