//! Spurious correlation removal for one couple in one repeat.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::Protocol;
use super::ablation::Ablation;
use super::quadrants::Questions;
use crate::error::Result;
use crate::metrics::probing::dense::{along, scores};
use crate::metrics::probing::draw::DrawnRows;
use crate::metrics::probing::space::{MeanContrast, Space, largest};
use crate::probe::confusion::ConfusionMatrix;
use crate::probe::logistic::Probe;
use crate::probe::preconditioner::Preconditioner;
use crate::results::Profile;
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job};

/// The result of a couple in one repeat.
#[derive(Serialize, Deserialize)]
pub struct CoupleResult {
    /// Training rows per quadrant.
    pub trained: usize,
    /// Test rows per quadrant.
    pub tested: usize,
    /// The accuracy of the biased probe on the task.
    pub biased_on_task: f64,
    /// The accuracy of the unbiased probe of the task.
    pub task_accuracy: f64,
    /// The accuracy of the biased probe on the attribute.
    pub biased_on_attribute: f64,
    /// The accuracy of the unbiased probe of the attribute.
    pub attribute_accuracy: f64,
    /// The score without latents of the attribute, by count.
    pub first: Vec<Option<f64>>,
    /// The score without latents of the task, by count.
    pub second: Vec<Option<f64>>,
    /// The score of the direction in which the biased probe is less accurate, by count.
    pub score: Vec<Option<f64>>,
}

/// The inputs of all blocks.
pub struct Removal<'a> {
    pub job: &'a Job<'a>,
    pub protocol: &'a Protocol,
    pub preconditioner: Option<&'a Preconditioner>,
}

/// A probe, and the change of its score per unit of every latent.
#[derive(Clone, Copy)]
struct Aligned<'a> {
    probe: &'a Probe,
    along: &'a [f64],
}

/// Accuracies in one direction of a couple, before and after the ablation.
struct Direction {
    biased: f64,
    oracle: f64,
    after: Vec<f64>,
}

impl Direction {
    /// The share of the gap that is closed, by count.
    fn scores(&self, profile: Profile) -> Vec<Option<f64>> {
        let gap = self.oracle - self.biased;
        let score = |after: &f64| match profile {
            _ if gap >= 0.001 => Some((after - self.biased) / gap),
            Profile::Reference => Some(0.0),
            Profile::Paper => None,
        };
        self.after.iter().map(score).collect()
    }
}

impl Removal<'_> {
    /// Fits the three probes and ablates latents in both directions; `None` where a class is missing.
    pub fn run(&self, questions: &Questions, block: u64) -> Result<Option<CoupleResult>> {
        let job = self.job;
        let fit = |drawn: &[DrawnRows; 2], number: u64| {
            self.protocol.probe(job, (&drawn[0], &drawn[1]), self.preconditioner, ("scr/probe", block * 3 + number))
        };
        let (task, attribute, biased) =
            (fit(&questions.task, 0)?, fit(&questions.attribute, 1)?, fit(&questions.biased, 2)?);
        let (Some(task), Some(attribute), Some(biased)) = (task, attribute, biased) else { return Ok(None) };
        let all = along(job.get(&DIRECTIONS)?, &[&task, &attribute, &biased], job.context)?;
        let latents = job.get(&CODES)?.latents();
        let (of_task, rest) = all.split_at(latents);
        let (of_attribute, of_biased) = rest.split_at(latents);
        let task = Aligned { probe: &task, along: of_task };
        let attribute = Aligned { probe: &attribute, along: of_attribute };
        let biased = Aligned { probe: &biased, along: of_biased };
        let one = self.ablate((&questions.attribute[0], attribute), (&questions.task[1], task), biased)?;
        let other = self.ablate((&questions.task[0], task), (&questions.attribute[1], attribute), biased)?;
        let (first, second) = (one.scores(job.profile), other.scores(job.profile));
        let counts = |(&first, &second): (&Option<f64>, &Option<f64>)| match one.biased.total_cmp(&other.biased) {
            Ordering::Less => first,
            Ordering::Greater => second,
            Ordering::Equal if job.profile == Profile::Reference => None,
            Ordering::Equal => first.zip(second).map(|(first, second)| (first + second) / 2.0).or(first).or(second),
        };
        Ok(Some(CoupleResult {
            trained: questions.rows[0],
            tested: questions.rows[1],
            biased_on_task: one.biased,
            task_accuracy: one.oracle,
            biased_on_attribute: other.biased,
            attribute_accuracy: other.oracle,
            score: first.iter().zip(&second).map(counts).collect(),
            first,
            second,
        }))
    }

    /// Ablates the latents of one probe and tests the biased probe on the other question.
    fn ablate(
        &self,
        removed: (&DrawnRows, Aligned<'_>),
        tested: (&DrawnRows, Aligned<'_>),
        biased: Aligned<'_>,
    ) -> Result<Direction> {
        let (job, counts) = (self.job, &self.protocol.counts);
        let codes = job.get(&CODES)?;
        let differences = Space::Codes(codes, None).differences(removed.0, MeanContrast::Difference, job.budget())?;
        let effects = || differences.iter().zip(removed.1.along).map(|(d, along)| (d * along).abs());
        let effective = effects().filter(|effect| *effect > 0.0).count();
        let order = largest(effects(), self.protocol.most().min(effective));
        drop(differences);
        let (rows, truth) = (&tested.0.rows, &tested.0.positive);
        let both = scores(job.get(&EMBEDDINGS)?, rows, &[biased.probe, tested.1.probe], job.context)?;
        let (before, oracle) = both.split_at(rows.len());
        let accuracy = |scores: &[f64]| ConfusionMatrix::of(truth, scores).accuracy().unwrap_or(0.0);
        let ablation = Ablation::new(&order, counts, codes.latents(), job.budget())?;
        let after = ablation.scores(codes.all()?, rows, before, biased.along);
        let after = after.iter().map(|scores| accuracy(scores)).collect();
        Ok(Direction { biased: accuracy(before), oracle: accuracy(oracle), after })
    }
}
