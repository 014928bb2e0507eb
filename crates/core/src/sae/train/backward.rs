//! The backward pass, latent by latent. The gradients of a panel of 32 latents are computed in cache from the rows that
//! kept them, and Adam uses them at once. They are stored only if their global norm is needed first.

use std::mem::take;

use rayon::prelude::*;

use super::auxiliary::Auxiliary;
use super::columns::Columns;
use super::objective::{LatentBackward, Objective};
use super::settings::{Constraint, TrainingSettings};
use super::weights::{Size, WeightBuffers, Weights};
use etalon_kernel::aligned::Aligned;
use etalon_kernel::packed::{PANEL, fill_panel, panel_times};
use etalon_kernel::vector::{Adam, LANES, RowView, add_scaled, dot, gather, gather_and_dot, scale};

/// The inputs of the backward pass, besides the weights.
pub(super) struct Backward<'a> {
    pub size: Size,
    pub settings: &'a TrainingSettings,
    pub objective: &'a dyn Objective,
    pub columns: &'a Columns,
    /// Derivatives by the contributions of groups to the reconstruction: rows × groups × stride.
    pub slopes: &'a [f32],
    /// Derivatives by the decoded gates; empty without gates.
    pub gate_slopes: &'a [f32],
    /// The input of the encoder.
    pub input: &'a [f32],
    pub batch: usize,
    pub auxiliary: Option<&'a Auxiliary>,
    /// The gradient of the reanimation term by the encoder row and the bias of a latent that no row kept.
    pub reanimation: Option<(&'a [f32], f32)>,
}

/// Projects a gradient orthogonally to its direction, if directions have unit norm.
pub(super) fn project(constraint: Constraint, direction: &[f32], norm: f32, gradient: &mut [f32]) {
    if let Constraint::Unit { gradient_guard, .. } = constraint
        && norm > 0.0
    {
        let guarded = norm + gradient_guard;
        let along = dot(gradient, direction) / guarded;
        if along != 0.0 {
            add_scaled(-along / guarded, direction, gradient);
        }
    }
}

/// The weights of one panel of latents.
struct PanelWeights<'a> {
    encoder: &'a [f32],
    decoder: &'a [f32],
    scalars: &'a [f32],
}

/// The gradient of one panel of latents, and its contribution to the gradient of the decoder bias.
struct PanelGradient<'a> {
    encoder: &'a mut [f32],
    decoder: &'a mut [f32],
    scalars: &'a mut [f32],
    bias: &'a mut [f32],
}

/// Buffers that are reused for every panel.
struct Scratch {
    /// Encoder gradients, one row per latent.
    rows: Aligned,
    /// The gradient of a panel, if gradients are not stored.
    encoder: Aligned,
    decoder: Aligned,
    scalars: Vec<f32>,
    codes: Vec<f32>,
    slopes: Vec<f32>,
    gate_slopes: Vec<f32>,
    lanes: Vec<[f32; LANES]>,
}

impl Scratch {
    fn new(size: Size, keep: bool) -> Scratch {
        let panel = if keep { 0 } else { size.panel() };
        Scratch {
            rows: Aligned::zeros(size.panel()),
            encoder: Aligned::zeros(panel),
            decoder: Aligned::zeros(panel),
            scalars: vec![0.0; if keep { 0 } else { PANEL * size.scalars }],
            codes: Vec::new(),
            slopes: Vec::new(),
            gate_slopes: Vec::new(),
            lanes: Vec::new(),
        }
    }
}

impl Backward<'_> {
    /// Computes and stores the gradients of all weights except the decoder bias; `bias` receives the contributions of
    /// the panels to the latter. Returns the squared norm of the stored gradients, computed while they are in cache.
    pub fn gradients(&self, weights: &Weights, into: &mut WeightBuffers, bias: &mut [f32]) -> f64 {
        let (size, panel) = (self.size, self.size.panel());
        let squares: Vec<f64> = (
            weights.encoder.values().par_chunks(panel),
            weights.decoder.par_chunks(panel),
            weights.scalars.par_chunks(PANEL * size.scalars),
            into.encoder.par_chunks_mut(panel),
            into.decoder.par_chunks_mut(panel),
            into.scalars.par_chunks_mut(PANEL * size.scalars),
            bias.par_chunks_mut(size.stride),
        )
            .into_par_iter()
            .enumerate()
            .map_init(
                || Scratch::new(size, true),
                |scratch, (index, (encoder, decoder, scalars, g_encoder, g_decoder, g_scalars, bias))| {
                    let weights = PanelWeights { encoder, decoder, scalars };
                    let (encoder, decoder, scalars) = (&mut *g_encoder, &mut *g_decoder, &mut *g_scalars);
                    self.gradient(index, weights, PanelGradient { encoder, decoder, scalars, bias }, scratch);
                    square(g_encoder) + square(g_decoder) + square(g_scalars)
                },
            )
            .collect();
        squares.iter().sum()
    }

    /// Adam with stored gradients.
    pub fn update(
        &self,
        weights: &mut Weights,
        moments: &mut [WeightBuffers; 2],
        gradient: &WeightBuffers,
        adam: Adam,
    ) {
        let (size, panel) = (self.size, self.size.panel());
        let [first, second] = moments;
        (
            (
                weights.encoder.values_mut().par_chunks_mut(panel),
                first.encoder.par_chunks_mut(panel),
                second.encoder.par_chunks_mut(panel),
                gradient.encoder.par_chunks(panel),
            ),
            (
                weights.decoder.par_chunks_mut(panel),
                first.decoder.par_chunks_mut(panel),
                second.decoder.par_chunks_mut(panel),
                gradient.decoder.par_chunks(panel),
            ),
            (
                weights.scalars.par_chunks_mut(PANEL * size.scalars),
                first.scalars.par_chunks_mut(PANEL * size.scalars),
                second.scalars.par_chunks_mut(PANEL * size.scalars),
                gradient.scalars.par_chunks(PANEL * size.scalars),
            ),
        )
            .into_par_iter()
            .for_each(|(encoder, decoder, scalars)| {
                adam.step(encoder.0, encoder.1, encoder.2, encoder.3);
                self.step_directions(adam, decoder.0, decoder.1, decoder.2, decoder.3);
                adam.step(scalars.0, scalars.1, scalars.2, scalars.3);
            });
    }

    /// Gradients and Adam in one pass; `bias` receives the contributions of the panels to the gradient of the decoder
    /// bias.
    pub fn gradients_and_update(
        &self,
        weights: &mut Weights,
        moments: &mut [WeightBuffers; 2],
        adam: Adam,
        bias: &mut [f32],
    ) {
        let (size, panel) = (self.size, self.size.panel());
        let [first, second] = moments;
        (
            (
                weights.encoder.values_mut().par_chunks_mut(panel),
                first.encoder.par_chunks_mut(panel),
                second.encoder.par_chunks_mut(panel),
            ),
            (
                weights.decoder.par_chunks_mut(panel),
                first.decoder.par_chunks_mut(panel),
                second.decoder.par_chunks_mut(panel),
            ),
            (
                weights.scalars.par_chunks_mut(PANEL * size.scalars),
                first.scalars.par_chunks_mut(PANEL * size.scalars),
                second.scalars.par_chunks_mut(PANEL * size.scalars),
            ),
            bias.par_chunks_mut(size.stride),
        )
            .into_par_iter()
            .enumerate()
            .for_each_init(
                || Scratch::new(size, false),
                |scratch, (index, (encoder, decoder, scalars, bias))| {
                    let mut gradient =
                        (take(&mut scratch.encoder), take(&mut scratch.decoder), take(&mut scratch.scalars));
                    let weights = PanelWeights { encoder: encoder.0, decoder: decoder.0, scalars: scalars.0 };
                    let (g_encoder, g_decoder, g_scalars) = (&mut gradient.0, &mut gradient.1, &mut gradient.2);
                    let into = PanelGradient { encoder: g_encoder, decoder: g_decoder, scalars: g_scalars, bias };
                    self.gradient(index, weights, into, scratch);
                    adam.step(encoder.0, encoder.1, encoder.2, &gradient.0);
                    self.step_directions(adam, decoder.0, decoder.1, decoder.2, &gradient.1);
                    adam.step(scalars.0, scalars.1, scalars.2, &gradient.2);
                    (scratch.encoder, scratch.decoder, scratch.scalars) = gradient;
                },
            );
    }

    /// Adam on the directions only, with stored gradients.
    pub fn update_directions(
        &self,
        weights: &mut Weights,
        moments: &mut [WeightBuffers; 2],
        gradient: &WeightBuffers,
        adam: Adam,
    ) {
        let (panel, [first, second]) = (self.size.panel(), moments);
        (
            weights.decoder.par_chunks_mut(panel),
            first.decoder.par_chunks_mut(panel),
            second.decoder.par_chunks_mut(panel),
            gradient.decoder.par_chunks(panel),
        )
            .into_par_iter()
            .for_each(|(weights, first, second, gradient)| {
                self.step_directions(adam, weights, first, second, gradient);
            });
    }

    /// Adam on decoder directions, and normalisation to unit norm if the constraint requires it.
    fn step_directions(
        &self,
        adam: Adam,
        weights: &mut [f32],
        first: &mut [f32],
        second: &mut [f32],
        gradient: &[f32],
    ) {
        let stride = self.size.stride;
        let rows = weights.chunks_exact_mut(stride).zip(gradient.chunks_exact(stride));
        let moments = first.chunks_exact_mut(stride).zip(second.chunks_exact_mut(stride));
        for ((row, gradient), (first, second)) in rows.zip(moments) {
            if let Constraint::Unit { length_guard, before: true, .. } = self.settings.constraint {
                let norm = dot(row, row).sqrt();
                if norm > 0.0 {
                    scale(row, 1.0 / (norm + length_guard));
                }
            }
            let norm = adam.step(row, first, second, gradient).sqrt();
            if let Constraint::Unit { length_guard, before: false, .. } = self.settings.constraint
                && norm > 0.0
            {
                scale(row, 1.0 / (norm + length_guard));
            }
        }
    }

    /// The gradient of one panel.
    fn gradient(&self, panel: usize, weights: PanelWeights<'_>, into: PanelGradient<'_>, scratch: &mut Scratch) {
        let (size, first) = (self.size, panel * PANEL);
        into.scalars.fill(0.0);
        into.decoder.fill(0.0);
        scratch.rows.fill(0.0);
        let mut sums = [0.0f32; PANEL];
        let mut rows = take(&mut scratch.rows);
        let mut any = false;
        for (lane, sum) in sums.iter_mut().enumerate().take(size.latents - first) {
            let row = lane * size.stride..(lane + 1) * size.stride;
            let scalars = lane * size.scalars..(lane + 1) * size.scalars;
            let direction = &weights.decoder[row.clone()];
            let (encoder, decoder) = (&mut rows[row.clone()], &mut into.decoder[row]);
            let scalars = (&weights.scalars[scalars.clone()], &mut into.scalars[scalars]);
            *sum = self.latent(first + lane, direction, scalars, encoder, decoder, scratch);
            any |= *sum != 0.0;
        }
        fill_panel(into.encoder, &rows, size.stride);
        scratch.rows = rows;
        into.bias.fill(0.0);
        if any && self.objective.rules().centred {
            panel_times(weights.encoder, &sums, into.bias);
            scale(into.bias, -1.0);
        }
    }

    /// The gradient of one latent. Returns the sum of its slopes.
    fn latent(
        &self,
        latent: usize,
        direction: &[f32],
        (scalars, g_scalars): (&[f32], &mut [f32]),
        encoder: &mut [f32],
        decoder: &mut [f32],
        scratch: &mut Scratch,
    ) -> f32 {
        let stride = self.size.stride;
        let rules = self.objective.rules();
        let group = rules.groups.partition_point(|&end| end <= latent);
        let slopes = RowView { values: self.slopes, pitch: rules.groups.len() * stride, offset: group * stride };
        let input = RowView::new(self.input, stride);
        let (ids, values) = self.columns.of(latent);
        scratch.codes.clear();
        scratch.codes.extend(values.iter().map(|&value| self.objective.code(scalars, value)));
        scratch.slopes.clear();
        let needs_norm = matches!(self.settings.constraint, Constraint::Unit { .. }) || self.objective.needs_norms();
        let norm = if needs_norm { dot(direction, direction).sqrt() } else { 0.0 };
        if !ids.is_empty() {
            gather_and_dot(slopes, ids, &scratch.codes, decoder, direction, &mut scratch.slopes, &mut scratch.lanes);
        }
        scratch.gate_slopes.clear();
        if rules.gates {
            let gates = RowView::new(self.gate_slopes, stride);
            let slope = |&id: &u32| dot(gates.row(id as usize, stride), direction);
            scratch.gate_slopes.extend(ids.iter().map(slope));
        }
        let mut column = LatentBackward {
            batch: self.batch,
            rows: ids,
            values,
            slopes: &mut scratch.slopes,
            gate_slopes: &scratch.gate_slopes,
            scalars,
            gradient: g_scalars,
            norm,
            norm_gradient: 0.0,
        };
        self.objective.backward(&mut column);
        let norm_gradient = column.norm_gradient;
        let mut sum: f64 = scratch.slopes.iter().map(|&slope| f64::from(slope)).sum();
        if !ids.is_empty() {
            gather(input, ids, &scratch.slopes, encoder);
        }
        if norm_gradient != 0.0 && norm > 0.0 {
            add_scaled(norm_gradient / norm, direction, decoder);
        }
        if let Some(auxiliary) = self.auxiliary {
            let (ids, values) = auxiliary.columns.of(latent);
            if !ids.is_empty() {
                let errors = RowView::new(&auxiliary.slopes, stride);
                let (dots, lanes) = (&mut scratch.slopes, &mut scratch.lanes);
                gather_and_dot(errors, ids, values, decoder, direction, dots, lanes);
                gather(input, ids, dots, encoder);
                let auxiliary_sum: f64 = dots.iter().map(|&slope| f64::from(slope)).sum();
                g_scalars[0] += auxiliary_sum as f32;
                sum += auxiliary_sum;
            }
        }
        if let Some((encoder_gradient, bias)) = self.reanimation.filter(|_| ids.is_empty()) {
            add_scaled(1.0, encoder_gradient, encoder);
            g_scalars[0] += bias;
            sum += f64::from(bias);
        }
        if !self.settings.encoder_bias {
            g_scalars[0] = 0.0;
        }
        project(self.settings.constraint, direction, norm, decoder);
        sum as f32
    }
}

/// The squared norm of a part of a gradient.
pub(super) fn square(part: &[f32]) -> f64 {
    f64::from(dot(part, part))
}
