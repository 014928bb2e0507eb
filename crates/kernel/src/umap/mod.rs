//! UMAP: embeds high-dimensional rows in two dimensions so that neighbours stay neighbours.
//!
//! Steps and constants follow McInnes, Healy and Melville (2018) and their program umap-learn, with two differences:
//! neighbours are exact, and all points move at once, in four mini-batches of edges per epoch, by forces evaluated before
//! the mini-batch, so the result does not depend on threads.

mod curve;
mod descent;
mod force;
mod graph;
mod pulls;
mod start;
mod trust;

use super::neighbours::{Distance, Points};
use crate::monitor::{Cancelled, Monitor};
pub use start::Start;

/// Maximum number of rows; time grows with its square.
pub const MAX_ROWS: usize = 1 << 19;

/// Parameters of [`layout`].
#[derive(Clone, Debug)]
pub struct UmapParams {
    /// Neighbours per point, including itself as in umap-learn.
    pub neighbours: usize,
    /// Minimum distance between points, relative to the scale on which attraction fades.
    pub min_dist: f64,
    /// Number of epochs. `None`: 500 for up to 10,000 points, 200 for more.
    pub epochs: Option<usize>,
    /// Seed of all random choices.
    pub seed: u64,
    /// The distance between rows.
    pub distance: Distance,
}

impl Default for UmapParams {
    fn default() -> UmapParams {
        UmapParams { neighbours: 15, min_dist: 0.1, epochs: None, seed: 0, distance: Distance::Cosine }
    }
}

/// Why a layout failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UmapError {
    /// The monitor cancelled the work.
    #[error(transparent)]
    Cancelled(#[from] Cancelled),
    /// A parameter or the number of rows is out of range.
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

/// A two-dimensional embedding.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The coordinates of every row; the longer side spans −1 to 1.
    pub points: Vec<[f32; 2]>,
    /// The degree to which neighbours in the embedding are neighbours among the rows: 1 if all are, about 0.5 by chance.
    /// `None` with fewer than four rows.
    pub trustworthiness: Option<f64>,
    /// Standard error of the trustworthiness if it was estimated from a sample of the points; 0 otherwise.
    pub trustworthiness_error: f64,
    /// Number of epochs.
    pub epochs: usize,
    /// How points were initialised.
    pub start: Start,
}

/// Embeds rows in two dimensions. The same rows and parameters give the same bits with any number of threads.
pub fn layout(rows: &[f32], width: usize, params: &UmapParams, monitor: &dyn Monitor) -> Result<Embedding, UmapError> {
    let count = rows.len().checked_div(width).unwrap_or(0);
    check(count, params)?;
    let points = Points::new(rows, width, params.distance);
    let neighbours = points.neighbours(params.neighbours - 1, monitor)?;
    let epochs = params.epochs.unwrap_or(if count <= 10_000 { 500 } else { 200 });
    let graph =
        graph::Graph::new(&neighbours, count, params.neighbours).without_edges_below(1.0 / epochs.max(1) as f32);
    let (first, start) = start::initialise(&graph, &points, params.seed, monitor)?;
    let curve = curve::Curve::fit(params.min_dist);
    let moved = descent::descend(&graph, first, &curve, epochs, params.seed, monitor)?;
    let trusted = trust::trustworthiness(&points, &moved, params.neighbours, params.seed, monitor)?;
    Ok(Embedding {
        points: fit_to_square(moved),
        trustworthiness: trusted.map(|(value, _)| value),
        trustworthiness_error: trusted.map_or(0.0, |(_, error)| error),
        epochs,
        start,
    })
}

fn check(count: usize, params: &UmapParams) -> Result<(), UmapError> {
    let within = |what, expected, found: String, good: bool| {
        if good { Ok(()) } else { Err(UmapError::Invalid { what, expected, found }) }
    };
    let UmapParams { neighbours, min_dist, epochs, .. } = params;
    within("neighbours of a layout", "2 to 1000", neighbours.to_string(), (2..=1000).contains(neighbours))?;
    within("least distance of points", "0 to 2", min_dist.to_string(), (0.0..=2.0).contains(min_dist))?;
    let epochs = epochs.unwrap_or(0);
    within("epochs of a layout", "at most 100000", epochs.to_string(), epochs <= 100_000)?;
    within("rows of a layout", "at most 524288; lay out a sample of them", count.to_string(), count <= MAX_ROWS)
}

/// Centres the points and scales both axes alike to fit the square from −1 to 1.
fn fit_to_square(points: Vec<[f32; 2]>) -> Vec<[f32; 2]> {
    let ends = |side: usize| {
        let all = points.iter().map(|point| point[side]);
        (all.clone().fold(f32::INFINITY, f32::min), all.fold(f32::NEG_INFINITY, f32::max))
    };
    let (x, y) = (ends(0), ends(1));
    let half = (0.5 * (x.1 - x.0).max(y.1 - y.0)).max(f32::MIN_POSITIVE);
    let middle = [0.5 * (x.0 + x.1), 0.5 * (y.0 + y.1)];
    let fit = |point: [f32; 2]| [0, 1].map(|side| ((point[side] - middle[side]) / half).clamp(-1.0, 1.0));
    points.into_iter().map(fit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::Silent;
    use crate::random::{stream, unit};

    /// Clusters of points around distant centres.
    pub(super) fn clusters(clusters: usize, each: usize, width: usize) -> Vec<f32> {
        let mut random = stream(3, "umap test", 0);
        let centres: Vec<f32> = (0..clusters * width).map(|_| unit(&mut random) as f32 - 0.5).collect();
        let point = |index: usize| &centres[index % clusters * width..][..width];
        (0..clusters * each)
            .flat_map(|index| {
                point(index).iter().map(|part| part + 0.2 * (unit(&mut random) as f32 - 0.5)).collect::<Vec<_>>()
            })
            .collect()
    }

    fn map(rows: &[f32], width: usize, params: &UmapParams) -> Embedding {
        layout(rows, width, params, &Silent).unwrap()
    }

    #[test]
    fn clusters_stay_together_and_neighbours_stay_neighbours() {
        let rows = clusters(6, 60, 20);
        for distance in [Distance::Cosine, Distance::Euclidean] {
            let found = map(&rows, 20, &UmapParams { distance, ..UmapParams::default() });
            assert!(found.trustworthiness.unwrap() > 0.95, "{:?}", found.trustworthiness);
            // Every point is nearer to the centre of its own cluster than to any other.
            let middle = |cluster: usize| {
                let mine = found.points.iter().skip(cluster).step_by(6);
                [0, 1].map(|side| mine.clone().map(|point| point[side]).sum::<f32>() / 60.0)
            };
            let middles: Vec<[f32; 2]> = (0..6).map(middle).collect();
            let wrong = found.points.iter().enumerate().filter(|(index, point)| {
                let far =
                    |cluster: usize| (0..2).map(|side| (point[side] - middles[cluster][side]).powi(2)).sum::<f32>();
                (0..6).any(|other| other != index % 6 && far(other) < far(index % 6))
            });
            assert_eq!(wrong.count(), 0);
            assert!(found.points.iter().flatten().all(|part| part.abs() <= 1.0));
        }
    }

    #[test]
    fn threads_change_nothing_and_seeds_do() {
        let rows = clusters(5, 300, 8);
        let with = |threads: usize, seed: u64| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| map(&rows, 8, &UmapParams { seed, epochs: Some(30), ..UmapParams::default() }))
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
                let found = map(&vec![value; count * width], width, &UmapParams::default());
                assert_eq!(found.points.len(), count);
                assert!(found.points.iter().flatten().all(|part| part.is_finite()));
            }
        }
        let wrong = |params: UmapParams| layout(&[1.0; 8], 2, &params, &Silent).unwrap_err().to_string();
        assert!(wrong(UmapParams { neighbours: 1, ..UmapParams::default() }).contains("2 to 1000"));
        assert!(wrong(UmapParams { min_dist: -1.0, ..UmapParams::default() }).contains("0 to 2"));
        assert!(wrong(UmapParams { epochs: Some(1 << 20), ..UmapParams::default() }).contains("100000"));
    }
}
