//! The one pass over the rows.

use std::sync::{Arc, OnceLock};

use super::latents::Latents;
use super::numbers::RowSums;
use crate::budget::Taken;
use crate::error::{Error, Result};
use crate::results::Profile;
use crate::run::{Column, Job, Next, Pass, Rows, Tally};
use crate::sae::{Dictionary, Linear};
use crate::store::{ActivationStore, Tile};

/// Blocks of rows that intervals resample; fewer rows are a block each.
const BLOCKS: usize = 512;

/// Rows of a tile.
const TILE_ROWS: u64 = 1024;

// What is summed over the rows of a block. A weight is one over the rows of the batch.
pub(super) const ROWS: usize = 0;
pub(super) const WEIGHT: usize = 1;
pub(super) const FIRED: usize = 2;
pub(super) const SIZE: usize = 3;
pub(super) const ERROR: usize = 4;
pub(super) const WEIGHTED_ERROR: usize = 5;
pub(super) const LENGTH_IN: usize = 6;
pub(super) const LENGTH_OUT: usize = 7;
pub(super) const RATIO: usize = 8;
pub(super) const RATIO_ROWS: usize = 9;
pub(super) const COSINE: usize = 10;
pub(super) const COSINE_ROWS: usize = 11;
pub(super) const LEGACY: usize = 12;
pub(super) const LEGACY_ROWS: usize = 13;
pub(super) const SQUARE_IN: usize = 14;
pub(super) const WEIGHTED_SQUARE_IN: usize = 15;
pub(super) const SQUARE_OUT: usize = 16;
pub(super) const PRODUCT: usize = 17;
/// How many of them there are.
pub(super) const SUMS: usize = 18;

/// A spread this small beside the squared length is rounding.
pub(super) const LEAST_SPREAD: f64 = 1e-12;

/// Which rows form a batch, and their mean rows, each made when it is first wanted.
struct Batches {
    rows: usize,
    size: usize,
    means: Vec<OnceLock<Vec<f64>>>,
}

impl Batches {
    fn new(rows: usize, size: usize) -> Batches {
        Batches { rows, size, means: (0..rows.div_ceil(size)).map(|_| OnceLock::new()).collect() }
    }

    fn count(&self) -> usize {
        self.means.len()
    }

    fn of(&self, row: usize) -> usize {
        row / self.size
    }

    fn range(&self, batch: usize) -> std::ops::Range<usize> {
        batch * self.size..((batch + 1) * self.size).min(self.rows)
    }

    fn mean(&self, batch: usize, store: &ActivationStore) -> Result<&[f64]> {
        let place = self.means.get(batch).ok_or_else(|| Error::Bug(format!("no batch {batch}")))?;
        if let Some(mean) = place.get() {
            return Ok(mean);
        }
        let tile = store.tile(self.range(batch))?;
        let mut mean = vec![0.0; tile.width];
        for row in 0..tile.rows() {
            mean.iter_mut().zip(tile.row(row)).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        mean.iter_mut().for_each(|sum| *sum /= tile.rows().max(1) as f64);
        Ok(place.get_or_init(|| mean))
    }
}

/// Counts by latent, sums by block of rows, and the two sums of the bias by batch.
pub(super) struct Sums {
    rows: usize,
    latents: usize,
    blocks: usize,
    batches: Batches,
    embeddings: Option<Arc<ActivationStore>>,
    /// Only together with embeddings.
    dictionary: Option<Arc<Linear>>,
    profile: Profile,
    _memory: Option<Taken>,
}

impl Sums {
    pub fn new(job: &Job<'_>, batch: usize) -> Result<Sums> {
        let codes = job.codes()?;
        let embeddings = job.inputs.embeddings.clone();
        Ok(Sums {
            rows: codes.rows(),
            latents: codes.latents(),
            blocks: codes.rows().min(BLOCKS),
            batches: Batches::new(codes.rows(), batch),
            dictionary: job.inputs.dictionary.clone().filter(|_| embeddings.is_some()),
            embeddings,
            profile: job.profile,
            _memory: None,
        })
    }

    pub fn holding(self, memory: Taken) -> Sums {
        Sums { _memory: Some(memory), ..self }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    fn width(&self) -> usize {
        self.embeddings.as_ref().map_or(0, |store| store.width())
    }

    /// Memory for `alive` tallies, the mean rows, and the reconstruction of a tile on each thread.
    pub fn bytes(&self, alive: u64, threads: u64) -> u64 {
        let (width, blocks, batches) = (self.width() as u64, self.blocks as u64, self.batches.count() as u64);
        let tally = 20 * self.latents as u64 + 8 * blocks * (SUMS as u64 + width) + 16 * batches;
        alive.saturating_mul(tally) + 8 * batches * width + threads.saturating_mul(4 * TILE_ROWS * width)
    }

    /// Does a value count as firing?
    fn fires(&self, value: f32) -> bool {
        match self.profile {
            Profile::Paper => value != 0.0,
            Profile::Reference => value > 0.0,
        }
    }

    /// What a value adds to the size of a row's codes.
    fn size(&self, value: f32) -> f64 {
        match self.profile {
            Profile::Paper => f64::from(value).abs(),
            Profile::Reference => f64::from(value),
        }
    }

    /// Adds what speaks of embeddings, and of reconstructions if there are any.
    fn absorb_rows(
        &self,
        tile: &Tile<'_>,
        back: Option<&[f32]>,
        sums: &mut [f64],
        sides: [&mut [f64]; 2],
    ) -> Result<()> {
        let [totals, quotients] = sides;
        let width = tile.width;
        for place in 0..tile.rows() {
            let (row, number) = (tile.row(place), tile.first_row + place);
            let block = self.block(number);
            let sum = &mut sums[block * SUMS..][..SUMS];
            let total = &mut totals[block * width..][..width];
            total.iter_mut().zip(row).for_each(|(total, &value)| *total += f64::from(value));
            let batch = self.batches.of(number);
            let weight = 1.0 / self.batches.range(batch).len() as f64;
            let square_in: f64 = row.iter().map(|&value| f64::from(value).powi(2)).sum();
            sum[LENGTH_IN] += square_in.sqrt();
            sum[SQUARE_IN] += square_in;
            sum[WEIGHTED_SQUARE_IN] += square_in * weight;
            let (Some(back), Some(store)) = (back, self.embeddings.as_deref()) else { continue };
            let back = &back[place * width..][..width];
            let mean = self.batches.mean(batch, store)?;
            let (mut error, mut square_out, mut product, mut spread) = (0.0, 0.0, 0.0, 0.0);
            for ((&value, &back), mean) in row.iter().zip(back).zip(mean) {
                let (value, back) = (f64::from(value), f64::from(back));
                error += (value - back) * (value - back);
                square_out += back * back;
                product += value * back;
                spread += (value - mean) * (value - mean);
            }
            sum[ERROR] += error;
            sum[WEIGHTED_ERROR] += error * weight;
            sum[LENGTH_OUT] += square_out.sqrt();
            sum[SQUARE_OUT] += square_out;
            sum[PRODUCT] += product;
            let (length_in, length_out) = (square_in.sqrt(), square_out.sqrt());
            let below = match self.profile {
                Profile::Reference if length_in < 1e-4 => 1.0,
                _ => length_in,
            };
            if below > 0.0 {
                sum[RATIO] += length_out / below;
                sum[RATIO_ROWS] += 1.0;
            }
            if length_in * length_out > 0.0 {
                sum[COSINE] += (product / (length_in * length_out)).clamp(-1.0, 1.0);
                sum[COSINE_ROWS] += 1.0;
            }
            if spread > LEAST_SPREAD * square_in {
                sum[LEGACY] += 1.0 - error / spread;
                sum[LEGACY_ROWS] += 1.0;
            }
            quotients[2 * batch] += square_out;
            quotients[2 * batch + 1] += product;
        }
        Ok(())
    }

    fn block(&self, row: usize) -> usize {
        (row as u128 * self.blocks as u128 / self.rows.max(1) as u128) as usize
    }
}

impl Pass for Sums {
    fn empty(&self) -> Tally {
        Tally {
            columns: vec![
                Column::Count(vec![0; self.latents]),
                Column::Sum(vec![0.0; self.latents]),
                Column::Max(vec![f32::NEG_INFINITY; self.latents]),
                Column::Sum(vec![0.0; self.blocks * SUMS]),
                Column::Sum(vec![0.0; self.blocks * self.width()]),
                Column::Sum(vec![0.0; if self.dictionary.is_some() { 2 * self.batches.count() } else { 0 }]),
            ],
        }
    }

    fn absorb(&self, tally: &mut Tally, rows: &Rows<'_>) -> Result<()> {
        let codes = rows.codes.ok_or_else(|| Error::Bug("core without codes".into()))?;
        let [
            Column::Count(fired),
            Column::Sum(values_of),
            Column::Max(largest),
            Column::Sum(sums),
            Column::Sum(totals),
            Column::Sum(quotients),
        ] = &mut tally.columns[..]
        else {
            return Err(Error::Bug("core was given a tally of another layout".into()));
        };
        for (row, latents, values) in codes.iter() {
            let sum = &mut sums[self.block(row) * SUMS..][..SUMS];
            sum[ROWS] += 1.0;
            sum[WEIGHT] += 1.0 / self.batches.range(self.batches.of(row)).len() as f64;
            sum[FIRED] += values.len() as f64;
            sum[SIZE] += values.iter().map(|&value| self.size(value)).sum::<f64>();
            for (&latent, &value) in latents.iter().zip(values).filter(|(_, value)| self.fires(**value)) {
                fired[latent as usize] += 1;
                values_of[latent as usize] += f64::from(value);
                largest[latent as usize] = largest[latent as usize].max(value);
            }
        }
        let Some(tile) = &rows.embeddings else { return Ok(()) };
        let mut back = Vec::new();
        if let Some(dictionary) = &self.dictionary {
            back.resize(tile.values.len(), 0.0);
            dictionary.decode(&codes, Some(tile), &mut back)?;
        }
        self.absorb_rows(tile, self.dictionary.is_some().then_some(&back[..]), sums, [totals, quotients])
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let Some(Column::Max(largest)) = tally.columns.get(2) else {
            return Err(Error::Bug("core was given a tally of another layout".into()));
        };
        let rows = RowSums {
            blocks: self.blocks,
            width: self.embeddings.as_ref().map(|store| store.width()),
            decoded: self.dictionary.is_some(),
            sums: tally.sums(3)?,
            totals: tally.sums(4)?,
            quotients: tally.sums(5)?,
            profile: self.profile,
        };
        let latents = Latents {
            rows: self.rows,
            fired: tally.counts(0)?.to_vec(),
            sums: tally.sums(1)?.to_vec(),
            largest: largest.clone(),
            samples: self.samples_by_latent(job)?,
        };
        latents.go_on(rows.scores(job.seed), job)
    }
}

impl Sums {
    /// In how many samples each latent fires, where rows know their sample.
    fn samples_by_latent(&self, job: &Job<'_>) -> Result<Option<Vec<u64>>> {
        let Some(samples) = self.embeddings.as_ref().and_then(|store| store.samples()) else { return Ok(None) };
        // Rows of a sample need not lie together, so they are walked sample by sample.
        let mut order: Vec<usize> = (0..self.rows.min(samples.len())).collect();
        order.sort_by_key(|&row| (samples[row], row));
        let (mut count, mut last) = (vec![0; self.latents], vec![None; self.latents]);
        let all = job.codes()?.all()?;
        for row in order {
            let (latents, values) = all.row(row);
            for (&latent, _) in latents.iter().zip(values).filter(|(_, value)| self.fires(**value)) {
                if last[latent as usize].replace(samples[row]) != Some(samples[row]) {
                    count[latent as usize] += 1;
                }
            }
        }
        Ok(Some(count))
    }
}
