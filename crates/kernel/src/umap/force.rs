//! The forces between points: the gradient of the curve.

use super::curve::Curve;

/// Gradients are clipped to this in each direction.
const CLIP: f32 = 4.0;

/// The gradient of the curve.
#[derive(Clone, Copy, Debug)]
pub(super) struct Force {
    a: f32,
    b: f32,
}

impl Force {
    pub fn new(curve: &Curve) -> Force {
        Force { a: curve.a as f32, b: curve.b as f32 }
    }

    /// The step of a point towards another that is `x` and `y` behind it; the other takes the opposite step.
    #[inline(always)]
    pub fn attraction(&self, x: f32, y: f32) -> [f32; 2] {
        let square = x * x + y * y;
        let power = power(square, self.b);
        let factor = -2.0 * self.a * self.b * power / (square * (1.0 + self.a * power));
        // Equal points do not move, and the factor is not a number.
        let factor = if square <= 0.0 { 0.0 } else { factor };
        [(factor * x).clamp(-CLIP, CLIP), (factor * y).clamp(-CLIP, CLIP)]
    }

    /// The step of a point away from another that is `x` and `y` behind it; none if the coordinates are equal.
    #[inline(always)]
    pub fn repulsion(&self, x: f32, y: f32) -> [f32; 2] {
        let square = x * x + y * y;
        let factor = 2.0 * self.b / ((0.001 + square) * (1.0 + self.a * power(square, self.b)));
        [(factor * x).clamp(-CLIP, CLIP), (factor * y).clamp(-CLIP, CLIP)]
    }
}

/// `x^exponent` for x ≥ 0 to about six digits, the same bits on every system.
#[inline(always)]
fn power(x: f32, exponent: f32) -> f32 {
    // x = 2^whole · part with part between √½ and √2, whose logarithm is a short series in (part − 1) / (part + 1).
    let bits = x.to_bits().max(1 << 23);
    let whole = (bits as i32 - 0x3f35_04f3) >> 23;
    let part = f32::from_bits((bits as i32 - (whole << 23)) as u32);
    let t = (part - 1.0) / (part + 1.0);
    let square = t * t;
    let series = 2.885_39 + square * (0.961_796_7 + square * (0.577_078 + square * 0.412_198_6));
    let exponent = (exponent * (whole as f32 + t * series)).clamp(-120.0, 120.0);
    // 2^exponent: the nearest whole number by bits, the rest by the series of the exponential function.
    let nearest = exponent.round_ties_even();
    let rest = exponent - nearest;
    let series = 1.0
        + rest
            * (std::f32::consts::LN_2
                + rest * (0.240_226_5 + rest * (0.055_504_1 + rest * (0.009_618_13 + rest * 0.001_333_36))));
    series * f32::from_bits(((nearest as i32 + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_have_six_digits() {
        for exponent in [0.2f32, 0.895, 1.0, 1.9] {
            for step in -60..60 {
                let x = libm::pow(1.7, f64::from(step)) as f32;
                let exact = libm::pow(f64::from(x), f64::from(exponent));
                let found = f64::from(power(x, exponent));
                let inside = exact > 1e-30 && exact < 1e30;
                assert!(!inside || (found / exact - 1.0).abs() < 5e-6, "{x}^{exponent}: {found} and {exact}");
            }
            assert!(power(0.0, exponent) < 1e-7);
        }
    }

    #[test]
    fn attraction_and_repulsion_of_two_points() {
        let force = Force { a: 1.0, b: 1.0 };
        // a = b = 1: −2 / (1 + d²) · (x − y) = −2 / 2 · 1 at distance 1, and 2 / (1.001 · 2) away.
        assert!((force.attraction(1.0, 0.0)[0] + 1.0).abs() < 1e-5);
        assert_eq!(force.attraction(1.0, 0.0)[0], -force.attraction(-1.0, 0.0)[0]);
        assert_eq!(force.attraction(0.0, 0.0), [0.0; 2]);
        assert!((force.repulsion(1.0, 0.0)[0] - 0.999).abs() < 1e-3);
        assert_eq!(force.repulsion(0.0, 0.0), [0.0; 2]);
        // Clipped.
        assert_eq!(force.repulsion(0.0, 0.02), [0.0, 4.0]);
    }
}
