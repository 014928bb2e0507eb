//! Statistics of every latent with its partners in each set, from a second scan of the rows for chosen pairs only.

use std::ops::Range;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::pairs::{LatentCounts, each_row};
use super::row_sweep::{ROWS, block_rows};
use super::sets::CodeSets;
use crate::codes::Codes;
use crate::context::{Context, Reservation, Reserved};
use crate::error::Result;
use crate::run::{Count, Job, Sum, TopRows, Work};
use crate::state;
use etalon_kernel::bits::Bits;

/// Latents per block.
const LATENTS: usize = 4096;

/// How strongly two latents fire together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Association {
    /// The sum over rows of the product of the two values.
    pub product: f64,
    /// Rows where both fire, as a share of those where one does; `None` where neither ever fires.
    pub jaccard: Option<f64>,
    /// Pointwise mutual information of firing; `None` where they never fire together.
    pub pmi: Option<f64>,
}

impl Association {
    /// From the sum of products, the rows where both fire, the rows where each fires, and the number of rows.
    pub fn new(product: f64, both: u64, fired: [u64; 2], rows: usize) -> Association {
        let either = fired[0] + fired[1] - both;
        let pmi = || libm::log(both as f64 * rows as f64 / (fired[0] as f64 * fired[1] as f64));
        Association { product, jaccard: (either > 0).then(|| both as f64 / either as f64), pmi: (both > 0).then(pmi) }
    }
}

/// A partner of a latent.
#[derive(Serialize, Deserialize)]
pub(super) struct PartnerStats {
    pub latent: u32,
    /// Their association in the real rows, then in every model.
    pub sets: Vec<Association>,
}

/// By pair and set.
#[derive(Serialize, Deserialize)]
struct PairSums {
    /// Sums of products.
    products: Sum,
    /// Rows where both fire.
    both: Count,
}

state!(PairSums { products, both });

/// The partners of every latent; empty if no partners are kept.
pub(super) fn partner_stats(
    sets: &CodeSets<'_>,
    counts: &[LatentCounts],
    partners: &TopRows,
    work: &mut Work<'_>,
) -> Result<Reserved<Vec<Vec<PartnerStats>>>> {
    let CodeSets { job, shape, lazy } = sets;
    let chosen = Chosen::new(partners, job)?;
    let (pairs, set_count) = (chosen.pairs(), shape.sets());
    let blocks = if pairs == 0 { 0 } else { shape.rows.div_ceil(ROWS) };
    let empty = || PairSums { products: Sum::new(pairs * set_count), both: Count::new(pairs * set_count) };
    let sums = work.fold_with(lazy, "blocks of rows", blocks, empty, |sets, sums, block| {
        for (set, codes) in sets.codes.iter().enumerate() {
            chosen.each(codes, block_rows(block, shape), job.context, |pair, mine, value| {
                sums.products[pair * set_count + set] += f64::from(mine) * f64::from(value);
                sums.both[pair * set_count + set] += u64::from(mine > 0.0 && value > 0.0);
            })?;
        }
        Ok(())
    })?;
    let of_latent = |latent: usize| {
        let stats = |(_, other): (f32, u32)| {
            let (low, high) = ordered(latent as u32, other);
            let pair = chosen.find(low, high);
            let of_set = |(set, counts): (usize, &LatentCounts)| {
                let of = |pair: usize| (sums.products[pair * set_count + set], sums.both[pair * set_count + set]);
                let (product, both) = pair.map_or((0.0, 0), of);
                Association::new(product, both, [counts.fired[latent], counts.fired[other as usize]], shape.rows)
            };
            PartnerStats { latent: other, sets: counts.iter().enumerate().map(of_set).collect() }
        };
        partners.of(latent).map(stats).collect::<Vec<_>>()
    };
    let latents = if job.whole("partners")? > 0 { shape.latents } else { 0 };
    let found = work.blocks("blocks of latents", latents.div_ceil(LATENTS), |block| {
        let latents = block * LATENTS..((block + 1) * LATENTS).min(latents);
        Ok(latents.map(of_latent).collect::<Vec<_>>())
    })?;
    Ok(found.map(|blocks| blocks.into_iter().flatten().collect()))
}

fn ordered(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

/// The pairs of latents that are partners, each once.
struct Chosen {
    /// By lower latent, the index of its first pair; then the number of pairs.
    starts: Vec<usize>,
    /// The higher latents, ascending for each lower one.
    others: Vec<u32>,
    /// A Bloom filter with one hash: most pairs are not chosen, and one lookup rejects them.
    filter: Bits,
    _memory: Reservation,
}

impl Chosen {
    fn new(partners: &TopRows, job: &Job<'_>) -> Result<Chosen> {
        let latents = partners.items();
        let most: usize = (0..latents).map(|latent| partners.of(latent).len()).sum();
        // A pair while it is sorted, its higher latent, and up to 16 bits of the filter.
        let memory = job.budget().reserve((8 * latents + 14 * most) as u64, format!("{most} pairs of partners"))?;
        let with = |latent: usize| partners.of(latent).map(move |(_, other)| ordered(latent as u32, other));
        let mut pairs: Vec<(u32, u32)> = (0..latents).flat_map(with).collect();
        pairs.par_sort_unstable();
        pairs.dedup();
        let starts = (0..=latents).map(|latent| pairs.partition_point(|pair| (pair.0 as usize) < latent)).collect();
        let mut filter = Bits::empty((8 * pairs.len()).next_power_of_two());
        pairs.iter().for_each(|&(low, high)| filter.insert(hash(low, high, filter.len())));
        let others = pairs.into_iter().map(|pair| pair.1).collect();
        Ok(Chosen { starts, others, filter, _memory: memory })
    }

    fn pairs(&self) -> usize {
        self.others.len()
    }

    /// The index of a pair, if it is chosen.
    #[inline]
    fn find(&self, low: u32, high: u32) -> Option<usize> {
        let first = self.starts[low as usize];
        let found = self.others[first..self.starts[low as usize + 1]].binary_search(&high);
        found.ok().map(|index| first + index)
    }

    /// Calls `take` with every chosen pair of every row: its index and both values.
    fn each(
        &self,
        codes: &Codes,
        rows: Range<usize>,
        context: &Context,
        mut take: impl FnMut(usize, f32, f32),
    ) -> Result<()> {
        // Pairs that pass the filter are collected without a branch and looked up together.
        let (mut hits, mut count) = (vec![Hit::default(); HITS], 0);
        let mut look_up = |hits: &[Hit]| {
            for hit in hits {
                if let Some(pair) = self.find(hit.low, hit.high) {
                    take(pair, hit.mine, hit.value);
                }
            }
        };
        each_row(codes, rows, context, |_, latents, values| {
            for (index, (&low, &mine)) in latents.iter().zip(values).enumerate() {
                let (others, values) = (&latents[index + 1..], &values[index + 1..]);
                if count + others.len() > hits.len() {
                    look_up(&hits[..count]);
                    count = 0;
                    hits.resize(HITS.max(others.len()), Hit::default());
                }
                for (&high, &value) in others.iter().zip(values) {
                    hits[count] = Hit { low, high, mine, value };
                    count += usize::from(self.may_be(low, high));
                }
            }
        })?;
        look_up(&hits[..count]);
        Ok(())
    }

    /// Whether a pair passes the filter.
    #[inline]
    fn may_be(&self, low: u32, high: u32) -> bool {
        self.filter.contains(hash(low, high, self.filter.len()))
    }
}

/// Pairs that are looked up together.
const HITS: usize = 4096;

/// A pair that passes the filter, and both values in a row.
#[derive(Clone, Copy, Default)]
struct Hit {
    low: u32,
    high: u32,
    mine: f32,
    value: f32,
}

/// A hash of a pair, below a power of two.
#[inline]
fn hash(low: u32, high: u32, below: usize) -> usize {
    let mixed = (u64::from(low) << 32 | u64::from(high)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize & (below - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::cooccurrence::Cooccurrence;
    use crate::metrics::testing::with_work;
    use crate::run::Inputs;

    #[test]
    fn chosen_pairs_are_found_and_no_others() {
        // Latent 0 has partners 3 and 1, latent 1 has 0, latent 3 has 2.
        let mut partners = TopRows::new(4, 2);
        for (latent, product, other) in [(0, 2.0, 3), (0, 1.0, 1), (1, 1.0, 0), (3, 5.0, 2)] {
            partners.offer(latent, product, other);
        }
        let context = Context::silent(1, 1 << 20).unwrap();
        let chosen =
            with_work(&Cooccurrence, &Inputs::default(), &context, |job, _| Chosen::new(&partners, job)).unwrap();
        let found = |low, high| chosen.find(low, high);
        assert_eq!((found(0, 1), found(0, 3), found(2, 3)), (Some(0), Some(1), Some(2)));
        assert_eq!((chosen.pairs(), found(0, 2), found(1, 2), found(1, 3)), (3, None, None, None));
        let codes = Codes::from_dense(&[1.0, 0.0, 2.0, 3.0, 0.0, 4.0, 5.0, 0.0], 4).unwrap();
        let mut seen = Vec::new();
        chosen.each(&codes, 0..2, &context, |pair, mine, value| seen.push((pair, mine, value))).unwrap();
        assert_eq!(seen, [(1, 1.0, 3.0), (2, 2.0, 3.0)]);
    }
}
