//! Interchange interventions: a part of an activation of one text, the base, is replaced by that of another text, the source, and
//! the network continues with the changed activation. Which part is replaced is trained: [`LatentMask`] chooses latents of a
//! dictionary, [`RotatedMask`] directions of an orthonormal basis.

mod adam;
mod mask;
mod orthonormal;
mod rotation;
mod run;

use serde::{Deserialize, Serialize};

pub use adam::AdamParameters;
pub use mask::LatentMask;
pub use rotation::{RotatedMask, Rotation};
pub use run::{Exchange, Interchange, ReplaceOnce};

use crate::codes::CodesBuilder;
use crate::context::{Budget, Context};
use crate::error::Result;
use crate::sae::Dictionary;
use crate::store::ActivationStore;

/// An activation and its codes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EncodedRow {
    /// The activation.
    pub row: Vec<f32>,
    /// Latents with a code, ascending.
    pub latents: Vec<u32>,
    /// Their codes.
    pub values: Vec<f32>,
}

impl EncodedRow {
    /// Encodes an activation.
    pub fn new(row: Vec<f32>, dictionary: &dyn Dictionary, budget: &Budget) -> Result<EncodedRow> {
        let store = ActivationStore::from_rows(row.clone(), row.len())?;
        let mut codes = CodesBuilder::within(dictionary.card().latents, budget);
        dictionary.encode(&store.tile(0..1)?, &mut codes)?;
        let codes = codes.finish();
        let view = codes.all()?;
        let (latents, values) = view.row(0);
        Ok(EncodedRow { row, latents: latents.to_vec(), values: values.to_vec() })
    }
}

/// What decides which part of the base is replaced, and is trained.
pub trait Gates: Send + Sync {
    /// The row that takes the place of the base. With a temperature T gates are sigmoid(mask / T), as in training; without, they
    /// are 1 where the mask is positive and 0 elsewhere.
    fn mix(&self, base: &EncodedRow, source: &EncodedRow, temperature: Option<f64>) -> Result<Vec<f32>>;

    /// The number of trained parameters.
    fn parameters(&self) -> usize;

    /// Adds `weight` times the gradient of a loss to `into`; `slope` is its gradient with respect to the row of [`Gates::mix`].
    fn add_gradient(
        &self,
        pair: (&EncodedRow, &EncodedRow),
        temperature: f64,
        slope: &[f32],
        weight: f64,
        into: &mut [f64],
    );

    /// One step of Adam against a gradient.
    fn update(&mut self, gradient: &[f64], learning_rate: f64, context: &Context) -> Result<()>;

    /// The parameters, to continue later.
    fn trained(&self) -> &AdamParameters;
}

/// The gate of a value of the mask.
fn gate(mask: f32, temperature: Option<f64>) -> f64 {
    match temperature {
        Some(temperature) => 1.0 / (1.0 + (-f64::from(mask) / temperature).exp()),
        None => f64::from(u8::from(mask > 0.0)),
    }
}
