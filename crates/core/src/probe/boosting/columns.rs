//! Boosted trees on any number of columns, with importances.
//!
//! Columns are sorted once for all trees and targets. A level of a tree visits the sorted rows of every column once, for
//! all nodes of the level together.

use etalon_kernel::monitor::{Cancelled, Monitor};

use super::{Boosting, BoostingTarget, NodeSums, SAME, between, class_of};

/// Columns of values, and the rows of each in ascending order.
pub struct SortedColumns {
    rows: usize,
    columns: Vec<Vec<f32>>,
    orders: Vec<Vec<u32>>,
}

impl SortedColumns {
    /// Sorts the columns, which must have the same length.
    pub fn new(columns: Vec<Vec<f32>>) -> SortedColumns {
        let rows = columns.first().map_or(0, Vec::len);
        let order = |column: &Vec<f32>| {
            let mut order: Vec<u32> = (0..rows as u32).collect();
            order.sort_unstable_by(|&a, &b| column[a as usize].total_cmp(&column[b as usize]).then(a.cmp(&b)));
            order
        };
        let orders = columns.iter().map(order).collect();
        SortedColumns { rows, columns, orders }
    }

    /// Bytes of memory for some rows and columns.
    pub fn bytes(rows: usize, columns: usize) -> u64 {
        8 * (rows * columns) as u64 + 64 * rows as u64
    }
}

/// A node of a tree: a split, or a leaf if it has no children.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Node {
    column: u32,
    threshold: f64,
    /// The left child; the right one follows it. 0 for leaves.
    left: u32,
    value: f64,
}

/// A fitted ensemble.
#[derive(Clone, Debug, PartialEq)]
pub struct Boosted {
    start: Vec<f64>,
    rate: f64,
    /// The trees of a stage, one per output, stage by stage.
    trees: Vec<Vec<Node>>,
    /// The share of every column in the decrease of impurity; zeros if nothing was split.
    pub importances: Vec<f64>,
}

impl Boosted {
    /// The outputs of a row: a number, a logit, or one score per class. `value` returns the row's value of a column.
    pub fn scores(&self, value: impl Fn(usize) -> f32) -> Vec<f64> {
        let mut scores = self.start.clone();
        for (number, tree) in self.trees.iter().enumerate() {
            let mut node = &tree[0];
            while node.left > 0 {
                let right = f64::from(value(node.column as usize)) > node.threshold;
                node = &tree[node.left as usize + usize::from(right)];
            }
            scores[number % self.start.len()] += self.rate * node.value;
        }
        scores
    }

    /// The nodes of the first tree: column, threshold, left child (0 for leaves), value.
    #[cfg(test)]
    pub fn first_tree(&self) -> Vec<(u32, f64, u32, f64)> {
        self.trees[0].iter().map(|node| (node.column, node.threshold, node.left, node.value)).collect()
    }

    /// The class of a row.
    pub fn class(&self, value: impl Fn(usize) -> f32) -> u32 {
        class_of(&self.scores(value))
    }
}

impl Boosting {
    /// Fits the trees.
    pub fn fit(
        &self,
        data: &SortedColumns,
        target: BoostingTarget<'_>,
        monitor: &dyn Monitor,
    ) -> Result<Boosted, Cancelled> {
        let rows = data.rows;
        let start = target.start();
        let outputs = start.len();
        let mut scores: Vec<Vec<f64>> = start.iter().map(|&start| vec![start; rows]).collect();
        let mut residuals: Vec<Vec<f64>> = vec![vec![0.0; rows]; outputs];
        let mut growth = Growth::new(self, data);
        let mut boosted =
            Boosted { start, rate: self.rate, trees: Vec::new(), importances: vec![0.0; data.columns.len()] };
        for _ in 0..self.stages {
            monitor.check()?;
            target.residuals(&scores, &mut residuals);
            for (output, residuals) in residuals.iter().enumerate() {
                let (mut tree, decrease) = growth.grow(residuals);
                growth.set_leaves(&mut tree, target, residuals, outputs);
                for (score, &leaf) in scores[output].iter_mut().zip(&growth.leaf_of) {
                    *score += self.rate * tree[leaf as usize].value;
                }
                boosted.importances.iter_mut().zip(&decrease).for_each(|(sum, part)| *sum += part);
                boosted.trees.push(tree);
            }
        }
        let total: f64 = boosted.importances.iter().sum();
        if total > 0.0 {
            boosted.importances.iter_mut().for_each(|part| *part /= total);
        }
        Ok(boosted)
    }
}

impl BoostingTarget<'_> {
    /// The negative gradients.
    fn residuals(&self, scores: &[Vec<f64>], residuals: &mut [Vec<f64>]) {
        match *self {
            BoostingTarget::Numbers(numbers) => {
                for ((residual, number), score) in residuals[0].iter_mut().zip(numbers).zip(&scores[0]) {
                    *residual = number - score;
                }
            }
            BoostingTarget::Classes(classes, _) if scores.len() == 1 => {
                for ((residual, &class), &score) in residuals[0].iter_mut().zip(classes).zip(&scores[0]) {
                    *residual = BoostingTarget::binary_residual(class, score);
                }
            }
            BoostingTarget::Classes(classes, _) => {
                let mut own = vec![0.0; scores.len()];
                for (row, &class) in classes.iter().enumerate() {
                    own.iter_mut().zip(scores).for_each(|(value, scores)| *value = scores[row]);
                    BoostingTarget::softmax_residuals(class, &mut own);
                    residuals.iter_mut().zip(&own).for_each(|(residuals, own)| residuals[row] = *own);
                }
            }
        }
    }
}

/// A node of the level that is being split.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Its place in the tree.
    node: usize,
    sums: NodeSums,
    /// Whether it may be split.
    is_open: bool,
    /// The best split so far.
    best: Option<BestSplit>,
}

#[derive(Clone, Copy)]
struct BestSplit {
    explained: f64,
    column: u32,
    threshold: f64,
}

/// The left side of a node during a scan.
#[derive(Clone, Copy, Default)]
struct Left {
    rows: f64,
    sum: f64,
    last: f32,
}

/// Grows trees one after the other with the same memory.
struct Growth<'a> {
    settings: &'a Boosting,
    data: &'a SortedColumns,
    /// The number of every row's open node, or `CLOSED`.
    open_of: Vec<u32>,
    /// The leaf of every row of the last tree.
    leaf_of: Vec<u32>,
}

const CLOSED: u32 = u32::MAX;

impl<'a> Growth<'a> {
    fn new(settings: &'a Boosting, data: &'a SortedColumns) -> Growth<'a> {
        Growth { settings, data, open_of: vec![0; data.rows], leaf_of: vec![0; data.rows] }
    }

    /// Grows a tree on the residuals; returns its nodes without leaf values, and the decrease of impurity by column.
    fn grow(&mut self, residuals: &[f64]) -> (Vec<Node>, Vec<f64>) {
        let mut tree = vec![Node::default()];
        let mut decrease = vec![0.0; self.data.columns.len()];
        self.open_of.fill(0);
        self.leaf_of.fill(0);
        let mut root = Open::default();
        residuals.iter().for_each(|&residual| root.sums.add(residual));
        let mut level = vec![root];
        for _ in 0..self.settings.depth {
            for open in &mut level {
                open.is_open = self.settings.is_open(&open.sums);
            }
            if level.iter().all(|open| !open.is_open) {
                break;
            }
            for column in 0..self.data.columns.len() {
                self.scan(column, residuals, &mut level);
            }
            level = self.split(&mut tree, &level, residuals, &mut decrease);
            if level.is_empty() {
                break;
            }
        }
        (tree, decrease)
    }

    /// Finds the best split of every open node by one column.
    fn scan(&self, column: usize, residuals: &[f64], level: &mut [Open]) {
        let (values, order) = (&self.data.columns[column], &self.data.orders[column]);
        let mut left = vec![Left::default(); level.len()];
        let fewest = self.settings.fewest as f64;
        for &row in order {
            let number = self.open_of[row as usize];
            if number == CLOSED {
                continue;
            }
            let (open, left) = (&mut level[number as usize], &mut left[number as usize]);
            let value = values[row as usize];
            if left.rows >= fewest && value > left.last + SAME && open.sums.rows - left.rows >= fewest && open.is_open {
                let explained = open.sums.explained(left.rows, left.sum);
                // A split that gains nothing is taken, too: the next level may gain.
                if open.best.is_none_or(|best| explained > best.explained) {
                    let threshold = between(left.last, value);
                    open.best = Some(BestSplit { explained, column: column as u32, threshold });
                }
            }
            left.rows += 1.0;
            left.sum += residuals[row as usize];
            left.last = value;
        }
    }

    /// Splits the open nodes that have a split, and returns their children.
    fn split(&mut self, tree: &mut Vec<Node>, level: &[Open], residuals: &[f64], decrease: &mut [f64]) -> Vec<Open> {
        let mut next: Vec<Open> = Vec::new();
        // The first child of every open node among the next ones.
        let mut children = vec![CLOSED; level.len()];
        for (number, open) in level.iter().enumerate() {
            if let Some(BestSplit { column, threshold, .. }) = open.best {
                tree[open.node] = Node { column, threshold, left: tree.len() as u32, value: 0.0 };
                children[number] = next.len() as u32;
                next.push(Open { node: tree.len(), ..Open::default() });
                next.push(Open { node: tree.len() + 1, ..Open::default() });
                tree.extend([Node::default(); 2]);
            }
        }
        for (row, &residual) in residuals.iter().enumerate() {
            let number = self.open_of[row];
            if number == CLOSED {
                continue;
            }
            let first = children[number as usize];
            self.open_of[row] = CLOSED;
            if let Some(best) = level[number as usize].best {
                let right = f64::from(self.data.columns[best.column as usize][row]) > best.threshold;
                let child = first + u32::from(right);
                let next = &mut next[child as usize];
                next.sums.add(residual);
                self.open_of[row] = child;
                self.leaf_of[row] = next.node as u32;
            }
        }
        for (open, &first) in level.iter().zip(&children) {
            if let Some(best) = open.best {
                let [left, right] = [&next[first as usize], &next[first as usize + 1]];
                decrease[best.column as usize] += open.sums.spread() - left.sums.spread() - right.sums.spread();
            }
        }
        next
    }

    /// Sets the values of the leaves.
    fn set_leaves(&self, tree: &mut [Node], target: BoostingTarget<'_>, residuals: &[f64], outputs: usize) {
        let mut sums = vec![(0.0, 0.0); tree.len()];
        for (&leaf, &residual) in self.leaf_of.iter().zip(residuals) {
            let (numerator, curvature) = &mut sums[leaf as usize];
            *numerator += residual;
            *curvature += target.curvature(residual);
        }
        for (node, (numerator, curvature)) in tree.iter_mut().zip(sums) {
            if node.left == 0 {
                node.value = target.leaf(numerator, curvature, outputs);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::monitor::Silent;

    #[test]
    fn a_stump_matches_a_worked_example() {
        // Values 1 2 3 4, targets 0 0 1 1: mean 1/2, residuals ∓1/2. The split at 2.5 has leaves ∓1/2; one stage adds a tenth.
        let data = SortedColumns::new(vec![vec![5.0; 4], vec![1.0, 2.0, 3.0, 4.0]]);
        let boosting = Boosting { stages: 1, depth: 1, ..Boosting::default() };
        let numbers = [0.0, 0.0, 1.0, 1.0];
        let fitted = boosting.fit(&data, BoostingTarget::Numbers(&numbers), &Silent).unwrap();
        assert_eq!(fitted.importances, [0.0, 1.0]);
        assert_eq!((fitted.scores(|_| 2.5), fitted.scores(|_| 2.6)), (vec![0.45], vec![0.55]));
        // Classes: log-odds 0, residuals ∓1/2, leaves ∓(2 · 1/2)/(2 · 1/4) = ∓2.
        let fitted = boosting.fit(&data, BoostingTarget::Classes(&[0, 0, 1, 1], 2), &Silent).unwrap();
        assert_eq!((fitted.scores(|_| 1.0), fitted.class(|_| 4.0)), (vec![-0.2], 1));
    }

    #[test]
    fn a_split_without_gain_is_taken_because_the_next_may_gain() {
        // Exclusive or: no first split gains anything; the lowest column is taken, and the second level separates all.
        let data = SortedColumns::new(vec![vec![0.0, 0.0, 1.0, 1.0], vec![0.0, 1.0, 0.0, 1.0]]);
        let boosting = Boosting { stages: 1, depth: 2, rate: 1.0, ..Boosting::default() };
        let fitted = boosting.fit(&data, BoostingTarget::Numbers(&[0.0, 1.0, 1.0, 0.0]), &Silent).unwrap();
        assert_eq!(fitted.importances, [0.0, 1.0]);
        assert_eq!((fitted.scores(|_| 0.0), fitted.scores(|column| column as f32)), (vec![0.0], vec![1.0]));
    }

    #[test]
    fn constant_columns_and_targets_are_not_split() {
        let data = SortedColumns::new(vec![vec![1.0; 5]]);
        let fitted =
            Boosting::default().fit(&data, BoostingTarget::Numbers(&[0.0, 1.0, 2.0, 3.0, 4.0]), &Silent).unwrap();
        assert_eq!((fitted.importances[0], fitted.scores(|_| 1.0)[0]), (0.0, 2.0));
        let data = SortedColumns::new(vec![vec![1.0, 2.0, 3.0]]);
        let fitted = Boosting::default().fit(&data, BoostingTarget::Numbers(&[7.0; 3]), &Silent).unwrap();
        assert_eq!(fitted.scores(|_| 9.0), [7.0]);
    }
}
