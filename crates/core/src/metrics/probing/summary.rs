//! Averages of scores: over the tasks of a group first, then over groups, then over repeats.

use etalon_kernel::statistics::mean;

use super::tasks::Group;
use super::test_rows::{self, RowParts};
use crate::results::{Cells, Interval, Repeats, Scores, Table};

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
}

impl Average<'_> {
    /// The average of every repeat.
    pub fn repeats(&self, grid: &Grid) -> Repeats {
        let of_repeat = |row: &Vec<Option<f64>>| {
            mean_of_defined(self.groups.iter().map(|group| mean_of_defined(group.tasks.iter().map(|&task| row[task]))))
        };
        Repeats { values: grid.cells.iter().filter_map(of_repeat).collect(), ratio: self.ratio }
    }

    /// Adds the average as a headline number, undefined without a grid. The interval is over repeats; with one repeat
    /// there is none.
    pub fn headline(&self, scores: &mut Scores, key: &str, grid: Option<&Grid>) {
        self.headline_of(scores, key, grid, |_| None);
    }

    /// The same without an interval, for a score whose repeats vary less than the score between data sets.
    pub fn headline_alone(&self, scores: &mut Scores, key: &str, grid: Option<&Grid>) {
        scores.headline(key, grid.and_then(|grid| self.repeats(grid).mean()), None, grid.map_or(0, Grid::defined));
    }

    /// The same, but with one repeat the interval is from the test rows of every task.
    pub fn headline_of<'p>(
        &self,
        scores: &mut Scores,
        key: &str,
        grid: Option<&Grid>,
        parts: impl Fn(usize) -> Option<&'p RowParts>,
    ) {
        let Some(grid) = grid else { return scores.headline(key, None, None, 0) };
        let repeats = self.repeats(grid);
        let interval = match (&grid.cells[..], repeats.mean()) {
            ([row], Some(mean)) => test_rows::interval(mean, &self.weighted(row, parts)),
            _ => repeats.interval(self.bounds),
        };
        scores.headline(key, repeats.mean(), interval, grid.defined());
    }

    /// The parts of the tasks that are defined in a repeat, with the weights of these tasks in its average.
    fn weighted<'p>(
        &self,
        row: &[Option<f64>],
        parts: impl Fn(usize) -> Option<&'p RowParts>,
    ) -> Vec<(f64, &'p RowParts)> {
        let defined = |group: &Group| group.tasks.iter().copied().filter(|&task| row[task].is_some()).collect();
        let groups: Vec<Vec<usize>> =
            self.groups.iter().map(defined).filter(|tasks: &Vec<_>| !tasks.is_empty()).collect();
        let weight = |tasks: &[usize]| 1.0 / (groups.len() * tasks.len()) as f64;
        let of_group = |tasks: &Vec<usize>| {
            let weight = weight(tasks);
            tasks.iter().filter_map(|&task| Some((weight, parts(task)?))).collect::<Vec<_>>()
        };
        groups.iter().flat_map(of_group).collect()
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
    use crate::metrics::probing::draw::DrawnRows;
    use crate::metrics::probing::test_rows::TestScore;

    #[test]
    fn groups_have_the_same_weight() {
        let groups = [vec![0, 1], vec![2]].map(|tasks| Group { name: String::new(), tasks });
        let average = Average { groups: &groups, ratio: 0.25, bounds: (0.0, 1.0) };
        // First repeat: (0.5 + 0.7)/2 = 0.6 and 1.0, together 0.8; second: 0.5, and the second group is undefined.
        let grid = Grid { tasks: 3, cells: vec![vec![Some(0.5), Some(0.7), Some(1.0)], vec![Some(0.5), None, None]] };
        let values = average.repeats(&grid).values;
        assert!((values[0] - 0.8).abs() < 1e-12 && values[1] == 0.5);
        assert_eq!((grid.task(1), grid.defined()), (Some(0.7), 3));
        assert!((grid.group(&groups[0]).unwrap() - 0.6).abs() < 1e-12);
        let test = DrawnRows { rows: vec![0, 1, 2, 3], positive: vec![true, true, false, false] };
        let parts = TestScore::accuracy(&test, &[1.0, -1.0, -1.0, 1.0], true).unwrap().parts.unwrap();
        let weights = |row: &[Option<f64>]| -> Vec<f64> {
            average.weighted(row, |_| Some(&parts)).iter().map(|(weight, _)| *weight).collect()
        };
        assert_eq!((weights(&grid.cells[0]), weights(&grid.cells[1])), (vec![0.25, 0.25, 0.5], vec![1.0]));
        // One repeat: an interval with parts only.
        let one = Grid { tasks: 3, cells: vec![vec![Some(0.5); 3]] };
        let mut scores = Scores::default();
        average.headline(&mut scores, "without", Some(&one));
        average.headline_of(&mut scores, "with", Some(&one), |_| Some(&parts));
        let intervals: Vec<bool> = scores.headline.iter().map(|headline| headline.interval.is_some()).collect();
        assert_eq!(intervals, [false, true]);
    }
}
