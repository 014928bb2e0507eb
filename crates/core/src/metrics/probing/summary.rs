//! From scores by task and repeat to averages: tasks within a group first, then groups, then repeats.

use etalon_kernel::statistics::mean;

use super::tasks::Tasks;
use crate::results::{Cells, Interval, Repeats, Scores, Table, bootstrap_mean};

/// Scores of one kind by repeat and task.
pub struct Grid {
    /// `repeats × tasks`.
    pub cells: Vec<Vec<Option<f64>>>,
}

impl Grid {
    /// Scores by repeat and task.
    pub fn new(repeats: usize, tasks: usize, cell: impl Fn(usize, usize) -> Option<f64>) -> Grid {
        let row = |repeat: usize| (0..tasks).map(|task| cell(repeat, task)).collect();
        Grid { cells: (0..repeats).map(row).collect() }
    }

    /// The mean over the repeats in which a task is defined.
    pub fn task(&self, task: usize) -> Option<f64> {
        mean(&self.cells.iter().filter_map(|row| row[task]).collect::<Vec<_>>())
    }

    /// The mean over tasks of the mean over repeats, within a group.
    pub fn group(&self, tasks: &Tasks<'_>, group: usize) -> Option<f64> {
        let members = tasks.groups()[group].tasks.iter();
        mean(&members.filter_map(|&task| self.task(task)).collect::<Vec<_>>())
    }

    /// By repeat, the mean over groups of the mean over their tasks.
    pub fn repeats(&self, tasks: &Tasks<'_>, ratio: f64) -> Repeats {
        let of = |row: &Vec<Option<f64>>| {
            let group = |members: &[usize]| mean(&members.iter().filter_map(|&task| row[task]).collect::<Vec<_>>());
            mean(&tasks.groups().iter().filter_map(|one| group(&one.tasks)).collect::<Vec<_>>())
        };
        Repeats { values: self.cells.iter().filter_map(of).collect(), ratio }
    }

    /// The means of the tasks under several grids, as a column of a table.
    pub fn lists(grids: &[Grid], tasks: usize) -> Cells {
        let of_task = |task: usize| grids.iter().map(|grid| grid.task(task)).collect();
        Cells::NumberLists((0..tasks).map(of_task).collect())
    }

    /// How many tasks are defined in some repeat.
    pub fn defined(&self) -> usize {
        let tasks = self.cells.first().map_or(0, Vec::len);
        (0..tasks).filter(|&task| self.task(task).is_some()).count()
    }

    /// Adds the average as a headline: its interval from the repeats, or over tasks if there is one repeat only.
    pub fn headline(&self, scores: &mut Scores, key: &str, repeats: &Repeats, bounds: (f64, f64), seed: u64) {
        let tasks = self.cells.first().map_or(0, Vec::len);
        let by_task: Vec<f64> = (0..tasks).filter_map(|task| self.task(task)).collect();
        let interval = match repeats.values.len() {
            1 => bootstrap_mean(&by_task, seed, key),
            _ => repeats.interval(bounds),
        };
        scores.headline(key, repeats.mean(), interval, by_task.len());
    }
}

/// Adds columns with a mean, its interval, the noise of one repeat and the smallest difference that can be told.
pub fn columns(table: Table, prefix: &str, repeats: &[Repeats], bounds: (f64, f64)) -> Table {
    let interval = |end: fn(Interval) -> f64| {
        repeats.iter().map(|repeats| repeats.interval(bounds).map(end)).collect::<Vec<Option<f64>>>()
    };
    table
        .numbers(prefix, repeats.iter().map(Repeats::mean))
        .numbers(&format!("{prefix}_low"), interval(|interval| interval.low))
        .numbers(&format!("{prefix}_high"), interval(|interval| interval.high))
        .numbers(&format!("{prefix}_noise"), repeats.iter().map(Repeats::noise))
        .numbers(&format!("{prefix}_detectable"), repeats.iter().map(Repeats::detectable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Annotations, Label};
    use etalon_kernel::bits::Bits;

    #[test]
    fn groups_weigh_the_same() {
        let names = ["a/x", "a/y", "b/z"].map(String::from).to_vec();
        let labels = Annotations::new(names, 0, |_, _| Label::No).unwrap();
        let none = Bits::empty(0);
        let tasks = Tasks::new(&labels, &none);
        // First repeat: a = (0.5 + 0.7)/2 = 0.6, b = 1.0, together 0.8; second: a = 0.5, b undefined: 0.5.
        let grid = Grid { cells: vec![vec![Some(0.5), Some(0.7), Some(1.0)], vec![Some(0.5), None, None]] };
        let values = grid.repeats(&tasks, 0.25).values;
        assert!((values[0] - 0.8).abs() < 1e-12 && values[1] == 0.5);
        assert_eq!((grid.task(1), grid.defined()), (Some(0.7), 3));
        assert!((grid.group(&tasks, 0).unwrap() - 0.6).abs() < 1e-12);
    }
}
