//! Matching pursuit: repeatedly selects the vector with the largest product with the residual of a row.

use super::packed::{PANEL, Panels, TILE_ROWS, Tile};
use super::vector::RowView;
use super::vectorised::vectorised;

/// Parameters of a matching pursuit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchingPursuit {
    /// Selections per row.
    pub k: usize,
    /// Select the largest product instead of the largest absolute value.
    pub signed: bool,
}

impl MatchingPursuit {
    /// Writes the choices of each row in order: product and column. `rows` must be padded to whole tiles and is replaced
    /// by the residuals. The pursuit of a row ends early when the best product is 0. A row's choices do not depend on
    /// other rows: every product is one chain of fused operations, and ties go to the lower column.
    pub fn run(
        self,
        columns: usize,
        encoder: &Panels,
        directions: RowView<'_>,
        rows: &mut [f32],
        choices: &mut [Vec<(f32, u32)>],
    ) {
        let width = directions.pitch;
        let tiles = choices.len().div_ceil(TILE_ROWS);
        let mut best = vec![Best::default(); choices.len()];
        let mut tile: Tile = [0.0; TILE_ROWS * PANEL];
        choices.iter_mut().for_each(Vec::clear);
        for _ in 0..self.k {
            best.fill(Best::default());
            for panel in 0..encoder.panels() {
                let count = PANEL.min(columns.saturating_sub(panel * PANEL));
                for (rows, best) in rows.chunks_exact(TILE_ROWS * width).take(tiles).zip(best.chunks_mut(TILE_ROWS)) {
                    encoder.product(rows, panel, &mut tile);
                    // Compiled for the widest instructions available; the arithmetic is the same for all.
                    vectorised(
                        #[inline(always)]
                        || {
                            for (line, best) in tile.chunks_exact(PANEL).zip(best.iter_mut()) {
                                best.compare(&line[..count], panel, self.signed);
                            }
                        },
                    );
                }
            }
            let mut any = false;
            for ((row, best), choices) in rows.chunks_exact_mut(width).zip(&best).zip(choices.iter_mut()) {
                if best.product == 0.0 {
                    continue;
                }
                any = true;
                choices.push((best.product, best.column));
                let (weight, direction) = (-best.product, directions.row(best.column as usize, width));
                vectorised(
                    #[inline(always)]
                    || {
                        row.iter_mut().zip(direction).for_each(|(left, part)| *left = weight.mul_add(*part, *left));
                    },
                );
            }
            if !any {
                break;
            }
        }
    }
}

/// Merges the choices of a row: columns ascend, and products of a repeated column are summed.
pub fn sum_choices(choices: &mut Vec<(f32, u32)>) {
    // Stable, so that sums are formed in the order of the choices.
    choices.sort_by_key(|entry| entry.1);
    choices.dedup_by(|later, kept| {
        let same = later.1 == kept.1;
        if same {
            kept.0 += later.0;
        }
        same
    });
}

/// The best product of a row so far.
#[derive(Clone, Copy, Debug)]
struct Best {
    size: f32,
    product: f32,
    column: u32,
}

impl Default for Best {
    fn default() -> Best {
        Best { size: f32::NEG_INFINITY, product: 0.0, column: 0 }
    }
}

impl Best {
    #[inline(always)]
    fn compare(&mut self, line: &[f32], panel: usize, signed: bool) {
        let size = |product: f32| if signed { product } else { product.abs() };
        let largest = line.iter().fold(f32::NEG_INFINITY, |largest, &product| largest.max(size(product)));
        if largest > self.size {
            let position = line.iter().position(|&product| size(product) == largest).unwrap_or(0);
            *self = Best { size: largest, product: line[position], column: (panel * PANEL + position) as u32 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Directions (1, 0), (0, 1) and (0.6, 0.8), padded to a tile of rows.
    fn pursue(pursuit: MatchingPursuit, row: [f32; 2]) -> (Vec<(f32, u32)>, [f32; 2]) {
        let directions = [1.0, 0.0, 0.0, 1.0, 0.6, 0.8];
        let mut rows = vec![0.0; TILE_ROWS * 2];
        rows[..2].copy_from_slice(&row);
        let mut choices = vec![Vec::new(); 1];
        pursuit.run(3, &Panels::pack(&directions, 2), RowView::new(&directions, 2), &mut rows, &mut choices);
        (choices.remove(0), [rows[0], rows[1]])
    }

    #[test]
    fn small_examples() {
        let pursuit = MatchingPursuit { k: 2, signed: false };
        // Products (3, −4, −1.4): the second has the largest size. The residual (3, 0) gives (3, 0, 1.8).
        assert_eq!(pursue(pursuit, [3.0, -4.0]), (vec![(-4.0, 1), (3.0, 0)], [0.0, 0.0]));
        // The residual is 0 after one choice, so there is no second.
        assert_eq!(pursue(pursuit, [3.0, 0.0]).0, [(3.0, 0)]);
        assert!(pursue(pursuit, [0.0, 0.0]).0.is_empty());
        // Signed: products (3, −4, −1.4), then (0, −4, −3.2), whose largest is 0, so the pursuit ends.
        assert_eq!(pursue(MatchingPursuit { signed: true, ..pursuit }, [3.0, -4.0]), (vec![(3.0, 0)], [0.0, -4.0]));
        // All products negative: (−1, −2, −2.2); the largest is taken with its sign.
        assert_eq!(pursue(MatchingPursuit { k: 1, signed: true }, [-1.0, -2.0]), (vec![(-1.0, 0)], [0.0, -2.0]));
    }

    #[test]
    fn repeated_columns_are_summed() {
        let mut choices = vec![(2.0, 5), (1.0, 1), (-0.5, 5)];
        sum_choices(&mut choices);
        assert_eq!(choices, [(1.0, 1), (1.5, 5)]);
    }
}
