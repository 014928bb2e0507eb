//! Archetypal directions as tensors, to save and resume a training.

use super::Archetypes;
use crate::error::{InputError, Result};
use crate::input::{Tensor, Tensors};
use crate::sae::train::objective::Mixtures;
use crate::sae::train::weights::{Size, copy_rows, find};

impl Archetypes {
    /// The parameters and candidates, without the moments.
    pub fn tensors(&self) -> Tensors {
        let (size, width) = (self.size, self.size.width);
        let rows = |values: &[f32], pitch: usize, keep: usize, count: usize| Tensor {
            shape: vec![count, keep],
            values: values.chunks_exact(pitch).take(count).flat_map(|row| row[..keep].iter().copied()).collect(),
        };
        let count = self.candidates.len() / size.stride;
        let ids = self.ids.iter().map(|&id| id as f32).collect();
        let mut tensors = Tensors::new();
        tensors.insert("candidates".into(), rows(&self.candidates, size.stride, width, count));
        tensors.insert("neighbours".into(), Tensor { shape: vec![size.latents, self.neighbours], values: ids });
        tensors.insert("mixture".into(), rows(&self.mixture.values, self.pitch, self.neighbours, size.latents));
        tensors.insert("relaxation".into(), rows(&self.relaxation, size.stride, width, size.latents));
        tensors.insert("multiplier".into(), Tensor { shape: vec![1], values: vec![self.multiplier.values[0]] });
        tensors
    }

    /// Reads the tensors of [`Archetypes::tensors`].
    pub fn read(tensors: &Tensors, mixtures: &Mixtures, size: Size) -> Result<Archetypes> {
        let rows = tensors.get("candidates").map_or(0, |tensor| tensor.values.len() / size.width);
        let candidates = find(tensors, "", "candidates", &[rows, size.width])?;
        let mut archetypes = Archetypes::empty(&candidates, mixtures, size)?;
        let (neighbours, pitch) = (archetypes.neighbours, archetypes.pitch);
        let ids = find(tensors, "", "neighbours", &[size.latents, neighbours])?;
        for (into, id) in archetypes.ids.iter_mut().zip(ids) {
            if id < 0.0 || id as usize >= rows {
                return Err(InputError::new("a neighbour of a direction is not a candidate")
                    .expected(format!("0 to {}", rows - 1))
                    .found(id)
                    .into());
            }
            *into = id as u32;
        }
        let shape = [size.latents, neighbours];
        copy_rows(&find(tensors, "", "mixture", &shape)?, neighbours, &mut archetypes.mixture.values, pitch);
        let relaxation = find(tensors, "", "relaxation", &[size.latents, size.width])?;
        copy_rows(&relaxation, size.width, &mut archetypes.relaxation, size.stride);
        archetypes.multiplier.values[0] = find(tensors, "", "multiplier", &[1])?[0];
        Ok(archetypes)
    }

    /// Adam's moments of `w` and `m`.
    pub fn moments(&self) -> Tensors {
        let mut tensors = Tensors::new();
        for (which, prefix) in ["first.", "second."].into_iter().enumerate() {
            let rows = self.mixture.moments[which].chunks_exact(self.pitch).take(self.size.latents);
            let values = rows.flat_map(|row| row[..self.neighbours].iter().copied()).collect();
            tensors
                .insert(format!("{prefix}mixture"), Tensor { shape: vec![self.size.latents, self.neighbours], values });
            let values = vec![self.multiplier.moments[which][0]];
            tensors.insert(format!("{prefix}multiplier"), Tensor { shape: vec![1], values });
        }
        tensors
    }

    /// Reads the tensors of [`Archetypes::moments`].
    pub fn read_moments(&mut self, tensors: &Tensors) -> Result<()> {
        for (which, prefix) in ["first.", "second."].into_iter().enumerate() {
            let values = find(tensors, prefix, "mixture", &[self.size.latents, self.neighbours])?;
            copy_rows(&values, self.neighbours, &mut self.mixture.moments[which], self.pitch);
            self.multiplier.moments[which][0] = find(tensors, prefix, "multiplier", &[1])?[0];
        }
        Ok(())
    }
}
