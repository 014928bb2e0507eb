//! Rows that are set aside for the threshold of dictionaries that select over a batch: their weights were not fitted to
//! these rows, so the threshold holds for new rows too.

use serde::{Deserialize, Serialize};

use super::input_scale::{InputScale, prepare};
use super::settings::TrainingSettings;
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};
use crate::store::ActivationStore;
use etalon_kernel::random::{stream, unit as uniform};

/// Maximum number of rows that set a threshold.
const MOST: usize = 8192;

/// One row in ten is set aside.
const SHARE: usize = 10;

/// The rows that the threshold of a dictionary was set on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThresholdRows {
    /// Their number.
    pub rows: usize,
    /// Whether the dictionary was not trained on them.
    pub held_out: bool,
}

/// The rows of a store in two parts: those of the training, and those set aside.
#[derive(Debug, Default)]
pub(super) struct Aside {
    /// Ascending.
    rows: Vec<usize>,
    /// For each row set aside, the number of training rows before it.
    before: Vec<usize>,
}

impl Aside {
    /// Sets aside one random row of each of n equal parts: n is a tenth of the rows, at most 8,192.
    pub fn draw(rows: usize, seed: u64) -> Aside {
        let rows = one_of_each_part(rows, (rows / SHARE).min(MOST), seed, "rows set aside");
        let before = rows.iter().enumerate().map(|(index, row)| row - index).collect();
        Aside { rows, before }
    }

    /// The rows set aside, ascending.
    pub fn rows(&self) -> &[usize] {
        &self.rows
    }

    /// The row of the store that is a training row, by its position among training rows.
    pub fn training_row(&self, position: usize) -> usize {
        position + self.before.partition_point(|&before| before <= position)
    }
}

/// All rows or, if there are many, one random row of each of 8,192 equal parts.
pub(super) fn spread(rows: usize, seed: u64) -> Vec<usize> {
    one_of_each_part(rows, rows.min(MOST), seed, "threshold rows")
}

fn one_of_each_part(rows: usize, parts: usize, seed: u64, purpose: &str) -> Vec<usize> {
    let mut random = stream(seed, purpose, 0);
    let one = |part: usize| {
        let bounds = [part, part + 1].map(|part| part * rows / parts);
        bounds[0] + (uniform(&mut random) * (bounds[1] - bounds[0]) as f64) as usize
    };
    (0..parts).map(one).collect()
}

/// Reads rows of a store as the trainer reads them.
pub(super) fn read(
    store: &ActivationStore,
    rows: &[usize],
    settings: &TrainingSettings,
    scale: &InputScale,
    budget: &Budget,
) -> Result<(Vec<f32>, Reservation)> {
    let width = store.width();
    if rows.is_empty() || width != settings.width {
        return Err(InputError::new("the held-out rows do not match the training")
            .expected(format!("at least one row of width {}", settings.width))
            .found(format!("{} rows of width {width}", rows.len()))
            .into());
    }
    let memory = budget.reserve(rows.len() as u64 * width as u64 * 4, "the rows that set a threshold")?;
    let (mut values, mut prepared) = (Vec::with_capacity(rows.len() * width), Vec::new());
    for &row in rows {
        prepare(&store.tile(row..row + 1)?.values, settings, scale, &mut prepared);
        values.extend_from_slice(&prepared);
    }
    Ok((values, memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sae::arch;
    use crate::sae::preset::Preset;

    #[test]
    fn rows_are_drawn_from_all_parts() {
        let store = ActivationStore::from_rows((0..3 * MOST).map(|row| row as f32).collect(), 1).unwrap();
        let settings = arch::find("batch_topk").unwrap().settings(Preset::Etalon, 1, 4);
        let scale = InputScale { unit: 2.0, centre: Vec::new() };
        let budget = Budget::new(1 << 20);
        let (rows, _memory) = read(&store, &spread(3 * MOST, 0), &settings, &scale, &budget).unwrap();
        assert_eq!(rows.len(), MOST);
        let part = |(index, row): (usize, &f32)| (*row * 2.0) as usize / 3 == index;
        assert!(rows.iter().enumerate().all(part));
        assert_eq!(spread(3, 0), [0, 1, 2]);
        assert!(read(&store, &[], &settings, &scale, &budget).is_err());
        assert!(read(&store, &[0], &TrainingSettings { width: 2, ..settings.clone() }, &scale, &budget).is_err());
        assert!(read(&store, &[0, 1], &settings, &scale, &Budget::new(7)).is_err());
    }

    #[test]
    fn training_rows_are_the_others() {
        for rows in [0, 9, 10, 37, 600, 200_000] {
            let aside = Aside::draw(rows, 3);
            assert_eq!(aside.rows().len(), (rows / 10).min(MOST));
            let training: Vec<usize> = (0..rows - aside.rows().len()).map(|index| aside.training_row(index)).collect();
            let others: Vec<usize> = (0..rows).filter(|row| aside.rows().binary_search(row).is_err()).collect();
            assert_eq!(training, others);
        }
        assert_ne!(Aside::draw(600, 3).rows(), Aside::draw(600, 4).rows());
    }
}
