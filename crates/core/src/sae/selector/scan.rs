//! Selection by all products: tiles are looked at while they are in the first-level cache.

use std::ops::Range;

use super::{Entries, Selector};
use etalon_kernel::activation::{Gates, add_bias, nonzero};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::packed::{PANEL, TILE_ROWS, Tile, add_and_compare, blocks_at_once, exceeding, fill_block};
use etalon_kernel::top::{by_value, keep_largest};

/// What a list may hold beyond what it keeps, before it is cut.
const SLACK: usize = 96;

/// When lists are cut while they grow, so that they stay short and floors rise.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cut {
    /// Never.
    Nothing,
    /// Where a row holds twice as many, it keeps so many.
    Rows(usize),
    /// Where a group of rows holds twice as many, it keeps so many, and equals of the last.
    Group(usize),
}

/// The floors of a group of rows, by tile.
struct Floors {
    rows: Vec<[f32; TILE_ROWS]>,
    /// Entries of all rows.
    total: usize,
    scratch: Vec<i32>,
}

/// A panel of the encoder, and a tile of a group of rows.
#[derive(Clone, Copy)]
struct Position {
    panel: usize,
    tile: usize,
}

impl Selector<'_> {
    /// Everything above the floors of latents and the starts of rows.
    pub(super) fn scan(&self, rows: &[f32], start: impl Fn(usize) -> f32 + Sync, cut: Cut, lists: &mut [Entries]) {
        let begin = |rows: Range<usize>| {
            // What fills the last tile is never picked.
            let from = |row: usize| if row < rows.end { start(row) } else { f32::INFINITY };
            let tiles = rows.clone().step_by(TILE_ROWS);
            let rows = tiles.map(|first| std::array::from_fn(|row| from(first + row))).collect();
            Floors { rows, total: 0, scratch: Vec::new() }
        };
        self.visit_tiles(rows, lists, begin, |floors, lists, tile, Position { panel, tile: index }| {
            let (bias, own) = (of_panel(self.bias, panel), of_panel(self.floors, panel));
            // Most rows find nothing in a panel, so that all are asked first.
            let mut hits = add_and_compare(tile, bias, own, &floors.rows[index]);
            while hits != 0 {
                let row = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let Some(list) = lists.get_mut(index * TILE_ROWS + row) else { break };
                let line = &tile.as_chunks::<PANEL>().0[row];
                let before = list.len();
                self.push(list, line, panel, exceeding(line, own, floors.rows[index][row]));
                floors.total += list.len() - before;
                floors.cut(cut, index * TILE_ROWS + row, lists);
            }
        });
    }

    /// Positive magnitudes behind open gates.
    pub(super) fn scan_gated(&self, gates: [&[f32]; 3], rows: &[f32], lists: &mut [Entries]) {
        self.visit_tiles(
            rows,
            lists,
            |_| (),
            |(), lists, tile, position| {
                let [gate_bias, scale, magnitude_bias] = gates.map(|values| of_panel(values, position.panel));
                Gates { bias: of_panel(self.bias, position.panel), gate_bias, scale, magnitude_bias }.apply(tile);
                for (list, line) in position.rows(lists).zip(tile.as_chunks::<PANEL>().0) {
                    self.push(list, line, position.panel, exceeding(line, &[0.0; PANEL], 0.0));
                }
            },
        );
    }

    /// Everything that is not 0, or the largest of it by absolute value.
    pub(super) fn scan_nonzero(&self, keep: Option<usize>, rows: &[f32], lists: &mut [Entries]) {
        self.visit_tiles(
            rows,
            lists,
            |_| (),
            |(), lists, tile, position| {
                add_bias(tile, of_panel(self.bias, position.panel));
                for (list, line) in position.rows(lists).zip(tile.as_chunks::<PANEL>().0) {
                    self.push(list, line, position.panel, nonzero(line));
                    if let Some(keep) = keep.filter(|keep| list.len() >= 2 * keep + SLACK) {
                        keep_by_size(list, keep);
                    }
                }
            },
        );
        if let Some(keep) = keep {
            for list in lists {
                keep_by_size(list, keep);
                list.sort_unstable_by_key(|entry| entry.1);
            }
        }
    }

    /// The best value alone. What is not a number is the best of all, so that it can be refused.
    pub(super) fn scan_nearest(&self, rows: &[f32], lists: &mut [Entries]) {
        self.visit_tiles(
            rows,
            lists,
            |_| (),
            |(), lists, tile, position| {
                let first = position.panel * PANEL;
                let count = PANEL.min(self.panels.columns() - first);
                add_bias(tile, of_panel(self.bias, position.panel));
                for (list, line) in position.rows(lists).zip(tile.as_chunks::<PANEL>().0) {
                    for (column, &value) in line[..count].iter().enumerate() {
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

    /// Adds the values of a line that a mask names.
    #[inline(always)]
    fn push(&self, list: &mut Entries, line: &[f32; PANEL], panel: usize, mut mask: u32) {
        while mask != 0 {
            let column = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            if self.keeps_nan || !line[column].is_nan() {
                list.push((line[column], (panel * PANEL + column) as u32));
            }
        }
    }

    /// Empties all lists and forms the products of groups of rows with every panel, panels ascending. `begin` makes what
    /// is kept with a group, from the range of its rows; `visit` sees every tile with the lists of its group.
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
        self.each_chunk(lists, at_once * TILE_ROWS, |first, lists| {
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
    /// The lists of the tile's rows.
    fn rows(self, lists: &mut [Entries]) -> impl Iterator<Item = &mut Entries> {
        lists.iter_mut().skip(self.tile * TILE_ROWS).take(TILE_ROWS)
    }
}

impl Floors {
    /// Cuts what has become too long after a row gained something, and raises the floors.
    #[inline(always)]
    fn cut(&mut self, cut: Cut, row: usize, lists: &mut [Entries]) {
        match cut {
            Cut::Rows(keep) if lists[row].len() > 2 * keep + SLACK => {
                let floor = keep_largest(&mut lists[row], keep, &mut self.scratch);
                self.rows[row / TILE_ROWS][row % TILE_ROWS] = floor;
            }
            Cut::Group(keep) if self.total > 2 * keep + 16 * SLACK => {
                // The cut of a part is never above that of the whole.
                let floor = nth(lists, keep).next_down();
                lists.iter_mut().for_each(|list| list.retain(|entry| entry.0 > floor));
                self.rows.fill([floor; TILE_ROWS]);
                self.total = lists.iter().map(Vec::len).sum();
            }
            _ => {}
        }
    }
}

/// The numbers of a panel.
#[inline(always)]
fn of_panel(values: &[f32], panel: usize) -> &[f32; PANEL] {
    &values.as_chunks::<PANEL>().0[panel]
}

/// The value of a rank (from 1) among all entries of some lists, largest first.
pub(super) fn nth(lists: &[Entries], rank: usize) -> f32 {
    let mut values: Vec<f32> = lists.iter().flatten().map(|entry| entry.0).collect();
    match rank.checked_sub(1).filter(|&index| index < values.len()) {
        Some(index) => *values.select_nth_unstable_by(index, |a, b| b.total_cmp(a)).1,
        None => f32::NEG_INFINITY,
    }
}

/// Keeps the largest by absolute value, in no order.
fn keep_by_size(list: &mut Entries, keep: usize) {
    if list.len() > keep {
        let by_size = |a: &(f32, u32), b: &(f32, u32)| by_value(&(a.0.abs(), a.1), &(b.0.abs(), b.1));
        list.select_nth_unstable_by(keep - 1, by_size);
        list.truncate(keep);
    }
}
