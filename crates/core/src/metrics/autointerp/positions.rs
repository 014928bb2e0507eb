//! Positions of tokens: which of them can be the centre of a window, and the values of a latent there.

use std::ops::Range;

use half::bf16;

use crate::codes::{Columns, Latent};
use crate::run::TokenTexts;

/// The sequences, and the positions that can be centres of windows.
pub(super) struct Layout {
    buffer: usize,
    /// The first position of every sequence, and the end of the last.
    starts: Vec<usize>,
    /// The number of centres before every sequence, and in all of them.
    before: Vec<usize>,
}

impl Layout {
    /// Sequences with windows of `buffer` tokens on each side of the centre.
    pub fn new(lengths: impl Iterator<Item = usize>, buffer: usize) -> Layout {
        let (mut starts, mut before) = (vec![0], vec![0]);
        for (sequence, length) in lengths.enumerate() {
            starts.push(starts[sequence] + length);
            before.push(before[sequence] + length.saturating_sub(2 * buffer));
        }
        Layout { buffer, starts, before }
    }

    /// The sequences of some tokens.
    pub fn of(tokens: &TokenTexts, buffer: usize) -> Layout {
        Layout::new((0..tokens.sequences()).map(|sequence| tokens.sequence(sequence).len()), buffer)
    }

    /// The sequence of a position.
    pub fn sequence_of(&self, position: u32) -> usize {
        self.starts.partition_point(|start| *start <= position as usize) - 1
    }

    /// Number of centres.
    pub fn centres(&self) -> usize {
        self.before.last().copied().unwrap_or(0)
    }

    /// A centre by its number.
    pub fn nth_centre(&self, number: usize) -> usize {
        let sequence = self.before.partition_point(|before| *before <= number) - 1;
        self.starts[sequence] + self.buffer + number - self.before[sequence]
    }

    /// All centres, ascending.
    pub fn all_centres(&self) -> impl Iterator<Item = u32> {
        (0..self.centres()).map(|number| self.nth_centre(number) as u32)
    }

    /// Whether the window around a position is inside its sequence.
    pub fn is_centre(&self, position: u32) -> bool {
        let sequence = self.sequence_of(position);
        let (start, end) = (self.starts[sequence], self.starts[sequence + 1]);
        let position = position as usize;
        position >= start + self.buffer && position + self.buffer < end
    }

    /// The positions of a window.
    pub fn window(&self, centre: u32, buffer: usize) -> Range<u32> {
        centre.saturating_sub(buffer as u32)..centre + buffer as u32 + 1
    }
}

/// The positive values of a latent, by position.
pub(super) struct LatentValues {
    positions: Vec<u32>,
    values: Vec<f32>,
}

impl LatentValues {
    /// The values of a latent. Those that are not positive count as 0; `rounded` rounds the others to bfloat16.
    pub fn of(columns: &Columns, latent: usize, tokens: &TokenTexts, rounded: bool) -> LatentValues {
        let (rows, values) = columns.latent(Latent(latent as u32));
        let number = |value: f32| if rounded { bf16::from_f32(value).to_f32() } else { value };
        let positive = rows.iter().zip(values).filter(|(_, value)| **value > 0.0);
        let (positions, values) =
            positive.filter_map(|(row, value)| Some((tokens.position_of(*row as usize)?, number(*value)))).unzip();
        LatentValues { positions, values }
    }

    /// Values and positions, ascending by position.
    pub fn iter(&self) -> impl Iterator<Item = (f32, u32)> + '_ {
        self.values.iter().copied().zip(self.positions.iter().copied())
    }

    /// Number of positive values.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// The value at a position.
    pub fn at(&self, position: u32) -> f32 {
        self.positions.binary_search(&position).map_or(0.0, |index| self.values[index])
    }
}

impl LatentValues {
    /// Whether the latent is active at a position.
    pub fn is_active(&self, position: u32, threshold: f64) -> bool {
        f64::from(self.at(position)) > threshold
    }
}

#[cfg(test)]
impl LatentValues {
    /// From the values of all positions.
    pub fn from_dense(values: &[f32]) -> LatentValues {
        let positive = values.iter().enumerate().filter(|(_, value)| **value > 0.0);
        let (positions, values) = positive.map(|(position, value)| (position as u32, *value)).unzip();
        LatentValues { positions, values }
    }
}
