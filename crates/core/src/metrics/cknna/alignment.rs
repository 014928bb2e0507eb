//! The similarity of two kernels on shared nearest neighbours.

use rayon::prelude::*;

use super::nearest::Neighbours;
use crate::results::Profile;

/// The released code adds this to the denominator.
const REFERENCE_TERM: f64 = 1e-6;

/// Rows handled together by one thread.
const ROWS: usize = 1024;

/// The nearest neighbours of all rows in one kernel, with some to spare. Prepared for scores without some of the rows: these
/// neither sort nor search.
pub(super) struct Graph {
    starts: Vec<usize>,
    /// By row, in ascending order of the other row.
    edges: Vec<Edge>,
    /// By row, the other rows, nearest first.
    nearest: Vec<u32>,
    /// By edge, the rank of the row among the neighbours of the other row; [`NONE`] if it is not among them.
    backs: Vec<u32>,
}

/// The rank of a row that is no neighbour.
const NONE: u32 = u32::MAX;

/// A neighbour of a row.
struct Edge {
    value: f64,
    other: u32,
    /// How many others are nearer.
    rank: u32,
}

impl Graph {
    /// Bytes of a graph with at most this many neighbours per row.
    pub fn bytes(rows: usize, neighbours: usize) -> u64 {
        (rows as u64).saturating_mul(8 + 24 * neighbours as u64)
    }

    /// Prepares lists of neighbours, nearest first. Values are symmetric.
    pub fn new<'l>(lists: impl Iterator<Item = &'l Neighbours>) -> Graph {
        let mut graph = Graph { starts: vec![0], edges: Vec::new(), nearest: Vec::new(), backs: Vec::new() };
        for list in lists {
            let start = graph.edges.len();
            graph.nearest.extend(list.iter().map(|neighbour| neighbour.0));
            graph.edges.extend((0..).zip(list).map(|(rank, &(other, value))| Edge { value, other, rank }));
            graph.edges[start..].sort_unstable_by_key(|edge| edge.other);
            graph.starts.push(graph.edges.len());
        }
        let back = |(row, edge): (usize, &Edge)| {
            let others = graph.of(edge.other as usize);
            others.binary_search_by_key(&(row as u32), |edge| edge.other).map_or(NONE, |index| others[index].rank)
        };
        let backs = (0..graph.rows()).into_par_iter().with_min_len(ROWS);
        graph.backs = backs.flat_map_iter(|row| graph.of(row).iter().map(move |edge| back((row, edge)))).collect();
        graph
    }

    fn rows(&self) -> usize {
        self.starts.len() - 1
    }

    fn of(&self, row: usize) -> &[Edge] {
        &self.edges[self.starts[row]..self.starts[row + 1]]
    }

    /// By row, the rank that its neighbours must be below, so that it has `keep` of those for which `stays` is true.
    fn limits(&self, keep: usize, stays: &impl Fn(usize) -> bool) -> Vec<u32> {
        let limit = |(row, span): (usize, &[usize])| {
            let nearest = &self.nearest[span[0]..span[1]];
            let kept = (1..).zip(nearest).filter(|(_, other)| stays(**other as usize)).map(|(limit, _)| limit);
            if stays(row) { kept.take(keep).last().unwrap_or(0) } else { 0 }
        };
        self.starts.windows(2).enumerate().map(limit).collect()
    }
}

/// CKNNA of two kernels on the rows for which `stays` is true, each with its nearest `keep` neighbours among them. `None` if a
/// kernel has no similarity with itself.
pub(super) fn cknna(
    (left, right): (&Graph, &Graph),
    keep: usize,
    stays: impl Fn(usize) -> bool,
    profile: Profile,
) -> Option<f64> {
    let rows = (0..left.rows()).filter(|&row| stays(row)).count();
    if rows < 4 {
        return None;
    }
    let (left, right) = (Part::new(left, keep, &stays), Part::new(right, keep, &stays));
    let shared = left.similarity(&right, rows);
    let (own_left, own_right) = (left.own_similarity(rows), right.own_similarity(rows));
    let value = match profile {
        Profile::Paper if own_left > 0.0 && own_right > 0.0 => shared / (own_left.sqrt() * own_right.sqrt()),
        Profile::Paper => return None,
        Profile::Reference => shared / ((own_left * own_right).sqrt() + REFERENCE_TERM),
    };
    value.is_finite().then_some(value)
}

/// A graph without some of the rows.
struct Part<'a, S> {
    graph: &'a Graph,
    limits: Vec<u32>,
    stays: &'a S,
}

impl<'a, S: Fn(usize) -> bool> Part<'a, S> {
    fn new(graph: &'a Graph, keep: usize, stays: &'a S) -> Part<'a, S> {
        Part { graph, limits: graph.limits(keep, stays), stays }
    }

    /// The neighbours of a row, ascending, each with whether the row is a neighbour of it, too.
    fn of(&self, row: usize) -> impl Iterator<Item = (&'a Edge, bool)> {
        let span = self.graph.starts[row]..self.graph.starts[row + 1];
        let edges = self.graph.edges[span.clone()].iter().zip(&self.graph.backs[span]);
        edges
            .filter(move |(edge, _)| edge.rank < self.limits[row] && (self.stays)(edge.other as usize))
            .map(move |(edge, &back)| (edge, back < self.limits[edge.other as usize]))
    }

    /// The similarity with itself.
    fn own_similarity(&self, rows: usize) -> f64 {
        let mut sums = Sums::new(self.graph.rows());
        for row in 0..self.graph.rows() {
            self.of(row).for_each(|(edge, is_mutual)| sums.add((row, edge.other), (edge.value, edge.value), is_mutual));
        }
        sums.similarity(rows)
    }

    /// The similarity with another kernel on the neighbours that they share.
    fn similarity(&self, right: &Part<'_, S>, rows: usize) -> f64 {
        let mut sums = Sums::new(self.graph.rows());
        for row in 0..self.graph.rows() {
            let mut theirs = right.of(row).peekable();
            for (mine, is_mutual) in self.of(row) {
                while theirs.next_if(|(edge, _)| edge.other < mine.other).is_some() {}
                if let Some((edge, too)) = theirs.next_if(|(edge, _)| edge.other == mine.other) {
                    sums.add((row, mine.other), (mine.value, edge.value), is_mutual && too);
                }
            }
        }
        sums.similarity(rows)
    }
}

/// Sums over the edges of two kernels U and V where both agree.
struct Sums {
    /// Σ_ij U_ij V_ji.
    mutual: f64,
    total: (f64, f64),
    /// By row, the sums of U towards it and of V from it.
    into: Vec<f64>,
    from: Vec<f64>,
}

impl Sums {
    fn new(rows: usize) -> Sums {
        Sums { mutual: 0.0, total: (0.0, 0.0), into: vec![0.0; rows], from: vec![0.0; rows] }
    }

    #[inline]
    fn add(&mut self, (row, other): (usize, u32), (left, right): (f64, f64), is_mutual: bool) {
        if is_mutual {
            // Kernels are symmetric: V_ji is V_ij.
            self.mutual += left * right;
        }
        self.into[other as usize] += left;
        self.from[row] += right;
        self.total = (self.total.0 + left, self.total.1 + right);
    }

    /// The unbiased estimate of dependence. With U and V the kernels where both agree and 0 elsewhere,
    /// [Σ_ij U_ij V_ji + ΣU ΣV / ((n−1)(n−2)) − 2 Σ_j (Σ_i U_ij)(Σ_i V_ji) / (n−2)] / (n(n−3)).
    fn similarity(&self, rows: usize) -> f64 {
        let through: f64 = self.into.iter().zip(&self.from).map(|(into, from)| into * from).sum();
        let (n, total) = (rows as f64, self.total);
        (self.mutual + total.0 * total.1 / ((n - 1.0) * (n - 2.0)) - 2.0 * through / (n - 2.0)) / (n * (n - 3.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(lists: &[Neighbours]) -> Graph {
        Graph::new(lists.iter())
    }

    /// The neighbours in a part, with their values.
    fn part(graph: &Graph, keep: usize, stays: impl Fn(usize) -> bool) -> Vec<Neighbours> {
        let part = Part::new(graph, keep, &stays);
        (0..graph.rows()).map(|row| part.of(row).map(|(edge, _)| (edge.other, edge.value)).collect()).collect()
    }

    #[test]
    fn rows_that_are_left_out_are_replaced() {
        let lists =
            [vec![(1, 5.0), (3, 4.0), (2, 3.0)], vec![(0, 5.0)], vec![(3, 2.0), (1, 1.0)], vec![(2, 2.0), (0, 1.0)]];
        let graph = graph(&lists);
        assert_eq!(part(&graph, 1, |_| true), [[(1, 5.0)], [(0, 5.0)], [(3, 2.0)], [(2, 2.0)]]);
        // The two nearest among rows 0, 2 and 3: row 1 has none, and the others lose it.
        let without = [vec![(2, 3.0), (3, 4.0)], vec![], vec![(3, 2.0)], vec![(0, 1.0), (2, 2.0)]];
        assert_eq!(part(&graph, 2, |row| row != 1), without);
        // Row 3 is the second neighbour of row 0, and row 0 the second of row 3: mutual among two each, not among one.
        let mutual = |keep: usize| {
            let stays = |row: usize| row != 1;
            let part = Part::new(&graph, keep, &stays);
            part.of(3).find(|(edge, _)| edge.other == 0).map(|(_, mutual)| mutual)
        };
        assert_eq!((mutual(2), mutual(1)), (Some(true), None));
    }

    #[test]
    fn worked_example() {
        // Five rows, one neighbour each. Left: 0→1 (2), 1→0 (2), 2→3 (1), 3→2 (1), 4→0 (1).
        // Right: 0→1 (3), 1→0 (3), 2→4 (1), 3→2 (2), 4→0 (1). Both agree on 0→1, 1→0, 3→2 and 4→0.
        let list = |to: [(u32, f64); 5]| graph(&to.map(|neighbour| vec![neighbour]));
        let left = list([(1, 2.0), (0, 2.0), (3, 1.0), (2, 1.0), (0, 1.0)]);
        let right = list([(1, 3.0), (0, 3.0), (4, 1.0), (2, 2.0), (0, 1.0)]);
        let all = |_: usize| true;
        let (left_part, right_part) = (Part::new(&left, 1, &all), Part::new(&right, 1, &all));
        // Left with right: mutual 0↔1: 2·3 + 2·3 = 12; ΣU = 2+2+1+1 = 6, ΣV = 3+3+2+1 = 9;
        // into U: row 0 gets 2+1 = 3, row 1 gets 2, row 2 gets 1; from V: row 0 3, row 1 3, row 2 0: 3·3 + 2·3 = 15.
        // (12 + 54/12 − 30/3) / 10 = 0.65.
        assert!((left_part.similarity(&right_part, 5) - 0.65).abs() < 1e-15);
        // Left with itself: mutual 0↔1 4+4, 2↔3 1+1 = 10; sums 7 and 7; into·from: 3·2 + 2·2 + 1·1 + 1·1 = 12.
        // (10 + 49/12 − 24/3) / 10 = 0.60833.
        assert!((left_part.own_similarity(5) - (10.0 + 49.0 / 12.0 - 8.0) / 10.0).abs() < 1e-15);
        assert_eq!(left_part.own_similarity(5), left_part.similarity(&left_part, 5));
        // Right with itself: mutual 9+9 = 18; sums 10; into: row 0 4, 1 3, 2 2, 4 1; from 3, 3, 1, 1: 12+9+2+1 = 24.
        // (18 + 100/12 − 48/3) / 10 = 1.03333.
        let own = ((10.0 + 49.0 / 12.0 - 8.0) / 10.0 * (18.0 + 100.0 / 12.0 - 16.0) / 10.0f64).sqrt();
        let value = cknna((&left, &right), 1, all, Profile::Paper).unwrap();
        assert!((value - 0.65 / own).abs() < 1e-14);
        let reference = cknna((&left, &right), 1, all, Profile::Reference).unwrap();
        assert!((reference - 0.65 / (own + 1e-6)).abs() < 1e-14);
    }

    #[test]
    fn a_kernel_agrees_with_itself_and_not_with_an_empty_one() {
        let ring: Vec<Neighbours> = (0..9u32).map(|row| vec![((row + 1) % 9, 1.0), ((row + 8) % 9, 1.0)]).collect();
        let (ring, nothing) = (graph(&ring), graph(&vec![Vec::new(); 9]));
        let of = |left, right, profile| cknna((left, right), 2, |_| true, profile);
        assert!((of(&ring, &ring, Profile::Paper).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(of(&ring, &nothing, Profile::Paper), None);
        assert_eq!(of(&ring, &nothing, Profile::Reference), Some(0.0));
    }
}
