//! Averages over classes.

use etalon_kernel::statistics::{deviation, mean};

use super::class::ClassResult;
use crate::results::{Cells, Interval, Scores, Table, share_interval};

/// Computes the scores of classes whose probe has an F1 above `floor`; undefined with fewer than `fewest` of them.
pub(super) fn report(classes: &[ClassResult], names: &[String], floor: f64, fewest: usize) -> Scores {
    let mut scores = Scores::default();
    let counts = |class: &&ClassResult| class.probe_f1.is_some_and(|f1| f1 > floor) && class.rows > 0;
    let counted: Vec<&ClassResult> = classes.iter().filter(counts).collect();
    let left_out = classes.len() - counted.len();
    if left_out > 0 {
        scores.note(format!(
            "{left_out} of {} classes are left out: F1 of the probe is at most {floor}, it finds no test row, or no latent \
             identifies the class",
            classes.len()
        ));
    }
    let enough = counted.len() >= fewest.max(1);
    if !enough {
        scores.note(format!(
            "absorption is undefined: {} classes are too few, at least {} are needed",
            counted.len(),
            fewest.max(1)
        ));
    }
    let full = |class: &ClassResult| class.full as f64 / class.rows.max(1) as f64;
    let rows: usize = counted.iter().map(|class| class.rows).sum();
    let values_of = |value: &dyn Fn(&ClassResult) -> Option<f64>| -> Vec<f64> {
        counted.iter().filter(|_| enough).filter_map(|class| value(class)).collect()
    };
    let mut share = |key: &str, value: &dyn Fn(&ClassResult) -> Option<f64>| {
        let values = values_of(value);
        scores.headline(key, mean(&values), interval(&values, rows), values.len());
    };
    share("absorption_fraction", &|class| class.fraction);
    share("absorption_fraction_january", &|class| class.january);
    share("absorption_fraction_paper", &|class| class.paper);
    share("full_absorption", &|class| Some(full(class)));
    let latents = values_of(&|class| Some(class.main.len() as f64));
    scores.headline("split_features", mean(&latents), None, latents.len());
    let main = classes.iter().map(|class| class.main.iter().map(|&latent| i64::from(latent)).collect()).collect();
    let steps = classes.iter().map(|class| class.steps.iter().copied().map(Some).collect()).collect();
    scores.tables.push(
        Table::new("concept")
            .words("name", names.iter().cloned())
            .numbers("absorption_fraction", classes.iter().map(|class| class.fraction))
            .numbers("absorption_fraction_january", classes.iter().map(|class| class.january))
            .numbers("absorption_fraction_paper", classes.iter().map(|class| class.paper))
            .numbers("full_absorption", classes.iter().map(|class| (class.rows > 0).then(|| full(class))))
            .counts("fully_absorbed", classes.iter().map(|class| class.full))
            .counts("rows", classes.iter().map(|class| class.rows))
            .counts("counted", classes.iter().map(|class| usize::from(enough && counts(&class))))
            .numbers("probe_f1", classes.iter().map(|class| class.probe_f1))
            .counts("split_features", classes.iter().map(|class| class.main.len()))
            .with("latents", Cells::WholeLists(main))
            .with("f1_by_latents", Cells::NumberLists(steps)),
    );
    scores
}

/// The interval of a mean share over classes, with the standard error between classes and at most `rows` observations;
/// `None` below two classes.
fn interval(values: &[f64], rows: usize) -> Option<Interval> {
    let classes = values.len() as f64;
    share_interval(mean(values)?, deviation(values)?.powi(2) / classes, rows as f64, classes - 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_match_worked_examples() {
        // Shares 0, 0, 0.2, 0.2: mean 0.1, deviation² 0.013333, variance 0.003333: as 27 observations. With
        // t(3) = 3.182446, t² = 10.12796: centre (0.1 + 0.187555) / 1.375110, half √(0.033758 + 0.035177) / 1.375110.
        let found = interval(&[0.0, 0.0, 0.2, 0.2], 1000).unwrap();
        assert!((found.low - 0.018181).abs() < 1e-5 && (found.high - 0.400050).abs() < 1e-5, "{found:?}");
        // No class differs: limited by the rows, t² / (90 + t²).
        let none = interval(&[0.0; 4], 90).unwrap();
        assert!(none.low == 0.0 && (none.high - 0.101152).abs() < 1e-5, "{none:?}");
        assert_eq!(interval(&[0.3], 90), None);
    }
}
