//! The encoder product, tile by tile, and what is kept of it. The full product never exists.

use rayon::prelude::*;

use crate::kernel::aligned::Aligned;
use crate::kernel::candidates::{Found, Search};
use crate::kernel::eight::{Arithmetic, Columns};
use crate::kernel::panels::{PANEL, Panels, TILE_ROWS, add_and_compare, blocks_at_once, exceeding, fill_block};
use crate::kernel::top::{keep_largest, usual_floor};
use crate::kernel::vector::dot;
use crate::sae::arch::Selection;

/// Pre-activation and latent, latents ascending once a selection is finished.
pub(super) type Picks = Vec<(f32, u32)>;

/// What a row's list may hold beyond what it keeps, before it is cut.
const SLACK: usize = 96;

/// What products must exceed, by tile and row.
type Floors = [[f32; TILE_ROWS]];

/// Of how many latents at least one must be kept for candidates to be few.
const SPARSE: usize = 48;

/// A row with more candidates than one in so many latents gets all its products.
const MANY: usize = 8;

/// Rows that are searched together, at most.
const SEARCHED: usize = 1056;

/// What the last selection left for the next: it saves time and changes nothing else.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Where the last batch was cut.
    guess: f32,
    /// Whether few products of the last batch exceeded the floors of their latents.
    few: bool,
    found: Vec<Found>,
}

impl Memory {
    /// Whether candidates should be proposed by rounded products.
    pub fn wants_candidates(&self, selection: Selection, latents: usize) -> bool {
        match selection {
            Selection::Above => self.few,
            Selection::PerRow(keep) | Selection::PerBatch(keep) => {
                self.guess > 0.0 && keep.saturating_mul(SPARSE) <= latents
            }
            Selection::Pursuit(_) => false,
        }
    }
}

/// A product to select from.
#[derive(Clone, Copy)]
pub(super) struct Selector<'a> {
    /// The encoder.
    pub panels: &'a Panels,
    /// Added to every product, one per latent, padded to whole panels.
    pub bias: &'a [f32],
    /// Products must exceed these, one per latent; infinite in the padding.
    pub floors: &'a [f32],
    /// The input, padded to whole tiles.
    pub rows: &'a [f32],
    /// Values per row of the input.
    pub stride: usize,
    /// The encoder, rounded: it proposes what may be kept, and saves most of the product.
    pub rounded: Option<&'a Columns>,
}

impl Selector<'_> {
    /// Selects for every row.
    pub fn select(&self, selection: Selection, memory: &mut Memory, picks: &mut [Picks]) {
        match selection {
            Selection::Above => {
                self.above(None, memory, picks);
                let total: usize = picks.iter().map(Vec::len).sum();
                memory.few = total.saturating_mul(SPARSE) <= picks.len().saturating_mul(self.panels.columns());
            }
            Selection::PerRow(keep) => self.per_row(keep, memory, picks),
            // A pursuit chooses by itself.
            Selection::Pursuit(_) => {}
            Selection::PerBatch(keep) => self.per_batch(keep.saturating_mul(picks.len()), memory, picks),
        }
    }

    /// Everything above the floors of latents and the starts of rows.
    fn above(&self, starts: Option<&[f32]>, memory: &mut Memory, picks: &mut [Picks]) {
        let start = |row: usize| starts.map_or(f32::NEG_INFINITY, |starts| starts[row]);
        match self.search(starts, memory, picks) {
            Some(left) => self.again(&left, start, |_, _, _, _| {}, picks),
            None => self.blocks(picks, start, |_, _, _, _| {}),
        }
    }

    /// Everything above the floors of latents and the starts of rows, but for some rows, which are returned. Nothing is
    /// searched if there is no rounded encoder, or if it cannot be trusted.
    fn search(&self, starts: Option<&[f32]>, memory: &mut Memory, picks: &mut [Picks]) -> Option<Vec<usize>> {
        let Selector { panels, bias, floors, rows, stride, .. } = *self;
        let search = Search { panels, columns: self.rounded?, bias, floors, arithmetic: Arithmetic::fastest() };
        if !search.usable() {
            return None;
        }
        let threads = rayon::current_num_threads().max(1);
        let size = picks.len().div_ceil(threads).next_multiple_of(PANEL).clamp(PANEL, SEARCHED);
        memory.found.resize_with(picks.len().div_ceil(size), Found::default);
        let most = panels.columns() / MANY + PANEL;
        (picks.par_chunks_mut(size), &mut memory.found).into_par_iter().enumerate().for_each(
            |(which, (picks, found))| {
                let (first, count) = (which * size, picks.len());
                let starts = starts.map(|starts| &starts[first..first + count]);
                search.run(&rows[first * stride..], stride, count, starts, most, found);
                for (row, picks) in picks.iter_mut().enumerate() {
                    picks.clear();
                    picks.extend_from_slice(found.row(row));
                }
            },
        );
        let left = memory.found.iter().enumerate();
        Some(left.flat_map(|(which, found)| found.left.iter().map(move |row| which * size + row)).collect())
    }

    /// Does some rows again by all their products.
    fn again(
        &self,
        which: &[usize],
        start: impl Fn(usize) -> f32 + Sync,
        gained: impl Fn(&mut [Picks], usize, &mut Floors, &mut usize) + Sync,
        picks: &mut [Picks],
    ) {
        let mut rows = vec![0.0; which.len().next_multiple_of(TILE_ROWS) * self.stride];
        for (&row, into) in which.iter().zip(rows.chunks_exact_mut(self.stride)) {
            into.copy_from_slice(&self.rows[row * self.stride..][..self.stride]);
        }
        let mut found = vec![Picks::new(); which.len()];
        Selector { rows: &rows, ..*self }.blocks(&mut found, |place| start(which[place]), gained);
        which.iter().zip(found).for_each(|(&row, found)| picks[row] = found);
    }

    /// The largest of every row. Rows start from a floor that nearly all rows of the last batch exceeded, in units of their
    /// length, so that little is picked up in vain; the few that then have too few are done again without it.
    fn per_row(&self, keep: usize, memory: &mut Memory, picks: &mut [Picks]) {
        let most = 2 * keep + SLACK;
        let cut = |picks: &mut [Picks], place: usize, floors: &mut Floors, _: &mut usize| {
            if picks[place].len() > most {
                floors[place / TILE_ROWS][place % TILE_ROWS] = keep_largest(&mut picks[place], keep, &mut Vec::new());
            }
        };
        let rows = self.rows.par_chunks_exact(self.stride).take(picks.len()).with_min_len(64);
        let lengths: Vec<f32> = rows.map(|row| dot(row, row).sqrt()).collect();
        if memory.guess > 0.0 {
            let starts: Vec<f32> = lengths.iter().map(|length| memory.guess * length).collect();
            if self.search(Some(&starts), memory, picks).is_none() {
                self.blocks(picks, |row| starts[row], cut);
            }
            let poor: Vec<usize> = (0..picks.len()).filter(|&row| picks[row].len() < keep).collect();
            self.again(&poor, |_| f32::NEG_INFINITY, cut, picks);
        } else {
            self.blocks(picks, |_| f32::NEG_INFINITY, cut);
        }
        let finish = |scratch: &mut Vec<i32>, picks: &mut Picks| keep_largest(picks, keep, scratch);
        let floors: Vec<f32> = picks.par_iter_mut().with_min_len(64).map_init(Vec::new, finish).collect();
        memory.guess = usual_floor(floors.into_iter().zip(lengths));
    }

    /// The largest of the whole batch. A block that holds twice as many drops what is below its own cut: the cut of a part
    /// is never above that of the whole.
    fn per_batch(&self, keep: usize, memory: &mut Memory, picks: &mut [Picks]) {
        let most = 2 * keep + 16 * SLACK;
        let cut = |picks: &mut [Picks], _: usize, floors: &mut Floors, total: &mut usize| {
            if *total > most {
                let floor = nth(picks, keep).next_down();
                picks.iter_mut().for_each(|picks| picks.retain(|entry| entry.0 > floor));
                floors.iter_mut().for_each(|floors| *floors = [floor; TILE_ROWS]);
                *total = picks.iter().map(Vec::len).sum();
            }
        };
        let mut start = memory.guess;
        loop {
            let starts = vec![start; picks.len()];
            match if start > 0.0 { self.search(Some(&starts), memory, picks) } else { None } {
                Some(left) => self.again(&left, |_| start, |_, _, _, _| {}, picks),
                None => self.blocks(picks, |_| start, cut),
            }
            let total: usize = picks.iter().map(Vec::len).sum();
            if total >= keep || start <= 0.0 {
                break;
            }
            start = f32::NEG_INFINITY;
        }
        let total: usize = picks.iter().map(Vec::len).sum();
        memory.guess = f32::NEG_INFINITY;
        if total > keep && keep > 0 {
            // Above the cut all stay; at the cut the first rows and latents.
            let floor = nth(picks, keep);
            let above: usize = picks.iter().map(|picks| picks.iter().filter(|entry| entry.0 > floor).count()).sum();
            let mut equal = keep - above;
            for picks in picks.iter_mut() {
                picks.retain(|entry| {
                    let at = entry.0 == floor && equal > 0;
                    equal -= usize::from(at);
                    at || entry.0 > floor
                });
            }
            memory.guess = 0.9 * floor;
        } else if keep == 0 {
            picks.iter_mut().for_each(Vec::clear);
        }
    }

    /// Runs all panels over blocks of rows, each of which starts from a floor. After every row that gained something, `gained` may cut lists and raise
    /// floors; it is told the row and the number of entries in the block.
    fn blocks(
        &self,
        picks: &mut [Picks],
        start: impl Fn(usize) -> f32 + Sync,
        gained: impl Fn(&mut [Picks], usize, &mut Floors, &mut usize) + Sync,
    ) {
        let at_once = blocks_at_once(picks.len().div_ceil(TILE_ROWS), self.stride, rayon::current_num_threads());
        let size = TILE_ROWS * self.stride;
        picks.par_chunks_mut(at_once * TILE_ROWS).enumerate().for_each(|(which, picks)| {
            picks.iter_mut().for_each(Vec::clear);
            let (tiles, first) = (picks.len().div_ceil(TILE_ROWS), which * at_once * size);
            let (mut packed, mut products) = (Aligned::zeros(tiles * size), Aligned::zeros(tiles * TILE_ROWS * PANEL));
            for (rows, block) in self.rows[first..].chunks_exact(size).zip(packed.chunks_exact_mut(size)) {
                fill_block(rows, self.stride, block);
            }
            let (products, _) = products.as_chunks_mut::<{ TILE_ROWS * PANEL }>();
            // What fills the last tile is never picked.
            let from =
                |row: usize| if row < picks.len() { start(which * at_once * TILE_ROWS + row) } else { f32::INFINITY };
            let floors = (0..tiles).map(|tile| std::array::from_fn(|row| from(tile * TILE_ROWS + row)));
            let (mut floors, mut total): (Vec<[f32; TILE_ROWS]>, usize) = (floors.collect(), 0);
            for panel in 0..self.panels.panels() {
                let place = panel * PANEL;
                let (bias, own) = (&self.bias[place..][..PANEL], &self.floors.as_chunks::<PANEL>().0[panel]);
                self.panels.products(&packed, panel, products);
                for (at, tile) in products.iter_mut().enumerate() {
                    let mut hits = add_and_compare(tile, bias, own, &floors[at]);
                    while hits != 0 {
                        let r = hits.trailing_zeros() as usize;
                        hits &= hits - 1;
                        let row = at * TILE_ROWS + r;
                        if row >= picks.len() {
                            break;
                        }
                        let (floor, before) = (floors[at][r], picks[row].len());
                        let line = &tile.as_chunks::<PANEL>().0[r];
                        let mut mask = exceeding(line, own, floor);
                        while mask != 0 {
                            let c = mask.trailing_zeros() as usize;
                            mask &= mask - 1;
                            // What is not a number is never kept.
                            if !line[c].is_nan() {
                                picks[row].push((line[c], (place + c) as u32));
                            }
                        }
                        total += picks[row].len() - before;
                        gained(picks, row, &mut floors, &mut total);
                    }
                }
            }
        });
    }
}

/// The value at a place (from 1) among all entries of some lists, largest first.
fn nth(picks: &[Picks], place: usize) -> f32 {
    let mut values: Vec<f32> = picks.iter().flatten().map(|entry| entry.0).collect();
    match place.checked_sub(1).filter(|&place| place < values.len()) {
        Some(place) => *values.select_nth_unstable_by(place, |a, b| b.total_cmp(a)).1,
        None => f32::NEG_INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::{stream, unit};
    use crate::kernel::top::by_value;

    /// All products, as they are.
    fn dense(rows: usize, latents: usize, stride: usize, seed: u64) -> (Vec<f32>, Panels, Vec<f32>) {
        let mut random = stream(seed, "select test", 0);
        let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
        let mut x = draw(rows * stride);
        let w = draw(latents * stride);
        x.resize(rows.next_multiple_of(TILE_ROWS) * stride, 0.0);
        let panels = Panels::pack(&w, stride);
        let chain = |row: &[f32], w: &[f32]| row.iter().zip(w).fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
        let all = x[..rows * stride]
            .chunks_exact(stride)
            .flat_map(|row| w.chunks_exact(stride).map(move |w| chain(row, w)).collect::<Vec<_>>())
            .collect();
        (x, panels, all)
    }

    #[test]
    fn selections_agree_with_sorting_everything() {
        for (rows, latents, keep) in [(1, 1, 1), (5, 40, 3), (30, 700, 8), (300, 500, 60)] {
            let stride = 16;
            let (x, panels, all) = dense(rows, latents, stride, rows as u64);
            let padded = latents.next_multiple_of(PANEL);
            let mut floors = vec![0.0; latents];
            floors.resize(padded, f32::INFINITY);
            let bias = vec![0.0; padded];
            let selector = Selector { panels: &panels, bias: &bias, floors: &floors, rows: &x, stride, rounded: None };
            let entries = |row: usize| -> Picks {
                let row = &all[row * latents..][..latents];
                let pairs = row.iter().enumerate().map(|(latent, &value)| (value, latent as u32));
                pairs.filter(|entry| entry.0 > 0.0).collect()
            };
            let mut picks = vec![Picks::new(); rows];
            let mut memory = Memory::default();
            selector.select(Selection::Above, &mut memory, &mut picks);
            assert!((0..rows).all(|row| picks[row] == entries(row)));
            // Once without a guess, once with that of the first time, once with one that is too high for most rows.
            for start in [None, None, Some(0.6)] {
                memory.guess = start.unwrap_or(memory.guess);
                selector.select(Selection::PerRow(keep), &mut memory, &mut picks);
                for (row, picks) in picks.iter().enumerate() {
                    let mut best = entries(row);
                    best.sort_by(by_value);
                    best.truncate(keep);
                    best.sort_by_key(|entry| entry.1);
                    assert_eq!(*picks, best);
                }
            }
            memory.guess = f32::NEG_INFINITY;
            let mut best: Vec<(f32, usize, u32)> =
                (0..rows).flat_map(|row| entries(row).into_iter().map(move |entry| (entry.0, row, entry.1))).collect();
            best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)).then(a.2.cmp(&b.2)));
            best.truncate(keep * rows);
            best.sort_by_key(|entry| (entry.1, entry.2));
            // Once without a guess, once with the right one, once with one that is too high.
            for start in [f32::NEG_INFINITY, memory.guess, 1e9] {
                memory.guess = start;
                selector.select(Selection::PerBatch(keep), &mut memory, &mut picks);
                let found: Vec<(f32, usize, u32)> = picks
                    .iter()
                    .enumerate()
                    .flat_map(|(row, picks)| picks.iter().map(move |entry| (entry.0, row, entry.1)))
                    .collect();
                assert_eq!(found, best);
            }
        }
    }

    #[test]
    fn equal_values_go_to_the_first_rows_and_latents() {
        let panels = Panels::pack(&[1.0; 3 * 16], 16);
        let floors: Vec<f32> = (0..PANEL).map(|latent| if latent < 3 { 0.0 } else { f32::INFINITY }).collect();
        let rows = vec![1.0; TILE_ROWS * 16];
        let selector =
            Selector { panels: &panels, bias: &[0.0; PANEL], floors: &floors, rows: &rows, stride: 16, rounded: None };
        let mut picks = vec![Picks::new(); 2];
        selector.select(Selection::PerRow(2), &mut Memory::default(), &mut picks);
        assert_eq!(picks, vec![vec![(16.0, 0), (16.0, 1)]; 2]);
        selector.select(Selection::PerBatch(2), &mut Memory::default(), &mut picks);
        assert_eq!(picks, [vec![(16.0, 0), (16.0, 1), (16.0, 2)], vec![(16.0, 0)]]);
    }

    /// Rows of three kinds: even, with heavy tails, and unequal in their directions with a mean that all share.
    fn data(kind: usize, rows: usize, stride: usize) -> Vec<f32> {
        let mut random = stream(kind as u64, "rows to select from", 0);
        let mut x: Vec<f32> = (0..rows * stride)
            .map(|place| {
                let value = (0..4).map(|_| unit(&mut random) as f32 - 0.5).sum::<f32>();
                match kind {
                    0 => value,
                    1 => value.powi(5) * 10.0,
                    _ => 0.3 + value / (1 + place % stride) as f32,
                }
            })
            .collect();
        x.resize(rows.next_multiple_of(TILE_ROWS) * stride, 0.0);
        x
    }

    #[test]
    fn candidates_change_nothing() {
        let (rows, latents, stride) = (100, 700, 32);
        let (_, mut panels, _) = dense(1, latents, stride, 5);
        // Latents that are equal make ties.
        let mut column = vec![0.0; stride];
        panels.column(3, &mut column);
        [40, 41, 400].iter().for_each(|&place| panels.set_column(place, &column));
        let rounded = Columns::new(panels.values(), stride);
        let bias: Vec<f32> = (0..704).map(|latent| (latent % 5) as f32 / 100.0).collect();
        let floors: Vec<f32> = (0..704).map(|latent| if latent < latents { 0.01 } else { f32::INFINITY }).collect();
        for kind in 0..3 {
            let mut x = data(kind, rows, stride);
            // One row with an outlier, one of zeros, two that are equal.
            x[7 * stride] = 1e4;
            x[8 * stride..9 * stride].fill(0.0);
            x.copy_within(0..stride, 9 * stride);
            let plain = Selector { panels: &panels, bias: &bias, floors: &floors, rows: &x, stride, rounded: None };
            for (selection, starts) in [
                (Selection::PerRow(9), &[0.05, 0.3, 0.5, 30.0][..]),
                (Selection::PerBatch(9), &[0.1, 0.4, 1e6]),
                (Selection::Above, &[0.0]),
            ] {
                let mut expected = vec![Picks::new(); rows];
                plain.select(selection, &mut Memory::default(), &mut expected);
                for (&guess, threads) in starts.iter().cycle().zip([1, 2, 7, 2]) {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
                    let (mut picks, mut memory) = (vec![Picks::new(); rows], Memory { guess, ..Memory::default() });
                    let searching = Selector { rounded: Some(&rounded), ..plain };
                    pool.install(|| searching.select(selection, &mut memory, &mut picks));
                    assert_eq!(picks, expected, "kind {kind}, {selection:?} from {guess}");
                    assert!(!memory.found.is_empty());
                }
            }
        }
    }
}
