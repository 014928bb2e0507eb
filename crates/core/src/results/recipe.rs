//! Recipes, which identify a result by hash, and results.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::scores::Scores;
use crate::error::{Error, Result};

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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::results::{Cells, Interval, Table};

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
