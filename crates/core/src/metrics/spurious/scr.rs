//! Spurious correlation removal: one couple in one repeat.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use super::Protocol;
use super::ablation::Ablation;
use super::quadrants::{Questions, couples, quadrants};
use super::scr_card::CARD;
use super::scr_report::report;
use crate::error::Result;
use crate::metrics::probing::dense::{along, scores};
use crate::metrics::probing::draw::Drawn;
use crate::metrics::probing::space::{Measure, Space, largest};
use crate::metrics::probing::tasks::absent;
use crate::metrics::{Card, Metric};
use crate::probe::confusion::Verdict;
use crate::probe::logistic::Probe;
use crate::probe::preconditioner::Spectrum;
use crate::results::{Profile, Scores};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, LABELS, Work};

/// The metric.
pub struct Scr;

impl Metric for Scr {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (labels, protocol) = (job.get(&LABELS)?, Protocol::of(job)?);
        let absent = absent(job, work)?;
        let couples = couples(job, work, &absent)?;
        let spectrum = protocol.spectrum(job, work)?;
        let removal = Removal { job, protocol: &protocol, spectrum: spectrum.first() };
        let found = work.blocks("couples", couples.len() * protocol.repeats, |block| {
            let couple = couples[block % couples.len()];
            // Every row twice: by quadrant, and cut into parts in a random order.
            let bytes = 32 * labels.known(couple.task).count() as u64;
            let _memory = job.budget().reserve(bytes, "the rows of a couple")?;
            let lists = quadrants(labels, couple, &absent);
            match Questions::draw(&lists, &protocol.shares, job.seed, block as u64) {
                Some(questions) => removal.run(&questions, block as u64),
                None => Ok(None),
            }
        })?;
        Ok(report(job, &protocol, labels, &couples, &absent, &found))
    }
}

/// A couple in one repeat.
#[derive(Serialize, Deserialize)]
pub struct CoupleResult {
    /// Rows per quadrant that were trained on.
    pub trained: usize,
    /// Rows per quadrant that were tested on.
    pub tested: usize,
    /// The accuracy of the biased probe on the task.
    pub biased_on_task: f64,
    /// The accuracy of the task's own probe.
    pub task_accuracy: f64,
    /// The accuracy of the biased probe on the attribute.
    pub biased_on_attribute: f64,
    /// The accuracy of the attribute's own probe.
    pub attribute_accuracy: f64,
    /// By count, the score without latents of the attribute.
    pub first: Vec<Option<f64>>,
    /// By count, the score without latents of the task.
    pub second: Vec<Option<f64>>,
    /// By count, the score of the direction in which the biased probe is worse.
    pub score: Vec<Option<f64>>,
}

/// What all couples share.
struct Removal<'a> {
    job: &'a Job<'a>,
    protocol: &'a Protocol,
    spectrum: Option<&'a Spectrum>,
}

/// A probe, and what a unit of every latent adds to its score.
#[derive(Clone, Copy)]
struct Aligned<'a> {
    probe: &'a Probe,
    along: &'a [f64],
}

/// A direction of a couple before and after.
struct Way {
    biased: f64,
    oracle: f64,
    after: Vec<f64>,
}

impl Way {
    /// How much of the gap is closed, by count.
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
    /// Fits the three probes and takes latents away in both directions; `None` where a class is missing.
    fn run(&self, questions: &Questions, block: u64) -> Result<Option<CoupleResult>> {
        let job = self.job;
        let fit = |drawn: &[Drawn; 2], number: u64| {
            self.protocol.probe(job, (&drawn[0], &drawn[1]), self.spectrum, ("scr/probe", block * 3 + number))
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
        let one = self.way((&questions.attribute[0], attribute), (&questions.task[1], task), biased)?;
        let other = self.way((&questions.task[0], task), (&questions.attribute[1], attribute), biased)?;
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

    /// Takes the latents of one probe away and asks the biased one about the other question.
    fn way(&self, taken: (&Drawn, Aligned<'_>), asked: (&Drawn, Aligned<'_>), biased: Aligned<'_>) -> Result<Way> {
        let (job, counts) = (self.job, &self.protocol.counts);
        let codes = job.get(&CODES)?;
        let differences = Space::Codes(codes).differences(taken.0, Measure::Difference, job.budget())?;
        let effects = || differences.iter().zip(taken.1.along).map(|(d, along)| (d * along).abs());
        let effective = effects().filter(|effect| *effect > 0.0).count();
        let order = largest(effects(), self.protocol.most().min(effective));
        drop(differences);
        let (rows, truth) = (&asked.0.rows, &asked.0.positive);
        let both = scores(job.get(&EMBEDDINGS)?, rows, &[biased.probe, asked.1.probe], job.context)?;
        let (before, oracle) = both.split_at(rows.len());
        let accuracy = |scores: &[f64]| Verdict::of(truth, scores).accuracy().unwrap_or(0.0);
        let ablation = Ablation::new(&order, counts, codes.latents(), job.budget())?;
        let after = ablation.scores(codes.all()?, rows, before, biased.along);
        let after = after.iter().map(|scores| accuracy(scores)).collect();
        Ok(Way { biased: accuracy(before), oracle: accuracy(oracle), after })
    }
}
