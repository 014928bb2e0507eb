//! Exact decision trees (CART, Gini, two classes) on sparse codes.
//!
//! The rows of a sample are gathered once, latent by latent, and the values that are not zero are sorted once; zeros
//! are one block whose classes are what the other entries leave over. A node keeps the sorted lists of its own rows, and a
//! split deals them out to the two children in order. So a node costs as much as its rows have entries, and a level of
//! the tree at most as much as the sample has, however many latents there are.
//!
//! A split is what scikit-learn takes: the threshold lies midway between neighbouring values, `value <= threshold` goes
//! left, values closer than 1e-7 are one value, and a split without gain is still made while a node is mixed. Equal
//! gains are compared as fractions of whole numbers and go to the lowest latent, then the lowest threshold;
//! scikit-learn shuffles the latents instead.

use std::cmp::Ordering;

use crate::codes::{CodesView, Latent};
use crate::error::{Error, Result};

/// Neighbouring values that are not further apart are one value.
const CLOSE: f32 = 1e-7;

/// How many rows of either class there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Classes {
    /// Rows of the positive class.
    pub positives: usize,
    /// Rows of the negative class.
    pub negatives: usize,
}

impl Classes {
    /// All rows.
    pub fn total(self) -> usize {
        self.positives + self.negatives
    }

    /// What the majority says; equal counts say negative.
    pub fn vote(self) -> bool {
        self.positives > self.negatives
    }

    /// How many rows the majority is right about.
    pub fn right(self) -> usize {
        self.positives.max(self.negatives)
    }

    fn is_pure(self) -> bool {
        self.positives == 0 || self.negatives == 0
    }

    fn add(&mut self, positive: bool) {
        if positive {
            self.positives += 1;
        } else {
            self.negatives += 1;
        }
    }

    fn less(self, part: Classes) -> Classes {
        Classes { positives: self.positives - part.positives, negatives: self.negatives - part.negatives }
    }
}

/// A question about one latent, and what it does to the rows of a node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The latent.
    pub latent: Latent,
    /// Rows with a value up to here go left.
    pub threshold: f64,
    /// The rows that go left.
    pub left: Classes,
    /// The rows that go right.
    pub right: Classes,
}

impl Split {
    /// How many rows the two majorities are right about.
    pub fn right_answers(&self) -> usize {
        self.left.right() + self.right.right()
    }

    /// Half the Gini impurity of the two sides, weighted by their rows.
    fn impurity(left: Classes, right: Classes) -> f64 {
        let side = |classes: Classes| classes.positives as f64 * classes.negatives as f64 / classes.total() as f64;
        side(left) + side(right)
    }

    /// Purer first. Where floating point cannot tell, whole numbers decide.
    fn compare(a: (Classes, Classes), b: (Classes, Classes)) -> Ordering {
        let (x, y) = (Split::impurity(a.0, a.1), Split::impurity(b.0, b.1));
        if (x - y).abs() > 1e-12 * x.max(y) {
            return x.total_cmp(&y);
        }
        let product = |side: Classes, other: Classes| {
            (side.positives as u128).checked_mul(side.negatives as u128)?.checked_mul(other.total() as u128)
        };
        let exact = |(left, right): (Classes, Classes)| {
            let numerator = product(left, right)?.checked_add(product(right, left)?)?;
            Some((numerator, left.total() as u128 * right.total() as u128))
        };
        let crossed = || {
            let (a, b) = (exact(a)?, exact(b)?);
            Some((a.0.checked_mul(b.1)?, b.0.checked_mul(a.1)?))
        };
        match crossed() {
            Some((a, b)) => a.cmp(&b),
            // Beyond thirty million rows the fractions no longer fit.
            None => x.total_cmp(&y),
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    value: f32,
    place: u32,
    positive: bool,
}

/// The rows of a node: who they are, and their entries by latent, values ascending.
#[derive(Clone, Debug, Default)]
struct Block {
    classes: Classes,
    places: Vec<u32>,
    /// Latents ascending, each with the end of its entries.
    columns: Vec<(Latent, usize)>,
    entries: Vec<Entry>,
}

impl Block {
    fn columns(&self) -> impl Iterator<Item = (Latent, &[Entry])> {
        let mut start = 0;
        self.columns.iter().map(move |&(latent, end)| {
            let entries = &self.entries[start..end];
            start = end;
            (latent, entries)
        })
    }

    /// The best split of one latent, the lowest threshold among equals; `None` when its values are all one.
    fn best_of(&self, latent: Latent, entries: &[Entry]) -> Option<Split> {
        let mut seen = Classes::default();
        entries.iter().for_each(|entry| seen.add(entry.positive));
        let zeros = self.classes.less(seen);
        let mut walk = Walk { all: self.classes, left: Classes::default(), previous: None, best: None };
        let below = entries.partition_point(|entry| entry.value < 0.0);
        for entry in &entries[..below] {
            walk.step(entry.value);
            walk.left.add(entry.positive);
        }
        if zeros.total() > 0 {
            walk.step(0.0);
            walk.left.positives += zeros.positives;
            walk.left.negatives += zeros.negatives;
        }
        for entry in &entries[below..] {
            walk.step(entry.value);
            walk.left.add(entry.positive);
        }
        let (left, lower, upper) = walk.best?;
        // Halves are added, not sums halved, so that nothing overflows; a threshold that rounds up to the upper value
        // would send that value left, too.
        let midway = f64::from(lower) / 2.0 + f64::from(upper) / 2.0;
        let threshold = if midway == f64::from(upper) { f64::from(lower) } else { midway };
        Some(Split { latent, threshold, left, right: self.classes.less(left) })
    }

    fn best(&self) -> Option<Split> {
        let mut best: Option<Split> = None;
        for (latent, entries) in self.columns() {
            if let Some(split) = self.best_of(latent, entries)
                && best.is_none_or(|best| {
                    Split::compare((split.left, split.right), (best.left, best.right)) == Ordering::Less
                })
            {
                best = Some(split);
            }
        }
        best
    }

    /// Deals the rows out. `side` is a workspace with a place for every row of the sample.
    fn deal(self, split: &Split, side: &mut [bool]) -> (Block, Block) {
        let zero_goes_left = 0.0 <= split.threshold;
        self.places.iter().for_each(|&place| side[place as usize] = zero_goes_left);
        let own = self.columns().find(|(latent, _)| *latent == split.latent);
        for entry in own.map_or(&[][..], |(_, entries)| entries) {
            side[entry.place as usize] = f64::from(entry.value) <= split.threshold;
        }
        let mut left = Block { classes: split.left, ..Block::default() };
        let mut right = Block { classes: split.right, ..Block::default() };
        for &place in &self.places {
            (if side[place as usize] { &mut left } else { &mut right }).places.push(place);
        }
        for (latent, entries) in self.columns() {
            for entry in entries {
                (if side[entry.place as usize] { &mut left } else { &mut right }).entries.push(*entry);
            }
            for child in [&mut left, &mut right] {
                if child.entries.len() > child.columns.last().map_or(0, |column| column.1) {
                    child.columns.push((latent, child.entries.len()));
                }
            }
        }
        (left, right)
    }
}

/// A walk along the values of a latent, from the lowest.
struct Walk {
    all: Classes,
    left: Classes,
    previous: Option<f32>,
    best: Option<(Classes, f32, f32)>,
}

impl Walk {
    /// Considers a split between the rows passed so far and the next value.
    fn step(&mut self, value: f32) {
        if let Some(previous) = self.previous
            && value > previous + CLOSE
        {
            let (left, right) = (self.left, self.all.less(self.left));
            if self
                .best
                .is_none_or(|(best, _, _)| Split::compare((left, right), (best, self.all.less(best))) == Ordering::Less)
            {
                self.best = Some((left, previous, value));
            }
        }
        self.previous = Some(value);
    }
}

/// Rows with their class, ready for any number of trees.
#[derive(Debug)]
pub struct Sample {
    root: Block,
}

impl Sample {
    /// Gathers rows, each with whether it is positive.
    pub fn new(codes: CodesView<'_>, rows: &[(usize, bool)]) -> Result<Sample> {
        let mut gathered: Vec<(Latent, Entry)> = Vec::new();
        let mut root = Block { places: (0..rows.len() as u32).collect(), ..Block::default() };
        for (place, &(row, positive)) in rows.iter().enumerate() {
            if row >= codes.rows() {
                return Err(Error::Bug(format!("row {row} in a sample of codes with {}", codes.rows())));
            }
            root.classes.add(positive);
            let (latents, values) = codes.row(row);
            gathered.extend(
                latents
                    .iter()
                    .zip(values)
                    .map(|(&latent, &value)| (Latent(latent), Entry { value, place: place as u32, positive })),
            );
        }
        gathered.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then(a.1.value.total_cmp(&b.1.value)).then(a.1.place.cmp(&b.1.place))
        });
        for (end, &(latent, entry)) in gathered.iter().enumerate() {
            root.entries.push(entry);
            match root.columns.last_mut() {
                Some(column) if column.0 == latent => column.1 = end + 1,
                _ => root.columns.push((latent, end + 1)),
            }
        }
        Ok(Sample { root })
    }

    /// The rows of either class.
    pub fn classes(&self) -> Classes {
        self.root.classes
    }

    /// The best splits of the whole sample, each of another latent, best first, the lower latent first among equals.
    ///
    /// These are the roots of a series of trees, each grown after the root latents of those before were set to zero: a
    /// latent that is zero everywhere cannot split, and the other latents do not change.
    pub fn best_splits(&self, keep: usize) -> Vec<Split> {
        let mut splits: Vec<Split> =
            self.root.columns().filter_map(|(latent, entries)| self.root.best_of(latent, entries)).collect();
        splits.sort_by(|a, b| Split::compare((a.left, a.right), (b.left, b.right)).then(a.latent.cmp(&b.latent)));
        splits.truncate(keep);
        splits
    }
}

/// A node of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// 1 for the root.
    pub depth: usize,
    /// The rows of the sample that came here.
    pub classes: Classes,
    /// The question, unless this is a leaf.
    pub split: Option<Split>,
    /// The nodes to the left and to the right, unless this is a leaf.
    pub children: Option<(usize, usize)>,
}

/// A tree, grown to the end or to a depth.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The nodes, the root first, everything to the left of a node before everything to its right.
    pub nodes: Vec<Node>,
}

impl Tree {
    /// Grows a tree with at most `depth` questions in a row (`None`: until no leaf can be split), as if the latents in
    /// `ignored` were zero.
    pub fn grow(sample: &Sample, depth: Option<usize>, ignored: &[Latent]) -> Tree {
        let mut root = Block { classes: sample.root.classes, places: sample.root.places.clone(), ..Block::default() };
        for (latent, entries) in sample.root.columns().filter(|(latent, _)| !ignored.contains(latent)) {
            root.entries.extend_from_slice(entries);
            root.columns.push((latent, root.entries.len()));
        }
        let mut side = vec![false; root.places.len()];
        let mut nodes: Vec<Node> = Vec::new();
        let mut waiting = vec![(root, 1, None)];
        while let Some((block, level, parent)) = waiting.pop() {
            let this = nodes.len();
            if let Some((parent, is_left)) = parent {
                let node: &mut Node = &mut nodes[parent];
                let (left, right) = node.children.unwrap_or_default();
                node.children = Some(if is_left { (this, right) } else { (left, this) });
            }
            let may_split = depth.is_none_or(|depth| level <= depth) && !block.classes.is_pure();
            let split = if may_split { block.best() } else { None };
            nodes.push(Node { depth: level, classes: block.classes, split, children: None });
            if let Some(split) = split {
                let (left, right) = block.deal(&split, &mut side);
                waiting.push((right, level + 1, Some((this, false))));
                waiting.push((left, level + 1, Some((this, true))));
            }
        }
        Tree { nodes }
    }

    /// The tree of one question.
    pub fn stump(split: Split) -> Tree {
        let all = Classes {
            positives: split.left.positives + split.right.positives,
            negatives: split.left.negatives + split.right.negatives,
        };
        let leaf = |classes| Node { depth: 2, classes, split: None, children: None };
        let root = Node { depth: 1, classes: all, split: Some(split), children: Some((1, 2)) };
        Tree { nodes: vec![root, leaf(split.left), leaf(split.right)] }
    }

    /// The most questions in a row.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.depth - 1).max().unwrap_or(0)
    }

    /// The nodes that a row passes, from the root to its leaf.
    pub fn path(&self, latents: &[u32], values: &[f32]) -> impl Iterator<Item = &Node> {
        let child = move |node: &&Node| {
            let (split, children) = node.split.zip(node.children)?;
            let left = f64::from(value_of(split.latent, latents, values)) <= split.threshold;
            self.nodes.get(if left { children.0 } else { children.1 })
        };
        std::iter::successors(self.nodes.first(), child)
    }

    /// What the leaf of a row says.
    pub fn predict(&self, latents: &[u32], values: &[f32]) -> bool {
        self.path(latents, values).last().is_some_and(|leaf| leaf.classes.vote())
    }
}

/// The value of a latent in a sparse row.
pub fn value_of(latent: Latent, latents: &[u32], values: &[f32]) -> f32 {
    latents.binary_search(&latent.0).map_or(0.0, |place| values[place])
}

#[cfg(test)]
mod tests {
    use rand::Rng;

    use super::*;
    use crate::codes::Codes;
    use crate::kernel::random::{index, stream};

    /// The definition, written plainly: every threshold of every column, counted row by row.
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
                nodes.into_iter().map(move |node| Node {
                    children: node.children.map(|(left, right)| (left + by, right + by)),
                    ..node
                })
            };
            let children = Some((1, 1 + left.len()));
            let right_by = 1 + left.len();
            let mut nodes = vec![Node { split: Some(split), children, ..leaf }];
            nodes.extend(moved(left, 1));
            nodes.extend(moved(right, right_by));
            nodes
        }
    }

    fn sample(values: &[f32], width: usize, positive: &[bool]) -> (Codes, Sample) {
        let codes = Codes::from_dense(values, width).unwrap();
        let rows: Vec<(usize, bool)> = positive.iter().copied().enumerate().collect();
        let sample = Sample::new(codes.all().unwrap(), &rows).unwrap();
        (codes, sample)
    }

    #[test]
    fn one_stump_by_hand() {
        // Latent 0: 0 0 2 4, classes - + + +. Between 0 and 2: left 1+ 1-, right 2+ 0-: 1·1/2 + 0 = 0.5.
        // Between 2 and 4: left 2+ 1-: 2·1/3 = 0.67. Latent 1: -1 0 0 3: between -1 and 0: left 0+ 1-, right pure: 0.
        let (codes, sample) = sample(&[0.0, -1.0, 0.0, 0.0, 2.0, 0.0, 4.0, 3.0], 2, &[false, true, true, true]);
        let tree = Tree::grow(&sample, None, &[]);
        let root = tree.nodes[0].split.unwrap();
        assert_eq!((root.latent, root.threshold, tree.nodes.len(), tree.depth()), (Latent(1), -0.5, 3, 1));
        let best = sample.best_splits(5);
        assert_eq!(best.iter().map(|split| split.latent.0).collect::<Vec<_>>(), [1, 0]);
        assert_eq!((best[1].threshold, best[1].right_answers()), (1.0, 3));
        let all = codes.all().unwrap();
        let said: Vec<bool> = (0..4).map(|row| tree.predict(all.row(row).0, all.row(row).1)).collect();
        assert_eq!(said, [false, true, true, true]);
    }

    #[test]
    fn agrees_with_the_plain_definition() {
        for trial in 0..120 {
            let mut random = stream(trial, "tree/test", 0);
            let (rows, width) = (2 + index(30, &mut random), 1 + index(6, &mut random));
            let signed = trial % 3 == 0;
            let levels = [3, 5, 1000][trial as usize % 3];
            let values: Vec<f32> = (0..rows * width)
                .map(|_| {
                    let size = index(levels, &mut random) as f32 / 8.0;
                    let off = random.next_u32() % 3 > 0;
                    if off {
                        0.0
                    } else if signed && random.next_u32() % 2 == 0 {
                        -size
                    } else {
                        size
                    }
                })
                .collect();
            let positive: Vec<bool> = (0..rows).map(|_| random.next_u32() % 3 == 0).collect();
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
    fn the_best_splits_are_the_roots_of_trees_after_cutting() {
        for trial in 0..20 {
            let mut random = stream(trial, "tree/cut", 0);
            let values: Vec<f32> =
                (0..40 * 7).map(|_| (random.next_u32() % 4) as f32 * (random.next_u32() % 2) as f32).collect();
            let positive: Vec<bool> = (0..40).map(|_| random.next_u32() % 2 == 0).collect();
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
        // Exclusive or: no first split gains anything, yet the tree gets there.
        let (_, xor) = sample(&[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], 2, &[false, true, true, false]);
        let tree = Tree::grow(&xor, None, &[]);
        assert_eq!((tree.depth(), tree.nodes.len(), tree.nodes[0].split.unwrap().latent), (2, 7, Latent(0)));
    }
}
