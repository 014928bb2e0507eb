//! What happens to the outputs of a convolution: bias, batch norm, shortcut and activation.

use pulp::Simd;

use super::vectorised;

/// Bounds of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Clip {
    /// Smaller values become this one.
    pub floor: f32,
    /// Larger values become this one.
    pub ceiling: f32,
}

impl Clip {
    /// No bounds.
    pub const NONE: Clip = Clip { floor: f32::NEG_INFINITY, ceiling: f32::INFINITY };
    /// `max(x, 0)`.
    pub const RELU: Clip = Clip { floor: 0.0, ceiling: f32::INFINITY };
    /// `min(max(x, 0), 6)`.
    pub const RELU6: Clip = Clip { floor: 0.0, ceiling: 6.0 };
}

/// Replaces every output `y` by `clip((y + bias) · scale + shift + shortcut)`. Parts that are missing are left out. Doing
/// the parts one after the other gives the same bits as doing them at once.
#[derive(Clone, Copy, Debug)]
pub struct Finish<'a> {
    /// Added to the outputs, one value per channel.
    pub bias: Option<&'a [f32]>,
    /// Batch norm: factors and summands, one value per channel.
    pub norm: Option<(&'a [f32], &'a [f32])>,
    /// Added after the norm; as many values as there are outputs.
    pub shortcut: Option<&'a [f32]>,
    /// The activation function.
    pub clip: Clip,
}

impl<'a> Finish<'a> {
    /// Leaves outputs as they are.
    pub const NONE: Finish<'static> = Finish { bias: None, norm: None, shortcut: None, clip: Clip::NONE };

    /// The same for some rows of the outputs.
    #[must_use]
    pub fn of_rows(self, rows: std::ops::Range<usize>, channels: usize) -> Finish<'a> {
        let part = |shortcut: &'a [f32]| &shortcut[rows.start * channels..rows.end * channels];
        Finish { shortcut: self.shortcut.map(part), ..self }
    }

    /// Applies it to whole rows.
    pub fn apply(&self, channels: usize, rows: &mut [f32]) {
        self.check(channels, rows.len() / channels.max(1));
        if let Some(bias) = self.bias {
            super::add_rows(bias, rows);
        }
        if let Some((scale, shift)) = self.norm {
            scale_and_shift(scale, shift, rows);
        }
        if let Some(shortcut) = self.shortcut {
            super::add(shortcut, rows);
        }
        if self.clip != Clip::NONE {
            clip_all(rows, self.clip.floor, self.clip.ceiling);
        }
    }

    /// Panics unless all parts have the right length.
    pub(super) fn check(&self, channels: usize, rows: usize) {
        let fits = |part: Option<&[f32]>, length: usize| part.is_none_or(|part| part.len() == length);
        let norm = self.norm.is_none_or(|(scale, shift)| scale.len() == channels && shift.len() == channels);
        let shortcut = fits(self.shortcut, rows * channels);
        assert!(fits(self.bias, channels) && norm && shortcut, "a part of another shape");
    }

    /// Applies it to one vector: channels from `channel` on of the row that starts at `row` in the outputs.
    #[inline(always)]
    pub(super) fn vector<S: Simd>(&self, simd: S, value: S::f32s, channel: usize, row: usize) -> S::f32s {
        let load = |values: &[f32], at: usize| S::as_simd_f32s(&values[at..][..S::F32_LANES]).0[0];
        let mut value = value;
        if let Some(bias) = self.bias {
            value = simd.add_f32s(value, load(bias, channel));
        }
        if let Some((scale, shift)) = self.norm {
            value = simd.mul_add_f32s(value, load(scale, channel), load(shift, channel));
        }
        if let Some(shortcut) = self.shortcut {
            value = simd.add_f32s(value, load(shortcut, row + channel));
        }
        // The order of the arguments lets NaN pass.
        value = simd.max_f32s(simd.splat_f32s(self.clip.floor), value);
        simd.min_f32s(simd.splat_f32s(self.clip.ceiling), value)
    }

    /// Applies it to one value.
    #[inline(always)]
    pub(super) fn value(&self, value: f32, channel: usize, row: usize) -> f32 {
        let value = self.bias.map_or(value, |bias| value + bias[channel]);
        let value = self.norm.map_or(value, |(scale, shift)| value.mul_add(scale[channel], shift[channel]));
        let value = self.shortcut.map_or(value, |shortcut| value + shortcut[row + channel]);
        let value = if value < self.clip.floor { self.clip.floor } else { value };
        if value > self.clip.ceiling { self.clip.ceiling } else { value }
    }
}

vectorised! {
    fn scale_and_shift(scale: &[f32], shift: &[f32], rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(scale.len()) {
            for ((value, &scale), &shift) in row.iter_mut().zip(scale).zip(shift) {
                *value = value.mul_add(scale, shift);
            }
        }
    }
}

vectorised! {
    fn clip_all(values: &mut [f32], floor: f32, ceiling: f32) {
        for value in values {
            let raised = if *value < floor { floor } else { *value };
            *value = if raised > ceiling { ceiling } else { raised };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_by_hand() {
        // Two rows of two channels.
        let mut rows = [1.0, 2.0, -3.0, 4.0];
        let finish = Finish {
            bias: Some(&[1.0, 0.0]),
            norm: Some((&[2.0, 3.0], &[0.5, -1.0])),
            shortcut: Some(&[0.0, 1.0, 0.0, 2.0]),
            clip: Clip::RELU6,
        };
        // (1 + 1) · 2 + 0.5; 2 · 3 − 1 + 1; (−3 + 1) · 2 + 0.5; 4 · 3 − 1 + 2.
        finish.apply(2, &mut rows);
        assert_eq!(rows, [4.5, 6.0, 0.0, 6.0]);
        let mut second = [-3.0, 4.0];
        finish.of_rows(1..2, 2).apply(2, &mut second);
        assert_eq!(second, [0.0, 6.0]);
        assert_eq!(finish.value(-3.0, 0, 2), 0.0);
    }

    #[test]
    fn infinite_and_undefined_values_pass() {
        let mut rows = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        Finish { clip: Clip::RELU, ..Finish::NONE }.apply(3, &mut rows);
        assert!(rows[0].is_nan() && rows[1] == f32::INFINITY && rows[2] == 0.0);
        assert!(Finish { clip: Clip::RELU6, ..Finish::NONE }.value(f32::NAN, 0, 0).is_nan());
    }
}
