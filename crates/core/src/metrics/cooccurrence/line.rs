//! One line of a co-occurrence matrix.

use super::counts::{ALL, GROUPS, sums_without};
use super::partners::Together;
use crate::codes::Latent;
use crate::kernel::top::truncate_to_largest;

/// How a latent goes with the latent of the line.
#[derive(Clone, Copy, Default, PartialEq)]
struct Cell {
    /// Sums of products, over the rows of each half.
    halves: [f64; 2],
    /// The groups of rows in which the product is not 0, as bits.
    groups: u32,
    /// In how many rows both fire.
    both: u32,
}

/// The line of one latent at a time; memory is that of one line.
#[derive(PartialEq)]
pub(super) struct Line {
    cells: Vec<Cell>,
    /// Which cells are not empty, as bits.
    touched: Vec<u64>,
    /// Sums of products by group, where bits do not say enough.
    parts: Vec<f64>,
}

impl Line {
    /// `by_group` keeps sums by group: without them [`Line::above_without`] knows thresholds of 0 and products that are
    /// not negative only.
    pub fn new(latents: usize, by_group: bool) -> Line {
        let parts = vec![0.0; if by_group { latents * GROUPS } else { 0 }];
        Line { cells: vec![Cell::default(); latents], touched: vec![0; latents.div_ceil(64)], parts }
    }

    /// Bytes of a line.
    pub fn bytes(latents: usize, by_group: bool) -> u64 {
        let cell = size_of::<Cell>() + if by_group { 8 * GROUPS } else { 0 };
        latents as u64 * cell as u64 + latents as u64 / 8
    }

    /// Adds a row: the product with another latent, the row's group, and whether both fire.
    #[inline]
    pub fn add(&mut self, other: u32, product: f64, group: usize, both: bool) {
        let place = other as usize;
        let cell = &mut self.cells[place];
        cell.halves[usize::from(group >= GROUPS / 2)] += product;
        cell.groups |= u32::from(product != 0.0) << group;
        cell.both += u32::from(both);
        self.touched[place / 64] |= 1 << (place % 64);
        if let Some(part) = self.parts.get_mut(place * GROUPS + group) {
            *part += product;
        }
    }

    /// Forgets everything, for the next latent.
    pub fn clear(&mut self) {
        for (word, bits) in self.touched.iter_mut().enumerate() {
            for place in places(word, std::mem::take(bits)) {
                self.cells[place as usize] = Cell::default();
                if let Some(parts) = self.parts.get_mut(place as usize * GROUPS..(place as usize + 1) * GROUPS) {
                    parts.fill(0.0);
                }
            }
        }
    }

    /// The latents after one that fire together with that of this line or of another, ascending.
    pub fn either_after<'a>(&'a self, other: &'a Line, latent: Latent) -> impl Iterator<Item = u32> + 'a {
        let first = (latent.0 + 1) as usize;
        let after = move |word: usize| if word == first / 64 { u64::MAX << (first % 64) } else { u64::MAX };
        let words = self.touched.iter().zip(&other.touched).enumerate().skip(first / 64);
        words.flat_map(move |(word, (mine, theirs))| places(word, (mine | theirs) & after(word)))
    }

    /// Sums of products, over the rows of each half.
    pub fn halves(&self, other: u32) -> [f64; 2] {
        self.cells[other as usize].halves
    }

    /// The sum of products over all rows.
    pub fn product(&self, other: u32) -> f64 {
        let [first, second] = self.halves(other);
        first + second
    }

    /// Is the sum of products above the threshold without each group of rows? One bit per group.
    pub fn above_without(&self, other: u32, thresholds: &[f64; GROUPS]) -> u32 {
        if let Some(parts) = self.parts.get(other as usize * GROUPS..(other as usize + 1) * GROUPS) {
            let without = sums_without(parts).into_iter().zip(thresholds).enumerate();
            return without.fold(0, |bits, (group, (sum, least))| bits | u32::from(sum > *least) << group);
        }
        // Without its only group nothing is left, and without one of several something is.
        match self.cells[other as usize].groups {
            0 => 0,
            groups if groups.is_power_of_two() => ALL & !groups,
            _ => ALL,
        }
    }

    /// The columns with the largest positive entries.
    pub fn best(&self, keep: usize) -> Vec<u32> {
        let touched = self.touched.iter().enumerate().flat_map(|(word, &bits)| places(word, bits));
        let mut list: Vec<(f32, u32)> =
            touched.map(|other| (self.product(other) as f32, other)).filter(|entry| entry.0 > 0.0).collect();
        truncate_to_largest(&mut list, keep);
        list.into_iter().map(|entry| entry.1).collect()
    }

    /// How another latent goes with that of the line; `mine` and `theirs` are the rows in which each fires.
    pub fn together(&self, other: u32, mine: u64, theirs: u64, rows: usize) -> Together {
        let both = u64::from(self.cells[other as usize].both);
        let either = mine + theirs - both;
        let pmi = || libm::log(both as f64 * rows as f64 / (mine as f64 * theirs as f64));
        Together {
            product: self.product(other),
            jaccard: (either > 0).then(|| both as f64 / either as f64),
            pmi: (both > 0).then(pmi),
        }
    }
}

/// The places of the bits of a word.
fn places(word: usize, mut bits: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let next = (bits != 0).then(|| word as u32 * 64 + bits.trailing_zeros());
        bits &= bits.wrapping_sub(1);
        next
    })
}
