//! Scaling of training rows.

use super::settings::TrainingSettings;
use crate::sae::normalise::Normalisation;

/// The change of rows before a training, which is folded into the dictionary at its end: x' = (x − centre) / unit.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sae::train) struct InputScale {
    /// The divisor.
    pub unit: f32,
    /// What is subtracted; empty for nothing.
    pub centre: Vec<f32>,
}

impl InputScale {
    /// Whether rows stay as they are.
    pub fn is_identity(&self) -> bool {
        self.unit == 1.0 && self.centre.is_empty()
    }
}

/// Writes rows as the trainer reads them: centred, divided by the unit, or normalised.
pub(super) fn prepare(rows: &[f32], settings: &TrainingSettings, scale: &InputScale, into: &mut Vec<f32>) {
    into.clear();
    if scale.centre.is_empty() {
        into.extend(rows.iter().map(|value| value / scale.unit));
    } else {
        for row in rows.chunks_exact(settings.width) {
            into.extend(row.iter().zip(&scale.centre).map(|(value, centre)| (value - centre) / scale.unit));
        }
    }
    if settings.input != Normalisation::None {
        for (row, into) in rows.chunks_exact(settings.width).zip(into.chunks_exact_mut(settings.width)) {
            settings.input.of(row).apply(row, into);
        }
    }
}
