//! One cell of a study by its name, evaluated whole or in pieces by several processes.

use std::fmt;
use std::path::Path;

use super::grid::about_cell;
use super::plan_file::Study;
use crate::context::Context;
use crate::error::{Error, InputError, Result};
use crate::metrics::{Evaluated, Evaluation, recipe};
use crate::results::{Archive, Stored};
use crate::run::{Kept, Mode};

/// A set, a metric and a seed; written as SET:METRIC:SEED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Index of the set in the study.
    pub set: usize,
    /// Name of the set.
    pub name: String,
    /// Index of the metric in the study.
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

/// What came of a cell.
#[derive(Debug, PartialEq, Eq)]
pub enum CellOutcome {
    /// Its result is stored.
    Done,
    /// The units that were asked for are stored.
    Stored,
    /// Units of a stage have to be run first.
    Waiting {
        /// The stage.
        stage: String,
        /// Its missing units.
        missing: Vec<usize>,
    },
}

impl Study {
    /// All cells, in the order in which they are run.
    pub fn cells(&self) -> Vec<Cell> {
        let mut cells = Vec::new();
        for (set, name) in self.sets().enumerate() {
            for (metric, (chosen, _)) in self.metrics.iter().enumerate() {
                for &seed in &self.seeds {
                    let metric_name = chosen.card().name.to_string();
                    cells.push(Cell { set, name: name.to_string(), metric, metric_name, seed });
                }
            }
        }
        cells
    }

    /// The cell of a name.
    pub fn cell(&self, text: &str) -> Result<Cell> {
        let cells = self.cells();
        cells.iter().find(|cell| cell.to_string() == text).cloned().ok_or_else(|| {
            InputError::new("the study has no such cell")
                .expected("SET:METRIC:SEED, such as the cells that `etalon unit STUDY` lists")
                .found(format!("`{text}`"))
                .into()
        })
    }

    /// Evaluates a cell, or a part of it; units are kept in a directory, and a finished result goes to the archive.
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
        if archive.get(&Stored::id_of(&recipe, &about)?)?.is_some() {
            return Ok(CellOutcome::Done);
        }
        let evaluation = Evaluation { units: Some(units), mode, ..Evaluation::default() };
        match evaluation.run(*metric, &set.inputs, &recipe, context)? {
            Evaluated::Stored => Ok(CellOutcome::Stored),
            Evaluated::Waiting { stage, missing } => Ok(CellOutcome::Waiting { stage, missing }),
            Evaluated::Done(result) => {
                archive.put(&result, &about)?;
                Kept::new(units, &recipe.id()?).forget()?;
                Ok(CellOutcome::Done)
            }
        }
    }
}
