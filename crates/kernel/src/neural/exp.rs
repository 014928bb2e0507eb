//! The exponential and the hyperbolic tangent in `f32`, as loops that compilers vectorise.

/// `e^x`, to about one unit in the last place: range reduction and a polynomial. Arguments beyond the range of normal
/// numbers give the nearest normal number.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    // Adding 1.5 · 2^23 leaves the rounded integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let x = if x > -87.3 { x } else { -87.3 };
    let x = if x < 88.3 { x } else { 88.3 };
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    // ln 2 in two parts: the first has few bits, so that n · ln 2 is exact.
    let r = n.mul_add(-0.693_359_4, x);
    let r = n.mul_add(2.121_944_4e-4, r);
    let p = 1.987_569_2e-4_f32.mul_add(r, 1.398_2e-3).mul_add(r, 8.333_452e-3).mul_add(r, 4.166_579_6e-2);
    let p = p.mul_add(r, 0.166_666_66).mul_add(r, 0.5).mul_add(r * r, r) + 1.0;
    f32::from_bits(p.to_bits().wrapping_add(shifted.to_bits() << 23))
}

/// `tanh x`: by its series near 0, where the quotient would cancel, and by [`exp`] elsewhere.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let size = x.abs();
    let square = x * x;
    // Odd terms up to x^13; the next one is below half a unit in the last place for |x| < 0.35.
    let p = 3.592_128e-3_f32.mul_add(square, -8.863_236e-3).mul_add(square, 2.186_949e-2);
    let p = p.mul_add(square, -5.396_825_4e-2).mul_add(square, 0.133_333_33).mul_add(square, -0.333_333_34);
    let small = (p * square).mul_add(size, size);
    let e = exp(-2.0 * size);
    let large = (1.0 - e) / (1.0 + e);
    let value = if size < 0.35 { small } else { large };
    value.copysign(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_to_the_exact_functions() {
        for i in -8_700..8_800 {
            let x = i as f32 / 100.0;
            let exact = f64::from(x).exp();
            assert!((f64::from(exp(x)) - exact).abs() <= 2.5e-7 * exact, "{x}: {} {exact}", exp(x));
        }
        for i in -4_000..4_000 {
            let x = i as f32 / 400.0;
            let exact = f64::from(x).tanh();
            assert!((f64::from(tanh(x)) - exact).abs() <= 4e-7 * exact.abs(), "{x}: {} {exact}", tanh(x));
        }
        assert_eq!((exp(0.0), tanh(0.0)), (1.0, 0.0));
        assert!(exp(-1e30) < 1.3e-38 && exp(1e30).is_finite() && tanh(-1e30) == -1.0);
    }
}
