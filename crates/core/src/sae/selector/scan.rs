//! Selection by all products: each tile is examined while it is in the L1 cache.

use std::ops::Range;

use super::{Entries, Selector};
use etalon_kernel::activation::{Gates, add_bias, nonzero};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::packed::{PANEL, TILE_ROWS, Tile, add_and_compare, blocks_at_once, exceeding, fill_block};
use etalon_kernel::top_k::{by_value, keep_largest};

/// Entries that a list may hold beyond twice what it keeps before it is truncated.
const SLACK: usize = 96;

/// When growing lists are truncated, so that they stay short and floors rise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Truncate {
    /// Never.
    Never,
    /// To this many entries, once a row has more than twice as many.
    PerRow(usize),
    /// To this many entries and ties of the last, once a group of rows has more than twice as many.
    PerGroup(usize),
}

/// The floors of a group of rows.
struct Floors {
    /// One floor per row, by tile.
    rows: Vec<[f32; TILE_ROWS]>,
    /// Number of entries of all rows.
    total: usize,
    scratch: Vec<i32>,
}

/// The position of a tile: a panel of the encoder, and a tile of a group of rows.
#[derive(Clone, Copy)]
struct Position {
    panel: usize,
    tile: usize,
}

impl Selector<'_> {
    /// Keeps all entries above the floors of their latent and of their row.
    pub(super) fn scan(
        &self,
        rows: &[f32],
        row_floor: impl Fn(usize) -> f32 + Sync,
        truncate: Truncate,
        lists: &mut [Entries],
    ) {
        let begin = |rows: Range<usize>| {
            // Rows that pad the last tile keep nothing.
            let floor = |row: usize| if row < rows.end { row_floor(row) } else { f32::INFINITY };
            let tiles = rows.clone().step_by(TILE_ROWS);
            let rows = tiles.map(|first| std::array::from_fn(|row| floor(first + row))).collect();
            Floors { rows, total: 0, scratch: Vec::new() }
        };
        self.visit_tiles(rows, lists, begin, |floors, lists, tile, Position { panel, tile: index }| {
            let (bias, latent_floors) = (of_panel(self.bias, panel), of_panel(self.floors, panel));
            // Most rows keep nothing of a panel, so one comparison of the whole tile comes first.
            let mut hits = add_and_compare(tile, bias, latent_floors, &floors.rows[index]);
            while hits != 0 {
                let row = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let Some(list) = lists.get_mut(index * TILE_ROWS + row) else { break };
                let values = &tile.as_chunks::<PANEL>().0[row];
                let before = list.len();
                self.push(list, values, panel, exceeding(values, latent_floors, floors.rows[index][row]));
                floors.total += list.len() - before;
                floors.truncate(truncate, index * TILE_ROWS + row, lists);
            }
        });
    }

    /// Keeps positive magnitudes behind open gates.
    pub(super) fn scan_gated(&self, gates: [&[f32]; 3], rows: &[f32], lists: &mut [Entries]) {
        self.visit_tiles(
            rows,
            lists,
            |_| (),
            |(), lists, tile, position| {
                let [gate_bias, scale, magnitude_bias] = gates.map(|values| of_panel(values, position.panel));
                Gates { bias: of_panel(self.bias, position.panel), gate_bias, scale, magnitude_bias }.apply(tile);
                for (list, values) in position.rows(lists).zip(tile.as_chunks::<PANEL>().0) {
                    self.push(list, values, position.panel, exceeding(values, &[0.0; PANEL], 0.0));
                }
            },
        );
    }

    /// Keeps all nonzero entries, or the `keep` largest of them by absolute value.
    pub(super) fn scan_nonzero(&self, keep: Option<usize>, rows: &[f32], lists: &mut [Entries]) {
        self.visit_tiles(
            rows,
            lists,
            |_| (),
            |(), lists, tile, position| {
                add_bias(tile, of_panel(self.bias, position.panel));
                for (list, values) in position.rows(lists).zip(tile.as_chunks::<PANEL>().0) {
                    self.push(list, values, position.panel, nonzero(values));
                    if let Some(keep) = keep.filter(|keep| list.len() >= 2 * keep + SLACK) {
                        keep_largest_magnitudes(list, keep);
                    }
                }
            },
        );
        if let Some(keep) = keep {
            for list in lists {
                keep_largest_magnitudes(list, keep);
                list.sort_unstable_by_key(|entry| entry.1);
            }
        }
    }

    /// Keeps the largest entry. NaN counts as the largest, so that the caller can refuse it.
    pub(super) fn scan_nearest(&self, rows: &[f32], lists: &mut [Entries]) {
        self.visit_tiles(
            rows,
            lists,
            |_| (),
            |(), lists, tile, position| {
                let first = position.panel * PANEL;
                let count = PANEL.min(self.panels.columns() - first);
                add_bias(tile, of_panel(self.bias, position.panel));
                for (list, values) in position.rows(lists).zip(tile.as_chunks::<PANEL>().0) {
                    for (column, &value) in values[..count].iter().enumerate() {
                        let best = list.first().map_or(f32::NEG_INFINITY, |entry| entry.0);
                        if value > best || (value.is_nan() && !best.is_nan()) {
                            list.clear();
                            list.push((value, (first + column) as u32));
                        }
                    }
                }
            },
        );
    }

    /// Appends the values that a mask selects.
    #[inline(always)]
    fn push(&self, list: &mut Entries, values: &[f32; PANEL], panel: usize, mut mask: u32) {
        while mask != 0 {
            let column = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            if self.keeps_nan || !values[column].is_nan() {
                list.push((values[column], (panel * PANEL + column) as u32));
            }
        }
    }

    /// Clears all lists and multiplies groups of rows with every panel, in ascending order. `begin` creates the state
    /// of a group from its range of rows; `visit` receives every tile with the lists of its group.
    fn visit_tiles<T>(
        &self,
        rows: &[f32],
        lists: &mut [Entries],
        begin: impl Fn(Range<usize>) -> T + Sync,
        visit: impl Fn(&mut T, &mut [Entries], &mut Tile, Position) + Sync,
    ) {
        let stride = self.panels.inner();
        let at_once = blocks_at_once(lists.len().div_ceil(TILE_ROWS), stride, self.threads);
        let size = TILE_ROWS * stride;
        self.map_chunks(lists, at_once * TILE_ROWS, |first, lists| {
            lists.iter_mut().for_each(Vec::clear);
            let tiles = lists.len().div_ceil(TILE_ROWS);
            let (mut packed, mut products) = (Aligned::zeros(tiles * size), Aligned::zeros(tiles * TILE_ROWS * PANEL));
            for (rows, block) in rows[first * stride..].chunks(size).zip(packed.chunks_exact_mut(size)) {
                fill_block(rows, stride, block);
            }
            let (products, _) = products.as_chunks_mut::<{ TILE_ROWS * PANEL }>();
            let mut state = begin(first..first + lists.len());
            for panel in 0..self.panels.panels() {
                self.panels.products(&packed, panel, products);
                for (tile, product) in products.iter_mut().enumerate() {
                    visit(&mut state, lists, product, Position { panel, tile });
                }
            }
        });
    }
}

impl Position {
    /// The lists of the rows of the tile.
    fn rows(self, lists: &mut [Entries]) -> impl Iterator<Item = &mut Entries> {
        lists.iter_mut().skip(self.tile * TILE_ROWS).take(TILE_ROWS)
    }
}

impl Floors {
    /// Truncates lists that have become too long after a row gained entries, and raises the floors.
    #[inline(always)]
    fn truncate(&mut self, truncate: Truncate, row: usize, lists: &mut [Entries]) {
        match truncate {
            Truncate::PerRow(keep) if lists[row].len() > 2 * keep + SLACK => {
                let floor = keep_largest(&mut lists[row], keep, &mut self.scratch);
                self.rows[row / TILE_ROWS][row % TILE_ROWS] = floor;
            }
            Truncate::PerGroup(keep) if self.total > 2 * keep + 16 * SLACK => {
                // The smallest kept value of some rows is never above that of all rows.
                let floor = value_of_rank(lists, keep).next_down();
                lists.iter_mut().for_each(|list| list.retain(|entry| entry.0 > floor));
                self.rows.fill([floor; TILE_ROWS]);
                self.total = lists.iter().map(Vec::len).sum();
            }
            _ => {}
        }
    }
}

/// The values of a panel.
#[inline(always)]
fn of_panel(values: &[f32], panel: usize) -> &[f32; PANEL] {
    &values.as_chunks::<PANEL>().0[panel]
}

/// The value of a rank (from 1, descending) among all entries.
pub(super) fn value_of_rank(lists: &[Entries], rank: usize) -> f32 {
    let mut values: Vec<f32> = lists.iter().flatten().map(|entry| entry.0).collect();
    match rank.checked_sub(1).filter(|&index| index < values.len()) {
        Some(index) => *values.select_nth_unstable_by(index, |a, b| b.total_cmp(a)).1,
        None => f32::NEG_INFINITY,
    }
}

/// Keeps the largest entries by absolute value, unordered.
fn keep_largest_magnitudes(list: &mut Entries, keep: usize) {
    if list.len() > keep {
        let by_magnitude = |a: &(f32, u32), b: &(f32, u32)| by_value(&(a.0.abs(), a.1), &(b.0.abs(), b.1));
        list.select_nth_unstable_by(keep - 1, by_magnitude);
        list.truncate(keep);
    }
}
