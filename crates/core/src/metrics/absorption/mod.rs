//! `absorption`: do narrow latents take rows away from the latents of a class?

mod card;
mod fraction;
mod select;

#[cfg(test)]
mod tests;

use rayon::prelude::*;

use super::{Card, Metric};
use crate::codes::Codes;
use crate::error::Result;
use crate::kernel::product::dot;
use crate::kernel::random::{permutation, stream};
use crate::kernel::statistics::mean;
use crate::labels::{Annotations, Concept};
use crate::probe::design::Design;
use crate::probe::few::Penalty;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::spectrum::Spectrum;
use crate::probe::verdict::Verdict;
use crate::results::{Cells, Scores, Table, bootstrap_mean};
use crate::run::{Job, Next};
use crate::store::ActivationStore;
use fraction::{CURRENT, PAPER, Reading};
use select::{dense, few, telling_latents};

pub(super) struct Absorption;

impl Metric for Absorption {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let (codes, labels) = (job.codes()?, job.labels()?);
        let (store, rows) = (job.embeddings()?, codes.rows());
        let bytes = (rows * store.width() + codes.latents() * store.width()) as u64 * 4 + 12 * codes.entries() as u64;
        let _memory = job.budget.take(bytes, "activations, codes and directions of all rows")?;
        let mut order = permutation(rows, &mut stream(job.seed, "absorption/split", 0));
        let tested = (job.number("test_share")? * rows as f64).round() as usize;
        let mut train = order.split_off(tested.min(rows));
        order.sort_unstable();
        train.sort_unstable();
        let directions = job.directions()?.tile(0..codes.latents())?;
        let field = Field {
            train: Part::of(&train, codes, labels, store)?,
            test: Part::of(&order, codes, labels, store)?,
            directions: &directions.values,
            width: store.width(),
            jump: job.number("jump")?,
            most: job.whole("most_latents")?,
            sparsity: job.number("sparsity")?,
        };
        let probes = field.probes(labels.concepts());
        let classes: Vec<Class> = probes
            .par_iter()
            .enumerate()
            .map(|(class, probe)| field.class(class, probe.as_ref()))
            .collect::<Result<_>>()?;
        let (floor, fewest) = (job.number("probe_floor")?, job.whole("fewest_classes")?);
        Ok(Next::Done(report(&classes, labels.names(), floor, fewest, job.seed)))
    }
}

/// Rows of one side of the cut.
struct Part {
    codes: Codes,
    labels: Annotations,
    activations: Vec<f32>,
}

impl Part {
    fn of(rows: &[usize], codes: &Codes, labels: &Annotations, store: &ActivationStore) -> Result<Part> {
        let mut activations = Vec::with_capacity(rows.len() * store.width());
        for &row in rows {
            activations.extend_from_slice(&store.tile(row..row + 1)?.values);
        }
        Ok(Part { codes: codes.select(rows)?, labels: labels.select(rows), activations })
    }

    /// The rows of which it is known whether they are of a class, and which are.
    fn known(&self, class: usize) -> (Vec<usize>, Vec<bool>) {
        let concept = Concept(class as u32);
        let rows: Vec<usize> = self.labels.known(concept).rows().collect();
        let positive = rows.iter().map(|&row| self.labels.yes(concept).contains(row)).collect();
        (rows, positive)
    }
}

/// Everything that classes share.
struct Field<'a> {
    train: Part,
    test: Part,
    directions: &'a [f32],
    width: usize,
    jump: f64,
    most: usize,
    sparsity: f64,
}

/// What was found about a class.
#[derive(Default)]
struct Class {
    probe_f1: Option<f64>,
    main: Vec<u32>,
    /// F1 of the probes on one, two, … latents.
    steps: Vec<Option<f64>>,
    /// Test rows of the class that the probe calls positive.
    rows: usize,
    fraction: Option<f64>,
    january: Option<f64>,
    paper: Option<f64>,
    full: usize,
}

impl Field<'_> {
    /// A probe per class on the activations; none where the training rows lack a side.
    fn probes(&self, classes: usize) -> Vec<Option<Probe>> {
        let design = Design::Dense { values: &self.train.activations, width: self.width };
        let spectrum = Spectrum::of(&design);
        let labels = &self.train.labels;
        let targets: Vec<Target<'_>> = (0..classes as u32)
            .map(|class| Target { yes: labels.yes(Concept(class)), known: labels.known(Concept(class)) })
            .collect();
        let logistic = Logistic { balanced: true, ..Logistic::default() };
        // Fixed groups, so that threads change nothing.
        let groups: Vec<Vec<Option<Probe>>> =
            targets.par_chunks(8).map(|group| logistic.fit_with(&design, &spectrum, group)).collect();
        groups.into_iter().flatten().collect()
    }

    fn class(&self, class: usize, probe: Option<&Probe>) -> Result<Class> {
        let Some(probe) = probe else { return Ok(Class::default()) };
        let (rows, positive) = self.test.known(class);
        if !positive.contains(&true) {
            return Ok(Class::default());
        }
        let row = |row: usize| &self.test.activations[row * self.width..][..self.width];
        let weights: Vec<f32> = probe.weights.iter().map(|&weight| weight as f32).collect();
        let scores: Vec<f64> = rows.iter().map(|&at| dot(row(at), &weights) + probe.intercept).collect();
        let mut found = Class { probe_f1: Some(Verdict::of(&positive, &scores).f1()), ..Class::default() };
        self.split(class, &rows, &positive, &mut found)?;
        let length = dot(&weights, &weights).sqrt();
        if length == 0.0 || found.main.is_empty() {
            return Ok(found);
        }
        let direction: Vec<f32> = weights.iter().map(|weight| (f64::from(*weight) / length) as f32).collect();
        let (mut current, mut january, mut paper) = (Vec::new(), Vec::new(), Vec::new());
        let view = self.test.codes.all()?;
        for ((&at, _), _) in rows.iter().zip(&positive).zip(&scores).filter(|((_, yes), score)| **yes && **score > 0.0)
        {
            let (latents, values) = view.row(at);
            let (mut main, mut main_active, mut others) = (0.0, false, Vec::new());
            for (&latent, &value) in latents.iter().zip(values) {
                let along = &self.directions[latent as usize * self.width..][..self.width];
                let (part, size) = (dot(along, &direction), dot(along, along).sqrt());
                let carried = f64::from(value) * part;
                if found.main.contains(&latent) {
                    main += carried;
                    main_active |= value.abs() >= 1e-8;
                } else if size > 0.0 {
                    others.push((carried, part / size));
                }
            }
            let reading = Reading { whole: dot(row(at), &direction), main, main_active, others: &others };
            current.push(reading.fraction(&CURRENT));
            january.push(reading.fraction_of_january());
            paper.push(reading.fraction(&PAPER));
            found.full += usize::from(reading.is_full());
        }
        found.rows = current.len();
        (found.fraction, found.january, found.paper) = (mean(&current), mean(&january), mean(&paper));
        Ok(found)
    }

    /// The main latents of a class: as many as make the probe better.
    fn split(&self, class: usize, test: &[usize], truth: &[bool], found: &mut Class) -> Result<()> {
        let (train, positive) = self.train.known(class);
        // Most classes are known in every row, and share the columns of all.
        let some = |part: &Part, rows: &[usize]| match rows.len() == part.codes.rows() {
            true => Ok(None),
            false => part.codes.select(rows).map(Some),
        };
        let (some_train, some_test) = (some(&self.train, &train)?, some(&self.test, test)?);
        let train_codes = some_train.as_ref().unwrap_or(&self.train.codes);
        let test_codes = some_test.as_ref().unwrap_or(&self.test.codes);
        let ranked = telling_latents(train_codes.columns()?, &positive, self.sparsity);
        let logistic = Logistic { balanced: true, ..Logistic::default() };
        let (mut best, mut before) = (f64::NEG_INFINITY, None);
        for k in 1..=self.most.min(ranked.len()) {
            let table = dense(train_codes.columns()?, &ranked[..k], train.len());
            let probe = logistic.fit_few(&few(&table, k, &positive), Penalty::Squares, before.as_ref());
            let Some(probe) = probe else { break };
            let table = dense(test_codes.columns()?, &ranked[..k], test.len());
            let f1 = Verdict::of(truth, &few(&table, k, truth).scores(&probe)).f1();
            found.steps.push(Some(f1));
            if f1 <= best + self.jump {
                break;
            }
            (best, before) = (f1, Some(probe));
            found.main = ranked[..k].to_vec();
        }
        Ok(())
    }
}

fn report(classes: &[Class], names: &[String], floor: f64, fewest: usize, seed: u64) -> Scores {
    let mut scores = Scores::default();
    let counts = |class: &&Class| class.probe_f1.is_some_and(|f1| f1 > floor) && class.rows > 0;
    let counted: Vec<&Class> = classes.iter().filter(counts).collect();
    let left_out = classes.len() - counted.len();
    if left_out > 0 {
        scores.note(format!(
            "{left_out} of {} classes are left out: their probe has an F1 up to {floor}, or sees no test row, or no latent \
             tells them",
            classes.len()
        ));
    }
    let enough = counted.len() >= fewest.max(1);
    if !enough {
        scores.note(format!(
            "{} classes are too few (at least {}): absorption is undefined",
            counted.len(),
            fewest.max(1)
        ));
    }
    let full = |class: &Class| class.full as f64 / class.rows.max(1) as f64;
    let mut headline = |key: &str, value: &dyn Fn(&Class) -> Option<f64>| {
        let values: Vec<f64> = counted.iter().filter(|_| enough).filter_map(|class| value(class)).collect();
        let interval = bootstrap_mean(&values, seed, &format!("absorption/{key}"));
        scores.headline(key, mean(&values), interval, values.len());
    };
    headline("absorption_fraction", &|class| class.fraction);
    headline("absorption_fraction_january", &|class| class.january);
    headline("absorption_fraction_paper", &|class| class.paper);
    headline("full_absorption", &|class| Some(full(class)));
    headline("split_features", &|class| Some(class.main.len() as f64));
    let main = classes.iter().map(|class| class.main.iter().map(|&latent| i64::from(latent)).collect()).collect();
    let steps = classes.iter().map(|class| class.steps.clone()).collect();
    scores.tables.push(
        Table::new("concept")
            .words("name", names.iter().cloned())
            .numbers("absorption_fraction", classes.iter().map(|class| class.fraction))
            .numbers("absorption_fraction_january", classes.iter().map(|class| class.january))
            .numbers("absorption_fraction_paper", classes.iter().map(|class| class.paper))
            .numbers("full_absorption", classes.iter().map(|class| (class.rows > 0).then(|| full(class))))
            .counts("fully_absorbed", classes.iter().map(|class| class.full))
            .counts("rows", classes.iter().map(|class| class.rows))
            .numbers("probe_f1", classes.iter().map(|class| class.probe_f1))
            .counts("split_features", classes.iter().map(|class| class.main.len()))
            .with("latents", Cells::WholeLists(main))
            .with("f1_by_latents", Cells::NumberLists(steps)),
    );
    scores
}
