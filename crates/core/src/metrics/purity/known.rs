//! The rows on which a concept is annotated, and columns of latents on them.

use super::concepts::{Sources, Split};
use crate::codes::Columns;
use crate::labels::Factors;

/// The known rows of a concept and their classes.
pub(super) struct Known {
    pub rows: Vec<usize>,
    pub classes: Vec<u32>,
}

impl Known {
    pub fn of(factors: &Factors, concept: usize, rows: impl Iterator<Item = usize>) -> Known {
        let column = factors.column(concept);
        let rows: Vec<usize> = rows.filter(|&row| column[row] >= 0).collect();
        let classes = rows.iter().map(|&row| column[row] as u32).collect();
        Known { rows, classes }
    }

    /// Numbers the classes that occur from 0; returns them by their old numbers.
    pub fn compact(&mut self) -> Vec<u32> {
        let mut present = self.classes.clone();
        present.sort_unstable();
        present.dedup();
        for class in &mut self.classes {
            *class = present.partition_point(|other| other < class) as u32;
        }
        present
    }
}

/// The values of a latent on some rows.
pub(super) fn latent_on(columns: &Columns, latent: usize, rows: &[usize]) -> Vec<f64> {
    let all = Sources { columns, dimensions: 1 }.latent(latent);
    rows.iter().map(|&row| all[row]).collect()
}

/// The first rows for training in their order, or a random choice of as many.
pub(super) fn first_or_drawn(rows: usize, share: f64, in_order: bool, seed: u64, purpose: &str) -> Split {
    let train = ((share * rows as f64).ceil() as usize).min(rows);
    if in_order {
        return Split { train: (0..train as u32).collect(), test: (train as u32..rows as u32).collect() };
    }
    Split::drawn(rows, rows - train, seed, purpose, 0)
}
