//! One task in one repeat, and the averages of all.

use super::super::probing::dense::Training;
use super::super::probing::draw::{Part, Pools, Shares};
use super::super::probing::space::{Measure, Space, largest};
use super::super::probing::summary::{Grid, columns, pack, unpack};
use super::super::probing::tasks::{Tasks, note_absent};
use crate::error::{Error, Result};
use crate::kernel::bits::Bits;
use crate::kernel::random::stream;
use crate::probe::adamw::AdamW;
use crate::probe::few::{Few, Penalty};
use crate::probe::logistic::Logistic;
use crate::probe::spectrum::Spectrum;
use crate::probe::verdict::Verdict;
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{Blocks, Column, Job, Next, Tally};

/// The probe on everything of the released program.
const RELEASED: AdamW =
    AdamW { learning_rate: 0.01, decay: 0.01, absolute: 0.0, batch: 250, epochs: 100, patience: 10 };

pub struct Work {
    pub sizes: Vec<usize>,
    pub cs: Vec<f64>,
    pub repeats: usize,
    /// In how many repeats there are probes on everything.
    pub full: usize,
    pub tasks: usize,
    pub spectrum: Option<Spectrum>,
    pub shares: Shares,
    /// Samples without rows.
    pub absent: Bits,
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

impl Work {
    /// Accuracies on the test part by size, and the latents of the largest size.
    fn small(
        &self,
        space: Space<'_>,
        pools: &Pools,
        numbers: &mut Numbers,
        c: f64,
    ) -> Result<(Vec<Option<f64>>, Vec<u32>)> {
        let logistic = Logistic { c, tolerance: 1e-6, ..Logistic::default() };
        let (mut found, mut chosen, mut tables) = (Vec::new(), Vec::new(), None);
        let mut before = None;
        let most = self.sizes.last().copied().unwrap_or(0).min(space.width());
        for &size in &self.sizes {
            let number = numbers.take();
            if tables.is_none() || numbers.profile == Profile::Reference {
                let (train, test) = (pools.draw(Part::Train, number), pools.draw(Part::Test, number));
                if !train.has_both() || !test.has_both() {
                    return Ok((vec![None; self.sizes.len()], vec![]));
                }
                let differences = space.differences(&train, Measure::Difference)?;
                chosen = largest(differences.iter().map(|difference| difference.abs()), most);
                let both = (space.table(&train.rows, &chosen)?, space.table(&test.rows, &chosen)?);
                tables = Some((train, test, both));
                before = None;
            }
            let Some((train, test, (fitted, scored))) = &tables else { break };
            let few = |values, positive| Few { values, stride: most, width: size.min(most), positive };
            let probe = logistic.fit_few(&few(fitted, &train.positive), Penalty::Squares, before.as_ref());
            let score = |probe| Verdict::of(&test.positive, &few(scored, &test.positive).scores(probe)).accuracy();
            found.push(probe.as_ref().and_then(score));
            before = probe;
        }
        Ok((found, chosen))
    }

    /// The accuracy of a probe on everything.
    fn whole(&self, space: Space<'_>, pools: &Pools, number: u64, job: &Job<'_>, block: u64) -> Result<Option<f64>> {
        let (train, test) = (pools.draw(Part::Train, number), pools.draw(Part::Test, number));
        if !test.has_both() {
            return Ok(None);
        }
        let judged = match self.shares.validation {
            0.0 => test.clone(),
            _ => pools.draw(Part::Validation, number),
        };
        let training = match job.profile {
            Profile::Paper => Training::Converged { cs: self.cs.clone() },
            Profile::Reference => Training::Released(RELEASED),
        };
        let mut random =
            stream(job.seed, "sparse_probing/whole", block << 1 | u64::from(matches!(space, Space::Codes(_))));
        let probe = training.fit(space, &train, &judged, self.spectrum.as_ref(), &mut random)?;
        let Some(probe) = probe else { return Ok(None) };
        let rows = space.copy(&test.rows)?;
        let scores: Vec<f64> =
            rows.design()?.scores(&probe.weights, 1).iter().map(|score| score + probe.intercept).collect();
        Ok(Verdict::of(&test.positive, &scores).accuracy())
    }
}

impl Blocks for Work {
    fn count(&self) -> usize {
        self.tasks * self.repeats
    }

    fn unit(&self) -> &'static str {
        "tasks"
    }

    /// Two lists: accuracies on latents by size, on channels by size, on all latents and all channels; and the latents.
    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let tasks = Tasks::new(job.labels()?, &self.absent);
        let (repeat, task) = (block / self.tasks, block % self.tasks);
        let pools = Pools::new(&tasks, task, repeat, job.seed, &self.shares);
        let mut numbers = Numbers { profile: job.profile, next: 0 };
        let c = job.number("c")?;
        let latents = Space::Codes(job.codes()?);
        let (mut found, chosen) = self.small(latents, &pools, &mut numbers, c)?;
        let channels = job.inputs.embeddings.as_deref().map(Space::Embeddings);
        match channels {
            Some(channels) => found.extend(self.small(channels, &pools, &mut numbers, c)?.0),
            None => found.extend(vec![None; self.sizes.len()]),
        }
        for space in [Some(latents), channels] {
            found.push(match space.filter(|_| repeat < self.full) {
                Some(space) => self.whole(space, &pools, numbers.take(), job, block as u64)?,
                None => None,
            });
        }
        let found = found.into_iter().map(pack).collect();
        let chosen = chosen.iter().map(|&latent| f64::from(latent)).collect();
        let list = |values: Vec<f64>| Column::Lists(vec![(block as u64, values)]);
        Ok(Tally { columns: vec![list(found), list(chosen)] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let labels = job.labels()?;
        let tasks = Tasks::new(labels, &self.absent);
        let found = if self.count() == 0 { &[][..] } else { tally.lists(0)? };
        if found.len() != self.count() {
            return Err(Error::Bug("a task was not probed".into()));
        }
        let grid = |kind: usize, repeats: usize| Grid {
            cells: (0..repeats)
                .map(|repeat| (0..self.tasks).map(|task| unpack(found[repeat * self.tasks + task].1[kind])).collect())
                .collect(),
        };
        let sizes = self.sizes.len();
        let latents: Vec<Grid> = (0..sizes).map(|kind| grid(kind, self.repeats)).collect();
        let channels: Vec<Grid> = (sizes..2 * sizes).map(|kind| grid(kind, self.repeats)).collect();
        let (all_latents, all_channels) = (grid(2 * sizes, self.full), grid(2 * sizes + 1, self.full));
        let ratio = self.shares.ratio();
        let mut scores = Scores::default();
        for (grids, whole, kind) in [(&latents, &all_latents, ""), (&channels, &all_channels, "channels_")] {
            for size in [1, 2, 5] {
                let key = format!("top_{size}_{kind}accuracy");
                match self.sizes.iter().position(|&other| other == size) {
                    Some(place) => {
                        let repeats = grids[place].repeats(&tasks, ratio);
                        grids[place].headline(&mut scores, &key, &repeats, (0.0, 1.0), job.seed);
                    }
                    None => {
                        scores.headline(&key, None, None, 0);
                        scores.note(format!("size {size} is not among `sizes`: `{key}` is undefined"));
                    }
                }
            }
            let key = if kind.is_empty() { "all_latents_accuracy" } else { "all_channels_accuracy" };
            whole.headline(&mut scores, key, &whole.repeats(&tasks, ratio), (0.0, 1.0), job.seed);
        }
        self.notes(&mut scores, &latents, job);
        let chosen: &[(u64, Vec<f64>)] = if self.count() == 0 { &[] } else { tally.lists(1)? };
        let picked = |task: usize| chosen[task].1.iter().take(10).map(|&latent| latent as i64).collect();
        let by_size = |grids: &[Grid], task: usize| grids.iter().map(|grid| grid.task(task)).collect();
        let each = 0..self.tasks;
        scores.tables.push(
            Table::new("concept")
                .words("name", labels.names().iter().map(String::as_str))
                .words("group", each.clone().map(|task| tasks.groups()[tasks.group_of(task)].name.as_str()))
                .counts("positives", each.clone().map(|task| tasks.positives(task).len()))
                .numbers("accuracy", each.clone().map(|task| latents.first().and_then(|grid| grid.task(task))))
                .with("accuracy_by_size", Cells::NumberLists(each.clone().map(|t| by_size(&latents, t)).collect()))
                .with("channels_by_size", Cells::NumberLists(each.clone().map(|t| by_size(&channels, t)).collect()))
                .numbers("all_latents", each.clone().map(|task| all_latents.task(task)))
                .numbers("all_channels", each.clone().map(|task| all_channels.task(task)))
                .with("latents", Cells::WholeLists(each.map(picked).collect())),
        );
        let groups = 0..tasks.groups().len();
        let by_group = |grids: &[Grid], group: usize| grids.iter().map(|grid| grid.group(&tasks, group)).collect();
        scores.tables.push(
            Table::new("group")
                .words("name", tasks.groups().iter().map(|group| group.name.as_str()))
                .counts("tasks", tasks.groups().iter().map(|group| group.tasks.len()))
                .with("accuracy_by_size", Cells::NumberLists(groups.clone().map(|g| by_group(&latents, g)).collect()))
                .with("channels_by_size", Cells::NumberLists(groups.clone().map(|g| by_group(&channels, g)).collect()))
                .numbers("all_latents", groups.clone().map(|group| all_latents.group(&tasks, group)))
                .numbers("all_channels", groups.map(|group| all_channels.group(&tasks, group))),
        );
        let mut table = Table::new("size").counts("size", self.sizes.iter().copied());
        for (grids, name) in [(&latents, "accuracy"), (&channels, "channels")] {
            let repeats: Vec<_> = grids.iter().map(|grid| grid.repeats(&tasks, ratio)).collect();
            table = columns(table, name, &repeats, (0.0, 1.0));
        }
        scores.tables.push(table);
        Ok(Next::Done(scores))
    }
}

impl Work {
    fn notes(&self, scores: &mut Scores, latents: &[Grid], job: &Job<'_>) {
        let undefined = self.tasks - latents.first().map_or(0, Grid::defined);
        if undefined > 0 || self.tasks == 0 {
            scores.note(format!(
                "{undefined} of {} concepts lack training or test rows of one kind: undefined",
                self.tasks
            ));
        }
        let missing = latents.first().map_or(0, |grid| {
            let sometimes = |task: &usize| grid.cells.iter().any(|row| row[*task].is_none());
            (0..self.tasks).filter(sometimes).count()
        });
        if missing > undefined {
            scores.note(format!("{} concepts are undefined in some repeats only", missing - undefined));
        }
        note_absent(scores, &self.absent);
        if job.inputs.embeddings.is_none() {
            scores.note("there are no embeddings: accuracies on channels are undefined");
        }
        if self.full == 0 {
            scores.note("no probes on all latents and all channels were asked for (`full_repeats` = 0)");
        }
        let few = job.inputs.codes.as_deref().map_or(0, |codes| codes.latents());
        if let Some(largest) = self.sizes.last().filter(|size| **size > few) {
            scores.note(format!("size {largest} is more than the {few} latents: probes see all of them there"));
        }
    }
}
