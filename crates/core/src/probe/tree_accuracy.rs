//! The accuracy of a tree cut at level 1, 2, …
//!
//! At level 1 the root predicts the majority of all rows; at level 2 the tree is a stump; at the last level it is whole. A
//! leaf above the level predicts its own majority.

use super::tree::{Classes, Split, Tree, value_of};
use crate::codes::CodesView;

/// The accuracies at levels 1, 2, … on the rows that the tree was grown on.
pub fn accuracies(tree: &Tree) -> Vec<f64> {
    let rows = tree.nodes.first().map_or(0, |root| root.classes.total());
    let levels = 1..=tree.depth() + 1;
    let predicting = |level: usize| {
        tree.nodes.iter().filter(move |node| node.depth == level || (node.depth < level && node.split.is_none()))
    };
    levels.map(|level| share(predicting(level).map(|node| node.classes.correct()).sum(), rows)).collect()
}

/// The accuracies at levels 1, 2, … on other rows, each given with its class.
pub fn accuracies_on(tree: &Tree, codes: CodesView<'_>, rows: &[(usize, bool)]) -> Vec<f64> {
    let mut correct = vec![0; tree.depth() + 1];
    for &(row, positive) in rows {
        let (latents, values) = codes.row(row);
        let mut predicted = false;
        let mut path = tree.path(latents, values);
        for correct in &mut correct {
            if let Some(node) = path.next() {
                predicted = node.classes.vote();
            }
            *correct += usize::from(predicted == positive);
        }
    }
    correct.into_iter().map(|correct| share(correct, rows.len())).collect()
}

/// The accuracy of one split on other rows.
pub fn accuracy_on(split: &Split, codes: CodesView<'_>, rows: &[(usize, bool)]) -> f64 {
    let is_correct = |&&(row, positive): &&(usize, bool)| {
        let (latents, values) = codes.row(row);
        let left = f64::from(value_of(split.latent, latents, values)) <= split.threshold;
        (if left { split.left.vote() } else { split.right.vote() }) == positive
    };
    share(rows.iter().filter(is_correct).count(), rows.len())
}

/// The accuracies at levels 1, 2, … as the released code counts them.
///
/// Rows in a leaf above the level always count as correct. Class counts are `rows · (part / rows)`, which can be slightly
/// below a whole number, and the four sums are truncated, so a row can get lost. The order of these sums affects the
/// result.
pub fn reference_accuracies(tree: &Tree) -> Vec<f64> {
    let floats = |classes: Classes| {
        let rows = classes.total() as f64;
        (rows * (classes.negatives as f64 / rows), rows * (classes.positives as f64 / rows))
    };
    let Some(root) = tree.nodes.first().filter(|root| root.classes.total() > 0) else { return Vec::new() };
    let all = floats(root.classes);
    let accuracy = |level: usize| {
        let nodes = || tree.nodes.iter().filter(move |node| node.depth == level).map(|node| floats(node.classes));
        let sum = nodes().fold((0.0, 0.0), |sum, node| (sum.0 + node.0, sum.1 + node.1));
        let (mut true_negative, mut true_positive) = (all.0 - sum.0, all.1 - sum.1);
        let (mut false_negative, mut false_positive) = (0.0, 0.0);
        for (negatives, positives) in nodes() {
            if negatives >= positives {
                true_negative += negatives;
                false_negative += positives;
            } else {
                false_positive += negatives;
                true_positive += positives;
            }
        }
        let [tp, tn, fp, fn_] =
            [true_positive, true_negative, false_positive, false_negative].map(|count: f64| count as usize);
        share(tp + tn, tp + tn + fp + fn_)
    };
    (1..=tree.depth() + 1).map(accuracy).collect()
}

fn share(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::super::tree::TreeRows;
    use super::*;
    use crate::codes::Codes;

    fn tree(values: &[f32], positive: &[bool]) -> (Codes, Vec<(usize, bool)>, Tree) {
        let codes = Codes::from_dense(values, 1).unwrap();
        let rows: Vec<(usize, bool)> = positive.iter().copied().enumerate().collect();
        let tree = Tree::grow(&TreeRows::new(codes.all().unwrap(), &rows).unwrap(), None, &[]);
        (codes, rows, tree)
    }

    #[test]
    fn levels_match_the_worked_example() {
        // One latent 0 1 2 3 4 5 with classes - - + - + +. The best split is between 1 and 2 (right: 3+ 1-, 3·1/4 = .75,
        // left pure) or between 3 and 4 (left 1+ 3-, the same): the lower wins. Then 2 3 4 5 is cut between 3 and 4
        // (left 1+ 1-), and that between 2 and 3. Correct rows: 3, 5, 2 + 1 + 2 = 5, 6 of 6.
        let (codes, rows, tree) = tree(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0], &[false, false, true, false, true, true]);
        let expected = [3.0 / 6.0, 5.0 / 6.0, 5.0 / 6.0, 1.0];
        assert_eq!(accuracies(&tree), expected);
        assert_eq!(accuracies_on(&tree, codes.all().unwrap(), &rows), expected);
        assert_eq!(accuracy_on(&tree.nodes[0].split.unwrap(), codes.all().unwrap(), &rows), 5.0 / 6.0);
        assert_eq!(reference_accuracies(&tree), expected);
        assert_eq!(accuracies_on(&tree, codes.all().unwrap(), &[(3, true)]), [0.0, 1.0, 0.0, 0.0]);
    }

    #[test]
    fn a_mixed_leaf_counts_as_correct_in_the_reference_only() {
        // Values 0 0 1 1 2 2, classes - - - + + +: between 0 and 1 (left pure, right 3+ 1-) and between 1 and 2 (left
        // 1+ 3-, right pure) are equally good. The lower is taken, then 1 | 2, and the leaf {1, 1} stays mixed.
        let (_, _, tree) = tree(&[0.0, 0.0, 1.0, 1.0, 2.0, 2.0], &[false, false, false, true, true, true]);
        assert_eq!(accuracies(&tree), [0.5, 5.0 / 6.0, 5.0 / 6.0]);
        assert_eq!(reference_accuracies(&tree), [0.5, 5.0 / 6.0, 5.0 / 6.0]);
        // Zeros - - - +, ones + + +, two -, threes + + +. Cut between 0 and 1: 3·1/4 + 6·1/7 = 1.61, the best. The zeros
        // stay a mixed leaf at level 2; the rest takes two more splits. Our correct rows: 7, 3 + 6 = 9,
        // 3 + 3 + 3 = 9, 3 + 7 = 10 of 11; the reference adds the mixed leaf's one wrong row from level 3 on.
        let (no, yes) = (false, true);
        let (_, _, tree) = self::tree(
            &[0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 3.0, 3.0, 3.0],
            &[no, no, no, yes, yes, yes, yes, no, yes, yes, yes],
        );
        assert_eq!(accuracies(&tree), [7.0, 9.0, 9.0, 10.0].map(|right| right / 11.0));
        assert_eq!(reference_accuracies(&tree), [7.0, 9.0, 10.0, 11.0].map(|right| right / 11.0));
    }

    #[test]
    fn counts_are_truncated() {
        // 49 · (1 / 49) is 0.9999999999999999: the one positive row of 49 is lost. Values are all zero: the root is a leaf.
        let positive: Vec<bool> = (0..49).map(|row| row == 0).collect();
        let (_, _, tree) = tree(&[0.0; 49], &positive);
        assert_eq!(accuracies(&tree), [48.0 / 49.0]);
        assert_eq!(reference_accuracies(&tree), [1.0]);
    }
}
