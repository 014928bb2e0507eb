//! The order of training rows: as stored, or shuffled within windows, so that disks and caches are read almost
//! sequentially.
//!
//! The row at any position depends only on the seed, so training can resume at any step.

use serde::{Deserialize, Serialize};

use super::aside::Aside;
use crate::error::Result;
use crate::store::ActivationStore;
use etalon_kernel::random::{permutation, stream};

/// The order of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As stored, repeated every epoch.
    Sequential,
    /// Reshuffled every epoch: runs of rows in random order, and the rows of each window of runs in random order.
    #[default]
    Shuffle,
}

/// Consecutive rows that form a run.
const RUN: usize = 1024;

/// Draws batches from a store.
pub(super) struct RowOrder<'a> {
    store: &'a ActivationStore,
    /// Rows that are in no batch.
    aside: Option<&'a Aside>,
    order: Order,
    /// Rows per window, a multiple of `RUN`.
    window: usize,
    seed: u64,
    /// The epoch and window of `rows`.
    current: Option<(u64, usize)>,
    rows: Vec<usize>,
}

impl<'a> RowOrder<'a> {
    pub fn new(
        store: &'a ActivationStore,
        aside: Option<&'a Aside>,
        order: Order,
        window: usize,
        seed: u64,
    ) -> RowOrder<'a> {
        let window = window.next_multiple_of(RUN).max(RUN);
        RowOrder { store, aside, order, window, seed, current: None, rows: Vec::new() }
    }

    /// The number of rows of an epoch.
    fn count(&self) -> usize {
        self.store.rows() - self.aside.map_or(0, |aside| aside.rows().len())
    }

    /// Reads the rows of a step. Batches are consecutive; a new epoch begins when the store ends.
    pub fn batch(&mut self, step: u64, batch: usize, out: &mut Vec<f32>) -> Result<()> {
        let (count, width) = (self.count(), self.store.width());
        out.clear();
        out.reserve(batch * width);
        let mut position = step * batch as u64;
        let end = position + batch as u64;
        while position < end {
            let (epoch, first) = (position / count as u64, (position % count as u64) as usize);
            if self.order == Order::Sequential && self.aside.is_none() {
                let last = count.min(first + (end - position) as usize);
                out.extend_from_slice(&self.store.tile(first..last)?.values);
                position += (last - first) as u64;
            } else {
                let index = match self.order {
                    Order::Sequential => first,
                    Order::Shuffle => self.shuffled(epoch, first),
                };
                let row = self.aside.map_or(index, |aside| aside.training_row(index));
                out.extend_from_slice(&self.store.tile(row..row + 1)?.values);
                position += 1;
            }
        }
        Ok(())
    }

    /// The training row at a position of an epoch.
    fn shuffled(&mut self, epoch: u64, position: usize) -> usize {
        let (count, window) = (self.count(), position / self.window);
        if self.current != Some((epoch, window)) {
            let runs = permutation(count.div_ceil(RUN), &mut stream(self.seed, "order of runs", epoch));
            // The last run may be short: at the end, it leaves all windows except the last full.
            let short = count.div_ceil(RUN) - 1;
            let ordered = runs.iter().copied().filter(|&run| run != short).chain([short]);
            let runs_per_window = self.window / RUN;
            let in_window = ordered.skip(window * runs_per_window).take(runs_per_window);
            let rows: Vec<usize> = in_window.flat_map(|run| run * RUN..((run + 1) * RUN).min(count)).collect();
            let block = epoch << 20 | window as u64;
            let order = permutation(rows.len(), &mut stream(self.seed, "order of rows", block));
            self.rows = order.into_iter().map(|index| rows[index]).collect();
            self.current = Some((epoch, window));
        }
        self.rows[position - window * self.window]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_epoch_has_every_row_once() {
        let count = 3 * RUN + 100;
        let store = ActivationStore::from_rows((0..count).map(|row| row as f32).collect(), 1).unwrap();
        let draw = |order: Order, steps: std::ops::Range<u64>| {
            let (mut rows, mut out, mut all) = (RowOrder::new(&store, None, order, 2 * RUN, 7), Vec::new(), Vec::new());
            for step in steps {
                rows.batch(step, 30, &mut out).unwrap();
                all.extend_from_slice(&out);
            }
            all
        };
        let all = draw(Order::Shuffle, 0..(2 * count as u64).div_ceil(30));
        let sorted = |rows: &[f32]| {
            let mut rows = rows.to_vec();
            rows.sort_by(f32::total_cmp);
            rows
        };
        let whole: Vec<f32> = (0..count).map(|row| row as f32).collect();
        assert_eq!(sorted(&all[..count]), whole);
        assert_eq!(sorted(&all[count..2 * count]), whole);
        assert_ne!(all[..count], all[count..2 * count]);
        // Starting at a later step gives the same rows.
        assert_eq!(draw(Order::Shuffle, 100..110), all[3000..3300]);
        let plain = draw(Order::Sequential, 0..200);
        assert_eq!(plain[..count], whole[..]);
        assert_eq!(plain[count..count + 10], whole[..10]);
        // Rows that are set aside are in no batch.
        let aside = Aside::draw(count, 7);
        let others: Vec<f32> = (0..count).filter(|row| !aside.rows().contains(row)).map(|row| row as f32).collect();
        for order in [Order::Sequential, Order::Shuffle] {
            let (mut rows, mut out) = (RowOrder::new(&store, Some(&aside), order, 2 * RUN, 7), Vec::new());
            rows.batch(0, others.len(), &mut out).unwrap();
            assert_eq!(sorted(&out), others);
        }
    }
}
