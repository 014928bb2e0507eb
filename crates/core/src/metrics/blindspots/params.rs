//! Parameters and ranges that the four metrics of this folder share.

use super::concept::Rules;
use crate::error::Result;
use crate::metrics::{Kind, Param};
use crate::run::Job;

pub(super) const SHARE: (f64, f64) = (0.0, 1.0);
pub(super) const CORRELATION: (f64, f64) = (-1.0, 1.0);
pub(super) const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);
pub(super) const ANY: (f64, f64) = (f64::NEG_INFINITY, f64::INFINITY);

pub(super) const TEMPERATURE: Param = Param::new(
    "temperature",
    "Temperature T of δ = sigmoid(gap / T): a gap of T moves δ from 0.5 to 0.73.",
    Kind::Number(1e-6, 1e6),
    "1",
)
.reference("0.8");

pub(super) const SUPPRESSED_BELOW: Param =
    Param::new("suppressed_below", "A concept with δ below this is suppressed.", Kind::Number(0.0, 0.5), "0.1");

pub(super) const EXAGGERATED_ABOVE: Param =
    Param::new("exaggerated_above", "A concept with δ above this is exaggerated.", Kind::Number(0.5, 1.0), "0.9");

pub(super) const RANKED: Param =
    Param::new("ranked", "Number of entries in each ranking.", Kind::Whole(0, 1_000_000), "50");

/// The rules that a job gives by [`TEMPERATURE`], [`SUPPRESSED_BELOW`] and [`EXAGGERATED_ABOVE`].
pub(super) fn rules(job: &Job<'_>) -> Result<Rules> {
    Ok(Rules {
        temperature: job.number(TEMPERATURE.name)?,
        suppressed_below: job.number(SUPPRESSED_BELOW.name)?,
        exaggerated_above: job.number(EXAGGERATED_ABOVE.name)?,
    })
}
