//! Rows and width out of the dimensions of an array.

use crate::error::{InputError, Result};

/// Wider rows than this are a mistake, or a lie that would make a buffer for one row too large.
const WIDEST: usize = 1 << 24;

/// What shape an array has, seen as rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many rows there are.
    pub rows: usize,
    /// Values per row.
    pub width: usize,
    /// Rows per sample, when the array was 3-D: samples × tokens × width.
    pub rows_per_sample: Option<usize>,
}

impl Shape {
    /// Sees an array of 1, 2 or 3 dimensions as rows.
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
                    .found(format!("{} dimensions: {}", dimensions.len(), written(dimensions)))
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
            None => Err(InputError::new("the array is larger than any memory")
                .expected(format!("rows of at most {WIDEST} values"))
                .found(written(dimensions))
                .into()),
            Some(shape) if shape.width == 0 || shape.rows_per_sample == Some(0) => {
                Err(InputError::new("the array has rows without values").found(written(dimensions)).into())
            }
            Some(shape) => Ok(shape),
        }
    }
}

/// How many bytes an array has, unless that is more than a number can say.
pub(super) fn bytes_of(dimensions: &[usize], item: usize) -> Option<u64> {
    dimensions.iter().try_fold(item as u64, |bytes, &size| bytes.checked_mul(size as u64))
}

/// Dimensions as people write them.
pub(super) fn written(dimensions: &[usize]) -> String {
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
