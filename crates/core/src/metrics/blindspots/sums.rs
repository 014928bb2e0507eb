//! One pass over real and generated rows: everything that means, gaps and paired deviations are made of.

use std::sync::Arc;

use super::halves::Halves;
use crate::codes::{Codes, CodesView};
use crate::error::{Complaint, Error, Result};
use crate::kernel::ahead::{AHEAD, fetch};
use crate::run::{Column, Job, Leaders, Rows, Tally};

/// What is kept of a latent in the real rows, next to each other so that one entry touches one line of memory:
/// firings, sum, squares of the rows of one half; and the same of the other.
const REAL: usize = 6;
/// What is kept of a latent in the rows of a model: firings, firings in both, sum, squares, products with the real value.
const MADE: usize = 5;

/// Sums over rows, as a pass wants them.
pub(super) struct Sums {
    real: Arc<Codes>,
    models: Vec<Arc<Codes>>,
    halves: Halves,
    /// How many rows with the largest values are kept for each latent.
    keep: usize,
}

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

/// What the pass found.
pub(super) struct Found {
    /// How many rows there are.
    pub rows: u64,
    /// How many of them are in the first half.
    pub first_half: u64,
    /// By latent.
    pub real: Vec<Real>,
    /// By latent, the first half only.
    pub half: Vec<Real>,
    /// By model and latent.
    pub made: Vec<Vec<Made>>,
    /// The largest distance between two values, 0 among them.
    pub range: f64,
    /// Of every latent the real rows with the largest values; then the same by model. Empty if none were wanted.
    pub top: Vec<Leaders>,
}

impl Sums {
    pub fn new(job: &Job<'_>, keep: usize) -> Result<Sums> {
        job.codes()?;
        let real = job.inputs.codes.clone().ok_or_else(|| Error::Bug("codes that are there are not".into()))?;
        if u32::try_from(real.rows()).is_err() {
            return Err(Complaint::new("there are too many rows to compare")
                .expected(format!("at most {}", u32::MAX))
                .found(real.rows())
                .advice("pool tokens, or take a part of the rows")
                .into());
        }
        let models = job.models()?.iter().map(|model| model.codes.clone()).collect();
        Ok(Sums { halves: Halves::new(real.rows(), job.seed, 0), real, models, keep })
    }

    /// How many bytes one tally takes.
    pub fn bytes(&self) -> u64 {
        let sides = self.models.len() as u64 + 1;
        let sums = 8 * (REAL + MADE * self.models.len()) as u64;
        self.real.latents() as u64 * sums + sides * Leaders::bytes(self.real.latents(), self.keep)
    }

    pub fn empty(&self) -> Tally {
        let latents = self.real.latents();
        let mut columns = vec![
            Column::Count(vec![0; 2]),
            Column::Min(vec![0.0]),
            Column::Max(vec![0.0]),
            Column::Sum(vec![0.0; REAL * latents]),
        ];
        columns.extend(self.models.iter().map(|_| Column::Sum(vec![0.0; MADE * latents])));
        if self.keep > 0 {
            columns.extend((0..=self.models.len()).map(|_| Column::Top(Leaders::new(latents, self.keep))));
        }
        Tally { columns }
    }

    pub fn absorb(&self, tally: &mut Tally, rows: &Rows<'_>) -> Result<()> {
        let real = rows.codes.ok_or_else(|| Error::Bug("a pass without codes".into()))?;
        let range = real.first_row..real.first_row + real.rows();
        let models = self.models.iter().map(|codes| codes.view(range.clone())).collect::<Result<Vec<_>>>()?;
        let layout = || Error::Bug("layout of sums".into());
        let [Column::Count(counts), Column::Min(least), Column::Max(most), Column::Sum(sums), rest @ ..] =
            &mut tally.columns[..]
        else {
            return Err(layout());
        };
        let (made, top) = rest.split_at_mut_checked(self.models.len()).ok_or_else(layout)?;
        let mut top = top.iter_mut();
        let mut leaders = || match top.next() {
            Some(Column::Top(leaders)) => Ok(Some(leaders)),
            None if self.keep == 0 => Ok(None),
            _ => Err(layout()),
        };
        counts[0] += range.len() as u64;
        counts[1] += self.add_real(&real, sums, leaders()?);
        for (view, column) in models.iter().zip(made) {
            let Column::Sum(sums) = column else { return Err(layout()) };
            add_made(&real, view, sums, leaders()?);
        }
        for view in std::iter::once(&real).chain(&models) {
            let (low, high) = view.extremes();
            (least[0], most[0]) = (least[0].min(low), most[0].max(high));
        }
        Ok(())
    }

    /// Adds real rows; how many of them are in the first half.
    fn add_real(&self, view: &CodesView<'_>, sums: &mut [f64], mut leaders: Option<&mut Leaders>) -> u64 {
        let mut inside = 0;
        let mut coming = coming(view);
        for (row, latents, values) in view.iter() {
            let first = self.halves.first(row);
            inside += u64::from(first);
            let from = if first { 0 } else { REAL / 2 };
            for (&latent, &value) in latents.iter().zip(values) {
                expect(coming.next(), sums, REAL, leaders.as_deref());
                offer(&mut leaders, latent, value, row);
                let value = f64::from(value);
                let into = &mut sums[latent as usize * REAL + from..][..REAL / 2];
                into[0] += 1.0;
                into[1] += value;
                into[2] += value * value;
            }
        }
        inside
    }

    pub fn found(&self, tally: Tally) -> Result<Found> {
        let (latents, models) = (self.real.latents(), self.models.len());
        let (counts, sums) = (tally.counts(0)?.to_vec(), tally.sums(3)?);
        let real = |part: [f64; 3]| Real { fires: part[0] as u64, sum: part[1], squares: part[2] };
        let whole = |parts: &[f64]| real([parts[0] + parts[3], parts[1] + parts[4], parts[2] + parts[5]]);
        let half = sums.chunks_exact(REAL).map(|parts| real([parts[0], parts[1], parts[2]])).collect();
        let whole = sums.chunks_exact(REAL).map(whole).collect();
        let mut made = Vec::with_capacity(models);
        for model in 0..models {
            let one = |parts: &[f64]| Made {
                fires: parts[0] as u64,
                both: parts[1] as u64,
                sum: parts[2],
                squares: parts[3],
                products: parts[4],
            };
            made.push(tally.sums(4 + model)?.chunks_exact(MADE).map(one).collect::<Vec<_>>());
        }
        let range = match (&tally.columns[1], &tally.columns[2]) {
            (Column::Min(least), Column::Max(most)) => f64::from(most[0]) - f64::from(least[0]),
            _ => return Err(Error::Bug("layout of sums".into())),
        };
        let mut top = Vec::new();
        for column in tally.columns.into_iter().skip(4 + models) {
            let Column::Top(leaders) = column else { return Err(Error::Bug("layout of sums".into())) };
            top.push(leaders);
        }
        top.resize_with(models + 1, || Leaders::new(latents, 0));
        Ok(Found { rows: counts[0], first_half: counts[1], real: whole, half, made, range, top })
    }
}

/// The latents of a view, some entries ahead.
fn coming<'a>(view: &CodesView<'a>) -> impl Iterator<Item = u32> + use<'a> {
    view.latents().iter().skip(AHEAD).copied()
}

/// Asks for the memory of a latent that is soon to come.
#[inline(always)]
fn expect(latent: Option<u32>, sums: &[f64], width: usize, leaders: Option<&Leaders>) {
    let Some(latent) = latent else { return };
    fetch(sums, latent as usize * width);
    fetch(sums, latent as usize * width + width - 1);
    if let Some(leaders) = leaders {
        leaders.expect(latent as usize);
    }
}

/// Values that are not positive are evidence of nothing.
#[inline(always)]
fn offer(leaders: &mut Option<&mut Leaders>, latent: u32, value: f32, row: usize) {
    if let Some(leaders) = leaders
        && value > 0.0
    {
        leaders.offer(latent as usize, value, row as u32);
    }
}

/// Adds the rows of a model, walking the real rows beside them.
fn add_made(real: &CodesView<'_>, view: &CodesView<'_>, sums: &mut [f64], mut leaders: Option<&mut Leaders>) {
    let mut coming = coming(view);
    for ((row, latents, values), (_, real_latents, real_values)) in view.iter().zip(real.iter()) {
        let mut beside = 0;
        for (&latent, &value) in latents.iter().zip(values) {
            expect(coming.next(), sums, MADE, leaders.as_deref());
            offer(&mut leaders, latent, value, row);
            let value = f64::from(value);
            let into = &mut sums[latent as usize * MADE..][..MADE];
            into[0] += 1.0;
            into[2] += value;
            into[3] += value * value;
            while beside < real_latents.len() && real_latents[beside] < latent {
                beside += 1;
            }
            if beside < real_latents.len() && real_latents[beside] == latent {
                into[1] += 1.0;
                into[4] += value * f64::from(real_values[beside]);
            }
        }
    }
}
