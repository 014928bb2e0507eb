//! One task in one repeat, and the averages of all.

use super::super::probing::draw::{Drawn, Part, Pools, Shares};
use super::super::probing::space::{Measure, Space, largest};
use super::super::probing::summary::{Grid, columns, pack, unpack};
use super::super::probing::tasks::{Tasks, note_absent};
use super::search::{Chosen, Table, whole_rows};
use crate::error::{Error, Result};
use crate::kernel::bits::Bits;
use crate::kernel::statistics::{area_under_curve, mean};
use crate::probe::few::Penalty;
use crate::probe::spectrum::Spectrum;
use crate::probe::verdict::Verdict;
use crate::results::{self, Cells, Profile, Scores};
use crate::run::{Blocks, Column, Job, Next, Tally};

pub struct Work {
    pub sizes: Vec<usize>,
    pub repeats: usize,
    /// In how many repeats there are probes on all channels.
    pub full: usize,
    pub tasks: usize,
    pub most: usize,
    pub most_trained: usize,
    pub penalty: Penalty,
    pub spectrum: Option<Spectrum>,
    /// Samples without rows.
    pub absent: Bits,
}

/// What is kept of a probe: AUC, weighted F1 and accuracy on the test rows, AUC on rows held back, strength.
const KEPT: usize = 5;

impl Work {
    /// Rows to train on and to test on.
    fn cut(&self, mut all: Drawn, profile: Profile) -> [Drawn; 2] {
        let rows = all.rows.len();
        let trained = match profile {
            Profile::Paper if rows < 200 => rows * 4 / 5,
            _ => rows.saturating_sub(100),
        };
        let at = trained.min(self.most_trained);
        let test = Drawn { rows: all.rows.split_off(at), positive: all.positive.split_off(at) };
        [all, test]
    }

    fn all_rows(&self, job: &Job<'_>, tasks: &Tasks<'_>, block: usize) -> [Drawn; 2] {
        let shares = Shares { test: 0.0, validation: 0.0, most: self.most };
        let pools = Pools::new(tasks, block % self.tasks, block / self.tasks, job.seed, &shares);
        self.cut(pools.draw(Part::Train, 0), job.profile)
    }
}

/// What is kept of a probe.
fn kept(chosen: Option<Chosen>, scores: impl Fn(&Chosen) -> Vec<f64>, truth: &[bool]) -> [Option<f64>; KEPT] {
    let Some(chosen) = chosen else { return [None; KEPT] };
    let scores = scores(&chosen);
    let verdict = Verdict::of(truth, &scores);
    let area = area_under_curve(truth, &scores);
    [area, verdict.weighted_f1(), verdict.accuracy(), chosen.held_back, Some(chosen.c)]
}

impl Blocks for Work {
    fn count(&self) -> usize {
        self.tasks * self.repeats
    }

    fn unit(&self) -> &'static str {
        "tasks"
    }

    /// A list: rows trained on and tested on, then what is kept of every size, then of all channels; or nothing.
    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let tasks = Tasks::new(job.labels()?, &self.absent);
        let [train, test] = self.all_rows(job, &tasks, block);
        let mut list = Vec::new();
        if train.has_both() && test.has_both() {
            list.extend([train.rows.len() as f64, test.rows.len() as f64]);
            let weakest = job.profile == Profile::Reference;
            let each: Vec<usize> = (0..test.rows.len()).collect();
            let space = Space::Codes(job.codes()?);
            let most = self.sizes.last().copied().unwrap_or(0).min(space.width());
            let differences = space.differences(&train, Measure::Normalised)?;
            let chosen = largest(differences.iter().map(|difference| difference.abs()), most);
            let (fitted, scored) = (space.table(&train.rows, &chosen)?, space.table(&test.rows, &chosen)?);
            let mut before = (usize::MAX, [None; KEPT]);
            for &size in &self.sizes {
                let width = size.min(most);
                // Sizes beyond the latents that there are ask the same question again.
                if width == before.0 {
                    list.extend(before.1.map(pack));
                    continue;
                }
                let table = |values| Table::Few { values, stride: most, width, penalty: self.penalty };
                let found = table(&fitted).search(&train.positive, weakest);
                let score = |chosen: &Chosen| table(&scored).scores(&each, &chosen.probe);
                before = (width, kept(found, score, &test.positive));
                list.extend(before.1.map(pack));
            }
            let channels = match (job.inputs.embeddings.as_deref(), &self.spectrum) {
                (Some(store), Some(spectrum)) if block / self.tasks < self.full => {
                    let space = Space::Embeddings(store);
                    let (fitted, scored) = (whole_rows(space, &train)?, whole_rows(space, &test)?);
                    let table = |values| Table::Whole { values, width: store.width(), spectrum };
                    let found = table(&fitted).search(&train.positive, weakest);
                    let score = |chosen: &Chosen| table(&scored).scores(&each, &chosen.probe);
                    kept(found, score, &test.positive)
                }
                _ => [None; KEPT],
            };
            list.extend(channels.map(pack));
        }
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, list)])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let labels = job.labels()?;
        let tasks = Tasks::new(labels, &self.absent);
        let found: &[(u64, Vec<f64>)] = if self.count() == 0 { &[] } else { tally.lists(0)? };
        if found.len() != self.count() {
            return Err(Error::Bug("a task was not probed".into()));
        }
        let grid = |place: usize| {
            let cell = |block: usize| found[block].1.get(place).copied().and_then(unpack);
            let row = |repeat: usize| (0..self.tasks).map(|task| cell(repeat * self.tasks + task)).collect();
            Grid { cells: (0..self.repeats).map(row).collect() }
        };
        let ratios: Vec<f64> = found.iter().filter_map(|(_, list)| Some(list.get(1)? / list.first()?)).collect();
        let ratio = mean(&ratios).unwrap_or(0.0);
        let kind = |kind: usize| (0..self.sizes.len()).map(|size| grid(2 + size * KEPT + kind)).collect::<Vec<Grid>>();
        let [area, f1, accuracy, held_back, strength] = [0, 1, 2, 3, 4].map(kind);
        let channels = |kind: usize| {
            let mut grid = grid(2 + self.sizes.len() * KEPT + kind);
            grid.cells.truncate(self.full);
            grid
        };
        let mut scores = Scores::default();
        let mut headline = |key: &str, grid: Option<&Grid>| match grid {
            Some(grid) => grid.headline(&mut scores, key, &grid.repeats(&tasks, ratio), (0.0, 1.0), job.seed),
            None => scores.headline(key, None, None, 0),
        };
        let at = |size: usize| self.sizes.iter().position(|&other| other == size);
        for size in [1, 5, 20, 100] {
            headline(&format!("probes_{size}_auc"), at(size).map(|place| &area[place]));
        }
        headline("probes_20_f1", at(20).map(|place| &f1[place]));
        headline("probes_20_accuracy", at(20).map(|place| &accuracy[place]));
        headline("probes_channels_auc", Some(&channels(0)));
        if [1, 5, 20, 100].iter().any(|&size| at(size).is_none()) {
            scores.note("1, 5, 20 or 100 is not among `sizes`: the headline for it is undefined");
        }
        let undefined = self.tasks - area.first().map_or(0, Grid::defined);
        if undefined > 0 || self.tasks == 0 {
            scores.note(format!(
                "{undefined} of {} concepts lack training or test rows of one kind: undefined",
                self.tasks
            ));
        }
        note_absent(&mut scores, &self.absent);
        if self.spectrum.is_none() {
            scores.note("there are no embeddings, or `full_repeats` is 0: probes on channels are undefined");
        }
        let each = || 0..self.tasks;
        let lists = |grids: &[Grid]| {
            Cells::NumberLists(each().map(|task| grids.iter().map(|grid| grid.task(task)).collect()).collect())
        };
        scores.tables.push(
            results::Table::new("concept")
                .words("name", labels.names().iter().map(String::as_str))
                .words("group", each().map(|task| tasks.groups()[tasks.group_of(task)].name.as_str()))
                .numbers("rows_trained", each().map(|task| grid(0).task(task)))
                .numbers("rows_tested", each().map(|task| grid(1).task(task)))
                .numbers("auc", each().map(|task| area.first().and_then(|grid| grid.task(task))))
                .with("auc_by_size", lists(&area))
                .with("f1_by_size", lists(&f1))
                .with("accuracy_by_size", lists(&accuracy))
                .with("held_back_auc_by_size", lists(&held_back))
                .with("c_by_size", lists(&strength))
                .numbers("channels_auc", each().map(|task| channels(0).task(task)))
                .numbers("channels_f1", each().map(|task| channels(1).task(task)))
                .numbers("channels_accuracy", each().map(|task| channels(2).task(task))),
        );
        let mut table = results::Table::new("size").counts("size", self.sizes.iter().copied());
        for (name, grids) in [("auc", &area), ("f1", &f1), ("accuracy", &accuracy)] {
            let repeats: Vec<_> = grids.iter().map(|grid| grid.repeats(&tasks, ratio)).collect();
            table = columns(table, name, &repeats, (0.0, 1.0));
        }
        scores.tables.push(table);
        Ok(Next::Done(scores))
    }
}
