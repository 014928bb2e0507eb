//! The nodes of a growing tree: each has a list of ranks in the order of the sample.
//!
//! When a node is split, the smaller child collects its ranks from its rows. The larger child keeps the list of its
//! parent, in which the entries of the smaller child are stale, until half of the list is stale. So an entry moves only
//! when the size of its node at least halves, and long chains of small splits are cheap.

use super::sample::{Entry, TreeRows};
use super::search::Search;
use super::split::{Classes, Split};
use crate::codes::Latent;

/// The entries of one latent in a node: the range of its ranks, and the classes of those that are not stale.
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
pub(super) struct Block {
    id: u32,
    pub classes: Classes,
    rows: Vec<u32>,
    columns: Vec<TreeColumn>,
    /// Ascending; entries whose row belongs to another block are stale.
    ranks: Vec<u32>,
    /// The number of ranks that are not stale.
    live: usize,
}

/// A growing tree.
pub(super) struct Growth<'a> {
    sample: &'a TreeRows,
    /// The block of every row.
    owner: Vec<u32>,
    blocks: u32,
    /// The columns that count as zero.
    ignored: Vec<bool>,
    /// Workspace, false between calls.
    is_away: Vec<bool>,
}

impl Growth<'_> {
    /// Begins with one block of all rows.
    pub fn new<'a>(sample: &'a TreeRows, ignored: &[Latent]) -> (Growth<'a>, Block) {
        let rows = sample.rows();
        let ignored: Vec<bool> = sample.latents.iter().map(|latent| ignored.contains(latent)).collect();
        let growth = Growth { sample, owner: vec![0; rows], blocks: 0, ignored, is_away: vec![false; rows] };
        let kept = |&rank: &u32| !growth.ignored[sample.entries[rank as usize].column as usize];
        let ranks = (0..sample.entries.len() as u32).filter(kept).collect();
        let root = growth.block(0, sample.classes, (0..rows as u32).collect(), ranks);
        (growth, root)
    }

    /// A block without stale ranks.
    fn block(&self, id: u32, classes: Classes, rows: Vec<u32>, ranks: Vec<u32>) -> Block {
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
        Block { id, classes, rows, columns, live: ranks.len(), ranks }
    }

    fn entries<'b>(&'b self, block: &'b Block, column: &TreeColumn) -> impl Iterator<Item = &'b Entry> {
        block.ranks[column.start as usize..column.end as usize]
            .iter()
            .map(|&rank| &self.sample.entries[rank as usize])
            .filter(|entry| self.owner[entry.row as usize] == block.id)
    }

    fn scan(&self, search: &mut Search, block: &Block, column: &TreeColumn) {
        let latent = self.sample.latents[column.column as usize];
        search.scan(latent, block.classes.less(column.classes()), self.entries(block, column));
    }

    /// The best split of a block.
    pub fn best(&self, block: &Block) -> Option<Split> {
        let mut search = Search::new(block.classes, true);
        // The latent whose firing is most related to the class gives the first bound.
        let [all_positives, all_negatives] = [block.classes.positives, block.classes.negatives].map(|n| n as i64);
        let association = |column: &TreeColumn| {
            (i64::from(column.positives) * all_negatives - i64::from(column.negatives) * all_positives).abs()
        };
        if let Some(likely) = block.columns.iter().max_by_key(|column| association(column)) {
            self.scan(&mut search, block, likely);
            search.restart();
        }
        for column in &block.columns {
            if search.may_gain(column.classes()) {
                self.scan(&mut search, block, column);
            }
        }
        search.best()
    }

    /// Divides a block into the rows left and right of a split.
    pub fn divide(&mut self, mut block: Block, split: &Split) -> (Block, Block) {
        let zero_goes_left = 0.0 <= split.threshold;
        let own = block.columns.iter().find(|column| self.sample.latents[column.column as usize] == split.latent);
        let away: Vec<u32> = own.map_or(vec![], |own| {
            self.entries(&block, own)
                .filter(|entry| (f64::from(entry.value) <= split.threshold) != zero_goes_left)
                .map(|entry| entry.row)
                .collect()
        });
        away.iter().for_each(|&row| self.is_away[row as usize] = true);
        let stay: Vec<u32> =
            std::mem::take(&mut block.rows).into_iter().filter(|&row| !self.is_away[row as usize]).collect();
        away.iter().for_each(|&row| self.is_away[row as usize] = false);
        let (of_away, of_stay) = if zero_goes_left { (split.right, split.left) } else { (split.left, split.right) };
        let away_is_small = away.len() < stay.len();
        let (small, large) =
            if away_is_small { ((away, of_away), (stay, of_stay)) } else { ((stay, of_stay), (away, of_away)) };
        self.blocks += 1;
        small.0.iter().for_each(|&row| self.owner[row as usize] = self.blocks);
        let ranks = self.ranks_of_small(&block, &small.0, large.0.len());
        let small = self.block(self.blocks, small.1, small.0, ranks);
        let large = self.rest(Block { classes: large.1, rows: large.0, ..block }, &small);
        if away_is_small == zero_goes_left { (large, small) } else { (small, large) }
    }

    /// The ranks of the smaller child: collected by row and sorted, or filtered from the parent's list if they are a large
    /// part of it.
    fn ranks_of_small(&self, parent: &Block, rows: &[u32], others: usize) -> Vec<u32> {
        let sample = self.sample;
        if rows.len() * 8 < others {
            let kept = |&rank: &u32| !self.ignored[sample.entries[rank as usize].column as usize];
            let mut ranks: Vec<u32> = rows.iter().flat_map(|&row| sample.ranks_of(row)).copied().filter(kept).collect();
            ranks.sort_unstable();
            ranks
        } else {
            let is_own = |&rank: &u32| self.owner[sample.entries[rank as usize].row as usize] == self.blocks;
            parent.ranks.iter().copied().filter(is_own).collect()
        }
    }

    /// The parent's block without the rows of the smaller child.
    fn rest(&self, mut block: Block, small: &Block) -> Block {
        block.live -= small.live;
        if block.live * 2 < block.ranks.len() {
            let is_own = |rank: &u32| self.owner[self.sample.entries[*rank as usize].row as usize] == block.id;
            block.ranks.retain(is_own);
            return self.block(block.id, block.classes, block.rows, block.ranks);
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
