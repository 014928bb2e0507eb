//! `mdl`: how many bits describe the codes of a row, when values are rounded as far as reconstructions allow?

use std::borrow::Cow;

use etalon_kernel::random::{index, stream};
use serde::{Deserialize, Serialize};

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::codes::{CodesView, Columns, Latent};
use crate::error::{Error, Result};
use crate::results::{Profile, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, Lazy, Max, Min, Over, RowBatch, Sum, Work};
use crate::state;

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
    cost: "Two passes; the second adds, for each number of bins, the directions of the latents that fire in a row. Then a look at \
        the entries of every latent for each number of bins, and 1000 × 50 × bins steps for the interval. Memory: the codes by \
        latent, and 200 · bins bytes per thread.",
    source: "SAEBench's extra `mdl` (paper 4's repository), after Ayonrinde et al., Interpretability as Compression. There the \
        error of the whole reconstruction must be below 0.01 · width, which depends on the unit of the data; here it is the \
        rounding alone, relative to the variance. The reference's bins reach to 100 whatever the codes are: with codes below 1 \
        all values fall into one bin.",
    interval: "Bootstrap over blocks of rows (50 blocks, 1000 resamples) of the bits at the number of bins that was taken.",
    needs: &[&CODES, &EMBEDDINGS, &DIRECTIONS],
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

/// Latents that are counted together.
const GROUP: usize = 16;

impl Metric for Mdl {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let (codes, width) = (job.get(&CODES)?, job.get(&EMBEDDINGS)?.width());
        let (rows, latents) = (codes.rows(), codes.latents());
        let mut scores = Scores::default();
        if rows == 0 {
            scores.note("there are no rows: the description length is undefined");
            for output in CARD.headline {
                scores.headline(output.key, None, None, 0);
            }
            scores.tables.push(Table::new("strategy").words("name", [""; 0]).numbers("mdl_bits", []));
            return Ok(scores);
        }
        let moments = work.pass("moments", Over::ROWS, || Moments::new(latents, width), Moments::add)?;
        let widest = job.profile == Profile::Reference;
        let tried = job.several("bins")?;
        let tried: Vec<Bins> =
            tried.iter().filter_map(|bins| Some(Bins::new(&moments, bins.as_u64()? as usize, widest))).collect();

        let directions = job.get(&DIRECTIONS)?.tile(0..latents)?;
        let copied = if matches!(directions.values, Cow::Owned(_)) { size_of_val(&*directions.values) } else { 0 };
        let memory = job.budget().reserve(copied as u64, "a copy of the directions")?;
        let empty = || Errors { squares: Sum::new(tried.len()) };
        let errors = work.pass("rounding errors", Over::ROWS, empty, |errors, rows| {
            errors.add(rows.get(&CODES)?, &tried, &directions.values, width);
            Ok(())
        })?;
        drop((directions, memory));
        let (variance, tolerance) = (moments.variance(rows), job.number("tolerance")?);
        let error = |index: usize| (variance > 0.0).then(|| errors.squares[index] / rows as f64 / variance);
        let taken = (0..tried.len())
            .find(|&index| error(index).is_none_or(|error| error <= tolerance))
            .or_else(|| (0..tried.len()).max_by_key(|&index| tried[index].count))
            .ok_or_else(|| Error::Bug("no number of bins".into()))?;

        let draws = draws(rows, job.seed);
        let columns = Lazy::new(|| codes.columns());
        let empty = || BitSums { all: Sum::new(tried.len()), resampled: Sum::new(draws.len()) };
        let most = tried.iter().map(|bins| bins.count).max().unwrap_or(0);
        let bits =
            work.fold_with(&columns, "groups of latents", latents.div_ceil(GROUP), empty, |columns, bits, group| {
                let _memory = job.budget().reserve((4 * BLOCKS + 8) as u64 * most as u64, "the bins of a latent")?;
                (group * GROUP..latents.min((group + 1) * GROUP)).try_for_each(|latent| {
                    job.check()?;
                    for (index, bins) in tried.iter().enumerate() {
                        let Some(counts) = bins.counts(columns, rows, latent) else { return Ok(()) };
                        bits.all[index] += counts.bits(&[1.0; BLOCKS], rows as f64);
                        if index == taken {
                            for (sum, draw) in bits.resampled.iter_mut().zip(&draws) {
                                job.check()?;
                                *sum += counts.bits(&draw.weights, draw.rows);
                            }
                        }
                    }
                    Ok(())
                })
            })?;

        if variance == 0.0 {
            scores.note("the activations have no variance: the rounding error is undefined, and the first number of bins is taken");
        }
        if error(taken).is_some_and(|error| error > tolerance) {
            scores.note(format!("no number of bins keeps the rounding error within {tolerance}: the largest is taken"));
        }
        scores.headline("mdl_bits", Some(bits.all[taken]), percentile_interval(bits.resampled.to_vec()), rows);
        scores.headline("mdl_bins", Some(tried[taken].count as f64), None, 1);
        scores.headline("mdl_rounding_error", error(taken), None, rows);
        scores.tables.push(
            Table::new("strategy")
                .words("name", tried.iter().map(|bins| format!("{} bins", bins.count)))
                .numbers("mdl_bits", bits.all.iter().map(|&bits| Some(bits)))
                .numbers("mdl_rounding_error", (0..tried.len()).map(error)),
        );
        Ok(scores)
    }
}

/// What is known of the values before they are rounded.
#[derive(Serialize, Deserialize)]
struct Moments {
    /// By column of the activations.
    sums: Sum,
    /// Of all values.
    squares: Sum,
    /// By latent, over the rows where it is not 0.
    lowest: Min,
    highest: Max,
}

state!(Moments { sums, squares, lowest, highest });

impl Moments {
    fn new(latents: usize, width: usize) -> Moments {
        Moments { sums: Sum::new(width), squares: Sum::new(1), lowest: Min::new(latents), highest: Max::new(latents) }
    }

    fn add(&mut self, rows: &RowBatch<'_>) -> Result<()> {
        let (codes, tile) = (rows.get(&CODES)?, rows.get(&EMBEDDINGS)?);
        for row in tile.values.chunks_exact(tile.width) {
            self.sums.iter_mut().zip(row).for_each(|(sum, &value)| *sum += f64::from(value));
            self.squares[0] += row.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>();
        }
        for (&latent, &value) in codes.latents().iter().zip(codes.values()) {
            self.lowest.add(latent as usize, Some(value));
            self.highest.add(latent as usize, Some(value));
        }
        Ok(())
    }

    /// The mean squared distance of rows to their mean.
    fn variance(&self, rows: usize) -> f64 {
        let rows = rows as f64;
        let mean = self.sums.iter().map(|sum| (sum / rows) * (sum / rows)).sum::<f64>();
        let square = self.squares[0] / rows;
        // What is left of equal rows is rounding.
        if square - mean <= 1e-12 * square { 0.0 } else { square - mean }
    }
}

/// The sum over rows of what rounding changes.
#[derive(Serialize, Deserialize)]
struct Errors {
    /// By number of bins.
    squares: Sum,
}

state!(Errors { squares });

impl Errors {
    fn add(&mut self, codes: CodesView<'_>, tried: &[Bins], directions: &[f32], width: usize) {
        let mut change = vec![0.0f64; width];
        for (sum, bins) in self.squares.iter_mut().zip(tried) {
            for row in 0..codes.rows() {
                change.fill(0.0);
                let (latents, values) = codes.row(row);
                for (&latent, &value) in latents.iter().zip(values) {
                    let by = bins.middle(latent as usize, value) - f64::from(value);
                    let direction = &directions[latent as usize * width..][..width];
                    change.iter_mut().zip(direction).for_each(|(change, &part)| *change += by * f64::from(part));
                }
                *sum += change.iter().map(|change| change * change).sum::<f64>();
            }
        }
    }
}

/// Bits per row, summed over latents.
#[derive(Serialize, Deserialize)]
struct BitSums {
    /// By number of bins, over all rows.
    all: Sum,
    /// By resample, with the number of bins that is taken.
    resampled: Sum,
}

state!(BitSums { all, resampled });

/// A resample of blocks of rows.
struct Draw {
    /// How often each block was drawn.
    weights: Vec<f64>,
    /// How many rows that makes.
    rows: f64,
}

/// The resamples; none if there are too few rows.
fn draws(rows: usize, seed: u64) -> Vec<Draw> {
    if rows < 2 * BLOCKS {
        return Vec::new();
    }
    let mut random = stream(seed, "mdl", 0);
    let start = |block: usize| (block * rows).div_ceil(BLOCKS);
    let draw = |_| {
        let mut weights = vec![0.0; BLOCKS];
        (0..BLOCKS).for_each(|_| weights[index(BLOCKS, &mut random)] += 1.0);
        let sizes = (0..BLOCKS).map(|block| (start(block + 1) - start(block)) as f64);
        let rows = sizes.zip(&weights).map(|(size, weight)| size * weight).sum();
        Draw { weights, rows }
    };
    (0..RESAMPLES).map(draw).collect()
}

/// Equal bins for every latent.
struct Bins {
    count: usize,
    /// The lowest value and the width of a bin, by latent; zeros for a latent that never fires.
    ranges: Vec<(f64, f64)>,
}

impl Bins {
    fn new(moments: &Moments, count: usize, widest: bool) -> Bins {
        let highest = moments.highest.iter().flatten().copied().map(f64::from).fold(100.0, f64::max);
        let range = |(low, high): (&Option<f32>, &Option<f32>)| {
            let (low, high) = low.zip(*high).map_or((0.0, 0.0), |(low, high)| (f64::from(low), f64::from(high)));
            let (low, high) = if widest { (low.min(0.0), highest) } else { (low, high) };
            (low, ((high - low) / count as f64).max(0.0))
        };
        Bins { count, ranges: moments.lowest.iter().zip(moments.highest.iter()).map(range).collect() }
    }

    fn bin(&self, latent: usize, value: f32) -> usize {
        let (low, width) = self.ranges[latent];
        if width > 0.0 { (((f64::from(value) - low) / width) as usize).min(self.count - 1) } else { 0 }
    }

    fn middle(&self, latent: usize, value: f32) -> f64 {
        let (low, width) = self.ranges[latent];
        low + (self.bin(latent, value) as f64 + 0.5) * width
    }

    /// How often each bin of a latent is hit, by block of rows; none for a latent that never fires.
    fn counts(&self, columns: &Columns, rows: usize, latent: usize) -> Option<Counts> {
        let (at, values) = columns.latent(Latent(latent as u32));
        if at.is_empty() {
            return None;
        }
        let mut hits = vec![0u32; BLOCKS * self.count];
        for (&row, &value) in at.iter().zip(values) {
            hits[(row as usize * BLOCKS / rows) * self.count + self.bin(latent, value)] += 1;
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
    /// Bits per row that the latent costs, when every block counts as often as its weight says, in `rows` rows altogether.
    fn bits(&self, weights: &[f64], rows: f64) -> f64 {
        let mut sums = vec![0.0; self.bins];
        for (hits, weight) in self.hits.chunks_exact(self.bins).zip(weights).filter(|(_, weight)| **weight > 0.0) {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;
    use crate::metrics::testing;
    use crate::run::Inputs;
    use crate::store::ActivationStore;

    fn run(codes: &[f32], rows: &[f32], given: &[(&str, &str)], profile: Profile) -> Scores {
        let store = |values: &[f32]| ActivationStore::from_rows(values.to_vec(), 2).unwrap();
        let inputs = Inputs::default()
            .with(&CODES, Codes::from_dense(codes, 2).unwrap())
            .with(&EMBEDDINGS, store(rows))
            .with(&DIRECTIONS, store(&[1.0, 0.0, 0.0, 1.0]));
        testing::scores(&Mdl, &inputs, given, profile, 2).unwrap()
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
