//! Root-mean-square norm and layer norm of rows, with their gradients.

use super::{dot, fold, vectorised};

vectorised! {
    /// `out = x / √(mean x² + eps) · weight`, row by row.
    pub fn rms_norm(x: &[f32], weight: &[f32], eps: f32, out: &mut [f32]) {
        let width = weight.len();
        for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let scale = 1.0 / (dot!(x, x) / width as f32 + eps).sqrt();
            for ((out, &x), &w) in out.iter_mut().zip(x).zip(weight) {
                *out = x * scale * w;
            }
        }
    }
}

vectorised! {
    /// `out = (x − mean) / √(variance + eps) · weight + bias`, row by row.
    pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], eps: f32, out: &mut [f32]) {
        let width = weight.len();
        for (out, x) in out.chunks_exact_mut(width).zip(x.chunks_exact(width)) {
            let mean = fold!(x, 0.0f32, |s, v| s + v, |a, b| a + b) / width as f32;
            for (out, &x) in out.iter_mut().zip(x) {
                *out = x - mean;
            }
            let scale = 1.0 / (dot!(out, out) / width as f32 + eps).sqrt();
            for ((out, &w), &b) in out.iter_mut().zip(weight).zip(bias) {
                *out = (*out * scale).mul_add(w, b);
            }
        }
    }
}

vectorised! {
    /// Adds the gradient of [`rms_norm`] at its input to `into`; `d`, the gradient at its output, is overwritten.
    pub fn rms_norm_back(x: &[f32], weight: &[f32], eps: f32, d: &mut [f32], into: &mut [f32]) {
        let width = weight.len();
        let rows = x.chunks_exact(width).zip(d.chunks_exact_mut(width)).zip(into.chunks_exact_mut(width));
        for ((x, d), into) in rows {
            for (d, &w) in d.iter_mut().zip(weight) {
                *d *= w;
            }
            let scale = 1.0 / (dot!(x, x) / width as f32 + eps).sqrt();
            let back = dot!(d, x) * scale * scale * scale / width as f32;
            for ((into, &d), &x) in into.iter_mut().zip(d.iter()).zip(x) {
                *into += d * scale - x * back;
            }
        }
    }
}

vectorised! {
    /// Adds the gradient of [`layer_norm`] at its input to `into`; `d`, the gradient at its output, is overwritten.
    pub fn layer_norm_back(x: &[f32], weight: &[f32], eps: f32, d: &mut [f32], into: &mut [f32]) {
        let width = weight.len();
        let rows = x.chunks_exact(width).zip(d.chunks_exact_mut(width)).zip(into.chunks_exact_mut(width));
        for ((x, d), into) in rows {
            for (d, &w) in d.iter_mut().zip(weight) {
                *d *= w;
            }
            let mean = fold!(x, 0.0f32, |s, v| s + v, |a, b| a + b) / width as f32;
            let square = fold!(x, 0.0f32, |s, v| (v - mean).mul_add(v - mean, s), |a, b| a + b);
            // Lanes that a short row does not fill start at 0 and stay 0.
            let scale = 1.0 / (square / width as f32 + eps).sqrt();
            let sum = fold!(d, 0.0f32, |s, v| s + v, |a, b| a + b);
            let along = dot!(d, x) - mean * sum;
            let back = along * scale * scale * scale / width as f32;
            let level = sum * scale / width as f32;
            for ((into, &d), &x) in into.iter_mut().zip(d.iter()).zip(x) {
                *into += d * scale - (x - mean) * back - level;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(seed: usize, count: usize) -> Vec<f32> {
        (0..count).map(|i| ((i * 7919 + seed * 104_729) % 1013) as f32 / 317.0 - 1.5).collect()
    }

    #[test]
    fn rows_by_hand() {
        let mut out = [0.0; 4];
        // Mean square (9 + 16) / 2 = 12.5.
        rms_norm(&[3.0, 4.0, 0.0, 0.0], &[1.0, 2.0], 0.0001, &mut out);
        assert!((out[0] - 3.0 / 12.5f32.sqrt()).abs() < 1e-5 && (out[1] - 8.0 / 12.5f32.sqrt()).abs() < 1e-5);
        assert_eq!(out[2..], [0.0, 0.0]);
        // Mean 3.5, deviation 0.5.
        layer_norm(&[3.0, 4.0, 1.0, 1.0], &[1.0, 2.0], &[0.5, 0.0], 0.0, &mut out[..2]);
        assert_eq!(out[..2], [-0.5, 2.0]);
    }

    #[test]
    fn gradients_agree_with_differences() {
        let width = 37;
        let (x, weight, bias, d) = (numbers(1, width), numbers(2, width), numbers(3, width), numbers(4, width));
        let loss = |x: &[f32], layer: bool| {
            let mut out = vec![0.0; width];
            if layer {
                layer_norm(x, &weight, &bias, 1e-5, &mut out)
            } else {
                rms_norm(x, &weight, 1e-5, &mut out)
            }
            out.iter().zip(&d).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        for layer in [false, true] {
            let (mut into, mut gradient) = (vec![1.0; width], d.clone());
            if layer {
                layer_norm_back(&x, &weight, 1e-5, &mut gradient, &mut into);
            } else {
                rms_norm_back(&x, &weight, 1e-5, &mut gradient, &mut into);
            }
            for i in 0..width {
                let shifted = |by: f32| {
                    let mut x = x.clone();
                    x[i] += by;
                    loss(&x, layer)
                };
                let difference = (shifted(0.01) - shifted(-0.01)) / 0.02;
                assert!((f64::from(into[i] - 1.0) - difference).abs() < 2e-3, "{layer} {i} {} {difference}", into[i]);
            }
        }
    }
}
