//! The last norm of a language model, as far as it is linear.

/// The last norm of a language model without its division by the size of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct LastNorm {
    /// Multiplies every value of a normalised row.
    pub weight: Vec<f32>,
    /// Whether the mean of a row is subtracted first.
    pub centres: bool,
}

impl LastNorm {
    /// What the linear part of the norm makes of rows: without their mean if it centres, times the weights.
    pub fn apply(&self, rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(self.weight.len().max(1)) {
            let mean = if self.centres { mean(row) } else { 0.0 };
            let values = row.iter_mut().zip(&self.weight);
            values.for_each(|(value, weight)| *value = ((f64::from(*value) - mean) * f64::from(*weight)) as f32);
        }
    }

    /// What the norm divides a row by, without its small summand: the standard deviation if it centres, else the root mean
    /// square.
    pub fn size(&self, row: &[f32]) -> f64 {
        let mean = if self.centres { mean(row) } else { 0.0 };
        let squares: f64 = row.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum();
        (squares / row.len().max(1) as f64).sqrt()
    }
}

fn mean(row: &[f32]) -> f64 {
    row.iter().map(|value| f64::from(*value)).sum::<f64>() / row.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_centred_and_multiplied() {
        let norm = |centres| LastNorm { weight: vec![1.0, 2.0, -1.0], centres };
        let applied = |centres| {
            let mut rows = [1.0, 2.0, 6.0, 0.0, 3.0, 0.0];
            norm(centres).apply(&mut rows);
            rows
        };
        // The means are 3 and 1.
        assert_eq!(applied(false), [1.0, 4.0, -6.0, 0.0, 6.0, 0.0]);
        assert_eq!(applied(true), [-2.0, -2.0, -3.0, -1.0, 4.0, 1.0]);
        // (1 + 4 + 36) / 3, and (4 + 1 + 9) / 3.
        assert!((norm(false).size(&[1.0, 2.0, 6.0]) - (41.0f64 / 3.0).sqrt()).abs() < 1e-12);
        assert!((norm(true).size(&[1.0, 2.0, 6.0]) - (14.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }
}
