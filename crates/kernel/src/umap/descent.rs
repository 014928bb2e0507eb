//! Gradient descent: connected points attract each other, random other points repel.
//!
//! Sixteen points move at once, each in one lane of vector instructions. All lanes do the same arithmetic in the same order as
//! one point alone, so the bits do not depend on the instruction set.

use pulp::{Arch, Simd, WithSimd};
use rand::Rng;
use rayon::prelude::*;

use super::curve::Curve;
use super::force::Force;
use super::graph::Graph;
use super::pulls::{BATCHES, Due, Pulls};
use crate::monitor::{Cancelled, Monitor};
use crate::random::stream;

/// Points that share a random stream.
const BLOCK: usize = 512;

/// Negative samples per edge.
const NEGATIVE_SAMPLES: usize = 5;

/// Points that move at once.
const LANES: usize = 16;

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
    let force = Force::new(curve);
    monitor.start("layout", epochs as u64, "epochs");
    for epoch in 0..epochs {
        if monitor.is_cancelled() {
            break;
        }
        let rate = 1.0 - epoch as f32 / epochs as f32;
        for batch in 0..BATCHES {
            let last = &before;
            after.par_chunks_mut(BLOCK).enumerate().for_each_init(Scratch::default, |scratch, (block, points)| {
                // An epoch of many points is long. Its coordinates are not used after a cancellation.
                if monitor.is_cancelled() {
                    return;
                }
                let first = block * BLOCK;
                pulls.due(batch, first..first + points.len(), epoch, &mut scratch.due);
                let stream_block = (epoch * BATCHES + batch) * blocks + block;
                scratch.draw(last, first, &mut stream(seed, "umap/descent", stream_block as u64));
                scratch.sort_points();
                Arch::new().dispatch(Move { force, rate, last, first, scratch, points });
            });
            std::mem::swap(&mut before, &mut after);
        }
        monitor.advance(1);
    }
    monitor.finish();
    monitor.check().map(|()| before)
}

/// The edges of a block of points in a mini-batch. Reusable.
#[derive(Default)]
struct Scratch {
    due: Due,
    /// By edge, how far the other end is behind this end in each direction; then the step of this end.
    x: Vec<f32>,
    y: Vec<f32>,
    /// By edge, whether it is sampled from this end.
    repels: Vec<bool>,
    /// By edge that is sampled from this end, the coordinates of the points that repel it.
    repelling: Vec<[[f32; 2]; NEGATIVE_SAMPLES]>,
    /// By point, its first edge, its last edge, and its first and last among those that repel.
    spans: Vec<[usize; 4]>,
    /// Points in the order in which they move.
    order: Vec<usize>,
}

/// Marks the coordinates of a point that was drawn against itself and has no effect.
const ITSELF: [f32; 2] = [f32::INFINITY; 2];

impl Scratch {
    /// Collects the edges that are due, and draws the points that repel.
    fn draw(&mut self, last: &[[f32; 2]], first: usize, random: &mut impl Rng) {
        self.x.clear();
        self.y.clear();
        self.repels.clear();
        self.repelling.clear();
        self.spans.clear();
        let mut edges = self.due.edges();
        let mut start = [0; 2];
        for (index, &end) in (first..).zip(&self.due.ends) {
            let here = last[index];
            for (other, repels) in edges.by_ref().take(end - start[0]) {
                let there = last[other];
                self.x.push(here[0] - there[0]);
                self.y.push(here[1] - there[1]);
                self.repels.push(repels);
                if repels {
                    self.repelling.push(std::array::from_fn(|_| {
                        // Unbiased enough: 2³² is far above the number of points.
                        let drawn = ((u64::from(random.next_u32()) * last.len() as u64) >> 32) as usize;
                        if drawn == index { ITSELF } else { last[drawn] }
                    }));
                }
            }
            let ends = [end, self.repelling.len()];
            self.spans.push([start[0], ends[0], start[1], ends[1]]);
            start = ends;
        }
    }

    /// Orders points by their number of repelling edges (counting sort), so that lanes have about as many.
    fn sort_points(&mut self) {
        let count = |span: &[usize; 4]| span[3] - span[2];
        let most = self.spans.iter().map(count).max().unwrap_or(0);
        let mut starts = vec![0; most + 2];
        self.spans.iter().for_each(|span| starts[count(span) + 1] += 1);
        (0..=most).for_each(|index| starts[index + 1] += starts[index]);
        self.order.resize(self.spans.len(), 0);
        for (point, span) in self.spans.iter().enumerate() {
            self.order[starts[count(span)]] = point;
            starts[count(span)] += 1;
        }
    }
}

/// Moves the points of a block.
struct Move<'a> {
    force: Force,
    rate: f32,
    /// The coordinates of all points before the mini-batch.
    last: &'a [[f32; 2]],
    /// Index of the first point of the block.
    first: usize,
    scratch: &'a mut Scratch,
    points: &'a mut [[f32; 2]],
}

impl WithSimd for Move<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let Move { force, rate, last, first, scratch, points } = self;
        for (x, y) in scratch.x.iter_mut().zip(&mut scratch.y) {
            [*x, *y] = force.attraction(*x, *y);
        }
        for lanes in scratch.order.chunks(LANES) {
            let (mut right, mut up) = ([0.0f32; LANES], [0.0f32; LANES]);
            // The next edge of every lane, and the next that repels.
            let (mut edge, mut repelling) = ([0; LANES], [0; LANES]);
            let mut rounds = 0;
            for (lane, &point) in lanes.iter().enumerate() {
                [right[lane], up[lane]] = last[first + point];
                let [start, _, first_repelling, end] = scratch.spans[point];
                (edge[lane], repelling[lane]) = (start, first_repelling);
                rounds = rounds.max(end - first_repelling);
            }
            for _ in 0..rounds {
                let mut others = [[[0.0f32; LANES]; 2]; NEGATIVE_SAMPLES];
                let mut moves = [false; LANES];
                for (lane, &point) in lanes.iter().enumerate() {
                    moves[lane] = repelling[lane] < scratch.spans[point][3];
                    if !moves[lane] {
                        continue;
                    }
                    // Attractions up to and including the next edge that repels.
                    loop {
                        let next = edge[lane];
                        right[lane] += rate * scratch.x[next];
                        up[lane] += rate * scratch.y[next];
                        edge[lane] += 1;
                        if scratch.repels[next] {
                            break;
                        }
                    }
                    for (into, other) in others.iter_mut().zip(&scratch.repelling[repelling[lane]]) {
                        (into[0][lane], into[1][lane]) = (other[0], other[1]);
                    }
                    repelling[lane] += 1;
                }
                let (mut right_sum, mut up_sum) = ([0.0f32; LANES], [0.0f32; LANES]);
                for other in &others {
                    for lane in 0..LANES {
                        let is_other = other[0][lane] != ITSELF[0];
                        let x = if is_other { right[lane] - other[0][lane] } else { 0.0 };
                        let y = if is_other { up[lane] - other[1][lane] } else { 0.0 };
                        let step = force.repulsion(x, y);
                        right_sum[lane] += step[0];
                        up_sum[lane] += step[1];
                    }
                }
                for lane in 0..LANES {
                    let (x, y) = (right[lane] + rate * right_sum[lane], up[lane] + rate * up_sum[lane]);
                    right[lane] = if moves[lane] { x } else { right[lane] };
                    up[lane] = if moves[lane] { y } else { up[lane] };
                }
            }
            for (lane, &point) in lanes.iter().enumerate() {
                for next in edge[lane]..scratch.spans[point][1] {
                    right[lane] += rate * scratch.x[next];
                    up[lane] += rate * scratch.y[next];
                }
                points[point] = [right[lane], up[lane]];
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use crate::neighbours::Neighbours;
    use crate::random::{index, unit};

    /// The definition: one point after the other, one edge after the other.
    fn plain(graph: &Graph, first: Vec<[f32; 2]>, curve: &Curve, epochs: usize, seed: u64) -> Vec<[f32; 2]> {
        let (pulls, force) = (Pulls::new(graph), Force::new(curve));
        let (mut before, mut after) = (first.clone(), first);
        let blocks = before.len().div_ceil(BLOCK);
        let mut due = Due::default();
        for (epoch, batch) in (0..epochs).flat_map(|epoch| (0..BATCHES).map(move |batch| (epoch, batch))) {
            let rate = 1.0 - epoch as f32 / epochs as f32;
            for (block, points) in after.chunks_mut(BLOCK).enumerate() {
                let stream_block = (epoch * BATCHES + batch) * blocks + block;
                let mut random = stream(seed, "umap/descent", stream_block as u64);
                for (index, point) in (block * BLOCK..).zip(points) {
                    let start = before[index];
                    let mut here = start;
                    pulls.due(batch, index..index + 1, epoch, &mut due);
                    for (other, repels) in due.edges() {
                        let there = before[other];
                        let step = force.attraction(start[0] - there[0], start[1] - there[1]);
                        here = [here[0] + rate * step[0], here[1] + rate * step[1]];
                        let mut sum = [0.0; 2];
                        for _ in 0..if repels { NEGATIVE_SAMPLES } else { 0 } {
                            let drawn = (u64::from(random.next_u32()) * before.len() as u64) >> 32;
                            let there = if drawn as usize == index { here } else { before[drawn as usize] };
                            let step = force.repulsion(here[0] - there[0], here[1] - there[1]);
                            sum = [sum[0] + step[0], sum[1] + step[1]];
                        }
                        if repels {
                            here = [here[0] + rate * sum[0], here[1] + rate * sum[1]];
                        }
                    }
                    *point = here;
                }
            }
            std::mem::swap(&mut before, &mut after);
        }
        before
    }

    #[test]
    fn lanes_have_the_bits_of_one_point_after_the_other() {
        for count in [2, 20, 700] {
            let mut random = stream(count as u64, "descent test", 0);
            let each = 4.min(count - 1);
            let ids: Vec<u32> = (0..count)
                .flat_map(|point| {
                    (1..=each).map(move |step| ((point + step * step) % count) as u32).collect::<Vec<_>>()
                })
                .map(|id| id.min(count as u32 - 1))
                .collect();
            let distances = (0..count * each).map(|_| 0.2 + index(20, &mut random) as f32).collect();
            let graph = Graph::new(&Neighbours { each, ids, distances }, count, each + 1);
            let mut first: Vec<[f32; 2]> =
                (0..count).map(|_| [0; 2].map(|_| 10.0 * unit(&mut random) as f32)).collect();
            // Equal points.
            first[1] = first[0];
            let curve = Curve::fit(0.1);
            let moved = descend(&graph, first.clone(), &curve, 7, 3, &Silent).unwrap();
            let expected = plain(&graph, first, &curve, 7, 3);
            let bits = |points: &[[f32; 2]]| points.iter().flatten().map(|part| part.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(&moved), bits(&expected), "{count}");
        }
    }
}
