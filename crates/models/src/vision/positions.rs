//! Position embeddings of images larger or smaller than those of the training: interpolation of a grid, as torch does it.

/// How a grid of position embeddings is interpolated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Interpolation {
    /// Bicubic; wider when the grid shrinks (torch's `antialias`).
    Antialiased,
    /// Bicubic over four neighbours.
    Plain,
}

impl Interpolation {
    /// The parameter of the cubic kernel: torch uses different ones.
    fn sharpness(self) -> f64 {
        match self {
            Interpolation::Antialiased => -0.5,
            Interpolation::Plain => -0.75,
        }
    }
}

/// The first input and the weights of the inputs of one output.
type Taps = (usize, Vec<f64>);

/// A grid of `from` (rows, columns) positions with `width` values each, as a grid of `to` positions.
pub(super) fn interpolate(
    values: &[f32],
    width: usize,
    from: (usize, usize),
    to: (usize, usize),
    method: Interpolation,
) -> Vec<f32> {
    if from == to {
        return values.to_vec();
    }
    let (rows, columns) = (taps(from.0, to.0, method), taps(from.1, to.1, method));
    let mut out = Vec::with_capacity(to.0 * to.1 * width);
    let mut sums = vec![0.0; width];
    for (first_row, by_row) in &rows {
        for (first_column, by_column) in &columns {
            sums.fill(0.0);
            for (r, row_weight) in by_row.iter().enumerate() {
                for (c, column_weight) in by_column.iter().enumerate() {
                    let at = ((first_row + r) * from.1 + first_column + c) * width;
                    let weight = row_weight * column_weight;
                    sums.iter_mut().zip(&values[at..][..width]).for_each(|(sum, v)| *sum += weight * f64::from(*v));
                }
            }
            out.extend(sums.iter().map(|sum| *sum as f32));
        }
    }
    out
}

/// The weights of every output along one axis. Inputs beyond the ends repeat the outermost one; antialiased weights leave
/// them out and are normalised instead.
fn taps(from: usize, to: usize, method: Interpolation) -> Vec<Taps> {
    let ratio = from as f64 / to as f64;
    let stretch = if method == Interpolation::Antialiased { ratio.max(1.0) } else { 1.0 };
    (0..to)
        .map(|output| {
            let centre = (output as f64 + 0.5) * ratio - 0.5;
            let reach = 2.0 * stretch;
            let inputs = (centre - reach).floor() as i64..=(centre + reach).ceil() as i64;
            let mut weights = vec![0.0; from];
            for input in inputs {
                let inside = input.clamp(0, from as i64 - 1);
                let weight = cubic((input as f64 - centre) / stretch, method.sharpness());
                if inside == input || method == Interpolation::Plain {
                    weights[inside as usize] += weight;
                }
            }
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|weight| *weight /= total);
            let first = weights.iter().position(|weight| *weight != 0.0).unwrap_or(0);
            let last = weights.iter().rposition(|weight| *weight != 0.0).unwrap_or(0);
            (first, weights[first..=last].to_vec())
        })
        .collect()
}

/// The cubic convolution kernel.
fn cubic(x: f64, a: f64) -> f64 {
    let x = x.abs();
    if x < 1.0 {
        ((a + 2.0) * x - (a + 3.0)) * x * x + 1.0
    } else if x < 2.0 {
        (((x - 5.0) * x + 8.0) * x - 4.0) * a
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_size_and_a_constant_stay() {
        let values: Vec<f32> = (0..12).map(|i| i as f32).collect();
        assert_eq!(interpolate(&values, 2, (3, 2), (3, 2), Interpolation::Plain), values);
        for method in [Interpolation::Plain, Interpolation::Antialiased] {
            let out = interpolate(&[2.5; 6], 1, (3, 2), (5, 7), method);
            assert!(out.len() == 35 && out.iter().all(|value| (value - 2.5).abs() < 1e-6));
        }
    }

    #[test]
    fn weights_by_hand() {
        // Two outputs of one input between 0 and 1: at −0.25, weights of inputs −1 (clamped to 0), 0, 1, 2 (clamped to 1).
        let (first, weights) = &taps(2, 4, Interpolation::Plain)[0];
        let expected = cubic(-1.75, -0.75) + cubic(-0.75, -0.75) + cubic(0.25, -0.75);
        assert_eq!(*first, 0);
        assert!((weights[0] - expected).abs() < 1e-12 && (weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
    }
}
