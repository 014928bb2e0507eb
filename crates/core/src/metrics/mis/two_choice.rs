//! The tasks themselves, for people to solve.

use etalon_kernel::random::{stream, unit as random_unit};

use super::extreme_units::extreme_units;
use super::judge::Judge;
use super::units::{AllScores, Reading, Selected};
use crate::context::Context;
use crate::error::{Error, InputError, Result};
use crate::results::{Cells, Recipe, Table};
use crate::run::{Inputs, Job, Mode, UNIT_ACTIVATIONS, UNITS, VISUALISATIONS, Work};

/// The two-choice tasks of a unit; none if the unit is constant.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitTasks {
    /// The unit.
    pub unit: usize,
    /// Its tasks.
    pub tasks: Vec<TwoChoiceTask>,
}

/// A two-choice task: which of two images activates the unit more? Images are row numbers.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoChoiceTask {
    /// Images that activate the unit least, from the least to the most extreme stratum.
    pub lowest: Vec<u32>,
    /// Images that activate the unit most, from the least to the most extreme stratum.
    pub highest: Vec<u32>,
    /// The query that belongs to the lowest images.
    pub low_query: u32,
    /// The query that belongs to the highest images: the correct answer.
    pub high_query: u32,
    /// The probability that the simulated person answers correctly.
    pub probability: f64,
}

/// Builds the tasks that a recipe of `mis` scores, for some units.
pub fn two_choice_tasks(
    inputs: &Inputs,
    recipe: &Recipe,
    units: &[usize],
    context: &Context,
) -> Result<Vec<UnitTasks>> {
    if recipe.metric != super::CARD.name {
        return Err(Error::Bug(format!("tasks of the metric {}", recipe.metric)));
    }
    let inputs = inputs.completed();
    let job = Job { inputs: &inputs, params: &recipe.params, profile: recipe.profile, seed: recipe.seed, context };
    let count = job.get(&UNIT_ACTIVATIONS)?.units();
    if let Some(unit) = units.iter().find(|unit| **unit >= count) {
        return Err(InputError::new("unit number out of range")
            .expected(format!("numbers from 0 to {}", count.saturating_sub(1)))
            .found(unit)
            .into());
    }
    context.install(|| {
        let mut work = Work::new("Two-choice tasks", &inputs, context, None, Mode::Local, None);
        let selected = Selected::new(&job, &mut work)?;
        if units.is_empty() {
            return Ok(Vec::new());
        }
        let judge = Judge::new(&job, count, selected.plan.explanations)?;
        let (shuffles, reading) = (selected.shuffles(&job, &selected.plan)?, Reading::of(&job)?);
        let mut scratch = Vec::new();
        let mut of_unit = |&unit: &usize| -> Result<UnitTasks> {
            job.check()?;
            let tasks =
                if selected.varies(unit) { selected.tasks(&selected.plan, &shuffles, unit) } else { Vec::new() };
            let tasks = tasks.into_iter().map(|task| -> Result<TwoChoiceTask> {
                let probability = reading.probability(judge.differences(unit, &task, &mut scratch)?);
                let [low, high] = task;
                Ok(TwoChoiceTask {
                    lowest: low.explanations,
                    highest: high.explanations,
                    low_query: low.query,
                    high_query: high.query,
                    probability,
                })
            });
            Ok(UnitTasks { unit, tasks: tasks.collect::<Result<_>>()? })
        };
        units.iter().map(&mut of_unit).collect()
    })
}

/// The table `task`: the rows of the first tasks of the easiest and hardest units. Explanations that are visualisations have
/// no rows.
pub(super) fn listed_tasks(job: &Job<'_>, selected: &Selected, all: &AllScores) -> Result<Option<Table>> {
    let (count, units) = (job.whole("listed_tasks")?, job.find(&UNITS).map(|units| &units.units[..]));
    let mut numbers: Vec<usize> =
        extreme_units(&all.mis(), units, job.whole("extreme_units")?).iter().map(|unit| unit.unit).collect();
    numbers.sort_unstable();
    if numbers.is_empty() || count == 0 {
        return Ok(None);
    }
    let (shuffles, reading) = (selected.shuffles(job, &selected.plan)?, Reading::of(job)?);
    let natural = !job.has(&VISUALISATIONS);
    let (mut owners, mut tasks, mut chances) = (Vec::new(), Vec::new(), Vec::new());
    for &unit in &numbers {
        let Some(score) = &all.units[unit] else { continue };
        let listed = selected.tasks(&selected.plan, &shuffles, unit).into_iter().zip(&score.differences).take(count);
        for (number, (task, differences)) in listed.enumerate() {
            owners.push((unit, number));
            tasks.push(task);
            chances.push(reading.probability(*differences));
        }
    }
    let explanations = |side: usize| {
        let rows = |images: &[u32]| images.iter().filter(|_| natural).map(|&row| i64::from(row)).collect::<Vec<_>>();
        Cells::WholeLists(tasks.iter().map(|task| rows(&task[side].explanations)).collect())
    };
    Ok(Some(
        Table::new("task")
            .counts("unit", owners.iter().map(|owner| owner.0))
            .counts("task", owners.iter().map(|owner| owner.1))
            .with("lowest", explanations(0))
            .with("highest", explanations(1))
            .counts("low_query", tasks.iter().map(|[low, _]| low.query as usize))
            .counts("high_query", tasks.iter().map(|[_, high]| high.query as usize))
            .numbers("probability", chances.iter().copied().map(Some)),
    ))
}

/// The answer of a simulated person to a task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedAnswer {
    /// The unit.
    pub unit: usize,
    /// The task of the unit.
    pub task: usize,
    /// The person.
    pub person: usize,
    /// Whether the answer is right.
    pub correct: bool,
    /// The probability of a right answer.
    pub probability: f64,
}

/// `count` simulated answers about every unit, tasks in turn. Person p gives the p-th answer about every unit.
pub fn simulated_answers(units: &[UnitTasks], count: usize, seed: u64) -> Vec<SimulatedAnswer> {
    let mut answers = Vec::with_capacity(units.len() * count);
    for unit in units.iter().filter(|unit| !unit.tasks.is_empty()) {
        let mut random = stream(seed, "mis/people", unit.unit as u64);
        answers.extend((0..count).map(|person| {
            let task = person % unit.tasks.len();
            let probability = unit.tasks[task].probability;
            let correct = random_unit(&mut random) < probability;
            SimulatedAnswer { unit: unit.unit, task, person, correct, probability }
        }));
    }
    answers
}
