//! One task in one repeat.

use etalon_kernel::random::stream;
use serde::{Deserialize, Serialize};

use super::Protocol;
use crate::context::Reserved;
use crate::error::Result;
use crate::metrics::probing::dense::Training;
use crate::metrics::probing::draw::{Drawn, Part, Pools};
use crate::metrics::probing::space::{Measure, Space, largest};
use crate::metrics::probing::tasks::Tasks;
use crate::probe::confusion::Verdict;
use crate::probe::logistic::Logistic;
use crate::probe::newton::{Few, Penalty};
use crate::probe::preconditioner::Spectrum;
use crate::probe::saebench_probe::AdamW;
use crate::results::Profile;
use crate::run::{CODES, EMBEDDINGS, Job};

/// The probe on everything of the released program.
const RELEASED: AdamW =
    AdamW { learning_rate: 0.01, decay: 0.01, absolute: 0.0, batch: 250, epochs: 100, patience: 10 };

/// Latents that the result names.
const NAMED: usize = 10;

/// Accuracies on the test part.
#[derive(Serialize, Deserialize)]
pub struct TaskResult {
    /// By size, of probes on latents.
    pub latents: Vec<Option<f64>>,
    /// By size, of probes on channels.
    pub channels: Vec<Option<f64>>,
    /// Of a probe on all latents.
    pub all_latents: Option<f64>,
    /// Of a probe on all channels.
    pub all_channels: Option<f64>,
    /// The best latents, in the first repeat only.
    pub chosen: Vec<u32>,
}

/// What all tasks share.
pub struct Probing<'a> {
    pub job: &'a Job<'a>,
    pub protocol: &'a Protocol,
    pub tasks: &'a Tasks<'a>,
    /// Of the channels, for the probes that converge.
    pub spectrum: Option<&'a Spectrum>,
}

/// Counts the probes of a task: in the reference each has negatives of its own.
struct Numbers {
    profile: Profile,
    next: u64,
}

impl Numbers {
    fn take(&mut self) -> u64 {
        self.next += u64::from(self.profile == Profile::Reference);
        self.next
    }
}

/// Rows with their best columns.
struct Selection {
    train: Drawn,
    test: Drawn,
    columns: Vec<u32>,
    fitted: Reserved<Vec<f32>>,
    scored: Reserved<Vec<f32>>,
}

impl Probing<'_> {
    /// Makes the probes of a block: a task in a repeat.
    pub fn run(&self, block: usize) -> Result<TaskResult> {
        let (job, protocol) = (self.job, self.protocol);
        let (repeat, task) = (block / self.tasks.count(), block % self.tasks.count());
        let pools = Pools::new(self.tasks, task, repeat, job.seed, &protocol.shares, job.budget())?;
        let mut numbers = Numbers { profile: job.profile, next: 0 };
        let latents = Space::Codes(job.get(&CODES)?);
        let channels = job.find(&EMBEDDINGS).map(Space::Embeddings);
        let (by_latents, mut chosen) = self.small(latents, &pools, &mut numbers)?;
        let by_channels = match channels {
            Some(channels) => self.small(channels, &pools, &mut numbers)?.0,
            None => vec![None; protocol.sizes.len()],
        };
        chosen.truncate(if repeat == 0 { NAMED } else { 0 });
        let mut whole = |space: Option<Space<'_>>| match space.filter(|_| repeat < protocol.full_repeats) {
            Some(space) => self.whole(space, &pools, numbers.take(), block as u64),
            None => Ok(None),
        };
        Ok(TaskResult {
            latents: by_latents,
            channels: by_channels,
            all_latents: whole(Some(latents))?,
            all_channels: whole(channels)?,
            chosen,
        })
    }

    /// Draws rows and picks columns by their class means; `None` if a class is missing.
    fn select(&self, space: Space<'_>, pools: &Pools, number: u64, most: usize) -> Result<Option<Selection>> {
        let budget = self.job.budget();
        let (train, test) = (pools.draw(Part::Train, number), pools.draw(Part::Test, number));
        if !train.has_both() || !test.has_both() {
            return Ok(None);
        }
        let differences = space.differences(&train, Measure::Difference, budget)?;
        let columns = largest(differences.iter().map(|difference| difference.abs()), most);
        let fitted = space.table(&train.rows, &columns, budget)?;
        let scored = space.table(&test.rows, &columns, budget)?;
        Ok(Some(Selection { train, test, columns, fitted, scored }))
    }

    /// Accuracies by size, and the columns of the largest size.
    fn small(&self, space: Space<'_>, pools: &Pools, numbers: &mut Numbers) -> Result<(Vec<Option<f64>>, Vec<u32>)> {
        let (job, sizes) = (self.job, &self.protocol.sizes);
        let logistic = Logistic { c: self.protocol.c, tolerance: 1e-6, ..Logistic::default() };
        let most = sizes.last().copied().unwrap_or(0).min(space.width());
        let (mut accuracies, mut selection, mut before) = (Vec::new(), None, None);
        for &size in sizes {
            job.check()?;
            let number = numbers.take();
            if selection.is_none() || job.profile == Profile::Reference {
                selection = self.select(space, pools, number, most)?;
                before = None;
            }
            let Some(Selection { train, test, fitted, scored, .. }) = &selection else {
                return Ok((vec![None; sizes.len()], vec![]));
            };
            let few = |values, positive| Few { values, stride: most, width: size.min(most), positive };
            let ready = few(fitted, &train.positive).ready_all();
            let probe = logistic.fit_ready(&ready, Penalty::Squares, before.as_ref(), job.context)?;
            let score = |probe| Verdict::of(&test.positive, &few(scored, &test.positive).scores(probe)).accuracy();
            accuracies.push(probe.as_ref().and_then(score));
            before = probe;
        }
        Ok((accuracies, selection.map(|selection| selection.columns).unwrap_or_default()))
    }

    /// The accuracy of a probe on everything.
    fn whole(&self, space: Space<'_>, pools: &Pools, number: u64, block: u64) -> Result<Option<f64>> {
        let (job, protocol) = (self.job, self.protocol);
        let (train, test) = (pools.draw(Part::Train, number), pools.draw(Part::Test, number));
        if !test.has_both() {
            return Ok(None);
        }
        let judged = match protocol.shares.validation {
            0.0 => test.clone(),
            _ => pools.draw(Part::Validation, number),
        };
        let training = match job.profile {
            Profile::Paper => Training::Converged { cs: protocol.full_cs.clone() },
            Profile::Reference => Training::Released(RELEASED),
        };
        let mut random =
            stream(job.seed, "sparse_probing/whole", block << 1 | u64::from(matches!(space, Space::Codes(_))));
        let probe = training.fit(space, &train, &judged, self.spectrum, &mut random, job.context)?;
        let Some(probe) = probe else { return Ok(None) };
        let rows = space.copy(&test.rows, job.budget())?;
        let scores: Vec<f64> =
            rows.design()?.scores(&probe.weights, 1).iter().map(|score| score + probe.intercept).collect();
        Ok(Verdict::of(&test.positive, &scores).accuracy())
    }
}
