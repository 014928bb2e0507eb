//! Normalisation of rows before encoding, and its inverse after decoding.

use serde::{Deserialize, Serialize};

/// The normalisation of a row, by its own values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Normalisation {
    /// No normalisation.
    #[default]
    None,
    /// Mean 0 and standard deviation 1 (sample deviation, n − 1; 0.00001 is added to the divisor).
    LayerNorm,
    /// Norm √width. A row of zeros is unchanged.
    ConstantNorm,
}

/// Added to the divisor of [`Normalisation::LayerNorm`], so that it is never 0.
const EPSILON: f64 = 1e-5;

impl Normalisation {
    /// The name in content hashes.
    pub(super) fn name(self) -> &'static str {
        match self {
            Normalisation::None => "not normalised",
            Normalisation::LayerNorm => "layer norm",
            Normalisation::ConstantNorm => "constant norm",
        }
    }

    /// The shift and scale of a row.
    pub(super) fn of(self, row: &[f32]) -> Statistics {
        let width = row.len() as f64;
        match self {
            Normalisation::None => Statistics { shift: 0.0, divide: 1.0, multiply: 1.0 },
            Normalisation::LayerNorm => {
                let mean = row.iter().map(|&value| f64::from(value)).sum::<f64>() / width;
                let squares = row.iter().map(|&value| (f64::from(value) - mean).powi(2)).sum::<f64>();
                let deviation = if row.len() > 1 { (squares / (width - 1.0)).sqrt() } else { 0.0 };
                Statistics { shift: mean, divide: deviation + EPSILON, multiply: deviation }
            }
            Normalisation::ConstantNorm => {
                let norm = row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt();
                let scale = if norm > 0.0 { norm / width.sqrt() } else { 1.0 };
                Statistics { shift: 0.0, divide: scale, multiply: scale }
            }
        }
    }
}

/// The shift and scale of one row: `(x − shift) / divide`, and its inverse `y · multiply + shift`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statistics {
    shift: f64,
    divide: f64,
    multiply: f64,
}

impl Statistics {
    /// Normalises a row.
    pub fn apply(self, row: &[f32], into: &mut [f32]) {
        if self.shift == 0.0 && self.divide == 1.0 {
            return into.copy_from_slice(row);
        }
        let normal = |value: f32| ((f64::from(value) - self.shift) / self.divide) as f32;
        into.iter_mut().zip(row).for_each(|(into, &value)| *into = normal(value));
    }

    /// The factor of [`Statistics::undo`].
    pub fn scale(self) -> f64 {
        self.multiply
    }

    /// Undoes the normalisation of a row.
    pub fn undo(self, row: &mut [f32]) {
        row.iter_mut().for_each(|value| *value = (f64::from(*value) * self.multiply + self.shift) as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_rows() {
        // Mean 2, squares 1 + 0 + 1, deviation √(2/2) = 1.
        let row = [1.0, 2.0, 3.0];
        let mut normal = [0.0; 3];
        let layer = Normalisation::LayerNorm.of(&row);
        layer.apply(&row, &mut normal);
        assert!((normal[2] - 1.0 / 1.00001).abs() < 1e-6 && normal[1] == 0.0);
        layer.undo(&mut normal);
        assert!((normal[2] - 3.0).abs() < 2e-5);
        // Norm 5 becomes √2.
        let row = [3.0, 4.0];
        let mut normal = [0.0; 2];
        let constant = Normalisation::ConstantNorm.of(&row);
        constant.apply(&row, &mut normal);
        assert!((normal[0].hypot(normal[1]) - 2f32.sqrt()).abs() < 1e-6);
        constant.undo(&mut normal);
        assert!((normal[0] - 3.0).abs() < 1e-6);
        // Rows that cannot be scaled stay finite.
        for rule in [Normalisation::LayerNorm, Normalisation::ConstantNorm] {
            let mut normal = [1.0; 1];
            rule.of(&[0.0]).apply(&[0.0], &mut normal);
            assert_eq!(normal, [0.0]);
        }
    }
}
