//! Which latents fire where, arranged for counting: how often does each latent fire in some rows?
//!
//! Sparse codes keep lists, and counting walks the latents of each row. Where more than one entry in sixteen fires,
//! lists lose: a row becomes one bit per latent, and 64 latents are counted at once in bit-sliced counters.

use std::borrow::Cow;

use etalon_kernel::bits::Bits;

use super::row_order::CHECK_ROWS;
use crate::codes::Codes;
use crate::context::{Context, Reservation};
use crate::error::{InputError, Result};

/// Above one firing entry in so many, rows are kept as bits. A list entry costs about a nanosecond, a bit a
/// twentieth of one.
const DENSE: usize = 16;

/// Rows counted before the bit-sliced counters are emptied: the largest number that six bits hold.
const SLICE_ROWS: usize = 63;

/// Binary codes.
pub(super) struct Firing {
    rows: usize,
    latents: usize,
    fired: Vec<i32>,
    form: Form,
    _memory: Reservation,
}

enum Form {
    Lists { by_row: Lists, by_latent: Lists },
    Bits { by_row: Vec<u64>, by_latent: Vec<Bits> },
}

/// Lists one after the other.
struct Lists {
    offsets: Vec<usize>,
    entries: Vec<u32>,
}

impl Lists {
    fn list(&self, index: usize) -> &[u32] {
        &self.entries[self.offsets[index]..self.offsets[index + 1]]
    }
}

impl Firing {
    /// The entries of codes that are above a threshold.
    pub fn new(codes: &Codes, threshold: f32, context: &Context) -> Result<Firing> {
        let mut entries = 0usize;
        for (row, latents, values) in codes.all()?.iter() {
            if row % CHECK_ROWS == 0 {
                context.check()?;
            }
            entries += above(latents, values, threshold).count();
        }
        let dense = entries > codes.rows().saturating_mul(codes.latents()) / DENSE;
        Firing::in_form(codes, threshold, entries, dense, context)
    }

    /// The same with the form chosen by the caller, so that tests can compare both.
    pub fn in_form(codes: &Codes, threshold: f32, entries: usize, dense: bool, context: &Context) -> Result<Firing> {
        let (rows, latents) = (codes.rows(), codes.latents());
        if rows > i32::MAX as usize {
            return Err(InputError::new("too many rows to match")
                .expected(format!("at most {} rows", i32::MAX))
                .found(rows)
                .advice("match a sample of the rows")
                .into());
        }
        let words = latents.div_ceil(64);
        let bytes =
            if dense { rows * words * 8 + latents * rows.div_ceil(64) * 8 } else { 8 * (entries + rows + latents) };
        let memory = context.budget().reserve(bytes as u64, "binary codes by row and by latent")?;
        let mut fired = vec![0i32; latents];
        let mut by_row = vec![0u64; if dense { rows * words } else { 0 }];
        let mut by_latent = vec![Bits::empty(rows); if dense { latents } else { 0 }];
        let mut lists = Lists { offsets: vec![0], entries: Vec::with_capacity(if dense { 0 } else { entries }) };
        for (row, latents, values) in codes.all()?.iter() {
            if row % CHECK_ROWS == 0 {
                context.check()?;
            }
            for latent in above(latents, values, threshold) {
                fired[latent as usize] += 1;
                if dense {
                    by_row[row * words + latent as usize / 64] |= 1 << (latent % 64);
                    by_latent[latent as usize].insert(row);
                } else {
                    lists.entries.push(latent);
                }
            }
            if !dense {
                lists.offsets.push(lists.entries.len());
            }
        }
        let form = if dense {
            Form::Bits { by_row, by_latent }
        } else {
            context.check()?;
            Form::Lists { by_latent: transposed(&lists, &fired), by_row: lists }
        };
        Ok(Firing { rows, latents, fired, form, _memory: memory })
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// How many latents there are.
    pub fn latents(&self) -> usize {
        self.latents
    }

    /// Adds `step` to the count of a latent for every one of some rows in which it fires.
    pub fn count(&self, rows: &[u32], step: i32, counts: &mut [i32]) {
        match &self.form {
            Form::Lists { by_row, .. } => {
                for &row in rows {
                    by_row.list(row as usize).iter().for_each(|&latent| counts[latent as usize] += step);
                }
            }
            Form::Bits { by_row, .. } => {
                let words = self.latents.div_ceil(64);
                let mut planes = vec![[0u64; 6]; words];
                for rows in rows.chunks(SLICE_ROWS) {
                    for &row in rows {
                        let bits = &by_row[row as usize * words..][..words];
                        planes.iter_mut().zip(bits).for_each(|(planes, &bits)| add_bits(planes, bits));
                    }
                    for (planes, counts) in planes.iter_mut().zip(counts.chunks_mut(64)) {
                        empty_into(planes, step, counts);
                    }
                }
            }
        }
    }

    /// In how many rows a latent fires.
    pub fn fired(&self, latent: usize) -> usize {
        self.fired[latent] as usize
    }

    /// Adds the rows in which a latent fires to a set.
    pub fn cover(&self, latent: usize, set: &mut Bits) {
        match &self.form {
            Form::Lists { by_latent, .. } => by_latent.list(latent).iter().for_each(|&row| set.insert(row as usize)),
            Form::Bits { by_latent, .. } => set.union(&by_latent[latent]),
        }
    }

    /// Calls a function for every row in which a latent fires, ascending.
    pub fn each_row(&self, latent: usize, mut call: impl FnMut(usize)) {
        match &self.form {
            Form::Lists { by_latent, .. } => by_latent.list(latent).iter().for_each(|&row| call(row as usize)),
            Form::Bits { by_latent, .. } => by_latent[latent].rows().for_each(call),
        }
    }
}

/// The latents of a row that are above a threshold.
fn above<'a>(latents: &'a [u32], values: &'a [f32], threshold: f32) -> impl Iterator<Item = u32> + 'a {
    latents.iter().zip(values).filter(move |&(_, &value)| value > threshold).map(|(&latent, _)| latent)
}

/// Adds one bit to each of 64 counters of six bits.
fn add_bits(planes: &mut [u64; 6], bits: u64) {
    let mut carry = bits;
    for plane in planes {
        let both = *plane & carry;
        *plane ^= carry;
        carry = both;
    }
}

/// Adds 64 counters, times `step`, to plain counts and sets them to zero.
fn empty_into(planes: &mut [u64; 6], step: i32, counts: &mut [i32]) {
    for (counter, count) in counts.iter_mut().enumerate() {
        let value: i32 = planes.iter().enumerate().map(|(bit, plane)| ((plane >> counter & 1) as i32) << bit).sum();
        *count += step * value;
    }
    *planes = [0; 6];
}

/// Lists by latent from lists by row.
fn transposed(by_row: &Lists, fired: &[i32]) -> Lists {
    let mut offsets = vec![0usize; fired.len() + 1];
    for (latent, &count) in fired.iter().enumerate() {
        offsets[latent + 1] = offsets[latent] + count as usize;
    }
    let mut next = offsets.clone();
    let mut entries = vec![0u32; by_row.entries.len()];
    for row in 0..by_row.offsets.len() - 1 {
        for &latent in by_row.list(row) {
            entries[next[latent as usize]] = row as u32;
            next[latent as usize] += 1;
        }
    }
    Lists { offsets, entries }
}

/// A concept before the codes: rows whose label is unknown do not exist.
pub(super) struct Target<'a> {
    /// The codes.
    pub firing: &'a Firing,
    /// The rows where the concept is.
    pub yes: &'a Bits,
    /// The rows that exist; `None` for all.
    pub known: Option<&'a Bits>,
    /// How many rows have the concept.
    pub positives: usize,
    /// In how many rows with the concept each latent fires.
    pub hits: Vec<i32>,
    /// In how many known rows each latent fires.
    pub fired: Cow<'a, [i32]>,
}

impl<'a> Target<'a> {
    /// Counts the concept's rows.
    pub fn new(firing: &'a Firing, yes: &'a Bits, known: &'a Bits) -> Target<'a> {
        let positives: Vec<u32> = yes.rows().map(|row| row as u32).collect();
        let mut hits = vec![0; firing.latents()];
        firing.count(&positives, 1, &mut hits);
        let all_known = known.count() == firing.rows();
        let fired = if all_known {
            Cow::Borrowed(&firing.fired[..])
        } else {
            let unknown: Vec<u32> = (0..firing.rows() as u32).filter(|&row| !known.contains(row as usize)).collect();
            let mut fired = firing.fired.clone();
            firing.count(&unknown, -1, &mut fired);
            Cow::Owned(fired)
        };
        let known = (!all_known).then_some(known);
        Target { firing, yes, known, positives: positives.len(), hits, fired }
    }
}

/// What a growing coalition covers: the known rows in which any of its latents fires.
pub(super) struct Cover<'a> {
    target: &'a Target<'a>,
    rows: Bits,
    /// Covered rows that have the concept.
    pub true_positives: usize,
    /// Covered rows.
    pub predicted: usize,
}

impl<'a> Cover<'a> {
    /// Nothing is covered.
    pub fn new(target: &'a Target<'a>) -> Cover<'a> {
        Cover { target, rows: Bits::empty(target.firing.rows()), true_positives: 0, predicted: 0 }
    }

    /// Adds a latent and hands over the rows with the concept that were not covered before.
    pub fn add(&mut self, latent: usize, newly: &mut Vec<u32>) {
        newly.clear();
        self.target.firing.each_row(latent, |row| {
            if self.rows.contains(row) || self.target.known.is_some_and(|known| !known.contains(row)) {
                return;
            }
            self.rows.insert(row);
            self.predicted += 1;
            if self.target.yes.contains(row) {
                newly.push(row as u32);
            }
        });
        self.true_positives += newly.len();
    }

    /// F1 of the covered rows.
    pub fn f1(&self) -> f64 {
        f1(self.true_positives, self.target.positives, self.predicted)
    }
}

/// Twice the hits over the sum of both sides; 0 when both sides are empty.
pub(super) fn f1(true_positives: usize, positives: usize, predicted: usize) -> f64 {
    match positives + predicted {
        0 => 0.0,
        both => 2.0 * true_positives as f64 / both as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::{index, stream};

    #[test]
    fn lists_and_bits_count_alike() {
        let context = Context::silent(1, 1 << 30).unwrap();
        let mut random = stream(3, "firing", 0);
        for (rows, latents, one_in) in [(1, 1, 1), (70, 65, 2), (200, 130, 3), (130, 64, 1), (90, 200, 40)] {
            let values: Vec<f32> =
                (0..rows * latents).map(|_| (index(one_in, &mut random) == 0) as u8 as f32).collect();
            let codes = Codes::from_dense(&values, latents).unwrap();
            let lists = Firing::in_form(&codes, 0.0, codes.entries(), false, &context).unwrap();
            let bits = Firing::in_form(&codes, 0.0, codes.entries(), true, &context).unwrap();
            assert_eq!(lists.fired, bits.fired);
            let some: Vec<u32> = (0..rows as u32).filter(|_| index(3, &mut random) > 0).collect();
            let (mut from_lists, mut from_bits) = (vec![5; latents], vec![5; latents]);
            lists.count(&some, -1, &mut from_lists);
            bits.count(&some, -1, &mut from_bits);
            assert_eq!(from_lists, from_bits);
            for latent in 0..latents {
                let (mut a, mut b) = (Vec::new(), Vec::new());
                lists.each_row(latent, |row| a.push(row));
                bits.each_row(latent, |row| b.push(row));
                assert_eq!(a, b);
            }
        }
    }

    #[test]
    fn the_threshold_is_not_itself_above() {
        let codes = Codes::from_dense(&[0.5, 0.6, -1.0, 0.5], 2).unwrap();
        let firing = Firing::new(&codes, 0.5, &Context::silent(1, 1 << 20).unwrap()).unwrap();
        assert_eq!(firing.fired, [0, 1]);
    }

    #[test]
    fn unknown_rows_do_not_exist() {
        // Latent 0 fires in all four rows; row 3 is unknown, rows 0 and 1 have the concept.
        let codes = Codes::from_dense(&[1.0; 4], 1).unwrap();
        let firing = Firing::new(&codes, 0.0, &Context::silent(1, 1 << 20).unwrap()).unwrap();
        let (yes, known) = (Bits::of(4, [0, 1]), Bits::of(4, [0, 1, 2]));
        let target = Target::new(&firing, &yes, &known);
        assert_eq!((target.positives, target.hits[0], target.fired[0]), (2, 2, 3));
        let mut cover = Cover::new(&target);
        cover.add(0, &mut Vec::new());
        // 2 · 2 / (2 + 3)
        assert_eq!(cover.f1(), 0.8);
    }
}
