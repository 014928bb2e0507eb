//! Activations applied to a tile of products while it is in the first-level cache. The arithmetic is the same for all
//! instruction sets.

use super::packed::{PANEL, Tile};
use super::vectorised::vectorised;

/// Adds a panel's biases to every row of a tile.
pub fn add_bias(tile: &mut Tile, bias: &[f32; PANEL]) {
    vectorised(
        #[inline(always)]
        || {
            for line in tile.as_chunks_mut::<PANEL>().0 {
                line.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
            }
        },
    );
}

/// Gate parameters of a panel, one per column.
#[derive(Clone, Copy, Debug)]
pub struct Gates<'a> {
    /// Added to the products.
    pub bias: &'a [f32; PANEL],
    /// Added after the bias to decide whether a gate is open.
    pub gate_bias: &'a [f32; PANEL],
    /// Multiplies values that pass an open gate.
    pub scale: &'a [f32; PANEL],
    /// Added after the scale.
    pub magnitude_bias: &'a [f32; PANEL],
}

impl Gates<'_> {
    /// Turns products into magnitudes; values at a closed gate become 0.
    pub fn apply(&self, tile: &mut Tile) {
        let Gates { bias, gate_bias, scale, magnitude_bias } = *self;
        vectorised(
            #[inline(always)]
            || {
                for line in tile.as_chunks_mut::<PANEL>().0 {
                    *line = std::array::from_fn(|i| {
                        let value = line[i] + bias[i];
                        if value + gate_bias[i] <= 0.0 { 0.0 } else { value * scale[i] + magnitude_bias[i] }
                    });
                }
            },
        );
    }
}

/// A bit mask of the values of a line that are not 0; NaN counts as not 0.
pub fn nonzero(line: &[f32; PANEL]) -> u32 {
    vectorised(
        #[inline(always)]
        || {
            let mut mask = 0;
            for (bit, value) in line.iter().enumerate() {
                mask |= u32::from(*value != 0.0) << bit;
            }
            mask
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packed::TILE_ROWS;

    #[test]
    fn biases_gates_and_masks() {
        let mut tile = [0.0; TILE_ROWS * PANEL];
        (tile[0], tile[1], tile[PANEL + 2]) = (2.0, -1.0, f32::NAN);
        add_bias(&mut tile, &[1.0; PANEL]);
        assert_eq!((tile[0], tile[1], tile[2 * PANEL]), (3.0, 0.0, 1.0));
        let line = |row: usize, tile: &Tile| tile.as_chunks::<PANEL>().0[row];
        assert_eq!(nonzero(&line(0, &tile)), !0b10);
        assert_eq!(nonzero(&line(1, &tile)), !0);
        // 3 − 1 opens the gate: 3 · 2 + 0.5. 0 − 1 and 1 − 1 do not.
        let gates = Gates {
            bias: &[0.0; PANEL],
            gate_bias: &[-1.0; PANEL],
            scale: &[2.0; PANEL],
            magnitude_bias: &[0.5; PANEL],
        };
        gates.apply(&mut tile);
        assert_eq!((tile[0], tile[1], tile[2]), (6.5, 0.0, 0.0));
        assert!(tile[PANEL + 2].is_nan());
    }
}
