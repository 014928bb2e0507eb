//! The order of rows with equal activations.

use crate::error::{Error, Result};
use crate::run::Job;

/// How rows with equal activations are ordered: by number, or as if they had been shuffled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::metrics) enum RowOrder {
    /// By row.
    Row,
    /// By a number that looks random, different for every row and salt.
    Shuffled(u32),
}

impl RowOrder {
    /// The order that a job asks for.
    pub fn of(job: &Job<'_>) -> Result<RowOrder> {
        match job.word("ties")? {
            "row" => Ok(RowOrder::Row),
            "shuffled" => Ok(RowOrder::Shuffled((job.seed as u32).wrapping_mul(0x9e37_79b9))),
            other => Err(Error::Bug(format!("unknown order of ties {other}"))),
        }
    }

    /// The place of a row in the order.
    #[inline]
    pub fn place(self, row: u32) -> u32 {
        match self {
            RowOrder::Row => row,
            RowOrder::Shuffled(salt) => {
                // The last step of MurmurHash3: every step can be undone.
                let mut place = row ^ salt;
                place = (place ^ place >> 16).wrapping_mul(0x85eb_ca6b);
                place = (place ^ place >> 13).wrapping_mul(0xc2b2_ae35);
                place ^ place >> 16
            }
        }
    }

    /// The row at a place.
    pub fn row(self, place: u32) -> u32 {
        match self {
            RowOrder::Row => place,
            RowOrder::Shuffled(salt) => {
                let mut row = (place ^ place >> 16).wrapping_mul(0x7ed1_b41d);
                row = (row ^ row >> 13 ^ row >> 26).wrapping_mul(0xa5cb_9243);
                row ^ row >> 16 ^ salt
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_can_be_undone_and_are_spread() {
        for order in [RowOrder::Row, RowOrder::Shuffled(0), RowOrder::Shuffled(0x1234_5678)] {
            for row in (0..5000).chain([u32::MAX, 1 << 31, 77_777_777]) {
                assert_eq!(order.row(order.place(row)), row, "{order:?}");
            }
        }
        // A tenth of the first rows has a place in the first tenth.
        let first = (0..10_000).filter(|&row| RowOrder::Shuffled(9).place(row) < u32::MAX / 10).count();
        assert!((900..1100).contains(&first), "{first}");
        assert_ne!(RowOrder::Shuffled(1).place(3), RowOrder::Shuffled(2).place(3));
    }
}
