//! A dictionary in training: one step on one batch, sparse except for the encoder product.
//!
//! A step subtracts the decoder bias from the rows; computes the encoder product tile by tile and keeps the entries
//! that the architecture selects ([`crate::sae::selector`]); computes sparse reconstructions and errors
//! ([`super::forward`]); transposes rows to columns; and then, for every latent, computes its gradient, applies Adam
//! and normalises its direction ([`super::backward`]). Work is divided into fixed pieces and sums are in a fixed order:
//! any number of threads gives the same bits.

#[cfg(test)]
mod archetypal_tests;
mod calibrate;
mod forward;
mod loss;
mod resample;
mod state;
#[cfg(test)]
mod tests;
mod update;

use super::archetypes::{self, Archetypes};
use super::columns::Columns;
use super::forward::Errors;
use super::input_scale::InputScale;
use super::median::geometric_median;
use super::objective::{Form, Mixtures, Objective, Selection, Terms};
use super::pursuit_gradient;
use super::settings::TrainingSettings;
use super::weights::{WeightBuffers, Weights};
use crate::context::{Budget, Reservation};
use crate::error::{Error, InputError, Key, Result};
use crate::input::Tensors;
use crate::sae::linear::{Linear, Parts};
use crate::sae::precision::Precision;
use crate::sae::selector::{Entries, WarmStart};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::int8::Columns as RoundedColumns;

/// A dictionary in training.
pub struct Trainer {
    settings: TrainingSettings,
    objective: Box<dyn Objective>,
    weights: Weights,
    /// Adam's first and second moments.
    moments: [WeightBuffers; 2],
    /// The parameters of archetypal directions, once candidates are given.
    archetypes: Option<Archetypes>,
    step: u64,
    precision: Precision,
    /// Number of rows since each latent last fired.
    inactive_rows: Vec<u64>,
    buffers: Buffers,
    _reservation: Option<Reservation>,
}

/// Buffers that are reused in every step. Only the warm start carries information from one step to the next, and it
/// changes no result.
#[derive(Default)]
struct Buffers {
    /// The padded rows of the batch.
    rows: Aligned,
    /// The input of the encoder.
    input: Aligned,
    bias: Vec<f32>,
    floors: Vec<f32>,
    norms: Vec<f32>,
    /// The kept pre-activations of each row.
    active: Vec<Entries>,
    /// The choices of a matching pursuit, in order.
    choices: Vec<Entries>,
    warm_start: WarmStart,
    rounded: RoundedColumns,
    errors: Errors,
    columns: Columns,
    /// The contributions of panels to the gradient of the decoder bias.
    bias_parts: Vec<f32>,
    gradient: Option<WeightBuffers>,
}

/// The loss and statistics of a step, before its update.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Step {
    /// The terms of the loss; the total is called `loss`.
    pub terms: Terms,
    /// The mean squared norm of the errors.
    pub squared_error: f64,
    /// The mean norm of the errors.
    pub error_length: f64,
    /// Active latents per row.
    pub l0: f64,
    /// Number of dead latents.
    pub dead: usize,
}

impl Step {
    /// A term of the loss.
    pub fn term(&self, name: &str) -> Option<f64> {
        self.terms.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}

impl Trainer {
    /// A dictionary with initial weights.
    pub fn new(settings: TrainingSettings) -> Result<Trainer> {
        settings.check()?;
        let objective = settings.objective()?;
        if settings.resample.is_some() && objective.rules().form != Form::Free {
            return Err(InputError::new(format!("{} is not supported for `{}`", Key("resample"), settings.arch))
                .advice("leave it out")
                .into());
        }
        let weights = Weights::initial(&settings, objective.rules());
        let moments = [WeightBuffers::zeros(weights.size), WeightBuffers::zeros(weights.size)];
        let (precision, inactive_rows) = (Precision::default(), vec![0; settings.latents]);
        Ok(Trainer {
            settings,
            objective,
            weights,
            moments,
            archetypes: None,
            step: 0,
            precision,
            inactive_rows,
            buffers: Buffers::default(),
            _reservation: None,
        })
    }

    /// A dictionary with initial weights, which reserves the memory of its training.
    pub fn within(settings: TrainingSettings, budget: &Budget) -> Result<Trainer> {
        let memory = budget.reserve(Trainer::memory(&settings), format!("the training of {}", settings.arch))?;
        Ok(Trainer { _reservation: Some(memory), ..Trainer::new(settings)? })
    }

    /// The parameters of archetypal directions, if the architecture has them.
    fn mixtures(&self) -> Option<Mixtures> {
        match self.objective.rules().form {
            Form::Archetypal(mixtures) => Some(mixtures),
            Form::Free | Form::Tied => None,
        }
    }

    /// The number of candidate points that [`Trainer::give_candidates`] must be called with before the first step;
    /// `None` if none are missing.
    pub fn missing_candidates(&self) -> Option<usize> {
        let mixtures = self.mixtures().filter(|_| self.archetypes.is_none())?;
        Some(archetypes::candidates(&mixtures, &self.settings))
    }

    /// Sets the candidate points of archetypal directions, one row each, in the units of the batches, and initialises
    /// directions and encoder from them.
    pub fn give_candidates(&mut self, candidates: &[f32]) -> Result<()> {
        let mixtures =
            self.mixtures().ok_or_else(|| Error::Bug("only archetypal directions have candidates".into()))?;
        let archetypes = Archetypes::new(candidates, &mixtures, self.settings.seed, self.weights.size)?;
        archetypes.build(&mut self.weights.decoder);
        if self.settings.uniform_encoder.is_none() {
            self.weights.encode_directions();
        }
        self.archetypes = Some(archetypes);
        Ok(())
    }

    /// Sets the initial weights, under Etalon's names or those of dictionary_learning.
    pub fn start_from(&mut self, tensors: &Tensors) -> Result<()> {
        self.weights.read(tensors, &self.objective.rules().scalars)?;
        if let Some(mixtures) = self.mixtures() {
            let archetypes = Archetypes::read(tensors, &mixtures, self.weights.size)?;
            archetypes.build(&mut self.weights.decoder);
            self.archetypes = Some(archetypes);
        }
        Ok(())
    }

    /// Bytes of memory that a training needs.
    pub fn memory(settings: &TrainingSettings) -> u64 {
        let rules = settings.objective().ok().map(|objective| objective.rules().clone());
        let (latents, stride) = (settings.latents as u64, settings.width as u64 + 16);
        let matrix = latents.saturating_mul(stride).saturating_mul(4);
        let rows = (settings.batch as u64 + 12).saturating_mul(stride).saturating_mul(4);
        let groups = rules.as_ref().map_or(2, |rules| rules.groups.len().max(2) as u64);
        let (matrices, rest) = match rules.map(|rules| rules.form) {
            // Encoder and directions, two moments and the gradient of the directions.
            Some(Form::Tied) => (5, pursuit_gradient::memory(settings)),
            // As free directions, and the relaxation.
            Some(Form::Archetypal(mixtures)) => (9, archetypes::memory(&mixtures, settings)),
            _ => (if settings.keeps_gradient() { 8 } else { 6 }, 0),
        };
        // The encoder in int8, and for every row its candidates and its rounded and packed copies.
        let prefilter = (settings.batch as u64).saturating_mul(latents / 2 + 5 * stride).saturating_add(matrix / 4);
        let rest = prefilter.saturating_add(rest);
        matrix.saturating_mul(matrices).saturating_add(rows.saturating_mul(2 + groups)).saturating_add(rest)
    }

    /// Sets the arithmetic of the encoder product. No result depends on it.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// The arithmetic of the encoder product, as text.
    pub fn precision(&self) -> &'static str {
        self.precision.used(!matches!(self.objective.selection(self.step), Selection::Pursuit(_)))
    }

    /// The settings.
    pub fn settings(&self) -> &TrainingSettings {
        &self.settings
    }

    /// Number of steps done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// The weights: `encoder` and `decoder` (one row per latent), `bias`, and the scalars per latent by name.
    /// Archetypal directions also have `candidates`, and `mixture`, `neighbours`, `relaxation` and `multiplier`.
    pub fn weights(&self) -> Tensors {
        let mut tensors = self.weights.tensors(&self.objective.rules().scalars);
        if let Some(archetypes) = &self.archetypes {
            tensors.append(&mut archetypes.tensors());
        }
        tensors
    }

    /// Takes one step on a batch of rows.
    pub fn step(&mut self, batch: &[f32]) -> Result<Step> {
        let rows = self.check(batch)?;
        if self.step == 0 && self.settings.median && self.objective.rules().biased {
            let median = geometric_median(batch, self.settings.width);
            self.weights.bias[..self.settings.width].copy_from_slice(&median);
        }
        self.forward(batch, rows, self.objective.selection(self.step));
        let (report, auxiliary) = self.compute_loss(rows);
        self.update(rows, auxiliary.as_ref());
        self.resample(batch);
        self.step += 1;
        Ok(report)
    }

    /// The mean squared error on held-out rows.
    pub fn error_on(&mut self, batch: &[f32]) -> Result<f64> {
        let rows = self.check(batch)?;
        self.forward(batch, rows, self.objective.selection(self.step));
        Ok(self.buffers.errors.squared(self.objective.rules().groups.len()).last().copied().unwrap_or(0.0))
    }

    /// The loss on a batch, without a step.
    #[cfg(test)]
    fn loss_on(&mut self, batch: &[f32]) -> Step {
        let rows = self.check(batch).unwrap();
        self.forward(batch, rows, self.objective.selection(self.step));
        self.compute_loss(rows).0
    }

    /// The number of rows of a batch.
    fn check(&self, batch: &[f32]) -> Result<usize> {
        if self.missing_candidates().is_some() {
            return Err(Error::Bug("the candidates of archetypal directions are missing".into()));
        }
        let width = self.settings.width;
        if batch.is_empty() || !batch.len().is_multiple_of(width) {
            return Err(InputError::new("the size of the batch is not a multiple of the width")
                .expected(format!("a positive multiple of {width}"))
                .found(format!("{} values", batch.len()))
                .into());
        }
        Ok(batch.len() / width)
    }

    /// The trained dictionary for inputs that were not divided by `unit`: multiplies biases and thresholds by it, so
    /// that codes of raw rows are `unit` times those of divided rows.
    pub fn finish(&self, unit: f32) -> Result<Linear> {
        self.finish_scaled(&InputScale { unit, centre: Vec::new() })
    }

    /// The same, for inputs that were centred too: adds the centre to the decoder bias.
    pub(in crate::sae::train) fn finish_scaled(&self, scale: &InputScale) -> Result<Linear> {
        let (size, rules, unit) = (self.weights.size, self.objective.rules(), scale.unit);
        let scalars = &self.weights.scalars[..size.latents * size.scalars];
        let (mut encoder_bias, activation) = self.objective.finish(scalars, unit);
        let mut tensors = self.weights();
        let mut take = |name: &str| tensors.remove(name).map(|tensor| tensor.values).unwrap_or_default();
        let (encoder, mut bias) = (take("encoder"), take("bias"));
        bias.iter_mut().for_each(|value| *value *= unit);
        if !scale.centre.is_empty() {
            bias.iter_mut().zip(&scale.centre).for_each(|(value, centre)| *value += centre);
            // An encoder that does not subtract the decoder bias subtracts the centre by its own.
            if !rules.centred {
                for (value, row) in encoder_bias.iter_mut().zip(encoder.chunks_exact(self.settings.width)) {
                    let of_centre: f64 =
                        row.iter().zip(&scale.centre).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum();
                    *value = (f64::from(*value) - of_centre) as f32;
                }
            }
        }
        Linear::new(Parts {
            arch: self.settings.arch.clone(),
            encoder,
            encoder_bias,
            decoder: take("decoder"),
            bias,
            subtract_bias: rules.centred,
            input: self.settings.input,
            activation,
        })
    }
}
