//! What an evaluation says: scores with intervals, the recipe that gave them, and where they are kept.

mod aggregate;
mod archive;
mod bootstrap;
mod comparison;
mod current;
mod distributions;
#[cfg(test)]
mod example;
mod noise;
mod recipe;
mod repeats;
mod scores;
mod units;

pub use aggregate::Aggregate;
pub use archive::{Archive, Damaged, Metadata, Stored};
pub use bootstrap::{Interval, RESAMPLES, bootstrap_mean, percentile_interval};
pub use comparison::{Comparison, Difference};
pub use current::{CurrentResults, current, measure_key, set_key, unnamed};
pub use distributions::{normal_quantile, student_quantile};
pub use recipe::{Profile, Recipe, ResultFile};
pub use repeats::Repeats;
pub use scores::{Cells, Headline, Scores, Table};
pub use units::main_rows;
