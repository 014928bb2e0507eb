//! Recipes, which identify a result by hash, and the JSON of result files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::bootstrap::Interval;
use super::scores::{Cells, Headline, Scores, Table};
use crate::error::{Error, InputError, Result};

/// Which definition of a metric to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Profile {
    /// The published definition, with evident slips corrected.
    #[default]
    Paper,
    /// The numbers of the released program, quirks included.
    Reference,
}

impl Profile {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Profile::Paper => "paper",
            Profile::Reference => "reference",
        }
    }
}

/// Everything that determines a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Recipe {
    /// The metric's name.
    pub metric: String,
    /// The version of its definition.
    pub version: u32,
    /// The profile.
    pub profile: Profile,
    /// The seed.
    pub seed: u64,
    /// Parameters, defaults included.
    pub params: BTreeMap<String, Value>,
    /// Content hashes of the inputs, by role.
    pub inputs: BTreeMap<String, String>,
}

impl Recipe {
    /// The hash of the recipe, which names its result.
    pub fn id(&self) -> Result<String> {
        let text = serde_json::to_vec(self).map_err(|error| Error::Bug(format!("recipe to JSON: {error}")))?;
        Ok(blake3::hash(&text).to_hex()[..32].to_string())
    }
}

/// A result: recipe, scores and run time.
#[derive(Clone, Debug, PartialEq)]
pub struct ResultFile {
    /// The version of this program.
    pub etalon: String,
    /// The recipe.
    pub recipe: Recipe,
    /// The scores.
    pub scores: Scores,
    /// The run time, which is not part of the recipe.
    pub seconds: f64,
}

impl ResultFile {
    /// The JSON of a result file.
    pub fn to_json(&self) -> Result<Value> {
        let bug = |error: serde_json::Error| Error::Bug(format!("result to JSON: {error}"));
        let headline: Map<String, Value> = self
            .scores
            .headline
            .iter()
            .map(|h| {
                let (low, high) = (h.interval.map(|i| i.low), h.interval.map(|i| i.high));
                (h.key.clone(), json!({"value": h.value, "low": low, "high": high, "n": h.n}))
            })
            .collect();
        let mut tables = Map::new();
        for table in &self.scores.tables {
            let mut columns = Map::new();
            for (name, cells) in &table.columns {
                columns.insert(name.clone(), serde_json::to_value(cells).map_err(bug)?);
            }
            tables.insert(table.axis.clone(), Value::Object(columns));
        }
        Ok(json!({
            "etalon": self.etalon,
            "metric": self.recipe.metric,
            "version": self.recipe.version,
            "profile": self.recipe.profile,
            "seed": self.recipe.seed,
            "params": self.recipe.params,
            "inputs": self.recipe.inputs,
            "headline": headline,
            "tables": tables,
            "notes": self.scores.notes,
            "seconds": self.seconds,
        }))
    }

    /// Reads the JSON of a result file.
    pub fn from_json(value: &Value) -> Result<ResultFile> {
        let wrong = |field: &str| -> Error {
            InputError::new("not a result file of Etalon").at(format!("field `{field}`")).into()
        };
        let field = |name: &str| value.get(name).ok_or_else(|| wrong(name));
        fn parse<T: serde::de::DeserializeOwned>(name: &str, value: &Value) -> Result<T> {
            serde_json::from_value(value.clone()).map_err(|error| {
                InputError::new("not a result file of Etalon").at(format!("field `{name}`")).found(error).into()
            })
        }
        let mut scores = Scores { notes: parse("notes", field("notes")?)?, ..Scores::default() };
        for (key, entry) in field("headline")?.as_object().ok_or_else(|| wrong("headline"))? {
            let number = |name: &str| entry.get(name).and_then(Value::as_f64);
            let interval = number("low").zip(number("high")).map(|(low, high)| Interval { low, high });
            let n = entry.get("n").and_then(Value::as_u64).unwrap_or(0) as usize;
            scores.headline.push(Headline { key: key.clone(), value: number("value"), interval, n });
        }
        for (axis, columns) in field("tables")?.as_object().ok_or_else(|| wrong("tables"))? {
            let mut table = Table::new(axis);
            for (name, cells) in columns.as_object().ok_or_else(|| wrong("tables"))? {
                table.columns.push((name.clone(), parse::<Cells>(name, cells)?));
            }
            scores.tables.push(table);
        }
        Ok(ResultFile {
            etalon: parse("etalon", field("etalon")?)?,
            recipe: Recipe {
                metric: parse("metric", field("metric")?)?,
                version: parse("version", field("version")?)?,
                profile: parse("profile", field("profile")?)?,
                seed: parse("seed", field("seed")?)?,
                params: parse("params", field("params")?)?,
                inputs: parse("inputs", field("inputs")?)?,
            },
            scores,
            seconds: value.get("seconds").and_then(Value::as_f64).unwrap_or(0.0),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> ResultFile {
        let mut scores = Scores::default();
        scores.headline("match_score", Some(0.5), Some(Interval { low: 0.4, high: 0.6 }), 24);
        scores.headline("delta_match_score", None, None, 0);
        scores.note("one concept has no positive row: undefined");
        scores.tables.push(
            Table::new("concept")
                .words("name", ["a", "b"])
                .numbers("f1", [Some(0.5), None])
                .with("coalition", Cells::WholeLists(vec![vec![4, 36], vec![]]))
                .with("f1_by_step", Cells::NumberLists(vec![vec![Some(0.25), Some(0.5)], vec![]])),
        );
        let recipe = Recipe {
            metric: "match".into(),
            version: 1,
            profile: Profile::Paper,
            seed: 7,
            params: BTreeMap::from([("k".into(), json!(3))]),
            inputs: BTreeMap::from([("codes".into(), "blake3:00".into())]),
        };
        ResultFile { etalon: "0.1.0".into(), recipe, scores, seconds: 0.25 }
    }

    #[test]
    fn round_trip() {
        let result = example();
        let json = result.to_json().unwrap();
        assert_eq!(json["tables"]["concept"]["f1"], json!([0.5, null]));
        assert_eq!(ResultFile::from_json(&json).unwrap(), result);
    }

    #[test]
    fn the_run_time_does_not_change_the_id() {
        let mut other = example();
        other.seconds = 99.0;
        assert_eq!(other.recipe.id().unwrap(), example().recipe.id().unwrap());
        other.recipe.seed = 8;
        assert_ne!(other.recipe.id().unwrap(), example().recipe.id().unwrap());
    }
}
