//! Quantiles of distributions, from `statrs`.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The probability at the upper end of a two-sided 95 % interval.
const UPPER: f64 = 0.975;

/// Up to this many degrees of freedom `statrs` is accurate to 1e-12; from 30,000 on it is not, and at a million it
/// fails.
const MAX_FREEDOM: f64 = 20_000.0;

/// The 97.5 % quantile of Student's t; `None` without a degree of freedom. More than 20,000 degrees are treated as
/// 20,000, which is at most 6e-5 too wide; infinitely many give the normal distribution.
pub fn student_quantile(freedom: f64) -> Option<f64> {
    if freedom == f64::INFINITY {
        return Some(normal_quantile());
    }
    // `min` would turn NaN into a number.
    let freedom = if freedom.is_nan() { freedom } else { freedom.min(MAX_FREEDOM) };
    StudentsT::new(0.0, 1.0, freedom).ok().map(|student| student.inverse_cdf(UPPER))
}

/// The 97.5 % quantile of the standard normal distribution.
pub fn normal_quantile() -> f64 {
    Normal::standard().inverse_cdf(UPPER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_match_closed_forms() {
        // By bisection of the finite sums for P(|T| ≤ t), which hold for whole degrees of freedom; with 1 degree
        // tan(0.475 π), with 2 degrees 0.95 · √(2 / 0.0975).
        let known = [
            (1.0, 12.706_204_736_174_7),
            (2.0, 4.302_652_729_749_46),
            (3.0, 3.182_446_305_283_71),
            (4.0, 2.776_445_105_197_79),
            (9.0, 2.262_157_162_798_21),
            (10.0, 2.228_138_851_986_27),
            (11.0, 2.200_985_160_091_64),
            (19.0, 2.093_024_054_408_31),
            (30.0, 2.042_272_456_301_24),
            (100.0, 1.983_971_518_523_55),
            (1000.0, 1.962_339_080_826_46),
            // By the expansion in 1/20000 up to its third power.
            (20_000.0, 1.960_082_605_158_14),
            (1e9, 1.960_082_605_158_14),
            (f64::INFINITY, 1.959_963_984_540_05),
        ];
        for (freedom, expected) in known {
            let found = student_quantile(freedom).unwrap();
            assert!((found / expected - 1.0).abs() < 1e-12, "{freedom}: {found}");
        }
        assert_eq!((student_quantile(0.0), student_quantile(f64::NAN)), (None, None));
        assert!((normal_quantile() / 1.959_963_984_540_054 - 1.0).abs() < 1e-14);
    }
}
