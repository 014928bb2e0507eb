//! Two-choice tasks: which images a person sees, and in which task.

use etalon_kernel::random::{permutation, stream};

use super::extremes::{Ranked, Side};
use super::numpy_shuffle::NumpyRandom;
use crate::context::Reserved;
use crate::error::{InputError, Key, Result};
use crate::run::Job;

/// How tasks are built from ranked images.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::metrics) struct TaskPlan {
    /// Number of tasks N.
    pub tasks: usize,
    /// Explanations K on a side.
    pub explanations: usize,
    /// The rank of the most extreme query on the lowest and the highest side.
    pub queries_from: [usize; 2],
}

impl TaskPlan {
    /// The plan of a job on `rows` images.
    pub fn of(job: &Job<'_>, rows: usize) -> Result<TaskPlan> {
        let (tasks, explanations, gap) = (job.whole("tasks")?, job.whole("explanations")?, job.whole("rank_gap")?);
        let quantile = job.number("query_quantile")?;
        let plan = TaskPlan::new(tasks, explanations, gap, quantile, rows);
        let needed = 2 * tasks * (explanations + 1) + gap;
        if rows < needed {
            return Err(InputError::new("too few images for the tasks")
                .expected(format!(
                    "at least {needed}: twice {tasks} tasks with {explanations} explanations and a query each{}",
                    if gap > 0 { ", and the unused rank" } else { "" }
                ))
                .found(rows)
                .advice(format!("use more images, or lower {} or {}", Key("tasks"), Key("explanations")))
                .into());
        }
        let [low, high] = plan.queries_from;
        if low + high + 2 * tasks > rows {
            return Err(InputError::new(format!("the queries of {} overlap", Key("query_quantile")))
                .expected(format!("at most {:.4}", (rows / 2 - tasks) as f64 / rows as f64))
                .found(quantile)
                .into());
        }
        if quantile > 0.0 && low < tasks * explanations + gap {
            return Err(overlap(quantile, tasks * explanations + gap, rows).into());
        }
        Ok(plan)
    }

    fn new(tasks: usize, explanations: usize, gap: usize, quantile: f64, rows: usize) -> TaskPlan {
        let pool = tasks * explanations;
        let rank = (quantile * rows as f64).floor() as usize;
        let queries_from = if quantile > 0.0 { [rank, rank] } else { [pool, pool + gap] };
        TaskPlan { tasks, explanations, queries_from }
    }

    /// The same plan with fewer tasks: all pools become smaller. Only for queries next to the explanations.
    pub fn with_tasks(self, tasks: usize) -> TaskPlan {
        let gap = self.queries_from[1] - self.queries_from[0];
        TaskPlan::new(tasks, self.explanations, gap, 0.0, 0)
    }

    /// Ranked images per side that the plan uses.
    pub fn keep(&self) -> usize {
        self.queries_from[0].max(self.queries_from[1]) + self.tasks
    }
}

fn overlap(quantile: f64, pool: usize, rows: usize) -> InputError {
    InputError::new(format!("the queries of {} are among the explanations", Key("query_quantile")))
        .expected(format!("at least {:.4}, rank {pool}; or 0", pool as f64 / rows.max(1) as f64))
        .found(format!("{quantile}, rank {}", (quantile * rows as f64).floor()))
}

/// The order of the images of every bin: for a unit, 2 · (K + 1) permutations of N, those of the lowest side first.
pub(in crate::metrics) enum Shuffles {
    /// The same for all units.
    Shared(Vec<u8>),
    /// By unit; empty for units without a score.
    ByUnit(Reserved<Vec<Vec<u8>>>),
}

impl Shuffles {
    /// Shuffles that depend on the seed only, so that a unit's tasks depend neither on its column nor on other units.
    pub fn seeded(seed: u64, plan: &TaskPlan) -> Shuffles {
        let mut random = stream(seed, "mis/tasks", plan.tasks as u64);
        let bins = 2 * (plan.explanations + 1);
        let bin = |_| permutation(plan.tasks, &mut random).into_iter().map(|number| number as u8).collect::<Vec<_>>();
        Shuffles::Shared((0..bins).flat_map(bin).collect())
    }

    /// The released program's: one NumPy stream over the units in `order`.
    pub fn numpy(job: &Job<'_>, plan: &TaskPlan, units: usize, order: &[usize]) -> Result<Shuffles> {
        let bins = 2 * (plan.explanations + 1);
        let bytes = 24 * units as u64 + order.len() as u64 * (bins * plan.tasks) as u64;
        let memory = job.budget().reserve(bytes, format!("the order of the images of {units} units"))?;
        // The released seed for seed 0, and another one for every other seed.
        let mut random = NumpyRandom::new(42u32.wrapping_add(job.seed as u32));
        let mut shuffles = vec![Vec::new(); units];
        for &unit in order {
            job.check()?;
            shuffles[unit] = (0..bins).flat_map(|_| random.shuffled(plan.tasks)).collect();
        }
        Ok(Shuffles::ByUnit(Reserved::new(shuffles, memory)))
    }

    fn of(&self, unit: usize) -> &[u8] {
        match self {
            Shuffles::Shared(shuffles) => shuffles,
            Shuffles::ByUnit(shuffles) => &shuffles[unit],
        }
    }
}

/// One side of a task.
#[derive(Clone, Debug, Default, PartialEq)]
pub(in crate::metrics) struct TaskSide {
    /// Images, from the least to the most extreme stratum.
    pub explanations: Vec<u32>,
    /// The image to assign.
    pub query: u32,
}

/// A task: the lowest and the highest side.
pub(in crate::metrics) type Task = [TaskSide; 2];

/// The tasks of a unit, the `local`-th of `ranked` and the `unit`-th of all.
pub(in crate::metrics) fn tasks_of(
    plan: &TaskPlan,
    shuffles: &Shuffles,
    ranked: &Ranked,
    local: usize,
    unit: usize,
) -> Vec<Task> {
    let (tasks, strata) = (plan.tasks, plan.explanations);
    let shuffles = shuffles.of(unit);
    let image = |side: Side, bin: usize, task: usize| {
        let index = usize::from(shuffles[((side as usize) * (strata + 1) + bin) * tasks + task]);
        // Bins and the images of a bin are in order from the least to the most extreme.
        let from = if bin == strata { plan.queries_from[side as usize] } else { (strata - 1 - bin) * tasks };
        ranked.row(local, side, from + tasks - 1 - index)
    };
    let side = |task: usize, side: Side| TaskSide {
        explanations: (0..strata).map(|bin| image(side, bin, task)).collect(),
        query: image(side, strata, task),
    };
    (0..tasks).map(|task| [side(task, Side::Low), side(task, Side::High)]).collect()
}
