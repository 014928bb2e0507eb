//! Which results are current. The inputs behind a name may change: labels are corrected, a dictionary is trained again.
//! Of the results of one measure under one name, those with the same inputs as the newest file are current. The others
//! are superseded and are never part of a mean.

use std::collections::BTreeMap;

use serde_json::Value;

use super::stored::Stored;

/// Current and superseded results, each in the given order.
pub struct CurrentResults<'a> {
    /// The current ones: those of one name and one measure have the same inputs.
    pub current: Vec<&'a Stored>,
    /// Those whose inputs differ from those of the newest result of their name and measure.
    pub superseded: Vec<&'a Stored>,
}

/// Separates current from superseded results by the time of their files; the id breaks ties, so that the order of
/// `results` does not matter.
pub fn current<'a>(results: impl IntoIterator<Item = &'a Stored>) -> CurrentResults<'a> {
    let results: Vec<&Stored> = results.into_iter().collect();
    let mut newest: BTreeMap<(String, String), &Stored> = BTreeMap::new();
    let keys = |stored: &Stored| (measure_key(stored), set_key(stored));
    for &stored in &results {
        let newest = newest.entry(keys(stored)).or_insert(stored);
        if (stored.written, &stored.id) > (newest.written, &newest.id) {
            *newest = stored;
        }
    }
    let is_current = |stored: &&Stored| {
        newest.get(&keys(stored)).is_none_or(|newest| newest.result.recipe.inputs == stored.result.recipe.inputs)
    };
    let (current, superseded) = results.into_iter().partition(is_current);
    CurrentResults { current, superseded }
}

/// Identifies an input set: all strings and integers of its metadata. Measured numbers, such as L0, may differ between
/// seeds.
pub fn set_key(stored: &Stored) -> String {
    key(stored, |name| Value::from(name))
}

/// Identifies input sets that differ only in the seed of their dictionary.
pub fn seedless_key(stored: &Stored) -> String {
    key(stored, |name| Value::from(seedless_name(name).0))
}

fn key(stored: &Stored, name_of: impl Fn(&str) -> Value) -> String {
    let identifies = |name: &str, value: &Value| {
        !matches!(name, "seed" | "l0" | "description") && !value.as_number().is_some_and(|number| number.is_f64())
    };
    let text = |name: &str, value: &Value| match value.as_str().filter(|_| name == "inputs") {
        Some(inputs) => name_of(inputs).to_string(),
        None => value.to_string(),
    };
    let about: Vec<String> = stored
        .about
        .iter()
        .filter(|(name, value)| identifies(name, value))
        .map(|(name, value)| format!("{name}={}", text(name, value)))
        .collect();
    if stored.about.contains_key("inputs") {
        about.join(" ")
    } else {
        format!("{} {}", unnamed(stored), about.join(" "))
    }
}

/// A name without the seed of the dictionary, and that seed: `topk-512-seed3` is `topk-512` with seed 3.
pub fn seedless_name(name: &str) -> (String, Option<u64>) {
    const SEPARATORS: [char; 5] = ['-', '_', ' ', ',', '='];
    let at = |start: usize| {
        let (before, after) = (&name[..start], &name[start + "seed".len()..]);
        let digits = after.trim_start_matches(SEPARATORS);
        let rest = digits.trim_start_matches(|c: char| c.is_ascii_digit());
        let seed = digits[..digits.len() - rest.len()].parse().ok()?;
        let is_part = before.ends_with(SEPARATORS) && (rest.is_empty() || rest.starts_with(SEPARATORS));
        is_part.then(|| (format!("{}{rest}", before.trim_end_matches(SEPARATORS)), Some(seed)))
    };
    let found = name.match_indices("seed").find_map(|(start, _)| at(start));
    found.filter(|(rest, _)| !rest.is_empty()).unwrap_or_else(|| (name.into(), None))
}

/// Identifies a measure: a metric with its version, profile and parameters.
pub fn measure_key(stored: &Stored) -> String {
    let recipe = &stored.result.recipe;
    let params: Vec<String> = recipe.params.iter().map(|(name, value)| format!("{name}={value}")).collect();
    format!("{} {} {} {}", recipe.metric, recipe.version, recipe.profile.name(), params.join(" "))
}

/// The name of unnamed inputs: the start of a content hash.
pub fn unnamed(stored: &Stored) -> String {
    let inputs = &stored.result.recipe.inputs;
    match inputs.get("codes").or_else(|| inputs.values().next()) {
        Some(id) => id.trim_start_matches("blake3:").chars().take(8).collect(),
        None => "unnamed".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use serde_json::json;

    use super::*;
    use crate::results::{Metadata, Profile, Recipe, ResultFile, Scores};

    fn stored(metric: &str, seed: u64, labels: &str, second: Option<u64>) -> Stored {
        let inputs = [("codes", "blake3:c"), ("labels", labels)];
        let recipe = Recipe {
            metric: metric.into(),
            version: 1,
            profile: Profile::Paper,
            seed,
            params: BTreeMap::new(),
            inputs: inputs.map(|(role, id)| (role.into(), id.into())).into(),
        };
        let result = ResultFile { etalon: "0".into(), recipe, scores: Scores::default(), seconds: 0.0 };
        let mut stored = Stored::new(result, Metadata::from([("inputs".into(), json!("mine"))])).unwrap();
        stored.written = second.map(|second| SystemTime::UNIX_EPOCH + Duration::from_secs(second));
        stored
    }

    fn labels<'a>(results: &[&'a Stored]) -> Vec<&'a str> {
        results.iter().map(|stored| stored.result.recipe.inputs["labels"].as_str()).collect()
    }

    #[test]
    fn the_inputs_of_the_newest_result_are_current() {
        // `match` on old labels, then on new ones with two seeds; `tapa` only on the old ones, so it stays current.
        let mut results = vec![
            stored("match", 0, "old", Some(1)),
            stored("match", 1, "old", Some(2)),
            stored("match", 0, "new", Some(3)),
            stored("tapa", 0, "old", Some(2)),
            stored("match", 1, "new", Some(4)),
        ];
        let found = current(&results);
        assert_eq!(labels(&found.current), ["new", "old", "new"]);
        assert_eq!(labels(&found.superseded), ["old", "old"]);
        // Back to the old labels: a run that keeps their results renews the time of the files.
        results[0].written = Some(SystemTime::UNIX_EPOCH + Duration::from_secs(5));
        assert_eq!(labels(&current(&results).superseded), ["new", "new"]);
    }

    #[test]
    fn names_are_split_into_dictionary_and_seed() {
        for (name, expected) in [
            ("topk-512-k16-seed0", ("topk-512-k16", Some(0))),
            ("topk, 512 latents, seed 12", ("topk, 512 latents", Some(12))),
            ("topk_seed=3_layer4", ("topk_layer4", Some(3))),
            ("seed3", ("seed3", None)),
            ("birdseed-3", ("birdseed-3", None)),
            ("topk-seed", ("topk-seed", None)),
            ("topk-seed3x", ("topk-seed3x", None)),
        ] {
            assert_eq!(seedless_name(name), (expected.0.to_string(), expected.1), "{name}");
        }
    }

    #[test]
    fn an_additional_input_supersedes() {
        let plain = stored("match", 0, "l", Some(1));
        let mut more = stored("match", 1, "l", Some(2));
        more.result.recipe.inputs.insert("nulls".into(), "blake3:n".into());
        let results = [plain, more];
        assert_eq!(current(&results).superseded, [&results[0]]);
    }

    #[test]
    fn without_times_the_order_of_results_does_not_matter() {
        let mut results = vec![stored("match", 0, "a", None), stored("match", 0, "b", None)];
        let first = labels(&current(&results).current).join(" ");
        results.reverse();
        assert_eq!(labels(&current(&results).current).join(" "), first);
        assert_eq!(current(&results).current.len(), 1);
    }
}
