//! `f32` buffers aligned to a cache line, so that no vector of sixteen crosses two lines.

use std::ops::{Deref, DerefMut};

use bytemuck::{Pod, Zeroable, cast_slice, cast_slice_mut};

/// Values per cache line.
const LINE: usize = 16;

/// One cache line.
#[derive(Clone, Copy, Debug, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

/// A buffer aligned to a cache line. Dereferences to a slice.
#[derive(Clone, Debug, Default)]
pub struct Aligned {
    lines: Vec<Line>,
    length: usize,
}

impl Aligned {
    /// A buffer of `length` zeros.
    pub fn zeros(length: usize) -> Aligned {
        Aligned { lines: vec![Line([0.0; LINE]); length.div_ceil(LINE)], length }
    }

    /// Sets the length and fills with zeros. Reuses the allocation if it is large enough.
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
    fn is_aligned_and_has_the_requested_length() {
        for length in [0, 1, 16, 17, 1000] {
            let mut aligned = Aligned::from(&vec![1.5; length][..]);
            assert_eq!((aligned.len(), aligned.as_ptr().addr() % 64), (length, 0));
            assert!(aligned.iter().all(|value| *value == 1.5));
            aligned.reset(length + 3);
            assert!(aligned.len() == length + 3 && aligned.iter().all(|value| *value == 0.0));
        }
    }
}
