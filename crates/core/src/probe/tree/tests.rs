//! Trees against a plain implementation of the definition.

use etalon_kernel::random::{index, stream};
use rand::Rng;

use super::*;
use crate::codes::Codes;

/// The definition without shortcuts: every threshold of every column, counted row by row.
struct Plain<'a> {
    values: &'a [f32],
    width: usize,
    positive: &'a [bool],
}

impl Plain<'_> {
    fn value(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.width + column]
    }

    fn count(&self, rows: &[usize]) -> Classes {
        let mut classes = Classes::default();
        rows.iter().for_each(|&row| classes.add(self.positive[row]));
        classes
    }

    fn best(&self, rows: &[usize], ignored: &[Latent]) -> Option<Split> {
        let mut best: Option<((u128, u128), Split)> = None;
        for column in (0..self.width).filter(|&column| !ignored.contains(&Latent(column as u32))) {
            let mut values: Vec<f32> = rows.iter().map(|&row| self.value(row, column)).collect();
            values.sort_by(f32::total_cmp);
            for pair in values.windows(2).filter(|pair| pair[1] > pair[0] + 1e-7) {
                let threshold = (f64::from(pair[0]) + f64::from(pair[1])) / 2.0;
                let goes = |&row: &usize| f64::from(self.value(row, column)) <= threshold;
                let (left, right): (Vec<usize>, Vec<usize>) = rows.iter().partition(|row| goes(row));
                let (left, right) = (self.count(&left), self.count(&right));
                let part = |a: Classes, b: Classes| (a.positives * a.negatives * b.total()) as u128;
                let score = (part(left, right) + part(right, left), left.total() as u128 * right.total() as u128);
                if best.is_none_or(|(old, _)| score.0 * old.1 < old.0 * score.1) {
                    best = Some((score, Split { latent: Latent(column as u32), threshold, left, right }));
                }
            }
        }
        best.map(|(_, split)| split)
    }

    fn grow(&self, rows: Vec<usize>, level: usize, depth: Option<usize>, ignored: &[Latent]) -> Vec<Node> {
        let classes = self.count(&rows);
        let leaf = Node { depth: level, classes, split: None, children: None };
        if classes.is_pure() || depth.is_some_and(|depth| level > depth) {
            return vec![leaf];
        }
        let Some(split) = self.best(&rows, ignored) else { return vec![leaf] };
        let goes = |&row: &usize| f64::from(self.value(row, split.latent.0 as usize)) <= split.threshold;
        let (left, right) = rows.iter().partition(|row| goes(row));
        let left = self.grow(left, level + 1, depth, ignored);
        let right = self.grow(right, level + 1, depth, ignored);
        let moved = |nodes: Vec<Node>, by: usize| {
            nodes
                .into_iter()
                .map(move |node| Node { children: node.children.map(|(left, right)| (left + by, right + by)), ..node })
        };
        let children = Some((1, 1 + left.len()));
        let right_by = 1 + left.len();
        let mut nodes = vec![Node { split: Some(split), children, ..leaf }];
        nodes.extend(moved(left, 1));
        nodes.extend(moved(right, right_by));
        nodes
    }
}

fn sample(values: &[f32], width: usize, positive: &[bool]) -> (Codes, TreeRows) {
    let codes = Codes::from_dense(values, width).unwrap();
    let rows: Vec<(usize, bool)> = positive.iter().copied().enumerate().collect();
    let sample = TreeRows::new(codes.all().unwrap(), &rows).unwrap();
    (codes, sample)
}

#[test]
fn a_stump_matches_the_worked_example() {
    // Latent 0: 0 0 2 4, classes - + + +. Between 0 and 2: left 1+ 1-, right 2+ 0-: 1·1/2 + 0 = 0.5.
    // Between 2 and 4: left 2+ 1-: 2·1/3 = 0.67. Latent 1: -1 0 0 3: between -1 and 0: left 0+ 1-, right pure: 0.
    let (codes, sample) = sample(&[0.0, -1.0, 0.0, 0.0, 2.0, 0.0, 4.0, 3.0], 2, &[false, true, true, true]);
    let tree = Tree::grow(&sample, None, &[]);
    let root = tree.nodes[0].split.unwrap();
    assert_eq!((root.latent, root.threshold, tree.nodes.len(), tree.depth()), (Latent(1), -0.5, 3, 1));
    let best = sample.best_splits(5);
    assert_eq!(best.iter().map(|split| split.latent.0).collect::<Vec<_>>(), [1, 0]);
    assert_eq!((best[1].threshold, best[1].correct()), (1.0, 3));
    let all = codes.all().unwrap();
    let predicted: Vec<bool> = (0..4).map(|row| tree.predict(all.row(row).0, all.row(row).1)).collect();
    assert_eq!(predicted, [false, true, true, true]);
}

#[test]
fn agrees_with_the_plain_definition() {
    for trial in 0..120u64 {
        let mut random = stream(trial, "tree/test", 0);
        // Some trials have many rows, so that small children leave stale ranks in large ones.
        let most = if trial % 10 == 9 { 300 } else { 30 };
        let (rows, width) = (2 + index(most, &mut random), 1 + index(6, &mut random));
        let signed = trial % 3 == 0;
        let levels = [3, 5, 1000][trial as usize % 3];
        let values: Vec<f32> = (0..rows * width)
            .map(|_| {
                let size = index(levels, &mut random) as f32 / 8.0;
                let off = !random.next_u32().is_multiple_of(3);
                if off {
                    0.0
                } else if signed && random.next_u32().is_multiple_of(2) {
                    -size
                } else {
                    size
                }
            })
            .collect();
        let positive: Vec<bool> = (0..rows).map(|_| random.next_u32().is_multiple_of(3)).collect();
        let (_, sample) = sample(&values, width, &positive);
        let plain = Plain { values: &values, width, positive: &positive };
        for (depth, ignored) in [(None, vec![]), (Some(3), vec![]), (None, vec![Latent(0)]), (Some(1), vec![])] {
            let tree = Tree::grow(&sample, depth, &ignored);
            let expected = plain.grow((0..rows).collect(), 1, depth, &ignored);
            assert_eq!(tree.nodes, expected, "trial {trial}, depth {depth:?}");
        }
    }
}

#[test]
fn the_best_splits_are_the_roots_of_trees_without_earlier_latents() {
    for trial in 0..20 {
        let mut random = stream(trial, "tree/cut", 0);
        let values: Vec<f32> =
            (0..40 * 7).map(|_| (random.next_u32() % 4) as f32 * (random.next_u32() % 2) as f32).collect();
        let positive: Vec<bool> = (0..40).map(|_| random.next_u32().is_multiple_of(2)).collect();
        let (_, sample) = sample(&values, 7, &positive);
        let mut ignored = Vec::new();
        for split in sample.best_splits(10) {
            let tree = Tree::grow(&sample, Some(3), &ignored);
            assert_eq!(tree.nodes[0].split, Some(split));
            assert_eq!(Tree::grow(&sample, Some(1), &ignored), Tree::stump(split));
            ignored.push(split.latent);
        }
        assert_eq!(Tree::grow(&sample, Some(3), &ignored).nodes.len(), 1);
    }
}

#[test]
fn nothing_to_split() {
    let (_, none) = sample(&[], 3, &[]);
    assert_eq!(Tree::grow(&none, None, &[]).nodes.len(), 1);
    let (_, one) = sample(&[1.0, 0.0], 2, &[true]);
    assert_eq!(Tree::grow(&one, None, &[]).nodes.len(), 1);
    // A dead latent, a constant one, and one whose values are closer than 1e-7.
    let (_, constant) = sample(&[0.0, 5.0, 5e-8, 0.0, 5.0, 0.0], 3, &[true, false]);
    assert!(constant.best_splits(3).is_empty());
    assert_eq!(Tree::grow(&constant, None, &[]).nodes.len(), 1);
    // Exclusive or: no first split gains anything, but the full tree separates the classes.
    let (_, xor) = sample(&[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], 2, &[false, true, true, false]);
    let tree = Tree::grow(&xor, None, &[]);
    assert_eq!((tree.depth(), tree.nodes.len(), tree.nodes[0].split.unwrap().latent), (2, 7, Latent(0)));
}
