//! All headline numbers as CSV, for spreadsheets and data frames.

use std::collections::BTreeSet;

use super::gather::{Gathered, setting};
use super::words::tidy;
use crate::error::Result;
use crate::results::{Stored, seedless_name};
use crate::store::csv_text;

/// One row per result and headline number. `seed` is that of the evaluation, `dictionary_seed` that of the training, if
/// the metadata or the name of the dictionary has one. Columns with other metadata of the inputs follow.
pub fn csv(results: &[Stored]) -> Result<String> {
    let gathered = Gathered::of(results);
    let fixed =
        ["metric", "version", "profile", "seed", "dictionary_seed", "key", "value", "low", "high", "n", "params", "id"];
    let about: BTreeSet<&String> =
        results.iter().flat_map(|stored| stored.about.keys()).filter(|name| *name != "seed").collect();
    let named = about
        .iter()
        .map(|name| if fixed.contains(&name.as_str()) { format!("about {name}") } else { name.to_string() });
    let header: Vec<String> = fixed.iter().map(|name| name.to_string()).chain(named).map(|name| cell(&name)).collect();
    let mut records = vec![header];
    for measure in 0..gathered.measures.len() {
        for stored in (0..gathered.sets.len()).flat_map(|set| gathered.runs(measure, set)) {
            let recipe = &stored.result.recipe;
            let params: Vec<String> =
                recipe.params.iter().map(|(name, value)| format!("{name}={}", setting(value))).collect();
            for headline in &stored.result.scores.headline {
                let number =
                    |value: Option<f64>| value.filter(|v| v.is_finite()).map_or(String::new(), |v| v.to_string());
                let mut row = vec![
                    cell(&recipe.metric),
                    recipe.version.to_string(),
                    recipe.profile.name().to_string(),
                    recipe.seed.to_string(),
                    dictionary_seed(stored),
                    cell(&headline.key),
                    number(headline.value),
                    number(headline.interval.map(|interval| interval.low)),
                    number(headline.interval.map(|interval| interval.high)),
                    headline.n.to_string(),
                    cell(&params.join("; ")),
                    cell(&stored.id),
                ];
                row.extend(
                    about.iter().map(|name| stored.about.get(*name).map_or(String::new(), |v| cell(&setting(v)))),
                );
                records.push(row);
            }
        }
    }
    csv_text(records)
}

/// The seed of the dictionary; empty if it is unknown.
fn dictionary_seed(stored: &Stored) -> String {
    let named = || seedless_name(stored.about.get("inputs")?.as_str()?).1.map(|seed| seed.to_string());
    stored.about.get("seed").map(|seed| cell(&setting(seed))).or_else(named).unwrap_or_default()
}

/// An untrusted text as a cell. Spreadsheets execute text that begins like a formula, so it gets an apostrophe.
fn cell(text: &str) -> String {
    let text = tidy(text);
    let is_formula = text.trim_start().starts_with(['=', '+', '-', '@']);
    if is_formula && !text.trim().parse::<f64>().is_ok_and(f64::is_finite) { format!("'{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::cell;

    #[test]
    fn formulas_are_escaped_and_numbers_are_not() {
        let cases = [
            ("=1+1", "'=1+1"),
            ("@SUM(A1)", "'@SUM(A1)"),
            (" =1", "' =1"),
            ("-0.5", "-0.5"),
            ("+3", "+3"),
            ("-inf", "'-inf"),
            ("two\nlines", "two lines"),
        ];
        for (text, expected) in cases {
            assert_eq!(cell(text), expected);
        }
    }
}
