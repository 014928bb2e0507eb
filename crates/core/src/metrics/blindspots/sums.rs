//! The pass over real and generated rows: sums for means, gaps and paired standard deviations.

use serde::{Deserialize, Serialize};

use super::halves::Halves;
use crate::codes::{Codes, CodesView};
use crate::context::Reserved;
use crate::error::{InputError, Result};
use crate::run::{CODES, Count, GENERATED, Job, Max, Min, Over, RowBatch, Sum, TopRows, Work};
use crate::state;
use etalon_kernel::bits::Bits;
use etalon_kernel::prefetch::{DISTANCE, fetch};

/// Sums of a latent over the real rows, adjacent so that one entry touches one cache line: firings, sum and squares of the
/// first half of the rows, then of the second.
const REAL: usize = 6;
/// Sums of a latent over the rows of a model: firings, firings in both, sum, squares, products with the real value.
const MADE: usize = 5;

/// Sums over rows.
#[derive(Serialize, Deserialize)]
pub(super) struct Sums {
    rows: Count,
    first_half: Count,
    /// The smallest and the largest value.
    lowest: Min,
    highest: Max,
    /// By latent, [`REAL`] sums.
    real: Sum,
    /// By model, for every latent [`MADE`] sums.
    made: Vec<Sum>,
    /// The real rows with the largest values of every latent, then those of each model. Empty if none are kept.
    top: Vec<TopRows>,
}

state!(Sums { rows, first_half, lowest, highest, real, made, top });

/// A latent in the real rows, or in a half of them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Real {
    /// Rows where it fires.
    pub fires: u64,
    /// The sum of its values.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
}

/// A latent in the rows of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Made {
    /// Rows where it fires.
    pub fires: u64,
    /// Rows where it fires in the real row too.
    pub both: u64,
    /// The sum of its values.
    pub sum: f64,
    /// The sum of their squares.
    pub squares: f64,
    /// The sum of products with the real values.
    pub products: f64,
}

/// Compares real and generated rows, and keeps the `keep` rows with the largest values of every latent.
pub(super) fn compare(keep: usize, job: &Job<'_>, work: &mut Work<'_>) -> Result<Reserved<Sums>> {
    let real = job.get(&CODES)?;
    if u32::try_from(real.rows()).is_err() {
        return Err(InputError::new("too many rows to compare")
            .expected(format!("at most {}", u32::MAX))
            .found(real.rows())
            .advice("pool tokens, or use fewer rows")
            .into());
    }
    let models: Vec<&Codes> = job.all(&GENERATED).into_iter().map(|(_, model)| &*model.codes).collect();
    let halves = Halves { rows: real.rows(), seed: job.seed, split: 0 };
    let empty = || Sums::new(real.latents(), models.len(), keep);
    work.pass("sums of rows by latent", Over::ROWS, empty, |sums, rows| sums.add(rows, &models, halves))
}

impl Sums {
    fn new(latents: usize, models: usize, keep: usize) -> Sums {
        Sums {
            rows: Count::new(1),
            first_half: Count::new(1),
            lowest: Min::new(1),
            highest: Max::new(1),
            real: Sum::new(REAL * latents),
            made: vec![Sum::new(MADE * latents); models],
            top: vec![TopRows::new(latents, keep); if keep > 0 { models + 1 } else { 0 }],
        }
    }

    fn add(&mut self, rows: &RowBatch<'_>, models: &[&Codes], halves: Halves) -> Result<()> {
        let (range, real) = (rows.range.clone(), rows.get(&CODES)?);
        let models = models.iter().map(|codes| codes.view(range.clone())).collect::<Result<Vec<_>>>()?;
        let first_half = halves.first(range.clone());
        self.rows[0] += range.len() as u64;
        self.first_half[0] += first_half.count() as u64;
        let mut top = self.top.iter_mut();
        add_real(&real, &first_half, &mut self.real, top.next());
        for (view, sums) in models.iter().zip(&mut self.made) {
            add_made(&real, view, sums, top.next());
        }
        for view in std::iter::once(&real).chain(&models) {
            let (low, high) = view.extremes();
            self.lowest.add(0, Some(low));
            self.highest.add(0, Some(high));
        }
        Ok(())
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        self.rows[0]
    }

    /// Number of rows in the first half.
    pub fn first_half(&self) -> u64 {
        self.first_half[0]
    }

    /// The largest difference between two values, 0 included.
    pub fn range(&self) -> f64 {
        f64::from(self.highest[0].unwrap_or(0.0)) - f64::from(self.lowest[0].unwrap_or(0.0))
    }

    /// A latent in the real rows.
    pub fn real(&self, latent: usize) -> Real {
        let sums = &self.real[latent * REAL..][..REAL];
        Real { fires: (sums[0] + sums[3]) as u64, sum: sums[1] + sums[4], squares: sums[2] + sums[5] }
    }

    /// A latent in the first half of the real rows.
    pub fn half(&self, latent: usize) -> Real {
        let sums = &self.real[latent * REAL..][..REAL];
        Real { fires: sums[0] as u64, sum: sums[1], squares: sums[2] }
    }

    /// A latent in the rows of a model.
    pub fn made(&self, model: usize, latent: usize) -> Made {
        let sums = &self.made[model][latent * MADE..][..MADE];
        Made { fires: sums[0] as u64, both: sums[1] as u64, sum: sums[2], squares: sums[3], products: sums[4] }
    }

    /// The rows of a side (the real rows first) with the largest values of a latent.
    pub fn top_rows(&self, side: usize, latent: usize) -> Vec<i64> {
        self.top.get(side).map(|top| top.of(latent).map(|(_, row)| i64::from(row)).collect()).unwrap_or_default()
    }
}

/// Adds real rows.
fn add_real(view: &CodesView<'_>, first_half: &Bits, sums: &mut [f64], mut top: Option<&mut TopRows>) {
    let mut upcoming = upcoming(view);
    for (row, latents, values) in view.iter() {
        let from = if first_half.contains(row - view.first_row) { 0 } else { REAL / 2 };
        for (&latent, &value) in latents.iter().zip(values) {
            prefetch(upcoming.next(), sums, REAL, top.as_deref());
            offer(&mut top, latent, value, row);
            let value = f64::from(value);
            let into = &mut sums[latent as usize * REAL + from..][..REAL / 2];
            into[0] += 1.0;
            into[1] += value;
            into[2] += value * value;
        }
    }
}

/// The latents of a view, `DISTANCE` entries ahead.
fn upcoming<'a>(view: &CodesView<'a>) -> impl Iterator<Item = u32> + use<'a> {
    view.latents().iter().skip(DISTANCE).copied()
}

/// Prefetches the sums of an upcoming latent.
#[inline(always)]
fn prefetch(latent: Option<u32>, sums: &[f64], width: usize, top: Option<&TopRows>) {
    let Some(latent) = latent else { return };
    fetch(sums, latent as usize * width);
    fetch(sums, latent as usize * width + width - 1);
    if let Some(top) = top {
        top.prefetch(latent as usize);
    }
}

/// Offers positive values only.
#[inline(always)]
fn offer(top: &mut Option<&mut TopRows>, latent: u32, value: f32, row: usize) {
    if let Some(top) = top
        && value > 0.0
    {
        top.offer(latent as usize, value, row as u32);
    }
}

/// Adds the rows of a model, merged with the real rows.
fn add_made(real: &CodesView<'_>, view: &CodesView<'_>, sums: &mut [f64], mut top: Option<&mut TopRows>) {
    let mut upcoming = upcoming(view);
    for ((row, latents, values), (_, real_latents, real_values)) in view.iter().zip(real.iter()) {
        let mut next = 0;
        for (&latent, &value) in latents.iter().zip(values) {
            prefetch(upcoming.next(), sums, MADE, top.as_deref());
            offer(&mut top, latent, value, row);
            let value = f64::from(value);
            let into = &mut sums[latent as usize * MADE..][..MADE];
            into[0] += 1.0;
            into[2] += value;
            into[3] += value * value;
            while next < real_latents.len() && real_latents[next] < latent {
                next += 1;
            }
            if next < real_latents.len() && real_latents[next] == latent {
                into[1] += 1.0;
                into[4] += value * f64::from(real_values[next]);
            }
        }
    }
}
