//! The averages of all classes.

use etalon_kernel::statistics::mean;

use super::class::Class;
use crate::results::{Cells, Scores, Table, bootstrap_mean};

/// Makes the scores; classes whose probe has an F1 up to `floor` do not count, and `fewest` must be left.
pub(super) fn report(classes: &[Class], names: &[String], floor: f64, fewest: usize, seed: u64) -> Scores {
    let mut scores = Scores::default();
    let counts = |class: &&Class| class.probe_f1.is_some_and(|f1| f1 > floor) && class.rows > 0;
    let counted: Vec<&Class> = classes.iter().filter(counts).collect();
    let left_out = classes.len() - counted.len();
    if left_out > 0 {
        scores.note(format!(
            "{left_out} of {} classes are left out: their probe has an F1 up to {floor}, or sees no test row, or no latent \
             tells them",
            classes.len()
        ));
    }
    let enough = counted.len() >= fewest.max(1);
    if !enough {
        scores.note(format!(
            "{} classes are too few (at least {}): absorption is undefined",
            counted.len(),
            fewest.max(1)
        ));
    }
    let full = |class: &Class| class.full as f64 / class.rows.max(1) as f64;
    let mut headline = |key: &str, value: &dyn Fn(&Class) -> Option<f64>| {
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
