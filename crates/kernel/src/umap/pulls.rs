//! The edges of every point by mini-batch, and in which epochs they are sampled.

use std::ops::Range;

use rayon::prelude::*;

use super::graph::Graph;
use crate::vectorised::vectorised;

/// Mini-batches of edges per epoch; points move after each.
pub(super) const BATCHES: usize = 4;

/// Marks an edge that is sampled from this end.
const REPELS: u32 = 1 << 31;

/// The edges of every point by mini-batch. Each edge has four entries: sampled from either end, stored at either end.
pub(super) struct Pulls {
    points: usize,
    /// By mini-batch, then by point.
    starts: Vec<usize>,
    /// The other end, with a mark if the edge is sampled from this end.
    others: Vec<u32>,
    /// The weights as shares of the heaviest.
    shares: Vec<f32>,
}

impl Pulls {
    pub fn new(graph: &Graph) -> Pulls {
        let (points, heaviest) = (graph.points(), graph.heaviest());
        let of_point = |point: usize| {
            let (ids, weights) = graph.of_point(point);
            let mut batches: [Vec<(u32, f32)>; BATCHES] = Default::default();
            for (&other, &weight) in ids.iter().zip(weights) {
                let share = weight / heaviest;
                batches[batch_of(point as u32, other)].push((other | REPELS, share));
                batches[batch_of(other, point as u32)].push((other, share));
            }
            batches
        };
        let lists: Vec<[Vec<(u32, f32)>; BATCHES]> =
            (0..points).into_par_iter().with_min_len(256).map(of_point).collect();
        let mut pulls = Pulls { points, starts: vec![0], others: Vec::new(), shares: Vec::new() };
        for list in (0..BATCHES).flat_map(|batch| lists.iter().map(move |batches| &batches[batch])) {
            pulls.others.extend(list.iter().map(|pull| pull.0));
            pulls.shares.extend(list.iter().map(|pull| pull.1));
            pulls.starts.push(pulls.others.len());
        }
        pulls
    }

    /// Appends the edges of some points that are sampled in an epoch to `due`: the other end, and whether it is sampled from
    /// this end. `ends` has, for every point, how many are due up to it.
    pub fn due(&self, batch: usize, points: Range<usize>, epoch: usize, due: &mut Due) {
        let first = batch * self.points;
        let starts = &self.starts[first + points.start..=first + points.end];
        let all = starts[0]..starts[points.len()];
        let shares = &self.shares[all.clone()];
        due.flags.resize(shares.len(), false);
        let Due { flags, pulls, ends } = due;
        vectorised(
            #[inline(always)]
            || flags.iter_mut().zip(shares).for_each(|(flag, &share)| *flag = is_due(share, epoch)),
        );
        pulls.clear();
        pulls.resize(shares.len(), 0);
        ends.clear();
        let mut count = 0;
        for span in starts.windows(2) {
            let span = span[0] - all.start..span[1] - all.start;
            for (&other, &flag) in self.others[all.clone()][span.clone()].iter().zip(&flags[span]) {
                // Without a branch: an entry that is not due is overwritten.
                pulls[count] = other;
                count += usize::from(flag);
            }
            ends.push(count);
        }
        pulls.truncate(count);
    }
}

/// The edges that are due. Reusable.
#[derive(Default)]
pub(super) struct Due {
    flags: Vec<bool>,
    pulls: Vec<u32>,
    /// By point, where its edges end.
    pub ends: Vec<usize>,
}

impl Due {
    /// The other end of each edge, and whether it is sampled from this end.
    pub fn edges(&self) -> impl Iterator<Item = (usize, bool)> {
        self.pulls.iter().map(|pull| ((pull & !REPELS) as usize, pull & REPELS != 0))
    }
}

/// Whether an edge of this share is sampled in an epoch: the heaviest in every epoch, one of half the weight in every second.
#[inline(always)]
fn is_due(share: f32, epoch: usize) -> bool {
    let drawn = |epochs: usize| (epochs as f64 * f64::from(share)).floor();
    drawn(epoch + 1) > drawn(epoch)
}

/// The mini-batch in which an edge is sampled from one end: a hash of the edge, so both ends agree.
fn batch_of(from: u32, to: u32) -> usize {
    let mixed = ((u64::from(from) << 32) | u64::from(to)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93) >> 40) as usize % BATCHES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neighbours::Neighbours;

    #[test]
    fn every_edge_is_sampled_from_both_ends_and_stored_at_both() {
        let neighbours = Neighbours { each: 1, ids: vec![1, 0, 1], distances: vec![1.0, 1.0, 2.0] };
        let pulls = Pulls::new(&Graph::new(&neighbours, 3, 2));
        let mut due = Due::default();
        // By point, the partners in one mini-batch of an epoch.
        let mut of = |batch: usize, epoch: usize| {
            pulls.due(batch, 0..3, epoch, &mut due);
            let edges: Vec<(usize, bool)> = due.edges().collect();
            let starts = [&[0], &due.ends[..]].concat();
            starts.windows(2).map(|span| edges[span[0]..span[1]].to_vec()).collect::<Vec<_>>()
        };
        for epoch in 0..9 {
            let batches: Vec<Vec<Vec<(usize, bool)>>> = (0..BATCHES).map(|batch| of(batch, epoch)).collect();
            for (point, partners) in [(0, 1), (1, 2), (2, 1)] {
                let all: Vec<(usize, bool)> = batches.iter().flat_map(|batch| batch[point].clone()).collect();
                assert_eq!((all.len(), all.iter().filter(|edge| edge.1).count()), (2 * partners, partners));
            }
            for batch in &batches {
                assert_eq!(batch[0].contains(&(1, true)), batch[1].contains(&(0, false)));
            }
        }
        assert_eq!((0..6).filter(|&epoch| is_due(0.5, epoch)).collect::<Vec<_>>(), [1, 3, 5]);
    }

    #[test]
    fn some_points_have_the_edges_of_all() {
        let ids: Vec<u32> = (0..40u32).flat_map(|point| [(point + 1) % 40, (point + 3) % 40]).collect();
        let distances = (0..80).map(|index| 1.0 + 0.1 * (index % 7) as f32).collect();
        let pulls = Pulls::new(&Graph::new(&Neighbours { each: 2, ids, distances }, 40, 3));
        let edges = |batch: usize, points: Range<usize>, epoch: usize| {
            let mut due = Due::default();
            pulls.due(batch, points, epoch, &mut due);
            due.edges().collect::<Vec<_>>()
        };
        for (batch, epoch) in [(0, 0), (1, 3), (3, 5)] {
            let all = edges(batch, 0..40, epoch);
            assert_eq!([edges(batch, 0..17, epoch), edges(batch, 17..40, epoch)].concat(), all);
            assert!(!all.is_empty());
        }
    }
}
