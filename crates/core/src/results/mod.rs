//! Results of evaluations: scores with intervals, their recipes, the archive that stores them, and statistics over
//! seeds and input sets.
//!
//! ```
//! use etalon::results::{Scores, Table};
//!
//! // The rate of the second latent is undefined.
//! let rates = vec![Some(0.5), None, Some(1.0)];
//! let mut scores = Scores::default();
//! scores.headline_mean("rate", &rates);
//! scores.tables.push(Table::new("latent").numbers("rate", rates));
//! assert_eq!((scores.value("rate"), scores.headline[0].n), (Some(0.75), 2));
//! ```

mod aggregate;
mod archive;
mod bootstrap;
mod cells;
mod comparison;
mod current;
mod distributions;
#[cfg(test)]
mod example;
mod fields;
mod noise;
mod rank_agreement;
mod recipe;
mod repeats;
mod replicates;
mod review;
mod scores;
mod stored;
mod units;

pub use aggregate::Aggregate;
pub use archive::{Archive, Damaged};
pub use bootstrap::{Interval, RESAMPLES, bootstrap_mean, percentile_interval, share_interval};
pub use cells::Cells;
pub use comparison::{Comparison, Difference};
pub use current::{CurrentResults, current, measure_key, seedless_key, seedless_name, set_key, unnamed};
pub use distributions::{normal_quantile, student_quantile};
pub(crate) use fields::Headlines;
pub use rank_agreement::RankAgreement;
pub use recipe::{Profile, Recipe, ResultFile};
pub use repeats::Repeats;
pub use review::{ReviewedImage, cohens_kappa, fisher_exact, review};
pub use scores::{Headline, Scores, Table};
pub use stored::{Metadata, Stored};
pub use units::main_rows;
