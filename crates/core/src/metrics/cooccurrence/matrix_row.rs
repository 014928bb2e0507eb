//! One row of a co-occurrence matrix.

use super::counts::{ALL, GROUPS, case, sums_without, threshold_table};
use super::partners::Together;
use etalon_kernel::top::truncate_to_largest;

/// How a latent goes with the latent of the row.
#[derive(Clone, Copy, Default, PartialEq)]
struct Cell {
    /// Sums of products, over the rows of each half.
    halves: [f64; 2],
    /// The groups of rows in which both have a value, as bits.
    groups: u32,
    /// In how many rows both fire; counted for [`MatrixRow::together`] only.
    both: u32,
}

/// An entry as comparisons see it.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Rank {
    /// How many thresholds are below it.
    pub whole: u8,
    /// How many are below it in the rows of each half.
    pub halves: [u8; 2],
    /// Without which groups of rows it is above the threshold.
    pub case: u8,
}

/// What sums of products are multiplied with before they are compared with thresholds.
pub(super) struct Scale {
    pub whole: f64,
    pub halves: [f64; 2],
    /// What the sum without each group has to exceed.
    pub without: [f64; GROUPS],
}

/// The row of one latent at a time; memory is that of one row.
#[derive(PartialEq)]
pub(super) struct MatrixRow {
    cells: Vec<Cell>,
    ranks: Vec<Rank>,
    /// Which cells are not empty, as bits.
    touched: Vec<u64>,
    /// Sums of products by group, where bits do not say enough.
    parts: Vec<f64>,
}

impl MatrixRow {
    /// `by_group` keeps sums by group: without them [`MatrixRow::above_without`] knows thresholds of 0 and products that are
    /// not negative only.
    pub fn new(latents: usize, by_group: bool) -> MatrixRow {
        let parts = vec![0.0; if by_group { latents * GROUPS } else { 0 }];
        MatrixRow {
            cells: vec![Cell::default(); latents],
            ranks: vec![Rank::default(); latents],
            touched: vec![0; latents.div_ceil(64)],
            parts,
        }
    }

    /// Bytes of a row.
    pub fn bytes(latents: usize, by_group: bool) -> u64 {
        let cell = size_of::<Cell>() + size_of::<Rank>() + if by_group { 8 * GROUPS } else { 0 };
        latents as u64 * cell as u64 + latents as u64 / 8
    }

    /// Adds a sample: the product with another latent, the group of the sample's row, and whether both fire.
    #[inline]
    pub fn add(&mut self, other: u32, product: f64, group: usize, both: bool) {
        let column = other as usize;
        let cell = &mut self.cells[column];
        cell.halves[usize::from(group >= GROUPS / 2)] += product;
        cell.groups |= 1 << group;
        cell.both += u32::from(both);
        self.touched[column / 64] |= 1 << (column % 64);
        if let Some(part) = self.parts.get_mut(column * GROUPS + group) {
            *part += product;
        }
    }

    /// Forgets everything, for the next latent.
    pub fn clear(&mut self) {
        let MatrixRow { cells, ranks, touched, parts } = self;
        each_column(touched.iter_mut().map(std::mem::take), |column| {
            (cells[column], ranks[column]) = (Cell::default(), Rank::default());
            if let Some(parts) = parts.get_mut(column * GROUPS..(column + 1) * GROUPS) {
                parts.fill(0.0);
            }
        });
    }

    /// Ranks all entries. Calls with the other latent, the rank and the sum of products over all rows.
    pub fn rank(&mut self, scale: &Scale, mut take: impl FnMut(usize, Rank, f64)) {
        let thresholds = threshold_table();
        let mut ranks = std::mem::take(&mut self.ranks);
        each_column(self.touched.iter().copied(), |column| {
            let [first, second] = self.cells[column].halves;
            let rank = Rank {
                whole: thresholds.below((first + second) * scale.whole),
                halves: [thresholds.below(first * scale.halves[0]), thresholds.below(second * scale.halves[1])],
                case: case(self.above_without(column, scale)),
            };
            ranks[column] = rank;
            take(column, rank, first + second);
        });
        self.ranks = ranks;
    }

    /// Calls with every latent that fires together with that of this row or of another, and its ranks in both.
    pub fn compare(&self, other: &MatrixRow, mut take: impl FnMut(usize, Rank, Rank)) {
        let words = self.touched.iter().zip(&other.touched).map(|(mine, theirs)| mine | theirs);
        each_column(words, |column| take(column, self.ranks[column], other.ranks[column]));
    }

    /// The sum of products over all rows.
    pub fn product(&self, other: usize) -> f64 {
        let [first, second] = self.cells[other].halves;
        first + second
    }

    /// Is the sum of products above the threshold without each group of rows? One bit per group.
    #[inline]
    pub fn above_without(&self, other: usize, scale: &Scale) -> u32 {
        if let Some(parts) = self.parts.get(other * GROUPS..(other + 1) * GROUPS) {
            let without = sums_without(parts).into_iter().zip(&scale.without).enumerate();
            return without.fold(0, |bits, (group, (sum, least))| bits | u32::from(sum > *least) << group);
        }
        // Without its only group nothing is left, and without one of several something is.
        let groups = self.cells[other].groups;
        let without = if groups & groups.wrapping_sub(1) == 0 { ALL & !groups } else { ALL };
        if groups == 0 { 0 } else { without }
    }

    /// The columns with the largest positive entries.
    pub fn best(&self, keep: usize) -> Vec<u32> {
        let mut list: Vec<(f32, u32)> = Vec::new();
        each_column(self.touched.iter().copied(), |other| list.push((self.product(other) as f32, other as u32)));
        list.retain(|entry| entry.0 > 0.0);
        truncate_to_largest(&mut list, keep);
        list.into_iter().map(|entry| entry.1).collect()
    }

    /// How another latent goes with that of the row; `mine` and `theirs` are the rows in which each fires.
    pub fn together(&self, other: u32, mine: u64, theirs: u64, rows: usize) -> Together {
        Together::new(self.product(other as usize), u64::from(self.cells[other as usize].both), [mine, theirs], rows)
    }
}

/// Calls with the column of every bit.
#[inline(always)]
fn each_column(words: impl Iterator<Item = u64>, mut take: impl FnMut(usize)) {
    for (word, mut bits) in words.enumerate() {
        while bits != 0 {
            take(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}
