//! Products that may exceed a floor, and no others: proposed by 8-bit integers ([`eight`](super::int8)), then formed with
//! the very bits that [`Panels`] gives them. Whoever wants only what exceeds a floor gets the same as from all products.

use pulp::Arch;

use super::aligned::Aligned;
use super::avx512;
use super::int8::{Arithmetic, Columns, QuantisedRows};
use super::packed::{PANEL, Panels, turn};

/// Candidates whose products are formed together.
pub(super) const LANES: usize = 16;

/// Panels whose candidates are formed together.
const TOGETHER: usize = 4;

/// How much of the inner index candidates meet at a time: a piece of these panels stays in the first-level cache, and one
/// of a block of rows while the panels pass it. A chain goes on from one piece to the next, so that its bits do not depend
/// on this.
const PIECE: usize = 64;

/// Room for the rounding of offsets, as a part of them.
const SLACK: f32 = 1e-6;

/// Larger biases could make a sum overflow.
const LARGEST: f32 = 1e36;

/// What products are compared with.
#[derive(Clone, Copy, Debug)]
pub struct Search<'a> {
    /// The columns.
    pub panels: &'a Panels,
    /// The same, rounded.
    pub columns: &'a Columns,
    /// Added to every product, one per column, padded to whole panels.
    pub bias: &'a [f32],
    /// Values must exceed these, one per column; infinite in the padding.
    pub floors: &'a [f32],
    /// What multiplies integers; loops stand in for what the processor lacks.
    pub arithmetic: Arithmetic,
}

/// Values with their columns, ascending, row by row.
#[derive(Clone, Debug, Default)]
pub struct CandidateRows {
    starts: Vec<usize>,
    ends: Vec<usize>,
    entries: Vec<(f32, u32)>,
    /// Rows that must be searched by other means, ascending: their list is empty.
    pub left: Vec<usize>,
    rows: QuantisedRows,
    packed: Aligned,
    masks: Vec<u32>,
    groups: Vec<Group>,
    offsets: Vec<f32>,
}

impl CandidateRows {
    /// What a row has above its floor.
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
    /// Whether a search can be trusted at all.
    pub fn usable(&self) -> bool {
        self.columns.usable()
            && self.columns.panels() == self.panels.panels()
            && self.bias.iter().all(|bias| bias.abs() < LARGEST)
            && self.floors.iter().all(|floor| !floor.is_nan() && *floor > -LARGEST)
    }

    /// Finds, for rows of some pitch, everything above the floors of the columns and of the row. Rows without floors of
    /// their own have none. Rows with more than `most` candidates are left.
    pub fn run(
        &self,
        rows: &[f32],
        pitch: usize,
        count: usize,
        starts: Option<&[f32]>,
        most: usize,
        found: &mut CandidateRows,
    ) {
        let inner = self.panels.inner();
        // Without floors of rows, those of columns are part of the offsets, and a row must exceed 0.
        self.offsets(starts.is_none(), &mut found.offsets);
        let (zeros, none) = (vec![0.0; count], vec![f32::NEG_INFINITY; count]);
        let (compared, starts) = (starts.unwrap_or(&zeros), starts.unwrap_or(&none));
        found.left = found.rows.fill(rows, pitch, inner, compared, self.columns.longest(), self.arithmetic);
        // All of it is written anew.
        found.masks.resize(count * self.panels.panels(), 0);
        let mut counts = vec![0; count];
        for (panel, masks) in found.masks.chunks_exact_mut(count.max(1)).enumerate() {
            self.columns.propose(&found.rows, panel, &found.offsets.as_chunks::<PANEL>().0[panel], masks);
            // Counted with the widest instructions there are.
            Arch::new().dispatch(|| {
                counts.iter_mut().zip(&*masks).for_each(|(count, mask)| *count += mask.count_ones() as usize);
            });
        }
        for (row, candidates) in counts.iter_mut().enumerate().filter(|(_, candidates)| **candidates > most) {
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
            // One place more: what does not pass is written, and overwritten.
            total += candidates + 1;
        }
        found.ends.clone_from(&found.starts);
        found.entries.resize(total.max(found.entries.len()), (0.0, 0));
        let masks = std::mem::take(&mut found.masks);
        for (which, masks) in masks.chunks(TOGETHER * count.max(1)).enumerate() {
            take(masks, count, &mut found.groups);
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

    /// What has to be added to a product before it is compared with a floor of its row, not less than that.
    fn offsets(&self, own: bool, into: &mut Vec<f32>) {
        into.clear();
        into.extend(self.bias.iter().zip(self.floors).map(|(&bias, &floor)| match (floor, own) {
            (f32::INFINITY, _) => f32::NEG_INFINITY,
            (floor, true) => bias - floor + SLACK * (bias.abs() + floor.abs()),
            _ => bias + SLACK * bias.abs(),
        }));
    }
}

/// Packs rows 32 by 32.
fn pack(rows: &[f32], pitch: usize, inner: usize, count: usize, packed: &mut Aligned) {
    let size = PANEL * inner;
    // Rows that are missing in the last block are never asked for.
    if packed.len() != count.div_ceil(PANEL) * size {
        packed.reset(count.div_ceil(PANEL) * size);
    }
    for (first, block) in (0..count).step_by(PANEL).zip(packed.chunks_exact_mut(size.max(1))) {
        turn(&rows[first * pitch..], pitch, PANEL.min(count - first), block);
    }
}

/// Turns the proposals of some panels, row by row, to groups: blocks of rows ascend, panels in them, and rows in those.
fn take(masks: &[u32], rows: usize, groups: &mut Vec<Group>) {
    const MOST: usize = PANEL * PANEL + PANEL;
    let (mut row_list, mut column_list) = ([0u8; MOST], [0u8; MOST]);
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

/// The places of the bits of the masks of some rows, with the number of the row; how many there are.
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

/// Forms the products of groups: each is one chain of fused multiply-adds over the inner index.
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

/// A piece of the chains of some groups, by vectors if there are any.
fn together<const COUNT: usize>(rows: &[f32], columns: [&[f32]; COUNT], groups: &mut [Group; COUNT]) {
    if !avx512::chains(rows, columns, groups) {
        groups.iter_mut().zip(columns).for_each(|(group, columns)| chains(rows, columns, group));
    }
}

/// A piece of sixteen chains.
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
    fn finds_what_all_products_have() {
        for (count, columns, inner) in [(1, 1, 1), (13, 33, 7), (70, 300, 40), (40, 160, 131)] {
            let mut random = stream(count as u64, "candidates test", 0);
            let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
            let (vectors, pitch) = (draw(columns * inner), inner + 3);
            let (mut bias, mut floors) = (draw(columns), draw(columns));
            let mut rows = draw(count * pitch);
            if count > 12 {
                // Outliers, zeros, huge numbers and what is no number.
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
            for (starts, arithmetic, most) in [
                (Some(&starts[..]), Arithmetic::Loops, columns),
                (Some(&starts[..]), Arithmetic::Vectors, columns),
                (Some(&starts[..]), Arithmetic::Tiles, columns),
                (None, Arithmetic::Vectors, columns),
                (None, Arithmetic::Tiles, columns),
                (None, Arithmetic::fastest(), 5),
            ] {
                let search = Search { panels: &panels, columns: &rounded, bias: &bias, floors: &floors, arithmetic };
                assert!(search.usable());
                let mut found = CandidateRows::default();
                // The second time, memory is used again.
                for _ in 0..2 {
                    search.run(&rows, pitch, count, starts, most, &mut found);
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
                        assert!((3..6).contains(&row) || most == 5, "row {row}");
                    } else {
                        assert_eq!(found.row(row), expected, "row {row}");
                        assert!(expected.len() <= most);
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
