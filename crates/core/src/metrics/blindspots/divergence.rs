//! `divergence`: which generated rows are far from the real row of their prompt, and which are suspiciously near.

use serde::{Deserialize, Serialize};

use super::bootstrap::{interval_of_defined, mean_of_defined, resampled};
use super::distance::{Distance, distances, each_difference};
use super::memorised::{Memory, examine};
use super::params::{POSITIVE, RANKED, SHARE, TEMPERATURE};
use super::ranking::keep_first;
use super::shuffled::shuffled;
use crate::error::Result;
use crate::metrics::{Better, Card, Kind, Metric, Output, Param};
use crate::results::{Cells, Scores, Table};
use crate::run::{CODES, EMBEDDINGS, GENERATED, Job, Work};
use etalon_kernel::product::dot;
use etalon_kernel::statistics::median;

/// How far generated rows are from real ones, pair by pair.
pub struct Divergence;

const EXAMINED: Param = Param::new(
    "examined",
    "Number of nearest pairs of every model to compare with all other real rows.",
    Kind::Whole(0, 10_000_000),
    "2000",
);

static CARD: Card = Card {
    name: "divergence",
    title: "Divergence of pairs",
    summary: "How far every generated row is from the real row of its prompt, and which are suspiciously near.",
    version: 3,
    measures: "Large distances are prompts that were misunderstood or have many valid images; the table lists the concepts that \
        account for most of each distance. Very small distances may be memorised training images. But an empty or templated \
        image is near to its counterpart as well. Therefore a row is a candidate only if it is much nearer to its own real row \
        than to the nearest other real rows, and the table counts the other prompts with nearly the same generated row. Check \
        candidates visually: they do not prove memorisation.",
    definition: "ξ(i), ξ'(i): codes of real and generated row i. d_i = |ξ'(i) − ξ(i)|. normalised: d_i/(|ξ(i)| + |ξ'(i)|), \
        undefined at 0/0. sigmoid: mean of |2·sigmoid((ξ' − ξ)/T) − 1| over latents that fire in either row (the paper's mean \
        over all latents is always close to ½, since nearly all differences are 0). Headlines: medians over rows, then means \
        over models. divergence_shuffled: the same for generated rows against real rows of other prompts.\n\
        memorised ratio of a row: d_i / median distance of ξ'(i) to its 50 nearest other real rows. Candidate: ratio < 0.5, and \
        |ξ(i)| above the 10 % quantile. Only the `examined` pairs with the smallest normalised distance are examined (ties: \
        lower row first). Table `memorised` has for each candidate the 8 nearest other real rows, `alike` = number of other \
        prompts whose generated row is nearer to this one than half of that median, and, with embeddings, their cosine.\n\
        Table `divergent`: the `ranked` largest and smallest d_i of every model, each with the 20 latents that differ most, \
        generated minus real.\n\
        Undefined without rows; ratios also below two rows.\n\
        Both profiles are the same, except for T = 0.8 in `reference`.",
    cost: "One pass; for every examined pair the entries of its latents in all rows, and 24 bytes per row and thread; 1000 \
        resamples of rows.",
    source: "Bohacek, Fel, Agrawala and Lubana, Section 5.4, Appendix A.4, Figures 11 and 12. The paper sorts by distance and \
        inspects images; ratios, neighbours and the count of similar rows are not in it.",
    interval: "Percentile bootstrap over rows, 1000 resamples, the same rows for all models. None for `divergence_shuffled`: every \
        row is in two of its pairs, and in simulations with 600 and 2,000 rows the intervals of pairs drawn in chains, in which \
        each pair shares a row with the next, contained the expected value in 90 % of data sets only. None for the share of \
        candidates. Differences between dictionaries on the same rows are paired by draw.",
    needs: &[&CODES, &GENERATED],
    uses: &[&EMBEDDINGS],
    headline: &[
        Output::new("divergence", "Median distance of pairs.", POSITIVE, Better::Lower),
        Output::new("divergence_normalised", "Median distance as a share of both lengths.", SHARE, Better::Lower),
        Output::new(
            "divergence_sigmoid",
            "Median of the mean of |2δ − 1| over latents of a pair.",
            SHARE,
            Better::Lower,
        ),
        Output::new("divergence_shuffled", "Median distance to real rows of other prompts.", POSITIVE, Better::Neither),
        Output::new("memorised_candidates", "Share of pairs that are suspiciously near.", SHARE, Better::Neither),
    ],
    params: &[TEMPERATURE, EXAMINED, RANKED],
};

/// Latents that are listed for a pair.
const LISTED: usize = 20;

/// The medians over rows that are headlines with an interval.
const MEDIANS: [&str; 3] = ["divergence", "divergence_normalised", "divergence_sigmoid"];

/// In the order of [`MEDIANS`].
type Medians = [Option<f64>; 3];

impl Metric for Divergence {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let rows = job.get(&CODES)?.rows();
        let distances = distances(job.number(TEMPERATURE.name)?, job, work)?;
        let shuffled = shuffled(job, work)?;
        let (examined, ranked) = (job.whole(EXAMINED.name)?, job.whole(RANKED.name)?);
        let found = work.blocks("models", distances.len(), |model| {
            let _memory = job.budget().reserve(24 * rows as u64, "an order of all rows")?;
            let all: Vec<usize> = (0..rows).collect();
            // Empty if there are no other prompts.
            let shuffled = shuffled.0.get(model * rows..(model + 1) * rows).unwrap_or(&[]);
            Ok(ModelRows {
                medians: medians(&distances[model].0, &all),
                shuffled: median(&mut shuffled.to_vec()),
                nearest: nearest(&distances[model].0, examined),
                largest: extreme(&distances[model].0, ranked, true),
                smallest: extreme(&distances[model].0, ranked, false),
            })
        })?;
        let nearest: Vec<&[usize]> = found.iter().map(|model| &model.nearest[..]).collect();
        let memories = examine(&distances, &nearest, job, work)?;
        let replicates = resampled(job, work, ("divergence/rows", rows, 24), |drawn| {
            over_models(distances.iter().map(|list| medians(&list.0, drawn)))
        })?;
        let distances: Vec<&[Distance]> = distances.iter().map(|list| &list.0[..]).collect();
        Report { rows, distances, found: &found, memories: &memories }.scores(&replicates, job)
    }
}

/// Medians over some rows of a model.
fn medians(distances: &[Distance], rows: &[usize]) -> Medians {
    let over = |number: &dyn Fn(&Distance) -> Option<f64>| {
        median(&mut rows.iter().filter_map(|&row| number(&distances[row])).collect::<Vec<f64>>())
    };
    [over(&|distance| Some(distance.length)), over(&Distance::normalised), over(&|distance| distance.sigmoid)]
}

fn over_models(medians: impl Iterator<Item = Medians>) -> Medians {
    let medians: Vec<Medians> = medians.collect();
    std::array::from_fn(|number| mean_of_defined(medians.iter().map(|model| model[number])))
}

/// Medians and notable rows of a model.
#[derive(Serialize, Deserialize)]
struct ModelRows {
    medians: Medians,
    /// The median distance to real rows of other prompts.
    shuffled: Option<f64>,
    /// The rows with the smallest normalised distance, ascending by row.
    nearest: Vec<usize>,
    /// The rows with the largest distance, and with the smallest.
    largest: Vec<usize>,
    smallest: Vec<usize>,
}

/// The rows with the smallest normalised distance, ascending by row.
fn nearest(distances: &[Distance], keep: usize) -> Vec<usize> {
    let mut rows: Vec<(Option<f64>, usize)> = distances.iter().map(Distance::normalised).zip(0..).collect();
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
fn extreme(distances: &[Distance], keep: usize, largest: bool) -> Vec<usize> {
    let mut rows: Vec<(f64, usize)> = distances.iter().map(|distance| distance.length).zip(0..).collect();
    keep_first(&mut rows, keep, |a, b| {
        let order = b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if largest { order } else { order.reverse() }
    });
    rows.into_iter().map(|(_, row)| row).collect()
}

/// The data of headlines and tables, by model.
struct Report<'a> {
    rows: usize,
    distances: Vec<&'a [Distance]>,
    found: &'a [ModelRows],
    memories: &'a [Vec<Memory>],
}

impl Report<'_> {
    fn scores(&self, replicates: &[Medians], job: &Job<'_>) -> Result<Scores> {
        let medians = over_models(self.found.iter().map(|model| model.medians));
        let mut scores = Scores::default();
        for (number, key) in MEDIANS.iter().enumerate() {
            let replicates = replicates.iter().map(|medians| medians[number]);
            let interval = (self.rows > 1).then(|| interval_of_defined(replicates)).flatten();
            scores.headline(key, medians[number], interval, self.rows);
        }
        let shuffled = mean_of_defined(self.found.iter().map(|model| model.shuffled));
        scores.headline("divergence_shuffled", shuffled, None, self.rows);
        if self.rows > 1 {
            let draws = |number: usize| replicates.iter().map(move |medians| medians[number]).collect();
            scores.put_replicates(MEDIANS.iter().enumerate().map(|(number, key)| (key.to_string(), draws(number))));
        }
        let all: usize = self.memories.iter().map(|list| candidates(list).count()).sum();
        let pairs = self.rows * self.distances.len();
        let share = (self.rows > 1).then(|| all as f64 / pairs as f64);
        scores.headline("memorised_candidates", share, None, self.rows);
        match self.rows {
            0 => scores.note("there are no rows: undefined"),
            1 => scores.note("a single row cannot be compared with others: undefined"),
            _ => {}
        }
        if medians.iter().chain([&shuffled]).any(Option::is_none) {
            scores.note("no pair has a latent that fires: shares are undefined");
        }
        let examined = self.memories.iter().map(Vec::len).sum::<usize>();
        if examined < pairs {
            scores.note(format!("the {examined} nearest of {pairs} pairs were compared with all other real rows"));
        }
        scores.note("candidates do not prove memorisation: inspect them");
        // The other tables refer to models by their row in this one.
        scores.tables.push(
            Table::new("model")
                .words("name", job.all(&GENERATED).into_iter().map(|(name, _)| name))
                .numbers("divergence", self.found.iter().map(|model| model.medians[0]))
                .counts("memorised_candidates", self.memories.iter().map(|list| candidates(list).count())),
        );
        scores.tables.extend([self.pair_table(), self.divergent_table(job)?, self.memorised_table(job)?]);
        Ok(scores)
    }

    /// One line per model and row.
    fn pair_table(&self) -> Table {
        let mut ratios = vec![vec![None; self.rows]; self.distances.len()];
        for (ratios, list) in ratios.iter_mut().zip(self.memories) {
            list.iter().for_each(|memory| ratios[memory.row] = Some(memory.ratio));
        }
        let models = 0..self.distances.len();
        let distances = || self.distances.iter().copied().flatten();
        Table::new("row_model")
            .counts("model", models.clone().flat_map(|model| std::iter::repeat_n(model, self.rows)))
            .counts("row", models.flat_map(|_| 0..self.rows))
            .numbers("distance", distances().map(|distance| Some(distance.length)))
            .numbers("normalised", distances().map(Distance::normalised))
            .numbers("sigmoid", distances().map(|distance| distance.sigmoid))
            .numbers("memorised_ratio", ratios.into_iter().flatten())
    }

    /// The rows with the largest and the smallest distance, with the latents that differ most.
    fn divergent_table(&self, job: &Job<'_>) -> Result<Table> {
        let (real, models) = (job.get(&CODES)?, job.all(&GENERATED));
        let mut lines: Vec<(usize, &str, usize)> = Vec::new();
        let (mut latents, mut differences) = (Vec::new(), Vec::new());
        for (model, found) in self.found.iter().enumerate() {
            lines.extend(found.largest.iter().map(|&row| (model, "largest", row)));
            lines.extend(found.smallest.iter().map(|&row| (model, "smallest", row)));
        }
        for &(model, _, row) in &lines {
            let (real, made) = (real.view(row..row + 1)?, models[model].1.codes.view(row..row + 1)?);
            let mut parts: Vec<(f64, u32)> = Vec::new();
            each_difference(real.row(0), made.row(0), |latent, difference| parts.push((difference, latent)));
            parts.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()).then(a.1.cmp(&b.1)));
            parts.retain(|(difference, _)| *difference != 0.0);
            parts.truncate(LISTED);
            latents.push(parts.iter().map(|part| i64::from(part.1)).collect());
            differences.push(parts.iter().map(|part| Some(part.0)).collect());
        }
        Ok(Table::new("divergent")
            .counts("model", lines.iter().map(|line| line.0))
            .words("end", lines.iter().map(|line| line.1))
            .counts("row", lines.iter().map(|line| line.2))
            .numbers("distance", lines.iter().map(|line| Some(self.distances[line.0][line.2].length)))
            .with("latents", Cells::WholeLists(latents))
            .with("differences", Cells::NumberLists(differences)))
    }

    /// The candidates, nearest first.
    fn memorised_table(&self, job: &Job<'_>) -> Result<Table> {
        let models = job.all(&GENERATED);
        let (mut lines, mut cosines): (Vec<(usize, &Memory)>, Vec<Option<f64>>) = (Vec::new(), Vec::new());
        for (model, list) in self.memories.iter().enumerate() {
            let mut sorted: Vec<&Memory> = candidates(list).collect();
            sorted.sort_by(|a, b| a.ratio.total_cmp(&b.ratio).then(a.row.cmp(&b.row)));
            let stores = job.find(&EMBEDDINGS).zip(models[model].1.embeddings.as_deref());
            let stores = stores.filter(|(real, made)| real.width() == made.width());
            for memory in sorted {
                let rows = memory.row..memory.row + 1;
                cosines.push(match stores {
                    Some((real, made)) => cosine(&real.tile(rows.clone())?.values, &made.tile(rows)?.values),
                    None => None,
                });
                lines.push((model, memory));
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

fn candidates(memories: &[Memory]) -> impl Iterator<Item = &Memory> {
    memories.iter().filter(|memory| memory.candidate)
}

fn cosine(a: &[f32], b: &[f32]) -> Option<f64> {
    let lengths = (dot(a, a) * dot(b, b)).sqrt();
    (lengths > 0.0).then(|| dot(a, b) / lengths)
}
