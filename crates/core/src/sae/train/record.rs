//! How a training went, kept in the dictionary it made.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::log::Line;

/// Points that a record has, about; the last step is always one.
const POINTS: u64 = 100;

/// The name under which a dictionary keeps its record.
const FIELD: &str = "record";

/// A training at about a hundred of its steps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// In the order of steps.
    pub points: Vec<Point>,
}

/// A training at one step. Everything is about the batch of that step, before its update.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Steps done before.
    pub step: u64,
    /// The whole loss.
    pub loss: Option<f64>,
    /// The share of the batch's variance that is reconstructed.
    pub explained_variance: Option<f64>,
    /// Active latents per row.
    pub l0: f64,
    /// The share of latents that have been silent for too long.
    pub dead: f64,
}

impl Record {
    /// Is a step one of those that are kept?
    pub(super) fn wants(step: u64, steps: u64) -> bool {
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

    /// Puts it with what else is said about a dictionary.
    pub(super) fn keep(&self, about: &mut Map<String, Value>) {
        about.insert(FIELD.into(), json!(self.points));
    }

    /// What a dictionary says about its training; none if it has no record, or one that cannot be understood.
    pub fn of(about: &Map<String, Value>) -> Option<Record> {
        let points: Vec<Point> = serde_json::from_value(about.get(FIELD)?.clone()).ok()?;
        (!points.is_empty()).then_some(Record { points })
    }

    /// A name that depends on its content alone.
    pub fn id(&self) -> String {
        format!("blake3:{}", blake3::hash(json!(self.points).to_string().as_bytes()).to_hex())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn about_a_hundred_steps_and_the_last_are_kept() {
        let kept = |steps: u64| (0..steps).filter(|&step| Record::wants(step, steps)).collect::<Vec<_>>();
        assert_eq!(kept(5), [0, 1, 2, 3, 4]);
        // Every second, and the last.
        assert_eq!(kept(202).len(), 102);
        assert_eq!(kept(202).last(), Some(&201));
        assert!(kept(199_999).len() <= 102);
    }

    #[test]
    fn it_comes_back_as_it_went() {
        let point = Point { step: 7, loss: Some(0.1 + 0.2), explained_variance: None, l0: 3.5, dead: 0.25 };
        let record = Record { points: vec![point.clone(), Point { step: 8, ..point }] };
        let mut about = Map::new();
        assert_eq!(Record::of(&about), None);
        record.keep(&mut about);
        assert_eq!(Record::of(&about), Some(record));
        about.insert(FIELD.into(), json!([{"step": "seven"}]));
        assert_eq!(Record::of(&about), None);
    }
}
