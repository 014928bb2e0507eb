//! Which rows are summed together: fixes everything that may change a bit.
//!
//! Rows are cut into *leaves*, and states are merged along a binary tree over the leaves. A unit of work is an aligned group
//! of 2ⁿ leaves, so results depend neither on threads nor on the size of units. Where a leaf begins depends on its number
//! only, not on how many rows there are, so rows that arrive in a stream of unknown length give the same bits as a file.
//!
//! Leaves grow: 128 of 1,024 rows, then 64 each of twice as many rows as before. Small data are cut finely enough for many
//! threads, and large data do not pay for thousands of states.

use std::ops::Range;

/// Rows of the first leaves, and the most rows that a pass sees at a time.
pub const BATCH_ROWS: usize = 1024;

/// Leaves of one size; twice as many of the smallest.
const LEAVES: usize = 64;

/// The row at which a leaf begins.
fn start(leaf: usize) -> usize {
    let group = leaf / LEAVES;
    if group < 2 {
        return leaf * BATCH_ROWS;
    }
    // All leaves before a group have as many rows as the group.
    let rows = BATCH_ROWS << (group - 1);
    (LEAVES + leaf % LEAVES) * rows
}

/// Number of leaves of some rows.
pub fn count(rows: usize) -> usize {
    let mut group = 0;
    while start((group + 1) * LEAVES) < rows {
        group += 1;
    }
    let size = start(group * LEAVES + 1) - start(group * LEAVES);
    group * LEAVES + (rows - start(group * LEAVES)).div_ceil(size)
}

/// The rows of a leaf.
pub fn rows(leaf: usize, rows: usize) -> Range<usize> {
    start(leaf).min(rows)..start(leaf + 1).min(rows)
}

/// Rows in pieces that a pass sees at a time.
pub fn batches(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    rows.clone().step_by(BATCH_ROWS).map(move |first| first..(first + BATCH_ROWS).min(rows.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_cover_every_row_once_and_do_not_depend_on_the_rest() {
        for total in [0, 1, 1023, 1024, 1025, 65_536, 65_537, 131_072, 131_073, 5_000_000] {
            let mut next = 0;
            for leaf in 0..count(total) {
                let mine = rows(leaf, total);
                assert!(mine.start == next && !mine.is_empty(), "{total} rows, leaf {leaf}: {mine:?}");
                assert_eq!(mine.start, rows(leaf, usize::MAX / 4).start);
                for batch in batches(mine.clone()) {
                    assert!(batch.start == next && batch.len() <= BATCH_ROWS);
                    next = batch.end;
                }
            }
            assert_eq!(next, total);
        }
    }

    #[test]
    fn leaves_grow_with_the_rows_before_them() {
        // 128 leaves of 1,024 rows are 131,072; the next 64 leaves have 2,048 rows each.
        assert_eq!(rows(128, 1 << 40), 131_072..133_120);
        assert_eq!(rows(192, 1 << 40), 262_144..266_240);
        assert_eq!(count(8_000_000), 507);
    }
}
