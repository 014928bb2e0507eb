//! NaN and infinities: counted, refused, or dropped with their rows.

use crate::error::{InputError, Key, Result};

/// What to do with NaN and infinities.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Finite {
    /// Refuse the array, saying how many there are and where the first one is.
    #[default]
    Refuse,
    /// Leave out the rows that hold one, and say which.
    DropRows,
}

/// Counts the values that are not finite while rows pass by.
#[derive(Clone, Debug)]
pub struct Census {
    width: usize,
    seen: usize,
    count: u64,
    first: Option<(usize, f32)>,
}

impl Census {
    /// Nothing seen yet, of rows of this width.
    pub fn new(width: usize) -> Census {
        Census { width: width.max(1), seen: 0, count: 0, first: None }
    }

    /// Looks at the next values, in the order of the file.
    pub fn look(&mut self, values: &[f32]) {
        let bad: u64 = values.chunks(1 << 16).map(|part| u64::from(count(part))).sum();
        if bad > 0 && self.first.is_none() {
            let place = values.iter().position(|value| !value.is_finite());
            self.first = place.map(|place| (self.seen + place, values[place]));
        }
        self.count += bad;
        self.seen += values.len();
    }

    /// How many values were not finite.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// An error when any value was not finite. `kind` says what the array was.
    pub fn refuse(&self, kind: &str) -> Result<()> {
        let Some((place, value)) = self.first else { return Ok(()) };
        let wide = if kind.contains("float64") { "; float64 beyond 3.4e38 is infinite as float32" } else { "" };
        Err(InputError::new(match self.count {
            1 => "1 value is NaN or infinite".to_string(),
            count => format!("{count} values are NaN or infinite"),
        })
        .expected("finite numbers")
        .found(format!("{value} in {kind}{wide}"))
        .at(format!("first at row {}, column {}", place / self.width, place % self.width))
        .advice(format!("mend the array, or leave those rows out with {} drop-rows", Key("nan")))
        .into())
    }
}

/// How many values have all exponent bits set, which is what NaN and the infinities have in common.
fn count(values: &[f32]) -> u32 {
    const EXPONENT: u32 = 0x7f80_0000;
    values.iter().map(|value| u32::from(value.to_bits() & EXPONENT == EXPONENT)).sum()
}

/// Removes the rows that hold a value that is not finite; returns their numbers.
pub(super) fn drop_rows(values: &mut Vec<f32>, width: usize) -> Vec<usize> {
    let mut dropped = Vec::new();
    let mut kept = 0;
    for row in 0..values.len() / width {
        let place = row * width;
        if count(&values[place..place + width]) > 0 {
            dropped.push(row);
        } else {
            values.copy_within(place..place + width, kept);
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
    fn the_first_place_and_the_count_are_said() {
        let mut census = Census::new(3);
        census.look(&[1.0, 2.0, 3.0]);
        assert!(census.refuse("npy float32").is_ok());
        census.look(&[1.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0]);
        assert_eq!(census.count(), 3);
        let error = census.refuse("npy float32").unwrap_err().to_string();
        assert!(error.contains("3 values") && error.contains("row 1, column 1") && error.contains("NaN"), "{error}");
    }

    #[test]
    fn rows_are_dropped_by_number() {
        let mut values = vec![1.0, 2.0, f32::NAN, 0.0, 3.0, 4.0, 0.0, f32::INFINITY];
        assert_eq!(drop_rows(&mut values, 2), [1, 3]);
        assert_eq!(values, [1.0, 2.0, 3.0, 4.0]);
    }
}
