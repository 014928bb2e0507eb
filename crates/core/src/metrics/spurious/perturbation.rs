//! Targeted probe perturbation: the probes of a group, and their accuracies after the ablation of latents.

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::Protocol;
use super::ablation::Ablation;
use crate::error::Result;
use crate::metrics::probing::dense::{along, scores};
use crate::metrics::probing::draw::{DrawnRows, Part, Pools};
use crate::metrics::probing::space::{MeanContrast, Space, largest};
use crate::metrics::probing::tasks::Tasks;
use crate::probe::confusion::ConfusionMatrix;
use crate::probe::logistic::Probe;
use crate::probe::preconditioner::Preconditioner;
use crate::results::Profile;
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job};

/// The result of a task in one repeat.
#[derive(Serialize, Deserialize)]
pub struct AblationResult {
    /// The accuracy of its probe before the ablation.
    pub accuracy: f64,
    /// The loss of accuracy of its own probe, by count.
    pub intended: Vec<f64>,
    /// The mean loss of the other probes of its group, by count.
    pub unintended: Vec<Option<f64>>,
}

/// A task with its probe.
#[derive(Serialize, Deserialize)]
pub struct ProbedTask {
    probe: Probe,
    train: DrawnRows,
    /// The rows that accuracies are measured on.
    pub test: DrawnRows,
    /// The scores of the test rows.
    scores: Vec<f64>,
}

impl ProbedTask {
    fn accuracy(&self, scores: &[f64]) -> f64 {
        ConfusionMatrix::of(&self.test.positive, scores).accuracy().unwrap_or(0.0)
    }
}

/// The inputs of all blocks.
pub struct Perturbation<'a> {
    pub job: &'a Job<'a>,
    pub protocol: &'a Protocol,
    pub tasks: &'a Tasks<'a>,
    /// Of the channels, for converged probes.
    pub preconditioner: Option<&'a Preconditioner>,
}

impl Perturbation<'_> {
    /// Fits the probe of a task; `None` where a class is missing.
    pub fn probe(&self, task: usize, repeat: usize) -> Result<Option<ProbedTask>> {
        let (job, protocol) = (self.job, self.protocol);
        let pools = Pools::new(self.tasks, task, repeat, job.seed, &protocol.shares, job.budget())?;
        let (train, test) = (pools.draw(Part::Train, 0), pools.draw(Part::Test, 0));
        if !test.has_both() {
            return Ok(None);
        }
        let random = ("tpp/probe", (repeat * self.tasks.count() + task) as u64);
        let Some(probe) = protocol.probe(job, (&train, &test), self.preconditioner, random)? else { return Ok(None) };
        // The released code selects an epoch on one draw of negatives and measures accuracy on another.
        let test = if job.profile == Profile::Reference { pools.draw(Part::Test, 1) } else { test };
        let scores = scores(job.get(&EMBEDDINGS)?, &test.rows, &[&probe], job.context)?;
        Ok(Some(ProbedTask { probe, train, test, scores }))
    }

    /// Ablates the latents of every task of a group in turn and tests all probes of the group.
    pub fn perturb(&self, group: &[Option<ProbedTask>]) -> Result<Vec<Option<AblationResult>>> {
        let (job, counts) = (self.job, &self.protocol.counts);
        let (codes, latents) = (job.get(&CODES)?.all()?, job.get(&CODES)?.latents());
        let all: Vec<&ProbedTask> = group.iter().flatten().collect();
        let probes: Vec<&Probe> = all.iter().map(|probed| &probed.probe).collect();
        let along = along(job.get(&DIRECTIONS)?, &probes, job.context)?;
        let along = |index: usize| &along[index * latents..][..latents];
        let result = |index: usize, probed: &ProbedTask| {
            job.check()?;
            let order = self.order(probed, along(index))?;
            let ablation = Ablation::new(&order, counts, latents, job.budget())?;
            let loss = |other: usize| -> Vec<f64> {
                let probed = all[other];
                let before = probed.accuracy(&probed.scores);
                let after = ablation.scores(codes, &probed.test.rows, &probed.scores, along(other));
                after.iter().map(|scores| before - probed.accuracy(scores)).collect()
            };
            let others: Vec<Vec<f64>> = (0..all.len()).filter(|&other| other != index).map(loss).collect();
            let unintended = |count: usize| mean(&others.iter().map(|losses| losses[count]).collect::<Vec<_>>());
            Ok(AblationResult {
                accuracy: probed.accuracy(&probed.scores),
                intended: loss(index),
                unintended: (0..counts.len()).map(unintended).collect(),
            })
        };
        // `all` has only the tasks with a probe.
        let mut probes = all.iter().enumerate();
        let next = |probed: &Option<ProbedTask>| match probed {
            Some(_) => probes.next().map(|(index, probed)| result(index, probed)).transpose(),
            None => Ok(None),
        };
        group.iter().map(next).collect()
    }

    /// The latents with the largest effects on a probe, largest first.
    fn order(&self, probed: &ProbedTask, along: &[f64]) -> Result<Vec<u32>> {
        let job = self.job;
        let space = Space::Codes(job.get(&CODES)?, None);
        let differences = space.differences(&probed.train, MeanContrast::Difference, job.budget())?;
        let effects = || differences.iter().zip(along).map(|(d, along)| d.max(0.0) * along);
        let eligible = match job.profile {
            Profile::Paper => effects().filter(|effect| *effect > 0.0).count(),
            Profile::Reference => effects().filter(|effect| *effect != 0.0).count(),
        };
        Ok(largest(effects(), self.protocol.most().min(eligible)))
    }
}
