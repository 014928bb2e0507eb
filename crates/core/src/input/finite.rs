//! NaN and infinite values: counted, refused, or dropped with their rows.

use crate::error::{InputError, Key, Result};

/// What to do with NaN and infinite values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finite {
    /// Refuse the array; the error states how many there are and where the first one is.
    #[default]
    Refuse,
    /// Drop the rows that contain one.
    DropRows,
}

/// Counts NaN and infinite values while rows are read.
#[derive(Clone, Debug)]
pub(super) struct FiniteCheck {
    width: usize,
    seen: usize,
    count: u64,
    first: Option<(usize, f32)>,
}

impl FiniteCheck {
    /// No values yet, of rows of this width.
    pub fn new(width: usize) -> FiniteCheck {
        FiniteCheck { width: width.max(1), seen: 0, count: 0, first: None }
    }

    /// Checks the next values, in the order of the file.
    pub fn update(&mut self, values: &[f32]) {
        let bad: u64 = values.chunks(1 << 16).map(|part| u64::from(count(part))).sum();
        if bad > 0 && self.first.is_none() {
            let index = values.iter().position(|value| !value.is_finite());
            self.first = index.map(|index| (self.seen + index, values[index]));
        }
        self.count += bad;
        self.seen += values.len();
    }

    /// An error if any value was not finite. `kind` is the format and number type of the array.
    pub fn refuse(&self, kind: &str) -> Result<()> {
        let Some((index, value)) = self.first else { return Ok(()) };
        let wide = if kind.contains("float64") { "; float64 beyond 3.4e38 is infinite as float32" } else { "" };
        Err(InputError::new(match self.count {
            1 => "1 value is NaN or infinite".to_string(),
            count => format!("{count} values are NaN or infinite"),
        })
        .expected("finite numbers")
        .found(format!("{value} in {kind}{wide}"))
        .at(format!("first at row {}, column {}", index / self.width, index % self.width))
        .advice(format!("fix the array, or drop those rows with {}", Key("nan drop-rows")))
        .into())
    }
}

/// How many values are NaN or infinite: those with all exponent bits set.
fn count(values: &[f32]) -> u32 {
    const EXPONENT: u32 = 0x7f80_0000;
    values.iter().map(|value| u32::from(value.to_bits() & EXPONENT == EXPONENT)).sum()
}

/// Removes the rows with NaN or infinite values; returns their indices.
pub(super) fn drop_rows(values: &mut Vec<f32>, width: usize) -> Vec<usize> {
    let mut dropped = Vec::new();
    let mut kept = 0;
    for row in 0..values.len() / width {
        let start = row * width;
        if count(&values[start..start + width]) > 0 {
            dropped.push(row);
        } else {
            values.copy_within(start..start + width, kept);
            kept += width;
        }
    }
    values.truncate(kept);
    dropped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_states_the_count_and_the_first_position() {
        let mut check = FiniteCheck::new(3);
        check.update(&[1.0, 2.0, 3.0]);
        assert!(check.refuse("npy float32").is_ok());
        check.update(&[1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0]);
        let error = check.refuse("npy float32").unwrap_err().to_string();
        assert!(error.contains("3 values") && error.contains("row 1, column 1") && error.contains("NaN"), "{error}");
    }

    #[test]
    fn dropped_rows_are_returned() {
        let mut values = vec![1.0, 2.0, f32::NAN, 0.0, 3.0, 4.0, 0.0, f32::INFINITY];
        assert_eq!(drop_rows(&mut values, 2), [1, 3]);
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
    }
}
