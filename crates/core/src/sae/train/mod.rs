//! Training: one step on one batch, sparse everywhere but in the encoder product.
//!
//! A step is: take the decoder's bias from the rows; encoder product tile by tile, of which only what the architecture
//! keeps survives ([`select`]); sparse reconstruction and error ([`forward`]); turn rows to columns; then for every latent
//! its gradients, Adam, and its direction's length ([`backward`]). Work is cut into fixed pieces and sums are formed in a
//! fixed order: any number of threads gives the same bits.

mod archetypes;
mod auxiliary;
mod backward;
mod columns;
mod files;
mod forward;
mod median;
mod order;
mod pursuit;
mod record;
mod resample;
mod run;
mod select;
mod settings;
mod state;
mod weights;

#[cfg(test)]
mod tests;

use rayon::prelude::*;

pub use order::Order;
pub use record::{Point, Record};
pub use run::{Early, Line, Log, TrainJob, TrainOptions, Trained, steps_of_epochs, train};
pub use settings::{AuxiliaryRule, Constraint, Jump, Preset, Radius, Settings, ThresholdRule};

use super::arch::{self, Batch, Form, Objective, Selection, Terms};
use super::{Linear, Parts, Precision};
use crate::error::{Complaint, Error, Result};
use crate::input::Tensors;
use crate::kernel::aligned::Aligned;
use crate::kernel::eight::Columns as Columns8;
use crate::kernel::panels::{PANEL, TILE_ROWS};
use crate::kernel::vector::{Adam, Rows, add_scaled, dot, scale};
use archetypes::Archetypes;
use auxiliary::{Auxiliary, Left};
use backward::{Backward, square};
use columns::Columns;
use forward::{Errors, Forward};
use select::{Memory, Picks, Selector};
use weights::{Shaped, Weights};

/// A dictionary in training.
pub struct Trainer {
    settings: Settings,
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
}

/// Memory that is used again in every step. Nothing in it outlives a step but the memory of the selection, which changes no result.
#[derive(Default)]
struct Buffers {
    rows: Aligned,
    input: Aligned,
    bias: Vec<f32>,
    floors: Vec<f32>,
    norms: Vec<f32>,
    picks: Vec<Picks>,
    /// The choices of a pursuit, in their order.
    choices: Vec<Picks>,
    memory: Memory,
    rounded: Columns8,
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
    pub fn new(settings: Settings) -> Result<Trainer> {
        settings.check()?;
        let objective = arch::find(&settings.arch)?.objective(&settings)?;
        if settings.resample.is_some() && objective.rules().form != Form::Free {
            return Err(Complaint::new(
                "latents of this architecture cannot be resampled: their directions are not free",
            )
            .advice("leave --resample away")
            .into());
        }
        let weights = Weights::initial(&settings, objective.rules());
        let moments = [Shaped::zeros(weights.size), Shaped::zeros(weights.size)];
        let (precision, silent) = (Precision::default(), vec![0; settings.latents]);
        let (archetypes, buffers) = (None, Buffers::default());
        Ok(Trainer { settings, objective, weights, moments, archetypes, step: 0, precision, silent, buffers })
    }

    /// How many candidate points the directions want to be made of, if they still want any.
    pub fn wants_candidates(&self) -> Option<usize> {
        let wanted = self.objective.rules().form == Form::Archetypal && self.archetypes.is_none();
        wanted.then(|| archetypes::candidates(&self.settings))
    }

    /// Gives archetypal directions the points that they are made of, one row each, in the units of the batches. The
    /// directions start there, and the encoder with them.
    pub fn give_candidates(&mut self, candidates: &[f32]) -> Result<()> {
        let archetypes = Archetypes::new(candidates, &self.settings, self.weights.size)?;
        archetypes.build(&mut self.weights.decoder);
        if self.settings.uniform_encoder.is_none() {
            self.weights.encode_directions();
        }
        self.archetypes = Some(archetypes);
        Ok(())
    }

    /// Starts from given weights, in our names or in those of dictionary_learning.
    pub fn start_from(&mut self, tensors: &Tensors) -> Result<()> {
        self.weights.take(tensors, self.objective.rules().scalars)?;
        if self.objective.rules().form == Form::Archetypal {
            let archetypes = Archetypes::read(tensors, &self.settings, self.weights.size)?;
            archetypes.build(&mut self.weights.decoder);
            self.archetypes = Some(archetypes);
        }
        Ok(())
    }

    /// Bytes that a training holds.
    pub fn memory(settings: &Settings) -> u64 {
        let form = arch::find(&settings.arch).and_then(|arch| arch.objective(settings)).map(|o| o.rules().form);
        let (latents, stride) = (settings.latents as u64, settings.width as u64 + 16);
        let matrix = latents.saturating_mul(stride).saturating_mul(4);
        let rows = (settings.batch as u64 + 12).saturating_mul(stride).saturating_mul(4);
        let groups = if settings.arch == "matryoshka" { settings.groups.len() as u64 } else { 2 };
        let kept = settings.keeps_gradient() || form.as_ref().is_ok_and(|form| *form != Form::Free);
        let (matrices, rest) = match form {
            // Encoder and directions, two moments of the latter, their gradient.
            Ok(Form::Tied) => (5, pursuit::memory(settings)),
            // As the free ones, and what the directions are made of.
            Ok(Form::Archetypal) => (9, archetypes::memory(settings)),
            _ => (if kept { 8 } else { 6 }, 0),
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
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Steps done.
    pub fn steps(&self) -> u64 {
        self.step
    }

    /// The weights: `encoder` and `decoder` (one row per latent), `bias`, and the numbers per latent by their names.
    /// Archetypal directions also have `candidates`, and `mixture`, `neighbours`, `relaxation` and `multiplier`.
    pub fn weights(&self) -> Tensors {
        let mut tensors = self.weights.tensors(self.objective.rules().scalars);
        if let Some(archetypes) = &self.archetypes {
            tensors.append(&mut archetypes.tensors());
        }
        tensors
    }

    /// One step on a batch of whole rows.
    pub fn step(&mut self, batch: &[f32]) -> Result<Step> {
        let rows = self.check(batch)?;
        if self.step == 0 && self.settings.median && self.objective.rules().biased {
            let median = median::geometric_median(batch, self.settings.width);
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
            return Err(Complaint::new("a batch does not hold whole rows")
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
        buffers.picks.resize(rows, Picks::new());
        let selection = self.objective.selection(self.step);
        let proposes = self.precision.proposes() && buffers.memory.wants_candidates(selection, size.latents);
        if proposes {
            buffers.rounded.fill(self.weights.encoder.values(), size.stride);
        }
        let selector = Selector {
            panels: &self.weights.encoder,
            bias: &buffers.bias,
            floors: &buffers.floors,
            rows: &buffers.input,
            stride: size.stride,
            rounded: proposes.then_some(&buffers.rounded),
        };
        match selection {
            Selection::Pursuit(rule) => {
                pursuit::choose(rule, &self.weights, &buffers.input, &mut buffers.choices, &mut buffers.picks);
            }
            selection => selector.select(selection, &mut buffers.memory, &mut buffers.picks),
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

    /// The loss, who is dead, and what the dead would do.
    fn settle(&mut self, rows: usize) -> (Step, Option<Auxiliary>) {
        let (size, buffers) = (self.weights.size, &self.buffers);
        let rules = self.objective.rules();
        let (groups, per) = (rules.groups.len(), if self.settings.per_feature { size.width as f64 } else { 1.0 });
        for (latent, silent) in self.silent.iter_mut().enumerate() {
            let scalars = &self.weights.scalars[latent * size.scalars..][..size.scalars];
            let fires = |&value: &f32| self.objective.code(scalars, value) != 0.0;
            *silent = if buffers.columns.of(latent).1.iter().any(fires) { 0 } else { *silent + rows as u64 };
        }
        let limit = self.settings.dead_after;
        let dead: Vec<u32> = (0..size.latents as u32).filter(|&latent| self.silent[latent as usize] >= limit).collect();
        let last = *rules.group_weights.last().unwrap_or(&1.0);
        let wanted = rules.auxiliary && self.settings.auxiliary > 0.0 && !dead.is_empty();
        let auxiliary = wanted.then(|| {
            let pitch = groups * size.stride;
            let left = Left {
                weights: &self.weights,
                input: &buffers.input,
                errors: Rows { values: &buffers.errors.slopes, pitch, offset: pitch - size.stride },
                factor: error_scale(&self.settings, rows) * last,
                rows,
                weight: self.settings.auxiliary,
                unit: (self.settings.auxiliary_rule != AuxiliaryRule::Relative).then_some(per),
                keep: self.settings.auxiliary_k.max(1),
            };
            left.run(&dead)
        });
        let attached = self.settings.auxiliary_rule == AuxiliaryRule::Attached;
        if let Some(auxiliary) = auxiliary.as_ref().filter(|_| attached) {
            self.buffers.errors.add_to_slopes(&auxiliary.slopes, size.stride);
        }
        let buffers = &self.buffers;
        let squared: Vec<f64> = buffers.errors.squared(groups);
        let scaled: Vec<f64> = squared.iter().map(|error| error / per).collect();
        let mut terms = self.objective.settle(&Batch {
            step: self.step,
            sparsity: self.settings.sparsity_at(self.step),
            rows: &buffers.errors.measured,
            squared_errors: &scaled,
            gate_error: buffers.errors.gate_squared() / per,
            auxiliary: auxiliary.as_ref().map_or(0.0, |auxiliary| auxiliary.loss),
        });
        if self.settings.reanimation > 0.0 {
            let unkept = self.unkept(rows);
            terms.iter_mut().filter(|term| term.0 == "loss").for_each(|t| t.1 -= self.settings.reanimation * unkept);
            terms.push(("unkept", unkept));
        }
        let buffers = &self.buffers;
        let report = Step {
            terms,
            squared_error: squared.last().copied().unwrap_or(0.0),
            error_length: buffers.errors.mean_length(groups),
            l0: buffers.errors.l0(),
            dead: dead.len(),
        };
        (report, auxiliary)
    }

    /// The mean pre-activation, over rows and latents, of latents that no row kept.
    fn unkept(&self, rows: usize) -> f64 {
        let (size, buffers) = (self.weights.size, &self.buffers);
        let mut mean = vec![0.0; TILE_ROWS * size.stride];
        mean[..size.stride].copy_from_slice(&sum_of_rows(&buffers.input, rows, size.stride));
        mean.iter_mut().for_each(|value| *value /= rows as f32);
        let (mut tile, mut sum) = ([0.0; TILE_ROWS * PANEL], 0.0);
        for panel in 0..self.weights.encoder.panels() {
            self.weights.encoder.product(&mean, panel, &mut tile);
            for (latent, &product) in (panel * PANEL..size.latents).zip(&tile[..PANEL]) {
                if buffers.columns.of(latent).0.is_empty() {
                    sum += f64::from(product + buffers.bias[latent]);
                }
            }
        }
        sum / size.latents as f64
    }

    /// Gradients and Adam.
    fn update(&mut self, rows: usize, auxiliary: Option<&Auxiliary>) {
        let size = self.weights.size;
        let Trainer { settings, objective, weights, moments, archetypes, buffers, .. } = self;
        let rules = objective.rules();
        // The derivative of the reanimation by one pre-activation of a latent that no row kept.
        let pull = -settings.reanimation / (rows as f64 * size.latents as f64);
        let lift = (settings.reanimation > 0.0).then(|| {
            let mut lift = sum_of_rows(&buffers.input, rows, size.stride);
            scale(&mut lift, pull as f32);
            lift
        });
        let backward = Backward {
            size,
            settings,
            objective: objective.as_ref(),
            columns: &buffers.columns,
            slopes: &buffers.errors.slopes,
            gate_slopes: &buffers.errors.gate_slopes,
            input: &buffers.input,
            batch: rows,
            auxiliary,
            lift: lift.as_deref().map(|lift| (lift, (pull * rows as f64) as f32)),
        };
        buffers.shares.resize(size.padded / PANEL * size.stride, 0.0);
        let mut adam = adam_at(settings, self.step);
        let mut bias = buffers.errors.bias_gradient(size.stride);
        if rules.form == Form::Free && !settings.keeps_gradient() {
            backward.gradients_and_update(weights, moments, adam, &mut buffers.shares);
            buffers.shares.chunks_exact(size.stride).for_each(|share| add_scaled(1.0, share, &mut bias));
        } else {
            let gradient = buffers.gradient.get_or_insert_with(|| Shaped::zeros(size));
            let mut squares = if rules.form == Form::Tied {
                bias =
                    pursuit::gradient(settings, weights, &buffers.input, &buffers.choices, backward.slopes, gradient);
                squared(gradient, size.panel())
            } else {
                let squares = backward.gradients(weights, gradient, &mut buffers.shares);
                buffers.shares.chunks_exact(size.stride).for_each(|share| add_scaled(1.0, share, &mut bias));
                squares
            };
            if !rules.biased {
                bias.fill(0.0);
            }
            gradient.bias.copy_from_slice(&bias);
            if let Some(archetypes) = archetypes {
                archetypes.split_gradient(&weights.decoder, &mut gradient.decoder);
                squares = squared(gradient, size.panel()) + archetypes.squared_gradient();
            }
            if let Some(longest) = settings.clip {
                adam.scale = (longest / ((squares + square(&bias)).sqrt() + 1e-6)).min(1.0) as f32;
            }
            if let Some(archetypes) = archetypes {
                // Adam sees what a direction is made of, and not the direction itself.
                std::mem::swap(&mut weights.decoder, &mut archetypes.relaxation);
            }
            weights.decay(1.0 - settings.rate_at(self.step) * settings.weight_decay);
            match rules.form {
                Form::Tied => {
                    backward.update_directions(weights, moments, gradient, adam);
                    weights.tie();
                }
                _ => backward.update(weights, moments, gradient, adam),
            }
            if let Some(archetypes) = archetypes {
                std::mem::swap(&mut weights.decoder, &mut archetypes.relaxation);
                archetypes.step(adam, 1.0 - settings.rate_at(self.step) * settings.weight_decay);
                archetypes.build(&mut weights.decoder);
            }
        }
        if rules.biased {
            let [first, second] = moments;
            adam.step(&mut weights.bias, &mut first.bias, &mut second.bias, &bias);
        }
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

/// The sum of the first rows, in order.
fn sum_of_rows(values: &[f32], rows: usize, stride: usize) -> Vec<f32> {
    let mut sum = vec![0.0; stride];
    values.chunks_exact(stride).take(rows).for_each(|row| add_scaled(1.0, row, &mut sum));
    sum
}

/// The derivative of the mean squared error by one error.
fn error_scale(settings: &Settings, rows: usize) -> f32 {
    let per = if settings.per_feature { settings.width } else { 1 };
    (2.0 / (rows as f64 * per as f64)) as f32
}

/// Adam with the corrections of a step.
fn adam_at(settings: &Settings, step: u64) -> Adam {
    let (first, second) = settings.betas;
    let correction = |beta: f32| 1.0 - f64::from(beta).powf((step + 1) as f64);
    Adam {
        rate: (settings.rate_at(step) / correction(first)) as f32,
        first,
        second,
        correction: (1.0 / correction(second).sqrt()) as f32,
        epsilon: settings.epsilon,
        scale: 1.0,
    }
}

/// The squared length of a gradient, but for that of the bias.
fn squared(gradient: &Shaped, panel: usize) -> f64 {
    let matrix = |values: &[f32]| values.par_chunks(panel).map(square).collect::<Vec<f64>>().iter().sum::<f64>();
    matrix(&gradient.encoder) + matrix(&gradient.decoder) + square(&gradient.scalars)
}
