//! The largest of every row, and the largest of all rows together.

use rayon::prelude::*;

use super::scan::{Cut, nth};
use super::{Entries, Memory, Selector};
use etalon_kernel::top::{keep_largest, usual_floor};

/// Rows whose lists are finished by one thread at a time.
const FINISHED: usize = 64;

impl Selector<'_> {
    /// The largest of every row. Rows start from a floor that nearly all of the last rows exceeded, in units of their
    /// length, so that little is picked up in vain; the few that then have too few are done again without it.
    pub(super) fn per_row(&self, keep: usize, rows: &[f32], memory: &Memory, lists: &mut [Entries]) {
        let lengths = self.lengths(rows, lists.len());
        let guess = memory.guess();
        if guess > 0.0 {
            let starts: Vec<f32> = lengths.iter().map(|length| guess * length).collect();
            if self.search(rows, Some(&starts), memory, lists).is_none() {
                self.scan(rows, |row| starts[row], Cut::Rows(keep), lists);
            }
            let poor: Vec<usize> = (0..lists.len()).filter(|&row| lists[row].len() < keep).collect();
            self.again(&poor, rows, |_| f32::NEG_INFINITY, Cut::Rows(keep), lists);
        } else {
            self.scan(rows, |_| f32::NEG_INFINITY, Cut::Rows(keep), lists);
        }
        let floors = self.each_chunk(lists, FINISHED, |_, lists| {
            let mut scratch = Vec::new();
            lists.iter_mut().map(|list| keep_largest(list, keep, &mut scratch)).collect::<Vec<f32>>()
        });
        memory.learn_guess(usual_floor(floors.concat().into_iter().zip(lengths)));
    }

    /// The largest of all rows.
    pub(super) fn per_batch(&self, keep: usize, rows: &[f32], memory: &Memory, lists: &mut [Entries]) {
        let mut start = memory.guess();
        loop {
            let starts = vec![start; lists.len()];
            match if start > 0.0 { self.search(rows, Some(&starts), memory, lists) } else { None } {
                Some(left) => self.again(&left, rows, |_| start, Cut::Nothing, lists),
                None => self.scan(rows, |_| start, Cut::Group(keep), lists),
            }
            let total: usize = lists.iter().map(Vec::len).sum();
            if total >= keep || start <= 0.0 {
                break;
            }
            start = f32::NEG_INFINITY;
        }
        let total: usize = lists.iter().map(Vec::len).sum();
        let mut guess = f32::NEG_INFINITY;
        if total > keep && keep > 0 {
            // Above the cut all stay; at the cut the first rows and latents.
            let floor = nth(lists, keep);
            let above: usize = lists.iter().map(|list| list.iter().filter(|entry| entry.0 > floor).count()).sum();
            let mut equal = keep - above;
            for list in lists.iter_mut() {
                list.retain(|entry| {
                    let at = entry.0 == floor && equal > 0;
                    equal -= usize::from(at);
                    at || entry.0 > floor
                });
            }
            guess = 0.9 * floor;
        } else if keep == 0 {
            lists.iter_mut().for_each(Vec::clear);
        }
        memory.learn_guess(guess);
    }

    fn lengths(&self, rows: &[f32], count: usize) -> Vec<f32> {
        let stride = self.panels.inner();
        if self.threads <= 1 {
            rows.chunks_exact(stride).take(count).map(length).collect()
        } else {
            rows.par_chunks_exact(stride).take(count).with_min_len(FINISHED).map(length).collect()
        }
    }
}

/// The length of a row, near enough for a guess.
fn length(row: &[f32]) -> f32 {
    let (lines, rest) = row.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    lines.iter().for_each(|line| (0..16).for_each(|lane| lanes[lane] += line[lane] * line[lane]));
    (lanes.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>()).sqrt()
}
