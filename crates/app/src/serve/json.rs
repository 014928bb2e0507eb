//! JSON of the data addresses. Large values are serialised without a copy.

use etalon::error::{Error, Result};
use etalon::input::MapLayout;
use etalon::results::{ResultFile, Scores, Stored, Table};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use super::samples::Samples;

/// The JSON of one address.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Json<'a> {
    /// Created for this request.
    New(Value),
    /// Created when the directory was read.
    Kept(&'a Value),
    /// A result.
    #[serde(serialize_with = "write_result")]
    Result(Map<String, Value>, &'a [Table]),
    /// A layout of latents.
    #[serde(serialize_with = "write_layout")]
    Layout(&'a MapLayout),
    /// All samples.
    #[serde(serialize_with = "write_samples")]
    Samples(&'a Samples),
}

impl Json<'_> {
    /// A result with its id and the description of its inputs.
    pub fn result(stored: &Stored) -> Result<Json<'_>> {
        let Scores { headline, notes, .. } = &stored.result.scores;
        let scores = Scores { headline: headline.clone(), notes: notes.clone(), tables: Vec::new() };
        let (etalon, recipe) = (stored.result.etalon.clone(), stored.result.recipe.clone());
        let mut fields = ResultFile { etalon, recipe, scores, seconds: stored.result.seconds }.to_json()?;
        fields["id"] = json!(stored.id);
        fields["about"] = json!(stored.about);
        match fields {
            Value::Object(fields) => Ok(Json::Result(fields, &stored.result.scores.tables)),
            _ => Err(Error::Bug("a result is not a JSON object".into())),
        }
    }
}

fn write_result<S: Serializer>(fields: &Map<String, Value>, tables: &&[Table], out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(fields.len()))?;
    for (name, value) in fields {
        match name.as_str() {
            "tables" => map.serialize_entry(name, &Tables(tables))?,
            _ => map.serialize_entry(name, value)?,
        }
    }
    map.end()
}

struct Tables<'a>(&'a [Table]);
struct Columns<'a>(&'a Table);

impl Serialize for Tables<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.iter().map(|table| (&table.axis, Columns(table))))
    }
}

impl Serialize for Columns<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_map(self.0.columns.iter().map(|(name, cells)| (name, cells)))
    }
}

fn write_layout<S: Serializer>(layout: &&MapLayout, out: S) -> Result<S::Ok, S::Error> {
    let mut map = out.serialize_map(Some(4))?;
    map.serialize_entry("latent", &layout.latents)?;
    map.serialize_entry("x", &Doubles(&layout.x))?;
    map.serialize_entry("y", &Doubles(&layout.y))?;
    map.serialize_entry("name", &layout.names)?;
    map.end()
}

/// Values converted to `f64`, printed with all digits.
struct Doubles<'a>(&'a [f32]);

impl Serialize for Doubles<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_seq(self.0.iter().map(|&value| f64::from(value)))
    }
}

fn write_samples<S: Serializer>(samples: &&Samples, out: S) -> Result<S::Ok, S::Error> {
    out.collect_seq(samples.all())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use etalon::results::{Cells, Interval, Profile, Recipe};

    use super::*;

    #[test]
    fn a_result_is_written_as_its_json() {
        let mut scores = Scores::default();
        scores.headline("match_score", Some(0.1 + 0.2), Some(Interval { low: 0.25, high: 0.4 }), 24);
        scores.note("a note");
        let steps = Cells::NumberLists(vec![vec![Some(0.5), None], vec![]]);
        scores.tables.push(Table::new("concept").words("name", ["ä", "b"]).numbers("f1", [Some(1.0 / 3.0), None]));
        scores.tables.push(Table::new("latent").counts("fired", [7, 0]).with("steps", steps));
        let recipe = Recipe {
            metric: "match".into(),
            version: 1,
            profile: Profile::Paper,
            seed: 3,
            params: BTreeMap::from([("beta".into(), json!(0.5))]),
            inputs: BTreeMap::from([("codes".into(), "blake3:00".into())]),
        };
        let result = ResultFile { etalon: "0.1.0".into(), recipe, scores, seconds: 0.25 };
        let mut expected = result.to_json().unwrap();
        let stored = Stored::new(result, BTreeMap::from([("inputs".into(), json!("trained"))])).unwrap();
        expected["id"] = json!(stored.id);
        expected["about"] = json!(stored.about);
        assert_eq!(serde_json::to_string(&Json::result(&stored).unwrap()).unwrap(), expected.to_string());
    }

    #[test]
    fn a_layout_is_written_in_double_precision() {
        let layout = MapLayout { latents: vec![4], x: vec![0.1], y: vec![2.0], names: vec!["red".into()] };
        let expected = json!({"latent": [4], "x": [0.1f32], "y": [2.0], "name": ["red"]});
        assert_eq!(serde_json::to_string(&Json::Layout(&layout)).unwrap(), expected.to_string());
    }
}
