//! `divergence`: which generated rows are far from the real row of their prompt, and which are suspiciously near.

use rayon::prelude::*;

use super::distance::{Distance, distances, walk};
use super::memorised::{Memory, NAMED, examine};
use super::{POSITIVE, RANKED, SHARE, TEMPERATURE, output};
use crate::codes::Codes;
use crate::error::{Error, Result};
use crate::kernel::product::dot;
use crate::kernel::random::{index, permutation, stream};
use crate::kernel::statistics::{mean, median};
use crate::metrics::{Better, Card, Kind, Metric, Need, Param};
use crate::results::{Cells, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Blocks, Column, Job, Next, Tally};

/// How far generated rows are from real ones, pair by pair.
pub struct Divergence;

const EXAMINED: Param = Param {
    name: "examined",
    doc: "Pairs of every model, the nearest ones, that are compared with all other real rows",
    kind: Kind::Whole(0, 10_000_000),
    several: false,
    default: "2000",
    reference: None,
};

static CARD: Card = Card {
    name: "divergence",
    title: "Divergence of pairs",
    summary: "How far every generated row is from the real row of its prompt, and which are suspiciously near.",
    version: 1,
    measures: "Large distances are prompts that were misunderstood or have many answers; the table names the concepts that \
        account for most of each. Very small ones may be memorised: the generator gives back what it was trained on. But an \
        empty or templated image is near to its counterpart as well. Therefore a row is a candidate only if it is much nearer \
        to its own real row than to the nearest other real rows, and the table says how many other prompts got nearly the same \
        row. Candidates are for people to look at; nothing here proves memorisation.",
    definition: "ξ(i), ξ'(i): codes of real and generated row i. d_i = |ξ'(i) − ξ(i)|. normalised: d_i/(|ξ(i)| + |ξ'(i)|), \
        undefined at 0/0. sigmoid: the mean of |2·sigmoid((ξ' − ξ)/T) − 1| over latents that fire in either row (the paper's mean \
        over all latents is ½ ± nothing, since nearly all differences are 0). Headlines: medians over rows, then means over \
        models. divergence_shuffled: the same for generated rows against real rows of other prompts.\n\
        memorised ratio of a row: d_i / median distance of ξ'(i) to its 50 nearest other real rows. Candidate: ratio < 0.5, and \
        |ξ(i)| above the 10 % quantile. Only the `examined` pairs with the smallest normalised distance are asked (ties to the \
        lower row). Table `memorised` gives for each candidate the 8 nearest other real rows, `alike` = other prompts whose \
        generated row is nearer to this one than half of that median, and, where embeddings are given, the cosine of both.\n\
        Table `divergent`: the `ranked` largest and smallest d_i of every model, each with the 20 latents that differ most, \
        generated less real.\n\
        Undefined without rows; ratios with fewer than two rows.\n\
        Both profiles are the same, but for T = 0.8 in `reference`.",
    cost: "One look at the rows for every model; for every examined pair the entries of its latents in all rows, and 24 bytes per \
        row and thread; 1000 resamples of rows.",
    source: "Bohacek, Fel, Agrawala and Lubana, Section 5.4, Appendix A.4, Figures 11 and 12. The paper sorts by distance and \
        looks; ratios, neighbours and the count of similar rows are not in it.",
    interval: "Percentile bootstrap over rows, 1000 resamples, the same rows for all models. None for the share of candidates.",
    needs: &[Need::Codes, Need::Models],
    uses: &[Need::Embeddings],
    headline: &[
        output("divergence", "median distance of pairs", POSITIVE, Better::Lower),
        output("divergence_normalised", "median distance as a share of both lengths", SHARE, Better::Lower),
        output("divergence_sigmoid", "median of mean |2δ − 1| over latents of a pair", SHARE, Better::Lower),
        output("divergence_shuffled", "median distance to real rows of other prompts", POSITIVE, Better::Neither),
        output("memorised_candidates", "share of pairs that are suspiciously near", SHARE, Better::Neither),
    ],
    params: &[TEMPERATURE, EXAMINED, RANKED],
};

/// Latents that are named for a pair.
const CONTRIBUTORS: usize = 20;

impl Metric for Divergence {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let (codes, models) = (job.codes()?, job.models()?.len());
        let each = 8 * (OF_PAIR as u64 * models as u64 + 3 * rayon::current_num_threads() as u64);
        let what = format!("the distances of {} pairs for {models} models", codes.rows());
        drop(job.budget.take((codes.rows() as u64).saturating_mul(each), what)?);
        let temperature = job.number(TEMPERATURE.name)?;
        Ok(Next::Blocks(Box::new(Pairing { models, temperature, examined: job.whole(EXAMINED.name)? })))
    }
}

/// One block per model.
struct Pairing {
    models: usize,
    temperature: f64,
    examined: usize,
}

/// Numbers that are kept of a pair: d, normalised, sigmoid, shuffled.
const OF_PAIR: usize = 4;
/// Numbers of an examined row: row, ratio, candidate, alike, neighbours (−1 where there are fewer).
const OF_MEMORY: usize = 4 + NAMED;

fn written(value: Option<f64>) -> f64 {
    value.unwrap_or(f64::NEG_INFINITY)
}

fn read(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The rows with the smallest normalised distance, ascending by row.
fn nearest(all: &[Distance], keep: usize) -> Vec<usize> {
    let key = |row: &usize| all[*row].normalised().unwrap_or(f64::INFINITY);
    let mut rows: Vec<usize> = (0..all.len()).collect();
    rows.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.cmp(b)));
    rows.truncate(keep);
    rows.sort_unstable();
    rows
}

/// The distance of every generated row to a real row of another prompt: the next one in a random order.
fn shuffled(real: &Codes, made: &Codes, seed: u64) -> Result<Vec<f64>> {
    let order = permutation(real.rows(), &mut stream(seed, "divergence/shuffled", 0));
    let (real, made) = (real.all()?, made.all()?);
    let mut lengths = vec![f64::NEG_INFINITY; order.len()];
    for (place, &row) in order.iter().enumerate().filter(|_| order.len() > 1) {
        let mut square = 0.0;
        let other = order[(place + 1) % order.len()];
        walk(real.row(other), made.row(row), |_, difference| square += difference * difference);
        lengths[row] = square.sqrt();
    }
    Ok(lengths)
}

impl Blocks for Pairing {
    fn count(&self) -> usize {
        self.models
    }

    fn unit(&self) -> &'static str {
        "models"
    }

    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let model = job.models()?.get(block).ok_or_else(|| Error::Bug(format!("there is no model {block}")))?;
        let (real, made) = (job.codes()?, model.codes.as_ref());
        let all = distances(real, made, self.temperature)?;
        let others = shuffled(real, made, job.seed)?;
        let pair =
            |(one, &other): (&Distance, &f64)| [one.length, written(one.normalised()), written(one.sigmoid), other];
        let pairs = all.iter().zip(&others).flat_map(pair).collect();
        let memories = examine(real, made, &all, &nearest(&all, self.examined))?;
        let memory = |memory: &Memory| {
            let mut list = vec![memory.row as f64, memory.ratio];
            list.extend([f64::from(u8::from(memory.candidate)), memory.alike as f64]);
            list.extend((0..NAMED).map(|place| memory.nearest.get(place).map_or(-1.0, |&row| f64::from(row))));
            list
        };
        let memories = memories.iter().flat_map(memory).collect();
        let key = block as u64;
        Ok(Tally { columns: vec![Column::Lists(vec![(key, pairs)]), Column::Lists(vec![(key, memories)])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let pairs = tally.lists(0)?.iter().map(|(_, list)| list.clone()).collect();
        let memories = tally.lists(1)?.iter().map(|(_, list)| list.clone()).collect();
        let rows = job.codes()?.rows();
        Ok(Next::Blocks(Box::new(Medians { pairs, memories, rows, seed: job.seed })))
    }
}

/// Medians and their resamples, in blocks of a few.
struct Medians {
    /// By model, the numbers of every pair.
    pairs: Vec<Vec<f64>>,
    /// By model, the numbers of every examined row.
    memories: Vec<Vec<f64>>,
    rows: usize,
    seed: u64,
}

const RESAMPLES_PER_BLOCK: usize = 50;

impl Medians {
    /// The median of each number over the rows given, mean over models.
    fn medians(&self, rows: &[usize]) -> [Option<f64>; OF_PAIR] {
        std::array::from_fn(|number| {
            let of_model = |pairs: &Vec<f64>| {
                let mut values: Vec<f64> = rows.iter().filter_map(|row| read(pairs[row * OF_PAIR + number])).collect();
                median(&mut values)
            };
            let medians: Vec<f64> = self.pairs.iter().filter_map(of_model).collect();
            mean(&medians)
        })
    }
}

impl Blocks for Medians {
    fn count(&self) -> usize {
        RESAMPLES.div_ceil(RESAMPLES_PER_BLOCK)
    }

    fn unit(&self) -> &'static str {
        "blocks of resamples"
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let resamples = block * RESAMPLES_PER_BLOCK..((block + 1) * RESAMPLES_PER_BLOCK).min(RESAMPLES);
        let one = |resample: usize| {
            let mut random = stream(self.seed, "divergence/rows", resample as u64);
            let rows: Vec<usize> = (0..self.rows).map(|_| index(self.rows, &mut random)).collect();
            self.medians(&rows).map(written)
        };
        let list: Vec<[f64; OF_PAIR]> = resamples.into_par_iter().map(one).collect();
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, list.concat())])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let medians = self.medians(&(0..self.rows).collect::<Vec<_>>());
        let lists = tally.lists(0)?;
        let interval = |number: usize| {
            let replicates = lists.iter().flat_map(|(_, list)| list.chunks_exact(OF_PAIR).map(|one| one[number]));
            (self.rows > 1).then(|| percentile_interval(replicates.collect())).flatten()
        };
        let mut scores = Scores::default();
        let keys = ["divergence", "divergence_normalised", "divergence_sigmoid", "divergence_shuffled"];
        for (number, key) in keys.into_iter().enumerate() {
            scores.headline(key, medians[number], interval(number), self.rows);
        }
        let candidates = |list: &Vec<f64>| list.chunks_exact(OF_MEMORY).filter(|memory| memory[2] == 1.0).count();
        let all: usize = self.memories.iter().map(candidates).sum();
        let share = (self.rows > 1).then(|| all as f64 / (self.rows * self.pairs.len()) as f64);
        scores.headline("memorised_candidates", share, None, self.rows);
        match self.rows {
            0 => scores.note("there are no rows: undefined"),
            1 => scores.note("one row has no other to be compared with: undefined"),
            _ => {}
        }
        if medians.iter().any(Option::is_none) {
            scores.note("no pair has a latent that fires: shares are undefined");
        }
        let examined = self.memories.iter().map(|list| list.len() / OF_MEMORY).sum::<usize>();
        if examined < self.rows * self.pairs.len() {
            scores.note(format!(
                "{examined} of {} pairs, the nearest ones, were compared with all other real rows",
                self.rows * self.pairs.len()
            ));
        }
        scores.note("candidates are for people to look at: nothing here proves memorisation");
        scores.tables.push(self.model_table(job)?);
        scores.tables.push(self.pair_table());
        scores.tables.push(self.divergent_table(job)?);
        scores.tables.push(self.memorised_table(job)?);
        Ok(Next::Done(scores))
    }
}

impl Medians {
    /// One line per model: the tables below name models by their row here.
    fn model_table(&self, job: &Job<'_>) -> Result<Table> {
        let middle = |pairs: &Vec<f64>| {
            median(&mut pairs.chunks_exact(OF_PAIR).filter_map(|pair| read(pair[0])).collect::<Vec<f64>>())
        };
        let candidates = |list: &Vec<f64>| list.chunks_exact(OF_MEMORY).filter(|memory| memory[2] == 1.0).count();
        Ok(Table::new("model")
            .words("name", job.models()?.iter().map(|model| model.name.as_str()))
            .numbers("divergence", self.pairs.iter().map(middle))
            .counts("memorised_candidates", self.memories.iter().map(candidates)))
    }

    /// One line per model and row.
    fn pair_table(&self) -> Table {
        let lines = || {
            self.pairs.iter().enumerate().flat_map(|(model, pairs)| {
                pairs.chunks_exact(OF_PAIR).enumerate().map(move |(row, numbers)| (model, row, numbers))
            })
        };
        let mut ratios = vec![vec![None; self.rows]; self.pairs.len()];
        for (ratios, list) in ratios.iter_mut().zip(&self.memories) {
            list.chunks_exact(OF_MEMORY).for_each(|memory| ratios[memory[0] as usize] = Some(memory[1]));
        }
        Table::new("row_model")
            .counts("model", lines().map(|line| line.0))
            .counts("row", lines().map(|line| line.1))
            .numbers("distance", lines().map(|line| read(line.2[0])))
            .numbers("normalised", lines().map(|line| read(line.2[1])))
            .numbers("sigmoid", lines().map(|line| read(line.2[2])))
            .numbers("memorised_ratio", ratios.into_iter().flatten())
    }

    /// The rows with the largest and the smallest distance, with what differs most.
    fn divergent_table(&self, job: &Job<'_>) -> Result<Table> {
        let keep = job.whole(RANKED.name)?;
        let (real, models) = (job.codes()?.all()?, job.models()?);
        let (mut model_of, mut ends, mut rows, mut lengths) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut latents, mut differences) = (Vec::new(), Vec::new());
        for (model, pairs) in self.pairs.iter().enumerate() {
            let made = models[model].codes.all()?;
            let mut order: Vec<(f64, usize)> = pairs.chunks_exact(OF_PAIR).map(|pair| pair[0]).zip(0..).collect();
            order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
            let smallest = order.iter().rev().take(keep).map(|entry| ("smallest", entry));
            for (end, &(length, row)) in order.iter().take(keep).map(|entry| ("largest", entry)).chain(smallest) {
                let mut parts: Vec<(f64, u32)> = Vec::new();
                walk(real.row(row), made.row(row), |latent, difference| parts.push((difference, latent)));
                parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then(a.1.cmp(&b.1)));
                parts.retain(|(difference, _)| *difference != 0.0);
                parts.truncate(CONTRIBUTORS);
                model_of.push(model);
                ends.push(end);
                rows.push(row);
                lengths.push(Some(length));
                latents.push(parts.iter().map(|part| i64::from(part.1)).collect());
                differences.push(parts.iter().map(|part| Some(part.0)).collect());
            }
        }
        Ok(Table::new("divergent")
            .counts("model", model_of)
            .words("end", ends)
            .counts("row", rows)
            .numbers("distance", lengths)
            .with("latents", Cells::WholeLists(latents))
            .with("differences", Cells::NumberLists(differences)))
    }

    /// The candidates, nearest first.
    fn memorised_table(&self, job: &Job<'_>) -> Result<Table> {
        let mut lines: Vec<(usize, &[f64])> = Vec::new();
        for (model, list) in self.memories.iter().enumerate() {
            let mut mine: Vec<&[f64]> = list.chunks_exact(OF_MEMORY).filter(|memory| memory[2] == 1.0).collect();
            mine.sort_by(|a, b| a[1].total_cmp(&b[1]).then(a[0].total_cmp(&b[0])));
            lines.extend(mine.into_iter().map(|memory| (model, memory)));
        }
        let mut cosines = Vec::new();
        for (model, memory) in &lines {
            let stores = job.inputs.embeddings.as_deref().zip(job.models()?[*model].embeddings.as_deref());
            let Some((real, made)) = stores.filter(|(real, made)| real.width() == made.width()) else {
                cosines.push(None);
                continue;
            };
            let row = memory[0] as usize;
            let (real, made) = (real.tile(row..row + 1)?, made.tile(row..row + 1)?);
            let lengths = (dot(&real.values, &real.values) * dot(&made.values, &made.values)).sqrt();
            cosines.push((lengths > 0.0).then(|| dot(&real.values, &made.values) / lengths));
        }
        let others = |(_, memory): &(usize, &[f64])| -> Vec<i64> {
            memory[4..].iter().filter(|row| **row >= 0.0).map(|row| *row as i64).collect()
        };
        Ok(Table::new("memorised")
            .counts("model", lines.iter().map(|line| line.0))
            .counts("row", lines.iter().map(|line| line.1[0] as usize))
            .numbers("memorised_ratio", lines.iter().map(|line| Some(line.1[1])))
            .counts("alike", lines.iter().map(|line| line.1[3] as usize))
            .numbers("embedding_cosine", cosines)
            .with("nearest_real_rows", Cells::WholeLists(lines.iter().map(others).collect())))
    }
}
