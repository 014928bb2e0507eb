//! Products that may exceed a floor, and no others: proposed by 8-bit integers ([`eight`](super::eight)), then formed with
//! the very bits that [`Panels`] gives them. Whoever wants only what exceeds a floor gets the same as from all products.

use super::aligned::Aligned;
use super::eight::{Columns, Rows};
use super::integer;
use super::panels::{PANEL, Panels};

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
    /// Use the processor's products of integers, if it has them.
    pub vectors: bool,
}

/// Values with their columns, ascending, row by row.
#[derive(Clone, Debug, Default)]
pub struct Found {
    starts: Vec<usize>,
    ends: Vec<usize>,
    entries: Vec<(f32, u32)>,
    /// Rows that must be searched by other means, ascending: their list is empty.
    pub left: Vec<usize>,
    rows: Rows,
    packed: Aligned,
    masks: Vec<u32>,
    groups: Vec<Group>,
    offsets: Vec<f32>,
}

impl Found {
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
    pub fn run(&self, rows: &[f32], pitch: usize, count: usize, starts: Option<&[f32]>, most: usize, found: &mut Found) {
        let inner = self.panels.inner();
        let zeros = vec![0.0; if starts.is_none() { count } else { 0 }];
        let starts = starts.unwrap_or(&zeros);
        self.offsets(zeros.len() == count && count > 0, &mut found.offsets);
        found.left = found.rows.fill(rows, pitch, inner, starts, self.columns.longest(), self.vectors);
        found.masks.clear();
        found.masks.resize(count * self.panels.panels(), 0);
        let mut counts = vec![0; count];
        for (panel, masks) in found.masks.chunks_exact_mut(count.max(1)).enumerate() {
            self.columns.propose(&found.rows, panel, &found.offsets.as_chunks::<PANEL>().0[panel], masks);
            counts.iter_mut().zip(masks).for_each(|(count, mask)| *count += mask.count_ones() as usize);
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
        found.entries.clear();
        found.entries.resize(total, (0.0, 0));
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
    packed.reset(count.next_multiple_of(PANEL) * inner);
    let size = (PANEL * inner).max(1);
    for (first, block) in (0..count).step_by(PANEL).zip(packed.chunks_exact_mut(size)) {
        for row in first..count.min(first + PANEL) {
            let values = &rows[row * pitch..][..inner];
            values.iter().zip(block.as_chunks_mut::<PANEL>().0).for_each(|(&value, line)| line[row - first] = value);
        }
    }
}

/// Turns the proposals of some panels, row by row, to groups: blocks of rows ascend, panels in them, and rows in those.
fn take(masks: &[u32], rows: usize, groups: &mut Vec<Group>) {
    const MOST: usize = PANEL * PANEL + PANEL;
    let (mut row_list, mut column_list) = ([0u8; MOST], [0u8; MOST]);
    groups.clear();
    for first in (0..rows).step_by(PANEL) {
        for (panel, masks) in masks.chunks_exact(rows).enumerate() {
            let mut filled = 0;
            for (row, &mask) in masks[first..].iter().take(PANEL).enumerate() {
                filled = match integer::spread(mask, row as u8, &mut row_list, &mut column_list, filled) {
                    Some(filled) => filled,
                    None => spread(mask, row as u8, &mut row_list, &mut column_list, filled),
                };
            }
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

/// The places of the bits of a mask.
fn spread(mut mask: u32, row: u8, rows: &mut [u8], columns: &mut [u8], mut filled: usize) -> usize {
    while mask != 0 {
        (rows[filled], columns[filled]) = (row, mask.trailing_zeros() as u8);
        filled += 1;
        mask &= mask - 1;
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
            let (pairs, rest) = groups.as_chunks_mut::<2>();
            for pair in pairs {
                let columns = [columns(&pair[0]), columns(&pair[1])];
                if !integer::chains(rows, columns, pair) {
                    pair.iter_mut().zip(columns).for_each(|(group, columns)| chains(rows, columns, group));
                }
            }
            for group in rest {
                let columns = columns(group);
                if !integer::chains(rows, [columns], std::array::from_mut(group)) {
                    chains(rows, columns, group);
                }
            }
        }
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
