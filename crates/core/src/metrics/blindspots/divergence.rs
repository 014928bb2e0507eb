//! `divergence`: which generated rows are far from the real row of their prompt, and which are suspiciously near.

use serde::{Deserialize, Serialize};

use super::distance::{Distance, distances, walk};
use super::memorised::{Memory, examine};
use super::ranking::keep_first;
use super::{POSITIVE, RANKED, SHARE, TEMPERATURE, output, resampled};
use crate::context::{Reservation, Reserved};
use crate::error::Result;
use crate::metrics::{Better, Card, Kind, Metric, Param};
use crate::results::{Cells, Scores, Table, percentile_interval};
use crate::run::{CODES, EMBEDDINGS, GENERATED, Job, Lazy, State, Work};
use etalon_kernel::product::dot;
use etalon_kernel::random::{index, permutation, stream};
use etalon_kernel::statistics::{mean, median};

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
    needs: &[&CODES, &GENERATED],
    uses: &[&EMBEDDINGS],
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

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let rows = job.get(&CODES)?.rows();
        let distances = distances(job.number(TEMPERATURE.name)?, job, work)?;
        let shuffled = shuffled(job, work)?;
        let of_model = |model: usize| RowPairs {
            distances: &distances[model].0,
            shuffled: shuffled.0.get(model * rows..(model + 1) * rows).unwrap_or(&[]),
        };
        let pairs: Vec<RowPairs<'_>> = (0..distances.len()).map(of_model).collect();
        let (examined, ranked) = (job.whole(EXAMINED.name)?, job.whole(RANKED.name)?);
        let found = work.blocks("models", pairs.len(), |model| {
            let _memory = job.budget().reserve(24 * rows as u64, "an order of all rows")?;
            Ok(ModelRows {
                medians: pairs[model].medians(0..rows),
                nearest: nearest(&distances[model].0, examined),
                largest: extreme(&distances[model].0, ranked, true),
                smallest: extreme(&distances[model].0, ranked, false),
            })
        })?;
        let nearest: Vec<&[usize]> = found.iter().map(|model| &model.nearest[..]).collect();
        let memories = examine(&distances, &nearest, job, work)?;
        let replicates = resampled(16 * rows as u64, job, work, |resample| {
            let mut random = stream(job.seed, "divergence/rows", resample);
            let drawn: Vec<usize> = (0..rows).map(|_| index(rows, &mut random)).collect();
            over_models(pairs.iter().map(|pairs| pairs.medians(drawn.iter().copied())))
        })?;
        let compared = ComparedRows { rows, pairs, found: &found, memories: &memories };
        compared.scores(&replicates, job)
    }
}

/// The distances of rows to real rows of other prompts, model by model.
#[derive(Default, Serialize, Deserialize)]
struct Shuffled(Vec<f64>);

impl State for Shuffled {
    fn merge(&mut self, later: Shuffled) -> Result<()> {
        self.0.extend(later.0);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        size_of_val(&self.0[..]) as u64
    }
}

/// For every row another one: the next in a random order.
struct OtherRows {
    of_row: Vec<usize>,
    _memory: Reservation,
}

impl OtherRows {
    fn new(rows: usize, job: &Job<'_>) -> Result<OtherRows> {
        let memory = job.budget().reserve(16 * rows as u64, "a random order of the rows")?;
        let order = permutation(rows, &mut stream(job.seed, "divergence/shuffled", 0));
        let mut of_row = vec![0; rows];
        for (position, &row) in order.iter().enumerate() {
            of_row[row] = order[(position + 1) % rows];
        }
        Ok(OtherRows { of_row, _memory: memory })
    }
}

/// Rows of a block.
const ROWS: usize = 1 << 14;

/// The distance of every generated row to a real row of another prompt; nothing if there is no other.
fn shuffled(job: &Job<'_>, work: &mut Work<'_>) -> Result<Reserved<Shuffled>> {
    let (real, models) = (job.get(&CODES)?, job.all(&GENERATED));
    let rows = real.rows();
    let blocks = if rows > 1 { rows.div_ceil(ROWS) } else { 0 };
    let others = Lazy::new(|| OtherRows::new(rows, job));
    work.fold_with(
        &others,
        "blocks of shuffled rows",
        models.len() * blocks,
        Shuffled::default,
        |others, found, block| {
            let (real, made) = (real.all()?, models[block / blocks].1.codes.all()?);
            let first = block % blocks * ROWS;
            for row in first..(first + ROWS).min(rows) {
                let mut square = 0.0;
                walk(real.row(others.of_row[row]), made.row(row), |_, difference| square += difference * difference);
                found.0.push(square.sqrt());
            }
            Ok(())
        },
    )
}

/// Medians over rows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Medians {
    distance: Option<f64>,
    normalised: Option<f64>,
    sigmoid: Option<f64>,
    shuffled: Option<f64>,
}

/// All pairs of rows of a model.
#[derive(Clone, Copy)]
struct RowPairs<'a> {
    distances: &'a [Distance],
    /// The distance to a row of another prompt; empty if there is none.
    shuffled: &'a [f64],
}

impl RowPairs<'_> {
    fn medians(&self, rows: impl Iterator<Item = usize> + Clone) -> Medians {
        let of =
            |number: &dyn Fn(usize) -> Option<f64>| median(&mut rows.clone().filter_map(number).collect::<Vec<f64>>());
        Medians {
            distance: of(&|row| Some(self.distances[row].length)),
            normalised: of(&|row| self.distances[row].normalised()),
            sigmoid: of(&|row| self.distances[row].sigmoid),
            shuffled: of(&|row| self.shuffled.get(row).copied()),
        }
    }
}

/// Means over models.
fn over_models(medians: impl Iterator<Item = Medians>) -> Medians {
    let medians: Vec<Medians> = medians.collect();
    let over = |number: fn(&Medians) -> Option<f64>| mean(&medians.iter().filter_map(number).collect::<Vec<f64>>());
    Medians {
        distance: over(|one| one.distance),
        normalised: over(|one| one.normalised),
        sigmoid: over(|one| one.sigmoid),
        shuffled: over(|one| one.shuffled),
    }
}

/// What is found among all rows of a model.
#[derive(Serialize, Deserialize)]
struct ModelRows {
    medians: Medians,
    /// The rows with the smallest normalised distance, ascending by row.
    nearest: Vec<usize>,
    /// The rows with the largest distance, and with the smallest.
    largest: Vec<usize>,
    smallest: Vec<usize>,
}

/// The rows with the smallest normalised distance, ascending by row.
fn nearest(all: &[Distance], keep: usize) -> Vec<usize> {
    let mut rows: Vec<(Option<f64>, usize)> = all.iter().map(Distance::normalised).zip(0..).collect();
    keep_first(&mut rows, keep, |(a, row), (b, other)| {
        // Rows without a distance come last.
        let order = match (a, b) {
            (Some(a), Some(b)) => a.total_cmp(b),
            (a, b) => a.is_none().cmp(&b.is_none()),
        };
        order.then(row.cmp(other))
    });
    let mut rows: Vec<usize> = rows.into_iter().map(|(_, row)| row).collect();
    rows.sort_unstable();
    rows
}

/// The rows with the largest distance, the lower among equals first; or the other end of that order.
fn extreme(all: &[Distance], keep: usize, largest: bool) -> Vec<usize> {
    let mut rows: Vec<(f64, usize)> = all.iter().map(|distance| distance.length).zip(0..).collect();
    keep_first(&mut rows, keep, |a, b| {
        let order = b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if largest { order } else { order.reverse() }
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// Everything that tables are made of.
struct ComparedRows<'a> {
    rows: usize,
    /// By model.
    pairs: Vec<RowPairs<'a>>,
    found: &'a [ModelRows],
    memories: &'a [Vec<Memory>],
}

impl ComparedRows<'_> {
    fn scores(&self, replicates: &[Medians], job: &Job<'_>) -> Result<Scores> {
        let medians = over_models(self.found.iter().map(|model| model.medians));
        let mut scores = Scores::default();
        let mut headline = |key: &str, number: fn(&Medians) -> Option<f64>| {
            let replicates = replicates.iter().filter_map(number).collect();
            let interval = (self.rows > 1).then(|| percentile_interval(replicates)).flatten();
            scores.headline(key, number(&medians), interval, self.rows);
        };
        headline("divergence", |one| one.distance);
        headline("divergence_normalised", |one| one.normalised);
        headline("divergence_sigmoid", |one| one.sigmoid);
        headline("divergence_shuffled", |one| one.shuffled);
        let all: usize = self.memories.iter().map(|list| candidates(list)).sum();
        let pairs = self.rows * self.pairs.len();
        let share = (self.rows > 1).then(|| all as f64 / pairs as f64);
        scores.headline("memorised_candidates", share, None, self.rows);
        match self.rows {
            0 => scores.note("there are no rows: undefined"),
            1 => scores.note("one row has no other to be compared with: undefined"),
            _ => {}
        }
        if [medians.distance, medians.normalised, medians.sigmoid, medians.shuffled].iter().any(Option::is_none) {
            scores.note("no pair has a latent that fires: shares are undefined");
        }
        let examined = self.memories.iter().map(Vec::len).sum::<usize>();
        if examined < pairs {
            scores
                .note(format!("{examined} of {pairs} pairs, the nearest ones, were compared with all other real rows"));
        }
        scores.note("candidates are for people to look at: nothing here proves memorisation");
        scores.tables.push(self.model_table(job));
        scores.tables.push(self.pair_table());
        scores.tables.push(self.divergent_table(job)?);
        scores.tables.push(self.memorised_table(job)?);
        Ok(scores)
    }

    /// One line per model: the tables below name models by their row here.
    fn model_table(&self, job: &Job<'_>) -> Table {
        Table::new("model")
            .words("name", job.all(&GENERATED).into_iter().map(|(name, _)| name))
            .numbers("divergence", self.found.iter().map(|model| model.medians.distance))
            .counts("memorised_candidates", self.memories.iter().map(|list| candidates(list)))
    }

    /// One line per model and row.
    fn pair_table(&self) -> Table {
        let lines = || {
            self.pairs.iter().enumerate().flat_map(|(model, pairs)| {
                pairs.distances.iter().enumerate().map(move |(row, distance)| (model, row, distance))
            })
        };
        let mut ratios = vec![vec![None; self.rows]; self.pairs.len()];
        for (ratios, list) in ratios.iter_mut().zip(self.memories) {
            list.iter().for_each(|memory| ratios[memory.row] = Some(memory.ratio));
        }
        Table::new("row_model")
            .counts("model", lines().map(|line| line.0))
            .counts("row", lines().map(|line| line.1))
            .numbers("distance", lines().map(|line| Some(line.2.length)))
            .numbers("normalised", lines().map(|line| line.2.normalised()))
            .numbers("sigmoid", lines().map(|line| line.2.sigmoid))
            .numbers("memorised_ratio", ratios.into_iter().flatten())
    }

    /// The rows with the largest and the smallest distance, with what differs most.
    fn divergent_table(&self, job: &Job<'_>) -> Result<Table> {
        let (real, models) = (job.get(&CODES)?, job.all(&GENERATED));
        let (mut model_of, mut ends, mut rows, mut lengths) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (mut latents, mut differences) = (Vec::new(), Vec::new());
        for (model, found) in self.found.iter().enumerate() {
            let largest = found.largest.iter().map(|&row| ("largest", row));
            for (end, row) in largest.chain(found.smallest.iter().map(|&row| ("smallest", row))) {
                let (real, made) = (real.view(row..row + 1)?, models[model].1.codes.view(row..row + 1)?);
                let mut parts: Vec<(f64, u32)> = Vec::new();
                walk(real.row(0), made.row(0), |latent, difference| parts.push((difference, latent)));
                parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then(a.1.cmp(&b.1)));
                parts.retain(|(difference, _)| *difference != 0.0);
                parts.truncate(CONTRIBUTORS);
                model_of.push(model);
                ends.push(end);
                rows.push(row);
                lengths.push(Some(self.pairs[model].distances[row].length));
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
        let models = job.all(&GENERATED);
        let (mut lines, mut cosines): (Vec<(usize, &Memory)>, Vec<Option<f64>>) = (Vec::new(), Vec::new());
        for (model, list) in self.memories.iter().enumerate() {
            let mut mine: Vec<&Memory> = list.iter().filter(|memory| memory.candidate).collect();
            mine.sort_by(|a, b| a.ratio.total_cmp(&b.ratio).then(a.row.cmp(&b.row)));
            let stores = job.find(&EMBEDDINGS).zip(models[model].1.embeddings.as_deref());
            let stores = stores.filter(|(real, made)| real.width() == made.width());
            for memory in mine {
                lines.push((model, memory));
                let rows = memory.row..memory.row + 1;
                let cosine = match stores {
                    Some((real, made)) => cosine(&real.tile(rows.clone())?.values, &made.tile(rows)?.values),
                    None => None,
                };
                cosines.push(cosine);
            }
        }
        let others = |(_, memory): &(usize, &Memory)| memory.nearest.iter().map(|&row| i64::from(row)).collect();
        Ok(Table::new("memorised")
            .counts("model", lines.iter().map(|line| line.0))
            .counts("row", lines.iter().map(|line| line.1.row))
            .numbers("memorised_ratio", lines.iter().map(|line| Some(line.1.ratio)))
            .counts("alike", lines.iter().map(|line| line.1.alike))
            .numbers("embedding_cosine", cosines)
            .with("nearest_real_rows", Cells::WholeLists(lines.iter().map(others).collect())))
    }
}

fn candidates(memories: &[Memory]) -> usize {
    memories.iter().filter(|memory| memory.candidate).count()
}

fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    (lengths > 0.0).then(|| dot(a, b) / lengths)
}
