//! Which latents fire together with one latent.

use serde::{Deserialize, Serialize};

use super::matrix_row::MatrixRow;
use crate::codes::{Codes, Latent};
use crate::error::{InputError, Result};

/// How one latent goes with another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Together {
    /// The sum over rows of the product of the two values.
    pub product: f64,
    /// Rows where both fire, as a share of those where one does; `None` where neither ever fires.
    pub jaccard: Option<f64>,
    /// The logarithm of how much oftener both fire than if they did not know of each other; `None` where they never do.
    pub pmi: Option<f64>,
}

impl Together {
    /// From the sum of products, in how many rows both fire, in how many each does, and how many rows there are.
    pub(super) fn new(product: f64, both: u64, fired: [u64; 2], rows: usize) -> Together {
        let either = fired[0] + fired[1] - both;
        let pmi = || libm::log(both as f64 * rows as f64 / (fired[0] as f64 * fired[1] as f64));
        Together { product, jaccard: (either > 0).then(|| both as f64 / either as f64), pmi: (both > 0).then(pmi) }
    }
}

/// A latent that fires together with the one in question.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Partner {
    /// Which.
    pub latent: Latent,
    /// How the two go together.
    pub together: Together,
}

/// The partners of one latent with the largest products, the lower latent among equals. A latent fires above 0.
pub fn partners(codes: &Codes, latent: Latent, keep: usize) -> Result<Vec<Partner>> {
    if latent.0 as usize >= codes.latents() {
        return Err(InputError::new("there is no such latent")
            .expected(format!("a latent below {}", codes.latents()))
            .found(latent.0)
            .into());
    }
    let (rows, columns) = (codes.all()?, codes.columns()?);
    let mut matrix_row = MatrixRow::new(codes.latents(), false);
    let (of, values) = columns.latent(latent);
    for (&row, &mine) in of.iter().zip(values) {
        let (others, values) = rows.row(row as usize);
        for (&other, &value) in others.iter().zip(values).filter(|(other, _)| **other != latent.0) {
            matrix_row.add(other, f64::from(mine) * f64::from(value), 0, mine > 0.0 && value > 0.0);
        }
    }
    let found = matrix_row.best(keep);
    let fired = |latent: Latent| columns.latent(latent).1.iter().filter(|&&value| value > 0.0).count() as u64;
    let partner = |&other: &u32| Partner {
        latent: Latent(other),
        together: matrix_row.together(other, fired(latent), fired(Latent(other)), codes.rows()),
    };
    let partners = found.iter().map(partner).collect();
    Ok(partners)
}
