//! A training as tensors, so that it can resume elsewhere with the same bits.

use super::Trainer;
use crate::error::{InputError, Result};
use crate::input::{Tensor, Tensors};
use crate::sae::train::weights::{read_shaped, shaped_tensors};

const MOMENTS: [&str; 2] = ["first.", "second."];

impl Trainer {
    /// Weights, moments, counters and schedules. A file of tensors holds 32-bit numbers; longer ones are cut into four
    /// pieces of 16 bits, each a whole number.
    pub fn to_tensors(&self) -> Tensors {
        let scalars = &self.objective.rules().scalars;
        let mut tensors = self.weights();
        for (moment, prefix) in self.moments.iter().zip(MOMENTS) {
            tensors.append(&mut shaped_tensors(moment, self.weights.size, scalars, prefix));
        }
        if let Some(archetypes) = &self.archetypes {
            tensors.append(&mut archetypes.moments());
        }
        tensors.insert("state.step".into(), pieces([self.step]));
        tensors.insert("state.silent".into(), pieces(self.silent.iter().copied()));
        tensors.insert("state.objective".into(), pieces(self.objective.save().into_iter().map(f64::to_bits)));
        tensors
    }

    /// Resumes where [`Trainer::to_tensors`] was called; the settings must be the same.
    pub fn restore(&mut self, tensors: &Tensors) -> Result<()> {
        self.start_from(tensors)?;
        let scalars = &self.objective.rules().scalars;
        if let Some(archetypes) = &mut self.archetypes {
            archetypes.take_moments(tensors)?;
        }
        for (moment, prefix) in self.moments.iter_mut().zip(MOMENTS) {
            read_shaped(moment, self.weights.size, scalars, prefix, tensors)?;
        }
        let (step, silent) = (whole(tensors, "state.step")?, whole(tensors, "state.silent")?);
        if step.len() != 1 || silent.len() != self.silent.len() {
            return Err(InputError::new("the state of a training is of another size").into());
        }
        (self.step, self.silent) = (step[0], silent);
        let saved: Vec<f64> = whole(tensors, "state.objective")?.into_iter().map(f64::from_bits).collect();
        self.objective.load(&saved);
        Ok(())
    }
}

fn pieces(numbers: impl IntoIterator<Item = u64>) -> Tensor {
    let values: Vec<f32> =
        numbers.into_iter().flat_map(|number| [0, 16, 32, 48].map(|shift| (number >> shift & 0xffff) as f32)).collect();
    Tensor { shape: vec![values.len() / 4, 4], values }
}

fn whole(tensors: &Tensors, name: &str) -> Result<Vec<u64>> {
    let tensor = tensors.get(name).ok_or_else(|| InputError::new(format!("the state of a training lacks `{name}`")))?;
    let join = |four: &[f32]| four.iter().rev().fold(0u64, |number, &piece| number << 16 | piece as u64 & 0xffff);
    Ok(tensor.values.chunks_exact(4).map(join).collect())
}
