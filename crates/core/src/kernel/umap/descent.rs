//! Moving the points: partners attract each other, everybody else repels.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::Rng;
use rayon::prelude::*;

use super::curve::Curve;
use super::graph::Graph;
use crate::error::{Error, Result};
use crate::kernel::random::stream;
use crate::progress::Progress;

/// Points that share a random stream.
const BLOCK: usize = 512;

/// Points that repel for each partner that attracts.
const OTHERS: usize = 5;

/// The farthest that a point moves in one direction at once.
const FARTHEST: f32 = 4.0;

/// Moves all points `epochs` times.
///
/// In an epoch, an edge is drawn if its turn has come: the heaviest in every epoch, one of half the weight in every
/// second. Its point is then attracted twice (once for each of its two ends, as every edge is drawn from both), and repelled by
/// five others drawn at random. A point sees its own moves at once and those of others in the next epoch.
pub fn descend(
    graph: &Graph,
    first: Vec<[f32; 2]>,
    curve: &Curve,
    epochs: usize,
    seed: u64,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Vec<[f32; 2]>> {
    let heaviest = graph.heaviest();
    let (mut before, mut after) = (first.clone(), first);
    let blocks = before.len().div_ceil(BLOCK) as u64;
    let force = Force { a: curve.a as f32, b: curve.b as f32 };
    progress.start("layout", epochs as u64, "epochs");
    for epoch in 0..epochs {
        if cancel.load(Ordering::Relaxed) {
            progress.finish();
            return Err(Error::Cancelled);
        }
        let rate = 1.0 - epoch as f32 / epochs as f32;
        let last = &before;
        after.par_chunks_mut(BLOCK).enumerate().for_each(|(block, points)| {
            let mut random = stream(seed, "umap/descent", epoch as u64 * blocks + block as u64);
            for (number, place) in (block * BLOCK..).zip(points) {
                let mut here = last[number];
                let (ids, weights) = graph.of_point(number);
                for (&other, &weight) in ids.iter().zip(weights) {
                    let share = f64::from(weight / heaviest);
                    if ((epoch + 1) as f64 * share).floor() <= (epoch as f64 * share).floor() {
                        continue;
                    }
                    let there = last[other as usize];
                    force.attract(&mut here, there, rate);
                    let mut others = [here; OTHERS];
                    for other in &mut others {
                        // Unbiased enough: 2³² is far above the number of points.
                        let drawn = (u64::from(random.next_u32()) * last.len() as u64) >> 32;
                        if drawn as usize != number {
                            *other = last[drawn as usize];
                        }
                    }
                    force.repel(&mut here, &others, rate);
                    force.attract(&mut here, there, rate);
                }
                *place = here;
            }
        });
        std::mem::swap(&mut before, &mut after);
        progress.advance(1);
    }
    progress.finish();
    Ok(before)
}

/// The gradient of the curve.
struct Force {
    a: f32,
    b: f32,
}

impl Force {
    #[inline(always)]
    fn attract(&self, here: &mut [f32; 2], there: [f32; 2], rate: f32) {
        let (x, y) = (here[0] - there[0], here[1] - there[1]);
        let square = x * x + y * y;
        if square <= 0.0 {
            return;
        }
        let power = power(square, self.b);
        let factor = -2.0 * self.a * self.b * power / (square * (1.0 + self.a * power));
        here[0] += rate * (factor * x).clamp(-FARTHEST, FARTHEST);
        here[1] += rate * (factor * y).clamp(-FARTHEST, FARTHEST);
    }

    /// Away from some points at once; one at the very same place does nothing.
    #[inline(always)]
    fn repel(&self, here: &mut [f32; 2], others: &[[f32; 2]; OTHERS], rate: f32) {
        let (mut right, mut up) = (0.0, 0.0);
        for other in others {
            let (x, y) = (here[0] - other[0], here[1] - other[1]);
            let square = x * x + y * y;
            let factor = 2.0 * self.b / ((0.001 + square) * (1.0 + self.a * power(square, self.b)));
            right += (factor * x).clamp(-FARTHEST, FARTHEST);
            up += (factor * y).clamp(-FARTHEST, FARTHEST);
        }
        here[0] += rate * right;
        here[1] += rate * up;
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
            * (0.693_147_2 + rest * (0.240_226_5 + rest * (0.055_504_1 + rest * (0.009_618_13 + rest * 0.001_333_36))));
    series * f32::from_bits(((nearest as i32 + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_have_six_digits() {
        for exponent in [0.2f32, 0.895, 1.0, 1.9] {
            for at in -60..60 {
                let x = libm::pow(1.7, f64::from(at)) as f32;
                let exact = libm::pow(f64::from(x), f64::from(exponent));
                let found = f64::from(power(x, exponent));
                let inside = exact > 1e-30 && exact < 1e30;
                assert!(!inside || (found / exact - 1.0).abs() < 5e-6, "{x}^{exponent}: {found} and {exact}");
            }
            assert!(power(0.0, exponent) < 1e-7);
        }
    }

    #[test]
    fn partners_attract_and_strangers_repel() {
        let force = Force { a: 1.0, b: 1.0 };
        // a = b = 1: −2 / (1 + d²) · (x − y) = −2 / 2 · 1 at distance 1, and 2 / (1.001 · 2) away.
        let mut here = [1.0, 0.0];
        force.attract(&mut here, [0.0, 0.0], 0.5);
        assert!((here[0] - 0.5).abs() < 1e-5 && here[1] == 0.0);
        let mut here = [1.0, 0.0];
        let same = [1.0, 0.0];
        force.repel(&mut here, &[[0.0, 0.0], same, same, same, same], 1.0);
        assert!((here[0] - 1.999).abs() < 1e-3 && here[1] == 0.0, "{here:?}");
    }
}
