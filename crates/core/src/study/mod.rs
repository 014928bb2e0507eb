//! Studies: grids of input sets × metrics × seeds, resumable, kept in one results directory; and grids of trainings.

mod cell;
mod folder;
mod grid;
mod plan_file;
mod sanity;
mod training_grid;
mod verify;

pub use cell::{Cell, CellOutcome};
pub use grid::{Failure, Grid, GridOutcome, Set};
pub use plan_file::Study;
pub use sanity::{Sanity, sanity_sets};
pub use training_grid::{BaselineJob, Changes, TrainingGrid, TrainingPlan};
pub use verify::{Checked, verify};
