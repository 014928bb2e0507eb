//! Results of evaluations: scores with intervals, their recipes, the archive that stores them, and statistics over
//! seeds and input sets.

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
mod replicates;
mod scores;
mod stored;
mod units;

pub use aggregate::Aggregate;
pub use archive::{Archive, Damaged};
pub use bootstrap::{Interval, RESAMPLES, bootstrap_mean, percentile_interval, share_interval};
pub use comparison::{Comparison, Difference};
pub use current::{CurrentResults, current, measure_key, seedless_key, seedless_name, set_key, unnamed};
pub use distributions::{normal_quantile, student_quantile};
pub use recipe::{Profile, Recipe, ResultFile};
pub use repeats::Repeats;
pub use scores::{Cells, Headline, Scores, Table};
pub use stored::{Metadata, Stored};
pub use units::main_rows;
