//! Rows and width from the dimensions of an array.

use crate::error::{InputError, Result};

/// Wider rows are refused, so that a wrong header cannot request a huge buffer for one row.
const WIDEST: usize = 1 << 24;

/// The shape of an array, seen as rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Number of rows.
    pub rows: usize,
    /// Values per row.
    pub width: usize,
    /// Rows per sample, when the array was 3-D: samples × tokens × width.
    pub rows_per_sample: Option<usize>,
}

impl Shape {
    /// The rows of an array of 1, 2 or 3 dimensions.
    pub(super) fn of(dimensions: &[usize]) -> Result<Shape> {
        let shape = match *dimensions {
            [rows] => Some(Shape { rows, width: 1, rows_per_sample: None }),
            [rows, width] => Some(Shape { rows, width, rows_per_sample: None }),
            [samples, tokens, width] => {
                samples.checked_mul(tokens).map(|rows| Shape { rows, width, rows_per_sample: Some(tokens) })
            }
            _ => {
                return Err(InputError::new("the array does not have rows")
                    .expected("1, 2 or 3 dimensions: rows, rows × width, or samples × tokens × width")
                    .found(format!("{} dimensions: {}", dimensions.len(), format_shape(dimensions)))
                    .advice("reshape it before saving")
                    .into());
            }
        };
        let fits = |shape: &Shape| {
            // A sample has to fit too, also when there are no samples.
            [shape.rows, shape.rows_per_sample.unwrap_or(1)]
                .into_iter()
                .all(|rows| rows.checked_mul(shape.width).is_some_and(|length| length <= isize::MAX as usize / 8))
                && shape.width <= WIDEST
        };
        match shape.filter(fits) {
            None => Err(InputError::new("the array is impossibly large")
                .expected(format!("rows of at most {WIDEST} values, fewer bytes than memory addresses"))
                .found(format_shape(dimensions))
                .advice("check the shape of the array, then save it again")
                .into()),
            Some(shape) if shape.width == 0 || shape.rows_per_sample == Some(0) => {
                Err(InputError::new("the array has rows without values")
                    .expected("at least one value per row")
                    .found(format_shape(dimensions))
                    .advice("check the shape of the array, then save it again")
                    .into())
            }
            Some(shape) => Ok(shape),
        }
    }
}

/// Size of an array in bytes; `None` on overflow.
pub(super) fn bytes_of(dimensions: &[usize], item: usize) -> Option<u64> {
    dimensions.iter().try_fold(item as u64, |bytes, &size| bytes.checked_mul(size as u64))
}

/// Dimensions for messages, such as `8 × 3`.
pub fn format_shape(dimensions: &[usize]) -> String {
    let sizes: Vec<String> = dimensions.iter().map(usize::to_string).collect();
    if sizes.is_empty() { "a single number".to_string() } else { sizes.join(" × ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dimensions_become_rows() {
        assert_eq!(Shape::of(&[5]).unwrap(), Shape { rows: 5, width: 1, rows_per_sample: None });
        assert_eq!(Shape::of(&[0, 3]).unwrap(), Shape { rows: 0, width: 3, rows_per_sample: None });
        assert_eq!(Shape::of(&[2, 7, 3]).unwrap(), Shape { rows: 14, width: 3, rows_per_sample: Some(7) });
        for bad in [
            &[][..],
            &[1, 1, 1, 1],
            &[2, 0],
            &[2, 0, 3],
            &[0, 1 << 40],
            &[0, 1 << 50, 1 << 20],
            &[1 << 60, 1 << 20],
            &[1 << 62],
        ] {
            assert!(Shape::of(bad).is_err(), "{bad:?}");
        }
    }
}
