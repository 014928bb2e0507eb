//! Exact decision trees (CART, Gini, two classes) on sparse codes.
//!
//! The entries of a sample (values that are not zero) are sorted once, by latent and value; zeros are one block whose
//! classes are what the entries leave over. A node is a list of places in that order. When it is split, the smaller
//! child gathers its places anew from its rows, and the larger keeps the list with the other's entries as holes, until
//! half of it are holes; so an entry moves only when its node at least halves, and a long tail of small splits is
//! cheap. Most latents of a node are never looked at: a split that sets `a` positives and `b` negatives apart gains at
//! most as much as setting apart all of the one or all of the other kind, so a latent with few entries in the node cannot beat the best
//! split so far.
//!
//! A split is what scikit-learn takes: the threshold lies midway between neighbouring values, `value <= threshold` goes
//! left, values closer than 1e-7 are one value, and a split without gain is still made while a node is mixed. Equal
//! gains are compared as fractions of whole numbers and go to the lowest latent, then the lowest threshold;
//! scikit-learn shuffles the latents instead.

use std::cmp::Ordering;

use etalon_kernel::monitor::{Cancelled, Monitor, Silent};

use crate::codes::{CodesView, Latent};
use crate::error::{Error, InputError, Result};

/// Neighbouring values that are not further apart are one value.
const CLOSE: f32 = 1e-7;

/// Impurities that differ by a larger part are told apart by floating point.
const SURE: f64 = 1e-12;

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

    fn plus(self, other: Classes) -> Classes {
        Classes { positives: self.positives + other.positives, negatives: self.negatives + other.negatives }
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
        let mixed = |side: Classes| side.positives as f64 * side.negatives as f64;
        let (rows_left, rows_right) = (left.total() as f64, right.total() as f64);
        (mixed(left) * rows_right + mixed(right) * rows_left) / (rows_left * rows_right)
    }

    /// Purer first. Where floating point cannot tell, whole numbers decide.
    fn compare(a: (Classes, Classes), b: (Classes, Classes)) -> Ordering {
        let (x, y) = (Split::impurity(a.0, a.1), Split::impurity(b.0, b.1));
        if (x - y).abs() > SURE * x.max(y) {
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
    /// Which of the sample's latents it belongs to.
    column: u32,
    positive: bool,
}

/// Rows with their class, ready for any number of trees.
#[derive(Debug)]
pub struct Sample {
    classes: Classes,
    /// By latent, then value, then place. An entry's number in this list is its rank.
    entries: Vec<Entry>,
    /// The latents that have entries, ascending.
    latents: Vec<Latent>,
    /// Where the ranks of a place begin in `ranks`, and the end.
    starts: Vec<usize>,
    ranks: Vec<u32>,
}

impl Sample {
    /// Gathers rows, each with whether it is positive.
    pub fn new(codes: CodesView<'_>, rows: &[(usize, bool)]) -> Result<Sample> {
        let mut gathered: Vec<(Latent, Entry)> = Vec::new();
        let mut classes = Classes::default();
        let mut starts = vec![0];
        for (place, &(row, positive)) in rows.iter().enumerate() {
            if row >= codes.rows() {
                return Err(Error::Bug(format!("row {row} in a sample of codes with {}", codes.rows())));
            }
            classes.add(positive);
            let (latents, values) = codes.row(row);
            let entry = |value| Entry { value, place: place as u32, column: 0, positive };
            gathered.extend(latents.iter().zip(values).map(|(&latent, &value)| (Latent(latent), entry(value))));
            starts.push(gathered.len());
        }
        if gathered.len() > u32::MAX as usize || rows.len() > u32::MAX as usize {
            return Err(InputError::new("too many entries for a decision tree")
                .expected(format!("at most {} values that are not zero", u32::MAX))
                .found(gathered.len())
                .advice("evaluate a sample of the rows")
                .into());
        }
        gathered.sort_unstable_by(|a, b| {
            a.0.cmp(&b.0).then(a.1.value.total_cmp(&b.1.value)).then(a.1.place.cmp(&b.1.place))
        });
        let mut latents: Vec<Latent> = Vec::new();
        let mut entries = Vec::with_capacity(gathered.len());
        let mut ranks = vec![0; gathered.len()];
        let mut next = starts.clone();
        for (rank, (latent, entry)) in gathered.into_iter().enumerate() {
            if latents.last() != Some(&latent) {
                latents.push(latent);
            }
            entries.push(Entry { column: latents.len() as u32 - 1, ..entry });
            ranks[next[entry.place as usize]] = rank as u32;
            next[entry.place as usize] += 1;
        }
        Ok(Sample { classes, entries, latents, starts, ranks })
    }

    /// The rows of either class.
    pub fn classes(&self) -> Classes {
        self.classes
    }

    /// The best splits of the whole sample, each of another latent, best first, the lower latent first among equals.
    ///
    /// These are the roots of a series of trees, each grown after the root latents of those before were set to zero: a
    /// latent that is zero everywhere cannot split, and the other latents do not change.
    pub fn best_splits(&self, keep: usize) -> Vec<Split> {
        let mut splits: Vec<Split> = self
            .entries
            .chunk_by(|a, b| a.column == b.column)
            .filter_map(|entries| {
                let mut search = Search::new(self.classes, false);
                let mut seen = Classes::default();
                entries.iter().for_each(|entry| seen.add(entry.positive));
                search.scan(self.latents[entries[0].column as usize], self.classes.less(seen), entries.iter());
                search.best()
            })
            .collect();
        splits.sort_by(|a, b| Split::compare((a.left, a.right), (b.left, b.right)).then(a.latent.cmp(&b.latent)));
        splits.truncate(keep);
        splits
    }
}

/// The search for the best split of a node.
struct Search {
    all: Classes,
    best: Option<Candidate>,
    /// A split that is known to be there: the best is at least as good.
    bar: Option<(Classes, Classes)>,
    /// A hair above the impurity of the best or of the bar: what is beyond need not be compared exactly.
    limit: f64,
    /// A side of a better split must have so many positives, or so many negatives.
    needed: Classes,
    prunes: bool,
}

#[derive(Clone, Copy)]
struct Candidate {
    latent: Latent,
    left: Classes,
    lower: f32,
    upper: f32,
}

impl Search {
    fn new(all: Classes, prunes: bool) -> Search {
        Search { all, best: None, bar: None, limit: f64::INFINITY, needed: Classes::default(), prunes }
    }

    fn may_gain(&self, side: Classes) -> bool {
        side.positives >= self.needed.positives || side.negatives >= self.needed.negatives
    }

    /// Walks along the values of a latent, from the lowest, with the block of zeros in its place.
    fn scan<'a>(&mut self, latent: Latent, zeros: Classes, entries: impl Iterator<Item = &'a Entry>) {
        let mut left = Classes::default();
        let mut previous: Option<f32> = None;
        let mut zeros = Some(zeros).filter(|zeros| zeros.total() > 0);
        for entry in entries {
            if entry.value > 0.0
                && let Some(zeros) = zeros.take()
            {
                self.step(latent, left, previous, 0.0);
                left = left.plus(zeros);
                previous = Some(0.0);
            }
            self.step(latent, left, previous, entry.value);
            left.add(entry.positive);
            previous = Some(entry.value);
        }
        if zeros.is_some() {
            self.step(latent, left, previous, 0.0);
        }
    }

    /// Considers a split between the rows passed so far and the next value.
    #[inline]
    fn step(&mut self, latent: Latent, left: Classes, previous: Option<f32>, value: f32) {
        let Some(lower) = previous else { return };
        let right = self.all.less(left);
        if value <= lower + CLOSE || !self.may_gain(left) || !self.may_gain(right) {
            return;
        }
        let impurity = Split::impurity(left, right);
        if impurity > self.limit {
            return;
        }
        let is_worse = match (self.best, self.bar) {
            (Some(best), _) => Split::compare((left, right), (best.left, self.all.less(best.left))) != Ordering::Less,
            (None, Some(bar)) => Split::compare((left, right), bar) == Ordering::Greater,
            (None, None) => false,
        };
        if is_worse {
            return;
        }
        self.best = Some(Candidate { latent, left, lower, upper: value });
        self.limit = impurity * (1.0 + 2.0 * SURE);
        if self.prunes {
            self.needed = self.needed_against((left, right), |order| order == Ordering::Less);
        }
    }

    /// Forgets which split is the best so far, but not how good it is, so that the first of equals can be found.
    fn begin_again(&mut self) {
        if let Some(best) = self.best.take() {
            let bar = (best.left, self.all.less(best.left));
            self.bar = Some(bar);
            self.needed = self.needed_against(bar, |order| order != Ordering::Greater);
        }
    }

    /// How many rows of one kind must be set apart to compare well enough with a split.
    fn needed_against(&self, split: (Classes, Classes), is_enough: impl Fn(Ordering) -> bool) -> Classes {
        let fewest = |most: usize, apart: &dyn Fn(usize) -> Classes| {
            let (mut low, mut high) = (1, most + 1);
            while low < high {
                let middle = (low + high) / 2;
                let side = apart(middle);
                if is_enough(Split::compare((side, self.all.less(side)), split)) {
                    high = middle;
                } else {
                    low = middle + 1;
                }
            }
            low
        };
        Classes {
            positives: fewest(self.all.positives, &|positives| Classes { positives, negatives: 0 }),
            negatives: fewest(self.all.negatives, &|negatives| Classes { positives: 0, negatives }),
        }
    }

    fn best(&self) -> Option<Split> {
        let Candidate { latent, left, lower, upper } = self.best?;
        // Halves are added, not sums halved, so that nothing overflows; a threshold that rounds up to the upper value
        // would send that value left, too.
        let midway = f64::from(lower) / 2.0 + f64::from(upper) / 2.0;
        let threshold = if midway == f64::from(upper) { f64::from(lower) } else { midway };
        Some(Split { latent, threshold, left, right: self.all.less(left) })
    }
}

/// The entries of one latent in a node: where its ranks lie, and how many of them are no holes.
#[derive(Clone, Copy, Debug)]
struct TreeColumn {
    column: u32,
    start: u32,
    end: u32,
    positives: u32,
    negatives: u32,
}

impl TreeColumn {
    fn classes(&self) -> Classes {
        Classes { positives: self.positives as usize, negatives: self.negatives as usize }
    }
}

/// The rows of a node.
#[derive(Debug, Default)]
struct Block {
    id: u32,
    classes: Classes,
    places: Vec<u32>,
    columns: Vec<TreeColumn>,
    /// Ascending; those whose place belongs to another block are holes.
    ranks: Vec<u32>,
    /// How many ranks are no holes.
    live: usize,
}

/// A tree in the making.
struct Growth<'a> {
    sample: &'a Sample,
    /// The block that each place belongs to.
    owner: Vec<u32>,
    blocks: u32,
    /// Which columns count as zero.
    ignored: Vec<bool>,
    /// A workspace, false between calls.
    is_away: Vec<bool>,
}

impl Growth<'_> {
    fn new<'a>(sample: &'a Sample, ignored: &[Latent]) -> (Growth<'a>, Block) {
        let rows = sample.starts.len() - 1;
        let ignored: Vec<bool> = sample.latents.iter().map(|latent| ignored.contains(latent)).collect();
        let growth = Growth { sample, owner: vec![0; rows], blocks: 0, ignored, is_away: vec![false; rows] };
        let kept = |&rank: &u32| !growth.ignored[sample.entries[rank as usize].column as usize];
        let ranks = (0..sample.entries.len() as u32).filter(kept).collect();
        let root = growth.block(0, sample.classes, (0..rows as u32).collect(), ranks);
        (growth, root)
    }

    /// A block without holes.
    fn block(&self, id: u32, classes: Classes, places: Vec<u32>, ranks: Vec<u32>) -> Block {
        let mut columns: Vec<TreeColumn> = Vec::new();
        for (end, &rank) in ranks.iter().enumerate() {
            let entry = &self.sample.entries[rank as usize];
            if columns.last().is_none_or(|last| last.column != entry.column) {
                let start = end as u32;
                columns.push(TreeColumn { column: entry.column, start, end: start, positives: 0, negatives: 0 });
            }
            if let Some(column) = columns.last_mut() {
                column.end = end as u32 + 1;
                column.positives += u32::from(entry.positive);
                column.negatives += u32::from(!entry.positive);
            }
        }
        Block { id, classes, places, columns, live: ranks.len(), ranks }
    }

    fn entries<'b>(&'b self, block: &'b Block, column: &TreeColumn) -> impl Iterator<Item = &'b Entry> {
        block.ranks[column.start as usize..column.end as usize]
            .iter()
            .map(|&rank| &self.sample.entries[rank as usize])
            .filter(|entry| self.owner[entry.place as usize] == block.id)
    }

    fn scan(&self, search: &mut Search, block: &Block, column: &TreeColumn) {
        let latent = self.sample.latents[column.column as usize];
        search.scan(latent, block.classes.less(column.classes()), self.entries(block, column));
    }

    fn best(&self, block: &Block) -> Option<Split> {
        let mut search = Search::new(block.classes, true);
        // The latent whose firing goes most with the class sets the bar from which the search begins.
        let [all_positives, all_negatives] = [block.classes.positives, block.classes.negatives].map(|n| n as i64);
        let apart = |column: &TreeColumn| {
            (i64::from(column.positives) * all_negatives - i64::from(column.negatives) * all_positives).abs()
        };
        if let Some(likely) = block.columns.iter().max_by_key(|column| apart(column)) {
            self.scan(&mut search, block, likely);
            search.begin_again();
        }
        for column in &block.columns {
            if search.may_gain(column.classes()) {
                self.scan(&mut search, block, column);
            }
        }
        search.best()
    }

    /// The blocks to the left and to the right of a split.
    fn deal(&mut self, mut block: Block, split: &Split) -> (Block, Block) {
        let zero_goes_left = 0.0 <= split.threshold;
        let own = block.columns.iter().find(|column| self.sample.latents[column.column as usize] == split.latent);
        let away: Vec<u32> = own.map_or(vec![], |own| {
            self.entries(&block, own)
                .filter(|entry| (f64::from(entry.value) <= split.threshold) != zero_goes_left)
                .map(|entry| entry.place)
                .collect()
        });
        away.iter().for_each(|&place| self.is_away[place as usize] = true);
        let stay: Vec<u32> =
            std::mem::take(&mut block.places).into_iter().filter(|&place| !self.is_away[place as usize]).collect();
        away.iter().for_each(|&place| self.is_away[place as usize] = false);
        let (of_away, of_stay) = if zero_goes_left { (split.right, split.left) } else { (split.left, split.right) };
        let away_is_small = away.len() < stay.len();
        let (small, large) =
            if away_is_small { ((away, of_away), (stay, of_stay)) } else { ((stay, of_stay), (away, of_away)) };
        self.blocks += 1;
        small.0.iter().for_each(|&place| self.owner[place as usize] = self.blocks);
        let ranks = self.ranks_of_small(&block, &small.0, large.0.len());
        let small = self.block(self.blocks, small.1, small.0, ranks);
        let large = self.rest(Block { classes: large.1, places: large.0, ..block }, &small);
        if away_is_small == zero_goes_left { (large, small) } else { (small, large) }
    }

    /// The ranks of the smaller child: row by row and sorted, or out of the parent's list if they are a good part of it.
    fn ranks_of_small(&self, parent: &Block, places: &[u32], others: usize) -> Vec<u32> {
        let sample = self.sample;
        if places.len() * 8 < others {
            let of_place =
                |&place: &u32| &sample.ranks[sample.starts[place as usize]..sample.starts[place as usize + 1]];
            let kept = |&rank: &u32| !self.ignored[sample.entries[rank as usize].column as usize];
            let mut ranks: Vec<u32> = places.iter().flat_map(of_place).copied().filter(kept).collect();
            ranks.sort_unstable();
            ranks
        } else {
            let is_own = |&rank: &u32| self.owner[sample.entries[rank as usize].place as usize] == self.blocks;
            parent.ranks.iter().copied().filter(is_own).collect()
        }
    }

    /// The parent's block without the rows of the smaller child.
    fn rest(&self, mut block: Block, small: &Block) -> Block {
        block.live -= small.live;
        if block.live * 2 < block.ranks.len() {
            let is_own = |rank: &u32| self.owner[self.sample.entries[*rank as usize].place as usize] == block.id;
            block.ranks.retain(is_own);
            return self.block(block.id, block.classes, block.places, block.ranks);
        }
        let mut from = 0;
        for gone in &small.columns {
            from += block.columns[from..].partition_point(|column| column.column < gone.column);
            if let Some(column) = block.columns.get_mut(from) {
                column.positives -= gone.positives;
                column.negatives -= gone.negatives;
            }
        }
        block
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
        // Nobody can cancel it.
        Tree::grow_monitored(sample, depth, ignored, &Silent).unwrap_or(Tree { nodes: Vec::new() })
    }

    /// The same, for work that can be cancelled.
    pub fn grow_monitored(
        sample: &Sample,
        depth: Option<usize>,
        ignored: &[Latent],
        monitor: &dyn Monitor,
    ) -> Result<Tree, Cancelled> {
        let (mut growth, root) = Growth::new(sample, ignored);
        let mut nodes: Vec<Node> = Vec::new();
        let mut waiting = vec![(root, 1, None)];
        while let Some((block, level, parent)) = waiting.pop() {
            monitor.check()?;
            let this = nodes.len();
            if let Some((parent, is_left)) = parent {
                let node: &mut Node = &mut nodes[parent];
                let (left, right) = node.children.unwrap_or_default();
                node.children = Some(if is_left { (this, right) } else { (left, this) });
            }
            let may_split = depth.is_none_or(|depth| level <= depth) && !block.classes.is_pure();
            let split = if may_split { growth.best(&block) } else { None };
            nodes.push(Node { depth: level, classes: block.classes, split, children: None });
            if let Some(split) = split {
                let (left, right) = growth.deal(block, &split);
                waiting.push((right, level + 1, Some((this, false))));
                waiting.push((left, level + 1, Some((this, true))));
            }
        }
        Ok(Tree { nodes })
    }

    /// The tree of one question.
    pub fn stump(split: Split) -> Tree {
        let leaf = |classes| Node { depth: 2, classes, split: None, children: None };
        let root = Node { depth: 1, classes: split.left.plus(split.right), split: Some(split), children: Some((1, 2)) };
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
    use etalon_kernel::random::{index, stream};

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
        for trial in 0..120u64 {
            let mut random = stream(trial, "tree/test", 0);
            // Now and then many rows, so that small children leave holes in large ones.
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
    fn the_best_splits_are_the_roots_of_trees_after_cutting() {
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
        // Exclusive or: no first split gains anything, yet the tree gets there.
        let (_, xor) = sample(&[0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0], 2, &[false, true, true, false]);
        let tree = Tree::grow(&xor, None, &[]);
        assert_eq!((tree.depth(), tree.nodes.len(), tree.nodes[0].split.unwrap().latent), (2, 7, Latent(0)));
    }
}
