//! Equal bins of the values of a latent, and the bits that describe them.

use crate::codes::{Columns, Latent};

/// Blocks of rows that the jackknife leaves out.
pub(super) const BLOCKS: usize = 50;

/// The number of rows of a block.
pub(super) fn block_rows(block: usize, rows: usize) -> usize {
    let start = |block: usize| (block * rows).div_ceil(BLOCKS);
    start(block + 1) - start(block)
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
    /// The bits per row of the latent in all `rows` rows.
    pub fn bits(&self, rows: usize) -> f64 {
        self.bits_of(self.sums(), rows as f64)
    }

    /// The same in all rows but those of one block, for every block.
    pub fn bits_without_blocks(&self, rows: usize) -> impl Iterator<Item = f64> {
        let all = self.sums();
        self.hits.chunks_exact(self.bins).enumerate().map(move |(block, hits)| {
            let rest = all.iter().zip(hits).map(|(sum, &hits)| sum - f64::from(hits)).collect();
            self.bits_of(rest, (rows - block_rows(block, rows)) as f64)
        })
    }

    /// The histogram of all rows.
    fn sums(&self) -> Vec<f64> {
        let mut sums = vec![0.0; self.bins];
        for hits in self.hits.chunks_exact(self.bins) {
            sums.iter_mut().zip(hits).for_each(|(sum, &hits)| *sum += f64::from(hits));
        }
        sums
    }

    fn bits_of(&self, mut sums: Vec<f64>, rows: f64) -> f64 {
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
