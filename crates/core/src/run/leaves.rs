//! Leaves: the ranges of rows that are summed together. They fix the order of all floating-point sums.
//!
//! Rows are split into *leaves*, and states are merged along a binary tree over the leaves. A unit of work is an
//! aligned group of 2ⁿ leaves, so results depend neither on threads nor on the size of units. The first row of a leaf
//! depends only on the number of the leaf, not on the number of rows, so a stream of unknown length gives the same bits
//! as a file.
//!
//! Leaves grow: 64 leaves of 1,024 rows, then 32 of 2,048, 32 of 4,096 and so on. Small data have enough leaves for many
//! threads, and large data do not pay for thousands of states: every leaf costs one state to fill and one merge.

use std::ops::Range;

/// Rows of the first leaves, and the maximum number of rows in a batch.
pub const BATCH_ROWS: usize = 1024;

/// Leaves per size; twice as many of the smallest size.
const LEAVES: usize = 32;

/// The first row of a leaf.
fn start(leaf: usize) -> usize {
    let group = leaf / LEAVES;
    if group < 2 {
        return leaf * BATCH_ROWS;
    }
    // The leaves before a group have as many rows as the group.
    let rows = BATCH_ROWS << (group - 1);
    (LEAVES + leaf % LEAVES) * rows
}

/// The number of leaves of `rows` rows.
pub fn count(rows: usize) -> usize {
    let mut group = 0;
    while start((group + 1) * LEAVES) < rows {
        group += 1;
    }
    let size = start(group * LEAVES + 1) - start(group * LEAVES);
    group * LEAVES + (rows - start(group * LEAVES)).div_ceil(size)
}

/// The rows of a leaf, out of `rows` rows.
pub fn rows(leaf: usize, rows: usize) -> Range<usize> {
    start(leaf).min(rows)..start(leaf + 1).min(rows)
}

/// Splits the rows of a leaf into batches.
pub fn batches(rows: Range<usize>) -> impl Iterator<Item = Range<usize>> {
    rows.clone().step_by(BATCH_ROWS).map(move |first| first..(first + BATCH_ROWS).min(rows.end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_cover_every_row_once_and_do_not_depend_on_the_number_of_rows() {
        for total in [0, 1, 1023, 1024, 1025, 65_536, 65_537, 131_072, 131_073, 5_000_000] {
            let mut next = 0;
            for leaf in 0..count(total) {
                let range = rows(leaf, total);
                assert!(range.start == next && !range.is_empty(), "{total} rows, leaf {leaf}: {range:?}");
                assert_eq!(range.start, rows(leaf, usize::MAX / 4).start);
                for batch in batches(range.clone()) {
                    assert!(batch.start == next && batch.len() <= BATCH_ROWS);
                    next = batch.end;
                }
            }
            assert_eq!(next, total);
        }
    }

    #[test]
    fn leaves_grow_with_the_rows_before_them() {
        // 64 leaves of 1,024 rows are 65,536; the next 32 leaves have 2,048 rows each.
        assert_eq!(rows(64, 1 << 40), 65_536..67_584);
        assert_eq!(rows(96, 1 << 40), 131_072..135_168);
        assert_eq!(count(8_000_000), 286);
    }
}
