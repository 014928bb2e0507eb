//! The backward pass, latent by latent. The gradients of a panel of 32 latents are computed in cache from the rows that
//! kept them, and Adam uses them at once. They are stored only if their global norm is needed first.

use std::mem::take;
use std::ops::Range;

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
    entries: Entries,
    dots: Vec<f32>,
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
            entries: Entries::default(),
            dots: Vec::new(),
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
        let mut rows = take(&mut scratch.rows);
        let latents = first..(first + PANEL).min(size.latents);
        scratch.entries.fill(self, latents.clone(), weights.scalars);
        self.add_errors(latents.clone(), weights.decoder, into.decoder, scratch);
        let mut norm_gradients = [0.0f32; PANEL];
        let mut sums = [0.0f64; PANEL];
        for lane in 0..latents.len() {
            let scalars = lane * size.scalars..(lane + 1) * size.scalars;
            let (ids, values) = self.columns.of(first + lane);
            let range = scratch.entries.range(lane);
            let slopes = &mut scratch.entries.slopes[range.clone()];
            let gate_slopes = if self.objective.rules().gates { &scratch.entries.gate_slopes[range] } else { &[][..] };
            let mut column = LatentBackward {
                batch: self.batch,
                rows: ids,
                values,
                slopes,
                gate_slopes,
                scalars: &weights.scalars[scalars.clone()],
                gradient: &mut into.scalars[scalars],
                norm: self.norm(&weights.decoder[lane * size.stride..][..size.stride]),
                norm_gradient: 0.0,
            };
            self.objective.backward(&mut column);
            norm_gradients[lane] = column.norm_gradient;
            sums[lane] = column.slopes.iter().map(|&slope| f64::from(slope)).sum();
        }
        self.add_inputs(latents.clone(), &mut rows, scratch);
        let (mut panel_sums, mut any) = ([0.0f32; PANEL], false);
        for lane in 0..latents.len() {
            let row = lane * size.stride..(lane + 1) * size.stride;
            let gradients = (&mut rows[row.clone()], &mut into.decoder[row.clone()]);
            let scalars = &mut into.scalars[lane * size.scalars..];
            let sums = (sums[lane], norm_gradients[lane]);
            panel_sums[lane] =
                self.finish_latent(first + lane, &weights.decoder[row], gradients, scalars, sums, scratch);
            any |= panel_sums[lane] != 0.0;
        }
        fill_panel(into.encoder, &rows, size.stride);
        scratch.rows = rows;
        into.bias.fill(0.0);
        if any && self.objective.rules().centred {
            panel_times(weights.encoder, &panel_sums, into.bias);
            scale(into.bias, -1.0);
        }
    }

    /// The norm of a direction, if it is needed.
    fn norm(&self, direction: &[f32]) -> f32 {
        let needed = matches!(self.settings.constraint, Constraint::Unit { .. }) || self.objective.needs_norms();
        if needed { dot(direction, direction).sqrt() } else { 0.0 }
    }

    /// Adds codes times error slopes to the gradients of the directions of a panel, and computes the slope of each code.
    fn add_errors(&self, latents: Range<usize>, directions: &[f32], decoder: &mut [f32], scratch: &mut Scratch) {
        let (stride, rules) = (self.size.stride, self.objective.rules());
        let Scratch { entries, dots, lanes, .. } = scratch;
        let Entries { starts, codes, slopes, gate_slopes } = entries;
        let gates = RowView::new(self.gate_slopes, stride);
        self.in_blocks(latents.clone(), starts, |lane, ids, range| {
            let group = rules.groups.partition_point(|&end| end <= latents.start + lane);
            let errors = RowView { values: self.slopes, pitch: rules.groups.len() * stride, offset: group * stride };
            let row = lane * stride..(lane + 1) * stride;
            let (direction, decoder) = (&directions[row.clone()], &mut decoder[row]);
            gather_and_dot(errors, ids, &codes[range.clone()], decoder, direction, dots, lanes);
            slopes[range.clone()].copy_from_slice(dots);
            if rules.gates {
                let slope = |&id: &u32| dot(gates.row(id as usize, stride), direction);
                gate_slopes[range].iter_mut().zip(ids).for_each(|(into, id)| *into = slope(id));
            }
        });
    }

    /// Adds slopes times inputs to the gradients of the encoder rows of a panel.
    fn add_inputs(&self, latents: Range<usize>, rows: &mut [f32], scratch: &Scratch) {
        let (stride, input) = (self.size.stride, RowView::new(self.input, self.size.stride));
        let Entries { starts, slopes, .. } = &scratch.entries;
        self.in_blocks(latents, starts, |lane, ids, range| {
            gather(input, ids, &slopes[range], &mut rows[lane * stride..(lane + 1) * stride]);
        });
    }

    /// Calls `work` with the entries of every latent of a panel: its lane, rows, and the range of its entries among those
    /// of the panel. If there are many, all latents use a block of rows while it is in the cache; the rows of a latent
    /// are still in order.
    fn in_blocks(&self, latents: Range<usize>, starts: &[usize], mut work: impl FnMut(usize, &[u32], Range<usize>)) {
        let entries = starts.last().copied().unwrap_or(0);
        let dense = entries >= latents.len() * (self.batch / BLOCK) * DENSE;
        let block = if dense { BLOCK } else { self.batch.max(1) };
        let mut done = [0; PANEL];
        for end in (block..).step_by(block) {
            for (lane, latent) in latents.clone().enumerate() {
                let (ids, _) = self.columns.of(latent);
                let from = done[lane];
                let to = from + ids[from..].partition_point(|&row| (row as usize) < end);
                if to > from {
                    work(lane, &ids[from..to], starts[lane] + from..starts[lane] + to);
                }
                done[lane] = to;
            }
            if end >= self.batch {
                break;
            }
        }
    }

    /// Adds the other terms of the gradient of a latent, and projects that of its direction. Returns the sum of its
    /// slopes, which is that of the kept entries before.
    fn finish_latent(
        &self,
        latent: usize,
        direction: &[f32],
        (encoder, decoder): (&mut [f32], &mut [f32]),
        scalars: &mut [f32],
        (mut sum, norm_gradient): (f64, f32),
        scratch: &mut Scratch,
    ) -> f32 {
        let (stride, norm) = (self.size.stride, self.norm(direction));
        if norm_gradient != 0.0 && norm > 0.0 {
            add_scaled(norm_gradient / norm, direction, decoder);
        }
        if let Some(auxiliary) = self.auxiliary {
            let (ids, values) = auxiliary.columns.of(latent);
            if !ids.is_empty() {
                let errors = RowView::new(&auxiliary.slopes, stride);
                let (dots, lanes) = (&mut scratch.dots, &mut scratch.lanes);
                gather_and_dot(errors, ids, values, decoder, direction, dots, lanes);
                gather(RowView::new(self.input, stride), ids, dots, encoder);
                let auxiliary_sum: f64 = dots.iter().map(|&slope| f64::from(slope)).sum();
                scalars[0] += auxiliary_sum as f32;
                sum += auxiliary_sum;
            }
        }
        let kept = !self.columns.of(latent).0.is_empty();
        if let Some((encoder_gradient, bias)) = self.reanimation.filter(|_| !kept) {
            add_scaled(1.0, encoder_gradient, encoder);
            scalars[0] += bias;
            sum += f64::from(bias);
        }
        if !self.settings.encoder_bias {
            scalars[0] = 0.0;
        }
        project(self.settings.constraint, direction, norm, decoder);
        sum as f32
    }
}

/// Rows that all latents of a panel use before the next ones: they fit in the second-level cache.
const BLOCK: usize = 128;

/// Blocks are used if latents were kept in at least this many rows of each, on average.
const DENSE: usize = 8;

/// The kept entries of a panel, latent by latent.
#[derive(Default)]
struct Entries {
    /// The first entry of each latent, and the end of the last.
    starts: Vec<usize>,
    codes: Vec<f32>,
    /// The derivative of the loss by each code, then by each product of encoder and input.
    slopes: Vec<f32>,
    /// The derivative by each gate; empty without gates.
    gate_slopes: Vec<f32>,
}

impl Entries {
    fn fill(&mut self, backward: &Backward<'_>, latents: Range<usize>, scalars: &[f32]) {
        self.starts.clear();
        self.starts.push(0);
        self.codes.clear();
        for (latent, scalars) in latents.zip(scalars.chunks_exact(backward.size.scalars)) {
            let values = backward.columns.of(latent).1;
            self.codes.extend(values.iter().map(|&value| backward.objective.code(scalars, value)));
            self.starts.push(self.codes.len());
        }
        self.slopes.resize(self.codes.len(), 0.0);
        self.gate_slopes.resize(if backward.objective.rules().gates { self.codes.len() } else { 0 }, 0.0);
    }

    fn range(&self, lane: usize) -> Range<usize> {
        self.starts[lane]..self.starts[lane + 1]
    }
}

/// The squared norm of a part of a gradient.
pub(super) fn square(part: &[f32]) -> f64 {
    f64::from(dot(part, part))
}
