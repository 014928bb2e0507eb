//! Exact nearest neighbours of every row: products with error bounds propose candidates
//! ([`pair_search`](super::pair_search)), and distances in `f64` decide.

use std::ops::Range;

use rayon::prelude::*;

use super::pair_search::{PairSearch, RowCandidates};
use super::pairs::ordered_squares;
use super::product::{dot, rows_by_rows};
use super::top_k::largest;
use crate::monitor::{Cancelled, Monitor};

/// Rows that are compared with all others at once.
const ROWS: usize = 32;

/// Extra neighbours of a row with too many candidates, until exact distances are computed.
const SPARE: usize = 8;

/// The distance between two rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Distance {
    /// One minus the cosine; a zero row is at distance 1 from all others.
    Cosine,
    /// The length of the difference.
    Euclidean,
}

impl Distance {
    /// The name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Distance::Cosine => "cosine",
            Distance::Euclidean => "euclidean",
        }
    }
}

/// Rows prepared for comparison by product: `a · b − half(a) − half(b)` falls as the distance grows.
pub struct Points {
    width: usize,
    distance: Distance,
    vectors: Vec<f32>,
    halves: Vec<f32>,
    /// The lengths of the prepared rows.
    lengths: Vec<f64>,
}

/// The nearest rows of every row, itself excluded, nearest first, the lower one among equals.
#[derive(Clone, Debug, PartialEq)]
pub struct Neighbours {
    /// Neighbours per row: the number requested, or all other rows if these are fewer.
    pub each: usize,
    /// Row indices of the neighbours, row by row.
    pub ids: Vec<u32>,
    /// Their distances.
    pub distances: Vec<f32>,
}

impl Neighbours {
    /// The neighbours of a row and their distances.
    pub fn of(&self, row: usize) -> (&[u32], &[f32]) {
        let range = row * self.each..(row + 1) * self.each;
        (&self.ids[range.clone()], &self.distances[range])
    }
}

impl Points {
    /// Prepares finite rows: scaled to length 1 for cosine distance, centred on their mean for Euclidean distance (which
    /// changes no distance and improves precision).
    pub fn new(rows: &[f32], width: usize, distance: Distance) -> Points {
        let count = rows.len().checked_div(width).unwrap_or(0);
        let mut mean = vec![0f64; width];
        if distance == Distance::Euclidean {
            for row in rows.chunks_exact(width.max(1)) {
                mean.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
            }
            mean.iter_mut().for_each(|sum| *sum /= count as f64);
        }
        let mut vectors = vec![0f32; count * width];
        let mut halves = vec![0.5f32; count];
        let lines = vectors.par_chunks_mut(width.max(1)).zip(rows.par_chunks(width.max(1))).zip(&mut halves);
        lines.with_min_len(64).for_each(|((into, row), half)| match distance {
            Distance::Cosine => {
                let length = dot(row, row).sqrt();
                if length > 0.0 {
                    into.iter_mut().zip(row).for_each(|(into, &value)| *into = (f64::from(value) / length) as f32);
                }
            }
            Distance::Euclidean => {
                let moved = row.iter().zip(&mean).map(|(&value, mean)| (f64::from(value) - mean) as f32);
                into.iter_mut().zip(moved).for_each(|(into, value)| *into = value);
                *half = (0.5 * dot(into, into)) as f32;
            }
        });
        let lengths = vectors.par_chunks(width.max(1)).with_min_len(64).map(|row| dot(row, row).sqrt()).collect();
        Points { width, distance, vectors, halves, lengths }
    }

    /// Number of rows.
    pub fn count(&self) -> usize {
        self.halves.len()
    }

    /// Values per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// A range of the prepared rows.
    pub fn vectors(&self, rows: Range<usize>) -> &[f32] {
        &self.vectors[rows.start * self.width..rows.end * self.width]
    }

    /// The nearness of rows `mine` to all rows, row by row: larger is nearer.
    pub fn nearness_to_all(&self, mine: &[usize], out: &mut [f32]) {
        let vectors: Vec<f32> = mine.iter().flat_map(|&row| self.vectors(row..row + 1)).copied().collect();
        rows_by_rows(&vectors, &self.vectors, self.width, out);
        for (line, &row) in out.chunks_exact_mut(self.count().max(1)).zip(mine) {
            line.iter_mut().zip(&self.halves).for_each(|(value, other)| *value -= self.halves[row] + other);
        }
    }

    /// The distances of a row from others, computed in `f64` from the prepared rows.
    pub fn distances(&self, row: usize, others: &[u32]) -> Vec<f64> {
        let vectors: Vec<&[f32]> = others.iter().map(|&other| self.vector(other as usize)).collect();
        let mut distances = ordered_squares(self.vector(row), &vectors);
        for (distance, &other) in distances.iter_mut().zip(others) {
            *distance = match self.distance {
                Distance::Euclidean => distance.sqrt(),
                // |u − v|² / 2 = 1 − u·v for unit vectors; unlike the right side it is exactly 0 for equal ones.
                Distance::Cosine if !self.is_zero(row) && !self.is_zero(other as usize) => 0.5 * *distance,
                Distance::Cosine => 1.0,
            };
        }
        distances
    }

    fn vector(&self, row: usize) -> &[f32] {
        self.vectors(row..row + 1)
    }

    fn is_zero(&self, row: usize) -> bool {
        self.lengths[row] == 0.0
    }

    /// The `keep` nearest rows of every row.
    pub fn neighbours(&self, keep: usize, monitor: &dyn Monitor) -> Result<Neighbours, Cancelled> {
        let count = self.count();
        let each = keep.min(count.saturating_sub(1));
        let mut found = Neighbours { each, ids: vec![0; count * each], distances: vec![0.0; count * each] };
        if each == 0 {
            return Ok(found);
        }
        // The product plus both offsets is minus half the squared distance.
        let offset = |row: usize| match self.distance {
            Distance::Cosine if self.is_zero(row) => -0.5,
            _ => -0.5 * self.lengths[row].powi(2),
        };
        let search = PairSearch::new(&self.vectors, self.width, &offset);
        let check = || {
            monitor.advance(1);
            monitor.check()
        };
        monitor.start("neighbours", search.pairs() as u64, "blocks");
        let candidates = search.candidates(&self.vectors, 0..count, 0..count, each, &check);
        monitor.finish();
        let candidates = candidates?;
        let lists = found.ids.par_chunks_mut(each).zip(found.distances.par_chunks_mut(each));
        type Lists<'l> = ((&'l mut [u32], &'l mut [f32]), &'l Option<RowCandidates>);
        let decide = |(row, ((ids, distances), candidates)): (usize, Lists<'_>)| {
            if let Err(cancelled) = monitor.check() {
                return Some(Err(cancelled));
            }
            let nearest = candidates.as_ref().and_then(|candidates| self.nearest(row, candidates, each));
            let Some(nearest) = nearest else { return Some(Ok(row)) };
            fill(ids, distances, &nearest);
            None
        };
        let left: Vec<usize> = lists.zip(&candidates).enumerate().filter_map(decide).collect::<Result<_, _>>()?;
        let among_all = |rows: &[usize]| monitor.check().map(|()| self.nearest_among_all(rows, each));
        for rows in left.par_chunks(ROWS).map(among_all).collect::<Result<Vec<_>, _>>()? {
            for (row, nearest) in rows {
                let range = row * each..(row + 1) * each;
                fill(&mut found.ids[range.clone()], &mut found.distances[range], &nearest);
            }
        }
        monitor.check()?;
        Ok(found)
    }

    /// The nearest candidates, nearest first; `None` if rows that are no candidates might be nearer.
    fn nearest(&self, row: usize, candidates: &RowCandidates, each: usize) -> Option<Vec<(f64, u32)>> {
        let nearest = self.sorted(row, &candidates.rows);
        let farthest = nearest.get(each - 1)?.0;
        let value = match self.distance {
            Distance::Cosine => -farthest,
            Distance::Euclidean => -0.5 * farthest.powi(2),
        };
        // A margin for the rounding of distances, which may make different ones equal.
        (value - 1e-9 * value.abs() >= f64::from(candidates.below)).then_some(nearest)
    }

    /// The nearest of all rows, some to spare selected in `f32`, for rows with very many candidates: they differ by no more
    /// than rounding errors.
    fn nearest_among_all(&self, rows: &[usize], each: usize) -> Vec<(usize, Vec<(f64, u32)>)> {
        let (mut nearness, mut top) = (vec![0f32; rows.len() * self.count()], Vec::new());
        self.nearness_to_all(rows, &mut nearness);
        let nearest = |(&row, nearness): (&usize, &mut [f32])| {
            nearness[row] = f32::NEG_INFINITY;
            largest(nearness, each + SPARE, &mut top);
            let others: Vec<u32> = top.iter().map(|entry| entry.1).filter(|&other| other as usize != row).collect();
            (row, self.sorted(row, &others))
        };
        rows.iter().zip(nearness.chunks_exact_mut(self.count())).map(nearest).collect()
    }

    /// Rows with their distances, nearest first, the lower one among equals.
    fn sorted(&self, row: usize, others: &[u32]) -> Vec<(f64, u32)> {
        let mut sorted: Vec<(f64, u32)> = self.distances(row, others).into_iter().zip(others.iter().copied()).collect();
        sorted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        sorted
    }
}

/// Copies the nearest rows.
fn fill(ids: &mut [u32], distances: &mut [f32], nearest: &[(f64, u32)]) {
    for ((id, distance), &(exact, other)) in ids.iter_mut().zip(distances).zip(nearest) {
        (*id, *distance) = (other, exact as f32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::{Silent, Stop};
    use crate::random::{stream, unit};

    fn find(rows: &[f32], width: usize, keep: usize, distance: Distance) -> Neighbours {
        Points::new(rows, width, distance).neighbours(keep, &Silent).unwrap()
    }

    fn cloud(count: usize, width: usize, seed: u64) -> Vec<f32> {
        let mut random = stream(seed, "neighbours test", 0);
        (0..count * width).map(|_| unit(&mut random) as f32 - 0.3).collect()
    }

    #[test]
    fn small_examples() {
        // Points 0, 1, 3, 7 on a line: the nearest of 3 is 1 (2 away), then 0 (3 away).
        let found = find(&[0.0, 1.0, 3.0, 7.0], 1, 2, Distance::Euclidean);
        assert_eq!(found.of(2), (&[1u32, 0][..], &[2.0f32, 3.0][..]));
        assert_eq!(found.of(3), (&[2u32, 1][..], &[4.0f32, 6.0][..]));
        // Right, up, left, zero: cosines with the first are 0, −1 and undefined.
        let found = find(&[1.0, 0.0, 0.0, 2.0, -3.0, 0.0, 0.0, 0.0], 2, 3, Distance::Cosine);
        assert_eq!(found.of(0), (&[1u32, 3, 2][..], &[1.0f32, 1.0, 2.0][..]));
        assert_eq!(found.of(3), (&[0u32, 1, 2][..], &[1.0f32; 3][..]));
    }

    #[test]
    fn agrees_with_sorting_everything() {
        for (count, width, distance) in [(1300, 7, Distance::Euclidean), (700, 20, Distance::Cosine)] {
            let rows = cloud(count, width, 1);
            let points = Points::new(&rows, width, distance);
            let found = find(&rows, width, 12, distance);
            for row in (0..count).step_by(17) {
                let mut all: Vec<(f64, u32)> = (0..count)
                    .filter(|&other| other != row)
                    .map(|other| (points.distances(row, &[other as u32])[0], other as u32))
                    .collect();
                all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                assert_eq!(found.of(row).0, all[..12].iter().map(|entry| entry.1).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn ties_edges_and_threads() {
        assert_eq!(find(&[], 3, 5, Distance::Cosine).each, 0);
        assert_eq!(find(&[1.0, 2.0], 2, 5, Distance::Cosine).each, 0);
        // All rows equal: the lowest other indices, at distance 0.
        let found = find(&vec![0.3; 1100 * 3], 3, 4, Distance::Cosine);
        assert_eq!(found.of(0), (&[1u32, 2, 3, 4][..], &[0.0f32; 4][..]));
        assert_eq!(found.of(1099).0, [0, 1, 2, 3]);
        let rows = cloud(1500, 5, 3);
        let with = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| find(&rows, 5, 9, Distance::Euclidean))
        };
        let one = with(1);
        assert!(one == with(2) && one == with(7));
        let cancelled = Points::new(&rows, 5, Distance::Cosine).neighbours(3, &Stop);
        assert!(matches!(cancelled, Err(Cancelled)));
    }
}
