//! The dense matrix product, on one thread: callers parallelise over tiles, so results do not depend on threads.
//!
//! The crates `gemm-f32` and `gemm-f64` are used directly, because `gemm` also compiles the products of complex and
//! 16-bit numbers, which take a third of the build.

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
    multiply(Shape { rows, columns, inner }, (out, columns as isize), (a, k, 1), (b, 1, k));
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
    multiply(Shape { rows, columns, inner }, (out, n), (a, inner as isize, 1), (b, n, 1));
}

struct Shape {
    rows: usize,
    columns: usize,
    inner: usize,
}

/// A factor: elements, row stride and column stride.
type Factor<'a, T> = (&'a [T], isize, isize);

#[allow(unsafe_code)]
fn multiply<T: Number>(shape: Shape, out: (&mut [T], isize), a: Factor<'_, T>, b: Factor<'_, T>) {
    let Shape { rows, columns, inner } = shape;
    // The kernel prefers outputs by columns: compute the transposed product, unless the output is a single column.
    let transposed = columns > 1;
    let (m, n, (out_columns, out_rows)) =
        if transposed { (columns, rows, (out.1, 1)) } else { (rows, columns, (1, out.1)) };
    let (left, right) = if transposed { ((b.0, b.2, b.1), (a.0, a.2, a.1)) } else { (a, b) };
    // SAFETY: both callers assert that `a`, `b` and `out` hold exactly `rows × inner`, `inner × columns` and
    // `rows × columns` elements, which is what the strides address. `out` is borrowed mutably, so it overlaps neither
    // input, and it is not read.
    unsafe {
        T::gemm()(
            m,
            n,
            inner,
            out.0.as_mut_ptr(),
            out_columns,
            out_rows,
            false,
            left.0.as_ptr(),
            left.2,
            left.1,
            right.0.as_ptr(),
            right.2,
            right.1,
            T::ZERO,
            T::ONE,
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
