//! Equal bins of the values of a latent, and the bits that describe them.

use etalon_kernel::random::{index, stream};

use crate::codes::{Columns, Latent};
use crate::results::RESAMPLES;

/// Blocks of rows that the bootstrap draws from.
pub(super) const BLOCKS: usize = 50;

/// A resample of blocks of rows.
pub(super) struct Draw {
    /// How often each block is drawn.
    pub weights: Vec<f64>,
    /// The number of rows of these blocks.
    pub rows: f64,
}

/// The resamples; none with too few rows.
pub(super) fn draws(rows: usize, seed: u64) -> Vec<Draw> {
    if rows < 2 * BLOCKS {
        return Vec::new();
    }
    let mut random = stream(seed, "mdl", 0);
    let start = |block: usize| (block * rows).div_ceil(BLOCKS);
    let draw = |_| {
        let mut weights = vec![0.0; BLOCKS];
        (0..BLOCKS).for_each(|_| weights[index(BLOCKS, &mut random)] += 1.0);
        let sizes = (0..BLOCKS).map(|block| (start(block + 1) - start(block)) as f64);
        let rows = sizes.zip(&weights).map(|(size, weight)| size * weight).sum();
        Draw { weights, rows }
    };
    (0..RESAMPLES).map(draw).collect()
}

/// Equal bins for every latent.
pub(super) struct Bins {
    pub count: usize,
    /// Whether histograms count the rows in which a latent does not fire, as the released code does.
    zeros: bool,
    /// The lowest value and the width of a bin, by latent.
    bins: Vec<(f64, f64)>,
}

impl Bins {
    /// Divides the range of every latent into `count` bins.
    pub fn new(ranges: &[(f64, f64)], count: usize, zeros: bool) -> Bins {
        let bins = |&(low, high): &(f64, f64)| (low, ((high - low) / count as f64).max(0.0));
        Bins { count, zeros, bins: ranges.iter().map(bins).collect() }
    }

    fn bin(&self, latent: usize, value: f32) -> usize {
        let (low, width) = self.bins[latent];
        if width > 0.0 { (((f64::from(value) - low) / width) as usize).min(self.count - 1) } else { 0 }
    }

    /// The middle of the bin of a value.
    pub fn middle(&self, latent: usize, value: f32) -> f64 {
        let (low, width) = self.bins[latent];
        low + (self.bin(latent, value) as f64 + 0.5) * width
    }

    /// The histogram of a latent's values by block of rows; `None` for a latent that never fires.
    pub fn counts(&self, columns: &Columns, rows: usize, latent: usize) -> Option<Counts> {
        let (firing, values) = columns.latent(Latent(latent as u32));
        if firing.is_empty() {
            return None;
        }
        let mut hits = vec![0u32; BLOCKS * self.count];
        for (&row, &value) in firing.iter().zip(values) {
            hits[(row as usize * BLOCKS / rows) * self.count + self.bin(latent, value)] += 1;
        }
        Some(Counts { bins: self.count, hits, zero_bin: self.zeros.then(|| self.bin(latent, 0.0)) })
    }
}

/// A histogram of one latent.
pub(super) struct Counts {
    bins: usize,
    /// `blocks × bins`.
    hits: Vec<u32>,
    /// The bin of the rows in which the latent does not fire, if they are counted.
    zero_bin: Option<usize>,
}

impl Counts {
    /// The bits per row of the latent, with a weight for every block and `rows` rows in total.
    pub fn bits(&self, weights: &[f64], rows: f64) -> f64 {
        let mut sums = vec![0.0; self.bins];
        for (hits, weight) in self.hits.chunks_exact(self.bins).zip(weights).filter(|(_, weight)| **weight > 0.0) {
            sums.iter_mut().zip(hits).for_each(|(sum, &hits)| *sum += weight * f64::from(hits));
        }
        let fired: f64 = sums.iter().sum();
        let share = fired / rows;
        if let Some(bin) = self.zero_bin {
            sums[bin] += rows - fired;
        }
        let counted = if self.zero_bin.is_some() { rows } else { fired.max(f64::MIN_POSITIVE) };
        let inner: f64 = sums.iter().map(|sum| term(sum / counted)).sum();
        term(share) + term(1.0 - share) + share * inner
    }
}

/// −p log₂ p.
fn term(p: f64) -> f64 {
    if p > 0.0 && p < 1.0 { -p * libm::log2(p) } else { 0.0 }
}
