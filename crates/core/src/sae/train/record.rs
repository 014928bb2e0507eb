//! The training curve, stored in the metadata of the trained dictionary.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::log::Line;

/// Approximate number of points; the last step is always one.
const POINTS: u64 = 100;

/// The key of the record in the metadata.
const FIELD: &str = "record";

/// The training curve at about a hundred steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The points, by step.
    pub points: Vec<Point>,
}

/// The training curve at one step, measured on the batch of that step before its update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The step, from 0.
    pub step: u64,
    /// The total loss.
    pub loss: Option<f64>,
    /// Explained variance of the batch.
    pub explained_variance: Option<f64>,
    /// Active latents per row.
    pub l0: f64,
    /// Share of dead latents.
    pub dead: f64,
}

impl Record {
    /// Whether a step is recorded.
    pub(super) fn includes(step: u64, steps: u64) -> bool {
        step.is_multiple_of((steps / POINTS).max(1)) || step + 1 == steps
    }

    /// Adds a step.
    pub(super) fn push(&mut self, line: &Line) {
        self.points.push(Point {
            step: line.step,
            loss: line.terms.get("loss").and_then(Value::as_f64),
            explained_variance: line.explained_variance,
            l0: line.l0,
            dead: line.dead,
        });
    }

    /// Adds the record to the metadata of a dictionary.
    pub(super) fn insert_into(&self, about: &mut Map<String, Value>) {
        about.insert(FIELD.into(), json!(self.points));
    }

    /// The record in the metadata of a dictionary; none if there is no valid record.
    pub fn of(about: &Map<String, Value>) -> Option<Record> {
        let points: Vec<Point> = serde_json::from_value(about.get(FIELD)?.clone()).ok()?;
        (!points.is_empty()).then_some(Record { points })
    }

    /// The content hash.
    pub fn id(&self) -> String {
        format!("blake3:{}", blake3::hash(json!(self.points).to_string().as_bytes()).to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_a_hundred_steps_and_the_last_are_recorded() {
        let recorded = |steps: u64| (0..steps).filter(|&step| Record::includes(step, steps)).collect::<Vec<_>>();
        assert_eq!(recorded(5), [0, 1, 2, 3, 4]);
        // Every second step, and the last.
        assert_eq!(recorded(202).len(), 102);
        assert_eq!(recorded(202).last(), Some(&201));
        assert!(recorded(199_999).len() <= 102);
    }

    #[test]
    fn a_record_is_read_back_unchanged() {
        let point = Point { step: 7, loss: Some(0.1 + 0.2), explained_variance: None, l0: 3.5, dead: 0.25 };
        let record = Record { points: vec![point.clone(), Point { step: 8, ..point }] };
        let mut about = Map::new();
        assert_eq!(Record::of(&about), None);
        record.insert_into(&mut about);
        assert_eq!(Record::of(&about), Some(record));
        about.insert(FIELD.into(), json!([{"step": "seven"}]));
        assert_eq!(Record::of(&about), None);
    }
}
