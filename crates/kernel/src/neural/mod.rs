//! Row-wise operations of neural networks: norms, activations, softmax, and their gradients.
//!
//! Every function works on one thread. Sums run in sixteen lanes that are added in a fixed order, so the bits do not depend
//! on the instruction set, except through fused multiply-adds of the matrix products elsewhere.

mod activation;
mod bf16_product;
mod convolution;
mod depthwise;
mod elementwise;
mod exp;
mod finish;
mod int8_product;
mod norm;
mod pool;
mod softmax;

pub use activation::Activation;
pub use bf16_product::{Bf16Rows, Bf16Weights};
pub use convolution::{Filters, OUTSIDE};
pub use depthwise::{Window, depthwise};
pub use elementwise::{add, add_rows, multiply_rows, rotate_heads, soft_cap, soft_cap_back};
pub use exp::{exp, tanh};
pub use finish::{Clip, Finish};
pub use int8_product::{Int8Rows, Int8Weights};
pub use norm::{layer_norm, layer_norm_back, rms_norm, rms_norm_back};
pub use pool::{max_pool, mean_rows, roots, squares};
pub use softmax::{log_softmax, log_sum_exp, scaled_exp, softmax, softmax_back, sum_of_exp};

/// A function whose loops are compiled for AVX-512, for AVX2 and plainly, and chosen at run time. A closure passed to
/// `pulp::Arch::dispatch` is not always inlined and then loses the instruction set; a function cannot.
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) $(-> $out:ty)? $body:block) => {
        $(#[$doc])*
        #[allow(unsafe_code)]
        $vis fn $name($($arg: $type),*) $(-> $out)? {
            #[inline(always)]
            fn body($($arg: $type),*) $(-> $out)? $body
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
                fn avx512($($arg: $type),*) $(-> $out)? { body($($arg),*) }
                #[target_feature(enable = "avx2,fma")]
                fn avx2($($arg: $type),*) $(-> $out)? { body($($arg),*) }
                match $crate::neural::instructions() {
                    // SAFETY: the processor has these instructions.
                    $crate::neural::Instructions::Avx512 => return unsafe { avx512($($arg),*) },
                    // SAFETY: as above.
                    $crate::neural::Instructions::Avx2 => return unsafe { avx2($($arg),*) },
                    $crate::neural::Instructions::Plain => {}
                }
            }
            body($($arg),*)
        }
    };
}
pub(crate) use vectorised;

/// Sixteen partial results, joined in a fixed order. A macro, because a closure that is not inlined loses the
/// instruction set.
macro_rules! fold {
    ($x:expr, $start:expr, |$a:ident, $v:ident| $step:expr, |$p:ident, $q:ident| $join:expr) => {{
        let mut lanes = [$start; 16];
        let (body, tail) = $x.as_chunks::<16>();
        for line in body {
            for i in 0..16 {
                let ($a, $v) = (lanes[i], line[i]);
                lanes[i] = $step;
            }
        }
        for i in 0..tail.len() {
            let ($a, $v) = (lanes[i], tail[i]);
            lanes[i] = $step;
        }
        let mut all = lanes[0];
        for lane in &lanes[1..] {
            let ($p, $q) = (all, *lane);
            all = $join;
        }
        all
    }};
}
pub(crate) use fold;

/// `Σ x · y` in sixteen lanes.
macro_rules! dot {
    ($x:expr, $y:expr) => {{
        let mut lanes = [0.0f32; 16];
        let ((a, a_tail), (b, b_tail)) = ($x.as_chunks::<16>(), $y.as_chunks::<16>());
        for (a, b) in a.iter().zip(b) {
            for i in 0..16 {
                lanes[i] = a[i].mul_add(b[i], lanes[i]);
            }
        }
        for (i, (a, b)) in a_tail.iter().zip(b_tail).enumerate() {
            lanes[i] = a.mul_add(*b, lanes[i]);
        }
        let mut all = lanes[0];
        for lane in &lanes[1..] {
            all += lane;
        }
        all
    }};
}
pub(crate) use dot;

/// The instruction sets that [`vectorised`] compiles for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Instructions {
    Avx512,
    Avx2,
    Plain,
}

/// The vector instructions in use: results are the same bits on processors that have the same.
pub fn instruction_set() -> &'static str {
    match instructions() {
        Instructions::Avx512 => "AVX-512",
        Instructions::Avx2 => "AVX2",
        Instructions::Plain => "no AVX2",
    }
}

/// The widest of them that this processor has.
pub(crate) fn instructions() -> Instructions {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        if has!("avx512f") && has!("avx512bw") && has!("avx512dq") && has!("avx512vl") && has!("fma") {
            return Instructions::Avx512;
        }
        if has!("avx2") && has!("fma") {
            return Instructions::Avx2;
        }
    }
    Instructions::Plain
}
