//! Targeted probe perturbation: do the latents of a class matter to the probe of that class only?

use super::super::probing::dense::{Training, along, scores};
use super::super::probing::draw::{Drawn, Part, Pools, Shares};
use super::super::probing::space::{Measure, Space, largest};
use super::super::probing::summary::{Grid, columns, pack, unpack};
use super::super::probing::tasks::{Tasks, absent, note_absent};
use super::super::probing::{C, MOST_POSITIVES, REPEATS, TEST_SHARE};
use super::super::{Better, Card, Kind, Metric, Need, Output, Param};
use super::ABLATED;
use super::ablation::Ablation;
use crate::error::Result;
use crate::kernel::bits::Bits;
use crate::kernel::random::stream;
use crate::kernel::statistics::mean;
use crate::probe::logistic::Probe;
use crate::probe::spectrum::Spectrum;
use crate::probe::verdict::Verdict;
use crate::results::{Cells, Profile, Repeats, Scores, Table};
use crate::run::{Blocks, Column, Job, Next, Tally};

/// The metric.
pub struct Tpp;

static CARD: Card = Card {
    name: "tpp",
    title: "Targeted probe perturbation",
    summary: "Whether taking away the latents of a class harms the probe of that class and no other.",
    version: 1,
    measures: "Every class of a data set has a linear probe on the embeddings. The latents that matter most to one of them are \
        taken away. If the dictionary separates the classes, that probe gets worse (intended) and the others do not \
        (unintended). The score is the difference of the two falls in accuracy: at most about 1/2, because probes fall to \
        chance. Read it with its noise: differences below `tpp_detectable` mean nothing.",
    definition: "Tasks, groups and draws as in `sparse_probing`: every concept against the others of its group (`dataset/class`), as many \
        negatives as positives, training and test rows. Per task i a probe w_i on the embeddings, accuracy A_i on its test rows. \
        effect_i(j) = max(mean of latent j over positives − over negatives, 0) · (w_i·d_j) on the training rows; the n latents with the \
        largest positive effects are taken away, equals to the lower latent. A row without them scores w·x + b − Σ f_j (w·d_j). A_ik is the \
        accuracy of probe k on its own test rows then. intended_i = A_i − A_ii; unintended_i = mean over k ≠ i of (A_k − A_ik); total = intended − \
        unintended. Means over tasks of a group, then groups, then repeats. Undefined: a task without rows of both kinds, and a \
        group with fewer than two such tasks. A group of more than `most_tasks` keeps those with most positives. \
        Directions must be the decoder's rows that belong to the codes, embeddings and codes pooled by mean.",
    cost: "A probe per task and repeat, then for every pair of tasks one look at the entries of the test rows, all n together; no row is \
        decoded. A block is a group in one repeat.",
    source: "Karvonen and others, SAEBench (arXiv 2503.09532) and its program, evaluation `tpp`. The text defines the score with the \
        opposite sign; falls are positive here as in the program. Profile `paper`: probes are logistic regressions fitted to convergence, \
        nothing is chosen on test rows, only latents with a positive effect are taken. Profile `reference` keeps: one linear layer, AdamW \
        (rate 0.001, decay 0.01, absolute weights 0.001, batches of 16, 20 epochs), the epoch that is best on the test rows; n is bounded by the effects \
        that are not zero, so that latents with a negative effect, or none, can be among them. Not reproduced: latents of padding positions that leak into \
        pooled rows, and bf16. Chanin (arXiv 2605.18229) finds that this score falls with training.",
    interval: "over repeats by Student's distribution, the error widened by test rows / training rows because splits overlap (Nadeau and Bengio 2003); with \
        one repeat 95 % percentile bootstrap over tasks",
    needs: &[Need::Codes, Need::Embeddings, Need::Labels, Need::Directions],
    uses: &[],
    headline: &[
        fall("tpp_10", "The total after taking 10 latents away.", (-2.0, 2.0), Better::Higher),
        fall("tpp_20", "The total after taking 20 latents away.", (-2.0, 2.0), Better::Higher),
        fall("tpp_20_intended", "The fall of the class's own probe, 20 latents.", (-1.0, 1.0), Better::Higher),
        fall("tpp_20_unintended", "The mean fall of the other probes, 20 latents.", (-1.0, 1.0), Better::Lower),
        fall("tpp_noise", "The standard deviation of `tpp_20` from one draw to the next.", (0.0, 2.0), Better::Neither),
        fall(
            "tpp_detectable",
            "The smallest difference in `tpp_20` between two dictionaries that these repeats can tell.",
            (0.0, f64::INFINITY),
            Better::Neither,
        ),
    ],
    params: &[
        ABLATED,
        REPEATS,
        TEST_SHARE,
        MOST_POSITIVES,
        C,
        Param {
            name: "most_tasks",
            doc: "At most so many concepts of a group, those with most positive rows.",
            kind: Kind::Whole(2, 100_000),
            several: false,
            default: "20",
            reference: None,
        },
    ],
};

const fn fall(key: &'static str, doc: &'static str, range: (f64, f64), better: Better) -> Output {
    Output { key, doc, range, better }
}

impl Metric for Tpp {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        super::directions(job)?;
        let absent = absent(job)?;
        let most = job.whole("most_tasks")?;
        let groups = {
            let tasks = Tasks::new(job.labels()?, &absent);
            let fullest = |members: &[usize]| {
                let mut kept = members.to_vec();
                kept.sort_by_key(|&task| (std::cmp::Reverse(tasks.positives(task).len()), task));
                kept.truncate(most);
                kept.sort_unstable();
                kept
            };
            tasks.groups().iter().map(|group| fullest(&group.tasks)).collect()
        };
        let shares = Shares { test: job.number("test_share")?, validation: 0.0, most: job.whole("most_positives")? };
        Ok(Next::Blocks(Box::new(Work {
            groups,
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
    /// The tasks of every group.
    groups: Vec<Vec<usize>>,
    counts: Vec<usize>,
    repeats: usize,
    shares: Shares,
    training: Training,
    spectrum: Option<Spectrum>,
    absent: Bits,
}

/// A task with its probe.
struct Probed {
    task: usize,
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

impl Work {
    fn probe(&self, job: &Job<'_>, tasks: &Tasks<'_>, task: usize, repeat: usize) -> Result<Option<Probed>> {
        let pools = Pools::new(tasks, task, repeat, job.seed, &self.shares);
        let (train, test) = (pools.draw(Part::Train, 0), pools.draw(Part::Test, 0));
        if !test.has_both() {
            return Ok(None);
        }
        let store = job.embeddings()?;
        let mut random = stream(job.seed, "tpp/probe", (repeat * tasks.count() + task) as u64);
        let space = Space::Embeddings(store);
        let Some(probe) = self.training.fit(space, &train, &test, self.spectrum.as_ref(), &mut random)? else {
            return Ok(None);
        };
        let scores = scores(store, &test.rows, &[&probe])?;
        Ok(Some(Probed { task, probe, train, test, scores }))
    }

    /// The latents that matter most to a task, best first.
    fn order(&self, job: &Job<'_>, probed: &Probed, along: &[f64]) -> Result<Vec<u32>> {
        let differences = Space::Codes(job.codes()?).differences(&probed.train, Measure::Difference)?;
        let effects: Vec<f64> = differences.iter().zip(along).map(|(d, along)| d.max(0.0) * along).collect();
        let eligible = match job.profile {
            Profile::Paper => effects.iter().filter(|effect| **effect > 0.0).count(),
            Profile::Reference => effects.iter().filter(|effect| **effect != 0.0).count(),
        };
        Ok(largest(effects.into_iter(), self.counts.last().copied().unwrap_or(0).min(eligible)))
    }
}

impl Blocks for Work {
    fn count(&self) -> usize {
        self.groups.len() * self.repeats
    }

    fn unit(&self) -> &'static str {
        "groups"
    }

    /// A list per task: its accuracy, then the falls of its own probe by count, then the mean falls of the others.
    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let tasks = Tasks::new(job.labels()?, &self.absent);
        let (repeat, group) = (block / self.groups.len(), block % self.groups.len());
        let mut all = Vec::new();
        for &task in &self.groups[group] {
            all.extend(self.probe(job, &tasks, task, repeat)?);
        }
        let probes: Vec<&Probe> = all.iter().map(|probed| &probed.probe).collect();
        let along = along(super::directions(job)?, &probes)?;
        let (codes, latents) = (job.codes()?.all()?, job.codes()?.latents());
        let along = |place: usize| &along[place * latents..][..latents];
        let mut lists = Vec::new();
        for (place, probed) in all.iter().enumerate() {
            let order = self.order(job, probed, along(place))?;
            let ablation = Ablation::new(&order, &self.counts, latents);
            let fall = |other: usize| -> Vec<f64> {
                let probed = &all[other];
                let before = probed.accuracy(&probed.scores);
                let after = ablation.scores(codes, &probed.test.rows, &probed.scores, along(other));
                after.iter().map(|scores| before - probed.accuracy(scores)).collect()
            };
            let others: Vec<Vec<f64>> = (0..all.len()).filter(|&other| other != place).map(fall).collect();
            let mut list = vec![probed.accuracy(&probed.scores)];
            list.extend(fall(place));
            list.extend(
                (0..self.counts.len()).map(|count| pack(mean(&others.iter().map(|o| o[count]).collect::<Vec<_>>()))),
            );
            lists.push(((repeat * tasks.count() + probed.task) as u64, list));
        }
        Ok(Tally { columns: vec![Column::Lists(lists)] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let labels = job.labels()?;
        let tasks = Tasks::new(labels, &self.absent);
        let found: &[(u64, Vec<f64>)] = if self.count() == 0 { &[] } else { tally.lists(0)? };
        let counts = self.counts.len();
        let grid = |value: &dyn Fn(&[f64]) -> Option<f64>| {
            let cell = |repeat: usize, task: usize| {
                let key = (repeat * tasks.count() + task) as u64;
                let place = found.binary_search_by_key(&key, |list| list.0).ok()?;
                value(&found[place].1)
            };
            let row = |repeat: usize| (0..tasks.count()).map(|task| cell(repeat, task)).collect();
            Grid { cells: (0..self.repeats).map(row).collect() }
        };
        let accuracy = grid(&|list| list.first().copied());
        let by_count = |value: &dyn Fn(f64, f64) -> f64| -> Vec<Grid> {
            let of = |count: usize, list: &[f64]| {
                Some(value(*list.get(1 + count)?, unpack(*list.get(1 + counts + count)?)?))
            };
            (0..counts).map(|count| grid(&|list| of(count, list))).collect()
        };
        let total = by_count(&|intended, unintended| intended - unintended);
        let (intended, unintended) = (by_count(&|intended, _| intended), by_count(&|_, unintended| unintended));
        let repeats = |grid: &Grid| grid.repeats(&tasks, self.shares.ratio());
        let mut scores = Scores::default();
        let at = |count: usize| self.counts.iter().position(|&other| other == count);
        for (key, grids, count, bound) in [
            ("tpp_10", &total, 10, 2.0),
            ("tpp_20", &total, 20, 2.0),
            ("tpp_20_intended", &intended, 20, 1.0),
            ("tpp_20_unintended", &unintended, 20, 1.0),
        ] {
            match at(count).map(|place| &grids[place]) {
                Some(grid) => grid.headline(&mut scores, key, &repeats(grid), (-bound, bound), job.seed),
                None => scores.headline(key, None, None, 0),
            }
        }
        let twenty = at(20).map(|place| repeats(&total[place]));
        let defined = at(20).map_or(0, |place| total[place].defined());
        scores.headline("tpp_noise", twenty.as_ref().and_then(Repeats::noise), None, defined);
        scores.headline("tpp_detectable", twenty.as_ref().and_then(Repeats::detectable), None, defined);
        if at(10).is_none() || at(20).is_none() {
            scores.note("`ablated` has no 10 or no 20: the headline for it is undefined");
        }
        if self.repeats < 2 {
            scores.note("one repeat has no noise: `tpp_noise` and `tpp_detectable` are undefined");
        }
        let asked: usize = self.groups.iter().map(Vec::len).sum();
        if asked < tasks.count() {
            scores.note(format!("{asked} of {} concepts are looked at (`most_tasks`)", tasks.count()));
        }
        let lost = asked - total.first().map_or(0, Grid::defined);
        if lost > 0 || asked == 0 {
            scores.note(format!(
                "{lost} of {asked} concepts lack rows of one kind, or company in their group: undefined"
            ));
        }
        note_absent(&mut scores, &self.absent);
        let each = || 0..tasks.count();
        let lists = |grids: &[Grid]| {
            Cells::NumberLists(each().map(|task| grids.iter().map(|grid| grid.task(task)).collect()).collect())
        };
        scores.tables.push(
            Table::new("concept")
                .words("name", labels.names().iter().map(String::as_str))
                .words("group", each().map(|task| tasks.groups()[tasks.group_of(task)].name.as_str()))
                .numbers("accuracy", each().map(|task| accuracy.task(task)))
                .with("total_by_count", lists(&total))
                .with("intended_by_count", lists(&intended))
                .with("unintended_by_count", lists(&unintended)),
        );
        let mut table = Table::new("count").counts("count", self.counts.iter().copied());
        for (name, grids) in [("total", &total), ("intended", &intended), ("unintended", &unintended)] {
            table = columns(table, name, &grids.iter().map(&repeats).collect::<Vec<_>>(), (-2.0, 2.0));
        }
        scores.tables.push(table);
        Ok(Next::Done(scores))
    }
}
