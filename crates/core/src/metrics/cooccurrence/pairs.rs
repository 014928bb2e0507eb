//! Which latents fire together with those of a range, found in one walk over all rows.
//!
//! Looking up the rows of one latent after the other would jump through memory; this walk reads rows in their order and
//! sorts what it finds by latent. A pair is found once, with the lower of its latents.

use std::ops::Range;

use super::counts::GROUPS;
use super::line::Line;
use crate::codes::Codes;
use crate::error::{Complaint, Error, Result};
use crate::kernel::large::Large;

/// Rows that are read at a time.
const ROWS: usize = 1 << 16;

/// Bits of a note that name the other latent; then come five for the group and one for whether both fire.
const OTHER: u32 = 26;

/// What a walk over all rows says of every latent.
pub(super) struct Counts {
    /// In how many rows it fires: above 0.
    pub fired: Vec<u64>,
    /// How many entries there are after it in its rows.
    pub after: Vec<u64>,
    /// Is any value negative?
    pub is_signed: bool,
}

impl Counts {
    pub fn of(codes: &Codes) -> Result<Counts> {
        let latents = codes.latents();
        if latents >> OTHER != 0 {
            return Err(Complaint::new("there are too many latents to pair")
                .expected(format!("at most {}", 1u32 << OTHER))
                .found(latents)
                .into());
        }
        let mut counts = Counts { fired: vec![0; latents], after: vec![0; latents], is_signed: false };
        each_row(codes, 0..codes.rows(), |_, latents, values| {
            for (place, (&latent, &value)) in latents.iter().zip(values).enumerate() {
                counts.fired[latent as usize] += u64::from(value > 0.0);
                counts.after[latent as usize] += (latents.len() - 1 - place) as u64;
                counts.is_signed |= value < 0.0;
            }
        })?;
        Ok(counts)
    }
}

/// Calls for every row of a range, in order.
pub(super) fn each_row(codes: &Codes, rows: Range<usize>, mut take: impl FnMut(usize, &[u32], &[f32])) -> Result<()> {
    for first in rows.clone().step_by(ROWS) {
        let view = codes.view(first..(first + ROWS).min(rows.end))?;
        view.iter().for_each(|(row, latents, values)| take(row, latents, values));
    }
    Ok(())
}

/// The entries after every latent of a range in its rows.
pub(super) struct Pairs {
    range: Range<usize>,
    /// Where the notes of every latent begin, and where the last end.
    starts: Vec<usize>,
    notes: Large<Note>,
}

/// One pair in one row: the other latent with the row's group and whether both fire, and the two halves of the product.
/// They lie together, so that every latent has one place where it writes.
pub(super) type Note = [u32; 3];

#[inline]
fn note(other: u32, group: u32, mine: f32, value: f32) -> Note {
    let product = (f64::from(mine) * f64::from(value)).to_bits();
    [other | group << OTHER | u32::from(mine > 0.0 && value > 0.0) << 31, product as u32, (product >> 32) as u32]
}

impl Pairs {
    /// Bytes of a pair.
    pub const BYTES: u64 = size_of::<Note>() as u64;

    /// `memory` must have room for the notes.
    pub fn of(
        codes: &Codes,
        groups: &[u8],
        range: Range<usize>,
        after: &[u64],
        mut memory: Large<Note>,
    ) -> Result<Pairs> {
        let mut starts = Vec::with_capacity(range.len() + 1);
        let mut total = 0;
        for count in after[range.clone()].iter().copied() {
            starts.push(total);
            total += count as usize;
        }
        let mut next = starts.clone();
        starts.push(total);
        let notes = memory.get_mut(..total).ok_or_else(|| Error::Bug("no room for pairs".into()))?;
        let bounds = range.start as u32..range.end as u32;
        each_row(codes, 0..codes.rows(), |row, latents, values| {
            let below = |bound: u32| latents.iter().filter(|&&latent| latent < bound).count();
            let group = u32::from(groups[row]);
            for place in below(bounds.start)..below(bounds.end) {
                let (others, mine) = (&latents[place + 1..], values[place]);
                let next = &mut next[(latents[place] - bounds.start) as usize];
                let notes = &mut notes[*next..*next + others.len()];
                *next += others.len();
                notes.iter_mut().zip(others.iter().zip(&values[place + 1..])).for_each(|(into, (&other, &value))| {
                    *into = note(other, group, mine, value);
                });
            }
        })?;
        Ok(Pairs { range, starts, notes: memory })
    }

    /// The memory, to be used again.
    pub fn into_memory(self) -> Large<Note> {
        self.notes
    }

    /// Writes the pairs of a latent into a line.
    pub fn fill(&self, latent: usize, line: &mut Line) {
        let place = latent - self.range.start;
        for &[what, low, high] in &self.notes[self.starts[place]..self.starts[place + 1]] {
            let group = (what >> OTHER) as usize % GROUPS.next_power_of_two();
            let product = f64::from_bits(u64::from(high) << 32 | u64::from(low));
            line.add(what & ((1 << OTHER) - 1), product, group, what >> 31 == 1);
        }
    }
}

/// Writes the pairs of one latent straight into a line: for a latent with so many that they would not fit elsewhere.
pub(super) fn fill_alone(codes: &Codes, groups: &[u8], latent: u32, line: &mut Line) -> Result<()> {
    each_row(codes, 0..codes.rows(), |row, latents, values| {
        let Some(place) = latents.iter().position(|&other| other == latent) else { return };
        let mine = values[place];
        for (&other, &value) in latents.iter().zip(values).skip(place + 1) {
            let both = mine > 0.0 && value > 0.0;
            line.add(other, f64::from(mine) * f64::from(value), usize::from(groups[row]), both);
        }
    })
}

/// Cuts latents into ranges with at most so many pairs each, or of one latent.
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

    #[test]
    fn ranges_cover_all_latents_and_are_small() {
        assert_eq!(ranges(&[3, 3, 3, 9, 1, 0], 6), [0..2, 2..3, 3..4, 4..6]);
        assert!(ranges(&[], 5).is_empty());
        assert_eq!(ranges(&[0, 0, 1], 0), [0..2, 2..3]);
    }

    #[test]
    fn a_walk_for_many_finds_what_a_walk_for_one_finds() {
        // Rows × latents, the group of each row beside it.
        let values = [1.0, 2.0, 0.0, -1.0, 0.0, 3.0, 4.0, 0.5, 0.25, 0.0, 0.0, 0.0, 1.5, 0.0, 2.0, -2.0];
        let codes = Codes::from_dense(&values, 4).unwrap();
        let groups = [0, 3, 19, 7];
        let counts = Counts::of(&codes).unwrap();
        assert_eq!((&counts.fired[..], &counts.after[..]), (&[3, 2, 2, 1][..], &[4, 3, 2, 0][..]));
        assert!(counts.is_signed);
        let mut memory = Large::zeros(9);
        for range in [0..4, 1..3, 3..4] {
            let pairs = Pairs::of(&codes, &groups, range.clone(), &counts.after, memory).unwrap();
            for latent in range {
                let (mut one, mut other) = (Line::new(4, true), Line::new(4, true));
                pairs.fill(latent, &mut one);
                fill_alone(&codes, &groups, latent as u32, &mut other).unwrap();
                assert!(one == other);
            }
            memory = pairs.into_memory();
        }
        // After latent 1 come 2 · −1 in the first row, 3 · 4 and 3 · 1/2 in the second.
        let mut line = Line::new(4, false);
        fill_alone(&codes, &groups, 1, &mut line).unwrap();
        assert_eq!([0, 2, 3].map(|other| line.product(other)), [0.0, 12.0, -0.5]);
    }
}
