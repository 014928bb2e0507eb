//! Binary codes, stored for fast counting of how often each latent fires in some rows.
//!
//! Sparse codes are stored as lists, and counting visits the latents of each row. If more than one entry in sixteen
//! fires, a row is stored as one bit per latent, and bit-sliced counters count 64 latents at once.

use etalon_kernel::bits::Bits;

use super::row_order::check_at;
use crate::codes::Codes;
use crate::context::{Context, Reservation};
use crate::error::{InputError, Result};

/// Rows are stored as bits if more than one entry in this many fires. A list entry costs about a nanosecond, a bit a
/// twentieth of one.
const DENSE: usize = 16;

/// Rows counted before the bit-sliced counters are flushed: the largest number that six bits hold.
const SLICE_ROWS: usize = 63;

/// Binary codes.
pub(super) struct Firing {
    pub rows: usize,
    pub latents: usize,
    /// By latent, the number of rows in which it fires.
    pub fired: Vec<i32>,
    form: Form,
    _memory: Reservation,
}

enum Form {
    Lists { by_row: Lists, by_latent: Lists },
    Bits { by_row: Vec<u64>, by_latent: Vec<Bits> },
}

/// Concatenated lists.
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
    /// The entries that are above a threshold, in the faster form.
    pub fn new(codes: &Codes, threshold: f32, context: &Context) -> Result<Firing> {
        let mut entries = 0usize;
        for (row, latents, values) in codes.all()?.iter() {
            check_at(row, context)?;
            entries += above(latents, values, threshold).count();
        }
        let dense = entries > codes.rows().saturating_mul(codes.latents()) / DENSE;
        Firing::in_form(codes, threshold, entries, dense, context)
    }

    /// The entries in the given form, so that tests can compare both. `entries` is their number.
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
            check_at(row, context)?;
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

    /// Adds `step` to the count of a latent for each of the given rows in which it fires.
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
                        flush(planes, step, counts);
                    }
                }
            }
        }
    }

    /// Adds the rows in which a latent fires to a set.
    pub fn add_rows(&self, latent: usize, set: &mut Bits) {
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

/// Adds 64 counters, times `step`, to plain counts and resets them.
fn flush(planes: &mut [u64; 6], step: i32, counts: &mut [i32]) {
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
}
