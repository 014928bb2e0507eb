//! Averages over classes.

use etalon_kernel::statistics::mean;

use super::class::ClassResult;
use crate::results::{Cells, Scores, Table, bootstrap_mean};

/// Computes the scores of classes whose probe has an F1 above `floor`; undefined with fewer than `fewest` of them.
pub(super) fn report(classes: &[ClassResult], names: &[String], floor: f64, fewest: usize, seed: u64) -> Scores {
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
    let mut headline = |key: &str, value: &dyn Fn(&ClassResult) -> Option<f64>| {
        let values: Vec<f64> = counted.iter().filter(|_| enough).filter_map(|class| value(class)).collect();
        let interval = bootstrap_mean(&values, seed, &format!("absorption/{key}"));
        scores.headline(key, mean(&values), interval, values.len());
    };
    headline("absorption_fraction", &|class| class.fraction);
    headline("absorption_fraction_january", &|class| class.january);
    headline("absorption_fraction_paper", &|class| class.paper);
    headline("full_absorption", &|class| Some(full(class)));
    headline("split_features", &|class| Some(class.main.len() as f64));
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
            .numbers("probe_f1", classes.iter().map(|class| class.probe_f1))
            .counts("split_features", classes.iter().map(|class| class.main.len()))
            .with("latents", Cells::WholeLists(main))
            .with("f1_by_latents", Cells::NumberLists(steps)),
    );
    scores
}
