//! The dense matrix product, on one thread: callers parallelise over tiles, so results do not depend on threads.
//!
//! The crates `gemm-f32` and `gemm-f64` are used directly, because `gemm` also compiles the products of complex and
//! 16-bit numbers, which take a third of the build.
//!
//! ```
//! use etalon_kernel::product::{dot, rows_by_rows};
//!
//! // Two rows by three rows of two values: every product of a row of the first with a row of the second.
//! let (a, b) = ([1.0, 2.0, 3.0, 4.0], [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
//! let mut out = [0.0f32; 6];
//! rows_by_rows(&a, &b, 2, &mut out);
//! assert_eq!(out, [1.0, 2.0, 3.0, 3.0, 4.0, 7.0]);
//! assert_eq!(dot(&a[..2], &b[4..]), 3.0);
//! ```

use gemm_common::Parallelism;

use crate::monitor::{Cancelled, Monitor};

mod sealed {
    /// Restricts [`super::Number`] to the types for which the product below is sound.
    pub trait Sealed: Sized {
        /// The fastest product for this processor.
        fn gemm() -> super::Gemm<Self>;
    }

    impl Sealed for f32 {
        fn gemm() -> super::Gemm<f32> {
            gemm_f32::gemm::f32::get_gemm_fn()
        }
    }

    impl Sealed for f64 {
        fn gemm() -> super::Gemm<f64> {
            gemm_f64::gemm::f64::get_gemm_fn()
        }
    }
}

/// Bound of the relative rounding error of a product in `f32`, as a share of the product of both lengths, if at most
/// `roundings` roundings follow each other. It covers the error of the sum in `f64` too.
pub fn relative_error(roundings: usize, width: usize) -> f64 {
    1.01 * (roundings as f64 * f64::from(f32::EPSILON) / 2.0 + width as f64 * f64::EPSILON)
}

/// Bound of the part of that error that is due to numbers below the smallest normal one.
pub const ABSOLUTE_ERROR: f64 = 1e-38;

/// `m`, `n`, `k`; the output with its column and row stride and whether it is read; both factors with their column and row
/// strides; the factors of the output and of the product; conjugations; threads.
type Gemm<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

/// An element type of the product: `f32`, or `f64` for high precision.
pub trait Number: sealed::Sealed + Copy + 'static {
    /// Zero.
    const ZERO: Self;
    /// One.
    const ONE: Self;
}

impl Number for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
    const ONE: f64 = 1.0;
}

/// `out[i, j] = Σ_k a[i, k] · b[j, k]`: rows of `a` against rows of `b`, all row-major.
///
/// `inner` is the common width; `out` has `a.len() / inner` rows of `b.len() / inner` values.
pub fn rows_by_rows<T: Number>(a: &[T], b: &[T], inner: usize, out: &mut [T]) {
    if inner == 0 {
        out.fill(T::ZERO);
        return;
    }
    let (rows, columns) = (a.len() / inner, b.len() / inner);
    assert!(
        a.len() == rows * inner && b.len() == columns * inner && out.len() == rows * columns,
        "product shapes differ"
    );
    if rows == 0 || columns == 0 {
        return;
    }
    let k = inner as isize;
    multiply(Shape { rows, columns, inner }, Update::SET, (out, columns as isize), (a, k, 1), (b, 1, k));
}

/// Rows multiplied between two checks for cancellation.
const ROWS: usize = 256;

/// [`rows_by_rows`] that can be cancelled.
pub fn try_rows_by_rows<T: Number>(
    a: &[T],
    b: &[T],
    inner: usize,
    out: &mut [T],
    monitor: &dyn Monitor,
) -> Result<(), Cancelled> {
    let columns = b.len().checked_div(inner).unwrap_or(0);
    if columns == 0 {
        out.fill(T::ZERO);
        return Ok(());
    }
    for (a, out) in a.chunks(ROWS * inner).zip(out.chunks_mut(ROWS * columns)) {
        monitor.check()?;
        rows_by_rows(a, b, inner, out);
    }
    Ok(())
}

/// `out[i, j] = Σ_k a[i, k] · b[k, j]`, all row-major.
pub fn rows_by_columns<T: Number>(a: &[T], b: &[T], inner: usize, columns: usize, out: &mut [T]) {
    let rows = a.len().checked_div(inner).unwrap_or(0);
    assert!(
        a.len() == rows * inner && b.len() == inner * columns && out.len() == rows * columns,
        "product shapes differ"
    );
    if rows == 0 || columns == 0 {
        return;
    }
    let n = columns as isize;
    multiply(Shape { rows, columns, inner }, Update::SET, (out, n), (a, inner as isize, 1), (b, n, 1));
}

/// A matrix inside a slice: element (r, c) is `values[r · row + c · column]`.
#[derive(Clone, Copy, Debug)]
pub struct Strided<'a> {
    /// The slice, starting at the first element.
    pub values: &'a [f32],
    /// From a row to the next.
    pub row: usize,
    /// From a column to the next.
    pub column: usize,
}

impl<'a> Strided<'a> {
    /// Rows of `pitch` values each.
    pub fn rows(values: &'a [f32], pitch: usize) -> Strided<'a> {
        Strided { values, row: pitch, column: 1 }
    }

    /// The transpose of rows of `pitch` values each.
    pub fn transposed(values: &'a [f32], pitch: usize) -> Strided<'a> {
        Strided { values, row: 1, column: pitch }
    }

    /// Whether a matrix of this size is inside the slice.
    fn holds(&self, rows: usize, columns: usize) -> bool {
        rows == 0 || columns == 0 || (rows - 1) * self.row + (columns - 1) * self.column < self.values.len()
    }
}

/// The size of a product: `rows × inner` by `inner × columns`.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rows of the left factor and of the result.
    pub rows: usize,
    /// Columns of the right factor and of the result.
    pub columns: usize,
    /// Columns of the left factor, rows of the right one.
    pub inner: usize,
}

/// What happens to the product: `out = scale · product`, or `out += scale · product`.
#[derive(Clone, Copy, Debug)]
pub struct Update<T = f32> {
    /// Adds to the output instead of replacing it.
    pub add: bool,
    /// Multiplies the product.
    pub scale: T,
}

impl<T: Number> Update<T> {
    /// Replaces the output by the product.
    pub const SET: Update<T> = Update { add: false, scale: T::ONE };
    /// Adds the product to the output.
    pub const ADD: Update<T> = Update { add: true, scale: T::ONE };
}

/// The product of two matrices inside slices. Row `r` of the result starts at `out[r · pitch]`.
pub fn strided(shape: Shape, update: Update, a: Strided<'_>, b: Strided<'_>, out: &mut [f32], pitch: usize) {
    let Shape { rows, columns, inner } = shape;
    assert!(
        a.holds(rows, inner) && b.holds(inner, columns) && Strided::rows(out, pitch).holds(rows, columns),
        "product shapes differ"
    );
    assert!(pitch >= columns, "rows of the product overlap");
    if rows == 0 || columns == 0 {
        return;
    }
    let [a, b] = [a, b].map(|m| (m.values, m.row as isize, m.column as isize));
    multiply(shape, update, (out, pitch as isize), a, b);
}

/// A factor: elements, row stride and column stride.
type Factor<'a, T> = (&'a [T], isize, isize);

#[allow(unsafe_code)]
fn multiply<T: Number>(shape: Shape, update: Update<T>, out: (&mut [T], isize), a: Factor<'_, T>, b: Factor<'_, T>) {
    let Shape { rows, columns, inner } = shape;
    // The kernel prefers outputs by columns: compute the transposed product, unless the output is a single column.
    let transposed = columns > 1;
    let (m, n, (out_columns, out_rows)) =
        if transposed { (columns, rows, (out.1, 1)) } else { (rows, columns, (1, out.1)) };
    let (left, right) = if transposed { ((b.0, b.2, b.1), (a.0, a.2, a.1)) } else { (a, b) };
    // SAFETY: all callers assert that the last elements of `a` (`rows × inner`), `b` (`inner × columns`) and `out`
    // (`rows × columns`) that the strides address are inside their slices, and that rows of `out` do not overlap. `out`
    // is borrowed mutably, so it overlaps neither input.
    unsafe {
        T::gemm()(
            m,
            n,
            inner,
            out.0.as_mut_ptr(),
            out_columns,
            out_rows,
            update.add,
            left.0.as_ptr(),
            left.2,
            left.1,
            right.0.as_ptr(),
            right.2,
            right.1,
            if update.add { T::ONE } else { T::ZERO },
            update.scale,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

/// The plain dot product in `f64`.
pub fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(&x, &y)| f64::from(x) * f64::from(y)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Silent, Stop};

    #[test]
    fn agrees_with_the_definition() {
        let (rows, columns, inner) = (7, 5, 11);
        let a: Vec<f32> = (0..rows * inner).map(|i| (i % 13) as f32 - 6.0).collect();
        let b: Vec<f32> = (0..columns * inner).map(|i| (i % 7) as f32 - 3.0).collect();
        let mut out = vec![0.0; rows * columns];
        rows_by_rows(&a, &b, inner, &mut out);
        let transposed: Vec<f32> = (0..inner * columns).map(|i| b[i % columns * inner + i / columns]).collect();
        let mut again = vec![0.0; rows * columns];
        rows_by_columns(&a, &transposed, inner, columns, &mut again);
        for i in 0..rows {
            for j in 0..columns {
                let expected = dot(&a[i * inner..][..inner], &b[j * inner..][..inner]) as f32;
                assert_eq!(out[i * columns + j], expected);
                assert_eq!(again[i * columns + j], expected);
            }
        }
    }

    #[test]
    fn strided_products_scale_and_add() {
        // A 2 × 2 block in the middle of a 3 × 4 matrix, times the transpose of another block.
        let a: Vec<f32> = (0..12).map(|i| i as f32).collect();
        let left = Strided::rows(&a[5..], 4);
        let right = Strided::transposed(&a[1..], 4);
        let mut out = vec![1.0; 6];
        let shape = Shape { rows: 2, columns: 2, inner: 2 };
        strided(shape, Update { add: true, scale: 0.5 }, left, right, &mut out, 3);
        // [[5, 6], [9, 10]] · [[1, 5], [2, 6]] = [[17, 61], [29, 105]]
        assert_eq!(out, [9.5, 31.5, 1.0, 15.5, 53.5, 1.0]);
        strided(shape, Update::SET, left, right, &mut out, 3);
        assert_eq!(out, [17.0, 61.0, 1.0, 29.0, 105.0, 1.0]);
        strided(Shape { inner: 0, ..shape }, Update::SET, left, right, &mut out, 3);
        assert_eq!(out, [0.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    #[should_panic(expected = "product shapes differ")]
    fn strided_products_outside_of_their_slices_are_refused() {
        let shape = Shape { rows: 2, columns: 1, inner: 1 };
        strided(shape, Update::SET, Strided::rows(&[1.0], 1), Strided::rows(&[1.0], 1), &mut [0.0; 2], 1);
    }

    #[test]
    fn the_product_in_parts_is_the_same_and_can_be_cancelled() {
        let (rows, columns, inner) = (300, 5, 11);
        let a: Vec<f64> = (0..rows * inner).map(|i| (i % 13) as f64 - 6.0).collect();
        let b: Vec<f64> = (0..columns * inner).map(|i| (i % 7) as f64 - 3.0).collect();
        let (mut whole, mut parts) = (vec![0.0; rows * columns], vec![0.0; rows * columns]);
        rows_by_rows(&a, &b, inner, &mut whole);
        assert_eq!(try_rows_by_rows(&a, &b, inner, &mut parts, &Silent), Ok(()));
        assert_eq!(whole, parts);
        assert_eq!(try_rows_by_rows(&a, &b, inner, &mut parts, &Stop), Err(Cancelled));
        assert_eq!(try_rows_by_rows::<f64>(&[], &[], 0, &mut [], &Silent), Ok(()));
    }
}
