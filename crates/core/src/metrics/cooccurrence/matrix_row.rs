//! One row of a co-occurrence matrix.

use super::counts::{ALL, GROUPS, case, sums_without, threshold_table};

/// An entry while it is summed.
#[derive(Clone, Copy, Default, PartialEq)]
struct Cell {
    /// Sums of products, over the rows of each half.
    halves: [f64; 2],
    /// The groups of rows in which both latents have a value, as bits.
    groups: u32,
}

/// An entry, ranked among the thresholds.
#[derive(Clone, Copy, Default, PartialEq)]
pub(super) struct Rank {
    /// Number of thresholds below it.
    pub whole: u8,
    /// The same for the rows of each half.
    pub halves: [u8; 2],
    /// The [`case`]: without which groups of rows it is above the threshold.
    pub case: u8,
}

/// Factors of sums of products before they are compared with thresholds.
pub(super) struct Scale {
    pub whole: f64,
    pub halves: [f64; 2],
    /// The threshold of the sum without each group.
    pub without: [f64; GROUPS],
}

/// The row of one latent at a time.
#[derive(PartialEq)]
pub(super) struct MatrixRow {
    cells: Vec<Cell>,
    ranks: Vec<Rank>,
    /// The cells that are not empty, as bits.
    touched: Vec<u64>,
    /// Sums of products by group, if they are kept.
    parts: Vec<f64>,
}

impl MatrixRow {
    /// `by_group` keeps sums by group. Without them [`MatrixRow::above_without`] is valid only for a threshold of 0 and
    /// products that are not negative.
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

    /// Adds the product with another latent in a row of a group.
    #[inline]
    pub fn add(&mut self, other: u32, product: f64, group: usize) {
        let column = other as usize;
        let cell = &mut self.cells[column];
        cell.halves[usize::from(group >= GROUPS / 2)] += product;
        cell.groups |= 1 << group;
        self.touched[column / 64] |= 1 << (column % 64);
        if let Some(part) = self.parts.get_mut(column * GROUPS + group) {
            *part += product;
        }
    }

    /// Empties the row for the next latent.
    pub fn clear(&mut self) {
        let MatrixRow { cells, ranks, touched, parts } = self;
        each_column(touched.iter_mut().map(std::mem::take), |column| {
            (cells[column], ranks[column]) = (Cell::default(), Rank::default());
            if let Some(parts) = parts.get_mut(column * GROUPS..(column + 1) * GROUPS) {
                parts.fill(0.0);
            }
        });
    }

    /// Ranks all entries. Calls `take` with the other latent, its rank and the sum of products over all rows.
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

    /// Calls `take` with every latent that has an entry in either row, and its ranks in both.
    pub fn compare(&self, other: &MatrixRow, mut take: impl FnMut(usize, Rank, Rank)) {
        let words = self.touched.iter().zip(&other.touched).map(|(mine, theirs)| mine | theirs);
        each_column(words, |column| take(column, self.ranks[column], other.ranks[column]));
    }

    /// The sum of products over all rows.
    #[cfg(test)]
    pub fn product(&self, other: usize) -> f64 {
        let [first, second] = self.cells[other].halves;
        first + second
    }

    /// Whether the sum of products is above the threshold without each group of rows, as bits.
    #[inline]
    pub fn above_without(&self, other: usize, scale: &Scale) -> u32 {
        if let Some(parts) = self.parts.get(other * GROUPS..(other + 1) * GROUPS) {
            let without = sums_without(parts).into_iter().zip(&scale.without).enumerate();
            return without.fold(0, |bits, (group, (sum, least))| bits | u32::from(sum > *least) << group);
        }
        // The sum without the only group is 0, and without one of several it is positive.
        let groups = self.cells[other].groups;
        let without = if groups & groups.wrapping_sub(1) == 0 { ALL & !groups } else { ALL };
        if groups == 0 { 0 } else { without }
    }
}

/// Calls `take` with the index of every bit that is set.
#[inline(always)]
fn each_column(words: impl Iterator<Item = u64>, mut take: impl FnMut(usize)) {
    for (word, mut bits) in words.enumerate() {
        while bits != 0 {
            take(word * 64 + bits.trailing_zeros() as usize);
            bits &= bits - 1;
        }
    }
}
