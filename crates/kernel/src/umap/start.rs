//! Initial coordinates: leading eigenvectors of the graph Laplacian, or principal components of the rows.

use rayon::prelude::*;

use super::graph::Graph;
use crate::lanczos::{BLOCK, LanczosParams, try_largest};
use crate::monitor::{Cancelled, Monitor};
use crate::neighbours::Points;
use crate::random::{stream, unit};

/// Maximum number of rows from which principal components are estimated.
const SAMPLE: usize = 8192;

/// Rows summed together, in order.
const PIECE: usize = 256;

/// Side of the square in which points are initialised.
const SIDE: f64 = 10.0;

/// How points were initialised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// Eigenvectors of the graph Laplacian.
    Spectral,
    /// Principal components of the rows, if the graph is not connected.
    Components,
}

impl Start {
    /// The name in results.
    pub fn name(self) -> &'static str {
        match self {
            Start::Spectral => "spectral",
            Start::Components => "principal components",
        }
    }
}

/// The initial coordinates of all points.
pub fn initialise(
    graph: &Graph,
    points: &Points,
    seed: u64,
    monitor: &dyn Monitor,
) -> Result<(Vec<[f32; 2]>, Start), Cancelled> {
    let count = points.count();
    let spectral = match count > 3 && graph.is_connected() {
        true => laplacian_axes(graph, seed, monitor)?,
        false => None,
    };
    let start = if spectral.is_some() { Start::Spectral } else { Start::Components };
    let axes = match spectral {
        Some(axes) => axes,
        None => components(points, seed, monitor)?,
    };
    let mut random = stream(seed, "umap/start", 0);
    let mut coordinates = vec![[0f32; 2]; count];
    for (side, axis) in axes.iter().enumerate() {
        let (low, high) =
            axis.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |ends, &x| (ends.0.min(x), ends.1.max(x)));
        let scale = if high > low { SIDE / (high - low) } else { 0.0 };
        for (point, &x) in coordinates.iter_mut().zip(axis) {
            // A little noise, because equal points would never separate.
            point[side] = ((x - low) * scale + 2e-4 * (unit(&mut random) - 0.5)) as f32;
        }
    }
    Ok((coordinates, start))
}

/// The second and third eigenvector of the graph's normalised Laplacian.
fn laplacian_axes(graph: &Graph, seed: u64, monitor: &dyn Monitor) -> Result<Option<[Vec<f64>; 2]>, Cancelled> {
    let count = graph.points();
    let roots: Vec<f64> = (0..count)
        .map(|point| graph.of_point(point).1.iter().map(|&weight| f64::from(weight)).sum::<f64>().sqrt())
        .collect();
    // The largest eigenvalues of D^−½ W D^−½ + 1 are the smallest of the Laplacian; none is negative.
    let multiply = |given: &[f64], out: &mut [f64]| {
        out.par_chunks_mut(BLOCK).with_min_len(256).enumerate().for_each(|(point, out)| {
            out.copy_from_slice(&given[point * BLOCK..][..BLOCK]);
            let (ids, weights) = graph.of_point(point);
            for (&other, &weight) in ids.iter().zip(weights) {
                let factor = f64::from(weight) / (roots[point] * roots[other as usize]);
                let other = &given[other as usize * BLOCK..][..BLOCK];
                out.iter_mut().zip(other).for_each(|(sum, value)| *sum += factor * value);
            }
        });
    };
    // Approximate eigenvectors are enough: a basis of modest size suffices.
    let params = LanczosParams { count: 3, tolerance: 1e-4, basis: 320, seed };
    let Some(found) = try_largest(count, &params, monitor, multiply)? else { return Ok(None) };
    let vector = |index: usize| {
        let vector = &found.eigen.vectors[index * count..][..count];
        vector.iter().zip(&roots).map(|(&part, root)| part / root).collect::<Vec<f64>>()
    };
    let axes = [vector(1), vector(2)];
    Ok(axes.iter().flatten().all(|part| part.is_finite()).then_some(axes))
}

/// The rows projected onto their first two principal components.
fn components(points: &Points, seed: u64, monitor: &dyn Monitor) -> Result<[Vec<f64>; 2], Cancelled> {
    let (count, width) = (points.count(), points.width());
    let step = count.div_ceil(SAMPLE).max(1);
    let rows: Vec<usize> = (0..count).step_by(step).collect();
    let row = |row: usize| points.vectors(row..row + 1);
    let mut mean = vec![0f64; width];
    for &index in &rows {
        mean.iter_mut().zip(row(index)).for_each(|(sum, &value)| *sum += f64::from(value) / rows.len() as f64);
    }
    let multiply = |given: &[f64], out: &mut [f64]| {
        let sums: Vec<Vec<f64>> = rows
            .par_chunks(PIECE)
            .map(|rows| {
                let mut sums = vec![0.0; width * BLOCK];
                for &index in rows {
                    let centred = || row(index).iter().zip(&mean).map(|(&value, mean)| f64::from(value) - mean);
                    let mut along = [0.0; BLOCK];
                    for (value, given) in centred().zip(given.chunks_exact(BLOCK)) {
                        along.iter_mut().zip(given).for_each(|(sum, given)| *sum += value * given);
                    }
                    for (value, sums) in centred().zip(sums.chunks_exact_mut(BLOCK)) {
                        sums.iter_mut().zip(&along).for_each(|(sum, along)| *sum += value * along);
                    }
                }
                sums
            })
            .collect();
        out.fill(0.0);
        for sums in &sums {
            out.iter_mut().zip(sums).for_each(|(out, sum)| *out += sum);
        }
    };
    let params = LanczosParams { count: 2, tolerance: 1e-3, basis: 64, seed };
    let found = try_largest(width, &params, monitor, multiply)?;
    let axis = |component: usize| {
        let vector =
            found.as_ref().and_then(|found| found.eigen.vectors.get(component * width..(component + 1) * width));
        let along = |index: usize| {
            let vector = vector.unwrap_or(&[]);
            row(index).iter().zip(vector).map(|(&value, part)| f64::from(value) * part).sum::<f64>()
        };
        (0..count).into_par_iter().with_min_len(64).map(along).collect::<Vec<f64>>()
    };
    Ok([axis(0), axis(1)])
}

#[cfg(test)]
mod tests {

    use super::*;
    use crate::monitor::Silent;
    use crate::neighbours::Distance;

    fn spread(rows: &[f32], width: usize) -> (Vec<[f32; 2]>, Start) {
        let points = Points::new(rows, width, Distance::Euclidean);
        let neighbours = points.neighbours(4, &Silent).unwrap();
        initialise(&Graph::new(&neighbours, points.count(), 5), &points, 0, &Silent).unwrap()
    }

    #[test]
    fn points_on_a_line_are_initialised_in_order() {
        // The second eigenvector of a chain is monotone except at its ends.
        let rows: Vec<f32> = (0..60).map(|index| index as f32).collect();
        let (found, start) = spread(&rows, 1);
        assert_eq!(start, Start::Spectral);
        let order: Vec<f32> = found[2..58].iter().map(|point| point[0]).collect();
        let rising = order.windows(2).filter(|pair| pair[0] < pair[1]).count();
        assert!(rising == 55 || rising == 0, "{order:?}");
    }

    #[test]
    fn separate_clusters_are_initialised_along_the_first_component() {
        // Two distant clusters along the first coordinate: the graph has two components.
        let rows: Vec<f32> =
            (0..40).flat_map(|index| [if index < 20 { 0.0 } else { 100.0 }, (index * 7 % 20) as f32 * 0.1]).collect();
        let (found, start) = spread(&rows, 2);
        assert_eq!(start, Start::Components);
        let side = |index: usize| found[index][0] > 5.0;
        assert!((0..20).all(|index| side(index) == side(0)) && (20..40).all(|index| side(index) != side(0)));
    }
}
