//! Bootstrap replicates of headline numbers that are no means over units, such as explained variance.
//!
//! A metric that resamples rows draws the same rows for every dictionary, because draws depend on the seed and the number of
//! rows only. If it stores the replicates, the difference of two dictionaries is paired draw by draw.

use serde_json::json;

use super::scores::{Scores, Table};
use super::stored::Stored;
use super::units::other_inputs;

/// The axis of the table of replicates: a row per draw, a column per headline number.
const AXIS: &str = "resample";

/// Significant digits of stored replicates.
const DIGITS: usize = 7;

/// The replicates of one run, as deviations from its value.
pub(super) struct Replicates {
    /// Equal for the same draws of the same rows: hash of the measure, its seed and its inputs except the representation
    /// under test.
    pub identity: blake3::Hash,
    /// By draw.
    pub deviations: Vec<f64>,
}

impl Scores {
    /// Stores replicates: a name and a value per draw for each headline number. A number with an undefined draw is left
    /// out.
    pub fn put_replicates(&mut self, columns: impl IntoIterator<Item = (String, Vec<Option<f64>>)>) {
        let round = |value: f64| format!("{value:.*e}", DIGITS - 1).parse::<f64>().ok();
        let mut table = Table::new(AXIS);
        for (key, draws) in columns {
            if draws.iter().all(Option::is_some) {
                table = table.numbers(&key, draws.into_iter().map(|draw| draw.and_then(round)));
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
        let (recipe, scores) = (&run.result.recipe, &run.result.scores);
        let value = scores.value(key)?;
        let column = scores.table(AXIS)?.column(key)?;
        let deviation = |draw: usize| Some(column.number(draw)? - value);
        let deviations = (0..column.len()).map(deviation).collect::<Option<Vec<f64>>>()?;
        let inputs = other_inputs(recipe);
        let text =
            json!([recipe.metric, recipe.version, recipe.profile.name(), recipe.seed, recipe.params, inputs, key]);
        Some(Replicates { identity: blake3::hash(text.to_string().as_bytes()), deviations })
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
        let table = stored.result.scores.table(AXIS).unwrap();
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
