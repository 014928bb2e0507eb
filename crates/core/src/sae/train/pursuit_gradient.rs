//! Training through a matching pursuit: the choices of a batch, and the gradient that goes back through all of them.
//!
//! With `r_0 = x − b`, `z_t = D_i·r_t`, `r_{t+1} = r_t − z_t D_i` and `g_t` the derivative of the loss by `r_t`:
//! `g_t = g_{t+1} − (g_{t+1}·D_i) D_i`, and `D_i` gets `−z_t g_{t+1} − (g_{t+1}·D_i) r_t`.

use rayon::prelude::*;

use super::backward::project;
use super::settings::TrainingSettings;
use super::weights::{Shaped, Weights};
use crate::sae::matching_pursuit::{GROUP, MatchingPursuit};
use crate::sae::selector::Entries;
use etalon_kernel::matching_pursuit::sum_choices;
use etalon_kernel::packed::PANEL;
use etalon_kernel::vector::{RowView, add_scaled, dot, gather};

/// Rows whose remainders of all choices are in memory together: fixed, so that sums do not depend on threads.
const BLOCK: usize = 128;

/// Bytes beside the matrices of latents × width.
pub(super) fn memory(settings: &TrainingSettings) -> u64 {
    let (rows, row) = (BLOCK.min(settings.batch) as u64, (settings.width as u64 + 16).saturating_mul(4));
    let choices = (settings.batch as u64).saturating_mul(settings.k as u64).saturating_mul(16);
    rows.saturating_mul(settings.k as u64).saturating_mul(2).saturating_mul(row).saturating_add(choices)
}

/// The choices of every row, in their order and summed by latent.
pub(super) fn choose(
    rule: MatchingPursuit,
    weights: &Weights,
    input: &[f32],
    choices: &mut Vec<Entries>,
    picks: &mut [Entries],
) {
    let stride = weights.size.stride;
    choices.resize(picks.len(), Entries::new());
    (choices.par_chunks_mut(GROUP), picks.par_chunks_mut(GROUP), input.par_chunks(GROUP * stride))
        .into_par_iter()
        .for_each(|(choices, picks, input)| {
            let mut left = input.to_vec();
            rule.run(
                weights.size.latents,
                &weights.encoder,
                RowView::new(&weights.decoder, stride),
                &mut left,
                choices,
            );
            for (picks, choices) in picks.iter_mut().zip(choices) {
                picks.clone_from(choices);
                sum_choices(picks);
            }
        });
}

/// The gradient of the directions; returns that of the bias. `slopes` are the derivatives by the reconstructions.
pub(super) fn gradient(
    settings: &TrainingSettings,
    weights: &Weights,
    input: &[f32],
    choices: &[Entries],
    slopes: &[f32],
    into: &mut Shaped,
) -> Vec<f32> {
    let (size, k) = (weights.size, choices.iter().map(Vec::len).max().unwrap_or(0).max(1));
    let stride = size.stride;
    let directions = RowView::new(&weights.decoder, stride);
    let mut bias = vec![0.0; stride];
    into.decoder.fill(0.0);
    into.scalars.fill(0.0);
    // What was left before a choice, the derivative by what was left after it, and its part along the direction.
    let rows = BLOCK.min(choices.len());
    let mut left = vec![0.0; rows * k * stride];
    let mut after = vec![0.0; rows * k * stride];
    let mut along = vec![0.0; rows * k];
    let mut first = vec![0.0; rows * stride];
    let mut order: Vec<(u32, u32, f32)> = Vec::new();
    for (block, choices) in choices.chunks(BLOCK).enumerate() {
        let from = block * BLOCK;
        (
            choices.par_iter(),
            left.par_chunks_mut(k * stride),
            after.par_chunks_mut(k * stride),
            along.par_chunks_mut(k),
            first.par_chunks_mut(stride),
        )
            .into_par_iter()
            .enumerate()
            .for_each(|(row, (choices, left, after, along, first))| {
                let mut remains = input[(from + row) * stride..][..stride].to_vec();
                for (&(value, latent), left) in choices.iter().zip(left.chunks_exact_mut(stride)) {
                    left.copy_from_slice(&remains);
                    gather(directions, &[latent], &[-value], &mut remains);
                }
                // What remains is the row minus its reconstruction: its derivative has the other sign.
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
        let (left, after, along, order) = (RowView::new(&left, stride), RowView::new(&after, stride), &along, &order);
        into.decoder.par_chunks_mut(PANEL * stride).enumerate().for_each(|(panel, rows)| {
            let position = |latent: usize| order.partition_point(|entry| (entry.0 as usize) < latent);
            for &(latent, slot, value) in &order[position(panel * PANEL)..position((panel + 1) * PANEL)] {
                let row = &mut rows[(latent as usize - panel * PANEL) * stride..][..stride];
                gather(after, &[slot], &[-value], row);
                gather(left, &[slot], &[-along[slot as usize]], row);
            }
        });
    }
    let rows = into.decoder.par_chunks_exact_mut(stride).zip(weights.decoder.par_chunks_exact(stride));
    rows.for_each(|(gradient, direction)| {
        project(settings.constraint, direction, dot(direction, direction).sqrt(), gradient);
    });
    bias
}
