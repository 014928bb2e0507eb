//! The curve `1 / (1 + a · d^2b)` of how strongly points at distance d attract each other.

/// The parameters of the curve.
#[derive(Clone, Copy, Debug)]
pub struct Curve {
    pub a: f64,
    pub b: f64,
}

/// Points on the distance axis, from 0 to 3.
const POINTS: usize = 300;

impl Curve {
    /// Fits the curve to 1 up to `min_dist` and an exponential decay after it, by least squares (Levenberg-Marquardt).
    pub fn fit(min_dist: f64) -> Curve {
        let target = |index: usize| {
            let x = 3.0 * index as f64 / (POINTS - 1) as f64;
            (x, if x < min_dist { 1.0 } else { libm::exp(min_dist - x) })
        };
        let points: Vec<(f64, f64)> = (0..POINTS).map(target).collect();
        let error = |curve: Curve| points.iter().map(|&(x, y)| (curve.at(x) - y).powi(2)).sum::<f64>();
        let (mut curve, mut damping) = (Curve { a: 1.0, b: 1.0 }, 1e-3);
        let mut best = error(curve);
        for _ in 0..200 {
            let (mut aa, mut ab, mut bb, mut ra, mut rb) = (0.0, 0.0, 0.0, 0.0, 0.0);
            for &(x, y) in points.iter().filter(|(x, _)| *x > 0.0) {
                let value = curve.at(x);
                // ∂/∂a = −v² x^2b and ∂/∂b = −v² a x^2b 2 ln x.
                let by_a = -value * value * libm::pow(x, 2.0 * curve.b);
                let by_b = by_a * curve.a * 2.0 * libm::log(x);
                (aa, ab, bb) = (aa + by_a * by_a, ab + by_a * by_b, bb + by_b * by_b);
                (ra, rb) = (ra + by_a * (y - value), rb + by_b * (y - value));
            }
            let (aa, bb) = (aa * (1.0 + damping), bb * (1.0 + damping));
            let determinant = aa * bb - ab * ab;
            let moved = Curve {
                a: curve.a + (ra * bb - rb * ab) / determinant,
                b: curve.b + (rb * aa - ra * ab) / determinant,
            };
            let now = error(moved);
            if moved.a > 0.0 && moved.b > 0.0 && now < best {
                (curve, best, damping) = (moved, now, damping * 0.3);
            } else {
                damping *= 4.0;
            }
            if damping > 1e12 {
                break;
            }
        }
        curve
    }

    fn at(self, x: f64) -> f64 {
        1.0 / (1.0 + self.a * libm::pow(x, 2.0 * self.b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_umap_learn() {
        // find_ab_params(1.0, min_dist) of umap-learn 0.5.
        for (min_dist, a, b) in [(0.1, 1.576_943_460_2, 0.895_060_877_9), (0.5, 0.583_030_020_5, 1.334_166_992_4)] {
            let found = Curve::fit(min_dist);
            assert!((found.a - a).abs() < 1e-4 && (found.b - b).abs() < 1e-4, "{found:?}");
        }
    }
}
