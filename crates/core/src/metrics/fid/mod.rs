//! FID: the Fréchet distance between real and generated rows, on features, on reconstructions and on codes.

mod card;
mod frechet;
mod space;
#[cfg(test)]
mod tests;

use super::{Card, Metric};
use crate::error::{Complaint, Error, Result};
use crate::kernel::eigen::values;
use crate::kernel::product::rows_by_rows;
use crate::kernel::random::{permutation, stream};
use crate::kernel::statistics::mean;
use crate::results::{Interval, Scores, Table};
use crate::run::{Blocks, Column, Job, Next, Tally};
use crate::sae::Dictionary;
use card::{CARD, SPACES};
use frechet::{GROUPS, Part};
use space::Space;

/// The Fréchet distance in three spaces.
pub struct Fid;

/// The 97.5 % point of Student's t with 9 degrees of freedom.
const STUDENT: f64 = 2.262_157_162_740_992;

/// What is computed for every model: all rows, two ways to take halves, and all rows without each group.
const PER_MODEL: usize = 3 + GROUPS;

impl Metric for Fid {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let rows = job.codes()?.rows();
        let mut groups = vec![0u8; rows];
        for (place, row) in permutation(rows, &mut stream(job.seed, "fid/groups", 0)).into_iter().enumerate() {
            groups[row] = (place % GROUPS) as u8;
        }
        let mut notes = Vec::new();
        let mut spaces = Vec::new();
        for name in SPACES {
            spaces.push(Space::new(name, &groups, job, &mut notes)?);
        }
        let models = job.models()?.iter().map(|model| model.name.clone()).collect();
        Ok(Next::Blocks(Box::new(Distances { models, rows, spaces, notes, decoder: singular_values(job)? })))
    }
}

struct Distances {
    models: Vec<String>,
    rows: usize,
    spaces: Vec<Option<Space>>,
    notes: Vec<String>,
    /// The smallest and the largest singular value of the decoder.
    decoder: Option<(f64, f64)>,
}

impl Distances {
    /// Blocks of one space: the real halves, then the models.
    fn per_space(&self) -> usize {
        1 + PER_MODEL * self.models.len()
    }
}

impl Blocks for Distances {
    fn count(&self) -> usize {
        SPACES.len() * self.per_space()
    }

    fn unit(&self) -> &'static str {
        "distances"
    }

    fn run(&self, block: usize, _: &Job<'_>) -> Result<Tally> {
        let (space, at) = (block / self.per_space(), block % self.per_space());
        let distance = match self.spaces.get(space).and_then(Option::as_ref) {
            None => None,
            Some(space) if at == 0 => space.distance(Part::Half(false), None, Part::Half(true))?,
            Some(space) => {
                let (model, what) = ((at - 1) / PER_MODEL, (at - 1) % PER_MODEL);
                let (mine, theirs) = match what {
                    0 => (Part::All, Part::All),
                    1 => (Part::Half(false), Part::Half(true)),
                    2 => (Part::Half(true), Part::Half(false)),
                    group => (Part::Without(group - 3), Part::Without(group - 3)),
                };
                space.distance(mine, Some(model), theirs)?
            }
        };
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, distance.into_iter().collect())])] })
    }

    fn finish(&self, tally: Tally, _: &Job<'_>) -> Result<Next> {
        let lists = tally.lists(0)?;
        let found = |block: usize| lists.get(block).and_then(|list| list.1.first().copied());
        let mut scores = Scores::default();
        self.notes.iter().for_each(|note| scores.note(note));
        let (mut names, mut cells) = (Vec::new(), Vec::new());
        for (place, space) in SPACES.into_iter().enumerate() {
            let first = place * self.per_space();
            let n = self.spaces[place].as_ref().map_or(0, |space| space.rows().min(self.rows));
            let of_models: Vec<Estimate> = (0..self.models.len())
                .map(|model| Estimate::new(&|at| found(first + 1 + model * PER_MODEL + at)))
                .collect();
            let over = |pick: &dyn Fn(&Estimate) -> Option<f64>| {
                let defined: Vec<f64> = of_models.iter().filter_map(pick).collect();
                if defined.len() == of_models.len() { mean(&defined) } else { None }
            };
            // Groups are the same rows in every model: the jackknife is that of the mean over models.
            let without: Option<Vec<f64>> = (0..GROUPS).map(|group| over(&|model| model.without[group])).collect();
            let value = over(&|model| model.whole);
            let spread = value.zip(without).filter(|_| n >= 2 * GROUPS).map(|(value, list)| jackknife(value, &list));
            let interval = |centre: Option<f64>| {
                let error = STUDENT * spread.as_ref()?.1;
                centre.map(|centre| Interval { low: centre - error, high: centre + error })
            };
            let corrected = spread.as_ref().map(|found| found.0);
            let floored = interval(value).map(|i| Interval { low: i.low.max(0.0), high: i.high });
            scores.headline(&format!("fid_{space}"), value, floored, n);
            scores.headline(&format!("fid_{space}_corrected"), corrected, interval(corrected), n);
            scores.headline(&format!("fid_{space}_half"), over(&|model| model.half), None, n / 2);
            scores.headline(&format!("fid_{space}_floor"), found(first), None, n / 2);
            if self.spaces[place].is_some() && [value, corrected, found(first)].iter().any(Option::is_none) {
                scores.note(format!("{n} rows are too few for all numbers on {space}: undefined"));
            }
            for (model, estimate) in self.models.iter().zip(&of_models) {
                names.push((space, model.clone()));
                let corrected = estimate.whole.zip(estimate.without.iter().copied().collect::<Option<Vec<f64>>>());
                let corrected = corrected.filter(|_| n >= 2 * GROUPS).map(|(value, list)| jackknife(value, &list).0);
                cells.push([estimate.whole, corrected, estimate.half, found(first)]);
            }
        }
        let column = |at: usize| cells.iter().map(move |cells| cells[at]).collect::<Vec<_>>();
        let mut table = Table::new("model")
            .words("space", names.iter().map(|name| name.0))
            .words("model", names.iter().map(|name| name.1.clone()));
        for (at, name) in ["fid", "corrected", "half", "floor"].into_iter().enumerate() {
            table = table.numbers(name, column(at));
        }
        scores.tables.push(table);
        if let Some((least, most)) = self.decoder {
            scores.tables.push(
                Table::new("decoder")
                    .numbers("smallest singular value", [Some(least)])
                    .numbers("largest singular value", [Some(most)]),
            );
        }
        Ok(Next::Done(scores))
    }
}

/// What was found for one model in one space.
struct Estimate {
    whole: Option<f64>,
    half: Option<f64>,
    without: [Option<f64>; GROUPS],
}

impl Estimate {
    fn new(found: &dyn Fn(usize) -> Option<f64>) -> Estimate {
        Estimate {
            whole: found(0),
            half: found(1).zip(found(2)).map(|(a, b)| 0.5 * (a + b)),
            without: std::array::from_fn(|group| found(3 + group)),
        }
    }
}

/// The value without its bias to first order, and its standard error.
fn jackknife(value: f64, without: &[f64]) -> (f64, f64) {
    let groups = without.len() as f64;
    let centre = without.iter().sum::<f64>() / groups;
    let squares = without.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
    (groups * value - (groups - 1.0) * centre, (squares * (groups - 1.0) / groups).sqrt())
}

/// The smallest of the singular values of the decoder that are not 0, and the largest.
fn singular_values(job: &Job<'_>) -> Result<Option<(f64, f64)>> {
    let Some(dictionary) = job.inputs.dictionary.as_deref() else { return Ok(None) };
    let (width, latents) = (dictionary.card().width, dictionary.card().latents);
    let (rows, size) = (dictionary.directions(), width.min(latents));
    if size == 0 {
        return Ok(None);
    }
    let bytes = (size as u64 * size as u64 + 2 * rows.len() as u64).saturating_mul(8);
    let _memory = job.budget.take(bytes, "the singular values of the decoder")?;
    let lines: Vec<f64> = if latents <= width {
        rows.iter().map(|&value| f64::from(value)).collect()
    } else {
        (0..rows.len()).map(|at| f64::from(rows[at % latents * width + at / latents])).collect()
    };
    let mut gram = vec![0.0; size * size];
    rows_by_rows(&lines, &lines, width.max(latents), &mut gram);
    let squares = values(gram, size).ok_or_else(|| Error::Bug("singular values do not settle".into()))?;
    let most = squares[0].max(0.0);
    let least = squares.iter().rev().copied().find(|&square| square > 1e-12 * most).unwrap_or(0.0);
    Ok(Some((least.sqrt(), most.sqrt())))
}

/// Real and generated rows must be of one width.
fn check_widths(real: usize, model: &str, theirs: usize) -> Result<()> {
    if real == theirs {
        return Ok(());
    }
    Err(Complaint::new(format!("the embeddings of `{model}` have another width"))
        .expected(format!("{real} values per row"))
        .found(format!("{theirs} values per row"))
        .advice("embed real and generated images with the same encoder")
        .into())
}
