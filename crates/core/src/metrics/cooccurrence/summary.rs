//! Headlines, notes and tables from counts and spectra.

use super::alignment::Alignment;
use super::counts::{Exceeding, GROUPS, JointCounts, THRESHOLDS, threshold};
use super::partner_stats::{Association, PartnerStats};
use super::row_sweep::{ModelSweep, Sweep};
use super::sets::SetsShape;
use super::spectrum::{Spectrum, of_set};
use crate::results::{Cells, Interval, Scores, Table, student_quantile};
use etalon_kernel::statistics::mean;

/// The data of headlines and tables.
pub(super) struct Findings<'a> {
    /// The index of the headline threshold.
    pub threshold: usize,
    pub sweep: &'a Sweep,
    pub spectra: &'a [Spectrum],
    /// The real halves, then for every model all rows and the halves.
    pub alignments: &'a [Alignment],
    /// By latent.
    pub partners: &'a [Vec<PartnerStats>],
}

/// A share of entries: numerator and denominator.
type ShareOf = fn(Exceeding) -> (u64, u64);

pub(super) fn scores(shape: &SetsShape<'_>, found: &Findings<'_>) -> Scores {
    let mut scores = Scores::default();
    share_headlines(&mut scores, shape, found);
    alignment_headlines(&mut scores, found.alignments);
    slope_headlines(&mut scores, shape, found.spectra);
    scores.tables.push(threshold_table(shape, found.sweep));
    scores.tables.push(eigenvalue_table(shape, found.spectra));
    scores.tables.push(angle_table(shape, found.alignments));
    scores.tables.push(cosine_table(shape, found.alignments));
    scores.tables.extend(partner_table(shape, found.partners));
    scores
}

fn mean_of_defined(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    mean(&values.flatten().collect::<Vec<_>>())
}

fn share_headlines(scores: &mut Scores, shape: &SetsShape<'_>, found: &Findings<'_>) {
    let (models, null, index) = (&found.sweep.models, &found.sweep.null, found.threshold);
    let shares: [(&str, ShareOf); 2] = [("unique", |at| (at.only_b, at.in_b)), ("missing", |at| (at.only_a, at.in_a))];
    let mut paired: Vec<(String, Vec<Option<f64>>)> = Vec::new();
    for (name, of) in shares {
        let over_models = |counts: fn(&ModelSweep) -> &JointCounts| {
            mean_of_defined(models.iter().map(|model| share(of(counts(model).above(index)))))
        };
        let n = |counts: Option<&JointCounts>| counts.map_or(0, |counts| of(counts.above(index)).1 as usize);
        let value = over_models(|model| &model.whole);
        let without = without_groups(models, of, shape.rows);
        let interval = value.zip(without.as_deref()).and_then(|(value, without)| jackknife(value, without));
        let column = |without: Vec<f64>| (format!("{name}_share"), without.into_iter().map(Some).collect());
        paired.extend(without.filter(|_| interval.is_some()).map(column));
        scores.headline(&format!("{name}_share"), value, interval, n(models.first().map(|model| &model.whole)));
        let half = over_models(|model| &model.half);
        scores.headline(&format!("{name}_share_half"), half, None, n(models.first().map(|model| &model.half)));
        scores.headline(&format!("{name}_share_null"), share(of(null.above(index))), None, n(Some(null)));
    }
    scores.put_jackknife(paired);
    if scores.headline.iter().any(|headline| headline.value.is_none()) {
        scores.note("no two latents co-occur above the threshold in one of the sets: its shares are undefined");
    }
    if index > 0 {
        scores.note(format!("shares are at the threshold {}", threshold(index)));
    }
    if shape.is_pooled {
        scores.note(format!("rows were summed to {} images", shape.rows));
    }
}

fn alignment_headlines(scores: &mut Scores, alignments: &[Alignment]) {
    let (null, models) = (&alignments[0], &alignments[1..]);
    let over_models = |half: usize, pick: fn(&Alignment) -> Option<f64>| {
        mean_of_defined(models.chunks_exact(2).map(|both| pick(&both[half])))
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

fn slope_headlines(scores: &mut Scores, shape: &SetsShape<'_>, spectra: &[Spectrum]) {
    let slopes: Vec<Option<f64>> = (0..shape.sets()).map(|set| spectra[of_set(set)].slope()).collect();
    scores.headline("slope_real", slopes[0], None, spectra[of_set(0)].values.len());
    let generated: Vec<f64> = slopes[1..].iter().copied().flatten().collect();
    scores.headline("slope_generated", mean(&generated), None, generated.len());
    if slopes.iter().any(Option::is_none) {
        scores.note("a slope needs two eigenvalues above 0: undefined");
    }
    for set in 0..shape.sets() {
        let Spectrum { values, converged, .. } = &spectra[of_set(set)];
        if *converged < values.len() {
            let name = set.checked_sub(1).map_or("the real rows", |model| shape.names[model]);
            scores.note(format!(
                "{converged} of {} eigenvalues of {name} are exact to 10⁻⁶ of the largest; the others are lower bounds",
                values.len()
            ));
        }
    }
}

fn share((part, of): (u64, u64)) -> Option<f64> {
    (of > 0).then(|| part as f64 / of as f64)
}

/// A share that is a mean over models, without each group of rows.
fn without_groups(models: &[ModelSweep], of: ShareOf, rows: usize) -> Option<Vec<f64>> {
    if rows < 2 * GROUPS {
        return None;
    }
    let by_model: Vec<Vec<Exceeding>> = models.iter().map(|model| model.without.by_group()).collect();
    let without_group = |group: usize| mean_of_defined(by_model.iter().map(|groups| share(of(groups[group]))));
    (0..GROUPS).map(without_group).collect()
}

/// The interval of a share.
fn jackknife(value: f64, without: &[f64]) -> Option<Interval> {
    let centre = mean(without)?;
    let squares = without.iter().map(|value| (value - centre).powi(2)).sum::<f64>();
    let error = student_quantile((GROUPS - 1) as f64)? * (squares * (GROUPS - 1) as f64 / GROUPS as f64).sqrt();
    Some(Interval { low: (value - error).max(0.0), high: (value + error).min(1.0) })
}

fn threshold_table(shape: &SetsShape<'_>, Sweep { null, models, .. }: &Sweep) -> Table {
    let last = (0..THRESHOLDS)
        .rev()
        .find(|&index| models.iter().map(|model| model.whole.above(index)).any(|at| at.in_a + at.in_b > 0))
        .unwrap_or(0);
    let indices = 0..(last + 2).min(THRESHOLDS);
    let column = |counts: &JointCounts, pick: fn(Exceeding) -> u64| {
        indices.clone().map(|index| pick(counts.above(index)) as usize).collect::<Vec<_>>()
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

/// A table of lists of numbers by rank, from 1 to the length of the longest.
fn rank_table(axis: &str, rank: &str, columns: &[(String, &[f64])]) -> Table {
    let length = columns.iter().map(|(_, values)| values.len()).max().unwrap_or(0);
    let table = Table::new(axis).counts(rank, 1..=length);
    columns
        .iter()
        .fold(table, |table, (name, values)| table.numbers(name, (0..length).map(|index| values.get(index).copied())))
}

fn eigenvalue_table(shape: &SetsShape<'_>, spectra: &[Spectrum]) -> Table {
    let names = std::iter::once(&"real").chain(&shape.names).enumerate();
    let columns: Vec<_> = names.map(|(set, name)| (name.to_string(), &spectra[of_set(set)].values[..])).collect();
    rank_table("eigenvalue", "rank", &columns)
}

fn angle_table(shape: &SetsShape<'_>, alignments: &[Alignment]) -> Table {
    let of_model = |name: &&str| [name.to_string(), format!("half 2 of {name}")];
    let names = std::iter::once("real halves".to_string()).chain(shape.names.iter().flat_map(of_model));
    let angles: Vec<Vec<f64>> = alignments
        .iter()
        .map(|alignment| alignment.cosines.iter().map(|&cosine| libm::acos(cosine).to_degrees()).collect())
        .collect();
    let columns: Vec<_> = names.zip(angles.iter().map(|angles| &angles[..])).collect();
    rank_table("principal angle", "place", &columns)
}

/// The absolute cosine of every real eigenvector with every generated one.
fn cosine_table(shape: &SetsShape<'_>, alignments: &[Alignment]) -> Table {
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

/// A number of an association.
type Pick = fn(&Association) -> Option<f64>;

/// The partners of every latent; `None` if none are kept.
fn partner_table(shape: &SetsShape<'_>, partners: &[Vec<PartnerStats>]) -> Option<Table> {
    if partners.is_empty() {
        return None;
    }
    let cells = |of: &dyn Fn(&PartnerStats) -> Option<f64>| {
        Cells::NumberLists(partners.iter().map(|list| list.iter().map(of).collect()).collect())
    };
    let ids = partners.iter().map(|list| list.iter().map(|partner| i64::from(partner.latent)).collect()).collect();
    let mut table = Table::new("latent").counts("latent", 0..partners.len()).with("partners", Cells::WholeLists(ids));
    let numbers: [(&str, Pick); 3] =
        [("product", |pair| Some(pair.product)), ("jaccard", |pair| pair.jaccard), ("pmi", |pair| pair.pmi)];
    for (name, pick) in numbers {
        table = table.with(name, cells(&|partner| pick(&partner.sets[0])));
        for (model, generator) in shape.names.iter().enumerate() {
            let change = |partner: &PartnerStats| Some(pick(&partner.sets[model + 1])? - pick(&partner.sets[0])?);
            table = table.with(&format!("{name} change: {generator}"), cells(&change));
        }
    }
    Some(table)
}
