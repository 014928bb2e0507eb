//! Strided views of a list of values, copied into C order.

use std::ops::Range;

use super::shape::format_shape;
use crate::error::{InputError, Result};

/// A strided view: offset of the first value, dimensions, and the stride of each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub offset: usize,
    pub dimensions: Vec<usize>,
    pub strides: Vec<usize>,
}

impl View {
    /// A whole array in Fortran order.
    pub fn fortran(dimensions: &[usize]) -> View {
        let mut step = 1usize;
        let strides = dimensions
            .iter()
            .map(|&size| {
                let stride = step;
                step = step.saturating_mul(size.max(1));
                stride
            })
            .collect();
        View { offset: 0, dimensions: dimensions.to_vec(), strides }
    }

    /// A whole array in C order.
    pub fn c_order(dimensions: &[usize]) -> View {
        let mut strides: Vec<usize> = View::fortran(&dimensions.iter().rev().copied().collect::<Vec<_>>()).strides;
        strides.reverse();
        View { offset: 0, dimensions: dimensions.to_vec(), strides }
    }

    /// Number of values in the view; `None` on overflow.
    pub fn length(&self) -> Option<usize> {
        self.dimensions.iter().try_fold(1usize, |length, &size| length.checked_mul(size))
    }

    /// Refuses a view that reaches beyond a list of `available` values.
    pub fn check(&self, available: usize) -> Result<()> {
        let wrong = |found: String| {
            InputError::new("a tensor reaches beyond its storage")
                .expected(format!("at most {available} values"))
                .found(found)
                .advice("the file is damaged; write it again")
        };
        if self.dimensions.len() != self.strides.len() {
            return Err(wrong(format!("{} strides for {}", self.strides.len(), format_shape(&self.dimensions))).into());
        }
        if self.dimensions.contains(&0) {
            return Ok(());
        }
        match self.last() {
            Some(last) if last < available => Ok(()),
            _ => Err(wrong(format!(
                "{} with strides {:?} from value {}",
                format_shape(&self.dimensions),
                self.strides,
                self.offset
            ))
            .into()),
        }
    }

    /// The index of the last value, if there is one; `None` on overflow.
    fn last(&self) -> Option<usize> {
        let mut sizes = self.dimensions.iter().zip(&self.strides);
        sizes
            .try_fold(self.offset, |last, (&size, &stride)| last.checked_add(size.checked_sub(1)?.checked_mul(stride)?))
    }

    /// The part of the list that a checked view reads.
    pub fn span(&self) -> Range<usize> {
        match self.last() {
            Some(last) if !self.dimensions.contains(&0) => self.offset..last + 1,
            _ => 0..0,
        }
    }

    /// True if the values follow each other in C order.
    fn is_contiguous(&self) -> bool {
        let mut step = 1;
        self.dimensions.iter().zip(&self.strides).rev().all(|(&size, &stride)| {
            let fits = size == 1 || stride == step;
            step *= size;
            fits
        })
    }

    /// The values of a checked view in C order; the list itself if that is what the view shows.
    pub fn arrange(&self, values: Vec<f32>) -> Vec<f32> {
        let whole = self.offset == 0 && self.length() == Some(values.len()) && self.is_contiguous();
        if whole { values } else { self.copy(&values) }
    }

    /// Copies the values of a checked view in C order.
    pub fn copy(&self, values: &[f32]) -> Vec<f32> {
        let length = self.length().unwrap_or(0);
        if length == 0 {
            return Vec::new();
        }
        if self.is_contiguous() {
            return values[self.offset..self.offset + length].to_vec();
        }
        let mut out = Vec::with_capacity(length);
        let mut index = vec![0; self.dimensions.len()];
        let mut start = self.offset;
        // The last dimension is a plain loop; the others count like an odometer.
        let (inner_size, inner_stride) = match (self.dimensions.last(), self.strides.last()) {
            (Some(&size), Some(&stride)) => (size, stride),
            _ => (1, 0),
        };
        loop {
            out.extend((0..inner_size).map(|step| values[start + step * inner_stride]));
            let mut dimension = self.dimensions.len() - 1;
            loop {
                if dimension == 0 {
                    return out;
                }
                dimension -= 1;
                index[dimension] += 1;
                start += self.strides[dimension];
                if index[dimension] < self.dimensions[dimension] {
                    break;
                }
                start -= index[dimension] * self.strides[dimension];
                index[dimension] = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(offset: usize, dimensions: &[usize], strides: &[usize]) -> View {
        View { offset, dimensions: dimensions.to_vec(), strides: strides.to_vec() }
    }

    #[test]
    fn strided_views_are_copied_in_c_order() {
        let values: Vec<f32> = (0..12).map(|v| v as f32).collect();
        assert_eq!(view(0, &[3, 4], &[4, 1]).copy(&values), values);
        // The transpose of 3 × 4: columns 0, 4, 8 | 1, 5, 9 | ...
        let transposed = view(0, &[4, 3], &[1, 4]).copy(&values);
        assert_eq!(transposed, [0., 4., 8., 1., 5., 9., 2., 6., 10., 3., 7., 11.]);
        assert_eq!(View::fortran(&[4, 3]), view(0, &[4, 3], &[1, 4]));
        assert_eq!(view(5, &[2, 2], &[4, 1]).copy(&values), [5., 6., 9., 10.]);
        assert_eq!(view(3, &[2, 2], &[0, 1]).copy(&values), [3., 4., 3., 4.]);
        assert_eq!(view(7, &[], &[]).copy(&values), [7.]);
        // 2 × 3 × 2 in Fortran order: (i, j, k) is at i + 2 j + 6 k.
        let cube = View::fortran(&[2, 3, 2]).copy(&values);
        assert_eq!(cube, [0., 6., 2., 8., 4., 10., 1., 7., 3., 9., 5., 11.]);
        assert_eq!(view(0, &[3, 0], &[1, 1]).copy(&values), [0f32; 0]);
        assert_eq!(View::c_order(&[2, 3, 2]), view(0, &[2, 3, 2], &[6, 2, 1]));
        // The part that is read: values 5 to 10 of the list.
        let part = view(5, &[2, 2], &[4, 1]);
        assert_eq!((part.span(), view(9, &[0, 2], &[1, 1]).span()), (5..11, 0..0));
        assert_eq!(view(0, &[2, 2], &[4, 1]).arrange(values[part.span()].to_vec()), [5., 6., 9., 10.]);
        assert_eq!(View::c_order(&[3, 4]).arrange(values.clone()), values);
    }

    #[test]
    fn a_view_beyond_its_storage_is_refused() {
        assert!(view(0, &[3, 4], &[4, 1]).check(12).is_ok());
        assert!(view(0, &[3, 4], &[4, 1]).check(11).is_err());
        assert!(view(1, &[3, 4], &[4, 1]).check(12).is_err());
        assert!(view(0, &[3], &[usize::MAX]).check(12).is_err());
        assert!(view(usize::MAX, &[2], &[1]).check(12).is_err());
        assert!(view(0, &[3], &[1, 1]).check(12).is_err());
        assert!(view(99, &[0], &[1]).check(0).is_ok());
    }
}
