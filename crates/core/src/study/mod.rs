//! Studies: grids of input sets × metrics × seeds that resume if interrupted, and grids of training runs.

mod cell;
mod folder;
mod grid;
mod plan_file;
mod sanity;
mod training_grid;
mod verify;

pub use cell::{Cell, CellOutcome};
pub use grid::{Failure, Grid, GridOutcome, Set, Skipped};
pub use plan_file::{CaptureFor, Study};
pub use sanity::{Sanity, sanity_sets};
pub use training_grid::{BaselineJob, Changes, TrainingGrid, TrainingPlan};
pub use verify::{Checked, verify};
