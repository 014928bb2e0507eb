//! One task in one repeat.

use etalon_kernel::random::stream;
use serde::{Deserialize, Serialize};

use super::Protocol;
use crate::context::Reserved;
use crate::error::Result;
use crate::metrics::probing::Probing;
use crate::metrics::probing::dense::Training;
use crate::metrics::probing::draw::{DrawnRows, Part, Pools};
use crate::metrics::probing::space::{MeanContrast, Space, largest};
use crate::metrics::probing::test_rows::TestScore;
use crate::probe::logistic::Logistic;
use crate::probe::newton::{LabelledTable, Penalty};
use crate::probe::saebench_probe::{AdamW, LabelledRows};
use crate::results::Profile;
use crate::run::{CODES, EMBEDDINGS};

/// The probe on all columns of the released code.
const RELEASED: AdamW =
    AdamW { learning_rate: 0.01, decay: 0.01, absolute: 0.0, batch: 250, epochs: 100, patience: 10 };

/// Number of selected latents in the result.
const NAMED: usize = 10;

/// Accuracies on the test part.
#[derive(Serialize, Deserialize)]
pub struct TaskAccuracies {
    /// By size, of probes on latents.
    pub latents: Vec<Option<TestScore>>,
    /// By size, of probes on channels.
    pub channels: Vec<Option<TestScore>>,
    /// Of a probe on all latents.
    pub all_latents: Option<TestScore>,
    /// Of a probe on all channels.
    pub all_channels: Option<TestScore>,
    /// The best latents, in the first repeat only.
    pub selected: Vec<u32>,
}

/// Numbers the draws of a task: in profile `reference` every probe has new negatives.
struct DrawNumbers {
    profile: Profile,
    last: u64,
}

impl DrawNumbers {
    fn next(&mut self) -> u64 {
        self.last += u64::from(self.profile == Profile::Reference);
        self.last
    }
}

/// Training and test rows with their best columns.
struct Selection {
    train: DrawnRows,
    test: DrawnRows,
    columns: Vec<u32>,
    fitted: Reserved<Vec<f32>>,
    scored: Reserved<Vec<f32>>,
}

impl Probing<'_, Protocol> {
    /// Fits the probes of a block: a task in a repeat.
    pub fn run(&self, block: usize) -> Result<TaskAccuracies> {
        let (job, protocol) = (self.job, self.protocol);
        let (repeat, task) = (block / self.tasks.count(), block % self.tasks.count());
        let pools = Pools::new(self.tasks, task, repeat, job.seed, &protocol.shares, job.budget())?;
        let mut numbers = DrawNumbers { profile: job.profile, last: 0 };
        let latents = Space::Codes(job.get(&CODES)?, self.lengths);
        let channels = job.find(&EMBEDDINGS).map(Space::Embeddings);
        let (by_latents, mut selected) = self.small(latents, &pools, &mut numbers)?;
        let by_channels = match channels {
            Some(channels) => self.small(channels, &pools, &mut numbers)?.0,
            None => vec![None; protocol.sizes.len()],
        };
        selected.truncate(if repeat == 0 { NAMED } else { 0 });
        let mut whole = |space: Option<Space<'_>>| match space.filter(|_| repeat < protocol.full_repeats) {
            Some(space) => self.whole(space, &pools, numbers.next(), block as u64),
            None => Ok(None),
        };
        Ok(TaskAccuracies {
            latents: by_latents,
            channels: by_channels,
            all_latents: whole(Some(latents))?,
            all_channels: whole(channels)?,
            selected,
        })
    }

    /// Draws rows and selects columns by their class means; `None` if a class is missing.
    fn select(&self, space: Space<'_>, pools: &Pools, number: u64, most: usize) -> Result<Option<Selection>> {
        let budget = self.job.budget();
        let (train, test) = (pools.draw(Part::Train, number), pools.draw(Part::Test, number));
        if !train.has_both() || !test.has_both() {
            return Ok(None);
        }
        let differences = space.differences(&train, MeanContrast::Difference, budget)?;
        let columns = largest(differences.iter().map(|difference| difference.abs()), most);
        let fitted = space.table(&train.rows, &columns, budget)?;
        let scored = space.table(&test.rows, &columns, budget)?;
        Ok(Some(Selection { train, test, columns, fitted, scored }))
    }

    /// The accuracies by size, and the columns of the largest size.
    fn small(
        &self,
        space: Space<'_>,
        pools: &Pools,
        numbers: &mut DrawNumbers,
    ) -> Result<(Vec<Option<TestScore>>, Vec<u32>)> {
        let (job, sizes) = (self.job, &self.protocol.sizes);
        let logistic = Logistic { c: self.protocol.c, tolerance: 1e-6, ..Logistic::default() };
        let most = sizes.last().copied().unwrap_or(0).min(space.width());
        let (mut accuracies, mut selection, mut last) = (Vec::new(), None, None);
        for &size in sizes {
            job.check()?;
            let number = numbers.next();
            if selection.is_none() || job.profile == Profile::Reference {
                selection = self.select(space, pools, number, most)?;
                last = None;
            }
            let Some(Selection { train, test, fitted, scored, .. }) = &selection else {
                return Ok((vec![None; sizes.len()], vec![]));
            };
            let table = |values, positive| LabelledTable { values, stride: most, width: size.min(most), positive };
            let rows = table(fitted, &train.positive).prepare_all();
            let probe = logistic.fit_prepared(&rows, Penalty::Squares, last.as_ref(), job.context)?;
            let parts = self.protocol.repeats == 1;
            let score = |probe| TestScore::accuracy(test, &table(scored, &test.positive).scores(probe), parts);
            accuracies.push(probe.as_ref().and_then(score));
            last = probe;
        }
        Ok((accuracies, selection.map(|selection| selection.columns).unwrap_or_default()))
    }

    /// The accuracy of a probe on all columns.
    fn whole(&self, space: Space<'_>, pools: &Pools, number: u64, block: u64) -> Result<Option<TestScore>> {
        let (job, protocol) = (self.job, self.protocol);
        let (train, test) = (pools.draw(Part::Train, number), pools.draw(Part::Test, number));
        if !test.has_both() {
            return Ok(None);
        }
        let validation = match protocol.shares.validation {
            0.0 => test.clone(),
            _ => pools.draw(Part::Validation, number),
        };
        let training = match job.profile {
            Profile::Paper => Training::Converged { cs: protocol.full_cs.clone() },
            Profile::Reference => Training::Released(RELEASED),
        };
        let mut random =
            stream(job.seed, "sparse_probing/whole", block << 1 | u64::from(matches!(space, Space::Codes(..))));
        let probe = training.fit(space, &train, &validation, self.preconditioner, &mut random, job.context)?;
        let Some(probe) = probe else { return Ok(None) };
        let rows = space.copy(&test.rows, job.budget())?;
        let scores = LabelledRows { design: rows.design()?, positive: &test.positive }.scores(&probe);
        Ok(TestScore::accuracy(&test, &scores, protocol.full_repeats == 1))
    }
}
