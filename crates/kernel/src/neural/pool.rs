//! Pooling of maps whose channels come last.

use super::depthwise::Window;
use super::vectorised;

vectorised! {
    /// `into = max(into, row)`.
    fn larger(row: &[f32], into: &mut [f32]) {
        for (into, &value) in into.iter_mut().zip(row) {
            *into = if value > *into { value } else { *into };
        }
    }
}

/// Some lines of the largest values of windows, for one sample. Positions outside of the map do not count; `out` has the
/// lines from `first` on.
pub fn max_pool(x: &[f32], window: Window, channels: usize, first: usize, out: &mut [f32]) {
    let line = window.out_width * channels;
    assert!(
        line > 0 && x.len() == window.height * window.width * channels && out.len().is_multiple_of(line),
        "shapes differ"
    );
    for (index, out) in out.chunks_exact_mut(line).enumerate() {
        let lines = window.inside_range(first + index, window.height);
        for (column, out) in out.chunks_exact_mut(channels).enumerate() {
            out.fill(f32::NEG_INFINITY);
            for line in lines.clone() {
                for place in window.inside_range(column, window.width) {
                    larger(&x[(line * window.width + place) * channels..][..channels], out);
                }
            }
        }
    }
}

vectorised! {
    /// The mean of the rows of one sample, in order.
    pub fn mean_rows(rows: &[f32], out: &mut [f32]) {
        out.fill(0.0);
        for row in rows.chunks_exact(out.len()) {
            out.iter_mut().zip(row).for_each(|(sum, value)| *sum += value);
        }
        let count = (rows.len() / out.len().max(1)) as f32;
        out.iter_mut().for_each(|sum| *sum /= count);
    }
}

vectorised! {
    /// Squares of values.
    pub fn squares(x: &[f32], out: &mut [f32]) {
        out.iter_mut().zip(x).for_each(|(out, x)| *out = x * x);
    }
}

vectorised! {
    /// `√(x + eps)`.
    pub fn roots(values: &mut [f32], eps: f32) {
        values.iter_mut().for_each(|value| *value = (*value + eps).sqrt());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pools_by_hand() {
        // A 3 × 3 map with two channels: 1 to 9, and the negatives.
        let x: Vec<f32> = (1..10).flat_map(|value| [value as f32, -value as f32]).collect();
        let window = Window { height: 3, width: 3, size: 3, stride: 2, before: 1, out_width: 2 };
        let mut out = [0.0; 8];
        max_pool(&x, window, 2, 0, &mut out);
        assert_eq!(out, [5.0, -1.0, 6.0, -2.0, 8.0, -4.0, 9.0, -5.0]);
        let mut mean = [0.0; 2];
        mean_rows(&x, &mut mean);
        assert_eq!(mean, [5.0, -5.0]);
        let mut square = [0.0; 2];
        squares(&[3.0, -4.0], &mut square);
        roots(&mut square, 0.0);
        assert_eq!(square, [3.0, 4.0]);
    }
}
