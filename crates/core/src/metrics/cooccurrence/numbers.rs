//! How the partners of every latent go with it in each set: one more walk over all rows, that looks at chosen pairs only.

use std::ops::Range;

use super::lines::Lines;
use super::pairs::each_row;
use super::partners::Together;
use super::{Sets, spectrum};
use crate::codes::Codes;
use crate::error::{Error, Result};
use crate::kernel::bits::Bits;
use crate::run::{Blocks, Column, Job, Leaders, Next, Tally};

/// Rows of a block.
const ROWS: usize = 1 << 19;

/// Numbers of a partner: its latent, then product, Jaccard and PMI among the real rows and in every model.
pub(super) const PER_SET: usize = 3;

pub(super) struct Numbers {
    sets: Sets,
    place: usize,
    /// What the lines gave.
    lines: Tally,
    /// By set and latent, in how many rows it fires.
    fired: Vec<Vec<u64>>,
    /// The partners of every latent.
    leaders: Leaders,
    chosen: Chosen,
}

impl Numbers {
    pub fn start(lines: &Lines, mut tally: Tally, job: &Job<'_>) -> Result<Next> {
        let leaders = match tally.columns.pop() {
            Some(Column::Top(leaders)) => leaders,
            None => Leaders::new(0, 0),
            Some(_) => return Err(Error::Bug("lines without partners".into())),
        };
        let fired = lines.counts.iter().map(|counts| counts.fired.clone()).collect();
        let chosen = Chosen::of(&leaders);
        let bytes = (16 * chosen.pairs() * lines.counts.len()) as u64;
        let threads = rayon::current_num_threads() as u64;
        job.budget.take(bytes.saturating_mul(threads), format!("{} pairs of partners", chosen.pairs()))?;
        let (sets, place) = (lines.sets.clone(), lines.place);
        Ok(Next::Blocks(Box::new(Numbers { sets, place, lines: tally, fired, leaders, chosen })))
    }

    /// A list per latent: its partners, each with [`PER_SET`] numbers for every set behind it.
    fn lists(&self, products: &[f64], both: &[u64]) -> Vec<(u64, Vec<f64>)> {
        let (sets, rows) = (self.fired.len(), self.sets.real.rows());
        let list = |latent: usize| {
            let mut list = Vec::new();
            for (_, other) in self.leaders.of(latent) {
                list.push(f64::from(other));
                let (low, high) = ordered(latent as u32, other);
                let place = self.chosen.find(low, high);
                for (set, fired) in self.fired.iter().enumerate() {
                    let of = |place: usize| (products[place * sets + set], both[place * sets + set]);
                    let (product, both) = place.map_or((0.0, 0), of);
                    let fired = [fired[latent], fired[other as usize]];
                    list.extend(numbers(Together::new(product, both, fired, rows)));
                }
            }
            (latent as u64, list)
        };
        (0..self.leaders.things()).map(list).collect()
    }
}

impl Blocks for Numbers {
    fn count(&self) -> usize {
        if self.chosen.pairs() == 0 { 0 } else { self.sets.real.rows().div_ceil(ROWS) }
    }

    fn unit(&self) -> &'static str {
        "blocks of rows"
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let rows = block * ROWS..((block + 1) * ROWS).min(self.sets.real.rows());
        let sets = self.fired.len();
        let (mut products, mut both) = (vec![0.0; self.chosen.pairs() * sets], vec![0; self.chosen.pairs() * sets]);
        for (set, codes) in self.sets.all().enumerate() {
            self.chosen.each(codes, rows.clone(), |place, mine, value| {
                products[place * sets + set] += f64::from(mine) * f64::from(value);
                both[place * sets + set] += u64::from(mine > 0.0 && value > 0.0);
            })?;
        }
        Ok(Tally { columns: vec![Column::Sum(products), Column::Count(both)] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let lists =
            if tally.columns.is_empty() { self.lists(&[], &[]) } else { self.lists(tally.sums(0)?, tally.counts(1)?) };
        let mut lines = self.lines.clone();
        lines.columns.push(Column::Lists(lists));
        spectrum::Spectra::start(self.sets.clone(), lines, self.place, job)
    }
}

fn ordered(one: u32, other: u32) -> (u32, u32) {
    (one.min(other), one.max(other))
}

fn numbers(together: Together) -> [f64; PER_SET] {
    [together.product, together.jaccard.unwrap_or(f64::NAN), together.pmi.unwrap_or(f64::NAN)]
}

/// Pairs of latents, each once.
struct Chosen {
    /// Where the pairs begin whose lower latent this is, and where the last end.
    starts: Vec<usize>,
    /// The higher latents, ascending for each lower one.
    others: Vec<u32>,
    /// Has a bit for every pair, at a place where few others have one: most pairs are not chosen, and one look says so.
    filter: Bits,
}

impl Chosen {
    fn of(leaders: &Leaders) -> Chosen {
        let latents = leaders.things();
        let with = |latent: usize| leaders.of(latent).map(move |(_, other)| ordered(latent as u32, other));
        let mut pairs: Vec<(u32, u32)> = (0..latents).flat_map(with).collect();
        pairs.sort_unstable();
        pairs.dedup();
        let starts = (0..=latents).map(|latent| pairs.partition_point(|pair| (pair.0 as usize) < latent)).collect();
        let mut filter = Bits::empty((8 * pairs.len()).next_power_of_two());
        pairs.iter().for_each(|&(low, high)| filter.insert(spot(low, high, filter.len())));
        Chosen { starts, others: pairs.into_iter().map(|pair| pair.1).collect(), filter }
    }

    fn pairs(&self) -> usize {
        self.others.len()
    }

    /// The number of a pair, if it is chosen.
    #[inline]
    fn find(&self, low: u32, high: u32) -> Option<usize> {
        let first = self.starts[low as usize];
        let found = self.others[first..self.starts[low as usize + 1]].binary_search(&high);
        found.ok().map(|place| first + place)
    }

    /// Calls for every chosen pair of every row with its number and both values.
    fn each(&self, codes: &Codes, rows: Range<usize>, mut take: impl FnMut(usize, f32, f32)) -> Result<()> {
        // Pairs that may be chosen are put aside without asking at each whether it is one, and looked up together.
        let (mut hits, mut count) = (vec![Hit::default(); HITS], 0);
        let mut look_up = |hits: &[Hit]| {
            for hit in hits {
                if let Some(number) = self.find(hit.low, hit.high) {
                    take(number, hit.mine, hit.value);
                }
            }
        };
        each_row(codes, rows, |_, latents, values| {
            for (place, (&low, &mine)) in latents.iter().zip(values).enumerate() {
                let (others, values) = (&latents[place + 1..], &values[place + 1..]);
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

    /// Whether a pair may be chosen.
    #[inline]
    fn may_be(&self, low: u32, high: u32) -> bool {
        self.filter.contains(spot(low, high, self.filter.len()))
    }
}

/// Pairs that are looked up together.
const HITS: usize = 4096;

/// A pair that may be chosen, and the values of both in a row.
#[derive(Clone, Copy, Default)]
struct Hit {
    low: u32,
    high: u32,
    mine: f32,
    value: f32,
}

/// A place below a power of two that looks random.
#[inline]
fn spot(low: u32, high: u32, below: usize) -> usize {
    let mixed = (u64::from(low) << 32 | u64::from(high)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 32) as usize & (below - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_pairs_are_found_and_no_others() {
        // Latent 0 has partners 3 and 1, latent 1 has 0, latent 3 has 2.
        let mut leaders = Leaders::new(4, 2);
        for (latent, product, other) in [(0, 2.0, 3), (0, 1.0, 1), (1, 1.0, 0), (3, 5.0, 2)] {
            leaders.offer(latent, product, other);
        }
        let chosen = Chosen::of(&leaders);
        let found = |low, high| chosen.find(low, high);
        assert_eq!((found(0, 1), found(0, 3), found(2, 3)), (Some(0), Some(1), Some(2)));
        assert_eq!((chosen.pairs(), found(0, 2), found(1, 2), found(1, 3)), (3, None, None, None));
        let codes = Codes::from_dense(&[1.0, 0.0, 2.0, 3.0, 0.0, 4.0, 5.0, 0.0], 4).unwrap();
        let mut seen = Vec::new();
        chosen.each(&codes, 0..2, |place, mine, value| seen.push((place, mine, value))).unwrap();
        assert_eq!(seen, [(1, 1.0, 3.0), (2, 2.0, 3.0)]);
    }
}
