//! The forward pass after selection: sparse reconstructions, their errors, and the derivatives of the loss by them.

use rayon::prelude::*;

use super::objective::{Objective, Row};
use super::weights::Weights;
use crate::sae::selector::Entries;
use etalon_kernel::aligned::Aligned;
use etalon_kernel::vector::{RowView, add_scaled, difference, gather};

/// Rows per partial sum: fixed, so that sums do not depend on the number of threads.
const CHUNK: usize = 32;

/// The errors of a batch, and what the backward pass needs.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// The derivative of the loss by the contribution of each group to the reconstruction: rows × groups × stride.
    pub slopes: Aligned,
    /// The derivative of the loss by the decoded gates: rows × stride; empty without gates.
    pub gate_slopes: Vec<f32>,
    /// The results of [`Objective::measure`], by row.
    pub measured: Vec<[f64; 2]>,
    /// Squared errors, rows × groups.
    squares: Vec<f64>,
    /// Squared errors of the decoded gates, by row.
    gate_squares: Vec<f64>,
    /// Nonzero codes, by row.
    counts: Vec<u32>,
    /// Sums over chunks of rows of the derivative by the whole reconstruction.
    sums: Vec<f32>,
}

/// One batch after selection.
pub(super) struct Forward<'a> {
    pub weights: &'a Weights,
    pub objective: &'a dyn Objective,
    /// The rows to reconstruct, padded.
    pub rows: &'a [f32],
    /// The kept pre-activations of each row.
    pub active: &'a [Entries],
    /// The norms of decoder directions, if the objective needs them.
    pub norms: &'a [f32],
    /// The derivative of the mean squared error by an error, without the group's weight.
    pub scale: f32,
}

impl Forward<'_> {
    /// Decodes every row and computes its errors.
    pub fn run(&self, out: &mut Errors) {
        let (stride, count) = (self.weights.size.stride, self.active.len());
        let rules = self.objective.rules();
        let groups = rules.groups.len();
        if out.slopes.len() != count * groups * stride {
            out.slopes.reset(count * groups * stride);
        }
        out.gate_slopes.resize(if rules.gates { count * stride } else { 0 }, 0.0);
        out.measured.resize(count, [0.0; 2]);
        out.squares.resize(count * groups, 0.0);
        out.gate_squares.resize(count, 0.0);
        out.counts.resize(count, 0);
        out.sums.clear();
        out.sums.resize(count.div_ceil(CHUNK) * stride, 0.0);
        // Without gates, every chunk gets an empty slice.
        let gates: Vec<&mut [f32]> = if rules.gates {
            out.gate_slopes.chunks_mut(CHUNK * stride).collect()
        } else {
            (0..count.div_ceil(CHUNK)).map(|_| &mut [][..]).collect()
        };
        (
            out.slopes.par_chunks_mut(CHUNK * groups * stride),
            gates,
            out.measured.par_chunks_mut(CHUNK),
            out.squares.par_chunks_mut(CHUNK * groups),
            out.gate_squares.par_chunks_mut(CHUNK),
            out.counts.par_chunks_mut(CHUNK),
            out.sums.par_chunks_mut(stride),
        )
            .into_par_iter()
            .enumerate()
            .for_each(|(chunk, (slopes, gates, measured, squares, gate_squares, counts, sums))| {
                let mut scratch = Scratch { decoded: Aligned::zeros(stride), ids: Vec::new(), codes: Vec::new() };
                for index in 0..measured.len() {
                    let row = chunk * CHUNK + index;
                    let slopes = &mut slopes[index * groups * stride..][..groups * stride];
                    let squares = &mut squares[index * groups..][..groups];
                    counts[index] = self.decode(row, slopes, squares, &mut scratch);
                    measured[index] = self.objective.measure(Row {
                        entries: &self.active[row],
                        scalars: &self.weights.scalars,
                        norms: self.norms,
                    });
                    if rules.gates {
                        gate_squares[index] =
                            self.decode_gates(row, &mut gates[index * stride..][..stride], &mut scratch);
                    }
                    add_scaled(1.0, &slopes[..stride], sums);
                }
            });
    }

    /// Computes the nested reconstructions of a row, their errors, and the derivative by the contribution of each
    /// group, which is part of its own reconstruction and of all later ones. Returns the number of nonzero codes.
    fn decode(&self, row: usize, slopes: &mut [f32], squares: &mut [f64], scratch: &mut Scratch) -> u32 {
        let (size, rules) = (self.weights.size, self.objective.rules());
        let target = &self.rows[row * size.stride..][..size.stride];
        scratch.decoded.copy_from_slice(&self.weights.bias);
        let (mut entries, mut count) = (&self.active[row][..], 0);
        for (group, &end) in rules.groups.iter().enumerate() {
            let group_entries = entries.partition_point(|entry| (entry.1 as usize) < end);
            scratch.ids.clear();
            scratch.codes.clear();
            for &(value, latent) in &entries[..group_entries] {
                let scalars = &self.weights.scalars[latent as usize * size.scalars..][..size.scalars];
                let code = self.objective.code(scalars, value);
                if code != 0.0 {
                    scratch.ids.push(latent);
                    scratch.codes.push(code);
                }
            }
            entries = &entries[group_entries..];
            count += scratch.ids.len() as u32;
            let decoder = RowView::new(&self.weights.decoder, size.stride);
            gather(decoder, &scratch.ids, &scratch.codes, &mut scratch.decoded);
            let scale = self.scale * rules.group_weights[group];
            let into = &mut slopes[group * size.stride..][..size.stride];
            squares[group] = f64::from(difference(&scratch.decoded, target, scale, into));
        }
        for group in (1..rules.groups.len()).rev() {
            let (before, after) = slopes.split_at_mut(group * size.stride);
            add_scaled(1.0, &after[..size.stride], &mut before[(group - 1) * size.stride..]);
        }
        count
    }

    /// Decodes the gates of a row; returns the squared error.
    fn decode_gates(&self, row: usize, slopes: &mut [f32], scratch: &mut Scratch) -> f64 {
        let stride = self.weights.size.stride;
        scratch.decoded.copy_from_slice(&self.weights.bias);
        scratch.ids.clear();
        scratch.codes.clear();
        scratch.ids.extend(self.active[row].iter().map(|entry| entry.1));
        scratch.codes.extend(self.active[row].iter().map(|entry| entry.0));
        gather(RowView::new(&self.weights.decoder, stride), &scratch.ids, &scratch.codes, &mut scratch.decoded);
        let target = &self.rows[row * stride..][..stride];
        f64::from(difference(&scratch.decoded, target, self.scale, slopes))
    }
}

struct Scratch {
    decoded: Aligned,
    ids: Vec<u32>,
    codes: Vec<f32>,
}

impl Errors {
    /// The mean squared error of each nested reconstruction.
    pub fn squared(&self, groups: usize) -> Vec<f64> {
        let rows = self.measured.len().max(1) as f64;
        (0..groups).map(|group| self.squares.iter().skip(group).step_by(groups).sum::<f64>() / rows).collect()
    }

    /// Adds derivatives by the whole reconstruction, rows × stride, to those of every group and of the bias.
    pub fn add_to_slopes(&mut self, more: &[f32], stride: usize) {
        let groups = self.slopes.len() / more.len().max(1);
        for (row, more) in more.chunks_exact(stride).enumerate() {
            for group in 0..groups {
                add_scaled(1.0, more, &mut self.slopes[(row * groups + group) * stride..][..stride]);
            }
            add_scaled(1.0, more, &mut self.sums[row / CHUNK * stride..][..stride]);
        }
    }

    /// The squared error of the last reconstruction of a row.
    pub fn of_row(&self, row: usize, groups: usize) -> f64 {
        self.squares[row * groups + groups - 1]
    }

    /// The mean norm of the errors of the last reconstruction.
    pub fn mean_norm(&self, groups: usize) -> f64 {
        let rows = self.measured.len();
        (0..rows).map(|row| self.of_row(row, groups).sqrt()).sum::<f64>() / rows.max(1) as f64
    }

    /// The mean squared error of the decoded gates.
    pub fn gate_squared(&self) -> f64 {
        self.gate_squares.iter().sum::<f64>() / self.gate_squares.len().max(1) as f64
    }

    /// Active latents per row.
    pub fn l0(&self) -> f64 {
        self.counts.iter().map(|&count| f64::from(count)).sum::<f64>() / self.counts.len().max(1) as f64
    }

    /// The sum over rows of the derivative by the reconstruction.
    pub fn bias_gradient(&self, stride: usize) -> Vec<f32> {
        let mut sum = vec![0.0; stride];
        self.sums.chunks_exact(stride).for_each(|part| add_scaled(1.0, part, &mut sum));
        sum
    }
}
