//! UMAP: a map of many-dimensional rows in two dimensions, on which neighbours stay neighbours.
//!
//! The steps and constants are those of McInnes, Healy and Melville (2018) and of their program umap-learn. Two things
//! differ. Neighbours are exact. And points move all at once, in four turns per epoch, by forces taken at the places before
//! the turn, so that the map does not depend on threads.

mod curve;
mod descent;
mod graph;
mod start;
mod trust;

use super::neighbours::{Distance, Points};
use crate::monitor::{Cancelled, Monitor};
pub use start::Start;

/// The most rows that are compared each with each.
pub const MOST_ROWS: usize = 1 << 19;

/// How a map is made.
#[derive(Clone, Debug)]
pub struct Options {
    /// Neighbours of a point, itself included as umap-learn counts them.
    pub neighbours: usize,
    /// How near points may lie, where 1 is the scale on which they stop attracting each other.
    pub min_dist: f64,
    /// How often every point moves; 500 for up to 10,000 points and 200 for more, if not given.
    pub epochs: Option<usize>,
    /// The seed of everything random.
    pub seed: u64,
    /// What is near.
    pub distance: Distance,
}

impl Default for Options {
    fn default() -> Options {
        Options { neighbours: 15, min_dist: 0.1, epochs: None, seed: 0, distance: Distance::Cosine }
    }
}

/// Why there is no layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The monitor stopped it.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// An option or the number of rows is out of range.
    #[error("{what}: expected {expected}, found {found}")]
    Invalid {
        /// What is out of range.
        what: &'static str,
        /// The range.
        expected: &'static str,
        /// The value.
        found: String,
    },
}

/// A map.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// A place for every row; the longer side of the map reaches from −1 to 1.
    pub points: Vec<[f32; 2]>,
    /// How far neighbours on the map are neighbours among the rows: 1 if all are, about 0.5 by chance. `None` with fewer
    /// than four rows.
    pub trustworthiness: Option<f64>,
    /// Its standard error: ranks are taken for a sample of the points if there are many. 0 when all were.
    pub trustworthiness_error: f64,
    /// How often every point moved.
    pub epochs: usize,
    /// Where points began.
    pub start: Start,
}

/// Lays rows out in two dimensions. The same rows, options and seed give the same bits with any number of threads.
pub fn layout(rows: &[f32], width: usize, options: &Options, monitor: &dyn Monitor) -> Result<Embedding, Failure> {
    let count = rows.len().checked_div(width).unwrap_or(0);
    check(count, options)?;
    let points = Points::new(rows, width, options.distance);
    let neighbours = points.neighbours(options.neighbours - 1, monitor)?;
    let epochs = options.epochs.unwrap_or(if count <= 10_000 { 500 } else { 200 });
    let graph =
        graph::Graph::new(&neighbours, count, options.neighbours).without_edges_below(1.0 / epochs.max(1) as f32);
    let (first, start) = start::places(&graph, &points, options.seed);
    let curve = curve::Curve::fit(options.min_dist);
    let moved = descent::descend(&graph, first, &curve, epochs, options.seed, monitor)?;
    let trusted = trust::trustworthiness(&points, &moved, options.neighbours, options.seed);
    Ok(Embedding {
        points: fit_to_square(moved),
        trustworthiness: trusted.map(|(value, _)| value),
        trustworthiness_error: trusted.map_or(0.0, |(_, error)| error),
        epochs,
        start,
    })
}

fn check(count: usize, options: &Options) -> Result<(), Failure> {
    let within = |what, expected, found: String, good: bool| {
        if good { Ok(()) } else { Err(Failure::Invalid { what, expected, found }) }
    };
    let Options { neighbours, min_dist, epochs, .. } = options;
    within("neighbours of a layout", "2 to 1000", neighbours.to_string(), (2..=1000).contains(neighbours))?;
    within("least distance of points", "0 to 2", min_dist.to_string(), (0.0..=2.0).contains(min_dist))?;
    let most = epochs.unwrap_or(0);
    within("epochs of a layout", "at most 100000", most.to_string(), most <= 100_000)?;
    within("rows of a layout", "at most 524288; lay out a sample of them", count.to_string(), count <= MOST_ROWS)
}

/// Moves and scales, alike in both directions.
fn fit_to_square(points: Vec<[f32; 2]>) -> Vec<[f32; 2]> {
    let ends = |side: usize| {
        let all = points.iter().map(|point| point[side]);
        (all.clone().fold(f32::INFINITY, f32::min), all.fold(f32::NEG_INFINITY, f32::max))
    };
    let (x, y) = (ends(0), ends(1));
    let half = (0.5 * (x.1 - x.0).max(y.1 - y.0)).max(f32::MIN_POSITIVE);
    let middle = [0.5 * (x.0 + x.1), 0.5 * (y.0 + y.1)];
    let place = |point: [f32; 2]| [0, 1].map(|side| ((point[side] - middle[side]) / half).clamp(-1.0, 1.0));
    points.into_iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use crate::random::{stream, unit};

    /// Heaps of points around far centres.
    pub(super) fn heaps(heaps: usize, each: usize, width: usize) -> Vec<f32> {
        let mut random = stream(3, "umap test", 0);
        let centres: Vec<f32> = (0..heaps * width).map(|_| unit(&mut random) as f32 - 0.5).collect();
        let point = |at: usize| &centres[at % heaps * width..][..width];
        (0..heaps * each)
            .flat_map(|at| {
                point(at).iter().map(|part| part + 0.2 * (unit(&mut random) as f32 - 0.5)).collect::<Vec<_>>()
            })
            .collect()
    }

    fn map(rows: &[f32], width: usize, options: &Options) -> Embedding {
        layout(rows, width, options, &Silent).unwrap()
    }

    #[test]
    fn heaps_stay_together_and_neighbours_stay_neighbours() {
        let rows = heaps(6, 60, 20);
        for distance in [Distance::Cosine, Distance::Euclidean] {
            let found = map(&rows, 20, &Options { distance, ..Options::default() });
            assert!(found.trustworthiness.unwrap() > 0.95, "{:?}", found.trustworthiness);
            // Every point lies nearer to the middle of its own heap than to that of any other.
            let middle = |heap: usize| {
                let mine = found.points.iter().skip(heap).step_by(6);
                [0, 1].map(|side| mine.clone().map(|point| point[side]).sum::<f32>() / 60.0)
            };
            let middles: Vec<[f32; 2]> = (0..6).map(middle).collect();
            let wrong = found.points.iter().enumerate().filter(|(at, point)| {
                let far = |heap: usize| (0..2).map(|side| (point[side] - middles[heap][side]).powi(2)).sum::<f32>();
                (0..6).any(|other| other != at % 6 && far(other) < far(at % 6))
            });
            assert_eq!(wrong.count(), 0);
            assert!(found.points.iter().flatten().all(|part| part.abs() <= 1.0));
        }
    }

    #[test]
    fn threads_do_not_change_a_bit_and_seeds_do() {
        let rows = heaps(5, 300, 8);
        let with = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| map(&rows, 8, &Options { seed, epochs: Some(30), ..Options::default() }))
        };
        let one = with(1, 0);
        assert!(one == with(2, 0) && one == with(7, 0));
        assert_ne!(one.points, with(1, 1).points);
    }

    #[test]
    fn small_and_odd_inputs() {
        for (count, width) in [(0, 3), (1, 3), (2, 3), (3, 3), (5, 1), (20, 3)] {
            // All rows equal, then all zero.
            for value in [1.0, 0.0] {
                let found = map(&vec![value; count * width], width, &Options::default());
                assert_eq!(found.points.len(), count);
                assert!(found.points.iter().flatten().all(|part| part.is_finite()));
            }
        }
        let wrong = |options: Options| layout(&[1.0; 8], 2, &options, &Silent).unwrap_err().to_string();
        assert!(wrong(Options { neighbours: 1, ..Options::default() }).contains("2 to 1000"));
        assert!(wrong(Options { min_dist: -1.0, ..Options::default() }).contains("0 to 2"));
        assert!(wrong(Options { epochs: Some(1 << 20), ..Options::default() }).contains("100000"));
    }
}
