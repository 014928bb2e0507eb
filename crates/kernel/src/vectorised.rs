//! Closures compiled for the widest instructions that the processor has.

use pulp::{Arch, Simd, WithSimd};

/// Runs a closure, which must be `#[inline(always)]`, compiled for the widest instructions available.
///
/// `pulp::Arch::dispatch` accepts closures too, but calls them through `FnOnce::call_once`. For a closure that could be called
/// more than once, that is a function of the compiler's own which is not always inlined: it is then compiled for the oldest
/// processor, together with the closure. `FnMut::call_mut` is the closure itself.
#[inline(always)]
pub fn vectorised<R>(run: impl FnMut() -> R) -> R {
    Arch::new().dispatch(Closure(run))
}

struct Closure<F>(F);

impl<R, F: FnMut() -> R> WithSimd for Closure<F> {
    type Output = R;

    #[inline(always)]
    fn with_simd<S: Simd>(mut self, _: S) -> R {
        (self.0)()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_that_of_the_closure() {
        let (values, mut sum) = ([1.0f32, 2.0, 3.5], 0.5f32);
        let count = vectorised(
            #[inline(always)]
            || {
                values.iter().for_each(|value| sum = value.mul_add(2.0, sum));
                values.len()
            },
        );
        assert_eq!((sum, count), (13.5, 3));
    }
}
