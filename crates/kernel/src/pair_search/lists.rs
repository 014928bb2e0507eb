//! The candidates of the rows of a block.

use super::scan::{Candidate, Proposal};
use crate::top_k::nth_largest;

/// More candidates than this times the number to keep, plus this many, are too many.
const MOST: (usize, usize) = (16, 1024);

/// The candidates of the rows of a block, with their floors.
pub(super) struct Lists {
    keep: usize,
    lists: Vec<Vec<Candidate>>,
    /// Values must reach this. It is raised between rounds only, so the candidates of a round do not depend on the order in
    /// which blocks are compared. Above negative infinity, which marks rows that take no part.
    pub floors: Vec<f32>,
}

impl Lists {
    /// The floor of a row that has too many candidates: none is taken any more.
    const CLOSED: f32 = f32::INFINITY;

    /// Empty lists of `count` rows.
    pub fn new(count: usize, keep: usize) -> Lists {
        Lists { keep, lists: vec![Vec::new(); count], floors: vec![f32::MIN; count] }
    }

    /// Adds the proposals of two blocks.
    pub fn take(&mut self, proposals: &mut Vec<Proposal>) {
        let most = MOST.0 * self.keep + MOST.1;
        for (row, candidate) in proposals.drain(..) {
            let row = row as usize;
            if self.floors[row] == Lists::CLOSED {
                continue;
            }
            self.lists[row].push(candidate);
            if self.lists[row].len() > most {
                self.lists[row] = Vec::new();
                self.floors[row] = Lists::CLOSED;
            }
        }
    }

    /// Raises the floors and drops what is certainly below them.
    pub fn raise_floors(&mut self) {
        let mut keys = Vec::new();
        for (list, floor) in self.lists.iter_mut().zip(&mut self.floors).filter(|(list, _)| list.len() > self.keep) {
            let likely = list.iter().map(|candidate| candidate.likely);
            *floor = floor.max(nth_largest(likely, self.keep, &mut keys));
            list.retain(|candidate| candidate.most >= *floor);
        }
    }

    /// The candidates of all rows, ascending, each list with its floor; `None` if there are too many.
    pub fn finish(self) -> impl Iterator<Item = Option<(Vec<u32>, f32)>> {
        self.lists.into_iter().zip(self.floors).map(|(list, floor)| {
            let mut rows: Vec<u32> = list.iter().map(|candidate| candidate.row).collect();
            rows.sort_unstable();
            (floor != Lists::CLOSED).then_some((rows, floor))
        })
    }
}
