//! Where true features and latents fire, and their assignment by F1.

use etalon_kernel::assignment::assign_monitored;
use serde::{Deserialize, Serialize};

use crate::codes::{Codes, CodesView, Latent};
use crate::error::Result;
use crate::run::{CODES, Count, Job, Lazy, RowBatch, TRUTH, Truth, Work};
use crate::state;

/// Rows between two checks for cancellation.
const CHECK_ROWS: usize = 4096;

/// The number of rows in which every column fires.
#[derive(Serialize, Deserialize)]
pub(super) struct Fired {
    pub features: Count,
    /// Latents of the evaluated codes.
    pub latents: Count,
    /// Latents of every null.
    pub nulls: Vec<Count>,
}

state!(Fired { features, latents, nulls });

impl Fired {
    /// Counts of zero.
    pub fn new(truth: &Truth, codes: &Codes, nulls: &[&Codes]) -> Fired {
        let count = |codes: &Codes| Count::new(codes.latents());
        let nulls = nulls.iter().map(|null| count(null)).collect();
        Fired { features: count(&truth.codes), latents: count(codes), nulls }
    }

    /// Adds some rows.
    pub fn add(&mut self, rows: &RowBatch<'_>, truth: &Truth, nulls: &[&Codes]) -> Result<()> {
        let add = |counts: &mut Count, codes: CodesView<'_>| {
            for (&latent, _) in codes.latents().iter().zip(codes.values()).filter(|&(_, &value)| value > 0.0) {
                counts[latent as usize] += 1;
            }
        };
        add(&mut self.features, truth.codes.view(rows.range.clone())?);
        add(&mut self.latents, rows.get(&CODES)?);
        for (counts, null) in self.nulls.iter_mut().zip(nulls) {
            add(counts, null.view(rows.range.clone())?);
        }
        Ok(())
    }
}

/// A column that fires.
pub(super) struct FiringColumn {
    pub index: usize,
    /// The number of rows in which it fires.
    pub rows: u64,
}

/// The columns that ever fire.
pub(super) fn firing(counts: &Count) -> Vec<FiringColumn> {
    let columns = counts.iter().enumerate().filter(|&(_, &rows)| rows > 0);
    columns.map(|(index, &rows)| FiringColumn { index, rows }).collect()
}

/// The latent assigned to a feature.
#[derive(Serialize, Deserialize)]
pub(super) struct Matched {
    /// The latent, if one is available.
    pub latent: Option<usize>,
    /// F1 of both; 0 without a latent.
    pub f1: f64,
}

/// Assigns latents to features by F1. `of` distinguishes the stages of nulls.
pub(super) fn match_firing(
    job: &Job<'_>,
    work: &mut Work<'_>,
    codes: &Codes,
    features: &[FiringColumn],
    latents: &[FiringColumn],
    of: &str,
) -> Result<Vec<Matched>> {
    let (truth, rows) = (job.get(&TRUTH)?, codes.all()?);
    let mut index_of = vec![0u32; codes.latents()];
    latents.iter().enumerate().for_each(|(index, latent)| index_of[latent.index] = index as u32);
    let true_columns = Lazy::new(|| truth.codes.columns());
    // By feature and latent, the number of rows in which both fire.
    let both = work.blocks_with(&true_columns, &format!("features{of}"), features.len(), |true_columns, feature| {
        let mut both = vec![0u32; latents.len()];
        let (feature_rows, values) = true_columns.latent(Latent(features[feature].index as u32));
        for (number, (&row, &value)) in feature_rows.iter().zip(values).enumerate() {
            if number % CHECK_ROWS == 0 {
                job.check()?;
            }
            if value > 0.0 {
                let (fired, values) = rows.row(row as usize);
                for (&latent, _) in fired.iter().zip(values).filter(|&(_, &value)| value > 0.0) {
                    both[index_of[latent as usize] as usize] += 1;
                }
            }
        }
        Ok(both)
    })?;
    work.once(&format!("assignments{of}"), || {
        let cells = features.len().saturating_mul(latents.len());
        let what = format!("the agreement of {} features with {} latents", features.len(), latents.len());
        let _memory = job.budget().reserve((cells as u64).saturating_mul(8), what)?;
        let mut costs = Vec::with_capacity(cells);
        for (feature, both) in features.iter().zip(both.iter()) {
            let cost =
                |(&both, latent): (&u32, &FiringColumn)| f64::from(both) * (-2.0 / (feature.rows + latent.rows) as f64);
            costs.extend(both.iter().zip(latents).map(cost));
        }
        let assigned = assign_monitored(&costs, features.len(), latents.len(), job.context)?;
        let matched = |(feature, index): (usize, Option<usize>)| Matched {
            latent: index.map(|index| latents[index].index),
            f1: index.map_or(0.0, |index| -costs[feature * latents.len() + index]),
        };
        Ok(assigned.into_iter().enumerate().map(matched).collect())
    })
}
