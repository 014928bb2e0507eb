//! Monosemanticity: are the rows in which a latent is active alike in the space of the embeddings?

use std::ops::Range;
use std::sync::Arc;

use super::{Better, Card, Metric, Need, Output};
use crate::budget::Taken;
use crate::codes::CodesView;
use crate::error::{Error, Result};
use crate::kernel::statistics::mean;
use crate::results::{Scores, Table, bootstrap_mean};
use crate::run::{Column, Job, Next, Pass, Plan, Rows, Tally};

/// The mean cosine of all pairs of rows, each pair weighted by how active the latent is in both.
pub struct Monosemanticity;

static CARD: Card = Card {
    name: "monosemanticity",
    title: "Monosemanticity",
    summary: "How alike the rows are in which a latent is active, as the mean cosine of their embeddings.",
    version: 1,
    measures: "A latent that stands for one thing is active in rows that look alike to the encoder. For every latent this \
        is the mean cosine of the embeddings over all pairs of rows, where a pair counts as much as the latent is active \
        in both. 1 means that all rows where the latent is active have the same direction; a latent that is active \
        everywhere scores the mean cosine of the data, which is far above 0 for encoders whose embeddings share a mean. \
        Read a score against that floor.",
    definition: "a_i = (z_i − min z) / (max z − min z) over all rows, zeros included, so min z is 0 for a latent of \
        non-negative codes that is ever off. e_i = embedding of row i divided by its length; neither is centred. \
        score = Σ_{i<j} a_i a_j e_i·e_j / Σ_{i<j} a_i a_j, computed exactly from one look at the rows as \
        (|Σ a_i e_i|² − Σ a_i² |e_i|²) / ((Σ a_i)² − Σ a_i²). A constant latent (dead ones among them) has no score, \
        nor has one where a single row carries all the weight, that is where the denominator is at most 1e-10 · (Σ a_i)². \
        An embedding of length 0 has cosine 0 with everything. The table `latent` counts as `fired` the rows where the \
        latent is not 0. The headline is the mean over latents with a score.",
    cost: "One pass, O(entries · width) time, 8 · latents · width bytes for each of about threads · log2(units) sums \
        alive at a time. Above 64 MB per sum the latents are taken in ranges, with one pass per range.",
    source: "Pach et al. (2025), as used in \"Evaluating the Interpretability of SAEs with Concept Annotations\" \
        (arXiv 2606.24716). The released program walks over all pairs; the numbers are the same. It also misplaces the \
        rows of its last, shorter batch, so that codes and embeddings of about a tenth of the rows do not belong \
        together: that slip is in its file handling, not in the measure, and no profile repeats it. The profiles do not \
        differ. Differences of squares lose digits when min z is far from 0 compared with max z − min z: about twice the \
        digits of that ratio, out of 16.",
    interval: "percentile bootstrap over latents, 1000 resamples",
    needs: &[Need::Codes, Need::Embeddings],
    uses: &[],
    headline: &[Output {
        key: "monosemanticity",
        doc: "the mean over latents of the mean cosine of their rows",
        range: (-1.0, 1.0),
        better: Better::Higher,
    }],
    params: &[],
};

/// Cells of one sum of latents × width; fixed, so that kept units fit whatever the memory of the next run.
const CELLS: usize = 8 << 20;

/// The least part of (Σ a)² that pairs of different rows must have for the difference to mean anything.
const LEAST_SHARE: f64 = 1e-10;

impl Metric for Monosemanticity {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let (codes, width) = (job.codes()?, job.embeddings()?.width());
        let units = Plan::of_rows(codes.rows()).units();
        let step = (CELLS / width).clamp(1, codes.latents().max(1));
        // Every thread may hold one finished sum per level of the merge tree, but there are never more than units.
        let levels = units.next_power_of_two().ilog2() as usize + 1;
        let alive = units.min(levels * rayon::current_num_threads()).max(1);
        let bytes = (alive as u64).saturating_mul(8).saturating_mul(step as u64).saturating_mul(width as u64);
        let memory = Arc::new(job.budget.take(bytes, format!("sums of {step} latents × {width}, {alive} at a time"))?);
        let found = Found { scores: Vec::new(), fired: Vec::new(), blank: 0 };
        Ok(Next::Pass(Box::new(Sums { latents: 0..step.min(codes.latents()), step, width, found, memory })))
    }
}

/// What is known of the latents below the present range.
#[derive(Clone)]
struct Found {
    scores: Vec<Option<f64>>,
    fired: Vec<usize>,
    blank: usize,
}

/// One pass over the rows for a range of latents.
struct Sums {
    latents: Range<usize>,
    step: usize,
    width: usize,
    found: Found,
    memory: Arc<Taken>,
}

/// Sums of one latent: Σ a, Σ a², and the same over rows whose embedding has no direction.
const MOMENTS: usize = 4;

impl Pass for Sums {
    fn empty(&self) -> Tally {
        let latents = self.latents.len();
        Tally {
            columns: vec![
                Column::Sum(vec![0.0; latents * self.width]),
                Column::Sum(vec![0.0; self.width]),
                Column::Sum(vec![0.0; latents * MOMENTS]),
                Column::Count(vec![0; latents]),
                Column::Count(vec![0; 2]),
                Column::Min(vec![f32::INFINITY; latents]),
                Column::Max(vec![f32::NEG_INFINITY; latents]),
            ],
        }
    }

    fn absorb(&self, tally: &mut Tally, rows: &Rows<'_>) -> Result<()> {
        let (Some(codes), Some(tile)) = (rows.codes, &rows.embeddings) else {
            return Err(Error::Bug("monosemanticity without codes or embeddings".into()));
        };
        let [
            Column::Sum(weighted),
            Column::Sum(total),
            Column::Sum(moments),
            Column::Count(fired),
            Column::Count(seen),
            Column::Min(smallest),
            Column::Max(largest),
        ] = &mut tally.columns[..]
        else {
            return Err(Error::Bug("monosemanticity was given a tally of another layout".into()));
        };
        let mut scales = Vec::with_capacity(tile.rows());
        for place in 0..tile.rows() {
            let row = tile.row(place);
            let length = row.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
            let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
            add(total, scale, row);
            seen[0] += 1;
            seen[1] += u64::from(length == 0.0);
            scales.push(scale);
        }
        // Latent by latent, so that its sum stays in the cache while the rows of the tile stream by.
        let entries = Entries::of(codes, &self.latents);
        for latent in 0..self.latents.len() {
            let sum = &mut weighted[latent * self.width..][..self.width];
            let moments = &mut moments[latent * MOMENTS..][..MOMENTS];
            for &(place, value) in entries.latent(latent) {
                let (a, scale) = (f64::from(value), scales[place as usize]);
                add(sum, a * scale, tile.row(place as usize));
                moments[0] += a;
                moments[1] += a * a;
                if scale == 0.0 {
                    moments[2] += a;
                    moments[3] += a * a;
                }
                fired[latent] += 1;
                smallest[latent] = smallest[latent].min(value);
                largest[latent] = largest[latent].max(value);
            }
        }
        Ok(())
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let (weighted, total, moments) = (tally.sums(0)?, tally.sums(1)?, tally.sums(2)?);
        let (fired, seen) = (tally.counts(3)?, tally.counts(4)?);
        let (Some(Column::Min(smallest)), Some(Column::Max(largest))) = (tally.columns.get(5), tally.columns.get(6))
        else {
            return Err(Error::Bug("monosemanticity was given a tally of another layout".into()));
        };
        if fired.len() != self.latents.len() {
            return Err(Error::Bug(format!("sums of {} latents for {:?}", fired.len(), self.latents)));
        }
        let mut found = self.found.clone();
        found.blank = seen[1] as usize;
        for latent in 0..self.latents.len() {
            let often_off = fired[latent] < seen[0];
            let rest = if often_off { [0.0; 2] } else { [f32::INFINITY, f32::NEG_INFINITY] };
            let sums = LatentSums {
                weighted: &weighted[latent * self.width..][..self.width],
                total,
                moments: &moments[latent * MOMENTS..][..MOMENTS],
                rows: seen[0] as f64,
                blank: seen[1] as f64,
                low: f64::from(smallest[latent].min(rest[0])),
                high: f64::from(largest[latent].max(rest[1])),
            };
            found.scores.push(sums.score());
            found.fired.push(fired[latent] as usize);
        }
        let latents = job.codes()?.latents();
        if self.latents.end < latents {
            let next = self.latents.end..(self.latents.end + self.step).min(latents);
            return Ok(Next::Pass(Box::new(Sums { latents: next, found, memory: self.memory.clone(), ..*self })));
        }
        Ok(Next::Done(found.scores(job.seed)))
    }
}

/// Everything that the score of one latent is made from.
struct LatentSums<'a> {
    weighted: &'a [f64],
    total: &'a [f64],
    moments: &'a [f64],
    rows: f64,
    blank: f64,
    low: f64,
    high: f64,
}

impl LatentSums<'_> {
    /// Everything is linear in the sums, so the scaling to 0..1 is applied here, when the extremes are known.
    fn score(&self) -> Option<f64> {
        let (low, range) = (self.low, self.high - self.low);
        if !(range.is_finite() && range > 0.0) {
            return None;
        }
        let squares = |a: f64, aa: f64, rows: f64| (aa - 2.0 * low * a + rows * low * low) / (range * range);
        let sum = (self.moments[0] - self.rows * low) / range;
        let all = squares(self.moments[0], self.moments[1], self.rows);
        let blank = squares(self.moments[2], self.moments[3], self.blank);
        let pairs = sum * sum - all;
        let length = self.weighted.iter().zip(self.total).map(|(&a, &e)| (a - low * e) / range).map(|s| s * s);
        (pairs > LEAST_SHARE * sum * sum).then(|| ((length.sum::<f64>() - (all - blank)) / pairs).clamp(-1.0, 1.0))
    }
}

impl Found {
    fn scores(self, seed: u64) -> Scores {
        let defined: Vec<f64> = self.scores.iter().copied().flatten().collect();
        let mut scores = Scores::default();
        let interval = bootstrap_mean(&defined, seed, "monosemanticity/latents");
        scores.headline("monosemanticity", mean(&defined), interval, defined.len());
        let undefined = self.scores.len() - defined.len();
        if undefined > 0 {
            let dead = self.fired.iter().filter(|&&fired| fired == 0).count();
            scores.note(format!(
                "{undefined} of {} latents have no score and are left out of the mean: {dead} never fire, {} are constant or active in one row only",
                self.scores.len(),
                undefined - dead
            ));
        }
        if self.blank > 0 {
            scores.note(format!("{} rows have an embedding of length 0: their cosine is taken as 0", self.blank));
        }
        scores.tables.push(Table::new("latent").numbers("score", self.scores).counts("fired", self.fired));
        scores
    }
}

/// `sum += weight · row`.
fn add(sum: &mut [f64], weight: f64, row: &[f32]) {
    sum.iter_mut().zip(row).for_each(|(sum, &value)| *sum += weight * f64::from(value));
}

/// The entries of a few rows by latent: place of the row and value, places ascending.
struct Entries {
    offsets: Vec<usize>,
    entries: Vec<(u32, f32)>,
}

impl Entries {
    fn of(codes: CodesView<'_>, latents: &Range<usize>) -> Entries {
        let inside = |place: usize| {
            let (indices, values) = codes.row(place);
            let bound = |end: usize| indices.partition_point(|&latent| (latent as usize) < end);
            let (from, to) = (bound(latents.start), bound(latents.end));
            indices[from..to].iter().map(|&latent| latent as usize - latents.start).zip(&values[from..to])
        };
        let mut offsets = vec![0; latents.len() + 1];
        for place in 0..codes.rows() {
            inside(place).for_each(|(latent, _)| offsets[latent + 1] += 1);
        }
        for latent in 0..latents.len() {
            offsets[latent + 1] += offsets[latent];
        }
        let (mut next, mut entries) = (offsets.clone(), vec![(0, 0.0); offsets[latents.len()]]);
        for place in 0..codes.rows() {
            for (latent, &value) in inside(place) {
                entries[next[latent]] = (place as u32, value);
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
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::budget::Budget;
    use crate::codes::Codes;
    use crate::kernel::random::{stream, unit};
    use crate::metrics::{evaluate, recipe};
    use crate::progress::Silent;
    use crate::results::Profile;
    use crate::run::{Engine, Inputs};
    use crate::store::ActivationStore;

    fn inputs(codes: &[f32], latents: usize, embeddings: &[f32], width: usize) -> Inputs {
        Inputs {
            codes: Some(Codes::from_dense(codes, latents).unwrap().into()),
            embeddings: Some(ActivationStore::from_rows(embeddings.to_vec(), width).unwrap().into()),
            ..Inputs::default()
        }
    }

    fn run(inputs: &Inputs, threads: usize) -> Scores {
        let cancel = AtomicBool::new(false);
        let engine = Engine::new(threads, Budget::new(1 << 30), &Silent, &cancel).unwrap();
        let recipe = recipe(&Monosemanticity, inputs, &BTreeMap::new(), Profile::Paper, 3).unwrap();
        evaluate(&Monosemanticity, inputs, recipe, &engine).unwrap().scores
    }

    fn score(scores: &Scores, latent: usize) -> Option<f64> {
        scores.table("latent").unwrap().column("score").unwrap().number(latent)
    }

    /// The definition, pair by pair.
    fn oracle(codes: &[f32], latents: usize, embeddings: &[f32], width: usize, latent: usize) -> Option<f64> {
        let rows = codes.len() / latents;
        let z = |row: usize| f64::from(codes[row * latents + latent]);
        let (low, high) = (0..rows).fold((f64::MAX, f64::MIN), |(low, high), row| (low.min(z(row)), high.max(z(row))));
        let e = |row: usize| &embeddings[row * width..][..width];
        let dot = |i: usize, j: usize| crate::kernel::product::dot(e(i), e(j));
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
    fn a_hand_worked_example() {
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
                "3 of 6 latents have no score and are left out of the mean: 1 never fire, 2 are constant or active in one row only"
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
    fn the_sums_equal_the_double_loop() {
        let (codes, embeddings) = random_case(200, 7, 5, 1);
        let scores = run(&inputs(&codes, 7, &embeddings, 5), 2);
        for latent in 0..7 {
            let expected = oracle(&codes, 7, &embeddings, 5, latent).unwrap();
            assert!((score(&scores, latent).unwrap() - expected).abs() < 1e-12, "latent {latent}");
        }
        assert_eq!(scores.notes, ["4 rows have an embedding of length 0: their cosine is taken as 0"]);
    }

    #[test]
    fn threads_do_not_change_a_bit() {
        let (codes, embeddings) = random_case(5000, 6, 3, 2);
        let inputs = inputs(&codes, 6, &embeddings, 3);
        let one = run(&inputs, 1);
        assert_eq!(run(&inputs, 2), one);
        assert_eq!(run(&inputs, 7), one);
    }

    #[test]
    fn ranges_of_latents_do_not_change_a_bit() {
        let (codes, embeddings) = random_case(3000, 8, 3, 4);
        let inputs = inputs(&codes, 8, &embeddings, 3);
        let (budget, params, cancel) = (Budget::new(1 << 20), BTreeMap::new(), AtomicBool::new(false));
        let job = Job { inputs: &inputs, params: &params, profile: Profile::Paper, seed: 3, budget: &budget };
        let engine = Engine::new(2, budget.clone(), &Silent, &cancel).unwrap();
        let memory = Arc::new(budget.take(1, "a test").unwrap());
        let found = Found { scores: Vec::new(), fired: Vec::new(), blank: 0 };
        let first = Sums { latents: 0..3, step: 3, width: 3, found, memory };
        let scores = engine.finish("test", "id", Next::Pass(Box::new(first)), &job).unwrap();
        assert_eq!(scores, run(&inputs, 2));
        assert_eq!(budget.left(), 1 << 20);
    }

    #[test]
    fn no_rows_and_one_row_have_no_score() {
        for rows in [0, 1] {
            let scores = run(&inputs(&[1.0, 2.0][..2 * rows], 2, &[1.0, 2.0][..2 * rows], 2), 1);
            assert_eq!(scores.value("monosemanticity"), None);
            assert_eq!([0, 1].map(|latent| score(&scores, latent)), [None; 2]);
        }
    }

    #[test]
    fn too_little_memory_is_said_before_work_begins() {
        let inputs = inputs(&[1.0, 2.0], 2, &[1.0, 2.0], 2);
        let cancel = AtomicBool::new(false);
        let engine = Engine::new(1, Budget::new(16), &Silent, &cancel).unwrap();
        let recipe = recipe(&Monosemanticity, &inputs, &BTreeMap::new(), Profile::Paper, 0).unwrap();
        let error = evaluate(&Monosemanticity, &inputs, recipe, &engine).unwrap_err().to_string();
        assert!(error.contains("sums of 2 latents × 2") && error.contains("32 B"), "{error}");
    }
}
