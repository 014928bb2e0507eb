//! Softmax of rows, its gradient, and log-sum-exp.

use super::exp::exp;
use super::{dot, fold, vectorised};

vectorised! {
    /// Softmax of a row.
    pub fn softmax(row: &mut [f32]) {
        let most = fold!(row, f32::MIN, |a, v| if a > v { a } else { v }, |a, b| if a > b { a } else { b });
        for v in row.iter_mut() {
            *v = exp(*v - most);
        }
        let scale = 1.0 / fold!(row, 0.0f32, |s, v| s + v, |a, b| a + b);
        for v in row.iter_mut() {
            *v *= scale;
        }
    }
}

vectorised! {
    /// `ln Σ e^x` of a row.
    pub fn log_sum_exp(row: &[f32]) -> f32 {
        let most = fold!(row, f32::MIN, |a, v| if a > v { a } else { v }, |a, b| if a > b { a } else { b });
        // Lanes that a short row does not fill hold 0, which is what they add.
        most + fold!(row, 0.0f32, |s, v| s + exp(v - most), |a, b| a + b).ln()
    }
}

vectorised! {
    /// The largest value `m` of a row, and `Σ e^(x − m)`.
    pub fn sum_of_exp(row: &[f32]) -> (f32, f32) {
        let most = fold!(row, f32::MIN, |a, v| if a > v { a } else { v }, |a, b| if a > b { a } else { b });
        (most, fold!(row, 0.0f32, |s, v| s + exp(v - most), |a, b| a + b))
    }
}

vectorised! {
    /// Replaces every `x` of a row by `scale · e^(x − shift)`.
    pub fn scaled_exp(row: &mut [f32], shift: f32, scale: f32) {
        for v in row.iter_mut() {
            *v = scale * exp(*v - shift);
        }
    }
}

vectorised! {
    /// `x − ln Σ e^x` of a row.
    pub fn log_softmax(row: &mut [f32]) {
        let most = fold!(row, f32::MIN, |a, v| if a > v { a } else { v }, |a, b| if a > b { a } else { b });
        let total = most + fold!(row, 0.0f32, |s, v| s + exp(v - most), |a, b| a + b).ln();
        for v in row.iter_mut() {
            *v -= total;
        }
    }
}

vectorised! {
    /// The gradient of [`softmax`]: `d = p · (d − Σ p d)`, where `p` is its result.
    pub fn softmax_back(p: &[f32], d: &mut [f32]) {
        let sum = dot!(p, d);
        for (d, &p) in d.iter_mut().zip(p) {
            *d = p * (*d - sum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_and_gradients() {
        let mut row = [1.0f32.ln(), 2.0f32.ln(), 5.0f32.ln()];
        assert!((log_sum_exp(&row) - 8.0f32.ln()).abs() < 1e-6);
        let mut logs = row;
        log_softmax(&mut logs);
        assert!((logs[2] - (5.0f32 / 8.0).ln()).abs() < 1e-6);
        assert_eq!(sum_of_exp(&row).0, row[2]);
        assert!((sum_of_exp(&row).1 - 8.0 / 5.0).abs() < 1e-6);
        let mut scaled = row;
        scaled_exp(&mut scaled, 2.0f32.ln(), 3.0);
        assert!((scaled[2] - 7.5).abs() < 1e-5);
        softmax(&mut row);
        assert!((row[0] - 0.125).abs() < 1e-6 && (row[2] - 0.625).abs() < 1e-6);
        // Σ p d = 0.125 · 8 = 1.
        let mut d = [8.0, 0.0, 0.0];
        softmax_back(&row, &mut d);
        assert!((d[0] - 0.125 * 7.0).abs() < 1e-6 && (d[1] + 0.25).abs() < 1e-6);
        let long: Vec<f32> = (0..1000).map(|i| (i % 17) as f32).collect();
        let exact = long.iter().map(|v| f64::from(*v).exp()).sum::<f64>().ln();
        assert!((f64::from(log_sum_exp(&long)) - exact).abs() < 1e-5);
    }
}
