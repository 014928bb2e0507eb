//! CKNNA: do codes and embeddings have the same nearest neighbours?

mod alignment;
mod nearest;

use super::{Better, Card, Kind, Metric, Need, Output, Param};
use crate::budget::Taken;
use crate::codes::Codes;
use crate::error::{Complaint, Error, Result};
use crate::kernel::random::{permutation, stream};
use crate::kernel::statistics::mean;
use crate::results::{Interval, Profile, Scores};
use crate::run::{Blocks, Column, Job, Next, Tally};
use alignment::cknna;
use nearest::{Neighbours, is_dense, of_codes, of_embeddings};

/// Centred kernel nearest-neighbour alignment of codes and embeddings.
pub struct Cknna;

static CARD: Card = Card {
    name: "cknna",
    title: "CKNNA",
    summary: "How far codes and embeddings agree on which rows are neighbours, and how strongly.",
    version: 1,
    measures: "Codes that keep what the encoder knows have the same neighbours as the embeddings. Both sides get a linear \
        kernel (dot products of rows); the kernels are compared where both count one row among the nearest neighbours of \
        another. 1 is reached by a representation compared with itself; 0 is no agreement. It says nothing about \
        single latents.",
    definition: "K = Z Zᵀ of the codes and L = E Eᵀ of the embeddings, neither centred nor normalised. For kernels U, V: \
        keep the entries (i, j) where j is among the `neighbours` largest of row i in both (the row itself excluded, \
        ties to the lower row), set the others to 0, and take the unbiased dependence \
        sim(U, V) = [Σ_ij U_ij V_ji + ΣU ΣV / ((n−1)(n−2)) − 2 Σ_ij (UV)_ij / (n−2)] / (n(n−3)). \
        CKNNA = sim(K, L) / √(sim(K, K) sim(L, L)). Because neighbourhood is not symmetric, only mutual neighbours count \
        in the first term; the value is not bound to [−1, 1] on few rows. Undefined below 4 + `neighbours` rows, and \
        where a kernel has no positive similarity with itself, as with codes that are all 0.",
    cost: "Blocks of 256 rows: n² · width multiplications for the embeddings, and for the codes as many as there are pairs \
        of entries in the same column (or a dense product where that is quicker). Memory: one copy of the embeddings and \
        lists of neighbours; never n × n.",
    source: "Huh et al., \"The Platonic Representation Hypothesis\" (2024), as used with 10 neighbours in \"Evaluating the \
        Interpretability of SAEs with Concept Annotations\" (arXiv 2606.24716). Profile `reference` adds 1e-6 to the \
        denominator as the released program does, which makes its value depend on the scale of the data and gives 0 \
        instead of undefined for empty codes. The program also leaves the rows of a short last batch empty; that slip is \
        in its file handling and no profile repeats it.",
    interval: "delete-a-group jackknife: 20 seeded groups of rows are left out in turn, the neighbours are found again \
        among the rows that stay (longer lists are kept for that), and the interval is the value ± 2.093 standard errors \
        (Student's t, 19 degrees of freedom). A bootstrap would make repeated rows each other's neighbours. By the \
        inequality of Efron and Stein the jackknife's variance is too large rather than too small on average. None below \
        40 rows.",
    needs: &[Need::Codes, Need::Embeddings],
    uses: &[],
    headline: &[Output {
        key: "cknna",
        doc: "the alignment of codes and embeddings on shared nearest neighbours",
        range: (f64::NEG_INFINITY, f64::INFINITY),
        better: Better::Higher,
    }],
    params: &[
        Param {
            name: "neighbours",
            doc: "how many nearest rows count as neighbours",
            kind: Kind::Whole(1, 1000),
            several: false,
            default: "10",
            reference: None,
        },
        Param {
            name: "sample",
            doc: "compare a seeded sample of so many rows; 0 takes all",
            kind: Kind::Whole(0, u64::MAX),
            several: false,
            default: "0",
            reference: None,
        },
    ],
};

/// Rows of a block.
const BLOCK: usize = 256;

/// Groups of the jackknife, and the 97.5 % point of Student's t with one degree of freedom less.
const GROUPS: usize = 20;
const STUDENT: f64 = 2.093_024_054_408_263;

impl Metric for Cknna {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let (codes, embeddings) = (job.codes()?, job.embeddings()?);
        let (neighbours, sample, all) = (job.whole("neighbours")?, job.whole("sample")?, codes.rows());
        let rows = if sample == 0 { all } else { sample.min(all) };
        if rows < 4 + neighbours {
            let mut scores = Scores::default();
            scores.headline("cknna", None, None, rows);
            scores.note(format!("{rows} rows are too few for {neighbours} neighbours: undefined"));
            return Ok(Next::Done(scores));
        }
        if rows > u32::MAX as usize {
            return Err(Complaint::new("too many rows to compare each with each")
                .expected(format!("at most {}", u32::MAX))
                .found(rows)
                .advice("compare a sample: --sample 20000")
                .into());
        }
        let width = embeddings.width();
        // Spare neighbours, so that enough stay when a group of rows is left out.
        let keep = (neighbours + neighbours / 2 + 8).min(rows - 1);
        let per_row = 4 * width + 96 * keep + 8 * rayon::current_num_threads();
        let bytes = (rows as u64).saturating_mul(per_row as u64);
        let memory =
            job.budget.take(bytes, format!("embeddings and neighbours of {rows} rows (--sample takes fewer)"))?;
        let mut picked = None;
        let mut values = Vec::with_capacity(rows * width);
        if rows < all {
            let mut order = permutation(all, &mut stream(job.seed, "cknna/sample", 0));
            order.truncate(rows);
            order.sort_unstable();
            for &row in &order {
                values.extend_from_slice(embeddings.tile(row..row + 1)?.row(0));
            }
            picked = Some(codes.select(&order)?);
        } else {
            for first in (0..all).step_by(BLOCK) {
                values.extend_from_slice(&embeddings.tile(first..(first + BLOCK).min(all))?.values);
            }
        }
        let dense = is_dense(picked.as_ref().unwrap_or(codes))?;
        Ok(Next::Blocks(Box::new(Search { picked, values, width, rows, neighbours, keep, dense, _memory: memory })))
    }
}

/// Finds the nearest neighbours of every row in both kernels.
struct Search {
    picked: Option<Codes>,
    values: Vec<f32>,
    width: usize,
    rows: usize,
    neighbours: usize,
    keep: usize,
    dense: bool,
    _memory: Taken,
}

impl Blocks for Search {
    fn count(&self) -> usize {
        self.rows.div_ceil(BLOCK)
    }

    fn unit(&self) -> &'static str {
        "blocks of rows"
    }

    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let rows = block * BLOCK..((block + 1) * BLOCK).min(self.rows);
        let codes = self.picked.as_ref().map_or_else(|| job.codes(), Ok)?;
        let left = of_codes(codes, self.dense, rows.clone(), self.keep)?;
        let right = of_embeddings(&self.values, self.width, rows.clone(), self.keep);
        let flat = |list: &Neighbours| list.iter().flat_map(|&(row, value)| [f64::from(row), value]).collect();
        let column = |lists: &[Neighbours]| {
            Column::Lists(rows.clone().zip(lists).map(|(row, list)| (row as u64, flat(list))).collect())
        };
        Ok(Tally { columns: vec![column(&left), column(&right)] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let lists = |column: usize| -> Result<Vec<Neighbours>> {
            let lists = tally.lists(column)?;
            if lists.len() != self.rows {
                return Err(Error::Bug(format!("neighbours of {} rows out of {}", lists.len(), self.rows)));
            }
            let pairs =
                |list: &Vec<f64>| list.as_chunks::<2>().0.iter().map(|&[row, value]| (row as u32, value)).collect();
            Ok(lists.iter().map(|(_, list)| pairs(list)).collect())
        };
        let graphs = Graphs { codes: lists(0)?, embeddings: lists(1)?, neighbours: self.neighbours };
        let value = graphs.value(&|_| true, job.profile);
        let interval = value.and_then(|value| graphs.interval(value, job.profile, job.seed));
        let mut scores = Scores::default();
        scores.headline("cknna", value, interval, self.rows);
        if self.picked.is_some() {
            scores.note(format!("a sample of {} of {} rows", self.rows, job.codes()?.rows()));
        }
        if value.is_none() {
            scores.note("a kernel has no similarity with itself, as with codes that are all 0: undefined");
        }
        Ok(Next::Done(scores))
    }
}

/// The neighbours of every row in both kernels, more than count.
struct Graphs {
    codes: Vec<Neighbours>,
    embeddings: Vec<Neighbours>,
    neighbours: usize,
}

impl Graphs {
    /// The score of the rows that stay, each with its nearest neighbours among them.
    fn value(&self, stays: &dyn Fn(usize) -> bool, profile: Profile) -> Option<f64> {
        let among = |lists: &[Neighbours]| -> Vec<Neighbours> {
            let nearest = |(row, list): (usize, &Neighbours)| match stays(row) {
                true => list.iter().copied().filter(|other| stays(other.0 as usize)).take(self.neighbours).collect(),
                false => Vec::new(),
            };
            lists.iter().enumerate().map(nearest).collect()
        };
        let rows = (0..self.codes.len()).filter(|&row| stays(row)).count();
        cknna(&among(&self.codes), &among(&self.embeddings), rows, profile)
    }

    /// Leaves out one group of rows after the other.
    fn interval(&self, value: f64, profile: Profile, seed: u64) -> Option<Interval> {
        let rows = self.codes.len();
        if rows < 2 * GROUPS || rows - rows.div_ceil(GROUPS) < 4 + self.neighbours {
            return None;
        }
        let mut group = vec![0; rows];
        let order = permutation(rows, &mut stream(seed, "cknna/jackknife", 0));
        order.into_iter().enumerate().for_each(|(place, row)| group[row] = place % GROUPS);
        let without = |left_out: usize| self.value(&|row| group[row] != left_out, profile);
        let replicates = (0..GROUPS).map(without).collect::<Option<Vec<f64>>>()?;
        let centre = mean(&replicates)?;
        let squares: f64 = replicates.iter().map(|replicate| (replicate - centre).powi(2)).sum();
        let error = STUDENT * (squares * (GROUPS - 1) as f64 / GROUPS as f64).sqrt();
        Some(Interval { low: value - error, high: value + error })
    }
}

#[cfg(test)]
mod tests;
