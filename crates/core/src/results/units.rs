//! The per-unit values that a headline number is the mean of: what a bootstrap resamples.

use std::collections::BTreeMap;
use std::io::BufWriter;

use super::bootstrap::RESAMPLES;
use super::cells::Cells;
use super::recipe::Recipe;
use super::scores::{Scores, Table};
use super::stored::Stored;
use etalon_kernel::random::{index, stream};

/// The axes of tables whose rows are units.
const AXES: [&str; 5] = ["concept", "feature", "pair", "couple", "latent"];

/// Roles of the representation under test. The other inputs determine the units that it is tested on.
const TESTED: [&str; 7] = ["codes", "pair_codes", "directions", "dictionary", "training", "nulls", "others"];

/// Roles that do not change the set of latents.
const BESIDE_LATENTS: [&str; 3] = ["training", "nulls", "others"];

/// The maximum relative difference between a headline number and the mean of its column, due to the order of sums.
const ROUNDING: f64 = 1e-9;

/// The column that is 0 for units that have values, but are left out of the mean.
const COUNTED: &str = "counted";

/// Common names of score columns.
const COMMON: [&str; 3] = ["f1", "score", "delta"];

/// The per-unit values of a headline number, for every run of an input set.
pub struct UnitValues {
    /// By run, the columns whose signed means add up to the number.
    runs: Vec<Vec<UnitColumn>>,
    /// Equal for the same units: hash of the measure, its inputs except the representation under test, and the names of
    /// units.
    pub identity: blake3::Hash,
}

/// One column, by unit.
struct UnitColumn {
    /// 0 where undefined.
    values: Vec<f64>,
    /// 1 where defined, else 0.
    defined: Vec<u8>,
    /// 1, or −1 for a column whose mean is subtracted.
    sign: f64,
}

/// Columns of a table, with signs, whose means may add up to a headline number.
struct Choice<'a> {
    axis: &'a str,
    columns: Vec<(&'a str, f64)>,
}

impl UnitValues {
    /// Finds the column that a headline number is the mean of: one with a matching name, or the difference of two
    /// columns that are headline numbers themselves. In every run, mean and number of units must be those of the
    /// headline.
    pub fn find(runs: &[&Stored], key: &str) -> Option<UnitValues> {
        let scores = &runs.first()?.result.scores;
        choices(scores, key).into_iter().find_map(|choice| UnitValues::read(runs, key, &choice))
    }

    fn read(runs: &[&Stored], key: &str, choice: &Choice<'_>) -> Option<UnitValues> {
        let columns = runs.iter().map(|run| read_columns(&run.result.scores, key, choice));
        let columns = columns.collect::<Option<Vec<Vec<UnitColumn>>>>()?;
        let units = UnitValues { runs: columns, identity: identity(runs[0], key, choice)? };
        // The latents of dictionaries that were trained with several seeds are different units.
        if runs[1..].iter().any(|run| identity(run, key, choice) != Some(units.identity)) {
            return None;
        }
        let same_length = units.runs.iter().flatten().all(|column| column.values.len() == units.len());
        same_length.then_some(units)
    }

    /// The number of units, undefined ones included.
    fn len(&self) -> usize {
        self.runs.first().and_then(|columns| columns.first()).map_or(0, |column| column.values.len())
    }

    /// The mean over runs, with each unit weighted by its count; NaN if a column has no defined unit.
    fn mean(&self, counts: &[f64]) -> f64 {
        let of_run = |columns: &Vec<UnitColumn>| columns.iter().map(|column| column.mean(counts)).sum::<f64>();
        self.runs.iter().map(of_run).sum::<f64>() / self.runs.len() as f64
    }
}

impl UnitColumn {
    fn mean(&self, counts: &[f64]) -> f64 {
        let total: f64 = self.values.iter().zip(counts).map(|(value, count)| value * count).sum();
        let units: f64 = self.defined.iter().zip(counts).map(|(&defined, count)| f64::from(defined) * count).sum();
        self.sign * total / units
    }

    /// The mean of the defined values.
    fn plain_mean(&self) -> f64 {
        let units: f64 = self.defined.iter().map(|&defined| f64::from(defined)).sum();
        self.sign * self.values.iter().sum::<f64>() / units
    }
}

/// The candidate columns of a headline number, the most likely first, in case several have the same mean by chance.
fn choices<'a>(scores: &'a Scores, key: &str) -> Vec<Choice<'a>> {
    let mut candidates: Vec<(usize, Choice<'a>)> = Vec::new();
    for table in scores.tables.iter().filter(|table| AXES.contains(&table.axis.as_str())) {
        for (name, _) in &table.columns {
            let order = match name.as_str() {
                name if name == key => 0,
                name if key.ends_with(name) => 1,
                name if COMMON.contains(&name) => 2,
                _ => continue,
            };
            candidates.push((order, Choice { axis: &table.axis, columns: vec![(name, 1.0)] }));
        }
        let others: Vec<&str> = scores.headline.iter().map(|headline| headline.key.as_str()).collect();
        let is_column = |name: &&str| *name != key && table.column(name).is_some();
        for &first in others.iter().filter(|name| is_column(name)) {
            for &second in others.iter().filter(|name| is_column(name) && **name != first) {
                candidates.push((3, Choice { axis: &table.axis, columns: vec![(first, 1.0), (second, -1.0)] }));
            }
        }
    }
    candidates.sort_by_key(|(order, _)| *order);
    candidates.into_iter().map(|(_, choice)| choice).collect()
}

/// The columns of one run; `None` if their means do not add up to its headline number.
fn read_columns(scores: &Scores, key: &str, choice: &Choice<'_>) -> Option<Vec<UnitColumn>> {
    let table = scores.table(choice.axis)?;
    let rows = || main_rows_of(table);
    let counts = |row: usize| table.column(COUNTED).is_none_or(|cells| cells.number(row) != Some(0.0));
    let read = |&(name, sign): &(&str, f64)| {
        let cells = table.column(name).filter(|cells| matches!(cells, Cells::Number(_) | Cells::Whole(_)))?;
        let number = |row: usize| cells.number(row).filter(|value| value.is_finite() && counts(row));
        let defined = rows().map(|row| u8::from(number(row).is_some())).collect();
        Some(UnitColumn { values: rows().map(|row| number(row).unwrap_or(0.0)).collect(), defined, sign })
    };
    let columns = choice.columns.iter().map(read).collect::<Option<Vec<UnitColumn>>>()?;
    let headline = scores.headline.iter().find(|headline| headline.key == key)?;
    let mean: f64 = columns.iter().map(UnitColumn::plain_mean).sum();
    let close = |value: f64| (mean - value).abs() <= ROUNDING * value.abs().max(1.0);
    let all = columns.first().map_or(0, |column| column.defined.len());
    let units = (0..all).filter(|&unit| columns.iter().any(|column| column.defined[unit] > 0)).count();
    (units > 1 && units == headline.n && headline.value.is_some_and(close)).then_some(columns)
}

/// Bootstrap means by input set and draw. All sets must have the same units. A draw takes the same units in every run
/// of every set: units are crossed with runs, not nested in them, so more runs are not more units.
pub fn resample(sets: &[&UnitValues]) -> Vec<Vec<f64>> {
    let Some(first) = sets.first() else { return Vec::new() };
    let seed = u64::from_le_bytes(std::array::from_fn(|byte| first.identity.as_bytes()[byte]));
    let mut means = vec![Vec::with_capacity(RESAMPLES); sets.len()];
    let mut counts = vec![0.0; first.len()];
    for draw in 0..RESAMPLES as u64 {
        let mut random = stream(seed, "results/units", draw);
        counts.fill(0.0);
        (0..counts.len()).for_each(|_| counts[index(first.len(), &mut random)] += 1.0);
        means.iter_mut().zip(sets).for_each(|(list, units)| list.push(units.mean(&counts)));
    }
    means
}

/// The rows that the headline is computed from: those of the first strategy if the table has rows of several, otherwise
/// all.
pub fn main_rows(table: &Table) -> Vec<usize> {
    main_rows_of(table).collect()
}

fn main_rows_of(table: &Table) -> impl Iterator<Item = usize> + '_ {
    let strategies = match table.column("strategy") {
        Some(Cells::Text(names)) if table.axis != "strategy" => names.as_slice(),
        _ => &[],
    };
    (0..table.rows()).filter(move |&row| strategies.get(row) == strategies.first())
}

/// The inputs except the representation under test.
pub(super) fn other_inputs(recipe: &Recipe) -> BTreeMap<String, String> {
    inputs_without(recipe, &TESTED)
}

/// The inputs except some. If no other input identifies the units, only results of the same representation are known to
/// share them: then all inputs.
fn inputs_without(recipe: &Recipe, left_out: &[&str]) -> BTreeMap<String, String> {
    let mut inputs = recipe.inputs.clone();
    inputs.retain(|role, _| !left_out.contains(&role.as_str()));
    if let Some(generated) = inputs.get_mut("generated") {
        *generated = without_codes(generated);
    }
    if inputs.is_empty() { recipe.inputs.clone() } else { inputs }
}

/// The hashes of generated rows without those of their codes, where their embeddings are known: codes are of the
/// representation under test.
fn without_codes(generated: &str) -> String {
    let words: Vec<&str> = generated.split(' ').collect();
    let is_hash = |index: usize| words.get(index).is_some_and(|word| word.starts_with("blake3:"));
    let kept = (0..words.len()).filter(|&index| !(is_hash(index) && is_hash(index + 1)));
    kept.map(|index| words[index]).collect::<Vec<_>>().join(" ")
}

/// `None` if the names cannot be written as JSON, which never happens to those of a file.
fn identity(run: &Stored, key: &str, choice: &Choice<'_>) -> Option<blake3::Hash> {
    let (recipe, axis) = (&run.result.recipe, choice.axis);
    let inputs = if axis == "latent" { inputs_without(recipe, &BESIDE_LATENTS) } else { other_inputs(recipe) };
    let table = run.result.scores.table(axis);
    let names = table.and_then(|table| table.column("name").or_else(|| table.column(axis)));
    let units = table.map_or(0, Table::rows);
    let (metric, profile) = (&recipe.metric, recipe.profile.name());
    let parts = (metric, recipe.version, profile, &recipe.params, inputs, key, axis, &choice.columns, units, names);
    // Written piece by piece: the names of a million units are long.
    let mut hash = BufWriter::with_capacity(1 << 16, blake3::Hasher::new());
    let written = serde_json::to_writer(&mut hash, &parts);
    written.ok().and_then(|()| hash.into_inner().ok()).map(|hash| hash.finalize())
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, run};
    use super::*;

    #[test]
    fn the_column_of_a_headline_is_found() {
        // f1 has the mean (0.2 + 0.4) / 2 = 0.3 over two defined concepts.
        let mut stored = run(Example { units: &[Some(0.2), None, Some(0.4)], ..Example::default() });
        let units = UnitValues::find(&[&stored], "score").unwrap();
        let column = &units.runs[0][0];
        assert_eq!((&column.values, &column.defined), (&vec![0.2, 0.0, 0.4], &vec![1, 0, 1]));
        // Units 0, 0 and 2: (0.2 + 0.2 + 0.4) / 3; only unit 1: undefined.
        assert!((units.mean(&[2.0, 0.0, 1.0]) - 0.8 / 3.0).abs() < 1e-15);
        assert!(units.mean(&[0.0, 3.0, 0.0]).is_nan());
        // A different mean, or a different number of units.
        let scores = stored.result.scores.clone();
        stored.result.scores.headline[0].value = Some(0.31);
        assert!(UnitValues::find(&[&stored], "score").is_none());
        stored.result.scores = scores;
        stored.result.scores.headline[0].n = 3;
        assert!(UnitValues::find(&[&stored], "score").is_none());
    }

    #[test]
    fn a_score_may_be_the_difference_of_two_columns() {
        // Three pairs: gained 0.5 and 1 where something is added, lost −1 and 0 where something is removed: 0.75 + 0.5.
        let mut scores = Scores::default();
        scores.headline("score", Some(1.25), None, 3);
        scores.headline("delta_add", Some(0.75), None, 2);
        scores.headline("delta_rem", Some(-0.5), None, 2);
        let added = [Some(0.5), Some(1.0), None];
        let removed = [None, Some(-1.0), Some(0.0)];
        scores.tables.push(Table::new("pair").numbers("delta_add", added).numbers("delta_rem", removed));
        let mut stored = run(Example::default());
        stored.result.scores = scores;
        let units = UnitValues::find(&[&stored], "score").unwrap();
        // Pairs 0, 2 and 2: 0.5 − 0.
        assert!((units.mean(&[1.0, 0.0, 2.0]) - 0.5).abs() < 1e-15);
        assert_eq!(UnitValues::find(&[&stored], "delta_rem").unwrap().runs[0].len(), 1);
    }

    #[test]
    fn units_are_the_same_on_the_same_labels() {
        let units = [Some(0.2), Some(0.4)];
        let of = |codes, labels| {
            let stored = run(Example { codes, labels, units: &units, ..Example::default() });
            UnitValues::find(&[&stored], "score").unwrap().identity
        };
        assert_eq!(of("a", "l"), of("b", "l"));
        assert_ne!(of("a", "l"), of("a", "m"));
        // Latent 0 of one dictionary is not latent 0 of another.
        let latents = |codes| {
            let stored = run(Example { codes, axis: "latent", units: &units, ..Example::default() });
            UnitValues::find(&[&stored], "score").unwrap().identity
        };
        assert_ne!(latents("a"), latents("b"));
    }

    #[test]
    fn units_that_do_not_count_are_left_out() {
        // As classes of `absorption` whose probe fails: they have a value, and the mean is 0.3 over the others.
        let mut stored = run(Example { units: &[Some(0.2), Some(0.4)], ..Example::default() });
        let table = Table::new("concept").words("name", ["a", "b", "c"]);
        let table = table.numbers("f1", [0.2, 0.9, 0.4].map(Some));
        stored.result.scores.tables = vec![table.clone()];
        assert!(UnitValues::find(&[&stored], "score").is_none());
        stored.result.scores.tables = vec![table.counts("counted", [1, 0, 1])];
        let units = UnitValues::find(&[&stored], "score").unwrap();
        assert_eq!(units.runs[0][0].defined, [1, 0, 1]);
    }

    #[test]
    fn generated_rows_are_known_by_their_embeddings() {
        assert_eq!(without_codes("sd 1.5 blake3:a blake3:b, flux blake3:c"), "sd 1.5 blake3:b, flux blake3:c");
        let of = |codes: &str, embeddings: &str| {
            let mut recipe = run(Example::default()).result.recipe;
            recipe.inputs.insert("generated".into(), format!("m blake3:{codes} blake3:{embeddings}"));
            other_inputs(&recipe)
        };
        assert_eq!(of("a", "x"), of("b", "x"));
        assert_ne!(of("a", "x"), of("a", "y"));
    }

    #[test]
    fn draws_do_not_depend_on_other_sets() {
        let (first, second) = ([Some(0.2), Some(0.4), Some(0.9)], [Some(0.1), None, Some(0.5)]);
        let stored =
            [("a", &first), ("b", &second)].map(|(codes, units)| run(Example { codes, units, ..Example::default() }));
        let found = stored.each_ref().map(|stored| UnitValues::find(&[stored], "score").unwrap());
        let together = resample(&[&found[0], &found[1]]);
        assert_eq!(together[0], resample(&[&found[0]])[0]);
        assert_eq!(together[0].len(), RESAMPLES);
        let mean = together[0].iter().sum::<f64>() / RESAMPLES as f64;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
    }
}
