//! A dictionary in training: one step on one batch, sparse everywhere but in the encoder product.
//!
//! A step is: take the decoder's bias from the rows; encoder product tile by tile, of which only what the architecture
//! keeps survives ([`crate::sae::selector`]); sparse reconstruction and error ([`super::forward`]); turn rows to columns;
//! then for every latent its gradients, Adam, and its direction's length ([`super::backward`]). Work is cut into fixed
//! pieces and sums are formed in a fixed order: any number of threads gives the same bits.

#[cfg(test)]
mod archetypal_tests;
mod loss;
mod resample;
mod state;
#[cfg(test)]
mod tests;
mod update;

use rayon::prelude::*;

use super::archetypes::{self, Archetypes};
use super::columns::Columns;
use super::forward::{Errors, Forward};
use super::median::geometric_median;
use super::objective::{Form, Mixtures, Objective, Selection, Terms};
use super::pursuit_gradient;
use super::settings::TrainingSettings;
use super::weights::{Shaped, Weights};
use crate::context::{Budget, Reservation};
use crate::error::{Error, InputError, Key, Result};
use crate::input::Tensors;
use crate::sae::linear::{Linear, Parts};
use crate::sae::precision::Precision;
use crate::sae::selector::{Entries, Memory, Rule, Selector};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::int8::Columns as RoundedColumns;
use etalon_kernel::packed::TILE_ROWS;
use etalon_kernel::vector::dot;

/// A dictionary in training.
pub struct Trainer {
    settings: TrainingSettings,
    objective: Box<dyn Objective>,
    weights: Weights,
    /// Adam's first and second moments.
    moments: [Shaped; 2],
    /// What archetypal directions are made of, once there are candidates.
    archetypes: Option<Archetypes>,
    step: u64,
    precision: Precision,
    /// Rows since each latent fired last.
    silent: Vec<u64>,
    buffers: Buffers,
    _reservation: Option<Reservation>,
}

/// Memory that is used again in every step. Nothing in it outlives a step but the memory of the selection, which changes no
/// result.
#[derive(Default)]
struct Buffers {
    rows: Aligned,
    input: Aligned,
    bias: Vec<f32>,
    floors: Vec<f32>,
    norms: Vec<f32>,
    picks: Vec<Entries>,
    /// The choices of a pursuit, in their order.
    choices: Vec<Entries>,
    memory: Memory,
    rounded: RoundedColumns,
    errors: Errors,
    columns: Columns,
    shares: Vec<f32>,
    gradient: Option<Shaped>,
}

/// What a step found, before it changed the weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The parts of the loss; the whole one is called `loss`.
    pub terms: Terms,
    /// The mean squared length of the errors.
    pub squared_error: f64,
    /// The mean length of the errors.
    pub error_length: f64,
    /// Active latents per row.
    pub l0: f64,
    /// Latents that have been silent for too long.
    pub dead: usize,
}

impl Step {
    /// A part of the loss.
    pub fn term(&self, name: &str) -> Option<f64> {
        self.terms.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}

impl Trainer {
    /// A dictionary before its first step.
    pub fn new(settings: TrainingSettings) -> Result<Trainer> {
        settings.check()?;
        let objective = settings.objective()?;
        if settings.resample.is_some() && objective.rules().form != Form::Free {
            return Err(InputError::new(
                "latents of this architecture cannot be resampled: their directions are not free",
            )
            .advice(format!("leave {} out", Key("resample")))
            .into());
        }
        let weights = Weights::initial(&settings, objective.rules());
        let moments = [Shaped::zeros(weights.size), Shaped::zeros(weights.size)];
        let (precision, silent) = (Precision::default(), vec![0; settings.latents]);
        Ok(Trainer {
            settings,
            objective,
            weights,
            moments,
            archetypes: None,
            step: 0,
            precision,
            silent,
            buffers: Buffers::default(),
            _reservation: None,
        })
    }

    /// A dictionary before its first step, which holds a reservation of the memory that its training needs.
    pub fn within(settings: TrainingSettings, budget: &Budget) -> Result<Trainer> {
        let memory = budget.reserve(Trainer::memory(&settings), format!("the training of {}", settings.arch))?;
        Ok(Trainer { _reservation: Some(memory), ..Trainer::new(settings)? })
    }

    /// How archetypal directions are made, if these are.
    fn mixtures(&self) -> Option<Mixtures> {
        match self.objective.rules().form {
            Form::Archetypal(mixtures) => Some(mixtures),
            Form::Free | Form::Tied => None,
        }
    }

    /// How many candidate points the directions want to be made of, if they still want any.
    pub fn wants_candidates(&self) -> Option<usize> {
        let mixtures = self.mixtures().filter(|_| self.archetypes.is_none())?;
        Some(archetypes::candidates(&mixtures, &self.settings))
    }

    /// Gives archetypal directions the points that they are made of, one row each, in the units of the batches. The
    /// directions start there, and the encoder with them.
    pub fn give_candidates(&mut self, candidates: &[f32]) -> Result<()> {
        let mixtures = self.mixtures().ok_or_else(|| Error::Bug("free directions have no candidates".into()))?;
        let archetypes = Archetypes::new(candidates, &mixtures, self.settings.seed, self.weights.size)?;
        archetypes.build(&mut self.weights.decoder);
        if self.settings.uniform_encoder.is_none() {
            self.weights.encode_directions();
        }
        self.archetypes = Some(archetypes);
        Ok(())
    }

    /// Starts from given weights, in our names or in those of dictionary_learning.
    pub fn start_from(&mut self, tensors: &Tensors) -> Result<()> {
        self.weights.take(tensors, &self.objective.rules().scalars)?;
        if let Some(mixtures) = self.mixtures() {
            let archetypes = Archetypes::read(tensors, &mixtures, self.weights.size)?;
            archetypes.build(&mut self.weights.decoder);
            self.archetypes = Some(archetypes);
        }
        Ok(())
    }

    /// Bytes that a training holds.
    pub fn memory(settings: &TrainingSettings) -> u64 {
        let rules = settings.objective().ok().map(|objective| objective.rules().clone());
        let (latents, stride) = (settings.latents as u64, settings.width as u64 + 16);
        let matrix = latents.saturating_mul(stride).saturating_mul(4);
        let rows = (settings.batch as u64 + 12).saturating_mul(stride).saturating_mul(4);
        let groups = rules.as_ref().map_or(2, |rules| rules.groups.len().max(2) as u64);
        let (matrices, rest) = match rules.map(|rules| rules.form) {
            // Encoder and directions, two moments of the latter, their gradient.
            Some(Form::Tied) => (5, pursuit_gradient::memory(settings)),
            // As the free ones, and what the directions are made of.
            Some(Form::Archetypal(mixtures)) => (9, archetypes::memory(&mixtures, settings)),
            _ => (if settings.keeps_gradient() { 8 } else { 6 }, 0),
        };
        // The rounded encoder, and for every row its candidates, itself rounded and itself packed.
        let search = (settings.batch as u64).saturating_mul(latents / 2 + 5 * stride).saturating_add(matrix / 4);
        let rest = search.saturating_add(rest);
        matrix.saturating_mul(matrices).saturating_add(rows.saturating_mul(2 + groups)).saturating_add(rest)
    }

    /// Chooses how the encoder product is searched: no result depends on it.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// How the encoder product is searched, in words.
    pub fn precision(&self) -> &'static str {
        self.precision.used(!matches!(self.objective.selection(self.step), Selection::Pursuit(_)))
    }

    /// What it was told.
    pub fn settings(&self) -> &TrainingSettings {
        &self.settings
    }

    /// Steps done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// The weights: `encoder` and `decoder` (one row per latent), `bias`, and the numbers per latent by their names.
    /// Archetypal directions also have `candidates`, and `mixture`, `neighbours`, `relaxation` and `multiplier`.
    pub fn weights(&self) -> Tensors {
        let mut tensors = self.weights.tensors(&self.objective.rules().scalars);
        if let Some(archetypes) = &self.archetypes {
            tensors.append(&mut archetypes.tensors());
        }
        tensors
    }

    /// One step on a batch of whole rows.
    pub fn step(&mut self, batch: &[f32]) -> Result<Step> {
        let rows = self.check(batch)?;
        if self.step == 0 && self.settings.median && self.objective.rules().biased {
            let median = geometric_median(batch, self.settings.width);
            self.weights.bias[..self.settings.width].copy_from_slice(&median);
        }
        self.forward(batch, rows);
        let (report, auxiliary) = self.settle(rows);
        self.update(rows, auxiliary.as_ref());
        self.resample(batch);
        self.step += 1;
        Ok(report)
    }

    /// The mean squared error on rows that are not trained on.
    pub fn error_on(&mut self, batch: &[f32]) -> Result<f64> {
        let rows = self.check(batch)?;
        self.forward(batch, rows);
        Ok(self.buffers.errors.squared(self.objective.rules().groups.len()).last().copied().unwrap_or(0.0))
    }

    /// The loss on a batch, without a step.
    #[cfg(test)]
    fn look(&mut self, batch: &[f32]) -> Step {
        let rows = self.check(batch).unwrap();
        self.forward(batch, rows);
        self.settle(rows).0
    }

    fn check(&self, batch: &[f32]) -> Result<usize> {
        if self.wants_candidates().is_some() {
            return Err(Error::Bug("archetypal directions were given no candidates".into()));
        }
        let width = self.settings.width;
        if batch.is_empty() || !batch.len().is_multiple_of(width) {
            return Err(InputError::new("a batch does not hold whole rows")
                .expected(format!("a multiple of the width {width}"))
                .found(format!("{} values", batch.len()))
                .into());
        }
        Ok(batch.len() / width)
    }

    /// From rows to kept pre-activations, reconstructions and errors.
    fn forward(&mut self, batch: &[f32], rows: usize) {
        let (size, width) = (self.weights.size, self.settings.width);
        let rules = self.objective.rules();
        let buffers = &mut self.buffers;
        for padded in [&mut buffers.rows, &mut buffers.input] {
            padded.reset(rows.next_multiple_of(TILE_ROWS) * size.stride);
        }
        let (bias, centred) = (&self.weights.bias, rules.centred);
        (buffers.rows.par_chunks_exact_mut(size.stride), buffers.input.par_chunks_exact_mut(size.stride))
            .into_par_iter()
            .zip(batch.par_chunks_exact(width))
            .for_each(|((row, input), from)| {
                row[..width].copy_from_slice(from);
                input[..width].copy_from_slice(from);
                if centred {
                    input.iter_mut().zip(bias).for_each(|(value, bias)| *value -= bias);
                }
            });
        (buffers.bias, buffers.floors) = (vec![0.0; size.padded], vec![f32::INFINITY; size.padded]);
        let scalars = self.weights.scalars.chunks_exact(size.scalars).take(size.latents);
        for (latent, scalars) in scalars.enumerate() {
            (buffers.bias[latent], buffers.floors[latent]) = (scalars[0], self.objective.floor(scalars));
        }
        buffers.norms.clear();
        if self.objective.wants_norms() {
            let norms = self.weights.decoder.chunks_exact(size.stride).take(size.latents);
            buffers.norms.extend(norms.map(|direction| dot(direction, direction).sqrt()));
        }
        buffers.picks.resize(rows, Entries::new());
        let rule = match self.objective.selection(self.step) {
            Selection::Above => Some(Rule::Above),
            Selection::PerRow(keep) => Some(Rule::PerRow(keep)),
            Selection::PerBatch(keep) => Some(Rule::PerBatch(keep)),
            Selection::Pursuit(pursuit) => {
                let (choices, picks) = (&mut buffers.choices, &mut buffers.picks);
                pursuit_gradient::choose(pursuit, &self.weights, &buffers.input, choices, picks);
                None
            }
        };
        if let Some(rule) = rule {
            let proposes = self.precision.proposes() && buffers.memory.wants_candidates(rule, size.latents);
            if proposes {
                buffers.rounded.fill(self.weights.encoder.values(), size.stride);
            }
            let selector = Selector {
                panels: &self.weights.encoder,
                bias: &buffers.bias,
                floors: &buffers.floors,
                rounded: proposes.then_some(&buffers.rounded),
                threads: rayon::current_num_threads(),
                keeps_nan: false,
            };
            selector.select(rule, &buffers.input, &buffers.memory, &mut buffers.picks);
        }
        let forward = Forward {
            weights: &self.weights,
            objective: self.objective.as_ref(),
            rows: &buffers.rows,
            picks: &buffers.picks,
            norms: &buffers.norms,
            scale: error_scale(&self.settings, rows),
        };
        forward.run(&mut buffers.errors);
        buffers.columns.fill(&buffers.picks, size.latents);
    }

    /// The trained dictionary. Inputs were divided by `unit`: biases and thresholds are multiplied by it, so that codes of
    /// raw rows are `unit` times those of divided ones.
    pub fn finish(&self, unit: f32) -> Result<Linear> {
        let (size, rules) = (self.weights.size, self.objective.rules());
        let numbers = &self.weights.scalars[..size.latents * size.scalars];
        let (encoder_bias, activation) = self.objective.finish(numbers, unit);
        let mut tensors = self.weights();
        let mut take = |name: &str| tensors.remove(name).map(|tensor| tensor.values).unwrap_or_default();
        Linear::new(Parts {
            arch: self.settings.arch.clone(),
            encoder: take("encoder"),
            encoder_bias,
            decoder: take("decoder"),
            bias: take("bias").into_iter().map(|value| value * unit).collect(),
            subtract_bias: rules.centred,
            input: self.settings.input,
            activation,
        })
    }
}

/// The derivative of the mean squared error by one error.
fn error_scale(settings: &TrainingSettings, rows: usize) -> f32 {
    let per = if settings.per_feature { settings.width } else { 1 };
    (2.0 / (rows as f64 * per as f64)) as f32
}
