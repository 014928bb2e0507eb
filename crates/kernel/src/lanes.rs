//! Dot products of any length in eight lanes with a fixed order of summation: the same bits on every processor.

/// Defines a dot product for one type of numbers. It is no generic function: those are compiled where they are used, which
/// may be a crate that is not built for speed.
macro_rules! dot {
    ($(#[$doc:meta])* $name:ident: $number:ty) => {
        $(#[$doc])*
        pub fn $name(a: &[$number], b: &[$number]) -> $number {
            let (a, a_rest) = a.as_chunks::<8>();
            let (b, b_rest) = b.as_chunks::<8>();
            let mut lanes = [0.0; 8];
            for (a, b) in a.iter().zip(b) {
                for lane in 0..8 {
                    lanes[lane] += a[lane] * b[lane];
                }
            }
            lanes.iter().sum::<$number>() + a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum::<$number>()
        }
    };
}

dot!(/// The dot product in `f32`.
    dot_f32: f32);
dot!(/// The dot product in `f64`.
    dot_f64: f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_length_is_summed() {
        for length in 0..40 {
            let a: Vec<f64> = (0..length).map(f64::from).collect();
            let expected = (0..length).map(|i| i * i).sum::<i32>();
            assert_eq!(dot_f64(&a, &a), f64::from(expected));
            let a: Vec<f32> = a.iter().map(|&value| value as f32).collect();
            assert_eq!(dot_f32(&a, &a), expected as f32);
        }
    }
}
