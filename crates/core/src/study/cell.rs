//! A single cell of a study, evaluated by one process or in units by several.

use std::fmt;
use std::path::Path;

use super::grid::about_cell;
use super::plan_file::Study;
use crate::context::Context;
use crate::error::{Command, Error, InputError, Result};
use crate::metrics::{Evaluated, Evaluation, recipe};
use crate::results::{Archive, Stored};
use crate::run::{Kept, Mode};

/// A cell: a set, a metric and a seed. `Display` writes SET:METRIC:SEED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index of the set, for [`Study::load`].
    pub set: usize,
    /// Name of the set.
    pub name: String,
    /// Index of the metric in [`Study::metrics`].
    pub metric: usize,
    /// Name of the metric.
    pub metric_name: String,
    /// The seed.
    pub seed: u64,
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.name, self.metric_name, self.seed)
    }
}

/// How [`Study::run_cell`] ended.
#[derive(Debug, PartialEq, Eq)]
pub enum CellOutcome {
    /// The result is stored.
    Done,
    /// The units of [`Mode::Units`] are stored.
    Stored,
    /// Units of a stage have to be run before it can be merged.
    Waiting {
        /// Number and key of the stage.
        stage: String,
        /// Its missing units.
        missing: Vec<usize>,
    },
}

impl Study {
    /// All cells, in the order of `etalon run`.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (set, name) in self.sets().enumerate() {
            for metric in self.metrics_of(set) {
                let metric_name = self.metrics.get(metric).map_or("", |(chosen, _)| chosen.card().name);
                for &seed in &self.seeds {
                    let metric_name = metric_name.to_string();
                    cells.push(Cell { set, name: name.to_string(), metric, metric_name, seed });
                }
            }
        }
        cells
    }

    /// The cell with a name, written as SET:METRIC:SEED.
    pub fn cell(&self, text: &str) -> Result<Cell> {
        let cells = self.cells();
        cells.iter().find(|cell| cell.to_string() == text).cloned().ok_or_else(|| {
            InputError::new("the study has no such cell")
                .expected(format!("SET:METRIC:SEED, such as the cells that {} lists", Command("unit STUDY")))
                .found(format!("`{text}`"))
                .into()
        })
    }

    /// Evaluates a cell, or the part that `mode` selects. Stores units in a directory, and the result in the archive.
    pub fn run_cell(
        &self,
        cell: &Cell,
        mode: Mode,
        archive: &Archive,
        units: &Path,
        context: &Context,
    ) -> Result<CellOutcome> {
        let (set, _) = context.install(|| self.load(cell.set, context))?;
        let (metric, given) =
            self.metrics.get(cell.metric).ok_or_else(|| Error::Bug(format!("no metric number {}", cell.metric)))?;
        let recipe = recipe(*metric, &set.inputs, given, self.profile, cell.seed)?;
        let about = about_cell(&set);
        if archive.get(&Stored::id_of(&recipe, &about)?, context.budget())?.is_some() {
            return Ok(CellOutcome::Done);
        }
        let evaluation = Evaluation { units: Some(units), mode, ..Evaluation::default() };
        match evaluation.run(*metric, &set.inputs, &recipe, context)? {
            Evaluated::Stored => Ok(CellOutcome::Stored),
            Evaluated::Waiting { stage, missing } => Ok(CellOutcome::Waiting { stage, missing }),
            Evaluated::Done(result) => {
                archive.put(&result, &about, context.budget())?;
                Kept::new(units, &recipe.id()?).forget()?;
                Ok(CellOutcome::Done)
            }
        }
    }
}
