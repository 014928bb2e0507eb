//! Exact nearest neighbours of every row: a blocked product of the rows with themselves, of which only the best of each
//! row are kept. Symmetry halves the work.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use rayon::prelude::*;

use super::product::{dot, rows_by_rows};
use super::top_k::truncate_to_largest;
use crate::monitor::{Cancelled, Monitor};

/// Rows of a block; a product of two blocks fits the second-level cache.
const BLOCK: usize = 512;

/// Extra neighbours kept per row until exact distances are computed.
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
        Points { width, distance, vectors, halves }
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

    /// The nearness of rows `mine` to rows `theirs`, row by row: larger is nearer.
    pub fn nearness(&self, mine: Range<usize>, theirs: Range<usize>, out: &mut [f32]) {
        self.compare(self.vectors(mine.clone()), &self.halves[mine], theirs, out);
    }

    /// The nearness of rows `mine` to all rows.
    pub fn nearness_to_all(&self, mine: &[usize], out: &mut [f32]) {
        let vectors: Vec<f32> = mine.iter().flat_map(|&row| self.vectors(row..row + 1)).copied().collect();
        let halves: Vec<f32> = mine.iter().map(|&row| self.halves[row]).collect();
        self.compare(&vectors, &halves, 0..self.count(), out);
    }

    fn compare(&self, vectors: &[f32], halves: &[f32], theirs: Range<usize>, out: &mut [f32]) {
        rows_by_rows(vectors, self.vectors(theirs.clone()), self.width, out);
        let others = &self.halves[theirs];
        for (line, half) in out.chunks_exact_mut(others.len().max(1)).zip(halves) {
            line.iter_mut().zip(others).for_each(|(value, other)| *value -= half + other);
        }
    }

    /// The distance between two rows, computed in `f64` from the prepared rows.
    pub fn between(&self, a: usize, b: usize) -> f64 {
        let (a, b) = (self.vectors(a..a + 1), self.vectors(b..b + 1));
        let square = a.iter().zip(b).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum::<f64>();
        match self.distance {
            Distance::Euclidean => square.sqrt(),
            // |u − v|² / 2 = 1 − u·v for unit vectors; unlike the right side it is exactly 0 for equal ones.
            Distance::Cosine if [a, b].iter().all(|row| row.iter().any(|&part| part != 0.0)) => 0.5 * square,
            Distance::Cosine => 1.0,
        }
    }

    /// The `keep` nearest rows of every row.
    pub fn neighbours(&self, keep: usize, monitor: &dyn Monitor) -> Result<Neighbours, Cancelled> {
        let count = self.count();
        let each = keep.min(count.saturating_sub(1));
        if each == 0 {
            return Ok(Neighbours { each, ids: Vec::new(), distances: Vec::new() });
        }
        let blocks = count.div_ceil(BLOCK);
        let rows = |block: usize| block * BLOCK..((block + 1) * BLOCK).min(count);
        let lists: Vec<Mutex<Lists>> =
            (0..blocks).map(|block| Mutex::new(Lists::new(rows(block).len(), each + SPARE))).collect();
        let lock = |block: usize| lists[block].lock().unwrap_or_else(PoisonError::into_inner);
        // Adjacent blocks first, so that floors rise early.
        let pairs: Vec<(usize, usize)> =
            (0..blocks).flat_map(|apart| (0..blocks - apart).map(move |first| (first, first + apart))).collect();
        monitor.start("neighbours", pairs.len() as u64, "blocks");
        // The order of blocks does not matter: entries have a total order, so the same ones are kept.
        pairs.par_iter().with_max_len(1).for_each_init(
            || (vec![0f32; BLOCK * BLOCK], Candidates::default(), Candidates::default()),
            |(values, left, right), &(first, second)| {
                if monitor.is_cancelled() {
                    return;
                }
                let (mine, theirs) = (rows(first), rows(second));
                let values = &mut values[..mine.len() * theirs.len()];
                self.nearness(mine.clone(), theirs.clone(), values);
                if first == second {
                    (0..mine.len()).for_each(|row| values[row * mine.len() + row] = f32::NEG_INFINITY);
                }
                // One lock at a time: holding two would deadlock.
                let mine_floors = lock(first).floors.clone();
                let mut their_floors = lock(second).floors.clone();
                if first == second {
                    their_floors.fill(f32::INFINITY);
                }
                scan(values, &mine_floors, &their_floors, (mine.start, theirs.start), left, right);
                lock(first).take(left);
                if first != second {
                    lock(second).take(right);
                }
                monitor.advance(1);
            },
        );
        monitor.finish();
        monitor.check()?;
        let lists: Vec<Lists> =
            lists.into_iter().map(|lists| lists.into_inner().unwrap_or_else(PoisonError::into_inner)).collect();
        let mut found = Neighbours { each, ids: vec![0; count * each], distances: vec![0.0; count * each] };
        found.ids.par_chunks_mut(each).zip(found.distances.par_chunks_mut(each)).enumerate().for_each(
            |(row, (ids, distances))| {
                let list = &lists[row / BLOCK].lists[row % BLOCK];
                let mut exact: Vec<(f64, u32)> =
                    list.iter().map(|&(_, other)| (self.between(row, other as usize), other)).collect();
                exact.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                for ((id, distance), (exact, other)) in ids.iter_mut().zip(distances).zip(exact) {
                    (*id, *distance) = (other, exact as f32);
                }
            },
        );
        Ok(found)
    }
}

/// Candidates from one block: row within its block, nearness, other row.
type Candidates = Vec<(u32, f32, u32)>;

/// The best candidates so far of each row of a block.
struct Lists {
    keep: usize,
    lists: Vec<Vec<(f32, u32)>>,
    /// Values below are no longer among the best.
    floors: Vec<f32>,
}

impl Lists {
    fn new(rows: usize, keep: usize) -> Lists {
        // Above negative infinity, which marks a row compared with itself.
        Lists { keep, lists: vec![Vec::new(); rows], floors: vec![f32::MIN; rows] }
    }

    fn take(&mut self, candidates: &mut Candidates) {
        for (row, value, other) in candidates.drain(..) {
            let list = &mut self.lists[row as usize];
            list.push((value, other));
            if list.len() >= 2 * self.keep {
                self.trim(row as usize);
            }
        }
        for row in 0..self.lists.len() {
            if self.lists[row].len() > self.keep {
                self.trim(row);
            }
        }
    }

    fn trim(&mut self, row: usize) {
        let list = &mut self.lists[row];
        truncate_to_largest(list, self.keep);
        self.floors[row] = list.last().map_or(f32::MIN, |worst| worst.0);
    }
}

/// Collects values that reach the floor of their row (`left`) or of their column (`right`).
fn scan(
    values: &[f32],
    row_floors: &[f32],
    column_floors: &[f32],
    (first_row, first_column): (usize, usize),
    left: &mut Candidates,
    right: &mut Candidates,
) {
    const LANES: usize = 16;
    for ((row, line), &floor) in values.chunks_exact(column_floors.len().max(1)).enumerate().zip(row_floors) {
        for (start, (line, floors)) in
            line.chunks(LANES).zip(column_floors.chunks(LANES)).enumerate().map(|(chunk, both)| (chunk * LANES, both))
        {
            let near = |(value, column_floor): (&f32, &f32)| *value >= floor.min(*column_floor);
            // Without branches, because a value is rarely near.
            if !line.iter().zip(floors).fold(false, |any, both| any | near(both)) {
                continue;
            }
            for (column, (&value, &column_floor)) in (start..).zip(line.iter().zip(floors)) {
                if value >= floor {
                    left.push((row as u32, value, (first_column + column) as u32));
                }
                if value >= column_floor {
                    right.push((column as u32, value, (first_row + row) as u32));
                }
            }
        }
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
                    .map(|other| (points.between(row, other), other as u32))
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
