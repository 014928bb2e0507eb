//! What an evaluation says: scores with intervals, the recipe that gave them, and where they are kept.

mod archive;
mod bootstrap;
mod recipe;
mod repeats;
pub mod saebench;
mod scores;

pub use archive::{About, Archive, Damaged, Stored};
pub use bootstrap::{Interval, RESAMPLES, bootstrap_mean, percentile_interval};
pub use recipe::{Profile, Recipe, ResultFile};
pub use repeats::Repeats;
pub use scores::{Cells, Headline, Scores, Table};
