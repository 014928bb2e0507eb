//! The columns of a probe: latents or channels, as class means, as a few columns, or all of them.

use super::draw::DrawnRows;
use crate::codes::Codes;
use crate::context::{Budget, Reserved};
use crate::error::Result;
use crate::probe::design::Design;
use crate::store::ActivationStore;

/// Codes or embeddings.
#[derive(Clone, Copy)]
pub enum Space<'a> {
    /// Latents, each multiplied by a length if there are any.
    Codes(&'a Codes, Option<&'a [f32]>),
    /// Channels.
    Embeddings(&'a ActivationStore),
}

/// A copy of some rows.
pub enum CopiedRows {
    /// Of codes.
    Codes(Box<Reserved<Codes>>),
    /// Of embeddings, with their width.
    Embeddings(Reserved<Vec<f32>>, usize),
}

impl CopiedRows {
    /// The design matrix of the rows.
    pub fn design(&self) -> Result<Design<'_>> {
        Ok(match self {
            CopiedRows::Codes(codes) => Design::Sparse { codes: codes.all()?, latents: codes.latents() },
            CopiedRows::Embeddings(values, width) => Design::Dense { values, width: *width },
        })
    }
}

/// How the class means of a column are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeanContrast {
    /// Their difference.
    Difference,
    /// Their difference, divided by the mean absolute value of the nonzero entries.
    Normalised,
}

impl Space<'_> {
    /// The number of columns.
    pub fn width(&self) -> usize {
        match self {
            Space::Codes(codes, _) => codes.latents(),
            Space::Embeddings(store) => store.width(),
        }
    }

    /// Visits the entries of some rows in order: index of the row, column, value.
    fn visit_entries(&self, rows: &[usize], mut visit: impl FnMut(usize, usize, f32)) -> Result<()> {
        match self {
            Space::Codes(codes, lengths) => {
                let all = codes.all()?;
                for (index, &row) in rows.iter().enumerate() {
                    let (latents, values) = all.row(row);
                    for (&latent, &value) in latents.iter().zip(values) {
                        let latent = latent as usize;
                        visit(index, latent, lengths.map_or(value, |lengths| value * lengths[latent]));
                    }
                }
            }
            Space::Embeddings(store) => {
                for (index, &row) in rows.iter().enumerate() {
                    let tile = store.tile(row..row + 1)?;
                    tile.row(0).iter().enumerate().for_each(|(column, &value)| visit(index, column, value));
                }
            }
        }
        Ok(())
    }

    /// The mean of every column over the positive rows minus that over the negative rows. The reservation includes the
    /// selection of the [`largest`].
    pub fn differences(
        &self,
        drawn: &DrawnRows,
        comparison: MeanContrast,
        budget: &Budget,
    ) -> Result<Reserved<Vec<f64>>> {
        let yes = drawn.positive.iter().filter(|yes| **yes).count() as f64;
        let no = drawn.positive.len() as f64 - yes;
        let width = self.width();
        let memory = budget.reserve(56 * width as u64, "class means of every column")?;
        let mut sums = vec![[0.0f64; 2]; width];
        // The sum of absolute values and the number of nonzero entries.
        let mut sizes = vec![(0.0f64, 0usize); width];
        self.visit_entries(&drawn.rows, |index, column, value| {
            sums[column][usize::from(drawn.positive[index])] += f64::from(value);
            let (sum, nonzero) = &mut sizes[column];
            (*sum, *nonzero) = (*sum + f64::from(value.abs()), *nonzero + usize::from(value != 0.0));
        })?;
        let compared = |(sums, &(sum, nonzero)): (&[f64; 2], &(f64, usize))| {
            let difference = sums[1] / yes.max(1.0) - sums[0] / no.max(1.0);
            match comparison {
                MeanContrast::Normalised if sum > 0.0 => difference / (sum / nonzero as f64),
                _ => difference,
            }
        };
        Ok(Reserved::new(sums.iter().zip(&sizes).map(compared).collect(), memory))
    }

    /// `rows × columns`: the selected columns of some rows. The reservation includes a fit on them.
    pub fn table(&self, rows: &[usize], columns: &[u32], budget: &Budget) -> Result<Reserved<Vec<f32>>> {
        let (cells, curvature) = (rows.len() as u64 * columns.len() as u64, (columns.len() as u64).pow(2));
        let bytes = 8 * self.width() as u64 + 20 * cells + 16 * curvature;
        let memory = budget.reserve(bytes, "the selected columns of a task")?;
        let mut position_of = vec![None; self.width()];
        columns.iter().zip(0u32..).for_each(|(&column, position)| position_of[column as usize] = Some(position));
        let mut table = vec![0.0; rows.len() * columns.len()];
        self.visit_entries(rows, |row, column, value| {
            if let Some(position) = position_of[column] {
                table[row * columns.len() + position as usize] = value;
            }
        })?;
        Ok(Reserved::new(table, memory))
    }

    /// Copies rows with all columns.
    pub fn copy(&self, rows: &[usize], budget: &Budget) -> Result<CopiedRows> {
        match self {
            Space::Codes(codes, lengths) => {
                let all = codes.all()?;
                let entries: usize = rows.iter().map(|&row| all.entries(row).len()).sum();
                let bytes = 8 * (rows.len() + 2 * entries) as u64;
                let memory = budget.reserve(bytes, "a copy of the codes of a task")?;
                let copy = match lengths {
                    Some(lengths) => codes.select_scaled(rows, lengths)?,
                    None => codes.select(rows)?,
                };
                Ok(CopiedRows::Codes(Box::new(Reserved::new(copy, memory))))
            }
            Space::Embeddings(store) => Ok(CopiedRows::Embeddings(whole_rows(store, rows, budget)?, store.width())),
        }
    }
}

/// Copies some embeddings, row by row.
pub fn whole_rows(store: &ActivationStore, rows: &[usize], budget: &Budget) -> Result<Reserved<Vec<f32>>> {
    let bytes = 4 * rows.len() as u64 * store.width() as u64;
    let memory = budget.reserve(bytes, "a copy of the embeddings of a task")?;
    let mut values = Vec::with_capacity(rows.len() * store.width());
    for &row in rows {
        values.extend_from_slice(store.tile(row..row + 1)?.row(0));
    }
    Ok(Reserved::new(values, memory))
}

/// The columns with the largest scores, best first; among equals the lower column first.
pub fn largest(scores: impl Iterator<Item = f64>, keep: usize) -> Vec<u32> {
    // Adding 0 turns −0 into 0, which is equal but ordered differently.
    let mut order: Vec<(f64, u32)> = scores.map(|score| score + 0.0).zip(0u32..).collect();
    let best = |a: &(f64, u32), b: &(f64, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
    if keep > 0 && keep < order.len() {
        order.select_nth_unstable_by(keep - 1, best);
    }
    order.truncate(keep);
    order.sort_unstable_by(best);
    order.into_iter().map(|(_, column)| column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn class_means_tables_and_the_largest_columns() {
        // Rows (1, 0, 4), (3, 0, 0), (0, 2, 2): the first two positive. Differences: 2, -2, 2 - 2 = 0.
        // Divided by the mean of the nonzero entries: 2/2 = 1, -2/2 = -1, 0.
        let values = [1.0, 0.0, 4.0, 3.0, 0.0, 0.0, 0.0, 2.0, 2.0];
        let (codes, store) =
            (Codes::from_dense(&values, 3).unwrap(), ActivationStore::from_rows(values.to_vec(), 3).unwrap());
        let drawn = DrawnRows { rows: vec![0, 1, 2], positive: vec![true, true, false] };
        let budget = Budget::new(1 << 20);
        for space in [Space::Codes(&codes, None), Space::Codes(&codes, Some(&[1.0; 3])), Space::Embeddings(&store)] {
            assert_eq!(space.differences(&drawn, MeanContrast::Difference, &budget).unwrap()[..], [2.0, -2.0, 0.0]);
            assert_eq!(space.differences(&drawn, MeanContrast::Normalised, &budget).unwrap()[..], [1.0, -1.0, 0.0]);
            assert_eq!(space.table(&[2, 0], &[2, 0], &budget).unwrap()[..], [2.0, 0.0, 4.0, 1.0]);
            assert_eq!(space.copy(&[1], &budget).unwrap().design().unwrap().sum_of_squares(), 9.0);
        }
        assert_eq!(budget.left(), 1 << 20);
        // Directions of length 2, 1 and 0.
        let scaled = Space::Codes(&codes, Some(&[2.0, 1.0, 0.0]));
        assert_eq!(scaled.differences(&drawn, MeanContrast::Difference, &budget).unwrap()[..], [4.0, -2.0, 0.0]);
        assert_eq!(scaled.table(&[2, 0], &[2, 0], &budget).unwrap()[..], [0.0, 0.0, 0.0, 2.0]);
        assert_eq!(scaled.copy(&[1], &budget).unwrap().design().unwrap().sum_of_squares(), 36.0);
        // Signed values of mean 0 are divided by their mean size: 2 / 1.
        let signed = Codes::from_dense(&[1.0, -1.0], 1).unwrap();
        let drawn = DrawnRows { rows: vec![0, 1], positive: vec![true, false] };
        let differences = Space::Codes(&signed, None).differences(&drawn, MeanContrast::Normalised, &budget).unwrap();
        assert_eq!(differences[..], [2.0]);
        drop(differences);
        assert_eq!(largest([2.0f64, -2.0, 0.0].iter().map(|d| d.abs()), 2), [0, 1]);
        assert_eq!(largest([1.0, 1.0, 3.0].into_iter(), 9), [2, 0, 1]);
        assert_eq!(largest([-0.0, 0.0, -0.0].into_iter(), 2), [0, 1]);
        assert!(largest([1.0].into_iter(), 0).is_empty());
    }
}
