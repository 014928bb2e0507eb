//! Shared code of the probing metrics: tasks, draws of rows, choice of columns, dense probes, averages.

mod blocks;
pub mod dense;
pub mod draw;
pub mod space;
pub mod summary;
pub mod tasks;
pub mod test_rows;

pub use blocks::{Probing, with_tasks};

use super::{Kind, Param};
use crate::error::Result;
use crate::run::Job;

/// The interval of probes.
pub const INTERVAL: &str = "Student's t over repeats, with the standard error enlarged by test rows / training rows \
    because splits overlap (Nadeau and Bengio 2003). With one repeat, which is the default for probes on all columns: from the \
    test rows, because one split does not show the variation of rows. The variance is the sum over rows of their squared part \
    in the score (of AUC: DeLong's; of F1: first order), a row counts once in all tasks that it tests, and the interval is \
    Wilson's for as many rows as have this variance. It does not include the variation of training rows, which adds \
    little. Cost: one sort of the test rows. In simulations with 600 and 2,000 rows, intervals over repeats contain the expected \
    value in 96 to 100 % of data sets and those from one repeat in 98 to 100 %: they are rather too wide.";

/// Number of random draws.
pub const REPEATS: Param =
    Param::new("repeats", "Number of random draws of splits and negatives.", Kind::Whole(1, 10_000), "10")
        .reference("1");

/// Share of test rows.
pub const TEST_SHARE: Param =
    Param::new("test_share", "Share of the rows that probes are tested on.", Kind::Number(0.01, 0.9), "0.2");

/// Share of validation rows.
pub const VALIDATION_SHARE: Param =
    Param::new("validation_share", "Share of rows for model selection; 0: test rows.", Kind::Number(0.0, 0.9), "0.16")
        .reference("0");

/// Limits the cost of a task.
pub const MOST_POSITIVES: Param =
    Param::new("most_positives", "Maximum number of positive rows per task.", Kind::Whole(4, u64::MAX), "2500");

/// Inverse strength of the penalty.
pub const C: Param =
    Param::new("c", "Inverse strength of the L2 penalty (profile `paper`).", Kind::Number(1e-9, 1e9), "1");

/// Number of repeats with probes on all columns.
pub const FULL_REPEATS: Param =
    Param::new("full_repeats", "Number of repeats with probes on all columns.", Kind::Whole(0, 10_000), "1");

/// The values of a list parameter, ascending, each once.
pub fn ascending(job: &Job<'_>, name: &str) -> Result<Vec<usize>> {
    let mut numbers: Vec<usize> =
        job.several(name)?.iter().filter_map(serde_json::Value::as_u64).map(|number| number as usize).collect();
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}
