//! `mdl`: how many bits describe the codes of a row, when values are rounded as far as reconstructions allow?

use rayon::prelude::*;

use super::{Better, Card, Kind, Metric, Need, Output, Param};
use crate::codes::{Codes, Columns, Latent};
use crate::error::Result;
use crate::kernel::random::{index, stream};
use crate::results::{Interval, Profile, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Job, Next};
use crate::store::ActivationStore;

pub(super) struct Mdl;

static CARD: Card = Card {
    name: "mdl",
    title: "Description length",
    summary: "Bits that describe the codes of one row, values rounded as coarsely as reconstructions allow.",
    version: 1,
    measures: "A dictionary explains activations well if few words are needed to say what it sees in them. Sparse codes need \
        few words for which latents fire; codes whose values can be rounded coarsely need few for how strongly. Both count \
        here, so that a very wide dictionary does not win by sparsity alone.",
    definition: "Values of a latent are put into n equal bins from the lowest to the highest value of that latent (profile \
        `reference`: from 0 to the larger of 100 and the highest value of all) and become the middle of their bin. The rounding \
        error is the mean over rows of ‖Σ_j (q_j − f_j) d_j‖², divided by the mean of ‖x − mean x‖². The first n of `bins` whose \
        error is at most `tolerance` is taken (the largest if none is, with a note). With p_j the share of rows in which latent j \
        fires and h_j the shares of its bins among them: bits = Σ_j [H(p_j) + p_j H(h_j)], H the entropy in bits. A latent that \
        never fires costs nothing; without rows all is undefined.",
    cost: "One look at the entries for each number of bins; memory for one row per thread.",
    source: "SAEBench's extra `mdl` (paper 4's repository), after Ayonrinde et al., Interpretability as Compression. There the \
        error of the whole reconstruction must be below 0.01 · width, which depends on the unit of the data; here it is the \
        rounding alone, relative to the variance. The reference's bins reach to 100 whatever the codes are: with codes below 1 \
        all values fall into one bin.",
    interval: "Bootstrap over blocks of rows (50 blocks, 1000 resamples) of the bits at the number of bins that was taken.",
    needs: &[Need::Codes, Need::Embeddings, Need::Directions],
    uses: &[],
    headline: &[
        Output { key: "mdl_bits", doc: "Bits per row.", range: (0.0, f64::INFINITY), better: Better::Lower },
        Output {
            key: "mdl_bins",
            doc: "Bins that values were rounded to.",
            range: (1.0, f64::INFINITY),
            better: Better::Neither,
        },
        Output {
            key: "mdl_rounding_error",
            doc: "What rounding changes in reconstructions, as a share of the variance of the activations.",
            range: (0.0, f64::INFINITY),
            better: Better::Neither,
        },
    ],
    params: &[
        Param {
            name: "bins",
            doc: "Numbers of bins to try, in this order.",
            kind: Kind::Whole(1, 65_536),
            several: true,
            default: "4,6,8,12,16,32",
            reference: None,
        },
        Param {
            name: "tolerance",
            doc: "The largest rounding error, as a share of the variance of the activations.",
            kind: Kind::Number(0.0, 1e9),
            several: false,
            default: "0.01",
            reference: None,
        },
    ],
};

/// Blocks of rows that the bootstrap draws from.
const BLOCKS: usize = 50;

impl Metric for Mdl {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let (codes, store) = (job.codes()?, job.embeddings()?);
        let mut scores = Scores::default();
        let tried: Vec<usize> =
            job.several("bins")?.iter().filter_map(|bins| bins.as_u64()).map(|n| n as usize).collect();
        if codes.rows() == 0 {
            scores.note("there are no rows: the description length is undefined");
            for output in CARD.headline {
                scores.headline(output.key, None, None, 0);
            }
            scores.tables.push(Table::new("strategy").words("name", [""; 0]).numbers("mdl_bits", []));
            return Ok(Next::Done(scores));
        }
        let _memory = job.budget.take(16 * codes.entries() as u64, "the codes by latent")?;
        let columns = codes.columns()?;
        let directions = job.directions()?.tile(0..codes.latents())?;
        let (variance, tolerance) = (variance(store)?, job.number("tolerance")?);
        let widest = job.profile == Profile::Reference;
        let trials: Vec<(usize, Bins, Option<f64>)> = tried
            .iter()
            .map(|&count| {
                let bins = Bins::of(columns, count, widest);
                let error = bins.error(codes, &directions.values, store.width())? / codes.rows() as f64;
                Ok((count, bins, (variance > 0.0).then(|| error / variance)))
            })
            .collect::<Result<_>>()?;
        if variance == 0.0 {
            scores.note("the activations have no variance: the rounding error is undefined, and the first number of bins is taken");
        }
        let good = |(_, _, error): &&(usize, Bins, Option<f64>)| error.is_none_or(|error| error <= tolerance);
        let taken = trials.iter().find(good).or_else(|| trials.iter().max_by_key(|trial| trial.0));
        let Some((count, bins, error)) = taken else { return Ok(Next::Done(scores)) };
        if error.is_some_and(|error| error > tolerance) {
            scores.note(format!("no number of bins keeps the rounding error within {tolerance}: the largest is taken"));
        }
        let rows = codes.rows();
        let interval = bins.interval(columns, rows, job.seed);
        scores.headline("mdl_bits", Some(bins.bits(columns, rows)), interval, rows);
        scores.headline("mdl_bins", Some(*count as f64), None, 1);
        scores.headline("mdl_rounding_error", *error, None, rows);
        scores.tables.push(
            Table::new("strategy")
                .words("name", trials.iter().map(|trial| format!("{} bins", trial.0)))
                .numbers("mdl_bits", trials.iter().map(|trial| Some(trial.1.bits(columns, rows))))
                .numbers("mdl_rounding_error", trials.iter().map(|trial| trial.2)),
        );
        Ok(Next::Done(scores))
    }
}

/// Equal bins for every latent.
struct Bins {
    count: usize,
    /// The lowest value and the width of a bin, by latent.
    ranges: Vec<(f64, f64)>,
}

impl Bins {
    fn of(columns: &Columns, count: usize, widest: bool) -> Bins {
        let ends = |latent: usize| {
            let values = columns.latent(Latent(latent as u32)).1;
            let fold = |start: f32, pick: fn(f32, f32) -> f32| values.iter().copied().fold(start, pick);
            (f64::from(fold(f32::INFINITY, f32::min)), f64::from(fold(f32::NEG_INFINITY, f32::max)))
        };
        let ends: Vec<(f64, f64)> = (0..columns.latents()).map(ends).collect();
        let highest = ends.iter().map(|ends| ends.1).fold(100.0, f64::max);
        let range = |&(low, high): &(f64, f64)| {
            let (low, high) = if widest { (low.min(0.0), highest) } else { (low, high) };
            (low, ((high - low) / count as f64).max(0.0))
        };
        Bins { count, ranges: ends.iter().map(range).collect() }
    }

    fn place(&self, latent: usize, value: f32) -> usize {
        let (low, width) = self.ranges[latent];
        if width > 0.0 { (((f64::from(value) - low) / width) as usize).min(self.count - 1) } else { 0 }
    }

    fn middle(&self, latent: usize, value: f32) -> f64 {
        let (low, width) = self.ranges[latent];
        low + (self.place(latent, value) as f64 + 0.5) * width
    }

    /// The sum over rows of what rounding changes.
    fn error(&self, codes: &Codes, directions: &[f32], width: usize) -> Result<f64> {
        let blocks: Vec<usize> = (0..codes.rows()).step_by(1024).collect();
        let sums = blocks.par_iter().map(|&first| -> Result<f64> {
            let view = codes.view(first..(first + 1024).min(codes.rows()))?;
            let (mut sum, mut change) = (0.0, vec![0.0f64; width]);
            for row in 0..view.rows() {
                change.fill(0.0);
                let (latents, values) = view.row(row);
                for (&latent, &value) in latents.iter().zip(values) {
                    let by = self.middle(latent as usize, value) - f64::from(value);
                    let direction = &directions[latent as usize * width..][..width];
                    change.iter_mut().zip(direction).for_each(|(change, &part)| *change += by * f64::from(part));
                }
                sum += change.iter().map(|change| change * change).sum::<f64>();
            }
            Ok(sum)
        });
        Ok(sums.collect::<Result<Vec<f64>>>()?.iter().sum())
    }

    /// Bits per row.
    fn bits(&self, columns: &Columns, rows: usize) -> f64 {
        let all = vec![1.0; BLOCKS];
        let bits = |latent| self.counts(columns, rows, latent).map_or(0.0, |counts| counts.bits(&all, rows as f64));
        (0..columns.latents()).into_par_iter().map(bits).collect::<Vec<f64>>().iter().sum()
    }

    /// The 95 % interval over blocks of rows.
    fn interval(&self, columns: &Columns, rows: usize, seed: u64) -> Option<Interval> {
        if rows < 2 * BLOCKS {
            return None;
        }
        let counts: Vec<Counts> =
            (0..columns.latents()).filter_map(|latent| self.counts(columns, rows, latent)).collect();
        let mut random = stream(seed, "mdl", 0);
        let draws: Vec<Vec<f64>> = (0..RESAMPLES)
            .map(|_| {
                let mut weights = vec![0.0; BLOCKS];
                (0..BLOCKS).for_each(|_| weights[index(BLOCKS, &mut random)] += 1.0);
                weights
            })
            .collect();
        let start = |block: usize| (block * rows).div_ceil(BLOCKS);
        let drawn = |weights: &[f64]| {
            let sizes = (0..BLOCKS).map(|block| (start(block + 1) - start(block)) as f64);
            sizes.zip(weights).map(|(size, weight)| size * weight).sum::<f64>()
        };
        let bits = |weights: &Vec<f64>| {
            let rows = drawn(weights);
            counts.iter().map(|counts| counts.bits(weights, rows)).sum::<f64>()
        };
        percentile_interval(draws.par_iter().map(bits).collect())
    }

    /// How often each bin of a latent is hit, by block of rows.
    fn counts(&self, columns: &Columns, rows: usize, latent: usize) -> Option<Counts> {
        let (at, values) = columns.latent(Latent(latent as u32));
        if at.is_empty() {
            return None;
        }
        let mut hits = vec![0u32; BLOCKS * self.count];
        for (&row, &value) in at.iter().zip(values) {
            hits[(row as usize * BLOCKS / rows) * self.count + self.place(latent, value)] += 1;
        }
        Some(Counts { bins: self.count, hits })
    }
}

/// The bins of one latent.
struct Counts {
    bins: usize,
    hits: Vec<u32>,
}

impl Counts {
    /// Bits per row that the latent costs, when every block counts so often and there are so many rows in all.
    fn bits(&self, weights: &[f64], rows: f64) -> f64 {
        let mut sums = vec![0.0; self.bins];
        for (hits, weight) in self.hits.chunks_exact(self.bins).zip(weights) {
            sums.iter_mut().zip(hits).for_each(|(sum, &hits)| *sum += weight * f64::from(hits));
        }
        let fired: f64 = sums.iter().sum();
        let part = fired / rows;
        let inner: f64 = sums.iter().map(|sum| term(sum / fired.max(f64::MIN_POSITIVE))).sum();
        term(part) + term(1.0 - part) + part * inner
    }
}

/// −p log₂ p.
fn term(p: f64) -> f64 {
    if p > 0.0 && p < 1.0 { -p * libm::log2(p) } else { 0.0 }
}

/// The mean squared distance of rows to their mean.
fn variance(store: &ActivationStore) -> Result<f64> {
    let (mut sums, mut squares) = (vec![0.0f64; store.width()], 0.0);
    for first in (0..store.rows()).step_by(4096) {
        let tile = store.tile(first..(first + 4096).min(store.rows()))?;
        for row in tile.values.chunks_exact(store.width()) {
            sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
            squares += row.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>();
        }
    }
    let rows = store.rows().max(1) as f64;
    let mean = sums.iter().map(|sum| (sum / rows) * (sum / rows)).sum::<f64>();
    // What is left of equal rows is rounding.
    let variance = squares / rows - mean;
    Ok(if variance <= 1e-12 * squares / rows { 0.0 } else { variance })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::budget::Budget;
    use crate::metrics::{evaluate, recipe};
    use crate::progress::Silent;
    use crate::run::{Engine, Inputs};

    fn run(codes: &[f32], rows: &[f32], given: &[(&str, &str)], profile: Profile) -> Scores {
        let inputs = Inputs {
            codes: Some(Arc::new(Codes::from_dense(codes, 2).unwrap())),
            embeddings: Some(Arc::new(ActivationStore::from_rows(rows.to_vec(), 2).unwrap())),
            directions: Some(Arc::new(ActivationStore::from_rows(vec![1.0, 0.0, 0.0, 1.0], 2).unwrap())),
            ..Inputs::default()
        };
        let given: BTreeMap<String, String> = given.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect();
        let recipe = recipe(&Mdl, &inputs, &given, profile, 0).unwrap();
        let cancel = AtomicBool::new(false);
        let engine = Engine::new(2, Budget::new(1 << 24), &Silent, &cancel).unwrap();
        evaluate(&Mdl, &inputs, recipe, &engine).unwrap().scores
    }

    #[test]
    fn bits_by_hand() {
        // Latent 0 fires in 2 of 4 rows, with values 1 and 3; latent 1 in 1 of 4, with value 2.
        let codes = [1.0, 0.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0];
        let scores = run(&codes, &codes, &[("bins", "2"), ("tolerance", "9")], Profile::Paper);
        // H(1/2) = 1 and ½ · H(½, ½) = ½; H(1/4) = 0.8112781 and one bin costs nothing.
        let quarter = 0.25 * 2.0 + 0.75 * libm::log2(4.0 / 3.0);
        assert!((scores.headline[0].value.unwrap() - (1.5 + quarter)).abs() < 1e-12);
        // Bins of latent 0 are [1, 2] and [2, 3]: 1 becomes 1.5 and 3 becomes 2.5, so 2 · 0.25 over 4 rows. Variance: the
        // columns 1, 3, 0, 0 and 0, 0, 2, 0 have 1.5 and 0.75.
        assert!((scores.headline[2].value.unwrap() - 0.125 / 2.25).abs() < 1e-12);
        // With bins up to 100 both values share a bin.
        let scores = run(&codes, &codes, &[("bins", "2"), ("tolerance", "1e6")], Profile::Reference);
        assert!((scores.headline[0].value.unwrap() - (1.0 + quarter)).abs() < 1e-12);
    }

    #[test]
    fn as_many_bins_as_are_needed() {
        let codes: Vec<f32> = (0..400).flat_map(|row| [row as f32, 1.0]).collect();
        let few = run(&codes, &codes, &[("tolerance", "0.05")], Profile::Paper);
        let many = run(&codes, &codes, &[("tolerance", "0.0005")], Profile::Paper);
        assert!(few.headline[1].value < many.headline[1].value && few.headline[0].value < many.headline[0].value);
        let interval = many.headline[0].interval.unwrap();
        assert!(interval.low <= interval.high);
        let none = run(&codes, &codes, &[("tolerance", "0")], Profile::Paper);
        assert_eq!(none.headline[1].value, Some(32.0));
        assert!(none.notes[0].contains("largest"));
    }
}
