//! CKNNA: do codes and embeddings have the same nearest neighbours?

mod alignment;
mod nearest;
mod parts;

use std::borrow::Cow;
use std::ops::Range;

use etalon_kernel::largest_products::Products;
use etalon_kernel::random::{permutation, stream};
use etalon_kernel::statistics::mean;

use super::{Better, Card, Kind, Metric, Output, Param};
use crate::codes::{Codes, CodesBuilder};
use crate::context::Reservation;
use crate::error::{InputError, Key, Result};
use crate::results::{Interval, Scores, student_quantile};
use crate::run::{CODES, EMBEDDINGS, Job, Lazy, Work};
use alignment::{Graph, cknna};
use nearest::{Neighbours, is_dense, of_codes, scratch_bytes};
use parts::{PairNeighbours, Parts};

/// Centred kernel nearest-neighbour alignment of codes and embeddings.
pub struct Cknna;

static CARD: Card = Card {
    name: "cknna",
    title: "CKNNA",
    summary: "How well codes and embeddings agree on nearest neighbours.",
    version: 2,
    measures: "Codes that preserve the information of the encoder have the same nearest neighbours as the embeddings. Both \
        sides get a linear kernel (dot products of rows), and the kernels are compared where both count one row among the \
        nearest neighbours of another. 1 is the value of a representation compared with itself, 0 means no agreement. It \
        does not describe single latents.",
    definition: "K = Z Zᵀ of the codes and L = E Eᵀ of the embeddings, neither centred nor normalised. For kernels U, V: \
        keep the entries (i, j) where j is among the `neighbours` largest of row i in both (the row itself excluded, \
        ties to the lower row), set the others to 0, and compute the unbiased dependence \
        sim(U, V) = [Σ_ij U_ij V_ji + ΣU ΣV / ((n−1)(n−2)) − 2 Σ_ij (UV)_ij / (n−2)] / (n(n−3)).\n\
        CKNNA = sim(K, L) / √(sim(K, K) sim(L, L)). Because neighbourhood is not symmetric, only mutual neighbours count in \
        the first term; with few rows the value may leave [−1, 1].\n\
        Undefined below 4 + `neighbours` rows, and if a kernel has no positive similarity with itself, as with codes that \
        are all 0.",
    cost: "n² / 2 · width multiplications of 8-bit integers for the embeddings where the processor has them, and for the codes \
        one multiplication per pair of entries in the same column (or a dense product if that is faster). Memory: one copy of \
        the embeddings, two bytes more per value where 8-bit integers are multiplied, and lists of neighbours; never n × n.",
    source: "Huh et al., \"The Platonic Representation Hypothesis\" (2024), as used with 10 neighbours in \"Evaluating the \
        Interpretability of SAEs with Concept Annotations\" (arXiv 2606.24716). Profile `reference` adds 1e-6 to the \
        denominator as the released code does; its value then depends on the scale of the data and is 0 instead of \
        undefined for empty codes. The code also leaves the rows of a shorter last batch empty; this is a bug of its file \
        handling, and no profile reproduces it.",
    interval: "Delete-a-group jackknife: 20 seeded groups of rows are left out in turn, neighbours are recomputed among the \
        remaining rows (from longer lists), and the interval is the value ± 2.093 standard errors (Student's t, 19 degrees \
        of freedom). A bootstrap would make repeated rows neighbours of each other. By the Efron-Stein inequality, the \
        variance is on average too large rather than too small: in simulations with 600 and 2,000 rows the interval contains \
        the expected value in 99 to 100 % of data sets. None below 40 rows. Differences between codes of the same rows are \
        paired by group.",
    needs: &[&CODES, &EMBEDDINGS],
    uses: &[],
    headline: &[Output::new(
        "cknna",
        "Alignment of codes and embeddings on shared nearest neighbours",
        (f64::NEG_INFINITY, f64::INFINITY),
        Better::Higher,
    )],
    params: &[
        Param::new("neighbours", "Number of nearest rows that count as neighbours", Kind::Whole(1, 1000), "10"),
        Param::new("sample", "Compare a random sample of this many rows; 0 uses all", Kind::Whole(0, u64::MAX), "0"),
    ],
};

/// Rows per block.
const BLOCK: usize = 256;

/// Groups of the jackknife; Student's t has one degree of freedom less.
const GROUPS: usize = 20;

impl Metric for Cknna {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let all = job.get(&CODES)?.rows();
        let (neighbours, sample) = (job.whole("neighbours")?, job.whole("sample")?);
        let rows = if sample == 0 { all } else { sample.min(all) };
        let mut scores = Scores::default();
        if rows < 4 + neighbours {
            scores.headline("cknna", None, None, rows);
            scores.note(format!("{rows} rows are too few for {neighbours} neighbours: undefined"));
            return Ok(scores);
        }
        if rows > u32::MAX as usize {
            return Err(InputError::new("too many rows to compare each with each")
                .expected(format!("at most {}", u32::MAX))
                .found(rows)
                .advice(format!("compare a sample: {}", Key("sample 20000")))
                .into());
        }
        // Spare neighbours, so that enough remain when a group of rows is left out.
        let keep = (neighbours + neighbours / 2 + 8).min(rows - 1);
        let kernels = Lazy::new(|| Kernels::new(job, rows));
        let codes = work.blocks_with(&kernels, "blocks of codes", rows.div_ceil(BLOCK), |kernels, block| {
            kernels.nearest_codes(block * BLOCK..((block + 1) * BLOCK).min(rows), keep, job)
        })?;
        let parts = Parts::of(rows);
        let embeddings = work.blocks_with(&kernels, "blocks of embeddings", parts.pairs().len(), |kernels, pair| {
            kernels.nearest_embeddings(parts.pairs()[pair].clone(), keep, job)
        })?;
        drop(kernels);
        let graphs = Lazy::new(|| Graphs::new(job, &codes, &parts.merge(&embeddings, keep), keep));
        let groups = if has_groups(rows, neighbours) { GROUPS } else { 0 };
        // The value of all rows, then without each group.
        let values = work.blocks_with(&graphs, "groups left out", 1 + groups, |graphs, block| {
            graphs.value(block.checked_sub(1).map(|group| group as u8), neighbours, job)
        })?;
        let (value, without) = (values[0], values[1..].iter().copied().collect::<Option<Vec<f64>>>());
        let without = without.filter(|without| value.is_some() && !without.is_empty());
        let interval = value.zip(without.as_deref()).and_then(|(value, without)| interval(value, without));
        scores.headline("cknna", value, interval, rows);
        scores.put_jackknife(without.map(|without| ("cknna".into(), without.into_iter().map(Some).collect())));
        if rows < all {
            scores.note(format!("a sample of {rows} of {all} rows"));
        }
        if value.is_none() {
            scores.note("a kernel has no similarity with itself, as with codes that are all 0: undefined");
        }
        Ok(scores)
    }
}

/// The compared rows.
struct Kernels<'a> {
    codes: &'a Codes,
    /// The sampled rows of the codes, if not all are used.
    sample: Option<Codes>,
    embeddings: Products<'a>,
    dense: bool,
    _memory: Reservation,
}

impl<'a> Kernels<'a> {
    /// Takes all rows, or copies a random sample of them.
    fn new(job: &Job<'a>, rows: usize) -> Result<Kernels<'a>> {
        let (codes, store) = (job.get(&CODES)?, job.get(&EMBEDDINGS)?);
        let (all, width) = (codes.rows(), store.width());
        let is_borrowed = rows == all && store.contiguous()?.is_some();
        let copied = if is_borrowed { 0 } else { (4 * rows as u64).saturating_mul(width as u64) };
        let bytes = copied.saturating_add(Products::bytes(rows, width));
        let what = format!("the embeddings of {rows} rows ({} takes fewer)", Key("sample"));
        let _memory = job.budget().reserve(bytes, what)?;
        let mut sample = None;
        let embeddings: Cow<'a, [f32]> = match store.contiguous()? {
            Some(values) if rows == all => values.into(),
            None if rows == all => {
                let mut embeddings = Vec::with_capacity(rows * width);
                for first in (0..all).step_by(BLOCK) {
                    job.check()?;
                    embeddings.extend_from_slice(&store.tile(first..(first + BLOCK).min(all))?.values);
                }
                embeddings.into()
            }
            _ => {
                let _order = job.budget().reserve(8 * all as u64, "the order of a sample")?;
                let mut order = permutation(all, &mut stream(job.seed, "cknna/sample", 0));
                order.truncate(rows);
                order.sort_unstable();
                let mut embeddings = Vec::with_capacity(rows * width);
                let mut builder = CodesBuilder::within(codes.latents(), job.budget());
                for row in order {
                    job.check()?;
                    embeddings.extend_from_slice(store.tile(row..row + 1)?.row(0));
                    builder.append(codes.view(row..row + 1)?)?;
                }
                sample = Some(builder.finish());
                embeddings.into()
            }
        };
        let dense = is_dense(sample.as_ref().unwrap_or(codes))?;
        let embeddings = Products::new(embeddings, width);
        Ok(Kernels { codes, sample, embeddings, dense, _memory })
    }

    /// The neighbours of some rows by codes.
    fn nearest_codes(&self, rows: Range<usize>, keep: usize, job: &Job<'_>) -> Result<Vec<Neighbours>> {
        let codes = self.sample.as_ref().unwrap_or(self.codes);
        let bytes = scratch_bytes(codes, self.dense, rows.len(), keep);
        let _memory = job.budget().reserve(bytes, format!("the neighbours of {} rows", rows.len()))?;
        of_codes(codes, self.dense, rows, keep, &|| job.check())
    }

    /// The neighbours of two parts of the rows in each other by embeddings.
    fn nearest_embeddings(
        &self,
        (mine, theirs): (Range<usize>, Range<usize>),
        keep: usize,
        job: &Job<'_>,
    ) -> Result<PairNeighbours> {
        let rows = if mine == theirs { mine.len() } else { mine.len() + theirs.len() };
        let bytes = Products::search_bytes(rows, keep);
        let _memory = job.budget().reserve(bytes, format!("the neighbours of {rows} rows"))?;
        let (mine, theirs) = self.embeddings.largest(mine, theirs, keep, &|| job.check())?;
        Ok(PairNeighbours { mine, theirs })
    }
}

/// The neighbours of every row in both kernels, with some to spare.
struct Graphs {
    codes: Graph,
    embeddings: Graph,
    /// The group of every row.
    group: Vec<u8>,
    _memory: Reservation,
}

impl Graphs {
    fn new(job: &Job<'_>, codes: &[Vec<Neighbours>], embeddings: &[Neighbours], keep: usize) -> Result<Graphs> {
        let rows = embeddings.len();
        // Both graphs, merged lists and groups.
        let bytes = 2 * Graph::bytes(rows, keep) + (rows as u64).saturating_mul(33 + 16 * keep as u64);
        let memory = job.budget().reserve(bytes, format!("the neighbours of {rows} rows"))?;
        let mut group = vec![0; rows];
        let order = permutation(rows, &mut stream(job.seed, "cknna/jackknife", 0));
        order.into_iter().enumerate().for_each(|(position, row)| group[row] = (position % GROUPS) as u8);
        let codes = Graph::new(codes.iter().flatten());
        job.check()?;
        Ok(Graphs { codes, embeddings: Graph::new(embeddings.iter()), group, _memory: memory })
    }

    /// The score without a group of rows; each other row has its nearest neighbours among the remaining rows.
    fn value(&self, left_out: Option<u8>, neighbours: usize, job: &Job<'_>) -> Result<Option<f64>> {
        let rows = self.group.len();
        let _memory = job.budget().reserve(56 * rows as u64, format!("the alignment of {rows} rows"))?;
        job.check()?;
        let graphs = (&self.codes, &self.embeddings);
        Ok(match left_out {
            None => cknna(graphs, neighbours, |_| true, job.profile),
            Some(group) => cknna(graphs, neighbours, |row| self.group[row] != group, job.profile),
        })
    }
}

/// Whether there are enough rows to leave out groups.
fn has_groups(rows: usize, neighbours: usize) -> bool {
    rows >= 2 * GROUPS && rows - rows.div_ceil(GROUPS) >= 4 + neighbours
}

/// The jackknife interval.
fn interval(value: f64, without: &[f64]) -> Option<Interval> {
    let (groups, centre) = (without.len() as f64, mean(without)?);
    let squares: f64 = without.iter().map(|replicate| (replicate - centre).powi(2)).sum();
    let error = student_quantile(groups - 1.0)? * (squares * (groups - 1.0) / groups).sqrt();
    Some(Interval { low: value - error, high: value + error })
}

#[cfg(test)]
mod tests;
