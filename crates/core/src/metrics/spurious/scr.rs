//! Spurious correlation removal: one couple in one repeat, and the averages of all.

use super::super::probing::dense::{Training, along, scores};
use super::super::probing::draw::{Drawn, Shares};
use super::super::probing::space::{Measure, Space, largest};
use super::super::probing::summary::{Grid, columns, pack, unpack};
use super::super::probing::tasks::{absent, note_absent};
use super::super::{Card, Metric};
use super::ablation::Ablation;
use super::quadrants::{Couple, Questions, couples, quadrants};
use super::scr_card::CARD;
use crate::error::{Error, Result};
use crate::kernel::bits::Bits;
use crate::kernel::random::stream;
use crate::kernel::statistics::mean;
use crate::probe::logistic::Probe;
use crate::probe::spectrum::Spectrum;
use crate::probe::verdict::Verdict;
use crate::results::{Cells, Profile, Repeats, Scores, Table};
use crate::run::{Blocks, Column, Job, Next, Tally};

/// The metric.
pub struct Scr;

impl Metric for Scr {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        super::directions(job)?;
        let absent = absent(job)?;
        let couples = couples(job, &absent)?;
        let shares = Shares { test: job.number("test_share")?, validation: 0.0, most: job.whole("most_positives")? };
        Ok(Next::Blocks(Box::new(Work {
            couples,
            counts: super::counts(job)?,
            repeats: job.whole("repeats")?,
            shares,
            training: super::training(job)?,
            spectrum: super::spectrum(job)?,
            absent,
        })))
    }
}

struct Work {
    couples: Vec<Couple>,
    counts: Vec<usize>,
    repeats: usize,
    shares: Shares,
    training: Training,
    spectrum: Option<Spectrum>,
    absent: Bits,
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

impl Work {
    fn probe(&self, job: &Job<'_>, drawn: &[Drawn; 2], random_block: u64) -> Result<Option<Probe>> {
        let mut random = stream(job.seed, "scr/probe", random_block);
        let space = Space::Embeddings(job.embeddings()?);
        self.training.fit(space, &drawn[0], &drawn[1], self.spectrum.as_ref(), &mut random)
    }

    /// Takes the latents of one probe away and asks the biased one about the other question.
    fn way(&self, job: &Job<'_>, taken: (&Drawn, &[f64]), asked: (&Drawn, &Probe), s: (&Probe, &[f64])) -> Result<Way> {
        let (codes, store) = (job.codes()?, job.embeddings()?);
        let differences = Space::Codes(codes).differences(taken.0, Measure::Difference)?;
        let effects: Vec<f64> = differences.iter().zip(taken.1).map(|(d, along)| (d * along).abs()).collect();
        let alive = effects.iter().filter(|effect| **effect > 0.0).count();
        let order = largest(effects.into_iter(), self.counts.last().copied().unwrap_or(0).min(alive));
        let (rows, truth) = (&asked.0.rows, &asked.0.positive);
        let both = scores(store, rows, &[s.0, asked.1])?;
        let (biased, oracle) = both.split_at(rows.len());
        let accuracy = |scores: &[f64]| Verdict::of(truth, scores).accuracy().unwrap_or(0.0);
        let after = Ablation::new(&order, &self.counts, codes.latents()).scores(codes.all()?, rows, biased, s.1);
        let after = after.iter().map(|scores| accuracy(scores)).collect();
        Ok(Way { biased: accuracy(biased), oracle: accuracy(oracle), after })
    }

    fn ways(&self, job: &Job<'_>, questions: &Questions, block: u64) -> Result<Option<[Way; 2]>> {
        let probe = |drawn, number| self.probe(job, drawn, block * 3 + number);
        let (task, attribute, biased) =
            (probe(&questions.task, 0)?, probe(&questions.attribute, 1)?, probe(&questions.biased, 2)?);
        let (Some(task), Some(attribute), Some(biased)) = (task, attribute, biased) else { return Ok(None) };
        let all = along(super::directions(job)?, &[&task, &attribute, &biased])?;
        let latents = job.codes()?.latents();
        let (of_task, rest) = all.split_at(latents);
        let (of_attribute, of_biased) = rest.split_at(latents);
        let s = (&biased, of_biased);
        Ok(Some([
            self.way(job, (&questions.attribute[0], of_attribute), (&questions.task[1], &task), s)?,
            self.way(job, (&questions.task[0], of_task), (&questions.attribute[1], &attribute), s)?,
        ]))
    }
}

impl Blocks for Work {
    fn count(&self) -> usize {
        self.couples.len() * self.repeats
    }

    fn unit(&self) -> &'static str {
        "couples"
    }

    /// A list: rows per quadrant, the four accuracies before, scores of either direction and of both, by count; or nothing.
    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let couple = self.couples[block % self.couples.len()];
        let lists = quadrants(job.labels()?, couple, &self.absent);
        let questions = Questions::draw(&lists, &self.shares, job.seed, block as u64);
        let mut list = Vec::new();
        if let Some(questions) = &questions
            && let Some([one, other]) = self.ways(job, questions, block as u64)?
        {
            list.extend(questions.rows.map(|rows| rows as f64));
            list.extend([one.biased, one.oracle, other.biased, other.oracle]);
            let (first, second) = (one.scores(job.profile), other.scores(job.profile));
            let both = first.iter().zip(&second).map(|(&first, &second)| match one.biased.total_cmp(&other.biased) {
                std::cmp::Ordering::Less => first,
                std::cmp::Ordering::Greater => second,
                _ if job.profile == Profile::Reference => None,
                _ => first.zip(second).map(|(first, second)| (first + second) / 2.0).or(first).or(second),
            });
            list.extend(first.iter().chain(&second).copied().chain(both).map(pack));
        }
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, list)])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let labels = job.labels()?;
        let found: &[(u64, Vec<f64>)] = if self.count() == 0 { &[] } else { tally.lists(0)? };
        if found.len() != self.count() {
            return Err(Error::Bug("a couple was not measured".into()));
        }
        let (couples, counts) = (self.couples.len(), self.counts.len());
        let grid = |place: usize| {
            let cell = |block: usize| found[block].1.get(place).copied().and_then(unpack);
            let row = |repeat: usize| (0..couples).map(|couple| cell(repeat * couples + couple)).collect();
            Grid { cells: (0..self.repeats).map(row).collect() }
        };
        let grids = |kind: usize| (0..counts).map(|count| grid(6 + kind * counts + count)).collect::<Vec<Grid>>();
        let [first, second, score] = [0, 1, 2].map(grids);
        let repeats = |grid: &Grid| Repeats {
            values: grid
                .cells
                .iter()
                .filter_map(|row| mean(&row.iter().flatten().copied().collect::<Vec<_>>()))
                .collect(),
            ratio: self.shares.ratio(),
        };
        let bounds = (f64::NEG_INFINITY, f64::INFINITY);
        let mut scores = Scores::default();
        let at = |count: usize| self.counts.iter().position(|&other| other == count).map(|place| &score[place]);
        for (key, count) in [("scr_10", 10), ("scr_20", 20)] {
            match at(count) {
                Some(grid) => grid.headline(&mut scores, key, &repeats(grid), bounds, job.seed),
                None => scores.headline(key, None, None, 0),
            }
        }
        let twenty = at(20).map(&repeats);
        let defined = at(20).map_or(0, Grid::defined);
        scores.headline("scr_noise", twenty.as_ref().and_then(Repeats::noise), None, defined);
        scores.headline("scr_detectable", twenty.as_ref().and_then(Repeats::detectable), None, defined);
        if at(10).is_none() || at(20).is_none() {
            scores.note("`ablated` has no 10 or no 20: the headline for it is undefined");
        }
        if self.repeats < 2 {
            scores.note("one repeat has no noise: `scr_noise` and `scr_detectable` are undefined");
        }
        let undefined = couples - defined;
        if couples == 0 {
            scores.note("no couple of concepts has enough rows in every quadrant (`quadrant_rows`)");
        } else if undefined > 0 {
            scores.note(format!(
                "{undefined} of {couples} couples lack rows in a quadrant, or have no bias that could be removed: undefined"
            ));
        }
        note_absent(&mut scores, &self.absent);
        let each = |place: usize| (0..couples).map(|couple| grid(place).task(couple)).collect::<Vec<_>>();
        let lists = |grids: &[Grid]| {
            let of = |couple| grids.iter().map(|grid| grid.task(couple)).collect();
            Cells::NumberLists((0..couples).map(of).collect())
        };
        let name = |couple: &Couple| format!("{}:{}", labels.name(couple.task), labels.name(couple.attribute));
        scores.tables.push(
            Table::new("couple")
                .words("name", self.couples.iter().map(name))
                .numbers("rows_trained", each(0))
                .numbers("rows_tested", each(1))
                .numbers("biased_on_task", each(2))
                .numbers("task_accuracy", each(3))
                .numbers("biased_on_attribute", each(4))
                .numbers("attribute_accuracy", each(5))
                .with("score_by_count", lists(&score))
                .with("dir1_by_count", lists(&first))
                .with("dir2_by_count", lists(&second)),
        );
        let mut table = Table::new("count").counts("count", self.counts.iter().copied());
        for (name, grids) in [("score", &score), ("dir1", &first), ("dir2", &second)] {
            table = columns(table, name, &grids.iter().map(&repeats).collect::<Vec<_>>(), bounds);
        }
        scores.tables.push(table);
        Ok(Next::Done(scores))
    }
}
