//! Compares the values of pairs of rows with the floors of both.

use pulp::{Simd, WithSimd};

use super::block::Bounds;
use crate::packed::{BITS, PANEL};

/// A value that may be among the largest of a row: the row within its block, and the candidate.
pub(super) type Proposal = (u32, Candidate);

/// Another row, and what its value probably and certainly is.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    /// The value is probably not below this.
    pub likely: f32,
    /// It is certainly not above this.
    pub most: f32,
    pub row: u32,
}

/// Dot products of a block of rows with the columns of a panel.
pub(super) enum Dots<'a> {
    /// Sums of products of integers, row by row.
    Sums(&'a [[i32; PANEL]]),
    /// Products, the given number per row, of which the panel has those from a first one on.
    Products(&'a [f32], usize),
}

/// Proposes pairs whose value may reach the floor of the row or of the column.
pub(super) struct Scan<'a> {
    pub dots: Dots<'a>,
    pub rows: &'a Bounds,
    /// The floors of the rows that are compared.
    pub row_floors: &'a [f32],
    pub columns: &'a Bounds,
    pub column_floors: &'a [f32],
    pub panel: usize,
    /// The part of the bound of an error by which values are probably not below their estimate.
    pub share: f32,
    /// The indices of the first row and the first column of their blocks.
    pub first: (u32, u32),
    /// Proposals for rows.
    pub left: &'a mut Vec<Proposal>,
    /// Proposals for columns.
    pub right: &'a mut Vec<Proposal>,
}

/// What bounds the columns of a panel.
#[derive(Clone, Copy)]
struct Columns {
    units: [f32; PANEL],
    lengths: [f32; PANEL],
    lost: [f32; PANEL],
    offsets: [f32; PANEL],
    floors: [f32; PANEL],
}

impl WithSimd for Scan<'_> {
    type Output = ();

    /// Compiled for the widest instructions available; the arithmetic is the same for all.
    #[inline(always)]
    fn with_simd<S: Simd>(self, _: S) {
        let of = |values: &[f32]| values.as_chunks::<PANEL>().0[self.panel];
        let columns = Columns {
            units: of(&self.columns.units),
            lengths: of(&self.columns.lengths),
            lost: of(&self.columns.lost),
            offsets: of(&self.columns.offsets),
            floors: of(self.column_floors),
        };
        let first = (self.panel * PANEL) as u32;
        for (row, &floor) in self.row_floors.iter().enumerate() {
            let mut values = [0.0f32; PANEL];
            let unit = self.rows.units[row];
            match &self.dots {
                Dots::Sums(sums) => {
                    for c in 0..PANEL {
                        values[c] = sums[row][c] as f32 * unit * columns.units[c];
                    }
                }
                Dots::Products(products, pitch) => {
                    let products = &products[row * pitch..][..*pitch];
                    let products = &products[self.panel * PANEL..];
                    values.iter_mut().zip(products).for_each(|(value, product)| *value = *product);
                }
            }
            let (lost, grown) = (self.rows.lost[row], self.rows.lengths[row] + self.rows.lost[row]);
            let offset = self.rows.offsets[row];
            let (mut errors, mut mask) = ([0.0f32; PANEL], 0);
            for c in 0..PANEL {
                values[c] += offset + columns.offsets[c];
                errors[c] = lost * columns.lengths[c] + grown * columns.lost[c];
                // Without branches, because a value is rarely large enough.
                mask |= if values[c] + errors[c] >= floor.min(columns.floors[c]) { BITS[c] } else { 0 };
            }
            while mask != 0 {
                let c = mask.trailing_zeros() as usize;
                mask &= mask - 1;
                let (most, likely) = (values[c] + errors[c], values[c] - self.share * errors[c]);
                let column = first + c as u32;
                if most >= floor {
                    self.left.push((row as u32, Candidate { likely, most, row: self.first.1 + column }));
                }
                if most >= columns.floors[c] {
                    self.right.push((column, Candidate { likely, most, row: self.first.0 + row as u32 }));
                }
            }
        }
    }
}
