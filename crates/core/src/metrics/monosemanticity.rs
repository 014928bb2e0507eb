//! Monosemanticity: are the embeddings of the rows in which a latent is active similar?

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::estimate::Estimate;
use super::{Better, Card, Metric, Output};
use crate::codes::CodesView;
use crate::error::Result;
use crate::results::{Scores, Table};
use crate::run::{CODES, Count, EMBEDDINGS, Job, Max, Min, Over, RowBatch, Sum, Work};
use crate::state;

/// The mean cosine of all pairs of rows, each pair weighted by how active the latent is in both.
pub struct Monosemanticity;

static CARD: Card = Card {
    name: "monosemanticity",
    title: "Monosemanticity",
    summary: "How similar the rows are in which a latent is active: the mean cosine of their embeddings.",
    version: 1,
    measures: "A latent that represents one concept is active in rows that are similar to the encoder. For every latent, \
        this is the mean cosine of the embeddings over all pairs of rows, weighted by how active the latent is in both. 1 \
        means that all rows in which the latent is active have the same direction. A latent that is active everywhere \
        scores the mean cosine of the data, which is far above 0 if the embeddings share a mean: compare scores with that \
        baseline.",
    definition: "a_i = (z_i − min z) / (max z − min z) over all rows, zeros included; min z is 0 for a latent of \
        non-negative codes that is ever off. e_i: the embedding of row i divided by its length. Neither is centred.\n\
        score = Σ_{i<j} a_i a_j e_i·e_j / Σ_{i<j} a_i a_j, computed exactly in one pass as \
        (|Σ a_i e_i|² − Σ a_i² |e_i|²) / ((Σ a_i)² − Σ a_i²). The headline is the mean over latents with a score.\n\
        Undefined for a constant latent (dead ones included), and for a latent with all its weight in one row, that is if \
        the denominator is at most 1e-10 · (Σ a_i)². An embedding of length 0 has cosine 0 with everything. `fired` in the \
        table `latent` counts the rows where the latent is not 0.",
    cost: "One pass, O(entries · width) time, and 8 · latents · width bytes for each of about threads + log2(units) sums \
        held at a time. Above 64 MB per sum, latents are processed in ranges with one pass each.",
    source: "Pach et al. (2025), as used in \"Evaluating the Interpretability of SAEs with Concept Annotations\" (arXiv \
        2606.24716). Both profiles are the same. The released code loops over all pairs and gives the same numbers. It also \
        misplaces the rows of its last, shorter batch, so that codes and embeddings of about a tenth of the rows do not \
        belong together; this is a bug of its file handling, not of the metric, and no profile reproduces it. Differences \
        of squares lose digits if min z is far from 0 compared with max z − min z: about twice the digits of that ratio, \
        out of 16.",
    interval: "Percentile bootstrap over latents, 1000 resamples.",
    needs: &[&CODES, &EMBEDDINGS],
    uses: &[],
    headline: &[Output::new(
        "monosemanticity",
        "Mean over latents of the activation-weighted mean cosine",
        (-1.0, 1.0),
        Better::Higher,
    )],
    params: &[],
};

/// Maximum latents × width of one sum. Fixed, because stages must not depend on the memory of a run.
const CELLS: usize = 8 << 20;

/// The smallest share of pairs of different rows in (Σ a)² for which a score is defined.
const SMALLEST_SHARE: f64 = 1e-10;

impl Metric for Monosemanticity {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let width = job.get(&EMBEDDINGS)?.width();
        Ok(latent_scores(job, work, CELLS / width)?.scores(job.seed))
    }
}

/// The scores of all latents, `step` of them at a time.
fn latent_scores(job: &Job<'_>, work: &mut Work<'_>, step: usize) -> Result<LatentScores> {
    let (latents, width) = (job.get(&CODES)?.latents(), job.get(&EMBEDDINGS)?.width());
    let mut result = LatentScores::default();
    for first in (0..latents.max(1)).step_by(step.max(1)) {
        let range = first..(first + step.max(1)).min(latents);
        let empty = || Sums::new(range.len(), width);
        let sums = work.pass("sums of rows by latent", Over::ROWS, empty, |sums, rows| sums.add(rows, &range))?;
        result.blank = sums.seen[1] as usize;
        result.scores.extend((0..range.len()).map(|latent| sums.latent(latent).score()));
        result.fired.extend(sums.fired.iter().map(|&fired| fired as usize));
    }
    Ok(result)
}

/// Scores and firing counts of all latents.
#[derive(Default)]
struct LatentScores {
    scores: Vec<Option<f64>>,
    fired: Vec<usize>,
    /// Rows whose embedding has length 0.
    blank: usize,
}

/// Sums over rows for a range of latents.
#[derive(Serialize, Deserialize)]
struct Sums {
    /// By latent, Σ a e.
    weighted: Sum,
    /// Σ e.
    total: Sum,
    /// By latent, [`MOMENTS`] sums.
    moments: Sum,
    fired: Count,
    /// Rows, and rows whose embedding has length 0.
    seen: Count,
    smallest: Min,
    largest: Max,
}

state!(Sums { weighted, total, moments, fired, seen, smallest, largest });

/// Sums per latent: Σ a, Σ a², and the same over rows whose embedding has length 0.
const MOMENTS: usize = 4;

impl Sums {
    fn new(latents: usize, width: usize) -> Sums {
        Sums {
            weighted: Sum::new(latents * width),
            total: Sum::new(width),
            moments: Sum::new(latents * MOMENTS),
            fired: Count::new(latents),
            seen: Count::new(2),
            smallest: Min::new(latents),
            largest: Max::new(latents),
        }
    }

    fn add(&mut self, rows: &RowBatch<'_>, latents: &Range<usize>) -> Result<()> {
        let (codes, tile) = (rows.get(&CODES)?, rows.get(&EMBEDDINGS)?);
        let width = self.total.len();
        let mut scales = Vec::with_capacity(tile.rows());
        for index in 0..tile.rows() {
            let row = tile.row(index);
            let length = row.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
            let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
            add(&mut self.total, scale, row);
            self.seen[0] += 1;
            self.seen[1] += u64::from(length == 0.0);
            scales.push(scale);
        }
        // Latent by latent, so that its sum stays in the cache.
        let entries = Entries::of(codes, latents);
        for latent in 0..latents.len() {
            let sum = &mut self.weighted[latent * width..][..width];
            let moments = &mut self.moments[latent * MOMENTS..][..MOMENTS];
            for &(index, value) in entries.latent(latent) {
                let (a, scale) = (f64::from(value), scales[index as usize]);
                add(sum, a * scale, tile.row(index as usize));
                moments[0] += a;
                moments[1] += a * a;
                if scale == 0.0 {
                    moments[2] += a;
                    moments[3] += a * a;
                }
                self.fired[latent] += 1;
                self.smallest.add(latent, Some(value));
                self.largest.add(latent, Some(value));
            }
        }
        Ok(())
    }

    fn latent(&self, latent: usize) -> LatentSums<'_> {
        let width = self.total.len();
        let zero = (self.fired[latent] < self.seen[0]).then_some(0.0);
        let extreme = |value: Option<f32>, choose: fn(f32, f32) -> f32| {
            [value, zero].into_iter().flatten().reduce(choose).map(f64::from)
        };
        LatentSums {
            weighted: &self.weighted[latent * width..][..width],
            total: &self.total,
            moments: &self.moments[latent * MOMENTS..][..MOMENTS],
            rows: self.seen[0] as f64,
            blank: self.seen[1] as f64,
            extremes: extreme(self.smallest[latent], f32::min).zip(extreme(self.largest[latent], f32::max)),
        }
    }
}

/// The sums of one latent.
struct LatentSums<'a> {
    weighted: &'a [f64],
    total: &'a [f64],
    moments: &'a [f64],
    rows: f64,
    blank: f64,
    /// The smallest and the largest value; `None` without rows.
    extremes: Option<(f64, f64)>,
}

impl LatentSums<'_> {
    /// Applies the scaling to 0..1, which is linear in the sums, now that the extremes are known.
    fn score(&self) -> Option<f64> {
        let (low, high) = self.extremes?;
        let range = high - low;
        if range <= 0.0 {
            return None;
        }
        let squares = |a: f64, aa: f64, rows: f64| (aa - 2.0 * low * a + rows * low * low) / (range * range);
        let sum = (self.moments[0] - self.rows * low) / range;
        let all = squares(self.moments[0], self.moments[1], self.rows);
        let blank = squares(self.moments[2], self.moments[3], self.blank);
        let pairs = sum * sum - all;
        let length = self.weighted.iter().zip(self.total).map(|(&a, &e)| (a - low * e) / range).map(|s| s * s);
        (pairs > SMALLEST_SHARE * sum * sum).then(|| ((length.sum::<f64>() - (all - blank)) / pairs).clamp(-1.0, 1.0))
    }
}

impl LatentScores {
    fn scores(self, seed: u64) -> Scores {
        let defined: Vec<f64> = self.scores.iter().copied().flatten().collect();
        let mut scores = Scores::default();
        Estimate::mean(&defined, seed, "monosemanticity/latents").headline("monosemanticity", &mut scores);
        let undefined = self.scores.len() - defined.len();
        if undefined > 0 {
            let dead = self.fired.iter().filter(|&&fired| fired == 0).count();
            scores.note(format!(
                "{undefined} of {} latents have no score and are left out of the mean: {dead} never fire, {} are constant or \
                 active in one row only",
                self.scores.len(),
                undefined - dead
            ));
        }
        if self.blank > 0 {
            scores.note(format!("{} rows have an embedding of length 0: their cosine counts as 0", self.blank));
        }
        scores.tables.push(Table::new("latent").numbers("score", self.scores).counts("fired", self.fired));
        scores
    }
}

/// `sum += weight · row`.
fn add(sum: &mut [f64], weight: f64, row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += weight * f64::from(value));
}

/// The entries of a batch by latent: row index within the batch and value, rows ascending.
struct Entries {
    offsets: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

impl Entries {
    fn of(codes: CodesView<'_>, latents: &Range<usize>) -> Entries {
        let inside = |row: usize| {
            let (indices, values) = codes.row(row);
            let bound = |end: usize| indices.partition_point(|&latent| (latent as usize) < end);
            let (from, to) = (bound(latents.start), bound(latents.end));
            indices[from..to].iter().map(|&latent| latent as usize - latents.start).zip(&values[from..to])
        };
        let mut offsets = vec![0; latents.len() + 1];
        for row in 0..codes.rows() {
            inside(row).for_each(|(latent, _)| offsets[latent + 1] += 1);
        }
        for latent in 0..latents.len() {
            offsets[latent + 1] += offsets[latent];
        }
        let (mut next, mut entries) = (offsets.clone(), vec![(0, 0.0); offsets[latents.len()]]);
        for row in 0..codes.rows() {
            for (latent, &value) in inside(row) {
                entries[next[latent]] = (row as u32, value);
                next[latent] += 1;
            }
        }
        Entries { offsets, entries }
    }

    fn latent(&self, latent: usize) -> &[(u32, f32)] {
        &self.entries[self.offsets[latent]..self.offsets[latent + 1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Context;
    use crate::metrics::testing::{codes as dense, column, scores as run_metric, scores_with_any_threads, with_work};
    use crate::results::Profile;
    use crate::run::Inputs;
    use crate::store::ActivationStore;
    use etalon_kernel::random::{stream, unit};

    fn inputs(codes: &[f32], latents: usize, embeddings: &[f32], width: usize) -> Inputs {
        Inputs::default()
            .with(&CODES, dense(codes, latents))
            .with(&EMBEDDINGS, ActivationStore::from_rows(embeddings.to_vec(), width).unwrap())
    }

    fn run(inputs: &Inputs, threads: usize) -> Scores {
        run_metric(&Monosemanticity, inputs, &[], Profile::Paper, threads).unwrap()
    }

    fn score(scores: &Scores, latent: usize) -> Option<f64> {
        column(scores, "latent", "score")[latent]
    }

    /// The definition, pair by pair.
    fn oracle(codes: &[f32], latents: usize, embeddings: &[f32], width: usize, latent: usize) -> Option<f64> {
        let rows = codes.len() / latents;
        let z = |row: usize| f64::from(codes[row * latents + latent]);
        let (low, high) = (0..rows).fold((f64::MAX, f64::MIN), |(low, high), row| (low.min(z(row)), high.max(z(row))));
        let e = |row: usize| &embeddings[row * width..][..width];
        let dot = |i: usize, j: usize| etalon_kernel::product::dot(e(i), e(j));
        let cosine = |i: usize, j: usize| {
            let lengths = (dot(i, i) * dot(j, j)).sqrt();
            if lengths > 0.0 { dot(i, j) / lengths } else { 0.0 }
        };
        let (mut above, mut below) = (0.0, 0.0);
        for i in 0..rows {
            for j in 0..i {
                let weight = (z(i) - low) / (high - low) * ((z(j) - low) / (high - low));
                above += weight * cosine(i, j);
                below += weight;
            }
        }
        (below > 0.0).then(|| above / below)
    }

    #[test]
    fn worked_example() {
        // Embeddings (3, 4), (5, 0), (0, 2) have the directions (.6, .8), (1, 0), (0, 1): cosines .6, .8 and 0.
        // Latent 0 is 2, 1, 0 -> a = 1, .5, 0: only rows 0 and 1 meet, .5 · .6 / .5 = .6.
        // Latent 1 is 4, 4, 2 -> a = 1, 1, 0: .6. Latent 2 is -1, 0, 0 -> a = 0, 1, 1: cosine of rows 1 and 2, 0.
        // Latent 3 is 7 everywhere and latent 4 is dead: constant, undefined. Latent 5 is active in row 2 only: no pair.
        let codes = [2.0, 4.0, -1.0, 7.0, 0.0, 0.0, 1.0, 4.0, 0.0, 7.0, 0.0, 0.0, 0.0, 2.0, 0.0, 7.0, 0.0, 9.0];
        let scores = run(&inputs(&codes, 6, &[3.0, 4.0, 5.0, 0.0, 0.0, 2.0], 2), 1);
        for (latent, expected) in [(0, 0.6), (1, 0.6), (2, 0.0)] {
            assert!((score(&scores, latent).unwrap() - expected).abs() < 1e-12, "latent {latent}");
        }
        assert_eq!([3, 4, 5].map(|latent| score(&scores, latent)), [None; 3]);
        assert!((scores.value("monosemanticity").unwrap() - 0.4).abs() < 1e-12);
        assert_eq!(scores.headline[0].n, 3);
        assert_eq!(
            scores.notes,
            [
                "3 of 6 latents have no score and are left out of the mean: 1 never fire, 2 are constant or active in one row \
              only"
            ]
        );
    }

    fn random_case(rows: usize, latents: usize, width: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
        let mut random = stream(seed, "monosemanticity/test", 0);
        // Latent 0 is always on, every third latent is signed; one embedding in fifty has no direction.
        let codes = (0..rows * latents)
            .map(|cell| {
                let value = unit(&mut random) as f32;
                match cell % latents {
                    0 => 3.0 + value,
                    latent if unit(&mut random) < 0.7 => 0.0 * latent as f32,
                    latent if latent % 3 == 0 => value - 0.5,
                    _ => value,
                }
            })
            .collect();
        let embeddings = (0..rows * width)
            .map(|cell| if cell / width % 50 == 7 { 0.0 } else { unit(&mut random) as f32 - 0.3 })
            .collect();
        (codes, embeddings)
    }

    #[test]
    fn the_sums_equal_the_loop_over_pairs() {
        let (codes, embeddings) = random_case(200, 7, 5, 1);
        let scores = run(&inputs(&codes, 7, &embeddings, 5), 2);
        for latent in 0..7 {
            let expected = oracle(&codes, 7, &embeddings, 5, latent).unwrap();
            assert!((score(&scores, latent).unwrap() - expected).abs() < 1e-12, "latent {latent}");
        }
        assert_eq!(scores.notes, ["4 rows have an embedding of length 0: their cosine counts as 0"]);
    }

    #[test]
    fn threads_do_not_change_the_scores() {
        let (codes, embeddings) = random_case(5000, 6, 3, 2);
        scores_with_any_threads(&Monosemanticity, &inputs(&codes, 6, &embeddings, 3), &[], Profile::Paper);
    }

    #[test]
    fn ranges_of_latents_do_not_change_the_scores() {
        let (codes, embeddings) = random_case(3000, 8, 3, 4);
        let inputs = inputs(&codes, 8, &embeddings, 3);
        let context = Context::silent(2, 1 << 20).unwrap();
        let scores =
            with_work(&Monosemanticity, &inputs, &context, |job, work| Ok(latent_scores(job, work, 3)?.scores(3)));
        assert_eq!(scores.unwrap(), run(&inputs, 2));
        assert_eq!(context.budget().left(), 1 << 20);
    }

    #[test]
    fn zero_or_one_row_has_no_score() {
        for rows in [0, 1] {
            let scores = run(&inputs(&[1.0, 2.0][..2 * rows], 2, &[1.0, 2.0][..2 * rows], 2), 1);
            assert_eq!(scores.value("monosemanticity"), None);
            assert_eq!([0, 1].map(|latent| score(&scores, latent)), [None; 2]);
        }
    }

    #[test]
    fn too_little_memory_is_reported_before_work_begins() {
        let inputs = inputs(&[1.0, 2.0], 2, &[1.0, 2.0], 2);
        let context = Context::silent(1, 16).unwrap();
        let recipe = crate::metrics::recipe(&Monosemanticity, &inputs, &Default::default(), Profile::Paper, 0).unwrap();
        let error = crate::metrics::evaluate(&Monosemanticity, &inputs, &recipe, &context).unwrap_err().to_string();
        assert!(error.contains("sums of rows by latent"), "{error}");
    }
}
