//! What stays of the pre-activations. Tiles are sifted while they are in the first-level cache, so that a row of the
//! width of the dictionary never exists.

use std::ops::Range;

use pulp::Arch;

use super::Activation;
use crate::codes::CodesBuilder;
use crate::error::{Complaint, Result};
use crate::kernel::panels::{PANEL, TILE_ROWS, Tile, add_and_compare, exceeding};
use crate::kernel::top::{by_value, keep_largest, usual_floor};

/// The entries of a group of rows, while panels of latents pass in ascending order.
pub(super) struct Sieve<'a> {
    activation: &'a Activation,
    encoder_bias: Vec<f32>,
    /// Per latent, for thresholds: the threshold. For gates: bias of the gate, scale and bias of the magnitude.
    levels: [Vec<f32>; 3],
    rows: Vec<Kept>,
    latents: Vec<u32>,
    values: Vec<f32>,
    scratch: Vec<i32>,
    /// What values must exceed from the start, in units of the length of their row: a guess, which saves time.
    start: f32,
    /// The length of each row, and the smallest value that it kept in the last group.
    lengths: Vec<f32>,
    floors: Vec<f32>,
}

/// What a row keeps for now.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Only larger values are of interest. With top-k it rises to the k-th best so far: a later latent with that very
    /// value would lose the tie.
    above: f32,
    entries: Vec<(f32, u32)>,
}

/// Values of a whole number of panels; the missing ones are 0, so that what they are compared with never fires.
fn padded(values: &[f32]) -> Vec<f32> {
    let mut padded = values.to_vec();
    padded.resize(values.len().next_multiple_of(PANEL), 0.0);
    padded
}

impl<'a> Sieve<'a> {
    /// A sieve for groups of up to `rows` rows, which uses the memory of another again.
    pub fn new(activation: &'a Activation, encoder_bias: &[f32], rows: usize, mut memory: Vec<Kept>) -> Sieve<'a> {
        let levels = match activation {
            Activation::Threshold(thresholds) => [padded(thresholds), Vec::new(), Vec::new()],
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
                [padded(gate_bias), padded(magnitude_scale), padded(magnitude_bias)]
            }
            _ => Default::default(),
        };
        memory.resize_with(memory.len().max(rows), Kept::default);
        let missing = encoder_bias.len();
        let mut encoder_bias = padded(encoder_bias);
        if *activation == Activation::Nearest {
            // The nearest may be below 0, and still above what is not there.
            encoder_bias[missing..].fill(f32::NEG_INFINITY);
        }
        Sieve {
            activation,
            encoder_bias,
            levels,
            rows: memory,
            latents: Vec::new(),
            values: Vec::new(),
            scratch: Vec::new(),
            start: 0.0,
            lengths: Vec::new(),
            floors: Vec::new(),
        }
    }

    /// The memory of a sieve that is empty.
    pub fn into_memory(self) -> Vec<Kept> {
        self.rows
    }

    /// Values of the next rows must exceed this part of the length of their row, if there are enough of them:
    /// [`Sieve::poor`] says where not.
    pub fn start_from(&mut self, part: f32, lengths: impl Iterator<Item = f32>) {
        if let Activation::TopK(_) = self.activation {
            self.start = part;
            self.lengths.clear();
            self.lengths.extend(lengths);
            self.rows.iter_mut().zip(&self.lengths).for_each(|(row, length)| row.above = part * length);
        }
    }

    /// Gives a row what it may keep, all of which is above its start.
    pub fn put(&mut self, row: usize, entries: &[(f32, u32)]) {
        self.rows[row].entries.extend_from_slice(entries);
    }

    /// Those of the first rows that have to be done again without a start.
    pub fn poor(&self, rows: usize) -> Vec<usize> {
        match self.activation {
            Activation::TopK(k) if self.start > 0.0 => {
                (0..rows).filter(|&row| self.rows[row].entries.len() < *k).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Takes what another sieve kept of a row.
    pub fn take_from(&mut self, other: &mut Sieve<'_>, from: usize, to: usize) {
        std::mem::swap(&mut self.rows[to], &mut other.rows[from]);
        other.rows[from] = Kept::default();
    }

    /// Where rows like those of the last group should start, as a part of their length.
    pub fn usual_start(&self) -> f32 {
        usual_floor(self.floors.iter().copied().zip(self.lengths.iter().copied()))
    }

    /// Sifts the product of some rows with one panel.
    pub fn pass(&mut self, tile: &mut Tile, panel: usize, rows: Range<usize>) {
        let first = panel * PANEL;
        let of = |values: &'_ [f32]| -> [f32; PANEL] {
            let mut line = [0.0; PANEL];
            if let Some(values) = values.get(first..first + PANEL) {
                line.copy_from_slice(values);
            }
            line
        };
        let bias = of(&self.encoder_bias);
        let [one, two, three] = [of(&self.levels[0]), of(&self.levels[1]), of(&self.levels[2])];
        let (activation, kept) = (self.activation, &mut self.rows[rows]);
        if let Activation::Relu | Activation::TopK(_) | Activation::Threshold(_) = activation {
            let mut above = [f32::INFINITY; TILE_ROWS];
            above.iter_mut().zip(&*kept).for_each(|(above, row)| *above = row.above);
            // Most rows find nothing in a panel, so that all are asked first. NaN passes: it must be refused, not lost.
            let mut hits = add_and_compare(tile, &bias, &one, &above);
            while hits != 0 {
                let place = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                let (Some(row), Some(line)) = (kept.get_mut(place), tile.as_chunks::<PANEL>().0.get(place)) else {
                    break;
                };
                row.push(line, first, exceeding(line, &one, row.above));
                if let Activation::TopK(k) = activation {
                    row.tighten(*k, &mut self.scratch);
                }
            }
            return;
        }
        // Compiled for the widest instructions there are; the arithmetic is the same with any.
        Arch::new().dispatch(|| {
            for (row, product) in kept.iter_mut().zip(tile.as_chunks::<PANEL>().0) {
                let mut line: [f32; PANEL] = std::array::from_fn(|i| product[i] + bias[i]);
                match activation {
                    Activation::Gated { .. } => {
                        line = std::array::from_fn(|i| {
                            if line[i] + one[i] <= 0.0 { 0.0 } else { line[i] * two[i] + three[i] }
                        });
                        row.push(&line, first, exceeding(&line, &[0.0; PANEL], 0.0));
                    }
                    Activation::Nearest => row.replace(&line, first),
                    // These are drawn or chosen one by one, not sifted.
                    Activation::Random { .. } | Activation::Pursuit(_) => {}
                    _ => {
                        let signs = std::array::from_fn(|i| if line[i] == 0.0 { 0.0 } else { 1.0 });
                        row.push(&line, first, exceeding(&signs, &[0.0; PANEL], 0.0));
                        if let Activation::Largest(k) = activation
                            && row.entries.len() >= 2 * k + PANEL
                        {
                            row.keep_by_size(*k);
                        }
                    }
                }
            }
        });
    }

    /// Hands out the rows, the first of which has a number, and is empty again.
    pub fn empty(&mut self, rows: usize, first_row: usize, out: &mut CodesBuilder) -> Result<()> {
        self.floors.clear();
        for (place, row) in self.rows[..rows].iter_mut().enumerate() {
            if let Activation::TopK(k) = self.activation {
                self.floors.push(keep_largest(&mut row.entries, *k, &mut self.scratch));
            }
            if let Activation::Largest(k) = self.activation {
                row.keep_by_size(*k);
                row.entries.sort_unstable_by_key(|entry| entry.1);
            }
            if let Some((value, latent)) = row.entries.iter().find(|(value, _)| !value.is_finite()) {
                return Err(Complaint::new("the dictionary gives a value that is not finite")
                    .expected("finite numbers")
                    .found(value)
                    .at(format!("row {}, latent {latent}", first_row + place))
                    .advice("look for huge values in that row and in the weights of that latent")
                    .into());
            }
            if *self.activation == Activation::Nearest {
                row.entries.iter_mut().for_each(|entry| entry.0 = 1.0);
            }
            self.latents.clear();
            self.values.clear();
            self.latents.extend(row.entries.iter().map(|entry| entry.1));
            self.values.extend(row.entries.iter().map(|entry| entry.0));
            out.push(&self.latents, &self.values)?;
            row.entries.clear();
            row.above = 0.0;
        }
        Ok(())
    }
}

impl Kept {
    /// Adds the values of a line that a mask names.
    #[inline(always)]
    fn push(&mut self, line: &[f32; PANEL], first: usize, mut mask: u32) {
        while mask != 0 {
            let place = mask.trailing_zeros() as usize;
            self.entries.push((line[place], (first + place) as u32));
            mask &= mask - 1;
        }
    }

    /// Keeps the best value alone. NaN is the best of all, so that it is refused and not lost.
    fn replace(&mut self, line: &[f32; PANEL], first: usize) {
        for (place, &value) in line.iter().enumerate() {
            let best = self.entries.first().map_or(f32::NEG_INFINITY, |entry| entry.0);
            if value > best || (value.is_nan() && !best.is_nan()) {
                self.entries.clear();
                self.entries.push((value, (first + place) as u32));
            }
        }
    }

    /// Keeps the k largest by absolute value, in no order.
    fn keep_by_size(&mut self, k: usize) {
        if self.entries.len() > k {
            let by_size = |a: &(f32, u32), b: &(f32, u32)| by_value(&(a.0.abs(), a.1), &(b.0.abs(), b.1));
            self.entries.select_nth_unstable_by(k - 1, by_size);
            self.entries.truncate(k);
        }
    }

    /// Drops what cannot be among the k best any more, every k entries or so.
    fn tighten(&mut self, k: usize, scratch: &mut Vec<i32>) {
        if self.entries.len() >= 2 * k + PANEL {
            self.above = keep_largest(&mut self.entries, k, scratch);
        }
    }
}
