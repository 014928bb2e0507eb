//! Training of matching pursuit: the choices of a batch, and backpropagation through all of them.
//!
//! With `r_0 = x − b`, `z_t = D_i·r_t`, `r_{t+1} = r_t − z_t D_i` and `g_t` the derivative of the loss by `r_t`:
//! `g_t = g_{t+1} − (g_{t+1}·D_i) D_i`, and the gradient of `D_i` gains `−z_t g_{t+1} − (g_{t+1}·D_i) r_t`.

use rayon::prelude::*;

use super::backward::project;
use super::settings::TrainingSettings;
use super::weights::{WeightBuffers, Weights};
use crate::sae::matching_pursuit::{GROUP, MatchingPursuit};
use crate::sae::selector::Entries;
use etalon_kernel::matching_pursuit::sum_choices;
use etalon_kernel::packed::PANEL;
use etalon_kernel::vector::{RowView, add_scaled, dot, gather};

/// Rows whose residuals are in memory together: fixed, so that sums do not depend on the number of threads.
const BLOCK: usize = 128;

/// Bytes besides the matrices of latents × width.
pub(super) fn memory(settings: &TrainingSettings) -> u64 {
    let (rows, row) = (BLOCK.min(settings.batch) as u64, (settings.width as u64 + 16).saturating_mul(4));
    let choices = (settings.batch as u64).saturating_mul(settings.k as u64).saturating_mul(16);
    rows.saturating_mul(settings.k as u64).saturating_mul(2).saturating_mul(row).saturating_add(choices)
}

/// Computes the choices of every row: in order (`choices`), and summed by latent (`active`).
pub(super) fn choose(
    rule: MatchingPursuit,
    weights: &Weights,
    input: &[f32],
    choices: &mut Vec<Entries>,
    active: &mut [Entries],
) {
    let stride = weights.size.stride;
    choices.resize(active.len(), Entries::new());
    (choices.par_chunks_mut(GROUP), active.par_chunks_mut(GROUP), input.par_chunks(GROUP * stride))
        .into_par_iter()
        .for_each(|(choices, active, input)| {
            let mut residual = input.to_vec();
            rule.run(
                weights.size.latents,
                &weights.encoder,
                RowView::new(&weights.decoder, stride),
                &mut residual,
                choices,
            );
            for (active, choices) in active.iter_mut().zip(choices) {
                active.clone_from(choices);
                sum_choices(active);
            }
        });
}

/// Computes the gradient of the directions and returns that of the bias. `slopes` are the derivatives by the
/// reconstructions.
pub(super) fn gradient(
    settings: &TrainingSettings,
    weights: &Weights,
    input: &[f32],
    choices: &[Entries],
    slopes: &[f32],
    into: &mut WeightBuffers,
) -> Vec<f32> {
    let (size, k) = (weights.size, choices.iter().map(Vec::len).max().unwrap_or(0).max(1));
    let stride = size.stride;
    let directions = RowView::new(&weights.decoder, stride);
    let mut bias = vec![0.0; stride];
    into.decoder.fill(0.0);
    into.scalars.fill(0.0);
    let rows = BLOCK.min(choices.len());
    // For every choice: the residual before it, the derivative by the residual after it, and the component of that
    // derivative along the direction. For every row: the derivative by its first residual.
    let mut before = vec![0.0; rows * k * stride];
    let mut after = vec![0.0; rows * k * stride];
    let mut along = vec![0.0; rows * k];
    let mut first = vec![0.0; rows * stride];
    let mut order: Vec<(u32, u32, f32)> = Vec::new();
    for (block, choices) in choices.chunks(BLOCK).enumerate() {
        let from = block * BLOCK;
        (
            choices.par_iter(),
            before.par_chunks_mut(k * stride),
            after.par_chunks_mut(k * stride),
            along.par_chunks_mut(k),
            first.par_chunks_mut(stride),
        )
            .into_par_iter()
            .enumerate()
            .for_each(|(row, (choices, before, after, along, first))| {
                let mut residual = input[(from + row) * stride..][..stride].to_vec();
                for (&(value, latent), before) in choices.iter().zip(before.chunks_exact_mut(stride)) {
                    before.copy_from_slice(&residual);
                    gather(directions, &[latent], &[-value], &mut residual);
                }
                // The residual is the row minus its reconstruction, so its derivative has the opposite sign.
                first
                    .iter_mut()
                    .zip(&slopes[(from + row) * stride..][..stride])
                    .for_each(|(into, slope)| *into = -slope);
                for (choice, &(_, latent)) in choices.iter().enumerate().rev() {
                    after[choice * stride..][..stride].copy_from_slice(first);
                    along[choice] = dot(first, directions.row(latent as usize, stride));
                    gather(directions, &[latent], &[-along[choice]], first);
                }
            });
        first.chunks_exact(stride).take(choices.len()).for_each(|first| add_scaled(-1.0, first, &mut bias));
        order.clear();
        for (row, choices) in choices.iter().enumerate() {
            let entries = choices.iter().enumerate();
            order.extend(entries.map(|(choice, &(value, latent))| (latent, (row * k + choice) as u32, value)));
        }
        order.sort_unstable_by_key(|entry| (entry.0, entry.1));
        let (before, after) = (RowView::new(&before, stride), RowView::new(&after, stride));
        let (along, order) = (&along, &order);
        into.decoder.par_chunks_mut(PANEL * stride).enumerate().for_each(|(panel, rows)| {
            let position = |latent: usize| order.partition_point(|entry| (entry.0 as usize) < latent);
            for &(latent, slot, value) in &order[position(panel * PANEL)..position((panel + 1) * PANEL)] {
                let row = &mut rows[(latent as usize - panel * PANEL) * stride..][..stride];
                gather(after, &[slot], &[-value], row);
                gather(before, &[slot], &[-along[slot as usize]], row);
            }
        });
    }
    let rows = into.decoder.par_chunks_exact_mut(stride).zip(weights.decoder.par_chunks_exact(stride));
    rows.for_each(|(gradient, direction)| {
        project(settings.constraint, direction, dot(direction, direction).sqrt(), gradient);
    });
    bias
}
