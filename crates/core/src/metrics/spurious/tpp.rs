//! Targeted probe perturbation: do the latents of a class matter to the probe of that class only?

use std::cmp::Reverse;

use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use super::Protocol;
use super::ablation::Ablation;
use super::tpp_card::CARD;
use super::tpp_report::report;
use crate::error::Result;
use crate::metrics::probing::dense::{along, scores};
use crate::metrics::probing::draw::{Drawn, Part, Pools};
use crate::metrics::probing::space::{Measure, Space, largest};
use crate::metrics::probing::tasks::{Tasks, absent};
use crate::metrics::{Card, Metric};
use crate::probe::confusion::Verdict;
use crate::probe::logistic::Probe;
use crate::probe::preconditioner::Spectrum;
use crate::results::{Profile, Scores};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, LABELS, Work};

/// The metric.
pub struct Tpp;

impl Metric for Tpp {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let protocol = Protocol::of(job)?;
        let absent = absent(job, work)?;
        let tasks = Tasks::new(job.get(&LABELS)?, &absent);
        let spectrum = protocol.spectrum(job, work)?;
        let perturbation = Perturbation { job, protocol: &protocol, tasks: &tasks, spectrum: spectrum.first() };
        let mut found: Vec<Option<TaskResult>> = Vec::new();
        found.resize_with(protocol.repeats * tasks.count(), || None);
        let most = job.whole("most_tasks")?;
        let mut asked = 0;
        // Group by group, because the probes of a group are all that is needed at a time.
        for group in tasks.groups() {
            let members = fullest(&tasks, &group.tasks, most);
            asked += members.len();
            let probed = work.blocks("probes", protocol.repeats * members.len(), |block| {
                perturbation.probe(members[block % members.len()], block / members.len())
            })?;
            let results = work.blocks("repeats", protocol.repeats, |repeat| {
                perturbation.perturb(&probed[repeat * members.len()..][..members.len()])
            })?;
            for (repeat, results) in results.into_parts().0.into_iter().enumerate() {
                for (&task, result) in members.iter().zip(results) {
                    found[repeat * tasks.count() + task] = result;
                }
            }
        }
        Ok(report(&perturbation, asked, &found))
    }
}

/// The tasks of a group with most positives, ascending.
fn fullest(tasks: &Tasks<'_>, members: &[usize], most: usize) -> Vec<usize> {
    let mut kept = members.to_vec();
    kept.sort_by_key(|&task| (Reverse(tasks.positive_count(task)), task));
    kept.truncate(most);
    kept.sort_unstable();
    kept
}

/// A task in one repeat.
#[derive(Serialize, Deserialize)]
pub struct TaskResult {
    /// Of its probe, before anything is taken away.
    pub accuracy: f64,
    /// By count, the fall of its own probe.
    pub intended: Vec<f64>,
    /// By count, the mean fall of the other probes of its group.
    pub unintended: Vec<Option<f64>>,
}

/// A task with its probe.
#[derive(Serialize, Deserialize)]
struct Probed {
    probe: Probe,
    train: Drawn,
    test: Drawn,
    /// The scores of the test rows.
    scores: Vec<f64>,
}

impl Probed {
    fn accuracy(&self, scores: &[f64]) -> f64 {
        Verdict::of(&self.test.positive, scores).accuracy().unwrap_or(0.0)
    }
}

/// What all tasks share.
pub struct Perturbation<'a> {
    pub job: &'a Job<'a>,
    pub protocol: &'a Protocol,
    pub tasks: &'a Tasks<'a>,
    /// Of the channels, for the probes that converge.
    pub spectrum: Option<&'a Spectrum>,
}

impl Perturbation<'_> {
    /// Fits the probe of a task; `None` where a class is missing.
    fn probe(&self, task: usize, repeat: usize) -> Result<Option<Probed>> {
        let (job, protocol) = (self.job, self.protocol);
        let pools = Pools::new(self.tasks, task, repeat, job.seed, &protocol.shares, job.budget())?;
        let (train, test) = (pools.draw(Part::Train, 0), pools.draw(Part::Test, 0));
        if !test.has_both() {
            return Ok(None);
        }
        let random = ("tpp/probe", (repeat * self.tasks.count() + task) as u64);
        let Some(probe) = protocol.probe(job, (&train, &test), self.spectrum, random)? else { return Ok(None) };
        let scores = scores(job.get(&EMBEDDINGS)?, &test.rows, &[&probe], job.context)?;
        Ok(Some(Probed { probe, train, test, scores }))
    }

    /// Takes the latents of every task of a group away in turn, and looks at all its probes.
    fn perturb(&self, group: &[Option<Probed>]) -> Result<Vec<Option<TaskResult>>> {
        let (job, counts) = (self.job, &self.protocol.counts);
        let (codes, latents) = (job.get(&CODES)?.all()?, job.get(&CODES)?.latents());
        let all: Vec<&Probed> = group.iter().flatten().collect();
        let probes: Vec<&Probe> = all.iter().map(|probed| &probed.probe).collect();
        let along = along(job.get(&DIRECTIONS)?, &probes, job.context)?;
        let along = |index: usize| &along[index * latents..][..latents];
        let result = |index: usize, probed: &Probed| {
            job.check()?;
            let order = self.order(probed, along(index))?;
            let ablation = Ablation::new(&order, counts, latents, job.budget())?;
            let fall = |other: usize| -> Vec<f64> {
                let probed = all[other];
                let before = probed.accuracy(&probed.scores);
                let after = ablation.scores(codes, &probed.test.rows, &probed.scores, along(other));
                after.iter().map(|scores| before - probed.accuracy(scores)).collect()
            };
            let others: Vec<Vec<f64>> = (0..all.len()).filter(|&other| other != index).map(fall).collect();
            let unintended = |count: usize| mean(&others.iter().map(|falls| falls[count]).collect::<Vec<_>>());
            Ok(TaskResult {
                accuracy: probed.accuracy(&probed.scores),
                intended: fall(index),
                unintended: (0..counts.len()).map(unintended).collect(),
            })
        };
        // Only tasks with a probe count among `all`.
        let mut probes = all.iter().enumerate();
        let next = |probed: &Option<Probed>| match probed {
            Some(_) => probes.next().map(|(index, probed)| result(index, probed)).transpose(),
            None => Ok(None),
        };
        group.iter().map(next).collect()
    }

    /// The latents that matter most to a task, best first.
    fn order(&self, probed: &Probed, along: &[f64]) -> Result<Vec<u32>> {
        let job = self.job;
        let differences =
            Space::Codes(job.get(&CODES)?).differences(&probed.train, Measure::Difference, job.budget())?;
        let effects = || differences.iter().zip(along).map(|(d, along)| d.max(0.0) * along);
        let eligible = match job.profile {
            Profile::Paper => effects().filter(|effect| *effect > 0.0).count(),
            Profile::Reference => effects().filter(|effect| *effect != 0.0).count(),
        };
        Ok(largest(effects(), self.protocol.most().min(eligible)))
    }
}
