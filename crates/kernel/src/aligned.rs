//! Numbers that begin at a cache line, so that no vector of sixteen lies across two lines.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

/// Numbers in a line.
const LINE: usize = 16;

/// One cache line.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// A list of numbers that begins at a cache line and is read and written as a slice.
#[derive(Clone, Debug, Default)]
pub struct Aligned {
    lines: Vec<Line>,
    length: usize,
}

impl Aligned {
    /// As many zeros.
    pub fn zeros(length: usize) -> Aligned {
        Aligned { lines: vec![Line([0.0; LINE]); length.div_ceil(LINE)], length }
    }

    /// Another length: memory is used again if it suffices, and everything is zero.
    pub fn reset(&mut self, length: usize) {
        self.lines.clear();
        self.lines.resize(length.div_ceil(LINE), Line([0.0; LINE]));
        self.length = length;
    }
}

impl From<&[f32]> for Aligned {
    fn from(values: &[f32]) -> Aligned {
        let mut aligned = Aligned::zeros(values.len());
        aligned.copy_from_slice(values);
        aligned
    }
}

impl Deref for Aligned {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        &cast_slice(&self.lines)[..self.length]
    }
}

impl DerefMut for Aligned {
    fn deref_mut(&mut self) -> &mut [f32] {
        &mut cast_slice_mut(&mut self.lines)[..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn begins_at_a_line_and_has_the_length_asked_for() {
        for length in [0, 1, 16, 17, 1000] {
            let mut aligned = Aligned::from(&vec![1.5; length][..]);
            assert_eq!((aligned.len(), aligned.as_ptr().addr() % 64), (length, 0));
            assert!(aligned.iter().all(|value| *value == 1.5));
            aligned.reset(length + 3);
            assert!(aligned.len() == length + 3 && aligned.iter().all(|value| *value == 0.0));
        }
    }
}
