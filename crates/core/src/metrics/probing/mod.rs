//! What the metrics that are built on probes share: tasks, draws of rows, choices of columns, dense probes.

pub mod dense;
pub mod draw;
pub mod space;
pub mod summary;
pub mod tasks;

use super::{Kind, Param};
use crate::error::Result;
use crate::run::Job;

/// How often splits and negatives are redrawn.
pub const REPEATS: Param = Param {
    name: "repeats",
    doc: "How often splits and negatives are redrawn: the noise is measured from these.",
    kind: Kind::Whole(1, 10_000),
    several: false,
    default: "10",
    reference: Some("1"),
};

/// The share of the rows of a class that is tested on.
pub const TEST_SHARE: Param = Param {
    name: "test_share",
    doc: "The share of the rows that probes are tested on.",
    kind: Kind::Number(0.01, 0.9),
    several: false,
    default: "0.2",
    reference: None,
};

/// The share of the rows of a class that choices are made on.
pub const VALIDATION_SHARE: Param = Param {
    name: "validation_share",
    doc: "The share of the rows that choices between probes are made on; 0: on the test rows.",
    kind: Kind::Number(0.0, 0.9),
    several: false,
    default: "0.16",
    reference: Some("0"),
};

/// Bounds the cost of a task.
pub const MOST_POSITIVES: Param = Param {
    name: "most_positives",
    doc: "At most so many positive rows of a task are used, all parts together.",
    kind: Kind::Whole(4, u64::MAX),
    several: false,
    default: "2500",
    reference: None,
};

/// The inverse strength of the penalty.
pub const C: Param = Param {
    name: "c",
    doc: "The inverse strength of the penalty (profile `paper`).",
    kind: Kind::Number(1e-9, 1e9),
    several: false,
    default: "1",
    reference: None,
};

/// The whole numbers of a parameter, ascending, each once.
pub fn ascending(job: &Job<'_>, name: &str) -> Result<Vec<usize>> {
    let mut numbers: Vec<usize> =
        job.several(name)?.iter().filter_map(serde_json::Value::as_u64).map(|number| number as usize).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}
