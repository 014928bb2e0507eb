//! Moving the points: partners attract each other, everybody else repels.

use rand::Rng;
use rayon::prelude::*;

use super::curve::Curve;
use super::graph::Graph;
use crate::monitor::{Cancelled, Monitor};
use crate::random::stream;

/// Points that share a random stream.
const BLOCK: usize = 512;

/// Points that repel for each partner that attracts.
const OTHERS: usize = 5;

/// The farthest that a point moves in one direction at once.
const FARTHEST: f32 = 4.0;

/// An epoch is cut into so many turns; after each, points see where the others have moved.
const TURNS: usize = 4;

/// Moves all points `epochs` times.
///
/// In an epoch, an edge is drawn if its time has come: the heaviest in every epoch, one of half the weight in every
/// second. It is drawn once from each end; both ends then move towards each other, and the one that it is drawn from is repelled by
/// five others drawn at random. All forces within a turn are taken at the places before it, so that both ends
/// of an edge move by the same amount: pulling a point towards where its partner was, after its own moves, looks
/// better but holds whole families of points in place (tried: maps shrank to a third, and their trustworthiness fell
/// from 0.99 to 0.95).
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
        for turn in 0..TURNS {
            let last = &before;
            after.par_chunks_mut(BLOCK).enumerate().for_each(|(block, points)| {
                let place = (epoch * TURNS + turn) * blocks + block;
                let mut random = stream(seed, "umap/descent", place as u64);
                for (number, place) in (block * BLOCK..).zip(points) {
                    let start = last[number];
                    let mut here = start;
                    for pull in pulls.of(number, turn).iter().filter(|pull| pull.is_due(epoch)) {
                        let [x, y] = force.attraction(start, last[pull.other as usize]);
                        here = [here[0] + rate * x, here[1] + rate * y];
                        if pull.repels {
                            let others = std::array::from_fn(|_| {
                                // Unbiased enough: 2³² is far above the number of points.
                                let drawn = (u64::from(random.next_u32()) * last.len() as u64) >> 32;
                                if drawn as usize == number { here } else { last[drawn as usize] }
                            });
                            force.repel(&mut here, &others, rate);
                        }
                    }
                    *place = here;
                }
            });
            std::mem::swap(&mut before, &mut after);
        }
        monitor.advance(1);
    }
    monitor.finish();
    monitor.check().map(|()| before)
}

/// One end of an edge that is drawn in some turn.
#[derive(Clone, Copy)]
struct Pull {
    other: u32,
    /// The weight, as a share of the heaviest.
    share: f32,
    /// Is the edge drawn from this end?
    repels: bool,
}

impl Pull {
    fn is_due(&self, epoch: usize) -> bool {
        let drawn = |epochs: usize| (epochs as f64 * f64::from(self.share)).floor();
        drawn(epoch + 1) > drawn(epoch)
    }
}

/// The edges of every point by turn. Each edge is there four times: drawn from either end, and seen from either end.
struct Pulls {
    offsets: Vec<usize>,
    pulls: Vec<Pull>,
}

impl Pulls {
    fn new(graph: &Graph) -> Pulls {
        let heaviest = graph.heaviest();
        let of_point = |point: usize| {
            let (ids, weights) = graph.of_point(point);
            let mut turns: [Vec<Pull>; TURNS] = Default::default();
            for (&other, &weight) in ids.iter().zip(weights) {
                let share = weight / heaviest;
                turns[turn_of(point as u32, other)].push(Pull { other, share, repels: true });
                turns[turn_of(other, point as u32)].push(Pull { other, share, repels: false });
            }
            turns
        };
        let lists: Vec<[Vec<Pull>; TURNS]> =
            (0..graph.points()).into_par_iter().with_min_len(256).map(of_point).collect();
        let mut pulls = Pulls { offsets: vec![0], pulls: Vec::new() };
        for list in lists.iter().flatten() {
            pulls.pulls.extend_from_slice(list);
            pulls.offsets.push(pulls.pulls.len());
        }
        pulls
    }

    fn of(&self, point: usize, turn: usize) -> &[Pull] {
        let place = point * TURNS + turn;
        &self.pulls[self.offsets[place]..self.offsets[place + 1]]
    }
}

/// The turn in which an edge is drawn from one end: any that both ends agree on.
fn turn_of(from: u32, to: u32) -> usize {
    let mixed = ((u64::from(from) << 32) | u64::from(to)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 40) as usize % TURNS
}

/// The gradient of the curve.
struct Force {
    a: f32,
    b: f32,
}

impl Force {
    /// How far a point moves towards another; the other moves as far towards it.
    #[inline(always)]
    fn attraction(&self, here: [f32; 2], there: [f32; 2]) -> [f32; 2] {
        let apart = [here[0] - there[0], here[1] - there[1]];
        let square = apart[0] * apart[0] + apart[1] * apart[1];
        if square <= 0.0 {
            return [0.0; 2];
        }
        let power = power(square, self.b);
        let factor = -2.0 * self.a * self.b * power / (square * (1.0 + self.a * power));
        apart.map(|part| (factor * part).clamp(-FARTHEST, FARTHEST))
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
    fn every_edge_is_drawn_from_both_ends_and_seen_by_both() {
        let neighbours = Neighbours { each: 1, ids: vec![1, 0, 1], distances: vec![1.0, 1.0, 2.0] };
        let pulls = Pulls::new(&Graph::new(&neighbours, 3, 2));
        for (point, partners) in [(0, 1), (1, 2), (2, 1)] {
            let all: Vec<Pull> = (0..TURNS).flat_map(|turn| pulls.of(point, turn).to_vec()).collect();
            assert_eq!((all.len(), all.iter().filter(|pull| pull.repels).count()), (2 * partners, partners));
            assert!(all.iter().all(|pull| (0..9).all(|epoch| pull.is_due(epoch))));
        }
        for turn in 0..TURNS {
            let drawn = |point: usize, repels: bool| pulls.of(point, turn).iter().any(|pull| pull.repels == repels);
            assert_eq!(drawn(0, true), pulls.of(1, turn).iter().any(|pull| !pull.repels && pull.other == 0));
        }
        let half = Pull { other: 0, share: 0.5, repels: true };
        assert_eq!((0..6).filter(|&epoch| half.is_due(epoch)).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn partners_attract_and_strangers_repel() {
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
