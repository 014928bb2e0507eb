//! Which windows of text explain a latent and which ones test the explanation.

use etalon_kernel::random::{ChaCha8Rng, index, permutation, unit};
use serde::{Deserialize, Serialize};

use super::positions::{LatentValues, Layout};
use crate::metrics::windows::draw;

/// Activations below are none: a latent with nothing stronger left for weighted draws is skipped.
const LEAST_LEFT: f32 = 1e-6;

/// How windows are selected.
#[derive(Clone, Debug)]
pub(super) struct Selection {
    /// Tokens on each side of the centre.
    pub buffer: usize,
    /// Whether strongest windows may share a centre's surroundings.
    pub overlap: bool,
    /// Strongest windows that explain, and that test.
    pub top: (usize, usize),
    /// Weighted draws that explain, and that test.
    pub weighted: (usize, usize),
    /// Random windows that test.
    pub random: usize,
    /// Weighted draws whose marks are judged.
    pub marked: usize,
    /// Draws are weighted by this power of the activation.
    pub power: i32,
    /// Share of the largest activation above which a token is active.
    pub share: f64,
    /// Whether strongest windows must have a positive centre.
    pub positive: bool,
}

/// Why a latent has no examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Skipped {
    /// Too few strong windows that do not overlap.
    FewWindows,
    /// Too few weaker activations for weighted draws.
    NothingWeaker,
}

/// How a window was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Origin {
    /// One of the strongest.
    Top,
    /// A weighted draw.
    Weighted,
    /// A random window.
    Random,
}

/// The examples of a latent. Windows are given by the position of their centre.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Examples {
    /// A token is active above this value.
    pub threshold: f64,
    /// Windows that explain, by their largest activation, descending.
    pub explaining: Vec<u32>,
    /// Windows that test, in the order in which a judge sees them.
    pub scored: Vec<(Origin, u32)>,
    /// Numbers of an invented answer that shows judges the form of answers.
    pub sample: Vec<usize>,
    /// Windows whose marks are judged, in the order in which a judge sees them.
    pub marked: Vec<Marked>,
}

/// A window with marked tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Marked {
    /// The centre.
    pub centre: u32,
    /// Whether the active tokens are marked.
    pub right: bool,
    /// The marked positions.
    pub positions: Vec<u32>,
}

impl Selection {
    /// The examples of a latent, or the reason why it has none.
    pub fn select(&self, layout: &Layout, values: &LatentValues, random: &mut ChaCha8Rng) -> Result<Examples, Skipped> {
        if layout.centres() == 0 {
            return Err(Skipped::FewWindows);
        }
        let randoms: Vec<u32> =
            (0..self.random).map(|_| layout.nth_centre(index(layout.centres(), random)) as u32).collect();
        let top = self.top(layout, values)?;
        let threshold = self.threshold(layout, values, &top);
        let cut = top.iter().map(|centre| values.at(*centre)).fold(f32::INFINITY, f32::min);
        let count = self.weighted.0 + self.weighted.1;
        let exponential = |_: u32| -libm::log(1.0 - unit(random));
        let weighted = self.weighted(layout, values, cut, count + 2 * self.marked, exponential);
        if weighted.len() < count {
            return Err(Skipped::NothingWeaker);
        }
        let (weighted, spare) = weighted.split_at(count);
        let (top_order, weighted_order) = (permutation(top.len(), random), permutation(count, random));
        let (explaining_top, scored_top) = split(&top, &top_order, self.top.0);
        let (explaining_weighted, scored_weighted) = split(weighted, &weighted_order, self.weighted.0);
        let explaining = self.by_largest(layout, values, [explaining_top, explaining_weighted].concat());
        let tagged = |origin: Origin, centres: Vec<u32>| centres.into_iter().map(move |centre| (origin, centre));
        let scored = tagged(Origin::Top, scored_top).chain(tagged(Origin::Weighted, scored_weighted));
        let scored: Vec<(Origin, u32)> = scored.chain(tagged(Origin::Random, randoms)).collect();
        let shuffled: Vec<(Origin, u32)> =
            permutation(scored.len(), random).into_iter().map(|position| scored[position]).collect();
        let mut sample = permutation(scored.len(), random);
        sample.truncate(self.top.1 + self.weighted.1);
        sample.iter_mut().for_each(|number| *number += 1);
        sample.sort_unstable();
        let marked = self.marked(layout, values, threshold, (spare, &explaining), random);
        Ok(Examples { threshold, explaining, scored: shuffled, sample, marked })
    }

    /// Windows with marks, half of them wrong: as many inactive tokens are marked as active ones, or all of them. Windows that
    /// overlap with those that explain are left out, and windows without an active or without an inactive token.
    fn marked(
        &self,
        layout: &Layout,
        values: &LatentValues,
        threshold: f64,
        (candidates, explaining): (&[u32], &[u32]),
        random: &mut ChaCha8Rng,
    ) -> Vec<Marked> {
        let reach = 2 * self.buffer as u32;
        let overlaps = |a: u32, b: u32| layout.sequence_of(a) == layout.sequence_of(b) && a.abs_diff(b) <= reach;
        let mut windows = Vec::new();
        for &centre in candidates.iter().filter(|centre| !explaining.iter().any(|other| overlaps(*other, **centre))) {
            let (active, inactive): (Vec<u32>, Vec<u32>) =
                layout.window(centre, self.buffer).partition(|position| values.is_active(*position, threshold));
            if windows.len() < self.marked && !active.is_empty() && !inactive.is_empty() {
                windows.push((centre, active, inactive));
            }
        }
        windows.truncate(windows.len() / 2 * 2);
        let mark = |(number, (centre, active, inactive)): (usize, (u32, Vec<u32>, Vec<u32>))| {
            let right = number % 2 == 0;
            let wrong = draw(&inactive, active.len(), random);
            Marked { centre, right, positions: if right { active } else { wrong } }
        };
        let marked: Vec<Marked> = windows.into_iter().enumerate().map(mark).collect();
        permutation(marked.len(), random).into_iter().map(|position| marked[position].clone()).collect()
    }

    /// A token is active above this share of the largest activation in the strongest windows.
    pub fn threshold(&self, layout: &Layout, values: &LatentValues, top: &[u32]) -> f64 {
        self.share * f64::from(self.largest(layout, values, top))
    }

    /// The centres of the strongest windows: positions by value, descending, ties by position; without overlap, none within
    /// `buffer` of one before it in the same sequence.
    pub fn top(&self, layout: &Layout, values: &LatentValues) -> Result<Vec<u32>, Skipped> {
        let count = self.top.0 + self.top.1;
        let mut candidates: Vec<(f32, u32)> = values.iter().filter(|(_, at)| layout.is_centre(*at)).collect();
        candidates.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        let mut chosen: Vec<u32> = Vec::with_capacity(count);
        let zeros = layout.all_centres().filter(|at| !self.positive && values.at(*at) == 0.0);
        for at in candidates.into_iter().map(|(_, at)| at).chain(zeros) {
            if chosen.len() == count {
                break;
            }
            let near = |other: &u32| {
                layout.sequence_of(*other) == layout.sequence_of(at) && other.abs_diff(at) as usize <= self.buffer
            };
            if self.overlap || !chosen.iter().any(near) {
                chosen.push(at);
            }
        }
        if chosen.len() < count { Err(Skipped::FewWindows) } else { Ok(chosen) }
    }

    /// The largest activation in some windows.
    fn largest(&self, layout: &Layout, values: &LatentValues, centres: &[u32]) -> f32 {
        let windows = centres.iter().flat_map(|centre| layout.window(*centre, self.buffer));
        windows.map(|at| values.at(at)).fold(0.0, f32::max)
    }

    /// Centres below `cut`, drawn without replacement with probability proportional to a power of their value: the
    /// largest quotients of weight and an exponential draw. `draw` is called once per position with a value, in order.
    pub fn weighted(
        &self,
        layout: &Layout,
        values: &LatentValues,
        cut: f32,
        count: usize,
        mut draw: impl FnMut(u32) -> f64,
    ) -> Vec<u32> {
        let left = values.iter().filter(|(value, at)| layout.is_centre(*at) && *value < cut);
        let left: Vec<(f32, u32)> = left.collect();
        if left.iter().map(|(value, _)| *value).fold(0.0, f32::max) < LEAST_LEFT {
            return Vec::new();
        }
        let key = |(value, at): (f32, u32)| (f64::from(value).powi(self.power) / draw(at), at);
        let mut keys: Vec<(f64, u32)> = left.into_iter().map(key).collect();
        keys.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        keys.into_iter().take(count).map(|(_, at)| at).collect()
    }

    /// Windows by their largest activation, descending; ties keep their order.
    pub fn by_largest(&self, layout: &Layout, values: &LatentValues, mut centres: Vec<u32>) -> Vec<u32> {
        centres.sort_by(|a, b| {
            let [a, b] = [a, b].map(|centre| self.largest(layout, values, std::slice::from_ref(centre)));
            b.total_cmp(&a)
        });
        centres
    }
}

/// The windows that explain, and those that test: the first ones of a permutation and the rest, each in the order found.
pub(super) fn split(centres: &[u32], order: &[usize], explaining: usize) -> (Vec<u32>, Vec<u32>) {
    let (first, rest) = order.split_at(explaining.min(order.len()));
    let sorted = |part: &[usize]| {
        let mut part = part.to_vec();
        part.sort_unstable();
        part.into_iter().map(|position| centres[position]).collect()
    };
    (sorted(first), sorted(rest))
}
