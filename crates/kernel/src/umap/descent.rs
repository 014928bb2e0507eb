//! Gradient descent: connected points attract each other, random other points repel.

use rand::Rng;
use rayon::prelude::*;

use super::curve::Curve;
use super::graph::Graph;
use crate::monitor::{Cancelled, Monitor};
use crate::random::stream;

/// Points that share a random stream.
const BLOCK: usize = 512;

/// Negative samples per edge.
const NEGATIVE_SAMPLES: usize = 5;

/// Gradients are clipped to this in each direction.
const CLIP: f32 = 4.0;

/// Mini-batches of edges per epoch; points move after each.
const BATCHES: usize = 4;

/// Moves all points `epochs` times.
///
/// Edges are sampled in proportion to their weight: the heaviest in every epoch, one of half the weight in every second.
/// An edge is sampled once from each end; both ends move towards each other, and the end from which it is sampled is
/// repelled by five random points. All attractions within a mini-batch are evaluated at the coordinates before it, so
/// both ends of an edge move by the same amount. Attracting an already moved point to its partner's old coordinates was
/// tried: maps shrank to a third, and trustworthiness fell from 0.99 to 0.95.
pub fn descend(
    graph: &Graph,
    first: Vec<[f32; 2]>,
    curve: &Curve,
    epochs: usize,
    seed: u64,
    monitor: &dyn Monitor,
) -> Result<Vec<[f32; 2]>, Cancelled> {
    let pulls = Pulls::new(graph);
    let (mut before, mut after) = (first.clone(), first);
    let blocks = before.len().div_ceil(BLOCK);
    let force = Force { a: curve.a as f32, b: curve.b as f32 };
    monitor.start("layout", epochs as u64, "epochs");
    for epoch in 0..epochs {
        if monitor.is_cancelled() {
            break;
        }
        let rate = 1.0 - epoch as f32 / epochs as f32;
        for batch in 0..BATCHES {
            let last = &before;
            after.par_chunks_mut(BLOCK).enumerate().for_each(|(block, points)| {
                let stream_block = (epoch * BATCHES + batch) * blocks + block;
                let mut random = stream(seed, "umap/descent", stream_block as u64);
                for (index, point) in (block * BLOCK..).zip(points) {
                    let start = last[index];
                    let mut here = start;
                    for pull in pulls.of(index, batch).iter().filter(|pull| pull.is_due(epoch)) {
                        let [x, y] = force.attraction(start, last[pull.other as usize]);
                        here = [here[0] + rate * x, here[1] + rate * y];
                        if pull.repels {
                            let others = std::array::from_fn(|_| {
                                // Unbiased enough: 2³² is far above the number of points.
                                let drawn = (u64::from(random.next_u32()) * last.len() as u64) >> 32;
                                if drawn as usize == index { here } else { last[drawn as usize] }
                            });
                            force.repel(&mut here, &others, rate);
                        }
                    }
                    *point = here;
                }
            });
            std::mem::swap(&mut before, &mut after);
        }
        monitor.advance(1);
    }
    monitor.finish();
    monitor.check().map(|()| before)
}

/// One end of an edge that is sampled in a mini-batch.
#[derive(Clone, Copy)]
struct Pull {
    other: u32,
    /// The weight as a share of the heaviest.
    share: f32,
    /// Whether the edge is sampled from this end.
    repels: bool,
}

impl Pull {
    fn is_due(&self, epoch: usize) -> bool {
        let drawn = |epochs: usize| (epochs as f64 * f64::from(self.share)).floor();
        drawn(epoch + 1) > drawn(epoch)
    }
}

/// The edges of every point by mini-batch. Each edge has four entries: sampled from either end, stored at either end.
struct Pulls {
    offsets: Vec<usize>,
    pulls: Vec<Pull>,
}

impl Pulls {
    fn new(graph: &Graph) -> Pulls {
        let heaviest = graph.heaviest();
        let of_point = |point: usize| {
            let (ids, weights) = graph.of_point(point);
            let mut batches: [Vec<Pull>; BATCHES] = Default::default();
            for (&other, &weight) in ids.iter().zip(weights) {
                let share = weight / heaviest;
                batches[batch_of(point as u32, other)].push(Pull { other, share, repels: true });
                batches[batch_of(other, point as u32)].push(Pull { other, share, repels: false });
            }
            batches
        };
        let lists: Vec<[Vec<Pull>; BATCHES]> =
            (0..graph.points()).into_par_iter().with_min_len(256).map(of_point).collect();
        let mut pulls = Pulls { offsets: vec![0], pulls: Vec::new() };
        for list in lists.iter().flatten() {
            pulls.pulls.extend_from_slice(list);
            pulls.offsets.push(pulls.pulls.len());
        }
        pulls
    }

    fn of(&self, point: usize, batch: usize) -> &[Pull] {
        let list = point * BATCHES + batch;
        &self.pulls[self.offsets[list]..self.offsets[list + 1]]
    }
}

/// The mini-batch in which an edge is sampled from one end: a hash of the edge, so both ends agree.
fn batch_of(from: u32, to: u32) -> usize {
    let mixed = ((u64::from(from) << 32) | u64::from(to)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 40) as usize % BATCHES
}

/// The gradient of the curve.
struct Force {
    a: f32,
    b: f32,
}

impl Force {
    /// The step of a point towards another; the other takes the opposite step.
    #[inline(always)]
    fn attraction(&self, here: [f32; 2], there: [f32; 2]) -> [f32; 2] {
        let apart = [here[0] - there[0], here[1] - there[1]];
        let square = apart[0] * apart[0] + apart[1] * apart[1];
        if square <= 0.0 {
            return [0.0; 2];
        }
        let power = power(square, self.b);
        let factor = -2.0 * self.a * self.b * power / (square * (1.0 + self.a * power));
        apart.map(|part| (factor * part).clamp(-CLIP, CLIP))
    }

    /// Repels `here` from all `others` at once; a point with equal coordinates has no effect.
    #[inline(always)]
    fn repel(&self, here: &mut [f32; 2], others: &[[f32; 2]; NEGATIVE_SAMPLES], rate: f32) {
        let (mut right, mut up) = (0.0, 0.0);
        for other in others {
            let (x, y) = (here[0] - other[0], here[1] - other[1]);
            let square = x * x + y * y;
            let factor = 2.0 * self.b / ((0.001 + square) * (1.0 + self.a * power(square, self.b)));
            right += (factor * x).clamp(-CLIP, CLIP);
            up += (factor * y).clamp(-CLIP, CLIP);
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
            * (std::f32::consts::LN_2
                + rest * (0.240_226_5 + rest * (0.055_504_1 + rest * (0.009_618_13 + rest * 0.001_333_36))));
    series * f32::from_bits(((nearest as i32 + 127) << 23) as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbours::Neighbours;

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
    fn every_edge_is_sampled_from_both_ends_and_stored_at_both() {
        let neighbours = Neighbours { each: 1, ids: vec![1, 0, 1], distances: vec![1.0, 1.0, 2.0] };
        let pulls = Pulls::new(&Graph::new(&neighbours, 3, 2));
        for (point, partners) in [(0, 1), (1, 2), (2, 1)] {
            let all: Vec<Pull> = (0..BATCHES).flat_map(|batch| pulls.of(point, batch).to_vec()).collect();
            assert_eq!((all.len(), all.iter().filter(|pull| pull.repels).count()), (2 * partners, partners));
            assert!(all.iter().all(|pull| (0..9).all(|epoch| pull.is_due(epoch))));
        }
        for batch in 0..BATCHES {
            let drawn = |point: usize, repels: bool| pulls.of(point, batch).iter().any(|pull| pull.repels == repels);
            assert_eq!(drawn(0, true), pulls.of(1, batch).iter().any(|pull| !pull.repels && pull.other == 0));
        }
        let half = Pull { other: 0, share: 0.5, repels: true };
        assert_eq!((0..6).filter(|&epoch| half.is_due(epoch)).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn attraction_and_repulsion_of_two_points() {
        let force = Force { a: 1.0, b: 1.0 };
        // a = b = 1: −2 / (1 + d²) · (x − y) = −2 / 2 · 1 at distance 1, and 2 / (1.001 · 2) away.
        let (one, other) = ([1.0, 0.0], [0.0, 0.0]);
        assert!((force.attraction(one, other)[0] + 1.0).abs() < 1e-5);
        assert_eq!(force.attraction(one, other)[0], -force.attraction(other, one)[0]);
        assert_eq!(force.attraction(one, one), [0.0; 2]);
        let mut here = [1.0, 0.0];
        let same = [1.0, 0.0];
        force.repel(&mut here, &[[0.0, 0.0], same, same, same, same], 1.0);
        assert!((here[0] - 1.999).abs() < 1e-3 && here[1] == 0.0, "{here:?}");
    }
}
