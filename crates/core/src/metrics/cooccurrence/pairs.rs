//! The latents that fire together with those of a range, found in one scan of all rows.
//!
//! Looking up the rows of one latent after another would access memory at random; the scan reads rows in order and sorts
//! the pairs by latent. Each pair is found once, with the lower of its latents.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::matrix_row::MatrixRow;
use crate::codes::{Codes, CodesView};
use crate::context::Context;
use crate::error::{Error, InputError, Result};
use crate::run::Count;
use crate::state;

/// Rows per view.
const ROWS: usize = 1 << 16;

/// Bits of a record for the other latent; those of the group follow.
const LATENT_BITS: u32 = 26;

/// Counts of every latent over all rows.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct LatentCounts {
    /// Rows where it fires: its value is above 0.
    pub fired: Count,
    /// Entries after it in its rows.
    pub after: Count,
    /// Negative values of all latents together.
    negative: Count,
}

state!(LatentCounts { fired, after, negative });

impl LatentCounts {
    pub fn new(latents: usize) -> LatentCounts {
        LatentCounts { fired: Count::new(latents), after: Count::new(latents), negative: Count::new(1) }
    }

    pub fn add(&mut self, codes: &Codes, rows: Range<usize>, context: &Context) -> Result<()> {
        each_row(codes, rows, context, |_, latents, values| {
            for (index, (&latent, &value)) in latents.iter().zip(values).enumerate() {
                self.fired[latent as usize] += u64::from(value > 0.0);
                self.after[latent as usize] += (latents.len() - 1 - index) as u64;
                self.negative[0] += u64::from(value < 0.0);
            }
        })
    }

    /// Whether any value is negative.
    pub fn is_signed(&self) -> bool {
        self.negative[0] > 0
    }
}

/// Refuses more latents than a record can store.
pub(super) fn check_latents(latents: usize) -> Result<()> {
    if latents >> LATENT_BITS == 0 {
        return Ok(());
    }
    Err(InputError::new("too many latents to pair")
        .expected(format!("at most {}", 1u32 << LATENT_BITS))
        .found(latents)
        .into())
}

/// Calls `take` with every row of a range, in order.
pub(super) fn each_row(
    codes: &Codes,
    rows: Range<usize>,
    context: &Context,
    mut take: impl FnMut(usize, &[u32], &[f32]),
) -> Result<()> {
    for first in rows.clone().step_by(ROWS) {
        let view = codes.view(first..(first + ROWS).min(rows.end))?;
        for part in (0..view.rows()).step_by(BATCH) {
            context.check()?;
            for index in part..(part + BATCH).min(view.rows()) {
                let (latents, values) = view.row(index);
                take(first + index, latents, values);
            }
        }
    }
    Ok(())
}

/// The pairs of every latent of a range with the later latents of its rows.
pub(super) struct Pairs<'a> {
    range: Range<usize>,
    /// The first record of every latent, and the end of its records.
    starts: Vec<usize>,
    ends: Vec<usize>,
    records: &'a [PairRecord],
}

/// Rows that are searched for latents of the range before their records are written.
const BATCH: usize = 1024;

/// An entry of the range: its index, the end of its row, and the row's group.
#[derive(Clone, Copy, Default)]
struct Hit {
    entry: u32,
    end: u32,
    group: u32,
}

/// Records are written four at a time, even where fewer are left: the excess is overwritten, or ends in the gap between two
/// latents. A branch on the number left would cost more than writing them.
const FOUR: usize = 4;

/// One pair in one row: the other latent with the row's group, and the two halves of the product. They are adjacent, so that
/// every latent writes to one address.
pub(super) type PairRecord = [u32; 3];

#[inline]
fn record(other: u32, group: u32, mine: f32, value: f32) -> PairRecord {
    let product = (f64::from(mine) * f64::from(value)).to_bits();
    [other | group << LATENT_BITS, product as u32, (product >> 32) as u32]
}

impl<'a> Pairs<'a> {
    /// Bytes of a record.
    pub const BYTES: u64 = size_of::<PairRecord>() as u64;

    /// Number of records that the memory for a range must hold.
    pub fn records(range: &Range<usize>, after: &[u64]) -> usize {
        after[range.clone()].iter().map(|&count| count as usize + FOUR - 1).sum()
    }

    /// `memory` must hold [`Pairs::records`].
    pub fn of(
        codes: &Codes,
        groups: &[u8],
        range: Range<usize>,
        after: &[u64],
        memory: &'a mut [PairRecord],
        context: &Context,
    ) -> Result<Pairs<'a>> {
        let mut starts = Vec::with_capacity(range.len());
        let mut total = 0;
        for count in after[range.clone()].iter().copied() {
            starts.push(total);
            total += count as usize + FOUR - 1;
        }
        let mut ends = starts.clone();
        let records = memory.get_mut(..total).ok_or_else(|| Error::Bug("too little memory for pairs".into()))?;
        let mut hits = Vec::new();
        for first in (0..codes.rows()).step_by(ROWS) {
            let view = codes.view(first..(first + ROWS).min(codes.rows()))?;
            for part in (0..view.rows()).step_by(BATCH) {
                context.check()?;
                let rows = part..(part + BATCH).min(view.rows());
                let found = search(&view, rows, &groups[first..], &range, &mut hits);
                write(&view, &hits[..found], range.start as u32, &mut ends, records);
            }
        }
        Ok(Pairs { range, starts, ends, records })
    }

    /// Writes the pairs of a latent into a row of the matrix.
    pub fn fill(&self, latent: usize, into: &mut MatrixRow) {
        let index = latent - self.range.start;
        for &[tagged, low, high] in &self.records[self.starts[index]..self.ends[index]] {
            let product = f64::from_bits(u64::from(high) << 32 | u64::from(low));
            into.add(tagged & ((1 << LATENT_BITS) - 1), product, (tagged >> LATENT_BITS) as usize);
        }
    }
}

/// Finds the entries of a range of latents that are not the last of their row, and returns their number.
fn search(view: &CodesView<'_>, rows: Range<usize>, groups: &[u8], range: &Range<usize>, hits: &mut Vec<Hit>) -> usize {
    let (low, length) = (range.start as u32, range.len() as u32);
    let most = view.entries(rows.end - 1).end - view.entries(rows.start).start;
    hits.resize(hits.len().max(most), Hit::default());
    let (latents, mut count) = (view.latents(), 0);
    for row in rows {
        let entries = view.entries(row);
        let (group, end) = (u32::from(groups[row]), entries.end as u32);
        let from = entries.start;
        for (index, latent) in latents[from..entries.end.max(from + 1) - 1].iter().enumerate() {
            // Written without a branch; the next one overwrites it if it is not in the range.
            hits[count] = Hit { entry: (from + index) as u32, end, group };
            count += usize::from(latent.wrapping_sub(low) < length);
        }
    }
    count
}

/// Writes the records of some entries.
fn write(view: &CodesView<'_>, hits: &[Hit], low: u32, ends: &mut [usize], records: &mut [PairRecord]) {
    let (latents, values) = (view.latents(), view.values());
    for &Hit { entry, end, group } in hits {
        let (entry, end) = (entry as usize, end as usize);
        let mine = values[entry];
        let next = &mut ends[(latents[entry] - low) as usize];
        let (from, count) = (*next, end - entry - 1);
        *next += count;
        for step in (0..count).step_by(FOUR) {
            let others = entry + 1 + step;
            if let (Some(latents), Some(values)) =
                (latents.get(others..others + FOUR), values.get(others..others + FOUR))
            {
                let into = &mut records[from + step..from + step + FOUR];
                for index in 0..FOUR {
                    into[index] = record(latents[index], group, mine, values[index]);
                }
            } else {
                for index in step..count {
                    records[from + index] = record(latents[entry + 1 + index], group, mine, values[entry + 1 + index]);
                }
                break;
            }
        }
    }
}

/// Writes the pairs of one latent directly into a row of the matrix, for a latent with more pairs than fit into memory.
pub(super) fn fill_alone(
    codes: &Codes,
    groups: &[u8],
    latent: u32,
    into: &mut MatrixRow,
    context: &Context,
) -> Result<()> {
    each_row(codes, 0..codes.rows(), context, |row, latents, values| {
        let Some(index) = latents.iter().position(|&other| other == latent) else { return };
        let mine = values[index];
        for (&other, &value) in latents.iter().zip(values).skip(index + 1) {
            into.add(other, f64::from(mine) * f64::from(value), usize::from(groups[row]));
        }
    })
}

/// Cuts latents into ranges with at most `most` pairs each, or of a single latent.
pub(super) fn ranges(pairs: &[u64], most: u64) -> Vec<Range<usize>> {
    let (mut found, mut first, mut sum) = (Vec::new(), 0, 0);
    for (latent, &count) in pairs.iter().enumerate() {
        if latent > first && sum + count > most {
            found.push(first..latent);
            (first, sum) = (latent, 0);
        }
        sum += count;
    }
    if first < pairs.len() {
        found.push(first..pairs.len());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::huge_pages::HugeVec;
    use etalon_kernel::random::{stream, unit};

    fn counts(codes: &Codes, context: &Context) -> LatentCounts {
        let mut counts = LatentCounts::new(codes.latents());
        counts.add(codes, 0..codes.rows(), context).unwrap();
        counts
    }

    #[test]
    fn ranges_cover_all_latents_within_the_limit() {
        assert_eq!(ranges(&[3, 3, 3, 9, 1, 0], 6), [0..2, 2..3, 3..4, 4..6]);
        assert!(ranges(&[], 5).is_empty());
        assert_eq!(ranges(&[0, 0, 1], 0), [0..2, 2..3]);
    }

    #[test]
    fn long_rows_are_recorded_completely() {
        let mut random = stream(5, "pairs test", 0);
        let latents = 60;
        let values: Vec<f32> =
            (0..400 * latents)
                .map(|index| {
                    if unit(&mut random) < [0.0, 0.1, 0.6][index / latents % 3] {
                        unit(&mut random) as f32
                    } else {
                        0.0
                    }
                })
                .collect();
        let codes = Codes::from_dense(&values, latents).unwrap();
        let groups: Vec<u8> = (0..400).map(|row| (row % 20) as u8).collect();
        let context = Context::silent(1, 1 << 20).unwrap();
        let counts = counts(&codes, &context);
        let range = 7..41;
        let mut memory = HugeVec::zeros(Pairs::records(&range, &counts.after));
        let pairs = Pairs::of(&codes, &groups, range.clone(), &counts.after, &mut memory, &context).unwrap();
        for latent in range {
            let (mut one, mut other) = (MatrixRow::new(latents, true), MatrixRow::new(latents, true));
            pairs.fill(latent, &mut one);
            fill_alone(&codes, &groups, latent as u32, &mut other, &context).unwrap();
            assert!(one == other, "{latent}");
        }
    }

    #[test]
    fn a_range_gives_the_same_rows_as_single_latents() {
        // Rows × latents.
        let values = [1.0, 2.0, 0.0, -1.0, 0.0, 3.0, 4.0, 0.5, 0.25, 0.0, 0.0, 0.0, 1.5, 0.0, 2.0, -2.0];
        let codes = Codes::from_dense(&values, 4).unwrap();
        let groups = [0, 3, 19, 7];
        let context = Context::silent(1, 1 << 20).unwrap();
        let counts = counts(&codes, &context);
        assert_eq!((&counts.fired[..], &counts.after[..]), (&[3, 2, 2, 1][..], &[4, 3, 2, 0][..]));
        assert!(counts.is_signed());
        let mut memory = HugeVec::zeros(Pairs::records(&(0..4), &counts.after));
        for range in [0..4, 1..3, 3..4] {
            let pairs = Pairs::of(&codes, &groups, range.clone(), &counts.after, &mut memory, &context).unwrap();
            for latent in range {
                let (mut one, mut other) = (MatrixRow::new(4, true), MatrixRow::new(4, true));
                pairs.fill(latent, &mut one);
                fill_alone(&codes, &groups, latent as u32, &mut other, &context).unwrap();
                assert!(one == other);
            }
        }
        // After latent 1 come 2 · −1 in the first row, 3 · 4 and 3 · 1/2 in the second.
        let mut row = MatrixRow::new(4, false);
        fill_alone(&codes, &groups, 1, &mut row, &context).unwrap();
        assert_eq!([0, 2, 3].map(|other| row.product(other)), [0.0, 12.0, -0.5]);
    }
}
