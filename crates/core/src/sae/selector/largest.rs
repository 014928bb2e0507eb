//! The largest entries of every row, and the largest of all rows together.

use rayon::prelude::*;

use super::scan::{Truncate, value_of_rank};
use super::{Entries, Selector, WarmStart};
use etalon_kernel::top_k::{keep_largest, usual_floor};

/// Rows whose lists one thread truncates at a time.
const CHUNK_ROWS: usize = 64;

impl Selector<'_> {
    /// Keeps the largest entries of every row. Starts from a floor that nearly all earlier rows exceeded, in units of
    /// the row's norm, so that few entries are collected in vain. Rows that end with too few are scanned again without
    /// it.
    pub(super) fn per_row(&self, keep: usize, rows: &[f32], warm_start: &WarmStart, lists: &mut [Entries]) {
        let norms = self.norms(rows, lists.len());
        let guess = warm_start.guess();
        if guess > 0.0 {
            let row_floors: Vec<f32> = norms.iter().map(|norm| guess * norm).collect();
            if self.prefilter(rows, Some(&row_floors), warm_start, lists).is_none() {
                self.scan(rows, |row| row_floors[row], Truncate::PerRow(keep), lists);
            }
            let short: Vec<usize> = (0..lists.len()).filter(|&row| lists[row].len() < keep).collect();
            self.rescan(&short, rows, |_| f32::NEG_INFINITY, Truncate::PerRow(keep), lists);
        } else {
            self.scan(rows, |_| f32::NEG_INFINITY, Truncate::PerRow(keep), lists);
        }
        let floors = self.map_chunks(lists, CHUNK_ROWS, |_, lists| {
            let mut scratch = Vec::new();
            lists.iter_mut().map(|list| keep_largest(list, keep, &mut scratch)).collect::<Vec<f32>>()
        });
        warm_start.set_guess(usual_floor(floors.concat().into_iter().zip(norms)));
    }

    /// Keeps the `keep` largest entries of all rows together.
    pub(super) fn per_batch(&self, keep: usize, rows: &[f32], warm_start: &WarmStart, lists: &mut [Entries]) {
        let mut floor = warm_start.guess();
        loop {
            let row_floors = vec![floor; lists.len()];
            match if floor > 0.0 { self.prefilter(rows, Some(&row_floors), warm_start, lists) } else { None } {
                Some(skipped) => self.rescan(&skipped, rows, |_| floor, Truncate::Never, lists),
                None => self.scan(rows, |_| floor, Truncate::PerGroup(keep), lists),
            }
            let total: usize = lists.iter().map(Vec::len).sum();
            if total >= keep || floor <= 0.0 {
                break;
            }
            floor = f32::NEG_INFINITY;
        }
        let total: usize = lists.iter().map(Vec::len).sum();
        let mut guess = f32::NEG_INFINITY;
        if total > keep && keep > 0 {
            // Keep everything above the last kept value; at that value the first rows and latents.
            let last = value_of_rank(lists, keep);
            let above: usize = lists.iter().map(|list| list.iter().filter(|entry| entry.0 > last).count()).sum();
            let mut equal = keep - above;
            for list in lists.iter_mut() {
                list.retain(|entry| {
                    let tied = entry.0 == last && equal > 0;
                    equal -= usize::from(tied);
                    tied || entry.0 > last
                });
            }
            guess = 0.9 * last;
        } else if keep == 0 {
            lists.iter_mut().for_each(Vec::clear);
        }
        warm_start.set_guess(guess);
    }

    fn norms(&self, rows: &[f32], count: usize) -> Vec<f32> {
        let stride = self.panels.inner();
        if self.threads <= 1 {
            rows.chunks_exact(stride).take(count).map(norm).collect()
        } else {
            rows.par_chunks_exact(stride).take(count).with_min_len(CHUNK_ROWS).map(norm).collect()
        }
    }
}

/// The norm of a row, in f32: exact enough for a guess.
fn norm(row: &[f32]) -> f32 {
    let (chunks, rest) = row.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    chunks.iter().for_each(|chunk| (0..16).for_each(|lane| lanes[lane] += chunk[lane] * chunk[lane]));
    (lanes.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>()).sqrt()
}
