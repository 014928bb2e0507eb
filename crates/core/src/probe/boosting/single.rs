//! Boosted trees on one column. A node of a tree is a range of the sorted rows and a tree a step function, so that a
//! level is one sweep over the residuals in sorted order.

use etalon_kernel::monitor::{Cancelled, Monitor};

use super::{Boosting, BoostingTarget, NodeSums, SAME, between, class_of};

/// A column in ascending order.
pub struct SortedColumn {
    /// The rows in ascending order of their values.
    order: Vec<u32>,
    /// Where every row is in this order.
    places: Vec<u32>,
    /// The values in this order.
    values: Vec<f32>,
    /// Where runs of equal values end.
    ends: Vec<usize>,
}

impl SortedColumn {
    /// Sorts a column.
    pub fn new(column: &[f32]) -> SortedColumn {
        let mut order: Vec<u32> = (0..column.len() as u32).collect();
        order.sort_unstable_by(|&a, &b| column[a as usize].total_cmp(&column[b as usize]).then(a.cmp(&b)));
        let values: Vec<f32> = order.iter().map(|&row| column[row as usize]).collect();
        let mut places = vec![0; order.len()];
        order.iter().enumerate().for_each(|(place, &row)| places[row as usize] = place as u32);
        let mut ends: Vec<usize> = (1..values.len()).filter(|&at| values[at] > values[at - 1] + SAME).collect();
        if !values.is_empty() {
            ends.push(values.len());
        }
        SortedColumn { order, places, values, ends }
    }

    /// Bytes of memory that a fit needs for some rows and outputs.
    pub fn bytes(rows: usize, outputs: usize) -> u64 {
        (rows * (40 + 16 * outputs)) as u64
    }
}

/// A step function: values up to `thresholds[0]` have `leaves[0]`, and so on.
#[derive(Clone, Debug, Default, PartialEq)]
struct Steps {
    thresholds: Vec<f64>,
    leaves: Vec<f64>,
}

/// A fitted ensemble of one column.
#[derive(Clone, Debug, PartialEq)]
pub struct SingleBoosted {
    start: Vec<f64>,
    rate: f64,
    /// The trees of a stage, one per output, stage by stage.
    trees: Vec<Steps>,
}

impl SingleBoosted {
    /// The outputs of a value: a number, a logit, or one score per class.
    pub fn scores(&self, value: f32) -> Vec<f64> {
        let mut scores = self.start.clone();
        for (number, tree) in self.trees.iter().enumerate() {
            let leaf = tree.thresholds.partition_point(|threshold| *threshold < f64::from(value));
            scores[number % self.start.len()] += self.rate * tree.leaves[leaf];
        }
        scores
    }

    /// The class of a value.
    pub fn class(&self, value: f32) -> u32 {
        class_of(&self.scores(value))
    }
}

impl Boosting {
    /// Fits the trees of one column.
    pub fn fit_single(
        &self,
        data: &SortedColumn,
        target: BoostingTarget<'_>,
        monitor: &dyn Monitor,
    ) -> Result<SingleBoosted, Cancelled> {
        let start = target.start();
        let (rows, outputs) = (data.order.len(), start.len());
        let sorted = Sorted::of(data, target);
        let mut boosted = SingleBoosted { start: start.clone(), rate: self.rate, trees: Vec::new() };
        let mut scores: Vec<Vec<f64>> = start.into_iter().map(|start| vec![start; rows]).collect();
        let mut residuals = vec![vec![0.0; rows]; outputs];
        for _ in 0..self.stages {
            monitor.check()?;
            sorted.residuals(&scores, &mut residuals);
            for (scores, residuals) in scores.iter_mut().zip(&residuals) {
                let mut tree = Grown { settings: self, data, target, outputs, residuals, steps: Steps::default() };
                if rows == 0 {
                    tree.steps.leaves.push(0.0);
                } else {
                    tree.grow(0..data.ends.len(), 0, Side::Root, scores);
                }
                boosted.trees.push(tree.steps);
            }
        }
        Ok(boosted)
    }
}

/// The target in the order of the column.
enum Sorted {
    Numbers(Vec<f64>),
    Classes(Vec<u32>),
}

impl Sorted {
    fn of(data: &SortedColumn, target: BoostingTarget<'_>) -> Sorted {
        match target {
            BoostingTarget::Numbers(numbers) => {
                Sorted::Numbers(data.order.iter().map(|&row| numbers[row as usize]).collect())
            }
            BoostingTarget::Classes(classes, _) => {
                Sorted::Classes(data.order.iter().map(|&row| classes[row as usize]).collect())
            }
        }
    }

    /// The negative gradients. Neighbours that no threshold has separated have the same scores: a power is taken once for
    /// each run of them and class.
    fn residuals(&self, scores: &[Vec<f64>], residuals: &mut [Vec<f64>]) {
        match (self, scores) {
            (Sorted::Numbers(numbers), _) => {
                for ((residual, number), score) in residuals[0].iter_mut().zip(numbers).zip(&scores[0]) {
                    *residual = number - score;
                }
            }
            (Sorted::Classes(classes), [scores]) => {
                let (mut before, mut known) = (f64::NAN, [0.0; 2]);
                for ((residual, &class), &score) in residuals[0].iter_mut().zip(classes).zip(scores) {
                    if score != before {
                        before = score;
                        known = [0, 1].map(|class| BoostingTarget::binary_residual(class, score));
                    }
                    *residual = known[class as usize & 1];
                }
            }
            (Sorted::Classes(classes), scores) => {
                let mut known: Vec<Option<Vec<f64>>> = vec![None; scores.len()];
                for (at, &class) in classes.iter().enumerate() {
                    if at > 0 && scores.iter().any(|scores| scores[at] != scores[at - 1]) {
                        known.fill(None);
                    }
                    let own = known[class as usize].get_or_insert_with(|| {
                        let mut own: Vec<f64> = scores.iter().map(|scores| scores[at]).collect();
                        BoostingTarget::softmax_residuals(class, &mut own);
                        own
                    });
                    residuals.iter_mut().zip(own).for_each(|(residuals, own)| residuals[at] = *own);
                }
            }
        }
    }
}

/// How a node came about, which is the order in which scikit-learn adds up its residuals: the root in the order of rows, a left
/// child in ascending order, a right child likewise but for the first row, which its partition moves to the end.
#[derive(Clone, Copy)]
enum Side {
    Root,
    Left,
    Right,
}

/// A tree that is being grown, from left to right.
struct Grown<'a> {
    settings: &'a Boosting,
    data: &'a SortedColumn,
    target: BoostingTarget<'a>,
    outputs: usize,
    residuals: &'a [f64],
    steps: Steps,
}

impl Grown<'_> {
    /// The rows of some runs.
    fn rows(&self, runs: &std::ops::Range<usize>) -> std::ops::Range<usize> {
        let start = runs.start.checked_sub(1).map_or(0, |before| self.data.ends[before]);
        start..self.data.ends[runs.end - 1]
    }

    /// Number, sum and squares of the residuals of a node.
    fn sums(&self, rows: &std::ops::Range<usize>, side: Side) -> NodeSums {
        let mut node = NodeSums::default();
        let own = &self.residuals[rows.clone()];
        match side {
            Side::Root => self.data.places.iter().for_each(|&place| node.add(self.residuals[place as usize])),
            Side::Left => own.iter().for_each(|&residual| node.add(residual)),
            Side::Right => own.iter().skip(1).chain(&own[..1]).for_each(|&residual| node.add(residual)),
        }
        node
    }

    /// Adds the leaves of a node, which is some runs of equal values, and adds their values to the scores.
    fn grow(&mut self, runs: std::ops::Range<usize>, depth: usize, side: Side, scores: &mut [f64]) {
        let rows = self.rows(&runs);
        let node = self.sums(&rows, side);
        let is_open = depth < self.settings.depth && self.settings.is_open(&node);
        match is_open.then(|| self.best(&runs, &node)).flatten() {
            Some(middle) => {
                self.grow(runs.start..middle, depth + 1, Side::Left, scores);
                let at = self.data.ends[middle - 1];
                self.steps.thresholds.push(between(self.data.values[at - 1], self.data.values[at]));
                self.grow(middle..runs.end, depth + 1, Side::Right, scores);
            }
            None => {
                let curvature = self.residuals[rows.clone()].iter().map(|&own| self.target.curvature(own)).sum();
                let value = self.target.leaf(node.sum, curvature, self.outputs);
                self.steps.leaves.push(value);
                scores[rows].iter_mut().for_each(|score| *score += self.settings.rate * value);
            }
        }
    }

    /// The first run of the right side of the best split.
    fn best(&self, runs: &std::ops::Range<usize>, node: &NodeSums) -> Option<usize> {
        let fewest = self.settings.fewest as f64;
        let mut at = self.rows(runs).start;
        let first = at;
        let (mut sum, mut best, mut found) = (0.0, f64::NEG_INFINITY, None);
        for run in runs.start..runs.end - 1 {
            let end = self.data.ends[run];
            self.residuals[at..end].iter().for_each(|residual| sum += residual);
            at = end;
            let left = (end - first) as f64;
            if left < fewest || node.rows - left < fewest {
                continue;
            }
            let explained = node.explained(left, sum);
            if explained > best {
                (best, found) = (explained, Some(run + 1));
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::SortedColumns;
    use super::*;
    use etalon_kernel::monitor::Silent;
    use etalon_kernel::random::{index, stream, unit};

    #[test]
    fn one_column_is_fitted_as_several_are() {
        for trial in 0..12u64 {
            let mut random = stream(trial, "boosting/single", 0);
            let rows = 40 + index(100, &mut random);
            // Few distinct values in some trials, many in others.
            let levels = [2, 7, 100_000][trial as usize % 3];
            let column: Vec<f32> = (0..rows).map(|_| index(levels, &mut random) as f32 / 64.0).collect();
            let noisy = |value: f32, random: &mut _| f64::from(value).sin() + unit(random);
            let numbers: Vec<f64> = column.iter().map(|&value| noisy(value, &mut random)).collect();
            let classes: Vec<u32> = numbers.iter().map(|&number| (number * 1.4).clamp(0.0, 2.0) as u32).collect();
            let halves: Vec<u32> = classes.iter().map(|&class| class.min(1)).collect();
            let settings = Boosting { stages: 25, fewest: 1 + trial as usize % 2, ..Boosting::default() };
            for target in [
                BoostingTarget::Numbers(&numbers),
                BoostingTarget::Classes(&halves, 2),
                BoostingTarget::Classes(&classes, 3),
            ] {
                if let BoostingTarget::Classes(classes, count) = target
                    && (0..count as u32).any(|class| !classes.contains(&class))
                {
                    continue;
                }
                let single = settings.fit_single(&SortedColumn::new(&column), target, &Silent).unwrap();
                let general = settings.fit(&SortedColumns::new(vec![column.clone()]), target, &Silent).unwrap();
                let distance = |&value: &f32| {
                    let (a, b) = (single.scores(value), general.scores(|_| value));
                    a.iter().zip(&b).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max)
                };
                let different = column.iter().filter(|value| distance(value) > 1e-9).count();
                // Splits of classes can be equally good, and their sums are rounded in another order.
                let allowed = if matches!(target, BoostingTarget::Numbers(_)) { 0 } else { rows / 10 };
                assert!(different <= allowed, "trial {trial}: {different} of {rows}");
            }
        }
    }

    #[test]
    fn a_tree_of_two_levels_matches_a_worked_example() {
        // Numbers 0 0 4 6 by value; mean 2.5. The first split explains most between 0 0 and 4 6 (means 0 and 5), the second
        // level splits 4 and 6; one stage with rate 1 predicts all.
        let settings = Boosting { stages: 1, depth: 2, rate: 1.0, ..Boosting::default() };
        let data = SortedColumn::new(&[3.0, 1.0, 2.0, 4.0]);
        let fitted = settings.fit_single(&data, BoostingTarget::Numbers(&[4.0, 0.0, 0.0, 6.0]), &Silent).unwrap();
        let found = [1.0, 2.5, 2.6, 3.5, 3.6].map(|value| fitted.scores(value)[0]);
        assert!(found.iter().zip([0.0, 0.0, 4.0, 4.0, 6.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    }

    #[test]
    fn no_rows_and_constant_columns() {
        let none = Boosting::default().fit_single(&SortedColumn::new(&[]), BoostingTarget::Numbers(&[]), &Silent);
        assert_eq!(none.unwrap().scores(1.0), [0.0]);
        let data = SortedColumn::new(&[2.0; 5]);
        let numbers = [0.0, 1.0, 2.0, 3.0, 4.0];
        let fitted = Boosting::default().fit_single(&data, BoostingTarget::Numbers(&numbers), &Silent).unwrap();
        assert!((fitted.scores(9.0)[0] - 2.0).abs() < 1e-12);
    }
}
