//! A fixed sample of rows, on which thresholds are set after the last step.

use super::prepare::prepare;
use super::settings::TrainingSettings;
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};
use crate::store::ActivationStore;
use etalon_kernel::random::{stream, unit as uniform};

/// Maximum number of rows.
const ROWS: usize = 8192;

/// All rows of a store or, if there are many, one random row of each of `ROWS` equal parts; as the trainer reads them.
pub(super) fn sample_rows(
    store: &ActivationStore,
    settings: &TrainingSettings,
    unit: f32,
    budget: &Budget,
) -> Result<(Vec<f32>, Reservation)> {
    let (rows, width) = (store.rows(), store.width());
    if rows == 0 || width != settings.width {
        return Err(InputError::new("the held-out rows do not match the training")
            .expected(format!("at least one row of width {}", settings.width))
            .found(format!("{rows} rows of width {width}"))
            .into());
    }
    let count = rows.min(ROWS);
    let memory = budget.reserve(count as u64 * width as u64 * 4, "the rows that set a threshold")?;
    let mut random = stream(settings.seed, "threshold rows", 0);
    let (mut sample, mut prepared) = (Vec::with_capacity(count * width), Vec::new());
    for part in 0..count {
        let bounds = [part, part + 1].map(|part| part * rows / count);
        let row = bounds[0] + (uniform(&mut random) * (bounds[1] - bounds[0]) as f64) as usize;
        prepare(&store.tile(row..row + 1)?.values, settings, unit, &mut prepared);
        sample.extend_from_slice(&prepared);
    }
    Ok((sample, memory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sae::arch;
    use crate::sae::preset::Preset;

    #[test]
    fn rows_are_drawn_from_all_parts() {
        let store = ActivationStore::from_rows((0..3 * ROWS).map(|row| row as f32).collect(), 1).unwrap();
        let settings = arch::find("batch_topk").unwrap().settings(Preset::Etalon, 1, 4);
        let (rows, _memory) = sample_rows(&store, &settings, 2.0, &Budget::new(1 << 20)).unwrap();
        assert_eq!(rows.len(), ROWS);
        let part = |(index, row): (usize, &f32)| (*row * 2.0) as usize / 3 == index;
        assert!(rows.iter().enumerate().all(part));
        let few = ActivationStore::from_rows(vec![1.0, 2.0, 3.0], 1).unwrap();
        assert_eq!(sample_rows(&few, &settings, 1.0, &Budget::new(1 << 20)).unwrap().0, [1.0, 2.0, 3.0]);
        assert!(
            sample_rows(&few, &arch::find("topk").unwrap().settings(Preset::Etalon, 2, 4), 1.0, &Budget::new(99))
                .is_err()
        );
    }
}
