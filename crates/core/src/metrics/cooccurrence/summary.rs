//! From counts and spectra to scores.

use super::Sets;
use super::counts::{At, Comparison, GROUPS, THRESHOLDS, threshold};
use super::lines::column_of_model;
use super::numbers::PER_SET;
use super::spectrum::Spectrum;
use crate::error::{Error, Result};
use crate::kernel::eigen::symmetric;
use crate::kernel::product::rows_by_rows;
use crate::kernel::statistics::mean;
use crate::results::{Cells, Interval, Scores, Table};
use crate::run::{Job, Tally};

/// The 97.5 % point of Student's t with 19 degrees of freedom.
const STUDENT: f64 = 2.093_024_054_408_263;

/// Eigenvalues below this share of the largest are rounding.
const ROUNDING: f64 = 1e-10;

/// The line through a spectrum begins at this rank, if it is long enough.
const FIRST_RANK: usize = 10;

pub(super) fn scores(
    sets: &Sets,
    lines: &Tally,
    spectra: &[Spectrum],
    (top, place): (usize, usize),
    job: &Job<'_>,
) -> Result<Scores> {
    let counts = |column: usize| match lines.columns.get(column) {
        Some(_) => lines.counts(column).map(Comparison::of),
        None => Ok(Comparison::new()),
    };
    let models = sets.models.len();
    let null = counts(0)?;
    let mut whole = Vec::new();
    let mut halves = Vec::new();
    for model in 0..models {
        whole.push(counts(column_of_model(model))?);
        halves.push(counts(column_of_model(model) + 1)?);
    }
    let mut scores = Scores::default();
    let unique = |at: At| share(at.only_b, at.in_b);
    let missing = |at: At| share(at.only_a, at.in_a);
    let over_models = |list: &[Comparison], what: &dyn Fn(At) -> Option<f64>| {
        mean(&list.iter().filter_map(|counts| what(counts.at(place))).collect::<Vec<_>>())
    };
    for (name, what, side) in
        [("unique", &unique as &dyn Fn(At) -> Option<f64>, 0), ("missing", &missing as &dyn Fn(At) -> Option<f64>, 2)]
    {
        let value = over_models(&whole, what);
        let n = whole.first().map_or(0, |counts| if side == 0 { counts.at(place).in_b } else { counts.at(place).in_a });
        let interval = value.and_then(|value| jackknife(lines, models, side, value, sets.groups.len()));
        scores.headline(&format!("{name}_share"), value, interval, n as usize);
        let half = over_models(&halves, what);
        let half_n = |at: At| if side == 0 { at.in_b } else { at.in_a } as usize;
        scores.headline(&format!("{name}_share_half"), half, None, halves.first().map_or(0, |c| half_n(c.at(place))));
        scores.headline(&format!("{name}_share_null"), what(null.at(place)), None, half_n(null.at(place)));
    }
    if scores.headline.iter().any(|headline| headline.value.is_none()) {
        scores.note("no two latents co-occur above the threshold in one of the sets: its shares are undefined");
    }
    if place > 0 {
        scores.note(format!("shares are at the threshold {}", threshold(place)));
    }
    if let Some(images) = sets.images {
        scores.note(format!("rows were summed to {images} images"));
    }

    let nothing = Spectrum::default();
    let of = |block: usize| spectra.get(block).unwrap_or(&nothing);
    let size = sets.real.latents();
    let mut alignments = Vec::new();
    for model in 0..models {
        alignments.push([align(of(0), of(3 + 2 * model), top, size)?, align(of(1), of(4 + 2 * model), top, size)?]);
    }
    let null_alignment = align(of(1), of(2), top, size)?;
    let mean_of = |pick: &dyn Fn(&Alignment) -> Option<f64>, half: usize| {
        mean(&alignments.iter().filter_map(|both| pick(&both[half])).collect::<Vec<_>>())
    };
    let shared = alignments.first().map_or(0, |both| both[0].cosines.len());
    scores.headline("subspace_alignment", mean_of(&Alignment::subspace, 0), None, shared);
    scores.headline("subspace_alignment_half", mean_of(&Alignment::subspace, 1), None, shared);
    scores.headline("subspace_alignment_null", null_alignment.subspace(), None, null_alignment.cosines.len());
    scores.headline("vector_alignment", mean_of(&Alignment::vectors, 0), None, shared);
    if null_alignment.cosines.is_empty() || shared == 0 {
        scores.note("a set has no eigenvalue above 0: its alignment is undefined");
    }
    let slopes: Vec<Option<f64>> = (0..=models).map(|set| slope(&of(set_block(set)).values)).collect();
    scores.headline("slope_real", slopes[0], None, of(0).values.len());
    let generated: Vec<f64> = slopes[1..].iter().copied().flatten().collect();
    scores.headline("slope_generated", mean(&generated), None, generated.len());
    if slopes.iter().any(Option::is_none) {
        scores.note("fewer than two eigenvalues above 0: no slope");
    }
    for set in 0..=models {
        let spectrum = of(set_block(set));
        if spectrum.found < spectrum.values.len() {
            scores.note(format!(
                "{} of {} eigenvalues of {} are exact to 10⁻⁶ of the largest; the others are lower bounds",
                spectrum.found,
                spectrum.values.len(),
                set.checked_sub(1).map_or("the real rows", |model| &sets.models[model].0)
            ));
        }
    }
    scores.tables.push(thresholds(sets, &null, &whole, &halves));
    scores.tables.push(eigenvalues(sets, &|set| &of(set_block(set)).values));
    scores.tables.push(angles(sets, &alignments, &null_alignment));
    scores.tables.push(heatmap(sets, &alignments));
    if let Some(table) = partners(sets, lines, job.whole("partners")?)? {
        scores.tables.push(table);
    }
    Ok(scores)
}

/// The block of a set: the real rows, then the models.
fn set_block(set: usize) -> usize {
    if set == 0 { 0 } else { 1 + 2 * set }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// The interval of a share that is a mean over models. `side` is where its two counts begin.
fn jackknife(lines: &Tally, models: usize, side: usize, value: f64, rows: usize) -> Option<Interval> {
    if rows < 2 * GROUPS {
        return None;
    }
    let mut without = Vec::with_capacity(GROUPS);
    for group in 0..GROUPS {
        let mut shares = Vec::new();
        for model in 0..models {
            let counts = lines.counts(column_of_model(model) + 2).ok()?.get(4 * group..4 * group + 4)?.to_vec();
            shares.extend(share(counts[side + 1], counts[side]));
        }
        without.push(mean(&shares)?);
    }
    let centre = mean(&without)?;
    let squares = without.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
    let error = (squares * (GROUPS - 1) as f64 / GROUPS as f64).sqrt();
    Some(Interval { low: (value - STUDENT * error).max(0.0), high: (value + STUDENT * error).min(1.0) })
}

/// Two sets of eigenvectors.
#[derive(Default)]
pub(super) struct Alignment {
    /// Of the principal angles, descending.
    pub cosines: Vec<f64>,
    /// The absolute cosine of every first vector with every second one.
    pub between: Vec<f64>,
}

impl Alignment {
    fn subspace(&self) -> Option<f64> {
        mean(&self.cosines.iter().map(|cosine| cosine * cosine).collect::<Vec<_>>())
    }

    fn vectors(&self) -> Option<f64> {
        let lines = self.between.chunks_exact(self.cosines.len().max(1));
        mean(&lines.map(|line| line.iter().copied().fold(0.0, f64::max)).collect::<Vec<_>>())
    }
}

/// Compares the first vectors that both have.
pub(super) fn align(a: &Spectrum, b: &Spectrum, top: usize, size: usize) -> Result<Alignment> {
    let rank = |spectrum: &Spectrum| {
        let least = ROUNDING * spectrum.values.first().copied().unwrap_or(0.0);
        spectrum.values.iter().take_while(|&&value| value > 0.0 && value > least).count()
    };
    let count = top.min(rank(a)).min(rank(b)).min(a.vectors.len().min(b.vectors.len()) / size.max(1));
    if count == 0 {
        return Ok(Alignment::default());
    }
    let mut cosines = vec![0.0; count * count];
    rows_by_rows(&a.vectors[..count * size], &b.vectors[..count * size], size, &mut cosines);
    // Singular values of the cosines are the cosines of the principal angles.
    let mut gram = vec![0.0; count * count];
    rows_by_rows(&cosines, &cosines, count, &mut gram);
    let eigen = symmetric(gram, count).ok_or_else(|| Error::Bug("principal angles do not settle".into()))?;
    Ok(Alignment {
        cosines: eigen.values.iter().map(|value| value.clamp(0.0, 1.0).sqrt()).collect(),
        between: cosines.iter().map(|cosine| cosine.abs().min(1.0)).collect(),
    })
}

/// The least-squares line of log value over log rank.
fn slope(values: &[f64]) -> Option<f64> {
    let least = ROUNDING * values.first().copied()?;
    let positive = values.iter().take_while(|&&value| value > 0.0 && value > least).count();
    let first = if positive < 2 * FIRST_RANK { 1 } else { FIRST_RANK };
    let points: Vec<(f64, f64)> =
        (first..=positive).map(|rank| (libm::log(rank as f64), libm::log(values[rank - 1]))).collect();
    let (x, y): (Vec<f64>, Vec<f64>) = points.into_iter().unzip();
    let (centre_x, centre_y) = (mean(&x)?, mean(&y)?);
    let square = x.iter().map(|x| (x - centre_x).powi(2)).sum::<f64>();
    let product = x.iter().zip(&y).map(|(x, y)| (x - centre_x) * (y - centre_y)).sum::<f64>();
    (square > 0.0).then(|| product / square)
}

fn thresholds(sets: &Sets, null: &Comparison, whole: &[Comparison], halves: &[Comparison]) -> Table {
    let last = (0..THRESHOLDS)
        .rev()
        .find(|&place| whole.iter().map(|counts| counts.at(place)).any(|at| at.in_a + at.in_b > 0))
        .unwrap_or(0);
    let places = 0..(last + 2).min(THRESHOLDS);
    let column = |counts: &Comparison, pick: &dyn Fn(At) -> u64| {
        places.clone().map(|place| pick(counts.at(place)) as usize).collect::<Vec<_>>()
    };
    let mut table = Table::new("threshold").numbers("threshold", places.clone().map(|place| Some(threshold(place))));
    if let Some(first) = whole.first() {
        table = table.counts("real", column(first, &|at| at.in_a));
    }
    table = table
        .counts("real half 1", column(null, &|at| at.in_a))
        .counts("real half 2", column(null, &|at| at.in_b))
        .counts("only in real half 1", column(null, &|at| at.only_a))
        .counts("only in real half 2", column(null, &|at| at.only_b));
    for ((name, _), (whole, half)) in sets.models.iter().zip(whole.iter().zip(halves)) {
        table = table
            .counts(name, column(whole, &|at| at.in_b))
            .counts(&format!("unique in {name}"), column(whole, &|at| at.only_b))
            .counts(&format!("missing in {name}"), column(whole, &|at| at.only_a))
            .counts(&format!("unique in half 2 of {name}"), column(half, &|at| at.only_b))
            .counts(&format!("missing in half 2 of {name}"), column(half, &|at| at.only_a));
    }
    table
}

fn eigenvalues<'a>(sets: &Sets, values: &dyn Fn(usize) -> &'a [f64]) -> Table {
    let length = (0..=sets.models.len()).map(|set| values(set).len()).max().unwrap_or(0);
    let column = |set: usize| (0..length).map(|rank| values(set).get(rank).copied()).collect::<Vec<_>>();
    let mut table = Table::new("eigenvalue").counts("rank", 1..=length).numbers("real", column(0));
    for (model, (name, _)) in sets.models.iter().enumerate() {
        table = table.numbers(name, column(model + 1));
    }
    table
}

fn angles(sets: &Sets, alignments: &[[Alignment; 2]], null: &Alignment) -> Table {
    let all = alignments.iter().flatten().chain([null]);
    let length = all.map(|alignment| alignment.cosines.len()).max().unwrap_or(0);
    let degrees = |cosine: f64| libm::acos(cosine).to_degrees();
    let column = |alignment: &Alignment| {
        (0..length).map(|place| alignment.cosines.get(place).copied().map(degrees)).collect::<Vec<_>>()
    };
    let mut table = Table::new("principal angle").counts("place", 1..=length).numbers("real halves", column(null));
    for ((name, _), [whole, half]) in sets.models.iter().zip(alignments) {
        table = table.numbers(name, column(whole)).numbers(&format!("half 2 of {name}"), column(half));
    }
    table
}

/// The absolute cosine of every real eigenvector with every generated one.
fn heatmap(sets: &Sets, alignments: &[[Alignment; 2]]) -> Table {
    let length = alignments.iter().map(|both| both[0].cosines.len()).max().unwrap_or(0);
    let mut table = Table::new("eigenvector").counts("rank", 1..=length);
    for ((name, _), [whole, _]) in sets.models.iter().zip(alignments) {
        let count = whole.cosines.len();
        let line = |row: usize| whole.between.get(row * count..(row + 1) * count).unwrap_or(&[]);
        let cells = (0..length).map(|row| line(row).iter().map(|&cosine| Some(cosine)).collect()).collect();
        table = table.with(name, Cells::NumberLists(cells));
    }
    table
}

/// The partners of every latent.
fn partners(sets: &Sets, lines: &Tally, keep: usize) -> Result<Option<Table>> {
    if keep == 0 || lines.columns.is_empty() {
        return Ok(None);
    }
    let lists = lines.lists(column_of_model(sets.models.len()))?;
    let width = 1 + PER_SET * (1 + sets.models.len());
    let cells = |pick: &dyn Fn(&[f64]) -> f64| {
        let defined = |partner: &[f64]| Some(pick(partner)).filter(|value| value.is_finite());
        let row = |list: &(u64, Vec<f64>)| list.1.chunks_exact(width).map(defined).collect();
        Cells::NumberLists(lists.iter().map(row).collect())
    };
    let ids = lists.iter().map(|list| list.1.chunks_exact(width).map(|partner| partner[0] as i64).collect()).collect();
    let mut table = Table::new("latent").counts("latent", 0..lists.len()).with("partners", Cells::WholeLists(ids));
    for (place, what) in ["product", "jaccard", "pmi"].into_iter().enumerate() {
        table = table.with(what, cells(&|partner| partner[1 + place]));
        for (model, (name, _)) in sets.models.iter().enumerate() {
            let theirs = 1 + PER_SET * (1 + model) + place;
            table = table.with(&format!("{what} change: {name}"), cells(&|p| p[theirs] - p[1 + place]));
        }
    }
    Ok(Some(table))
}
