//! The fuzzy neighbour graph: membership strengths of pairs of points.

use rayon::prelude::*;

use crate::neighbours::Neighbours;

/// Bisection steps for the scale of a point.
const BISECTIONS: usize = 64;

/// Minimum scale, as a share of the mean distance.
const MIN_SCALE: f64 = 1e-3;

/// A symmetric graph: the adjacent points of every point, ascending, with weights between 0 and 1.
#[derive(Clone, Debug)]
pub struct Graph {
    offsets: Vec<usize>,
    ids: Vec<u32>,
    weights: Vec<f32>,
}

impl Graph {
    /// Connects every point to its nearest neighbour with weight 1 and to others with weights that decay with distance, on
    /// a scale such that the weights of a point sum to log2(`size`). An edge exists if either end has it.
    pub fn new(neighbours: &Neighbours, count: usize, size: usize) -> Graph {
        let target = libm::log2(size as f64);
        let all = neighbours.distances.iter().map(|&distance| f64::from(distance));
        // The point itself counts with distance 0, as in umap-learn.
        let overall = all.sum::<f64>() / (count * (neighbours.each + 1)).max(1) as f64;
        let own: Vec<Vec<(u32, f32)>> = (0..count)
            .into_par_iter()
            .with_min_len(256)
            .map(|row| {
                let (ids, distances) = neighbours.of(row);
                let weights = memberships(distances, target, overall);
                let mut list: Vec<(u32, f32)> = ids.iter().copied().zip(weights).collect();
                list.sort_unstable_by_key(|entry| entry.0);
                list
            })
            .collect();
        let mut incoming: Vec<Vec<(u32, f32)>> = vec![Vec::new(); count];
        for (row, list) in own.iter().enumerate() {
            list.iter().for_each(|&(other, weight)| incoming[other as usize].push((row as u32, weight)));
        }
        let both: Vec<Vec<(u32, f32)>> =
            own.par_iter().zip(&incoming).map(|(own, incoming)| union(own, incoming)).collect();
        Graph::of(&both)
    }

    fn of(lists: &[Vec<(u32, f32)>]) -> Graph {
        let mut graph = Graph { offsets: vec![0], ids: Vec::new(), weights: Vec::new() };
        for list in lists {
            graph.ids.extend(list.iter().map(|entry| entry.0));
            graph.weights.extend(list.iter().map(|entry| entry.1));
            graph.offsets.push(graph.ids.len());
        }
        graph
    }

    /// Removes edges lighter than this share of the heaviest: they would never be sampled.
    pub fn without_edges_below(&self, share: f32) -> Graph {
        let least = share * self.heaviest();
        let keep = |row: usize| {
            let (ids, weights) = self.of_point(row);
            ids.iter().copied().zip(weights.iter().copied()).filter(|&(_, weight)| weight >= least).collect()
        };
        Graph::of(&(0..self.points()).map(keep).collect::<Vec<_>>())
    }

    /// Number of points.
    pub fn points(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The points adjacent to a point and their weights.
    pub fn of_point(&self, point: usize) -> (&[u32], &[f32]) {
        let range = self.offsets[point]..self.offsets[point + 1];
        (&self.ids[range.clone()], &self.weights[range])
    }

    /// The largest weight.
    pub fn heaviest(&self) -> f32 {
        self.weights.iter().fold(0.0, |most, &weight| most.max(weight))
    }

    /// Whether every point can be reached from the first.
    pub fn is_connected(&self) -> bool {
        let (mut seen, mut open) = (vec![false; self.points()], vec![0usize]);
        let mut count = 0;
        while let Some(point) = open.pop() {
            if point < seen.len() && !std::mem::replace(&mut seen[point], true) {
                count += 1;
                open.extend(self.of_point(point).0.iter().map(|&other| other as usize));
            }
        }
        count == self.points()
    }
}

/// The membership strengths of a point's neighbours, given ascending distances.
fn memberships(distances: &[f32], target: f64, overall: f64) -> Vec<f32> {
    let nearest = distances.iter().copied().find(|&distance| distance > 0.0).map_or(0.0, f64::from);
    let beyond = |distance: &f32| (f64::from(*distance) - nearest).max(0.0);
    let sum = |scale: f64| distances.iter().map(|distance| libm::exp(-beyond(distance) / scale)).sum::<f64>();
    let (mut low, mut high, mut scale) = (0.0, f64::INFINITY, 1.0);
    for _ in 0..BISECTIONS {
        let found = sum(scale);
        if (found - target).abs() < 1e-5 {
            break;
        }
        if found > target {
            high = scale;
            scale = 0.5 * (low + high);
        } else {
            low = scale;
            scale = if high.is_finite() { 0.5 * (low + high) } else { 2.0 * scale };
        }
    }
    let own = distances.iter().map(|&distance| f64::from(distance)).sum::<f64>() / (distances.len() + 1) as f64;
    let scale = scale.max(MIN_SCALE * if nearest > 0.0 { own } else { overall });
    let weight = |distance: &f32| {
        let beyond = beyond(distance);
        if beyond <= 0.0 || scale <= 0.0 { 1.0 } else { libm::exp(-beyond / scale) as f32 }
    };
    distances.iter().map(weight).collect()
}

/// Two ascending lists as one: `a + b − a · b` where both name a point.
fn union(a: &[(u32, f32)], b: &[(u32, f32)]) -> Vec<(u32, f32)> {
    let mut out = Vec::with_capacity(a.len() + b.len());
    let (mut i, mut j) = (0, 0);
    while i < a.len() || j < b.len() {
        let (left, right) = (a.get(i).map(|entry| entry.0), b.get(j).map(|entry| entry.0));
        if left.is_some() && left == right {
            out.push((a[i].0, a[i].1 + b[j].1 - a[i].1 * b[j].1));
            (i, j) = (i + 1, j + 1);
        } else if left.is_some_and(|left| right.is_none_or(|right| left < right)) {
            out.push(a[i]);
            i += 1;
        } else {
            out.push(b[j]);
            j += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_sum_to_the_logarithm_and_begin_with_one() {
        let distances = [0.5f32, 0.7, 0.9, 1.4, 2.0, 2.1, 5.0];
        let weights = memberships(&distances, libm::log2(8.0), 1.0);
        assert_eq!(weights[0], 1.0);
        assert!((weights.iter().sum::<f32>() - 3.0).abs() < 1e-4);
        assert!(weights.windows(2).all(|pair| pair[0] >= pair[1]));
        // Equal rows: all weights are 1.
        assert_eq!(memberships(&[0.0, 0.0], 1.0, 0.0), [1.0, 1.0]);
    }

    #[test]
    fn an_edge_exists_if_either_end_has_it() {
        // Points 0, 1 and 3 on a line with one neighbour each: 0–1 from both ends, 2–1 only from 2.
        let neighbours = Neighbours { each: 1, ids: vec![1, 0, 1], distances: vec![1.0, 1.0, 2.0] };
        let graph = Graph::new(&neighbours, 3, 2);
        assert_eq!(graph.of_point(0), (&[1u32][..], &[1.0f32][..]));
        assert_eq!(graph.of_point(1), (&[0u32, 2][..], &[1.0f32, 1.0][..]));
        assert!(graph.is_connected());
        assert_eq!(union(&[(1, 0.5), (4, 0.25)], &[(1, 0.5), (2, 1.0)]), [(1, 0.75), (2, 1.0), (4, 0.25)]);
        let apart = Neighbours { each: 1, ids: vec![1, 0, 3, 2], distances: vec![1.0; 4] };
        assert!(!Graph::new(&apart, 4, 2).is_connected());
        assert!(graph.without_edges_below(1.1).of_point(1).0.is_empty());
    }
}
