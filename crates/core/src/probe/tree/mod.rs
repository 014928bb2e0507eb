//! Exact decision trees (CART, Gini impurity, two classes) on sparse codes.
//!
//! The nonzero entries of a sample are sorted once, by latent and value. Zeros of a latent are one block, whose classes are
//! the rows without an entry. Most latents of a node are never visited: a split that separates `a` positives and `b`
//! negatives gains at most as much as separating all rows of one class, so a latent with few entries in the node cannot
//! beat the best split so far.
//!
//! Splits follow scikit-learn: the threshold is midway between neighbouring values, `value <= threshold` goes left, values
//! closer than 1e-7 are one value, and a mixed node is split even without gain. Equal gains are compared as fractions of
//! whole numbers and go to the lowest latent, then the lowest threshold; scikit-learn shuffles the latents instead.

mod growth;
mod sample;
mod search;
mod split;

#[cfg(test)]
mod tests;

pub use sample::TreeRows;
pub use split::{Classes, Split};

use etalon_kernel::monitor::{Cancelled, Monitor, Silent};

use crate::codes::Latent;
use growth::Growth;

/// A node of a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Node {
    /// 1 for the root.
    pub depth: usize,
    /// The classes of its rows in the sample.
    pub classes: Classes,
    /// The split; `None` for a leaf.
    pub split: Option<Split>,
    /// The indices of the left and the right child; `None` for a leaf.
    pub children: Option<(usize, usize)>,
}

/// A tree, fully grown or up to a depth.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The nodes in pre-order: the root first, the left subtree before the right.
    pub nodes: Vec<Node>,
}

impl Tree {
    /// Grows a tree of at most `depth` splits on a path (`None`: until no leaf can be split), with the latents in `ignored`
    /// taken as zero.
    pub fn grow(sample: &TreeRows, depth: Option<usize>, ignored: &[Latent]) -> Tree {
        // `Silent` never cancels.
        Tree::grow_monitored(sample, depth, ignored, &Silent).unwrap_or(Tree { nodes: Vec::new() })
    }

    /// The same, with cancellation.
    pub fn grow_monitored(
        sample: &TreeRows,
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
                let (left, right) = growth.divide(block, &split);
                waiting.push((right, level + 1, Some((this, false))));
                waiting.push((left, level + 1, Some((this, true))));
            }
        }
        Ok(Tree { nodes })
    }

    /// A tree with one split.
    pub fn stump(split: Split) -> Tree {
        let leaf = |classes| Node { depth: 2, classes, split: None, children: None };
        let root = Node { depth: 1, classes: split.left.plus(split.right), split: Some(split), children: Some((1, 2)) };
        Tree { nodes: vec![root, leaf(split.left), leaf(split.right)] }
    }

    /// The largest number of splits on a path.
    pub fn depth(&self) -> usize {
        self.nodes.iter().map(|node| node.depth - 1).max().unwrap_or(0)
    }

    /// The nodes on the path of a row, from the root to its leaf.
    pub fn path(&self, latents: &[u32], values: &[f32]) -> impl Iterator<Item = &Node> {
        let child = move |node: &&Node| {
            let (split, children) = node.split.zip(node.children)?;
            let left = f64::from(value_of(split.latent, latents, values)) <= split.threshold;
            self.nodes.get(if left { children.0 } else { children.1 })
        };
        std::iter::successors(self.nodes.first(), child)
    }

    /// The majority class of the row's leaf.
    pub fn predict(&self, latents: &[u32], values: &[f32]) -> bool {
        self.path(latents, values).last().is_some_and(|leaf| leaf.classes.vote())
    }
}

/// The value of a latent in a sparse row.
pub fn value_of(latent: Latent, latents: &[u32], values: &[f32]) -> f32 {
    latents.binary_search(&latent.0).map_or(0.0, |index| values[index])
}
