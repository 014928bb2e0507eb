//! The forward pass after selection: sparse reconstructions, their errors, and the derivatives of the loss by them.

use std::ops::Range;

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
                let rows = chunk * CHUNK..chunk * CHUNK + measured.len();
                let mut scratch = Scratch::new(rows.len(), &self.weights.bias);
                self.decode(rows.clone(), (slopes, squares, counts), &mut scratch);
                for (index, row) in rows.clone().enumerate() {
                    measured[index] = self.objective.measure(Row {
                        entries: &self.active[row],
                        scalars: &self.weights.scalars,
                        norms: self.norms,
                    });
                    add_scaled(1.0, &slopes[index * groups * stride..][..stride], sums);
                }
                if rules.gates {
                    self.decode_gates(rows, gates, gate_squares, &mut scratch);
                }
            });
    }

    /// Computes the nested reconstructions of some rows, their errors, the number of their nonzero codes, and the
    /// derivative by the contribution of each group, which is part of its own reconstruction and of all later ones.
    fn decode(
        &self,
        rows: Range<usize>,
        (slopes, squares, counts): (&mut [f32], &mut [f64], &mut [u32]),
        scratch: &mut Scratch,
    ) {
        let (size, rules) = (self.weights.size, self.objective.rules());
        let groups = rules.groups.len();
        counts.fill(0);
        let mut start = 0;
        for (group, &end) in rules.groups.iter().enumerate() {
            scratch.lists.clear();
            for (row, count) in rows.clone().zip(&mut *counts) {
                let entries = &self.active[row];
                let [first, last] = [start, end].map(|end| entries.partition_point(|entry| (entry.1 as usize) < end));
                for &(value, latent) in &entries[first..last] {
                    let scalars = &self.weights.scalars[latent as usize * size.scalars..][..size.scalars];
                    let code = self.objective.code(scalars, value);
                    if code != 0.0 {
                        scratch.lists.push(latent, code);
                        *count += 1;
                    }
                }
                scratch.lists.end();
            }
            start = end;
            self.add_directions(scratch);
            let scale = self.scale * rules.group_weights[group];
            for (index, (row, decoded)) in rows.clone().zip(scratch.decoded.chunks_exact(size.stride)).enumerate() {
                let target = &self.rows[row * size.stride..][..size.stride];
                let into = &mut slopes[(index * groups + group) * size.stride..][..size.stride];
                squares[index * groups + group] = f64::from(difference(decoded, target, scale, into));
            }
        }
        for slopes in slopes.chunks_exact_mut(groups * size.stride) {
            for group in (1..groups).rev() {
                let (before, after) = slopes.split_at_mut(group * size.stride);
                add_scaled(1.0, &after[..size.stride], &mut before[(group - 1) * size.stride..]);
            }
        }
    }

    /// Decodes the gates of some rows, and computes their squared errors.
    fn decode_gates(&self, rows: Range<usize>, slopes: &mut [f32], squares: &mut [f64], scratch: &mut Scratch) {
        let stride = self.weights.size.stride;
        scratch.decoded.chunks_exact_mut(stride).for_each(|row| row.copy_from_slice(&self.weights.bias));
        scratch.lists.clear();
        for row in rows.clone() {
            self.active[row].iter().for_each(|&(value, latent)| scratch.lists.push(latent, value));
            scratch.lists.end();
        }
        self.add_directions(scratch);
        let decoded = scratch.decoded.chunks_exact(stride);
        for (((row, decoded), into), square) in rows.zip(decoded).zip(slopes.chunks_exact_mut(stride)).zip(squares) {
            let target = &self.rows[row * stride..][..stride];
            *square = f64::from(difference(decoded, target, self.scale, into));
        }
    }

    /// Adds codes times directions to the decoded rows. With many codes, all rows use a block of directions while it is
    /// in the cache; each row still adds its directions in the order of latents.
    fn add_directions(&self, Scratch { lists, decoded }: &mut Scratch) {
        let size = self.weights.size;
        let decoder = RowView::new(&self.weights.decoder, size.stride);
        let rows = lists.ends.len();
        let block = if lists.ids.len() >= rows * (size.latents / BLOCK) * DENSE { BLOCK } else { size.latents };
        let mut positions: Vec<usize> = (0..rows).map(|row| lists.start(row)).collect();
        for end in (block..).step_by(block) {
            let lists_of_rows = positions.iter_mut().zip(&lists.ends);
            for ((from, &last), decoded) in lists_of_rows.zip(decoded.chunks_exact_mut(size.stride)) {
                let to = *from + lists.ids[*from..last].partition_point(|&latent| (latent as usize) < end);
                gather(decoder, &lists.ids[*from..to], &lists.codes[*from..to], decoded);
                *from = to;
            }
            if end >= size.latents {
                break;
            }
        }
    }
}

/// Directions that all rows of a chunk use before the next ones: they fit in the second-level cache.
const BLOCK: usize = 128;

/// Blocks are used if rows have on average at least this many codes in each.
const DENSE: usize = 8;

struct Scratch {
    /// The reconstructions of the rows of a chunk.
    decoded: Aligned,
    lists: Lists,
}

/// Latents and codes of several rows, one after the other.
#[derive(Default)]
struct Lists {
    ids: Vec<u32>,
    codes: Vec<f32>,
    ends: Vec<usize>,
}

impl Lists {
    fn clear(&mut self) {
        self.ids.clear();
        self.codes.clear();
        self.ends.clear();
    }

    fn push(&mut self, latent: u32, code: f32) {
        self.ids.push(latent);
        self.codes.push(code);
    }

    /// Ends the list of a row.
    fn end(&mut self) {
        self.ends.push(self.ids.len());
    }

    fn start(&self, row: usize) -> usize {
        if row == 0 { 0 } else { self.ends[row - 1] }
    }
}

impl Scratch {
    /// Rows that start at the bias.
    fn new(rows: usize, bias: &[f32]) -> Scratch {
        let mut decoded = Aligned::zeros(rows * bias.len());
        decoded.chunks_exact_mut(bias.len()).for_each(|row| row.copy_from_slice(bias));
        Scratch { decoded, lists: Lists::default() }
    }
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
