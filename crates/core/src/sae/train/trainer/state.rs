//! The state of a training as tensors, from which it resumes with the same bits.

use super::Trainer;
use crate::error::{InputError, Result};
use crate::input::{Tensor, Tensors};
use crate::sae::train::weights::{buffers_to_tensors, read_buffers};

const MOMENTS: [&str; 2] = ["first.", "second."];

impl Trainer {
    /// Weights, moments, counters and schedules. Tensors hold f32 values; 64-bit numbers are split into four 16-bit
    /// integers.
    pub fn to_tensors(&self) -> Tensors {
        let scalars = &self.objective.rules().scalars;
        let mut tensors = self.weights();
        for (moment, prefix) in self.moments.iter().zip(MOMENTS) {
            tensors.append(&mut buffers_to_tensors(moment, self.weights.size, scalars, prefix));
        }
        if let Some(archetypes) = &self.archetypes {
            tensors.append(&mut archetypes.moments());
        }
        tensors.insert("state.step".into(), split_bits([self.step]));
        tensors.insert("state.silent".into(), split_bits(self.inactive_rows.iter().copied()));
        tensors.insert("state.objective".into(), split_bits(self.objective.save().into_iter().map(f64::to_bits)));
        tensors
    }

    /// Restores the state of [`Trainer::to_tensors`]; the settings must be the same.
    pub fn restore(&mut self, tensors: &Tensors) -> Result<()> {
        self.start_from(tensors)?;
        let scalars = &self.objective.rules().scalars;
        if let Some(archetypes) = &mut self.archetypes {
            archetypes.read_moments(tensors)?;
        }
        for (moment, prefix) in self.moments.iter_mut().zip(MOMENTS) {
            read_buffers(moment, self.weights.size, scalars, prefix, tensors)?;
        }
        let (step, inactive_rows) = (join_bits(tensors, "state.step")?, join_bits(tensors, "state.silent")?);
        if step.len() != 1 || inactive_rows.len() != self.inactive_rows.len() {
            return Err(InputError::new("the size of the saved training state does not match the settings").into());
        }
        (self.step, self.inactive_rows) = (step[0], inactive_rows);
        let saved: Vec<f64> = join_bits(tensors, "state.objective")?.into_iter().map(f64::from_bits).collect();
        self.objective.load(&saved);
        Ok(())
    }
}

/// 64-bit numbers as four 16-bit integers each.
fn split_bits(numbers: impl IntoIterator<Item = u64>) -> Tensor {
    let values: Vec<f32> =
        numbers.into_iter().flat_map(|number| [0, 16, 32, 48].map(|shift| (number >> shift & 0xffff) as f32)).collect();
    Tensor { shape: vec![values.len() / 4, 4], values }
}

/// The numbers of [`split_bits`].
fn join_bits(tensors: &Tensors, name: &str) -> Result<Vec<u64>> {
    let tensor =
        tensors.get(name).ok_or_else(|| InputError::new(format!("the saved training state has no tensor `{name}`")))?;
    let join = |parts: &[f32]| parts.iter().rev().fold(0u64, |number, &part| number << 16 | part as u64 & 0xffff);
    Ok(tensor.values.chunks_exact(4).map(join).collect())
}
