//! Averages of scores: over the tasks of a group first, then over groups, then over repeats.

use etalon_kernel::statistics::mean;

use super::tasks::Group;
use crate::results::{Cells, Interval, Repeats, Scores, Table, bootstrap_mean};

/// One score by repeat and task.
pub struct Grid {
    tasks: usize,
    /// `repeats × tasks`.
    pub cells: Vec<Vec<Option<f64>>>,
}

fn mean_of_defined(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    mean(&values.flatten().collect::<Vec<_>>())
}

impl Grid {
    /// Collects the scores of blocks; block `repeat * tasks + task` is a task in a repeat.
    pub fn new(repeats: usize, tasks: usize, score: impl Fn(usize) -> Option<f64>) -> Grid {
        let row = |repeat: usize| (0..tasks).map(|task| score(repeat * tasks + task)).collect();
        Grid { tasks, cells: (0..repeats).map(row).collect() }
    }

    /// The mean over the repeats in which a task is defined.
    pub fn task(&self, task: usize) -> Option<f64> {
        mean_of_defined(self.cells.iter().map(|row| row[task]))
    }

    /// The means of all tasks.
    pub fn tasks(&self) -> Vec<Option<f64>> {
        (0..self.tasks).map(|task| self.task(task)).collect()
    }

    /// The mean over the tasks of a group of their means over repeats.
    pub fn group(&self, group: &Group) -> Option<f64> {
        mean_of_defined(group.tasks.iter().map(|&task| self.task(task)))
    }

    /// The number of tasks that are defined in some repeat.
    pub fn defined(&self) -> usize {
        self.tasks().iter().flatten().count()
    }

    /// The task means of several grids, as a column of a table.
    pub fn lists(grids: &[Grid], tasks: usize) -> Cells {
        Cells::NumberLists((0..tasks).map(|task| grids.iter().map(|grid| grid.task(task)).collect()).collect())
    }
}

/// How grids are averaged.
#[derive(Clone, Copy)]
pub struct Average<'a> {
    /// Groups of tasks, which have the same weight.
    pub groups: &'a [Group],
    /// Test rows per training row.
    pub ratio: f64,
    /// The range of the scores.
    pub bounds: (f64, f64),
    /// The seed of bootstraps.
    pub seed: u64,
}

impl Average<'_> {
    /// The average of every repeat.
    pub fn repeats(&self, grid: &Grid) -> Repeats {
        let of_repeat = |row: &Vec<Option<f64>>| {
            mean_of_defined(self.groups.iter().map(|group| mean_of_defined(group.tasks.iter().map(|&task| row[task]))))
        };
        Repeats { values: grid.cells.iter().filter_map(of_repeat).collect(), ratio: self.ratio }
    }

    /// Adds the average as a headline number, undefined without a grid. The interval is over repeats, or over tasks if
    /// there is only one repeat.
    pub fn headline(&self, scores: &mut Scores, key: &str, grid: Option<&Grid>) {
        let Some(grid) = grid else { return scores.headline(key, None, None, 0) };
        let repeats = self.repeats(grid);
        let by_task: Vec<f64> = grid.tasks().into_iter().flatten().collect();
        let interval = match repeats.values.len() {
            1 => bootstrap_mean(&by_task, self.seed, key),
            _ => repeats.interval(self.bounds),
        };
        scores.headline(key, repeats.mean(), interval, by_task.len());
    }

    /// A table by size, with five columns for every score: mean, interval, standard deviation of one repeat, and the
    /// smallest detectable difference.
    pub fn table(&self, axis: &str, sizes: &[usize], by_size: &[(&str, &[Grid])]) -> Table {
        let mut table = Table::new(axis).counts(axis, sizes.iter().copied());
        for (name, grids) in by_size {
            let repeats: Vec<Repeats> = grids.iter().map(|grid| self.repeats(grid)).collect();
            let end = |end: fn(Interval) -> f64| -> Vec<Option<f64>> {
                repeats.iter().map(|repeats| repeats.interval(self.bounds).map(end)).collect()
            };
            table = table
                .numbers(name, repeats.iter().map(Repeats::mean))
                .numbers(&format!("{name}_low"), end(|interval| interval.low))
                .numbers(&format!("{name}_high"), end(|interval| interval.high))
                .numbers(&format!("{name}_noise"), repeats.iter().map(Repeats::noise))
                .numbers(&format!("{name}_detectable"), repeats.iter().map(Repeats::detectable));
        }
        table
    }
}

/// Adds a note about tasks that are undefined in all repeats.
pub fn note_undefined(scores: &mut Scores, tasks: usize, grid: Option<&Grid>) {
    let undefined = tasks - grid.map_or(0, Grid::defined);
    if undefined > 0 || tasks == 0 {
        scores.note(format!("{undefined} of {tasks} concepts are undefined: a class lacks training or test rows"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_have_the_same_weight() {
        let groups = [vec![0, 1], vec![2]].map(|tasks| Group { name: String::new(), tasks });
        let average = Average { groups: &groups, ratio: 0.25, bounds: (0.0, 1.0), seed: 0 };
        // First repeat: (0.5 + 0.7)/2 = 0.6 and 1.0, together 0.8; second: 0.5, and the second group is undefined.
        let grid = Grid { tasks: 3, cells: vec![vec![Some(0.5), Some(0.7), Some(1.0)], vec![Some(0.5), None, None]] };
        let values = average.repeats(&grid).values;
        assert!((values[0] - 0.8).abs() < 1e-12 && values[1] == 0.5);
        assert_eq!((grid.task(1), grid.defined()), (Some(0.7), 3));
        assert!((grid.group(&groups[0]).unwrap() - 0.6).abs() < 1e-12);
    }
}
