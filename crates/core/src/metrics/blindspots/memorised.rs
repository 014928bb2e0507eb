//! Generated rows that are suspiciously near to the real row of their prompt. Candidates, never a verdict: blank and
//! templated images look the same.

use rayon::prelude::*;

use super::distance::Distance;
use crate::codes::{Codes, Columns, Latent};
use crate::error::Result;
use crate::kernel::statistics::quantile;

/// Other real rows that say how near rows usually are.
const AROUND: usize = 50;
/// How many of them are named.
pub(super) const NAMED: usize = 8;
/// A candidate is nearer to its own real row than this share of what is usual.
const NEAR: f64 = 0.5;
/// Rows shorter than this quantile are too empty to have been memorised.
const SHORT: f64 = 0.1;

/// A generated row among the real ones.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Memory {
    pub row: usize,
    /// The distance to its own real row, as a share of the median distance to the nearest others.
    pub ratio: f64,
    /// The nearest other real rows.
    pub nearest: Vec<u32>,
    pub candidate: bool,
    /// For candidates: other prompts that got nearly the same row.
    pub alike: usize,
}

/// Looks at some rows of a model.
pub(super) fn examine(real: &Codes, made: &Codes, all: &[Distance], rows: &[usize]) -> Result<Vec<Memory>> {
    let (real_columns, made_columns, made_rows) = (real.columns()?, made.columns()?, made.all()?);
    let squares = |length: fn(&Distance) -> f64| all.iter().map(|one| length(one) * length(one)).collect::<Vec<f64>>();
    let (real_squares, made_squares) = (squares(|one| one.real), squares(|one| one.generated));
    let mut lengths: Vec<f64> = all.iter().map(|distance| distance.real).collect();
    lengths.sort_by(f64::total_cmp);
    let shortest = quantile(&lengths, SHORT).unwrap_or(0.0);
    let one = |&row: &usize| {
        let entries = made_rows.row(row);
        let mut near = to_all(entries, made_squares[row], real_columns, &real_squares);
        near.swap_remove(row);
        let keep = AROUND.min(near.len());
        if keep == 0 {
            return None;
        }
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        near.select_nth_unstable_by(keep - 1, order);
        near.truncate(keep);
        near.sort_unstable_by(order);
        let distances: Vec<f64> = near.iter().map(|(distance, _)| *distance).collect();
        let usual = quantile(&distances, 0.5).filter(|usual| *usual > 0.0)?;
        let ratio = all[row].length / usual;
        let candidate = ratio < NEAR && all[row].real > shortest;
        let alike = if candidate {
            let others = to_all(entries, made_squares[row], made_columns, &made_squares);
            others.iter().filter(|(distance, other)| *other as usize != row && *distance < NEAR * usual).count()
        } else {
            0
        };
        let nearest = near.iter().take(NAMED).map(|(_, other)| *other).collect();
        Some(Memory { row, ratio, nearest, candidate, alike })
    };
    Ok(rows.par_iter().map(one).collect::<Vec<_>>().into_iter().flatten().collect())
}

/// The distance of a row to every row of some codes.
fn to_all((latents, values): (&[u32], &[f32]), square: f64, columns: &Columns, squares: &[f64]) -> Vec<(f64, u32)> {
    let mut products = vec![0.0f64; squares.len()];
    for (&latent, &value) in latents.iter().zip(values) {
        let (rows, others) = columns.latent(Latent(latent));
        for (&row, &other) in rows.iter().zip(others) {
            products[row as usize] += f64::from(value) * f64::from(other);
        }
    }
    let distance = |(row, product): (usize, f64)| ((square + squares[row] - 2.0 * product).max(0.0).sqrt(), row as u32);
    products.into_iter().enumerate().map(distance).collect()
}
