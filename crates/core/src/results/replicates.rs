//! Replicates of headline numbers that are no means over units, such as explained variance.
//!
//! A metric that resamples rows draws the same rows for every dictionary, because draws depend on the seed and the number of
//! rows only; so do the groups of rows that a jackknife leaves out. If it stores the replicates, the difference of two
//! dictionaries is paired draw by draw, or group by group.

use etalon_kernel::statistics::mean;
use serde_json::json;

use super::bootstrap::{Interval, percentile_interval};
use super::distributions::student_quantile;
use super::scores::{Scores, Table};
use super::stored::Stored;
use super::units::other_inputs;

/// How replicates were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    /// By draw of rows with replacement.
    Bootstrap,
    /// Without each group of rows.
    Jackknife,
}

impl Scheme {
    /// The axis of the table of replicates: a row per draw or group, a column per headline number.
    fn axis(self) -> &'static str {
        match self {
            Scheme::Bootstrap => "resample",
            Scheme::Jackknife => "jackknife",
        }
    }
}

/// Significant digits of stored replicates.
const DIGITS: usize = 7;

/// The replicates of one run.
pub(super) struct Replicates {
    /// Equal for the same draws of the same rows: hash of the measure, its seed and its inputs except the representation
    /// under test.
    identity: blake3::Hash,
    scheme: Scheme,
    /// By draw, from the value of the run; by group, from the mean over groups.
    deviations: Vec<f64>,
}

impl Scores {
    /// Stores bootstrap replicates: a name and a value per draw for each headline number. A number with an undefined draw
    /// is left out.
    pub fn put_replicates(&mut self, columns: impl IntoIterator<Item = (String, Vec<Option<f64>>)>) {
        self.put(Scheme::Bootstrap, columns);
    }

    /// Stores the values without each group of a jackknife, in the same way. A number whose bias the jackknife removes has
    /// the values before that.
    pub fn put_jackknife(&mut self, columns: impl IntoIterator<Item = (String, Vec<Option<f64>>)>) {
        self.put(Scheme::Jackknife, columns);
    }

    fn put(&mut self, scheme: Scheme, columns: impl IntoIterator<Item = (String, Vec<Option<f64>>)>) {
        let round = |value: f64| format!("{value:.*e}", DIGITS - 1).parse::<f64>().ok();
        let mut table = Table::new(scheme.axis());
        for (key, values) in columns {
            if values.iter().all(Option::is_some) {
                table = table.numbers(&key, values.into_iter().map(|value| value.and_then(round)));
            }
        }
        if table.rows() > 0 {
            self.tables.push(table);
        }
    }
}

impl Replicates {
    /// The replicates of the run with the smallest seed. More runs are not more rows.
    pub fn find(runs: &[&Stored], key: &str) -> Option<Replicates> {
        let run = runs.iter().min_by_key(|run| run.result.recipe.seed)?;
        let of_scheme = |scheme: Scheme| Replicates::read(run, key, scheme);
        of_scheme(Scheme::Bootstrap).or_else(|| of_scheme(Scheme::Jackknife))
    }

    fn read(run: &Stored, key: &str, scheme: Scheme) -> Option<Replicates> {
        let (recipe, scores) = (&run.result.recipe, &run.result.scores);
        let value = scores.value(key)?;
        let column = scores.table(scheme.axis())?.column(key)?;
        let mut deviations = (0..column.len()).map(|row| column.number(row)).collect::<Option<Vec<f64>>>()?;
        let centre = match scheme {
            Scheme::Bootstrap => value,
            Scheme::Jackknife => mean(&deviations)?,
        };
        deviations.iter_mut().for_each(|value| *value -= centre);
        let inputs = other_inputs(recipe);
        let text =
            json!([recipe.metric, recipe.version, recipe.profile.name(), recipe.seed, recipe.params, inputs, key]);
        Some(Replicates { identity: blake3::hash(text.to_string().as_bytes()), scheme, deviations })
    }

    /// The interval of a difference of this number and another over the same rows; `None` if rows, draws or groups differ.
    pub fn difference(&self, other: &Replicates, value: f64) -> Option<Interval> {
        let same = |a: &Replicates| (a.identity, a.scheme, a.deviations.len());
        if same(self) != same(other) {
            return None;
        }
        let differences = self.deviations.iter().zip(&other.deviations).map(|(a, b)| a - b);
        match self.scheme {
            Scheme::Bootstrap => percentile_interval(differences.map(|difference| value + difference).collect()),
            Scheme::Jackknife => {
                let groups = self.deviations.len() as f64;
                let squares: f64 = differences.map(|difference| difference * difference).sum();
                let half = student_quantile(groups - 1.0)? * (squares * (groups - 1.0) / groups).sqrt();
                Some(Interval { low: value - half, high: value + half })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, run};
    use super::*;

    #[test]
    fn replicates_are_rounded_and_read_as_deviations() {
        let mut stored = run(Example { value: 0.5, ..Example::default() });
        let draws = vec![Some(0.500_000_123_4), Some(0.25)];
        stored.result.scores.put_replicates([("score".into(), draws), ("other".into(), vec![Some(1.0), None])]);
        let table = stored.result.scores.table("resample").unwrap();
        assert_eq!((table.columns.len(), table.columns[0].0.as_str()), (1, "score"));
        let found = Replicates::find(&[&stored], "score").unwrap();
        assert!((found.deviations[0] - 1e-7).abs() < 1e-12 && found.deviations[1] == -0.25, "{:?}", found.deviations);
        assert!(Replicates::find(&[&stored], "other").is_none());
    }

    #[test]
    fn the_smallest_seed_counts_and_other_rows_are_told_apart() {
        let of = |codes, labels, seed, draw| {
            let mut stored = run(Example { codes, labels, seed, value: 0.0, ..Example::default() });
            stored.result.scores.put_replicates([("score".into(), vec![Some(draw)])]);
            stored
        };
        let runs = [of("a", "l", 1, 1.0), of("a", "l", 0, 2.0), of("b", "l", 0, 3.0), of("b", "m", 0, 4.0)];
        let find = |runs: &[&Stored]| Replicates::find(runs, "score").unwrap();
        assert_eq!(find(&[&runs[0], &runs[1]]).deviations, [2.0]);
        assert_eq!(find(&[&runs[1]]).identity, find(&[&runs[2]]).identity);
        assert_ne!(find(&[&runs[1]]).identity, find(&[&runs[0]]).identity);
        assert_ne!(find(&[&runs[2]]).identity, find(&[&runs[3]]).identity);
    }
}
