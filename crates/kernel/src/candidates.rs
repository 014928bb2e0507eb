//! Products that exceed a floor: an int8 pre-filter ([`int8`](super::int8)) proposes candidates, whose exact products are
//! then computed with the same bits as by [`Panels`]. The result is the same as filtering all products.

use super::aligned::Aligned;
use super::avx512;
use super::int8::{Arithmetic, Columns, QuantisedRows};
use super::packed::{PANEL, Panels, transpose};
use super::vectorised::vectorised;

/// Candidates whose products are computed together.
pub(super) const LANES: usize = 16;

/// Panels whose candidates are computed together.
const TOGETHER: usize = 4;

/// Length of the blocks of the inner index: a piece of these panels stays in the first-level cache, as does a piece of a
/// block of rows. A chain continues from one piece to the next, so its bits do not depend on this.
const PIECE: usize = 64;

/// Relative margin for the rounding of offsets.
const SLACK: f32 = 1e-6;

/// Larger biases could make a sum overflow.
const LARGEST: f32 = 1e36;

/// A search for products that exceed a floor.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The columns.
    pub panels: &'a Panels,
    /// The same columns, quantised.
    pub columns: &'a Columns,
    /// Added to every product, one per column, padded to whole panels.
    pub bias: &'a [f32],
    /// Floors that values must exceed, one per column; infinite in the padding.
    pub floors: &'a [f32],
    /// Instruction set of the pre-filter; scalar code is used if the processor lacks it.
    pub arithmetic: Arithmetic,
}

/// Result of a search: values with their columns, ascending, row by row. Reusable.
#[derive(Clone, Debug, Default)]
pub struct CandidateRows {
    starts: Vec<usize>,
    ends: Vec<usize>,
    entries: Vec<(f32, u32)>,
    /// Rows that the search skipped, ascending: compute all their products instead. Their lists are empty.
    pub left: Vec<usize>,
    rows: QuantisedRows,
    packed: Aligned,
    masks: Vec<u32>,
    groups: Vec<Group>,
    offsets: Vec<f32>,
}

impl CandidateRows {
    /// The values of a row that exceed the floors, with their columns.
    pub fn row(&self, row: usize) -> &[(f32, u32)] {
        &self.entries[self.starts[row]..self.ends[row]]
    }
}

/// Up to sixteen candidates among one panel's columns and one block of 32 rows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    block: usize,
    panel: usize,
    filled: usize,
    pub rows: [u8; LANES],
    pub columns: [u8; LANES],
    pub sums: [f32; LANES],
}

impl Search<'_> {
    /// Whether the pre-filter's bounds hold for these columns, biases and floors.
    pub fn usable(&self) -> bool {
        self.columns.usable()
            && self.columns.panels() == self.panels.panels()
            && self.bias.iter().all(|bias| bias.abs() < LARGEST)
            && self.floors.iter().all(|floor| !floor.is_nan() && *floor > -LARGEST)
    }

    /// Finds all values above the floors of their column and their row, for `count` rows that are `pitch` values apart.
    /// `starts` has the floors of the rows, if any. Rows with more than `limit` candidates are skipped ([`CandidateRows::left`]).
    pub fn run(
        &self,
        rows: &[f32],
        pitch: usize,
        count: usize,
        starts: Option<&[f32]>,
        limit: usize,
        found: &mut CandidateRows,
    ) {
        let inner = self.panels.inner();
        // Without row floors, the column floors are part of the offsets, and values must exceed 0.
        self.offsets(starts.is_none(), &mut found.offsets);
        let (zeros, none) = (vec![0.0; count], vec![f32::NEG_INFINITY; count]);
        let (compared, starts) = (starts.unwrap_or(&zeros), starts.unwrap_or(&none));
        found.left = found.rows.fill(rows, pitch, inner, compared, self.columns.longest(), self.arithmetic);
        // All masks are overwritten.
        found.masks.resize(count * self.panels.panels(), 0);
        let mut counts = vec![0; count];
        for (panel, masks) in found.masks.chunks_exact_mut(count.max(1)).enumerate() {
            self.columns.propose(&found.rows, panel, &found.offsets.as_chunks::<PANEL>().0[panel], masks);
            // Compiled for the widest instructions available.
            vectorised(
                #[inline(always)]
                || {
                    counts.iter_mut().zip(&*masks).for_each(|(count, mask)| *count += mask.count_ones() as usize);
                },
            );
        }
        for (row, candidates) in counts.iter_mut().enumerate().filter(|(_, candidates)| **candidates > limit) {
            found.masks.iter_mut().skip(row).step_by(count).for_each(|mask| *mask = 0);
            *candidates = 0;
            found.left.push(row);
        }
        found.left.sort_unstable();
        pack(rows, pitch, inner, count, &mut found.packed);
        found.starts.clear();
        let mut total = 0;
        for candidates in counts {
            found.starts.push(total);
            // One extra slot: entries that do not pass are written and then overwritten.
            total += candidates + 1;
        }
        found.ends.clone_from(&found.starts);
        found.entries.resize(total.max(found.entries.len()), (0.0, 0));
        let masks = std::mem::take(&mut found.masks);
        for (which, masks) in masks.chunks(TOGETHER * count.max(1)).enumerate() {
            form_groups(masks, count, &mut found.groups);
            let first = which * TOGETHER;
            let size = inner * PANEL;
            multiply(&self.panels.values()[first * size..], &found.packed, inner, &mut found.groups);
            for group in &found.groups {
                let (row, column) = (group.block * PANEL, (first + group.panel) * PANEL);
                for lane in 0..group.filled {
                    let row = row + usize::from(group.rows[lane]);
                    let column = column + usize::from(group.columns[lane]);
                    let value = group.sums[lane] + self.bias[column];
                    found.entries[found.ends[row]] = (value, column as u32);
                    found.ends[row] += usize::from(value > self.floors[column].max(starts[row]));
                }
            }
        }
        found.masks = masks;
    }

    /// Upper bounds of the values added to products before the comparison with a row's floor.
    fn offsets(&self, subtract_floors: bool, into: &mut Vec<f32>) {
        into.clear();
        into.extend(self.bias.iter().zip(self.floors).map(|(&bias, &floor)| match (floor, subtract_floors) {
            (f32::INFINITY, _) => f32::NEG_INFINITY,
            (floor, true) => bias - floor + SLACK * (bias.abs() + floor.abs()),
            _ => bias + SLACK * bias.abs(),
        }));
    }
}

/// Packs rows 32 by 32.
fn pack(rows: &[f32], pitch: usize, inner: usize, count: usize, packed: &mut Aligned) {
    let size = PANEL * inner;
    // Missing rows of the last block are never read.
    if packed.len() != count.div_ceil(PANEL) * size {
        packed.reset(count.div_ceil(PANEL) * size);
    }
    for (first, block) in (0..count).step_by(PANEL).zip(packed.chunks_exact_mut(size.max(1))) {
        transpose(&rows[first * pitch..], pitch, PANEL.min(count - first), block);
    }
}

/// Converts the masks of some panels to groups, sorted by block of rows, then panel, then row.
fn form_groups(masks: &[u32], rows: usize, groups: &mut Vec<Group>) {
    const CAPACITY: usize = PANEL * PANEL + PANEL;
    let (mut row_list, mut column_list) = ([0u8; CAPACITY], [0u8; CAPACITY]);
    groups.clear();
    for first in (0..rows).step_by(PANEL) {
        for (panel, masks) in masks.chunks_exact(rows).enumerate() {
            let masks = &masks[first..(first + PANEL).min(rows)];
            let filled = avx512::spread(masks, &mut row_list, &mut column_list)
                .unwrap_or_else(|| spread(masks, &mut row_list, &mut column_list));
            let lists = row_list.as_chunks::<LANES>().0.iter().zip(column_list.as_chunks::<LANES>().0);
            for (start, (rows, columns)) in (0..filled).step_by(LANES).zip(lists) {
                groups.push(Group {
                    block: first / PANEL,
                    panel,
                    filled: (filled - start).min(LANES),
                    rows: *rows,
                    columns: *columns,
                    sums: [0.0; LANES],
                });
            }
        }
    }
}

/// Lists the row and column of every set bit; returns their number.
fn spread(masks: &[u32], rows: &mut [u8], columns: &mut [u8]) -> usize {
    let mut filled = 0;
    for (row, mut mask) in masks.iter().copied().enumerate() {
        while mask != 0 {
            (rows[filled], columns[filled]) = (row as u8, mask.trailing_zeros() as u8);
            filled += 1;
            mask &= mask - 1;
        }
    }
    filled
}

/// Computes the products of groups: each is one chain of fused multiply-adds over the inner index.
fn multiply(panels: &[f32], packed: &[f32], inner: usize, groups: &mut [Group]) {
    let size = inner * PANEL;
    for start in (0..size).step_by(PIECE * PANEL) {
        let length = (PIECE * PANEL).min(size - start);
        for groups in groups.chunk_by_mut(|one, other| one.block == other.block) {
            let rows = &packed[groups[0].block * size + start..][..length];
            let columns = |group: &Group| &panels[group.panel * size + start..][..length];
            let (fours, rest) = groups.as_chunks_mut::<4>();
            for four in fours {
                let columns = std::array::from_fn(|which| columns(&four[which]));
                together(rows, columns, four);
            }
            let (pairs, rest) = rest.as_chunks_mut::<2>();
            for pair in pairs {
                together(rows, [columns(&pair[0]), columns(&pair[1])], pair);
            }
            for group in rest {
                together(rows, [columns(group)], std::array::from_mut(group));
            }
        }
    }
}

/// Continues the chains of some groups over one piece, with AVX-512 if available.
fn together<const COUNT: usize>(rows: &[f32], columns: [&[f32]; COUNT], groups: &mut [Group; COUNT]) {
    if !avx512::chains(rows, columns, groups) {
        groups.iter_mut().zip(columns).for_each(|(group, columns)| chains(rows, columns, group));
    }
}

/// Continues up to sixteen chains over one piece.
fn chains(rows: &[f32], columns: &[f32], group: &mut Group) {
    for lane in 0..group.filled {
        let (row, column) = (usize::from(group.rows[lane]), usize::from(group.columns[lane]));
        let pairs = rows.as_chunks::<PANEL>().0.iter().zip(columns.as_chunks::<PANEL>().0);
        group.sums[lane] = pairs.fold(group.sums[lane], |sum, (a, b)| a[row].mul_add(b[column], sum));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{stream, unit};

    #[test]
    fn agrees_with_filtering_all_products() {
        for (count, columns, inner) in [(1, 1, 1), (13, 33, 7), (70, 300, 40), (40, 160, 131)] {
            let mut random = stream(count as u64, "candidates test", 0);
            let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
            let (vectors, pitch) = (draw(columns * inner), inner + 3);
            let (mut bias, mut floors) = (draw(columns), draw(columns));
            let mut rows = draw(count * pitch);
            if count > 12 {
                // Outliers, zeros, huge values and NaN.
                rows[2 * pitch] = 1e3;
                rows[3 * pitch..4 * pitch].fill(0.0);
                rows[4 * pitch + 1] = 1e37;
                rows[5 * pitch + 2] = f32::NAN;
            }
            let starts: Vec<f32> = draw(count).iter().map(|start| 0.5 + start).collect();
            bias.resize(columns.next_multiple_of(PANEL), 0.0);
            floors.resize(bias.len(), f32::INFINITY);
            let panels = Panels::pack(&vectors, inner);
            let rounded = Columns::new(panels.values(), inner);
            for (starts, arithmetic, limit) in [
                (Some(&starts[..]), Arithmetic::Scalar, columns),
                (Some(&starts[..]), Arithmetic::Avx512, columns),
                (Some(&starts[..]), Arithmetic::Amx, columns),
                (None, Arithmetic::Avx512, columns),
                (None, Arithmetic::Amx, columns),
                (None, Arithmetic::fastest(), 5),
            ] {
                let search = Search { panels: &panels, columns: &rounded, bias: &bias, floors: &floors, arithmetic };
                assert!(search.usable());
                let mut found = CandidateRows::default();
                // The second run reuses the buffers.
                for _ in 0..2 {
                    search.run(&rows, pitch, count, starts, limit, &mut found);
                }
                for row in 0..count {
                    let start = starts.map_or(f32::NEG_INFINITY, |starts| starts[row]);
                    let all = (0..columns).map(|column| {
                        let pairs = rows[row * pitch..][..inner].iter().zip(&vectors[column * inner..][..inner]);
                        (pairs.fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum)) + bias[column], column as u32)
                    });
                    let expected: Vec<(f32, u32)> =
                        all.filter(|entry| entry.0 > floors[entry.1 as usize].max(start)).collect();
                    if found.left.contains(&row) {
                        assert!(found.row(row).is_empty());
                        assert!((3..6).contains(&row) || limit == 5, "row {row}");
                    } else {
                        assert_eq!(found.row(row), expected, "row {row}");
                        assert!(expected.len() <= limit);
                    }
                }
                assert!(count < 12 || [3, 4, 5].iter().all(|row| found.left.contains(row)));
            }
        }
    }

    #[test]
    fn biases_that_could_overflow_are_not_trusted() {
        let panels = Panels::pack(&[1.0; 4], 4);
        let rounded = Columns::new(panels.values(), 4);
        let usable = |bias: f32, floor: f32| {
            let (bias, floors) = ([bias; PANEL], [floor; PANEL]);
            let arithmetic = Arithmetic::fastest();
            Search { panels: &panels, columns: &rounded, bias: &bias, floors: &floors, arithmetic }.usable()
        };
        assert!(usable(0.0, 0.0) && usable(-5.0, f32::INFINITY));
        assert!(!usable(f32::NAN, 0.0) && !usable(1e37, 0.0) && !usable(0.0, f32::NAN));
        assert!(!usable(f32::NEG_INFINITY, 0.0) && !usable(0.0, f32::NEG_INFINITY));
    }
}
