//! From counts and spectra to scores.

use serde::{Deserialize, Serialize};

use super::counts::{At, Comparison, GROUPS, THRESHOLDS, threshold};
use super::partner_stats::PartnerStats;
use super::partners::Together;
use super::row_sweep::{ModelSweep, Sweep};
use super::sets::SetsShape;
use super::spectrum::{Spectrum, of_set};
use crate::context::Context;
use crate::error::{Error, Result};
use crate::results::{Cells, Interval, Scores, Table, student_quantile};
use etalon_kernel::eigen::try_symmetric;
use etalon_kernel::product::try_rows_by_rows;
use etalon_kernel::statistics::mean;

/// Eigenvalues below this share of the largest are rounding.
const ROUNDING: f64 = 1e-10;

/// The line through a spectrum begins at this rank, if it is long enough.
const FIRST_RANK: usize = 10;

/// Everything that scores are made of.
pub(super) struct Findings<'a> {
    /// The index of the threshold of the headline.
    pub threshold: usize,
    pub sweep: &'a Sweep,
    pub spectra: &'a [Spectrum],
    /// Of [`pairs_of_spectra`].
    pub alignments: &'a [Alignment],
    /// By latent.
    pub partners: &'a [Vec<PartnerStats>],
}

/// Spectra that are compared: the real halves, then for every model all rows and the halves.
pub(super) fn pairs_of_spectra(models: usize) -> Vec<[usize; 2]> {
    let of_model = |model: usize| [[0, of_set(model + 1)], [1, of_set(model + 1) + 1]];
    std::iter::once([1, 2]).chain((0..models).flat_map(of_model)).collect()
}

/// A share of the entries at a threshold.
type ShareOf = fn(At) -> (u64, u64);

pub(super) fn scores(shape: &SetsShape<'_>, found: &Findings<'_>) -> Scores {
    let (models, null, at) = (&found.sweep.models, &found.sweep.null, found.threshold);
    let mut scores = Scores::default();
    let shares: [(&str, ShareOf); 2] = [("unique", |at| (at.only_b, at.in_b)), ("missing", |at| (at.only_a, at.in_a))];
    for (name, of) in shares {
        let over_models = |counts: fn(&ModelSweep) -> &Comparison| {
            mean(&models.iter().filter_map(|model| share(of(counts(model).at(at)))).collect::<Vec<_>>())
        };
        let n = |counts: Option<&Comparison>| counts.map_or(0, |counts| of(counts.at(at)).1 as usize);
        let value = over_models(|model| &model.whole);
        let interval = value.and_then(|value| jackknife(models, of, value, shape.rows));
        scores.headline(&format!("{name}_share"), value, interval, n(models.first().map(|model| &model.whole)));
        let half = over_models(|model| &model.half);
        scores.headline(&format!("{name}_share_half"), half, None, n(models.first().map(|model| &model.half)));
        scores.headline(&format!("{name}_share_null"), share(of(null.at(at))), None, n(Some(null)));
    }
    if scores.headline.iter().any(|headline| headline.value.is_none()) {
        scores.note("no two latents co-occur above the threshold in one of the sets: its shares are undefined");
    }
    if at > 0 {
        scores.note(format!("shares are at the threshold {}", threshold(at)));
    }
    if shape.is_pooled {
        scores.note(format!("rows were summed to {} images", shape.rows));
    }
    alignment_headlines(&mut scores, found);
    slope_headlines(&mut scores, shape, found);
    for set in 0..shape.sets() {
        let spectrum = &found.spectra[of_set(set)];
        if spectrum.found < spectrum.values.len() {
            scores.note(format!(
                "{} of {} eigenvalues of {} are exact to 10⁻⁶ of the largest; the others are lower bounds",
                spectrum.found,
                spectrum.values.len(),
                set.checked_sub(1).map_or("the real rows", |model| shape.names[model])
            ));
        }
    }
    scores.tables.push(thresholds(shape, found.sweep));
    scores.tables.push(eigenvalues(shape, &|set| &found.spectra[of_set(set)].values));
    scores.tables.push(angles(shape, found.alignments));
    scores.tables.push(heatmap(shape, found.alignments));
    scores.tables.extend(partners(shape, found.partners));
    scores
}

fn alignment_headlines(scores: &mut Scores, found: &Findings<'_>) {
    let (null, models) = (&found.alignments[0], &found.alignments[1..]);
    let over_models = |half: usize, pick: fn(&Alignment) -> Option<f64>| {
        mean(&models.chunks_exact(2).filter_map(|both| pick(&both[half])).collect::<Vec<_>>())
    };
    let shared = models.first().map_or(0, |whole| whole.cosines.len());
    scores.headline("subspace_alignment", over_models(0, Alignment::subspace), None, shared);
    scores.headline("subspace_alignment_half", over_models(1, Alignment::subspace), None, shared);
    scores.headline("subspace_alignment_null", null.subspace(), None, null.cosines.len());
    scores.headline("vector_alignment", over_models(0, Alignment::vectors), None, shared);
    if null.cosines.is_empty() || shared == 0 {
        scores.note("a set has no eigenvalue above 0: its alignment is undefined");
    }
}

fn slope_headlines(scores: &mut Scores, shape: &SetsShape<'_>, found: &Findings<'_>) {
    let slopes: Vec<Option<f64>> = (0..shape.sets()).map(|set| slope(&found.spectra[of_set(set)].values)).collect();
    scores.headline("slope_real", slopes[0], None, found.spectra[of_set(0)].values.len());
    let generated: Vec<f64> = slopes[1..].iter().copied().flatten().collect();
    scores.headline("slope_generated", mean(&generated), None, generated.len());
    if slopes.iter().any(Option::is_none) {
        scores.note("fewer than two eigenvalues above 0: no slope");
    }
}

fn share((part, of): (u64, u64)) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// The interval of a share that is a mean over models.
fn jackknife(models: &[ModelSweep], of: ShareOf, value: f64, rows: usize) -> Option<Interval> {
    if rows < 2 * GROUPS {
        return None;
    }
    let by_model: Vec<Vec<At>> = models.iter().map(|model| model.without.by_group()).collect();
    let without_group =
        |group: usize| mean(&by_model.iter().filter_map(|groups| share(of(groups[group]))).collect::<Vec<_>>());
    let without = (0..GROUPS).map(without_group).collect::<Option<Vec<f64>>>()?;
    let centre = mean(&without)?;
    let squares = without.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
    let error = student_quantile((GROUPS - 1) as f64)? * (squares * (GROUPS - 1) as f64 / GROUPS as f64).sqrt();
    Some(Interval { low: (value - error).max(0.0), high: (value + error).min(1.0) })
}

/// Two sets of eigenvectors.
#[derive(Default, Serialize, Deserialize)]
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
        let rows = self.between.chunks_exact(self.cosines.len().max(1));
        mean(&rows.map(|row| row.iter().copied().fold(0.0, f64::max)).collect::<Vec<_>>())
    }
}

/// Compares the first vectors that both have.
pub(super) fn align(a: &Spectrum, b: &Spectrum, top: usize, size: usize, context: &Context) -> Result<Alignment> {
    let rank = |spectrum: &Spectrum| {
        let least = ROUNDING * spectrum.values.first().copied().unwrap_or(0.0);
        spectrum.values.iter().take_while(|&&value| value > 0.0 && value > least).count()
    };
    let count = top.min(rank(a)).min(rank(b)).min(a.vectors.len().min(b.vectors.len()) / size.max(1));
    if count == 0 {
        return Ok(Alignment::default());
    }
    let mut cosines = vec![0.0; count * count];
    try_rows_by_rows(&a.vectors[..count * size], &b.vectors[..count * size], size, &mut cosines, context)?;
    // Singular values of the cosines are the cosines of the principal angles.
    let mut gram = vec![0.0; count * count];
    try_rows_by_rows(&cosines, &cosines, count, &mut gram, context)?;
    let eigen = try_symmetric(gram, count, context)?;
    let eigen = eigen.ok_or_else(|| Error::Bug("principal angles do not settle".into()))?;
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

fn thresholds(shape: &SetsShape<'_>, Sweep { null, models, .. }: &Sweep) -> Table {
    let last = (0..THRESHOLDS)
        .rev()
        .find(|&index| models.iter().map(|model| model.whole.at(index)).any(|at| at.in_a + at.in_b > 0))
        .unwrap_or(0);
    let indices = 0..(last + 2).min(THRESHOLDS);
    let column = |counts: &Comparison, pick: fn(At) -> u64| {
        indices.clone().map(|index| pick(counts.at(index)) as usize).collect::<Vec<_>>()
    };
    let mut table = Table::new("threshold").numbers("threshold", indices.clone().map(|index| Some(threshold(index))));
    if let Some(first) = models.first() {
        table = table.counts("real", column(&first.whole, |at| at.in_a));
    }
    table = table
        .counts("real half 1", column(null, |at| at.in_a))
        .counts("real half 2", column(null, |at| at.in_b))
        .counts("only in real half 1", column(null, |at| at.only_a))
        .counts("only in real half 2", column(null, |at| at.only_b));
    for (name, ModelSweep { whole, half, .. }) in shape.names.iter().zip(models) {
        table = table
            .counts(name, column(whole, |at| at.in_b))
            .counts(&format!("unique in {name}"), column(whole, |at| at.only_b))
            .counts(&format!("missing in {name}"), column(whole, |at| at.only_a))
            .counts(&format!("unique in half 2 of {name}"), column(half, |at| at.only_b))
            .counts(&format!("missing in half 2 of {name}"), column(half, |at| at.only_a));
    }
    table
}

fn eigenvalues<'a>(shape: &SetsShape<'_>, values: &dyn Fn(usize) -> &'a [f64]) -> Table {
    let length = (0..shape.sets()).map(|set| values(set).len()).max().unwrap_or(0);
    let column = |set: usize| (0..length).map(|rank| values(set).get(rank).copied()).collect::<Vec<_>>();
    let mut table = Table::new("eigenvalue").counts("rank", 1..=length).numbers("real", column(0));
    for (model, name) in shape.names.iter().enumerate() {
        table = table.numbers(name, column(model + 1));
    }
    table
}

fn angles(shape: &SetsShape<'_>, alignments: &[Alignment]) -> Table {
    let length = alignments.iter().map(|alignment| alignment.cosines.len()).max().unwrap_or(0);
    let degrees = |cosine: f64| libm::acos(cosine).to_degrees();
    let column = |alignment: &Alignment| {
        (0..length).map(|index| alignment.cosines.get(index).copied().map(degrees)).collect::<Vec<_>>()
    };
    let (null, models) = (&alignments[0], alignments[1..].chunks_exact(2));
    let mut table = Table::new("principal angle").counts("place", 1..=length).numbers("real halves", column(null));
    for (name, both) in shape.names.iter().zip(models) {
        table = table.numbers(name, column(&both[0])).numbers(&format!("half 2 of {name}"), column(&both[1]));
    }
    table
}

/// The absolute cosine of every real eigenvector with every generated one.
fn heatmap(shape: &SetsShape<'_>, alignments: &[Alignment]) -> Table {
    let wholes = || alignments[1..].iter().step_by(2);
    let length = wholes().map(|whole| whole.cosines.len()).max().unwrap_or(0);
    let mut table = Table::new("eigenvector").counts("rank", 1..=length);
    for (name, whole) in shape.names.iter().zip(wholes()) {
        let count = whole.cosines.len();
        let row = |row: usize| whole.between.get(row * count..(row + 1) * count).unwrap_or(&[]);
        let cells = (0..length).map(|index| row(index).iter().map(|&cosine| Some(cosine)).collect()).collect();
        table = table.with(name, Cells::NumberLists(cells));
    }
    table
}

/// A number that says how two latents go together.
type PairNumber = fn(&Together) -> Option<f64>;

/// The partners of every latent; no table if none are wanted.
fn partners(shape: &SetsShape<'_>, partners: &[Vec<PartnerStats>]) -> Option<Table> {
    if partners.is_empty() {
        return None;
    }
    let cells = |of: &dyn Fn(&PartnerStats) -> Option<f64>| {
        Cells::NumberLists(partners.iter().map(|list| list.iter().map(of).collect()).collect())
    };
    let ids = partners.iter().map(|list| list.iter().map(|partner| i64::from(partner.latent)).collect()).collect();
    let mut table = Table::new("latent").counts("latent", 0..partners.len()).with("partners", Cells::WholeLists(ids));
    let numbers: [(&str, PairNumber); 3] = [
        ("product", |together| Some(together.product)),
        ("jaccard", |together| together.jaccard),
        ("pmi", |together| together.pmi),
    ];
    for (what, number) in numbers {
        table = table.with(what, cells(&|partner| number(&partner.sets[0])));
        for (model, name) in shape.names.iter().enumerate() {
            let change = |partner: &PartnerStats| Some(number(&partner.sets[model + 1])? - number(&partner.sets[0])?);
            table = table.with(&format!("{what} change: {name}"), cells(&change));
        }
    }
    Some(table)
}
