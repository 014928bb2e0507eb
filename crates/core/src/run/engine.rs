//! The local engine: units on N threads, tallies merged along a fixed tree.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Blocks, Job, Next, Pass, Plan, Rows, Tally};
use crate::budget::Budget;
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::results::Scores;
use crate::store::disk;

/// Runs the work of one metric after the other.
pub struct Engine<'a> {
    pool: rayon::ThreadPool,
    /// The memory there is.
    pub budget: Budget,
    progress: &'a dyn Progress,
    cancel: &'a AtomicBool,
    /// Where finished units are kept, so that a killed run loses at most one of them.
    units: Option<PathBuf>,
}

impl<'a> Engine<'a> {
    /// An engine of some threads (0: one per core).
    pub fn new(
        threads: usize,
        budget: Budget,
        progress: &'a dyn Progress,
        cancel: &'a AtomicBool,
    ) -> Result<Engine<'a>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(|error| Error::Bug(format!("no threads: {error}")))?;
        Ok(Engine { pool, budget, progress, cancel, units: None })
    }

    /// Keeps finished units in a directory and takes up the valid ones that are there.
    pub fn keep_units_in(mut self, directory: PathBuf) -> Engine<'a> {
        self.units = Some(directory);
        self
    }

    /// Removes the kept units of a result that is safely stored.
    pub fn forget_units(&self, id: &str) -> Result<()> {
        let Some(directory) = self.units.as_deref().filter(|directory| directory.is_dir()) else { return Ok(()) };
        let listing = std::fs::read_dir(directory).map_err(Error::io("list finished units", directory))?;
        for entry in listing {
            let path = entry.map_err(Error::io("list finished units", directory))?.path();
            if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(id)) {
                disk::remove(&path)?;
            }
        }
        Ok(())
    }

    /// The progress listener.
    pub fn progress(&self) -> &'a dyn Progress {
        self.progress
    }

    /// An error if the user asked to stop.
    pub fn check_cancelled(&self) -> Result<()> {
        if self.cancel.load(Ordering::Relaxed) { Err(Error::Cancelled) } else { Ok(()) }
    }

    /// Runs a closure on this engine's threads.
    pub fn install<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Does what a metric asks for until it has scores. `name` appears on the progress bar; `id` names kept units.
    pub fn finish(&self, name: &str, id: &str, first: Next, job: &Job<'_>) -> Result<Scores> {
        let mut next = first;
        for stage in 0.. {
            self.check_cancelled()?;
            next = match next {
                Next::Done(scores) => {
                    scores.check()?;
                    return Ok(scores);
                }
                Next::Pass(pass) => {
                    let tally = self.pass(name, &format!("{id}-{stage}"), pass.as_ref(), job)?;
                    pass.finish(tally, job)?
                }
                Next::Blocks(blocks) => {
                    let tally = self.blocks(name, &format!("{id}-{stage}"), blocks.as_ref(), job)?;
                    blocks.finish(tally, job)?
                }
            };
        }
        Err(Error::Bug("a metric never came to an end".into()))
    }

    fn pass(&self, name: &str, id: &str, pass: &dyn Pass, job: &Job<'_>) -> Result<Tally> {
        let inputs = job.inputs;
        let rows = inputs.codes.as_ref().map(|codes| codes.rows()).or(inputs.embeddings.as_ref().map(|e| e.rows()));
        let plan = Plan::of_rows(rows.unwrap_or(0));
        let run = |unit: usize| {
            let mut tally = pass.empty();
            for tile in plan.tiles(unit) {
                self.check_cancelled()?;
                let rows = Rows {
                    codes: inputs.codes.as_ref().map(|codes| codes.view(tile.clone())).transpose()?,
                    embeddings: inputs.embeddings.as_ref().map(|store| store.tile(tile.clone())).transpose()?,
                };
                pass.absorb(&mut tally, &rows)?;
                self.progress.advance(tile.len() as u64);
            }
            Ok(tally)
        };
        self.progress.start(name, rows.unwrap_or(0) as u64, "rows");
        let merged = self.tree(plan.units(), id, &run);
        self.progress.finish();
        Ok(merged?.unwrap_or_else(|| pass.empty()))
    }

    fn blocks(&self, name: &str, id: &str, blocks: &dyn Blocks, job: &Job<'_>) -> Result<Tally> {
        let run = |block: usize| {
            self.check_cancelled()?;
            let tally = blocks.run(block, job)?;
            self.progress.advance(1);
            Ok(tally)
        };
        self.progress.start(name, blocks.count() as u64, blocks.unit());
        let merged = self.tree(blocks.count(), id, &run);
        self.progress.finish();
        Ok(merged?.unwrap_or_default())
    }

    /// Merges the tallies of all units along a tree that depends on their number only.
    fn tree(&self, units: usize, id: &str, run: &(dyn Fn(usize) -> Result<Tally> + Sync)) -> Result<Option<Tally>> {
        if units == 0 {
            return Ok(None);
        }
        self.pool.install(|| self.subtree(0..units, id, run)).map(Some)
    }

    fn subtree(&self, units: Range<usize>, id: &str, run: &(dyn Fn(usize) -> Result<Tally> + Sync)) -> Result<Tally> {
        if units.len() == 1 {
            return self.unit(units.start, id, run);
        }
        let middle = units.start + units.len().next_power_of_two() / 2;
        let (left, right) =
            rayon::join(|| self.subtree(units.start..middle, id, run), || self.subtree(middle..units.end, id, run));
        let mut merged = left?;
        merged.merge(right?)?;
        Ok(merged)
    }

    /// Runs a unit, or takes the valid tally of an earlier run.
    fn unit(&self, unit: usize, id: &str, run: &(dyn Fn(usize) -> Result<Tally> + Sync)) -> Result<Tally> {
        let Some(directory) = &self.units else { return run(unit) };
        let file = directory.join(format!("{id}-{unit:06}.tally"));
        if let Some(tally) = std::fs::read(&file).ok().and_then(|bytes| Tally::from_bytes(&bytes).ok()) {
            return Ok(tally);
        }
        let tally = run(unit)?;
        disk::write(&file, &tally.to_bytes())?;
        Ok(tally)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::codes::Codes;
    use crate::progress::Silent;
    use crate::results::Profile;
    use crate::run::{Column, Inputs};

    /// Sums a third of every value: wrong in the last place unless sums follow the tree.
    struct Thirds;

    impl Pass for Thirds {
        fn empty(&self) -> Tally {
            Tally { columns: vec![Column::Sum(vec![0.0])] }
        }

        fn absorb(&self, tally: &mut Tally, rows: &Rows<'_>) -> Result<()> {
            let [Column::Sum(sum)] = &mut tally.columns[..] else { return Err(Error::Bug("layout".into())) };
            for (_, _, values) in rows.codes.ok_or(Error::Bug("no codes".into()))?.iter() {
                values.iter().for_each(|&value| sum[0] += f64::from(value) / 3.0);
            }
            Ok(())
        }

        fn finish(&self, tally: Tally, _: &Job<'_>) -> Result<Next> {
            let mut scores = Scores::default();
            scores.headline("sum", Some(tally.sums(0)?[0]), None, 1);
            Ok(Next::Done(scores))
        }
    }

    fn run(threads: usize, directory: Option<PathBuf>) -> Result<Scores> {
        let values: Vec<f32> = (0..300_000).map(|i| (i % 1013) as f32 * 0.37).collect();
        let inputs = Inputs { codes: Some(Codes::from_dense(&values, 3)?.into()), ..Inputs::default() };
        let (budget, params, cancel) = (Budget::new(1 << 30), BTreeMap::new(), AtomicBool::new(false));
        let job = Job { inputs: &inputs, params: &params, profile: Profile::Paper, seed: 0, budget: &budget };
        let mut engine = Engine::new(threads, budget.clone(), &Silent, &cancel)?;
        if let Some(directory) = directory {
            engine = engine.keep_units_in(directory);
        }
        engine.finish("thirds", "id", Next::Pass(Box::new(Thirds)), &job)
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let one = run(1, None).unwrap();
        for threads in [2, 7] {
            assert_eq!(run(threads, None).unwrap(), one);
        }
    }

    #[test]
    fn damaged_units_are_done_again() {
        let directory = tempfile::tempdir().unwrap();
        let first = run(2, Some(directory.path().into())).unwrap();
        let mut units: Vec<PathBuf> = std::fs::read_dir(directory.path()).unwrap().map(|e| e.unwrap().path()).collect();
        units.sort();
        assert!(units.len() > 10);
        std::fs::write(&units[3], b"rubbish").unwrap();
        std::fs::remove_file(&units[5]).unwrap();
        assert_eq!(run(1, Some(directory.path().into())).unwrap(), first);
    }
}
