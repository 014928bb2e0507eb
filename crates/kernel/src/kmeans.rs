//! K-means clustering.
//!
//! Products use the tiles of [`super::packed`], whose elements are the same on every processor. Rows are processed in
//! fixed blocks and every centre sums its rows in order, so any number of threads gives the same bits.

use rayon::prelude::*;

use super::packed::{PANEL, Panels, TILE_ROWS, Tile};
use super::random::{stream, unit};
use super::top_k::{by_value, truncate_to_largest};
use crate::monitor::{Cancelled, Monitor};

/// Rows compared with all panels of centres together.
const BLOCK: usize = 16 * TILE_ROWS;

/// Maximum number of rounds in which the initial centres are drawn.
const ROUNDS: usize = 256;

/// Parameters of [`kmeans`].
#[derive(Clone, Copy, Debug)]
pub struct KmeansParams {
    /// Number of centres; limited to the number of rows.
    pub centres: usize,
    /// Maximum number of iterations.
    pub iterations: usize,
    /// Seed of the initial centres.
    pub seed: u64,
}

/// Clusters rows and returns the centres, contiguous.
///
/// Initialisation is k-means++ in up to 256 rounds. Each round draws its share of the centres among the rows, with
/// probabilities proportional to the squared distance from the nearest centre so far (up to 256 centres this is exact
/// k-means++). Then, at most `iterations` times, every row is assigned to its nearest centre (ties to the lower one) and
/// every centre moves to the mean of its rows. An empty centre moves to the row farthest from its assigned centre.
pub fn kmeans(rows: &[f32], width: usize, params: &KmeansParams, monitor: &dyn Monitor) -> Result<Vec<f32>, Cancelled> {
    let count = rows.len().checked_div(width).unwrap_or(0);
    // Initialisation compares every row with every centre once, as an iteration does.
    monitor.start("k-means", count as u64 * (1 + params.iterations as u64), "rows");
    let centres = search(rows, width, params, monitor);
    monitor.finish();
    centres
}

fn search(rows: &[f32], width: usize, params: &KmeansParams, monitor: &dyn Monitor) -> Result<Vec<f32>, Cancelled> {
    let count = rows.len().checked_div(width).unwrap_or(0);
    let mut reported = 0;
    let mut centres = initialise(rows, width, params.centres.min(count), params.seed, |share| {
        let done = (share * count as f64) as u64;
        monitor.advance(done - reported);
        reported = done;
        monitor.check()
    })?;
    let mut previous: Vec<u32> = Vec::new();
    for _ in 0..params.iterations {
        let assigned = assign(rows, width, &centres, &|rows| {
            monitor.advance(rows as u64);
            !monitor.is_cancelled()
        });
        monitor.check()?;
        let centre_of: Vec<u32> = assigned.iter().map(|row| row.0).collect();
        if centres.is_empty() || centre_of == previous {
            break;
        }
        move_to_means(rows, width, &assigned, &mut centres);
        previous = centre_of;
    }
    Ok(centres)
}

/// The `keep` nearest centres of each row, nearest first, ties to the lower one. Every row has `keep` entries, or as many
/// as there are centres if these are fewer.
pub fn nearest(rows: &[f32], width: usize, centres: &[f32], keep: usize) -> Vec<u32> {
    let all = centres.len().checked_div(width).unwrap_or(0);
    let keep = keep.min(all);
    let (scores, mut found) = (Scores::new(centres, width), Vec::new());
    if keep == 0 {
        return found;
    }
    found.resize(rows.len() / width * keep, 0);
    found.par_chunks_mut(BLOCK * keep).zip(rows.par_chunks(BLOCK * width)).for_each(|(found, rows)| {
        let mut lists: Vec<Vec<(f32, u32)>> = vec![Vec::new(); rows.len() / width];
        let mut floors = vec![f32::NEG_INFINITY; lists.len()];
        scores.each(rows, |row, first, line| {
            let (list, floor) = (&mut lists[row], floors[row]);
            list.extend(line.iter().zip(first..).filter(|(score, _)| **score > floor).map(|(&score, c)| (score, c)));
            if list.len() > 2 * keep + PANEL {
                list.select_nth_unstable_by(keep - 1, by_value);
                list.truncate(keep);
                // A later centre with an equal score would lose the tie.
                floors[row] = list.iter().fold(f32::INFINITY, |least, entry| least.min(entry.0));
            }
        });
        for (list, found) in lists.iter_mut().zip(found.chunks_exact_mut(keep)) {
            truncate_to_largest(list, keep);
            found.iter_mut().zip(list).for_each(|(into, entry)| *into = entry.1);
        }
    });
    found
}

/// The initial centres. `progress` receives the share drawn so far.
fn initialise(
    rows: &[f32],
    width: usize,
    centres: usize,
    seed: u64,
    mut progress: impl FnMut(f64) -> Result<(), Cancelled>,
) -> Result<Vec<f32>, Cancelled> {
    let count = rows.len().checked_div(width).unwrap_or(0);
    let (mut points, mut drawn) = (Vec::with_capacity(centres * width), vec![false; count]);
    // Without a centre yet, all rows have equal weight.
    let mut distances = vec![1.0f64; count];
    let share = centres.div_ceil(ROUNDS).max(1);
    for round in 0.. {
        let to_draw = if round == 0 { share.min(centres) } else { share.min(centres - points.len() / width.max(1)) };
        if to_draw == 0 {
            break;
        }
        // Weighted sampling without replacement: take the largest ln(u) / weight. Rows that are centres already come last.
        let mut random = stream(seed, "k-means start", round);
        let mut keys: Vec<(f64, bool, usize)> = (0..count)
            .map(|row| (unit(&mut random).max(f64::MIN_POSITIVE).ln() / distances[row], drawn[row], row))
            .collect();
        let order = |a: &(f64, bool, usize), b: &(f64, bool, usize)| {
            a.1.cmp(&b.1).then(b.0.total_cmp(&a.0)).then(a.2.cmp(&b.2))
        };
        keys.select_nth_unstable_by(to_draw - 1, order);
        keys.truncate(to_draw);
        keys.sort_unstable_by(order);
        let first = points.len();
        for &(_, _, row) in &keys {
            drawn[row] = true;
            points.extend_from_slice(&rows[row * width..][..width]);
        }
        let assigned = assign(rows, width, &points[first..], &|_| true);
        progress((points.len() / width) as f64 / centres as f64)?;
        for (distance, (_, new)) in distances.iter_mut().zip(assigned) {
            *distance = if round == 0 { new } else { distance.min(new) };
        }
    }
    Ok(points)
}

/// The nearest centre of every row and its squared distance. `proceed` is called with the size of every block of rows;
/// the block is skipped if it returns false.
fn assign(rows: &[f32], width: usize, centres: &[f32], proceed: &(dyn Fn(usize) -> bool + Sync)) -> Vec<(u32, f64)> {
    let scores = Scores::new(centres, width);
    let mut assigned = vec![(0, 0.0); rows.len().checked_div(width).unwrap_or(0)];
    if centres.is_empty() {
        return assigned;
    }
    assigned.par_chunks_mut(BLOCK).zip(rows.par_chunks(BLOCK * width)).for_each(|(assigned, rows)| {
        if !proceed(assigned.len()) {
            return;
        }
        let mut best = vec![(f32::NEG_INFINITY, 0); assigned.len()];
        scores.each(rows, |row, first, line| {
            for (&score, centre) in line.iter().zip(first..) {
                if score > best[row].0 {
                    best[row] = (score, centre);
                }
            }
        });
        // Scores of long rows lose precision: compute the returned distance directly in `f64`.
        for ((into, (_, centre)), row) in assigned.iter_mut().zip(best).zip(rows.chunks_exact(width)) {
            let position = &centres[centre as usize * width..][..width];
            let squares = row.iter().zip(position).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2));
            *into = (centre, squares.sum());
        }
    });
    assigned
}

/// Every centre moves to the mean of its rows.
fn move_to_means(rows: &[f32], width: usize, assigned: &[(u32, f64)], centres: &mut [f32]) {
    let count = centres.len() / width;
    let mut starts = vec![0; count + 1];
    assigned.iter().for_each(|row| starts[row.0 as usize + 1] += 1);
    (0..count).for_each(|centre| starts[centre + 1] += starts[centre]);
    let (mut next, mut members) = (starts.clone(), vec![0; assigned.len()]);
    for (row, (centre, _)) in assigned.iter().enumerate() {
        members[next[*centre as usize]] = row;
        next[*centre as usize] += 1;
    }
    centres.par_chunks_exact_mut(width).enumerate().for_each(|(centre, point)| {
        let members = &members[starts[centre]..starts[centre + 1]];
        let mut sum = vec![0.0f64; width];
        for &row in members {
            let row = &rows[row * width..][..width];
            sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        if !members.is_empty() {
            point.iter_mut().zip(&sum).for_each(|(into, sum)| *into = (sum / members.len() as f64) as f32);
        }
    });
    let empty: Vec<usize> = (0..count).filter(|&centre| starts[centre] == starts[centre + 1]).collect();
    if empty.is_empty() {
        return;
    }
    let mut far: Vec<usize> = (0..assigned.len()).collect();
    far.sort_unstable_by(|&a, &b| assigned[b].1.total_cmp(&assigned[a].1).then(a.cmp(&b)));
    for (centre, row) in empty.into_iter().zip(far) {
        centres[centre * width..][..width].copy_from_slice(&rows[row * width..][..width]);
    }
}

/// Packed centres and half of their squared lengths: the nearest has the largest `row · centre − ‖centre‖² / 2`.
struct Scores {
    panels: Panels,
    halves: Vec<f32>,
    width: usize,
}

impl Scores {
    fn new(centres: &[f32], width: usize) -> Scores {
        let half = |centre: &[f32]| (0.5 * centre.iter().map(|&v| f64::from(v).powi(2)).sum::<f64>()) as f32;
        let halves = centres.chunks_exact(width.max(1)).map(half).collect();
        Scores { panels: Panels::pack(centres, width), halves, width }
    }

    /// Calls `take` with the scores of every row, panel by panel: row, first centre of the panel, scores of its centres.
    fn each(&self, rows: &[f32], mut take: impl FnMut(usize, u32, &[f32])) {
        let (width, count) = (self.width, rows.len() / self.width);
        let mut padded = rows.to_vec();
        padded.resize(count.next_multiple_of(TILE_ROWS) * width, 0.0);
        let mut tile: Tile = [0.0; TILE_ROWS * PANEL];
        for panel in 0..self.panels.panels() {
            let first = panel * PANEL;
            let halves = &self.halves[first..self.halves.len().min(first + PANEL)];
            for (index, block) in padded.chunks_exact(TILE_ROWS * width).enumerate() {
                self.panels.product(block, panel, &mut tile);
                for (row, line) in (index * TILE_ROWS..count).zip(tile.chunks_exact_mut(PANEL)) {
                    line.iter_mut().zip(halves).for_each(|(score, half)| *score -= half);
                    take(row, first as u32, &line[..halves.len()]);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::monitor::{Silent, Stop};

    fn kmeans(rows: &[f32], width: usize, centres: usize, iterations: usize, seed: u64) -> Vec<f32> {
        let params = KmeansParams { centres, iterations, seed };
        super::kmeans(rows, width, &params, &Silent).unwrap()
    }

    fn assign(rows: &[f32], width: usize, centres: &[f32]) -> Vec<(u32, f64)> {
        super::assign(rows, width, centres, &|_| true)
    }

    #[test]
    fn can_be_cancelled() {
        let params = KmeansParams { centres: 3, iterations: 2, seed: 0 };
        let stopped = super::kmeans(&cloud(50, 4, 0), 4, &params, &Stop);
        assert!(matches!(stopped, Err(Cancelled)));
    }

    fn cloud(count: usize, width: usize, seed: u64) -> Vec<f32> {
        let mut random = stream(seed, "k-means test", 0);
        (0..count * width).map(|_| unit(&mut random) as f32).collect()
    }

    #[test]
    fn two_clusters_are_found() {
        // Means of (0, 0), (0, 2) and of (10, 0), (10, 2), (10, 4).
        let rows = [0.0, 0.0, 10.0, 0.0, 0.0, 2.0, 10.0, 2.0, 10.0, 4.0];
        for seed in 0..5 {
            let mut found = kmeans(&rows, 2, 2, 20, seed);
            if found[0] > found[2] {
                found.rotate_left(2);
            }
            assert_eq!(found, [0.0, 1.0, 10.0, 2.0]);
        }
    }

    #[test]
    fn well_separated_clusters_are_all_found() {
        let (clusters, each, width) = (20, 15, 6);
        let (positions, noise) = (cloud(clusters, width, 1), cloud(clusters * each, width, 2));
        let rows: Vec<f32> = noise
            .chunks_exact(width)
            .enumerate()
            .flat_map(|(i, noise)| {
                let position = &positions[i % clusters * width..][..width];
                position.iter().zip(noise).map(|(position, noise)| 100.0 * position + 0.1 * noise).collect::<Vec<_>>()
            })
            .collect();
        let found = kmeans(&rows, width, clusters, 50, 3);
        assert!(assign(&rows, width, &found).iter().all(|(_, distance)| *distance < 0.1 * width as f64));
        let one = nearest(&rows, width, &found, 1);
        assert!((0..rows.len() / width).all(|row| one[row] == one[row % clusters]));
    }

    #[test]
    fn an_iteration_never_increases_the_distances() {
        let rows = cloud(500, 7, 4);
        let total =
            |iterations| assign(&rows, 7, &kmeans(&rows, 7, 40, iterations, 1)).iter().map(|r| r.1).sum::<f64>();
        let totals: Vec<f64> = (0..8).map(total).collect();
        assert!(totals.windows(2).all(|pair| pair[1] <= pair[0] * (1.0 + 1e-6)), "{totals:?}");
    }

    #[test]
    fn neighbours_agree_with_sorting_everything() {
        let (rows, centres, width) = (cloud(50, 5, 1), cloud(333, 5, 2), 5);
        for keep in [1, 4, 400] {
            let found = nearest(&rows, width, &centres, keep);
            let kept = keep.min(333);
            for (row, found) in rows.chunks_exact(width).zip(found.chunks_exact(kept)) {
                let distance = |c: u32| {
                    let centre = &centres[c as usize * width..][..width];
                    row.iter().zip(centre).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>()
                };
                let mut order: Vec<u32> = (0..333).collect();
                order.sort_by(|&a, &b| distance(a).total_cmp(&distance(b)));
                let far = distance(order[kept - 1]);
                assert!(found.windows(2).all(|pair| distance(pair[0]) <= distance(pair[1]) + 1e-5));
                assert!(found.iter().all(|&c| distance(c) <= far + 1e-5));
            }
        }
    }

    #[test]
    fn edges() {
        assert!(kmeans(&[], 3, 4, 5, 0).is_empty() && kmeans(&[1.0], 1, 0, 5, 0).is_empty());
        assert_eq!(kmeans(&[1.0, 2.0], 2, 4, 5, 0), [1.0, 2.0]);
        assert!(kmeans(&[], 0, 4, 5, 0).is_empty() && nearest(&[1.0], 1, &[], 3).is_empty());
        // Fewer distinct rows than centres: every row is a centre, some of them twice.
        let mut found = kmeans(&[1.0, 1.0, 1.0, 5.0], 1, 3, 5, 0);
        found.sort_by(f32::total_cmp);
        assert_eq!((found[0], found[2]), (1.0, 5.0));
        // Ties go to the lower centre.
        assert_eq!(nearest(&[0.0], 1, &[1.0, -1.0], 2), [0, 1]);
    }

    #[test]
    fn any_number_of_threads_gives_the_same_bits() {
        let rows = cloud(700, 9, 8);
        let find = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| kmeans(&rows, 9, 50, 6, 2))
        };
        let one = find(1);
        assert!(one == find(2) && one == find(7));
    }
}
