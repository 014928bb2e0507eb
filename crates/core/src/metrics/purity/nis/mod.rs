//! The niche impurity score: what representations outside of a concept's niche say about it.

mod card;
pub(super) mod niches;

use etalon_kernel::layered_network::{Layer, LayeredNetwork, LayeredTraining, Outputs};
use serde::{Deserialize, Serialize};

use super::concepts::{FEWEST_ROWS, concepts, count_sources, note_unused_classes, split_interval};
use crate::error::Result;
use crate::labels::Factors;
use crate::metrics::{Card, Metric};
use crate::results::{Interval, Profile, Scores, Table};
use crate::run::{CODES, Job, Lazy, Work};
use niches::{
    Classifier, Dense, Masked, OutputClass, balanced, correlations, output_area, output_classes, split, task,
};

/// The metric `nis`.
pub struct Nis;

/// Where profile `reference` ends.
const REFERENCE_END: f64 = 0.95;

/// Thresholds and the weight of each in the integral.
struct Grid {
    thresholds: Vec<f64>,
    weights: Vec<f64>,
}

impl Grid {
    /// Every 0.05 up to 1 or, in profile `reference`, up to 0.95; the trapezoid rule.
    fn of(profile: Profile) -> Grid {
        let last = if profile == Profile::Reference { 19 } else { 20 };
        let weight = |number: usize| if number == 0 || number == last { 0.025 } else { 0.05 };
        Grid {
            thresholds: (0..=last).map(|number| number as f64 * 0.05).collect(),
            weights: (0..=last).map(weight).collect(),
        }
    }

    /// The thresholds at which the niche changes: the exact integral of a step function up to `end`.
    fn exact(niche: &[f64], end: f64) -> Grid {
        let mut thresholds: Vec<f64> = niche.iter().copied().filter(|&value| value > 0.0 && value < end).collect();
        thresholds.push(0.0);
        thresholds.sort_by(f64::total_cmp);
        thresholds.dedup();
        let ends = thresholds.iter().skip(1).copied().chain([end]);
        let weights = thresholds.iter().zip(ends).map(|(start, end)| end - start).collect();
        Grid { thresholds, weights }
    }
}

/// Layers as they are stored.
#[derive(Serialize, Deserialize)]
struct StoredLayers(Vec<(Vec<f64>, Vec<f64>)>);

impl StoredLayers {
    fn of(network: LayeredNetwork) -> StoredLayers {
        StoredLayers(network.layers.into_iter().map(|layer| (layer.weights, layer.intercepts)).collect())
    }

    fn network(&self) -> LayeredNetwork {
        let layer = |(weights, intercepts): &(Vec<f64>, Vec<f64>)| Layer {
            weights: weights.clone(),
            intercepts: intercepts.clone(),
        };
        LayeredNetwork { layers: self.0.iter().map(layer).collect(), outputs: Outputs::Sigmoid }
    }
}

/// The results of one concept in one split.
#[derive(Serialize, Deserialize)]
struct ConceptCurve {
    /// The area at every threshold of the grid.
    areas: Vec<Option<f64>>,
    unmasked: Option<f64>,
    /// The integral.
    integral: Option<f64>,
    /// For the softmax of profile `reference`: thresholds, ascending, and the predictions from each up to the next.
    thresholds: Vec<f64>,
    predictions: Vec<Vec<f64>>,
    /// The correlations of all representations, for the exact integral of profile `reference`.
    niche: Vec<f64>,
}

/// The mean over concepts and splits.
struct Curve {
    nis: Option<f64>,
    interval: Option<Interval>,
    unmasked: Option<f64>,
    /// Per threshold.
    areas: Vec<Option<f64>>,
    /// Per concept.
    integrals: Vec<Option<f64>>,
    /// Per concept and threshold.
    curves: Vec<Option<f64>>,
}

/// The parts of a job.
struct Niches<'a> {
    job: &'a Job<'a>,
    factors: &'a Factors,
    usable: &'a [usize],
    outputs: Vec<OutputClass>,
    dimensions: usize,
    repeats: usize,
    hidden: usize,
}

impl Metric for Nis {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let codes = job.get(&CODES)?;
        let (factors, _memory) = concepts(job)?;
        let (dimensions, repeats) = (job.whole("dimensions")?, job.whole("repeats")?);
        let sources = count_sources(codes, dimensions)?;
        if job.word("balance")? == "task" {
            // Before rows are counted: a missing input is an error also where the score is undefined.
            task(job)?;
        }
        let mut usable: Vec<usize> = (0..factors.count()).collect();
        for repeat in 0..repeats.min(if codes.rows() < FEWEST_ROWS { 0 } else { repeats }) {
            let split = split(job, codes.rows(), repeat);
            usable.retain(|&concept| split.is_usable(factors.column(concept)));
        }
        let reason = match (codes.rows() < FEWEST_ROWS, usable.is_empty(), sources) {
            (true, ..) => Some(format!("{} rows are too few to hold out a fifth", codes.rows())),
            (_, true, _) => Some("no concept has two classes in the training and in the test rows".into()),
            (.., 0) => Some("there is no representation".into()),
            _ => None,
        };
        let mut scores = Scores::default();
        if let Some(reason) = reason {
            card::CARD.headline.iter().for_each(|output| scores.headline(output.key, None, None, 0));
            scores.note(format!("undefined: {reason}"));
            return Ok(scores);
        }
        let outputs = output_classes(&factors, &usable);
        let mut curves = Vec::new();
        for hidden in job.several("hidden")? {
            let hidden = hidden.as_u64().unwrap_or(20) as usize;
            let niches = Niches {
                job,
                factors: &factors,
                usable: &usable,
                outputs: outputs.clone(),
                dimensions,
                repeats,
                hidden,
            };
            curves.push((hidden, niches.run(work)?));
        }
        report(job, &factors, &usable, &curves, &mut scores);
        Ok(scores)
    }
}

impl Niches<'_> {
    /// Training and test rows of a split.
    fn rows(&self, repeat: usize) -> Result<(Vec<u32>, Vec<u32>)> {
        let split = split(self.job, self.factors.rows(), repeat);
        match self.job.word("balance")? {
            "task" => Ok((
                balanced(self.job, &split.train, "train", repeat)?,
                balanced(self.job, &split.test, "test", repeat)?,
            )),
            _ => Ok((split.train, split.test)),
        }
    }

    fn run(&self, work: &mut Work<'_>) -> Result<Curve> {
        let (job, concepts) = (self.job, self.usable.len());
        let dense = Lazy::new(|| Dense::of_job(job));
        let networks = work.blocks_with(&dense, "classifiers", self.repeats, |dense, repeat| {
            let (train, _) = self.rows(repeat)?;
            let classifier = Classifier {
                job,
                dense,
                factors: self.factors,
                outputs: &self.outputs,
                kind: Outputs::Sigmoid,
                hidden: self.hidden,
                training: LayeredTraining {
                    epochs: job.whole("epochs")?,
                    batch: self.factors.rows().min(512),
                    ..LayeredTraining::default()
                },
                random_intercepts: true,
                purpose: "nis",
            };
            Ok(StoredLayers::of(classifier.train(&train, repeat as u64)?))
        })?;
        let grid = Grid::of(job.profile);
        let is_exact = job.word("integral")? == "exact";
        let _kept = match job.profile {
            Profile::Paper => None,
            Profile::Reference => {
                let steps = if is_exact { job.get(&CODES)?.latents() / self.dimensions } else { 0 };
                let values = self.factors.rows().div_ceil(5) * self.outputs.len() * (grid.thresholds.len() + steps);
                Some(job.budget().reserve(8 * (self.repeats * values) as u64, "the predictions of all concepts")?)
            }
        };
        let mut curves = work
            .blocks_with(&dense, "niches", self.repeats * concepts, |dense, block| {
                let network = networks[block / concepts].network();
                self.concept(dense, &network, block / concepts, block % concepts, &grid)
            })?
            .into_parts()
            .0;
        if job.profile == Profile::Reference {
            self.apply_softmax(work, &mut curves, &grid, is_exact)?;
        }
        Ok(self.mean(&curves, grid.thresholds.len()))
    }

    /// The outputs of a usable concept among all outputs.
    fn outputs_of(&self, concept: usize) -> std::ops::Range<usize> {
        let wanted = self.usable[concept];
        let start = self.outputs.iter().position(|output| output.concept == wanted).unwrap_or(0);
        start..start + self.outputs.iter().filter(|output| output.concept == wanted).count()
    }

    fn concept(
        &self,
        dense: &Dense,
        network: &LayeredNetwork,
        repeat: usize,
        concept: usize,
        grid: &Grid,
    ) -> Result<ConceptCurve> {
        let (train, test) = self.rows(repeat)?;
        let niche = correlations(dense, self.dimensions, self.factors, self.usable[concept], &train);
        let range = self.outputs_of(concept);
        let outputs = &self.outputs[range.clone()];
        let masked = Masked { network, dense, dimensions: self.dimensions, outputs: range };
        let is_exact = self.job.word("integral")? == "exact";
        let end = if self.job.profile == Profile::Reference { REFERENCE_END } else { 1.0 };
        let exact = if is_exact { Grid::exact(&niche, end) } else { Grid { thresholds: vec![], weights: vec![] } };
        let kept = grid.thresholds.len() + exact.thresholds.len() + 2;
        let bytes = 8 * test.len() * (self.hidden + outputs.len() * kept);
        let _memory = self.job.budget().reserve(bytes as u64, "the predictions of a concept")?;
        let area = |all: &[f64]| output_area(self.factors, outputs, &test, all).map(|area| area.value);
        let unmasked = masked.predictions(&test, &niche, &[2.0]).first().and_then(|all| area(all));
        if self.job.profile == Profile::Reference {
            // Areas follow from the outputs of all concepts together.
            let mut thresholds = [&grid.thresholds[..], &exact.thresholds[..]].concat();
            thresholds.sort_by(f64::total_cmp);
            thresholds.dedup();
            let predictions = masked.predictions(&test, &niche, &thresholds);
            return Ok(ConceptCurve { areas: vec![], unmasked, integral: None, thresholds, predictions, niche });
        }
        let areas_at = |thresholds: &[f64]| -> Vec<Option<f64>> {
            masked.predictions(&test, &niche, thresholds).iter().map(|all| area(all)).collect()
        };
        let areas = areas_at(&grid.thresholds);
        let integral = match is_exact {
            true => integral(&exact.weights, &areas_at(&exact.thresholds)),
            false => integral(&grid.weights, &areas),
        };
        Ok(ConceptCurve { areas, unmasked, integral, thresholds: vec![], predictions: vec![], niche: vec![] })
    }

    /// Fills in the areas and integrals of profile `reference`. After the softmax, the area of a concept may change
    /// wherever the niche of any concept does: the exact integral is over the steps of all.
    fn apply_softmax(
        &self,
        work: &mut Work<'_>,
        curves: &mut [ConceptCurve],
        grid: &Grid,
        is_exact: bool,
    ) -> Result<()> {
        let concepts = self.usable.len();
        let exact_of = |repeat: usize| {
            let own = &curves[repeat * concepts..][..concepts];
            let steps: Vec<f64> = own.iter().flat_map(|curve| curve.niche.iter().copied()).collect();
            Grid::exact(&steps, REFERENCE_END)
        };
        let exact: Vec<Grid> = (0..if is_exact { self.repeats } else { 0 }).map(exact_of).collect();
        let of_repeat = |repeat: usize| {
            let steps = exact.get(repeat).map_or(&[][..], |exact| &exact.thresholds);
            grid.thresholds.iter().chain(steps).map(move |&threshold| (repeat, threshold))
        };
        let points: Vec<(usize, f64)> = (0..self.repeats).flat_map(of_repeat).collect();
        let areas = work.blocks("softmax", points.len(), |block| {
            let (repeat, threshold) = points[block];
            self.softmax_areas(&curves[repeat * concepts..][..concepts], repeat, threshold)
        })?;
        let mut first = 0;
        for (repeat, own) in curves.chunks_mut(concepts).enumerate() {
            for (concept, curve) in own.iter_mut().enumerate() {
                let at = |start: usize, count: usize| -> Vec<Option<f64>> {
                    (start..start + count).map(|number| areas[number][concept]).collect()
                };
                curve.areas = at(first, grid.thresholds.len());
                curve.integral = match exact.get(repeat) {
                    Some(exact) => integral(&exact.weights, &at(first + grid.thresholds.len(), exact.thresholds.len())),
                    None => integral(&grid.weights, &curve.areas),
                };
            }
            first += grid.thresholds.len() + exact.get(repeat).map_or(0, |exact| exact.thresholds.len());
        }
        Ok(())
    }

    /// The areas of all concepts at one threshold after a softmax across the outputs of all concepts.
    fn softmax_areas(&self, curves: &[ConceptCurve], repeat: usize, threshold: f64) -> Result<Vec<Option<f64>>> {
        let (_, test) = self.rows(repeat)?;
        Ok(self.softmax_areas_of(curves, &test, threshold))
    }

    fn softmax_areas_of(&self, curves: &[ConceptCurve], test: &[u32], threshold: f64) -> Vec<Option<f64>> {
        let width = self.outputs.len();
        let mut all = vec![0.0; test.len() * width];
        for (concept, curve) in curves.iter().enumerate() {
            let range = self.outputs_of(concept);
            let number = curve.thresholds.partition_point(|own| *own <= threshold).max(1) - 1;
            for (row, own) in curve.predictions[number].chunks_exact(range.len().max(1)).enumerate() {
                all[row * width..][range.clone()].copy_from_slice(own);
            }
        }
        all.chunks_exact_mut(width).for_each(|row| Outputs::Softmax.normalise(row));
        let area = |concept: usize| {
            let range = self.outputs_of(concept);
            let own: Vec<f64> = all.chunks_exact(width).flat_map(|row| row[range.clone()].iter().copied()).collect();
            output_area(self.factors, &self.outputs[range], test, &own).map(|area| area.value)
        };
        (0..self.usable.len()).map(area).collect()
    }

    fn mean(&self, curves: &[ConceptCurve], thresholds: usize) -> Curve {
        let concepts = self.usable.len();
        let mean = |values: &mut dyn Iterator<Item = Option<f64>>| {
            let (sum, count) = values.flatten().fold((0.0, 0usize), |(sum, count), value| (sum + value, count + 1));
            (count > 0).then(|| sum / count as f64)
        };
        let of_concept = |concept: usize| curves.iter().skip(concept).step_by(concepts);
        let nis = mean(&mut curves.iter().map(|curve| curve.integral));
        let by_split: Option<Vec<f64>> =
            curves.chunks(concepts).map(|own| mean(&mut own.iter().map(|curve| curve.integral))).collect();
        Curve {
            nis,
            // A fifth of the rows is the test: one test row for four training rows.
            interval: nis.zip(by_split).and_then(|(nis, by_split)| split_interval(nis, &by_split, 0.25, (0.0, 1.0))),
            unmasked: mean(&mut curves.iter().map(|curve| curve.unmasked)),
            areas: (0..thresholds).map(|number| mean(&mut curves.iter().map(|curve| curve.areas[number]))).collect(),
            integrals: (0..concepts)
                .map(|concept| mean(&mut of_concept(concept).map(|curve| curve.integral)))
                .collect(),
            curves: (0..concepts * thresholds)
                .map(|entry| mean(&mut of_concept(entry / thresholds).map(|curve| curve.areas[entry % thresholds])))
                .collect(),
        }
    }
}

fn integral(weights: &[f64], areas: &[Option<f64>]) -> Option<f64> {
    weights.iter().zip(areas).map(|(weight, area)| Some(weight * (*area)?)).sum()
}

fn report(job: &Job<'_>, factors: &Factors, usable: &[usize], curves: &[(usize, Curve)], scores: &mut Scores) {
    let Some((_, first)) = curves.first() else { return };
    scores.headline("nis", first.nis, first.interval, usable.len());
    scores.headline("nis_unmasked", first.unmasked, None, usable.len());
    if first.nis.is_none() {
        scores.note("undefined: a class is missing in the resampled test rows");
    }
    if usable.len() < factors.count() {
        scores.note(format!(
            "{} of {} concepts lack two classes in the training or the test rows and do not count",
            factors.count() - usable.len(),
            factors.count()
        ));
    }
    if job.profile == Profile::Reference {
        scores.note("profile `reference` ends at a threshold of 0.95: chance is 0.475, the maximum 0.95");
    }
    note_unused_classes(factors, scores);
    scores.tables.push(
        Table::new("concept")
            .words("name", usable.iter().map(|&concept| factors.names()[concept].clone()))
            .numbers("nis", first.integrals.iter().copied()),
    );
    scores.tables.push(
        Table::new("threshold")
            .numbers("beta", Grid::of(job.profile).thresholds.into_iter().map(Some))
            .numbers("niche_impurity", first.areas.iter().copied()),
    );
    let thresholds = Grid::of(job.profile).thresholds;
    let name = |entry: usize| factors.names()[usable[entry / thresholds.len()]].clone();
    scores.tables.push(
        Table::new("niche")
            .words("concept", (0..first.curves.len()).map(name))
            .numbers("beta", (0..first.curves.len()).map(|entry| Some(thresholds[entry % thresholds.len()])))
            .numbers("niche_impurity", first.curves.iter().copied()),
    );
    if curves.len() > 1 {
        scores.tables.push(
            Table::new("helper")
                .counts("hidden", curves.iter().map(|(hidden, _)| *hidden))
                .numbers("nis", curves.iter().map(|(_, curve)| curve.nis))
                .numbers("low", curves.iter().map(|(_, curve)| curve.interval.map(|interval| interval.low)))
                .numbers("high", curves.iter().map(|(_, curve)| curve.interval.map(|interval| interval.high)))
                .numbers("nis_unmasked", curves.iter().map(|(_, curve)| curve.unmasked)),
        );
    }
}

#[cfg(test)]
mod tests;
