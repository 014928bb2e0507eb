//! Sums and products of rows.

use super::exp::tanh;
use super::vectorised;

vectorised! {
    /// `into += x`.
    pub fn add(x: &[f32], into: &mut [f32]) {
        into.iter_mut().zip(x).for_each(|(into, x)| *into += x);
    }
}

vectorised! {
    /// Adds `bias` to every row.
    pub fn add_rows(bias: &[f32], rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(bias.len()) {
            row.iter_mut().zip(bias).for_each(|(value, bias)| *value += bias);
        }
    }
}

vectorised! {
    /// Multiplies every row by `scale`, value by value.
    pub fn multiply_rows(scale: &[f32], rows: &mut [f32]) {
        for row in rows.chunks_exact_mut(scale.len()) {
            row.iter_mut().zip(scale).for_each(|(value, scale)| *value *= scale);
        }
    }
}

vectorised! {
    /// Rotates pairs of every head of `dim` values: value `i` of the first half of the rotated part is paired with value `i`
    /// of the second half, and turned by an angle with the cosine `cos[i]` and the sine `sin[i]`.
    pub fn rotate_heads(heads: &mut [f32], dim: usize, cos: &[f32], sin: &[f32]) {
        let half = cos.len();
        for head in heads.chunks_exact_mut(dim) {
            let (a, b) = head[..2 * half].split_at_mut(half);
            for ((a, b), (&cos, &sin)) in a.iter_mut().zip(b).zip(cos.iter().zip(sin)) {
                (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
            }
        }
    }
}

vectorised! {
    /// `cap · tanh(x / cap)`.
    pub fn soft_cap(values: &mut [f32], cap: f32) {
        let inverse = 1.0 / cap;
        values.iter_mut().for_each(|x| *x = cap * tanh(*x * inverse));
    }
}

vectorised! {
    /// The gradient of [`soft_cap`], given its result: `d · (1 − (y / cap)²)`.
    pub fn soft_cap_back(capped: &[f32], cap: f32, d: &mut [f32]) {
        let inverse = 1.0 / cap;
        for (d, &y) in d.iter_mut().zip(capped) {
            let t = y * inverse;
            *d *= 1.0 - t * t;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_by_hand() {
        let mut rows = [1.0, 2.0, 3.0, 4.0];
        add(&[1.0; 4], &mut rows);
        add_rows(&[10.0, 20.0], &mut rows);
        multiply_rows(&[1.0, 0.5], &mut rows);
        assert_eq!(rows, [12.0, 11.5, 14.0, 12.5]);
        // A quarter turn of (1, 2); 9 is not rotated.
        let mut heads = [1.0, 2.0, 9.0];
        rotate_heads(&mut heads, 3, &[0.0], &[1.0]);
        assert_eq!(heads, [-2.0, 1.0, 9.0]);
        let mut capped = [0.5, -100.0];
        soft_cap(&mut capped, 2.0);
        assert!((capped[0] - 2.0 * 0.25f32.tanh()).abs() < 1e-6 && capped[1] == -2.0);
        let mut d = [1.0, 1.0];
        soft_cap_back(&capped, 2.0, &mut d);
        assert!((d[0] - (1.0 - 0.25f32.tanh().powi(2))).abs() < 1e-6 && d[1] == 0.0);
    }
}
