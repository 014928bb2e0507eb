//! `mdl`: the bits that describe the codes of a row, with values rounded as coarsely as reconstructions allow.

mod bins;

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::codes::CodesView;
use crate::error::{Error, Result};
use crate::results::{Interval, Profile, Scores, Table, student_quantile};
use crate::run::{CODES, DIRECTIONS, EMBEDDINGS, Job, Lazy, Max, Min, Over, RowBatch, Sum, Work};
use crate::state;
use bins::{BLOCKS, Bins};
use etalon_kernel::statistics::{deviation, mean};

/// The metric.
pub(super) struct Mdl;

const POSITIVE: (f64, f64) = (0.0, f64::INFINITY);

static CARD: Card = Card {
    name: "mdl",
    title: "Description length",
    summary: "Bits that describe the codes of one row, with values rounded as coarsely as reconstructions allow.",
    version: 4,
    measures: "A dictionary explains activations well if its codes have a short description. Sparse codes need few bits to \
        state which latents fire; values that can be rounded coarsely need few bits to state how strongly. Both count, so a very \
        wide dictionary does not win by sparsity alone.",
    definition: "Values of a latent are assigned to n equal bins from its lowest to its highest value (profile `reference`: from \
        0 to the larger of 100 and that value) and rounded to the middle of their bin. The rounding error is \
        the mean over rows of ‖Σ_j (q_j − f_j) d_j‖², divided by the mean of ‖x − mean x‖². The first n of `bins` with an error of \
        at most `tolerance` is used (the largest if there is none, with a note).\n\
        With p_j the share of rows in which latent j fires and h_j the shares of its bins among these rows: \
        bits = Σ_j [H(p_j) + p_j H(h_j)], H the entropy in bits. In `reference` h_j counts all rows, with 0 where the latent does \
        not fire. A latent that never fires costs nothing. Everything is undefined \
        without rows.\n\
        Entropies of few rows are too small, because rare values have not been seen: `mdl_bits` grows with the number of rows. \
        `mdl_bits_corrected` removes this bias to first order, with the bins of all rows: 50 θ − 49 times the mean of θ without \
        each of 50 blocks of consecutive rows; undefined below 100 rows. If values have no upper limit, the bins also \
        widen with the number of rows, which nothing corrects.",
    cost: "Two passes; the second adds the directions of the active latents of every row, for each number of bins. Then one visit \
        of the entries of every latent for each number of bins, and 50 × bins steps per latent for the interval. Memory: the codes by \
        latent, and 200 · bins bytes per thread.",
    source: "SAEBench's extra `mdl` (paper 4's repository), after Ayonrinde et al., Interpretability as Compression. There the \
        error of the whole reconstruction must be below 0.01 · width, which depends on the unit of the data; here only the rounding \
        counts, relative to the variance. The bins of `reference` reach to 100 whatever the codes are: with codes below 1 all \
        values are in one bin. Its histogram counts zeros, so h_j is mostly the bin of 0 and the values \
        cost little: a slip that only `reference` repeats. `paper` does not depend on the lengths of directions. `reference` \
        does: SAEBench folds them into the codes when it loads a dictionary for its other evaluations, but the answers of this \
        one are those of codes as they are.",
    interval: "`mdl_bits_corrected`: delete-a-block jackknife, the value ± 2.010 standard errors (Student's t, 49 degrees of \
        freedom), at the selected number of bins. None for `mdl_bits`: its bias is of the size of its error. Differences between \
        dictionaries on the same rows are paired by block.",
    needs: &[&CODES, &EMBEDDINGS, &DIRECTIONS],
    uses: &[],
    headline: &[
        Output::new(
            "mdl_bits_corrected",
            "Bits per row, without the bias of few rows to first order.",
            POSITIVE,
            Better::Lower,
        ),
        Output::new("mdl_bits", "The same as computed from these rows.", POSITIVE, Better::Lower),
        Output::new("mdl_bins", "Selected number of bins.", (1.0, f64::INFINITY), Better::Neither),
        Output::new("mdl_rounding_error", "Rounding error, as a share of the variance.", POSITIVE, Better::Neither),
    ],
    params: &[
        Param::new("bins", "Numbers of bins to try, in this order.", Kind::Whole(1, 65_536), "4,6,8,12,16,32")
            .several(),
        Param::new("tolerance", "Largest rounding error, as a share of the variance.", Kind::Number(0.0, 1e9), "0.01"),
    ],
};

/// Latents per block.
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
            scores.note("the description length is undefined: there are no rows");
            for output in CARD.headline {
                scores.headline(output.key, None, None, 0);
            }
            scores.tables.push(Table::new("strategy").words("name", [""; 0]).numbers("mdl_bits", []));
            return Ok(scores);
        }
        let moments = work.pass("moments", Over::ROWS, || Moments::new(latents, width), Moments::add)?;
        let ranges = moments.ranges(job.profile);
        let (counts, zeros) = (job.several("bins")?, job.profile == Profile::Reference);
        let tried: Vec<Bins> =
            counts.iter().filter_map(|count| Some(Bins::new(&ranges, count.as_u64()? as usize, zeros))).collect();

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
        let selected = (0..tried.len())
            .find(|&index| error(index).is_none_or(|error| error <= tolerance))
            .or_else(|| (0..tried.len()).max_by_key(|&index| tried[index].count))
            .ok_or_else(|| Error::Bug("no number of bins".into()))?;

        let columns = Lazy::new(|| codes.columns());
        let empty = || BitSums { all: Sum::new(tried.len()), without: Sum::new(BLOCKS) };
        let most = tried.iter().map(|bins| bins.count).max().unwrap_or(0);
        let bits =
            work.fold_with(&columns, "groups of latents", latents.div_ceil(GROUP), empty, |columns, bits, group| {
                let _memory = job.budget().reserve((4 * BLOCKS + 8) as u64 * most as u64, "the bins of a latent")?;
                (group * GROUP..latents.min((group + 1) * GROUP)).try_for_each(|latent| {
                    job.check()?;
                    for (index, bins) in tried.iter().enumerate() {
                        let Some(counts) = bins.counts(columns, rows, latent) else { return Ok(()) };
                        bits.all[index] += counts.bits(rows);
                        if index == selected && rows >= 2 * BLOCKS {
                            let without = counts.bits_without_blocks(rows);
                            bits.without.iter_mut().zip(without).for_each(|(sum, bits)| *sum += bits);
                        }
                    }
                    Ok(())
                })
            })?;

        if variance == 0.0 {
            scores.note(
                "the rounding error is undefined: the activations have no variance; the first number of bins is used",
            );
        }
        if error(selected).is_some_and(|error| error > tolerance) {
            scores.note(format!("no number of bins has a rounding error of at most {tolerance}: the largest is used"));
        }
        let (corrected, interval) =
            (rows >= 2 * BLOCKS).then(|| jackknife(bits.all[selected], &bits.without)).flatten().unzip();
        if corrected.is_none() {
            scores.note(format!("`mdl_bits_corrected` is undefined: fewer than {} rows", 2 * BLOCKS));
        }
        scores.headline("mdl_bits_corrected", corrected, interval, rows);
        scores.headline("mdl_bits", Some(bits.all[selected]), None, rows);
        scores.headline("mdl_bins", Some(tried[selected].count as f64), None, 1);
        scores.headline("mdl_rounding_error", error(selected), None, rows);
        scores.tables.push(
            Table::new("strategy")
                .words("name", tried.iter().map(|bins| format!("{} bins", bins.count)))
                .numbers("mdl_bits", bits.all.iter().map(|&bits| Some(bits)))
                .numbers("mdl_rounding_error", (0..tried.len()).map(error)),
        );
        if corrected.is_some() {
            let without = bits.without.iter().map(|&bits| Some(bits)).collect();
            scores.put_jackknife([("mdl_bits_corrected".to_string(), without)]);
        }
        Ok(scores)
    }
}

/// Statistics of the values before rounding.
#[derive(Serialize, Deserialize)]
struct Moments {
    /// By column of the activations.
    sums: Sum,
    /// Of all values.
    squares: Sum,
    /// By latent, over its nonzero values.
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

    /// The range of every latent's bins; (0, 0) for a latent that never fires.
    fn ranges(&self, profile: Profile) -> Vec<(f64, f64)> {
        let range = |(low, high): (&Option<f32>, &Option<f32>)| {
            let (low, high) = low.zip(*high).map_or((0.0, 0.0), |(low, high)| (f64::from(low), f64::from(high)));
            if profile == Profile::Reference { (low.min(0.0), high.max(100.0)) } else { (low, high) }
        };
        self.lowest.iter().zip(self.highest.iter()).map(range).collect()
    }

    /// The mean squared distance of rows to their mean.
    fn variance(&self, rows: usize) -> f64 {
        let rows = rows as f64;
        let mean = self.sums.iter().map(|sum| (sum / rows) * (sum / rows)).sum::<f64>();
        let square = self.squares[0] / rows;
        // For equal rows only rounding errors remain.
        if square - mean <= 1e-12 * square { 0.0 } else { square - mean }
    }
}

/// The sum over rows of the squared rounding error.
#[derive(Serialize, Deserialize)]
struct Errors {
    /// By number of bins.
    squares: Sum,
}

state!(Errors { squares });

impl Errors {
    fn add(&mut self, codes: CodesView<'_>, tried: &[Bins], directions: &[f32], width: usize) {
        let mut error = vec![0.0f64; width];
        for (sum, bins) in self.squares.iter_mut().zip(tried) {
            for row in 0..codes.rows() {
                error.fill(0.0);
                let (latents, values) = codes.row(row);
                for (&latent, &value) in latents.iter().zip(values) {
                    let by = bins.middle(latent as usize, value) - f64::from(value);
                    let direction = &directions[latent as usize * width..][..width];
                    error.iter_mut().zip(direction).for_each(|(error, &part)| *error += by * f64::from(part));
                }
                *sum += error.iter().map(|error| error * error).sum::<f64>();
            }
        }
    }
}

/// Bits per row, summed over latents.
#[derive(Serialize, Deserialize)]
struct BitSums {
    /// By number of bins, over all rows.
    all: Sum,
    /// Over all rows but those of a block, by block, at the selected number of bins.
    without: Sum,
}

state!(BitSums { all, without });

/// A value without its bias to first order, and its interval, from the values without each block.
fn jackknife(value: f64, without: &[f64]) -> Option<(f64, Interval)> {
    let blocks = without.len() as f64;
    // The jackknife's standard error is (n − 1)/√n times the deviation.
    let error = deviation(without)? * (blocks - 1.0) / blocks.sqrt();
    let corrected = (blocks * value - (blocks - 1.0) * mean(without)?).max(0.0);
    let half = student_quantile(blocks - 1.0)? * error;
    Some((corrected, Interval { low: (corrected - half).max(0.0), high: corrected + half }))
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
    fn bits_match_the_worked_example() {
        // Latent 0 fires in 2 of 4 rows, with values 1 and 3; latent 1 in 1 of 4, with value 2.
        let codes = [1.0, 0.0, 3.0, 0.0, 0.0, 2.0, 0.0, 0.0];
        let scores = run(&codes, &codes, &[("bins", "2"), ("tolerance", "9")], Profile::Paper);
        // H(1/2) = 1 and ½ · H(½, ½) = ½; H(1/4) = 0.8112781 and one bin costs nothing.
        let quarter = 0.25 * 2.0 + 0.75 * libm::log2(4.0 / 3.0);
        assert!((scores.value("mdl_bits").unwrap() - (1.5 + quarter)).abs() < 1e-12);
        // Bins of latent 0 are [1, 2] and [2, 3]: 1 becomes 1.5 and 3 becomes 2.5, so 2 · 0.25 over 4 rows. Variance: the
        // columns 1, 3, 0, 0 and 0, 0, 2, 0 have 1.5 and 0.75.
        assert!((scores.value("mdl_rounding_error").unwrap() - 0.125 / 2.25).abs() < 1e-12);
        // Too few rows for 50 blocks.
        assert_eq!(scores.value("mdl_bits_corrected"), None);
        // With bins up to 100 all values share the bin of 0.
        let scores = run(&codes, &codes, &[("bins", "2"), ("tolerance", "1e6")], Profile::Reference);
        assert!((scores.value("mdl_bits").unwrap() - (1.0 + quarter)).abs() < 1e-12);
        // 60 and 80 each have a bin without other values: H(1/2) + ½ · H(½, ½) and H(1/4) + ¼ · H(1/4).
        let codes = [60.0, 0.0, 80.0, 0.0, 0.0, 60.0, 0.0, 0.0];
        let scores = run(&codes, &codes, &[("bins", "2"), ("tolerance", "1e6")], Profile::Reference);
        assert!((scores.value("mdl_bits").unwrap() - (1.5 + 1.25 * quarter)).abs() < 1e-12);
    }

    #[test]
    fn the_first_sufficient_number_of_bins_is_used() {
        let codes: Vec<f32> = (0..400).flat_map(|row| [row as f32, 1.0]).collect();
        let coarse = run(&codes, &codes, &[("tolerance", "0.05")], Profile::Paper);
        let fine = run(&codes, &codes, &[("tolerance", "0.0005")], Profile::Paper);
        for key in ["mdl_bins", "mdl_bits", "mdl_bits_corrected"] {
            assert!(coarse.value(key) < fine.value(key), "{key}");
        }
        assert_eq!((fine.headline[0].interval.is_some(), fine.headline[1].interval), (true, None));
        assert_eq!(fine.headline[0].key, "mdl_bits_corrected");
        let none = run(&codes, &codes, &[("tolerance", "0")], Profile::Paper);
        assert_eq!(none.value("mdl_bins"), Some(32.0));
        assert!(none.notes[0].contains("largest"));
    }

    #[test]
    fn the_jackknife_matches_the_worked_example() {
        // Value 10; without each of four blocks 9, 9, 10, 10: mean 9.5, deviation √(1/3). Corrected 40 − 28.5 = 11.5; error
        // √(1/3) · 3/2 = 0.866025; t(3) = 3.182446.
        let (corrected, interval) = jackknife(10.0, &[9.0, 9.0, 10.0, 10.0]).unwrap();
        assert!((corrected - 11.5).abs() < 1e-12);
        assert!((interval.low - (11.5 - 2.756079)).abs() < 1e-5 && (interval.high - (11.5 + 2.756079)).abs() < 1e-5);
    }

    #[test]
    fn blocks_left_out_equal_codes_without_them() {
        // 120 rows: the first block has rows 0 to 2. Bins from 0 to 3 in both cases, because rows 3 and 4 have these values.
        let value = |row: usize| [3.0, 1.5, 0.5][row % 3];
        let codes: Vec<f32> = (0..120).flat_map(|row| [value(row), if row % 7 == 0 { 1.0 } else { 0.0 }]).collect();
        let counts = |codes: &[f32], latent: usize| {
            let codes = Codes::from_dense(codes, 2).unwrap();
            let bins = Bins::new(&[(0.0, 3.0), (0.0, 3.0)], 4, false);
            let counts = bins.counts(codes.columns().unwrap(), codes.rows(), latent).unwrap();
            (counts.bits(codes.rows()), counts.bits_without_blocks(codes.rows()).next().unwrap())
        };
        assert_eq!(bins::block_rows(0, 120), 3);
        for latent in 0..2 {
            assert!((counts(&codes, latent).1 - counts(&codes[6..], latent).0).abs() < 1e-12);
        }
    }
}
