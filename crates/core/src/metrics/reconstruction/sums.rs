//! The pass over the rows.

use std::ops::Range;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::codes::CodesView;
use crate::context::{Reservation, Reserved};
use crate::error::{Error, Result};
use crate::metrics::unit_rows::direction_lengths;
use crate::results::Profile;
use crate::run::{CODES, Count, DICTIONARY, EMBEDDINGS, Job, Max, RowBatch, Sum};
use crate::sae::Dictionary;
use crate::state;
use crate::store::{ActivationStore, Tile};

/// Blocks of consecutive rows that the bootstrap resamples; with fewer rows every row is a block.
const BLOCKS: usize = 512;

/// Variances up to this share of the squared length are rounding errors.
pub(super) const LEAST_SPREAD: f64 = 1e-12;

/// Declares the sums over rows, by block for the pass and in total.
macro_rules! row_sums {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Sums over rows, by block of consecutive rows.
        #[derive(Serialize, Deserialize)]
        pub(super) struct RowSums {
            $($(#[$doc])* pub $name: Sum,)*
        }

        state!(RowSums { $($name),* });

        /// Sums over the rows of several blocks.
        pub(super) struct RowTotals {
            $($(#[$doc])* pub $name: f64,)*
        }

        impl RowSums {
            fn new(blocks: usize) -> RowSums {
                RowSums { $($name: Sum::new(blocks)),* }
            }

            /// The weighted sum of all blocks.
            pub fn weighted(&self, weights: &[f64]) -> RowTotals {
                let sum = |column: &Sum| column.iter().zip(weights).map(|(value, weight)| value * weight).sum();
                RowTotals { $($name: sum(&self.$name)),* }
            }
        }
    };
}

row_sums! {
    /// Rows.
    rows,
    /// One over the rows of the batch.
    weight,
    /// Nonzero codes.
    active,
    /// Absolute codes (reference: codes).
    size,
    /// Squared length of the error.
    error,
    /// The same, divided by the rows of the batch.
    weighted_error,
    /// Length of the row.
    length_in,
    /// Length of the reconstruction.
    length_out,
    /// Length of the reconstruction over that of the row.
    ratio,
    /// Rows with a ratio.
    ratio_rows,
    /// Cosine of row and reconstruction.
    cosine,
    /// Rows with a cosine.
    cosine_rows,
    /// Share of the distance to the mean of the batch that is reconstructed.
    legacy,
    /// Rows with a share.
    legacy_rows,
    /// Squared length of the row.
    square_in,
    /// The same, divided by the rows of the batch.
    weighted_square_in,
    /// Squared length of the reconstruction.
    square_out,
    /// Dot product of row and reconstruction.
    product,
}

/// Sums over rows by batch, for the reference's mean of quotients.
#[derive(Serialize, Deserialize)]
pub(super) struct BatchSums {
    /// Squared length of the reconstruction.
    pub square_out: Sum,
    /// Product of row and reconstruction.
    pub product: Sum,
}

state!(BatchSums { square_out, product });

/// All sums of the pass.
#[derive(Serialize, Deserialize)]
pub(super) struct Sums {
    /// By latent, the number of rows where it fires.
    pub fired: Count,
    /// By latent, the sum of its values in these rows.
    pub values: Sum,
    /// By latent, the largest of these values.
    pub largest: Max,
    /// By block of rows.
    pub rows: RowSums,
    /// By block of rows and dimension, the sum of the rows.
    pub totals: Sum,
    /// Only in profile `reference` with reconstructions.
    pub batches: Option<BatchSums>,
}

state!(Sums { fired, values, largest, rows, totals, batches });

/// Batches of rows, with their mean rows, which are computed on first use.
struct Batches {
    rows: usize,
    size: usize,
    means: Vec<OnceLock<Vec<f64>>>,
    _memory: Reservation,
}

impl Batches {
    fn new(rows: usize, size: usize, width: usize, job: &Job<'_>) -> Result<Batches> {
        let count = rows.div_ceil(size);
        let bytes = (count as u64).saturating_mul(8 * width as u64 + 32);
        let _memory = job.budget().reserve(bytes, format!("the mean rows of {count} batches"))?;
        Ok(Batches { rows, size, means: (0..count).map(|_| OnceLock::new()).collect(), _memory })
    }

    fn of(&self, row: usize) -> usize {
        row / self.size
    }

    fn range(&self, batch: usize) -> Range<usize> {
        batch * self.size..((batch + 1) * self.size).min(self.rows)
    }

    fn mean(&self, batch: usize, store: &ActivationStore) -> Result<&[f64]> {
        let cell = self.means.get(batch).ok_or_else(|| Error::Bug(format!("no batch {batch}")))?;
        if let Some(mean) = cell.get() {
            return Ok(mean);
        }
        let tile = store.tile(self.range(batch))?;
        let mut mean = vec![0.0; tile.width];
        for row in 0..tile.rows() {
            mean.iter_mut().zip(tile.row(row)).for_each(|(sum, &value)| *sum += f64::from(value));
        }
        mean.iter_mut().for_each(|sum| *sum /= tile.rows().max(1) as f64);
        Ok(cell.get_or_init(|| mean))
    }
}

/// Whether a value counts as firing.
pub(super) fn fires(value: f32, profile: Profile) -> bool {
    match profile {
        Profile::Paper => value != 0.0,
        Profile::Reference => value > 0.0,
    }
}

/// The inputs of the pass.
pub(super) struct Scan<'a> {
    job: &'a Job<'a>,
    rows: usize,
    blocks: usize,
    batches: Batches,
    embeddings: Option<&'a ActivationStore>,
    /// Only together with embeddings.
    dictionary: Option<&'a dyn Dictionary>,
    /// The lengths of directions.
    lengths: Option<Reserved<Vec<f32>>>,
}

impl<'a> Scan<'a> {
    /// Prepares the pass; batches have `batch` rows.
    pub fn new(job: &'a Job<'a>, batch: usize) -> Result<Scan<'a>> {
        let rows = job.get(&CODES)?.rows();
        let embeddings = job.find(&EMBEDDINGS);
        let dictionary = job.find(&DICTIONARY).filter(|_| embeddings.is_some());
        let width = embeddings.filter(|_| dictionary.is_some()).map_or(0, ActivationStore::width);
        Ok(Scan {
            job,
            rows,
            blocks: rows.min(BLOCKS),
            batches: Batches::new(rows, batch, width, job)?,
            embeddings,
            dictionary: dictionary.map(|dictionary| &**dictionary as &dyn Dictionary),
            lengths: direction_lengths(job)?,
        })
    }

    /// Whether there are reconstructions.
    pub fn decodes(&self) -> bool {
        self.dictionary.is_some()
    }

    /// Sums of no rows.
    pub fn empty(&self) -> Sums {
        let latents = self.job.find(&CODES).map_or(0, |codes| codes.latents());
        let batches = self.batches.means.len();
        let by_batch = self.decodes() && self.job.profile == Profile::Reference;
        Sums {
            fired: Count::new(latents),
            values: Sum::new(latents),
            largest: Max::new(latents),
            rows: RowSums::new(self.blocks),
            totals: Sum::new(self.blocks * self.embeddings.map_or(0, ActivationStore::width)),
            batches: by_batch.then(|| BatchSums { square_out: Sum::new(batches), product: Sum::new(batches) }),
        }
    }

    /// Adds some rows.
    pub fn add(&self, sums: &mut Sums, rows: &RowBatch<'_>) -> Result<()> {
        let codes = rows.get(&CODES)?;
        self.add_codes(sums, &codes);
        if self.embeddings.is_none() {
            return Ok(());
        }
        let tile = rows.get(&EMBEDDINGS)?;
        let Some(dictionary) = self.dictionary else { return self.add_rows(sums, &tile, None) };
        let bytes = size_of_val(&tile.values[..]) as u64;
        let _memory = self.job.budget().reserve(bytes, format!("reconstructions of {} rows", tile.rows()))?;
        let mut decoded = vec![0.0; tile.values.len()];
        dictionary.decode(&codes, Some(&tile), &mut decoded)?;
        self.add_rows(sums, &tile, Some(&decoded))
    }

    fn add_codes(&self, sums: &mut Sums, codes: &CodesView<'_>) {
        let profile = self.job.profile;
        let size = |(&latent, &value): (&u32, &f32)| {
            let length = self.lengths.as_ref().map_or(1.0, |lengths| f64::from(lengths[latent as usize]));
            match profile {
                Profile::Paper => f64::from(value).abs() * length,
                Profile::Reference => f64::from(value) * length,
            }
        };
        for (row, latents, values) in codes.iter() {
            let block = self.block(row);
            sums.rows.rows[block] += 1.0;
            sums.rows.weight[block] += 1.0 / self.batches.range(self.batches.of(row)).len() as f64;
            sums.rows.active[block] += values.len() as f64;
            sums.rows.size[block] += latents.iter().zip(values).map(size).sum::<f64>();
            for (&latent, &value) in latents.iter().zip(values).filter(|(_, value)| fires(**value, profile)) {
                let latent = latent as usize;
                sums.fired[latent] += 1;
                sums.values[latent] += f64::from(value);
                if sums.largest[latent].is_none_or(|largest| value > largest) {
                    sums.largest[latent] = Some(value);
                }
            }
        }
    }

    /// Adds the sums over embeddings, and over reconstructions if there are any.
    fn add_rows(&self, sums: &mut Sums, tile: &Tile<'_>, decoded: Option<&[f32]>) -> Result<()> {
        let (width, into) = (tile.width, &mut sums.rows);
        for index in 0..tile.rows() {
            let (row, number) = (tile.row(index), tile.first_row + index);
            let block = self.block(number);
            let total = &mut sums.totals[block * width..][..width];
            total.iter_mut().zip(row).for_each(|(total, &value)| *total += f64::from(value));
            let batch = self.batches.of(number);
            let weight = 1.0 / self.batches.range(batch).len() as f64;
            let square_in: f64 = row.iter().map(|&value| f64::from(value).powi(2)).sum();
            into.length_in[block] += square_in.sqrt();
            into.square_in[block] += square_in;
            into.weighted_square_in[block] += square_in * weight;
            let (Some(decoded), Some(store)) = (decoded, self.embeddings) else { continue };
            let decoded = &decoded[index * width..][..width];
            let mean = self.batches.mean(batch, store)?;
            let (mut error, mut square_out, mut product, mut spread) = (0.0, 0.0, 0.0, 0.0);
            for ((&value, &decoded), mean) in row.iter().zip(decoded).zip(mean) {
                let (value, decoded) = (f64::from(value), f64::from(decoded));
                error += (value - decoded) * (value - decoded);
                square_out += decoded * decoded;
                product += value * decoded;
                spread += (value - mean) * (value - mean);
            }
            into.error[block] += error;
            into.weighted_error[block] += error * weight;
            into.length_out[block] += square_out.sqrt();
            into.square_out[block] += square_out;
            into.product[block] += product;
            let (length_in, length_out) = (square_in.sqrt(), square_out.sqrt());
            let denominator = match self.job.profile {
                Profile::Reference if length_in < 1e-4 => 1.0,
                _ => length_in,
            };
            if denominator > 0.0 {
                into.ratio[block] += length_out / denominator;
                into.ratio_rows[block] += 1.0;
            }
            if length_in * length_out > 0.0 {
                into.cosine[block] += (product / (length_in * length_out)).clamp(-1.0, 1.0);
                into.cosine_rows[block] += 1.0;
            }
            if spread > LEAST_SPREAD * square_in {
                into.legacy[block] += 1.0 - error / spread;
                into.legacy_rows[block] += 1.0;
            }
            if let Some(batches) = &mut sums.batches {
                batches.square_out[batch] += square_out;
                batches.product[batch] += product;
            }
        }
        Ok(())
    }

    fn block(&self, row: usize) -> usize {
        (row as u128 * self.blocks as u128 / self.rows.max(1) as u128) as usize
    }
}
