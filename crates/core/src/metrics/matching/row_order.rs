//! Which rows are matched, and in which order: all rows, a part of them, or the order of the released code.
//!
//! The released code fills an array batch by batch and computes the offset of a batch from the size of *that* batch. The
//! last, shorter batch overwrites earlier rows, and the end of the array stays zero in codes and labels alike.

use std::borrow::Cow;
use std::ops::Deref;

use etalon_kernel::bits::Bits;

use super::strategy::REFERENCE_BATCH;
use crate::codes::{Codes, CodesBuilder};
use crate::context::{Context, Reservation};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{CODES, Job};

/// Rows between two checks for cancellation.
const CHECK_ROWS: usize = 4096;

/// Checks for cancellation at some of the rows.
pub(super) fn check_at(row: usize, context: &Context) -> Result<()> {
    if row.is_multiple_of(CHECK_ROWS) { context.check() } else { Ok(()) }
}

/// By position, the row of the inputs, or `None` for an empty row. Without a list, the order of the inputs.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::metrics) struct RowOrder(Option<Vec<Option<usize>>>);

/// Codes in some order of rows: borrowed, or a copy with its reserved memory.
pub(in crate::metrics) enum OrderedCodes<'a> {
    /// The order of the inputs.
    Borrowed(&'a Codes),
    /// Any other order.
    Copied(Box<Codes>, #[expect(dead_code, reason = "kept as long as the copy")] Reservation),
}

impl Deref for OrderedCodes<'_> {
    type Target = Codes;

    fn deref(&self) -> &Codes {
        match self {
            OrderedCodes::Borrowed(codes) => codes,
            OrderedCodes::Copied(codes, _) => codes,
        }
    }
}

impl RowOrder {
    /// The order of a job: that of the released code if the parameter `reference_batch` is not 0.
    pub fn of_job(job: &Job<'_>) -> Result<RowOrder> {
        Ok(RowOrder::released(job.get(&CODES)?.rows(), job.whole(REFERENCE_BATCH.name)?))
    }

    /// The order of the released code with batches of the given size; 0 keeps the order of the inputs.
    pub fn released(rows: usize, batch: usize) -> RowOrder {
        if batch == 0 || rows <= batch || rows.is_multiple_of(batch) {
            return RowOrder(None);
        }
        let (batches, rest) = (rows / batch, rows % batch);
        let whole = batches * batch;
        let mut source: Vec<Option<usize>> = (0..rows).map(|row| (row < whole).then_some(row)).collect();
        for index in 0..rest {
            source[batches * rest + index] = Some(whole + index);
        }
        RowOrder(Some(source))
    }

    /// The given rows of the inputs.
    pub fn of_rows(rows: impl Iterator<Item = usize>) -> RowOrder {
        RowOrder(Some(rows.map(Some).collect()))
    }

    /// The rows at the given positions.
    pub fn part(&self, positions: &[usize]) -> RowOrder {
        let source = |&position: &usize| self.0.as_ref().map_or(Some(position), |source| source[position]);
        RowOrder(Some(positions.iter().map(source).collect()))
    }

    /// The number of empty rows; as many rows of the inputs are lost.
    pub fn lost(&self) -> usize {
        self.0.as_ref().map_or(0, |source| source.iter().filter(|row| row.is_none()).count())
    }

    /// Adds a note if rows are lost.
    pub fn note_lost(&self, scores: &mut Scores) {
        let (lost, rows) = (self.lost(), self.0.as_ref().map_or(0, Vec::len));
        if lost > 0 {
            scores.note(format!(
                "{lost} of {rows} rows are lost and as many are zero, as in the released code; set `reference_batch` to 0 to \
                 keep all rows"
            ));
        }
    }

    /// Codes in this order. `by_latent`: also reserve memory for access by latent.
    pub fn codes<'a>(&self, codes: &'a Codes, by_latent: bool, context: &Context) -> Result<OrderedCodes<'a>> {
        let Some(source) = &self.0 else { return Ok(OrderedCodes::Borrowed(codes)) };
        let all = codes.all()?;
        let entries: usize = source.iter().flatten().map(|&row| all.entries(row).len()).sum();
        // 24 bytes per row include the order itself.
        let bytes = 24 * source.len() + if by_latent { 16 * entries + 8 * codes.latents() } else { 8 * entries };
        let memory = context.budget().reserve(bytes as u64, "a copy of the codes in another order")?;
        let mut builder = CodesBuilder::new(codes.latents());
        builder.reserve(source.len(), entries);
        for (position, row) in source.iter().enumerate() {
            check_at(position, context)?;
            let (latents, values) = row.map_or((&[][..], &[][..]), |row| all.row(row));
            builder.push(latents, values)?;
        }
        Ok(OrderedCodes::Copied(Box::new(builder.finish()), memory))
    }

    /// A set of rows in this order. `empty`: whether it contains the empty rows.
    pub fn bits<'a>(&self, bits: &'a Bits, empty: bool) -> Cow<'a, Bits> {
        let Some(source) = &self.0 else { return Cow::Borrowed(bits) };
        let contained = |&position: &usize| source[position].map_or(empty, |row| bits.contains(row));
        Cow::Owned(Bits::of(source.len(), (0..source.len()).filter(contained)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_batch_overwrites_earlier_rows() {
        // 7 rows in batches of 3: the third batch has one row, number 6, and goes to position 2 · 1 = 2.
        let source = |rows, batch| RowOrder::released(rows, batch).0;
        assert_eq!(source(7, 3).unwrap(), [Some(0), Some(1), Some(6), Some(3), Some(4), Some(5), None]);
        // 5 rows in batches of 3: rows 3 and 4 go to positions 1 · 2 and 1 · 2 + 1, the second of which is their own region.
        assert_eq!(source(5, 3).unwrap(), [Some(0), Some(1), Some(3), Some(4), None]);
        for (rows, batch) in [(6, 3), (2, 3), (3, 3), (0, 3), (7, 0)] {
            assert_eq!(source(rows, batch), None);
        }
    }

    #[test]
    fn the_published_data_sets_lose_the_known_number_of_rows() {
        // 5794 = 5 · 1024 + 674 and 2476 = 2 · 1024 + 428.
        for (rows, lost) in [(5794, 674), (2476, 428)] {
            assert_eq!(RowOrder::released(rows, 1024).lost(), lost);
        }
    }

    #[test]
    fn codes_and_labels_move_together() {
        let codes = Codes::from_dense(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 1).unwrap();
        // The concept is in row 6, row 5 is not annotated.
        let (yes, known) = (Bits::of(7, [6]), Bits::of(7, [0, 1, 2, 3, 4, 6]));
        let context = Context::silent(1, 1 << 20).unwrap();
        let order = RowOrder::released(7, 3);
        assert_eq!(order.lost(), 1);
        let reordered = order.codes(&codes, false, &context).unwrap();
        assert_eq!(reordered.all().unwrap().row(2).1, [7.0]);
        assert!(reordered.all().unwrap().row(6).1.is_empty());
        assert_eq!(order.bits(&yes, false).rows().collect::<Vec<_>>(), [2]);
        assert_eq!(order.bits(&known, true).rows().collect::<Vec<_>>(), [0, 1, 2, 3, 4, 6]);
        // The rows at positions 2, 5 and 6 alone: row 6, row 5 and nothing.
        let part = order.part(&[2, 5, 6]);
        assert_eq!(part, RowOrder(Some(vec![Some(6), Some(5), None])));
        assert_eq!(part.codes(&codes, true, &context).unwrap().all().unwrap().row(1).1, [6.0]);
        drop(reordered);
        assert_eq!(context.budget().left(), 1 << 20);
    }
}
