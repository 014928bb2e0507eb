//! Axes: the mapping from values to coordinates, ticks at round numbers, and the frame of a plot.

use super::canvas::{Anchor, Canvas, Ink};
use crate::report::words::plain;

/// Maps values to coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl Scale {
    /// A linear scale from `low` (at `start`) to `high` (at `end`).
    pub fn linear((low, high): (f64, f64), (start, end): (f64, f64)) -> Scale {
        let (low, high) = if high > low { (low, high) } else { (low - 0.5, low + 0.5) };
        Scale { low, high, start, end, logarithmic: false }
    }

    /// A logarithmic scale, for dictionary sizes and similar numbers; linear if values are not positive or span less
    /// than a factor of 4.
    pub fn logarithmic(domain: (f64, f64), range: (f64, f64)) -> Scale {
        Scale { logarithmic: domain.0 > 0.0 && domain.1 >= 4.0 * domain.0, ..Scale::linear(domain, range) }
    }

    /// The coordinate of a value.
    pub fn position(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            libm::log(value / self.low) / libm::log(self.high / self.low)
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.start + part * (self.end - self.start)
    }

    /// About `count` round numbers along the scale.
    pub fn ticks(&self, count: usize) -> Vec<f64> {
        if self.logarithmic { powers_of_two(self.low, self.high, count) } else { ticks(self.low, self.high, count) }
    }
}

/// About `count` round numbers between two values, in steps of 1, 2 or 5 times a power of ten.
pub fn ticks(low: f64, high: f64, count: usize) -> Vec<f64> {
    if !(low.is_finite() && high.is_finite() && high > low) {
        return Vec::new();
    }
    let step = step(high - low, count);
    let (first, last) = ((low / step - 1e-9).ceil(), (high / step + 1e-9).floor());
    // By division instead of repeated addition, so that 0.3 is exactly 0.3.
    let tick = |index: usize| {
        let value = first + index as f64;
        if step < 1.0 { value / (1.0 / step).round() } else { value * step }
    };
    (0..=(last - first).clamp(0.0, 100.0) as usize).map(tick).collect()
}

fn step(span: f64, count: usize) -> f64 {
    let rough = span / count.max(1) as f64;
    let power = libm::pow(10.0, libm::log10(rough).floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|factor| factor * power >= rough * 0.999).unwrap_or(10.0);
    factor * power
}

/// The range, extended to round numbers.
pub fn widen(low: f64, high: f64) -> (f64, f64) {
    if !(low.is_finite() && high.is_finite()) {
        return (0.0, 1.0);
    }
    let (low, high) = if high > low { (low, high) } else { (low - 0.5, high + 0.5) };
    let step = step(high - low, 5);
    ((low / step + 1e-9).floor() * step, (high / step - 1e-9).ceil() * step)
}

fn powers_of_two(low: f64, high: f64, count: usize) -> Vec<f64> {
    let (first, last) = (libm::log2(low).round() as i32, libm::log2(high).round() as i32);
    let stride = (((last - first) as usize).div_ceil(count.max(1))).max(1);
    (first..=last).step_by(stride).map(|power| libm::pow(2.0, f64::from(power))).collect()
}

/// The smallest and the largest of the finite values.
pub fn span(values: impl IntoIterator<Item = f64>) -> Option<(f64, f64)> {
    values.into_iter().filter(|value| value.is_finite()).fold(None, |span, value| {
        let (low, high) = span.unwrap_or((value, value));
        Some((value.min(low), value.max(high)))
    })
}

/// The rectangle of a plot, inside its axes.
#[derive(Clone, Copy)]
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

impl Frame {
    /// Draws the vertical axis: grid lines, numbers and name.
    pub fn vertical(&self, canvas: &mut Canvas, scale: &Scale, name: &str) {
        for tick in scale.ticks(5) {
            let y = scale.position(tick);
            canvas.line((self.left, y), (self.right, y), Ink::Grid, 1.0);
            canvas.text((self.left - 7.0, y + 4.0), Anchor::End, 11.0, Ink::Quiet, &plain(tick));
        }
        if !name.is_empty() {
            canvas.rotated_text((self.left - 42.0, (self.top + self.bottom) / 2.0), Anchor::Middle, -90.0, 12.0, name);
        }
    }

    /// Draws the horizontal axis: line, numbers at `ticks`, and name.
    pub fn horizontal(&self, canvas: &mut Canvas, scale: &Scale, ticks: &[f64], name: &str) {
        self.base(canvas);
        for &tick in ticks {
            let x = scale.position(tick);
            if x < self.left - 0.5 || x > self.right + 0.5 {
                continue;
            }
            canvas.line((x, self.bottom), (x, self.bottom + 4.0), Ink::Text, 1.0);
            canvas.text((x, self.bottom + 17.0), Anchor::Middle, 11.0, Ink::Quiet, &plain(tick));
        }
        canvas.text(((self.left + self.right) / 2.0, self.bottom + 36.0), Anchor::Middle, 12.0, Ink::Text, name);
    }

    /// Draws the line below the plot.
    pub fn base(&self, canvas: &mut Canvas) {
        canvas.line((self.left, self.bottom), (self.right, self.bottom), Ink::Text, 1.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round() {
        assert_eq!(ticks(0.0, 1.0, 5), [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        assert_eq!(ticks(-0.13, 0.31, 4), [0.0, 0.2]);
        assert_eq!(ticks(0.0, 312.0, 5), [0.0, 100.0, 200.0, 300.0]);
        assert_eq!(ticks(1.0, 1.0, 5), [0.0; 0]);
        assert_eq!(ticks(f64::NAN, 1.0, 5), [0.0; 0]);
        assert_eq!(widen(0.13, 0.71), (0.0, 0.8));
    }

    #[test]
    fn a_logarithmic_scale_spaces_powers_of_two_evenly() {
        let scale = Scale::logarithmic((128.0, 512.0), (0.0, 100.0));
        assert!((scale.position(256.0) - 50.0).abs() < 1e-9);
        assert_eq!(scale.ticks(6), [128.0, 256.0, 512.0]);
        assert!(!Scale::logarithmic((0.0, 512.0), (0.0, 1.0)).logarithmic);
    }

    #[test]
    fn a_single_value_is_in_the_middle() {
        assert_eq!(Scale::linear((3.0, 3.0), (0.0, 10.0)).position(3.0), 5.0);
    }
}
