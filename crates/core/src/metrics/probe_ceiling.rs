//! What a linear probe on the embeddings reaches: the ceiling for any latent that reads them linearly.

use std::ops::Range;

use rayon::prelude::*;

use super::{Better, Card, Kind, Metric, Need, Output, Param};
use crate::budget::Taken;
use crate::error::{Error, Result};
use crate::kernel::bits::Bits;
use crate::kernel::random::{permutation, stream};
use crate::kernel::statistics::{area_under_curve, mean};
use crate::labels::{Annotations, Concept};
use crate::probe::adam::Adam;
use crate::probe::design::Design;
use crate::probe::logistic::{Logistic, Probe, TOGETHER, Target};
use crate::probe::spectrum::Spectrum;
use crate::results::{Cells, Profile, Scores, Table, bootstrap_mean};
use crate::run::{Blocks, Column, Job, Next, Tally};
use crate::store::ActivationStore;

/// The metric.
pub struct ProbeCeiling;

static CARD: Card = Card {
    name: "probe_ceiling",
    title: "Linear-probe ceiling",
    summary: "How well linear probes on the raw embeddings find the concepts: an upper bound for single latents.",
    version: 1,
    measures: "Latents read the embeddings through one direction and one threshold each. A probe that was trained with the \
        labels does the same as well as it can be done, so its F1 says how much of a low matching score is the \
        dictionary's fault and how much is not in the embeddings, or not in the labels, at all. No codes are needed.",
    definition: "One probe per concept; a row is predicted where weights · embedding + intercept ≥ 0 (probability ≥ 1/2). \
        The predictions of all probes are then treated like latents that fire or not: \
        F1(concept, probe) = 2 TP / (positives + predicted) over the rows whose label of the concept is known. \
        `f1_best` is the best over all probes (lowest index among equals), which is what the one-to-one matching of latents \
        does, and `probe_f1` is its mean over concepts. `f1` is the F1 of the concept's own probe, nothing selected; its mean is \
        `probe_own_f1`. `auc` is the area under the ROC curve of the own probe, ties half. \
        Profile `paper`: rows are cut into two halves with the seed. On each half logistic regressions are fitted to \
        convergence (c · Σ loss + ½ ‖w‖², intercept without penalty) on columns with mean 0 and deviation 1 over that \
        half (constant columns are only centred), so that `c` means the same for every encoder; `scale` = raw leaves the \
        columns alone. Each row is predicted by the probe that has not seen it; F1 counts both halves together, AUC is the mean of the \
        two halves. \
        Profile `reference`: the labels together, one linear layer, see Source; fitted on the one half, scored on the other. \
        Undefined in `paper`: a concept without a positive row, or with one class only among the known labels of a training half. In \
        `reference` such a concept stays, with F1 = 0 if it has no positive row, as 0/0 = 0 there. \
        Rows with an unknown label are left out for that concept, in training and in scoring.",
    cost: "`paper`: about a hundred products of half the embeddings with 64 probes at a time, twice; a block is 64 concepts \
        and one half. 5,794 rows × 768 with 312 concepts took 36 seconds of processor time. `reference`: two products \
        per step. Memory: a copy of the embeddings, and about 5 numbers per row and probe of a block; predictions as bits.",
    source: "Evaluating the Interpretability of SAEs with Concept Annotations (arXiv 2606.24716), dashed line in the matching figures, and its \
        program: one linear layer with intercepts on raw embeddings, binary cross-entropy averaged over labels, Adam \
        (learning rate 1e-3, decays 0.9 and 0.999, epsilon 1e-8), 100 epochs, batches of 1024, no class weights, no penalty, weights of the \
        last epoch (its choice of the best epoch keeps no copy), PyTorch's first weights uniform in ±1/√width. The \
        figures show the F1 of the best prediction column, k = 1. \
        Profile `reference` keeps all that, with seeded weights and batches. Differences: the program trains on the training split \
        and scores on the test split, here both are halves of the given rows; its misplaced last batch is not repeated; \
        the average runs over known labels. Profile `paper` replaces the training, because 100 epochs are far from \
        convergence on raw embeddings and then measure the optimiser.",
    interval: "95 % percentile bootstrap over concepts, 1000 resamples",
    needs: &[Need::Embeddings, Need::Labels],
    uses: &[],
    headline: &[
        Output {
            key: "probe_f1",
            doc: "Mean over concepts of the best F1 of any probe's predictions, to compare with one-to-one matching.",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "probe_own_f1",
            doc: "Mean over concepts of the F1 of the concept's own probe.",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
        Output {
            key: "probe_auc",
            doc: "Mean over concepts of the area under the ROC curve of the concept's own probe.",
            range: (0.0, 1.0),
            better: Better::Higher,
        },
    ],
    params: &[
        Param {
            name: "c",
            doc: "The inverse strength of the penalty (profile `paper`).",
            kind: Kind::Number(1e-9, 1e9),
            several: false,
            default: "1",
            reference: None,
        },
        Param {
            name: "scale",
            doc: "Brings every column to mean 0 and deviation 1 before the fit, or leaves it raw.",
            kind: Kind::Word(&["standard", "raw"]),
            several: false,
            default: "standard",
            reference: Some("raw"),
        },
        Param {
            name: "epochs",
            doc: "How often every row is seen (profile `reference`).",
            kind: Kind::Whole(1, 100_000),
            several: false,
            default: "100",
            reference: None,
        },
        Param {
            name: "batch",
            doc: "Rows per step (profile `reference`).",
            kind: Kind::Whole(1, u64::MAX),
            several: false,
            default: "1024",
            reference: None,
        },
        Param {
            name: "learning_rate",
            doc: "The learning rate (profile `reference`).",
            kind: Kind::Number(0.0, 1e6),
            several: false,
            default: "0.001",
            reference: None,
        },
    ],
};

impl Metric for ProbeCeiling {
    fn card(&self) -> &'static Card {
        &CARD
    }

    fn start(&self, job: &Job<'_>) -> Result<Next> {
        let (store, labels) = (job.embeddings()?, job.labels()?);
        let rows = store.rows();
        let copy = (rows as u64).saturating_mul(store.width() as u64).saturating_mul(4);
        let taken = job.budget.take(copy, "a copy of the embeddings for the probes")?;
        let order = permutation(rows, &mut stream(job.seed, "probe_ceiling/halves", 0));
        let (mut one, mut other) = (order[..rows.div_ceil(2)].to_vec(), order[rows.div_ceil(2)..].to_vec());
        one.sort_unstable();
        other.sort_unstable();
        let standard = job.word("scale")? == "standard";
        let mut folds = vec![Fold::new(store, labels, &one, other.clone(), standard)?];
        if job.profile == Profile::Paper {
            folds.push(Fold::new(store, labels, &other, one, standard)?);
        }
        if job.profile == Profile::Paper {
            folds.par_iter_mut().for_each(|fold| {
                fold.spectrum = Some(Spectrum::of(&Design::Dense { values: &fold.values, width: fold.width }));
            });
        }
        Ok(Next::Blocks(Box::new(Probes { folds, concepts: labels.concepts(), _taken: taken })))
    }
}

/// Rows to fit on, and rows to score.
struct Fold {
    values: Vec<f32>,
    width: usize,
    labels: Annotations,
    /// Of every column, what is subtracted and what it is then multiplied by.
    scaling: Vec<(f64, f64)>,
    scored: Vec<usize>,
    /// How the rows spread, for the logistic fits.
    spectrum: Option<Spectrum>,
}

impl Fold {
    fn new(
        store: &ActivationStore,
        labels: &Annotations,
        fitted: &[usize],
        scored: Vec<usize>,
        standard: bool,
    ) -> Result<Fold> {
        let width = store.width();
        let mut values = Vec::with_capacity(fitted.len() * width);
        for &row in fitted {
            values.extend_from_slice(store.tile(row..row + 1)?.row(0));
        }
        let mut scaling = vec![(0.0, 1.0); width];
        if standard && !fitted.is_empty() {
            let rows = fitted.len() as f64;
            let mut sums = vec![0.0; width];
            values.chunks_exact(width).for_each(|row| sums.iter_mut().zip(row).for_each(|(s, &v)| *s += f64::from(v)));
            let centres: Vec<f64> = sums.iter().map(|sum| sum / rows).collect();
            let mut squares = vec![0.0; width];
            for row in values.chunks_exact(width) {
                for (column, &value) in row.iter().enumerate() {
                    squares[column] += (f64::from(value) - centres[column]).powi(2);
                }
            }
            for column in 0..width {
                let deviation = (squares[column] / rows).sqrt();
                // Below the resolution of f32 a column is constant, whatever rounding has left.
                let is_constant = deviation <= 1e-7 * centres[column].abs();
                scaling[column] = (centres[column], if is_constant { 1.0 } else { 1.0 / deviation });
            }
            for row in values.chunks_exact_mut(width) {
                for (value, (centre, factor)) in row.iter_mut().zip(&scaling) {
                    *value = ((f64::from(*value) - centre) * factor) as f32;
                }
            }
        }
        Ok(Fold { values, width, labels: labels.select(fitted), scaling, scored, spectrum: None })
    }

    /// Probes of some concepts, for raw rows.
    fn fit(&self, job: &Job<'_>, concepts: Range<usize>) -> Result<Vec<Option<Probe>>> {
        let mut probes = match job.profile {
            Profile::Paper => {
                let target = |concept: usize| {
                    let concept = Concept(concept as u32);
                    Target { yes: self.labels.yes(concept), known: self.labels.known(concept) }
                };
                let targets: Vec<Target<'_>> = concepts.map(target).collect();
                let logistic = Logistic { c: job.number("c")?, tolerance: 1e-4, ..Logistic::default() };
                let design = Design::Dense { values: &self.values, width: self.width };
                match &self.spectrum {
                    Some(spectrum) => logistic.fit_with(&design, spectrum, &targets),
                    None => logistic.fit(&design, &targets),
                }
            }
            Profile::Reference => {
                let adam = Adam {
                    learning_rate: job.number("learning_rate")?,
                    epochs: job.whole("epochs")?,
                    batch: job.whole("batch")?,
                    seed: job.seed,
                };
                adam.fit(&self.values, self.width, &self.labels, concepts).into_iter().map(Some).collect()
            }
        };
        for probe in probes.iter_mut().flatten() {
            for (weight, (centre, factor)) in probe.weights.iter_mut().zip(&self.scaling) {
                *weight *= factor;
                probe.intercept -= *weight * centre;
            }
        }
        Ok(probes)
    }
}

struct Probes {
    folds: Vec<Fold>,
    concepts: usize,
    _taken: Taken,
}

impl Probes {
    fn groups(&self) -> usize {
        self.concepts.div_ceil(TOGETHER)
    }

    /// Scores of the rows to be scored, `probes × rows`.
    fn scores(&self, fold: &Fold, probes: &[&Probe], store: &ActivationStore) -> Result<Vec<f64>> {
        let rows = fold.scored.len();
        let weights: Vec<f64> = probes.iter().flat_map(|probe| &probe.weights).copied().collect();
        let mut scores = vec![0.0; probes.len() * rows];
        for (number, part) in fold.scored.chunks(1024).enumerate() {
            let mut values = Vec::with_capacity(part.len() * fold.width);
            for &row in part {
                values.extend_from_slice(store.tile(row..row + 1)?.row(0));
            }
            let found = Design::Dense { values: &values, width: fold.width }.scores(&weights, probes.len());
            for (place, found) in found.chunks_exact(part.len()).enumerate() {
                let target = &mut scores[place * rows + number * 1024..][..part.len()];
                target.iter_mut().zip(found).for_each(|(score, found)| *score = found + probes[place].intercept);
            }
        }
        Ok(scores)
    }
}

impl Blocks for Probes {
    fn count(&self) -> usize {
        self.folds.len() * self.groups()
    }

    fn unit(&self) -> &'static str {
        "groups of probes"
    }

    /// Two lists per probe: whether it converged and its AUC, if there are such; and its predictions, 32 rows in a number.
    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let (labels, store) = (job.labels()?, job.embeddings()?);
        let (number, group) = (block / self.groups(), block % self.groups());
        let concepts = group * TOGETHER..((group + 1) * TOGETHER).min(self.concepts);
        let fold = &self.folds[number];
        let probes = fold.fit(job, concepts.clone())?;
        let fitted: Vec<&Probe> = probes.iter().flatten().collect();
        let scores = self.scores(fold, &fitted, store)?;
        let mut scores = scores.chunks_exact(fold.scored.len().max(1));
        let (mut about, mut predicted) = (Vec::new(), Vec::new());
        for (concept, probe) in concepts.zip(&probes) {
            let key = (number * self.concepts + concept) as u64;
            let Some(probe) = probe else {
                about.push((key, vec![]));
                predicted.push((key, vec![]));
                continue;
            };
            let scores = scores.next().unwrap_or(&[]);
            let (yes, known) = (labels.yes(Concept(concept as u32)), labels.known(Concept(concept as u32)));
            let (truth, seen): (Vec<bool>, Vec<f64>) = fold
                .scored
                .iter()
                .zip(scores)
                .filter(|&(&row, _)| known.contains(row))
                .map(|(&row, &score)| (yes.contains(row), score))
                .unzip();
            let converged = f64::from(u8::from(probe.converged));
            about.push((key, [converged].into_iter().chain(area_under_curve(&truth, &seen)).collect()));
            predicted.push((key, pack(scores.iter().map(|&score| score >= 0.0))));
        }
        Ok(Tally { columns: vec![Column::Lists(about), Column::Lists(predicted)] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let labels = job.labels()?;
        let rows = labels.rows();
        let probes = self.folds.len() * self.concepts;
        let (about, packed) = if probes == 0 { (&[][..], &[][..]) } else { (tally.lists(0)?, tally.lists(1)?) };
        if about.len() != probes || packed.len() != probes {
            return Err(Error::Bug("a probe was not fitted".into()));
        }
        let of = |concept: usize| (0..self.folds.len()).map(move |fold| fold * self.concepts + concept);
        let is_fitted: Vec<bool> =
            (0..self.concepts).map(|concept| of(concept).all(|key| !about[key].1.is_empty())).collect();
        let scored = Bits::of(rows, self.folds.iter().flat_map(|fold| &fold.scored).copied());
        let predictions: Vec<Bits> = (0..self.concepts)
            .map(|concept| {
                let rows_of = |fold: &Fold, key: usize| -> Vec<usize> {
                    unpack(&packed[key].1).filter_map(|place| fold.scored.get(place).copied()).collect()
                };
                Bits::of(rows, of(concept).zip(&self.folds).flat_map(|(key, fold)| rows_of(fold, key)))
            })
            .collect();
        let found: Vec<Found> = (0..self.concepts)
            .map(|concept| {
                let label = Concept(concept as u32);
                let (mut yes, mut known) = (labels.yes(label).clone(), labels.known(label).clone());
                yes.intersect(&scored);
                known.intersect(&scored);
                let positives = yes.count();
                let is_defined = match job.profile {
                    Profile::Paper => is_fitted[concept] && positives > 0,
                    Profile::Reference => known.count() > 0,
                };
                if !is_defined {
                    return Found { positives, ..Found::default() };
                }
                let f1 = |probe: usize| {
                    let total = positives + known.count_and(&predictions[probe]);
                    if total == 0 { 0.0 } else { 2.0 * yes.count_and(&predictions[probe]) as f64 / total as f64 }
                };
                let mut best = (concept, f1(concept));
                let own = best.1;
                for probe in (0..self.concepts).filter(|&probe| is_fitted[probe]) {
                    let f1 = f1(probe);
                    if f1 > best.1 || (f1 == best.1 && probe < best.0) {
                        best = (probe, f1);
                    }
                }
                let areas: Vec<f64> = of(concept).filter_map(|key| about[key].1.get(1).copied()).collect();
                Found { positives, own: Some(own), best: Some(best), auc: mean(&areas) }
            })
            .collect();
        let mut scores = Scores::default();
        let columns: [(&str, Vec<Option<f64>>); 3] = [
            ("probe_f1", found.iter().map(|found| found.best.map(|best| best.1)).collect()),
            ("probe_own_f1", found.iter().map(|found| found.own).collect()),
            ("probe_auc", found.iter().map(|found| found.auc).collect()),
        ];
        for (key, column) in &columns {
            let values: Vec<f64> = column.iter().flatten().copied().collect();
            let interval = bootstrap_mean(&values, job.seed, &format!("probe_ceiling/{key}"));
            scores.headline(key, mean(&values), interval, values.len());
        }
        let undefined = found.iter().filter(|found| found.own.is_none()).count();
        if undefined > 0 {
            scores.note(format!(
                "{undefined} of {} concepts have no positive row, or one class only in a training half: undefined",
                self.concepts
            ));
        }
        let unfinished = about.iter().filter(|(_, about)| about.first() == Some(&0.0)).count();
        if unfinished > 0 {
            scores.note(format!("{unfinished} of {probes} fits did not converge; a smaller `c` helps"));
        }
        if job.profile == Profile::Reference {
            scores.note(format!("fitted on {} rows and scored on the other {}", rows - scored.count(), scored.count()));
        }
        let [best, own, auc] = columns.map(|(_, column)| column);
        let best_probe = found.iter().map(|found| found.best.map(|best| best.0 as i64)).collect();
        scores.tables.push(
            Table::new("concept")
                .words("name", labels.names().iter().map(String::as_str))
                .counts("positives", found.iter().map(|found| found.positives))
                .numbers("f1", own)
                .numbers("f1_best", best)
                .with("best_probe", Cells::Whole(best_probe))
                .numbers("auc", auc),
        );
        Ok(Next::Done(scores))
    }
}

/// What a concept's row of the table says.
#[derive(Default)]
struct Found {
    positives: usize,
    own: Option<f64>,
    best: Option<(usize, f64)>,
    auc: Option<f64>,
}

/// Yes and no, 32 in a number that `f64` holds exactly.
fn pack(answers: impl Iterator<Item = bool>) -> Vec<f64> {
    let mut words: Vec<u32> = Vec::new();
    for (place, answer) in answers.enumerate() {
        if place % 32 == 0 {
            words.push(0);
        }
        if let Some(word) = words.last_mut() {
            *word |= u32::from(answer) << (place % 32);
        }
    }
    words.into_iter().map(f64::from).collect()
}

/// The places of the yeses.
fn unpack(words: &[f64]) -> impl Iterator<Item = usize> {
    words.iter().enumerate().flat_map(|(number, &word)| {
        let word = word as u32;
        (0..32).filter(move |bit| word >> bit & 1 == 1).map(move |bit| number * 32 + bit)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::AtomicBool;

    use rand::Rng;

    use super::*;
    use crate::budget::Budget;
    use crate::labels::Label;
    use crate::metrics::{evaluate, recipe};
    use crate::progress::Silent;
    use crate::run::{Engine, Inputs};

    fn run(
        values: &[f32],
        width: usize,
        labels: &[Vec<Label>],
        profile: Profile,
        given: &[(&str, &str)],
        threads: usize,
    ) -> Result<Scores> {
        let names = (0..labels.len()).map(|concept| format!("concept {concept}")).collect();
        let labels = Annotations::new(names, values.len() / width, |row, concept| labels[concept][row])?;
        let store = ActivationStore::from_rows(values.to_vec(), width)?;
        let inputs = Inputs { embeddings: Some(store.into()), labels: Some(labels.into()), ..Inputs::default() };
        let given: BTreeMap<String, String> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
        let cancel = AtomicBool::new(false);
        let engine = Engine::new(threads, Budget::new(1 << 30), &Silent, &cancel)?;
        let recipe = recipe(&ProbeCeiling, &inputs, &given, profile, 2)?;
        Ok(evaluate(&ProbeCeiling, &inputs, recipe, &engine)?.scores)
    }

    /// Rows of noise, and labels that are a sign of it, of a column or of nothing, some unknown.
    fn world(rows: usize, width: usize) -> (Vec<f32>, Vec<Vec<Label>>) {
        let mut random = stream(4, "probe_ceiling/test", 0);
        let values: Vec<f32> = (0..rows * width).map(|_| (random.next_u32() % 2000) as f32 / 1000.0 - 1.0).collect();
        let yes = |is: bool| if is { Label::Yes } else { Label::No };
        let seen: Vec<Label> = values.chunks(width).map(|row| yes(row[0] > 0.0)).collect();
        let opposite: Vec<Label> = values.chunks(width).map(|row| yes(row[0] <= 0.0)).collect();
        let noise: Vec<Label> = (0..rows).map(|_| yes(random.next_u32().is_multiple_of(4))).collect();
        let gaps = seen.iter().enumerate().map(|(row, &l)| if row % 3 == 0 { Label::Unknown } else { l }).collect();
        (values, vec![seen, opposite, noise, gaps])
    }

    #[test]
    fn what_is_in_the_embeddings_is_found_and_nothing_else() {
        let (values, labels) = world(400, 5);
        let scores = run(&values, 5, &labels, Profile::Paper, &[], 2).unwrap();
        let table = scores.table("concept").unwrap();
        let cell = |name: &str, row: usize| table.column(name).unwrap().number(row).unwrap();
        for concept in [0, 1, 3] {
            assert!(cell("f1", concept) > 0.95, "concept {concept}: {}", cell("f1", concept));
            assert!(cell("auc", concept) > 0.99);
            assert!(cell("f1_best", concept) >= cell("f1", concept));
        }
        assert!((cell("auc", 2) - 0.5).abs() < 0.12, "{}", cell("auc", 2));
        // A probe for noise never says yes, so some other probe fits it better by chance: F1 of a random half is
        // 2·(1/8)/(1/4 + 1/2) = 1/3.
        assert!(cell("f1", 2) < 0.1 && (cell("f1_best", 2) - 1.0 / 3.0).abs() < 0.1);
        assert_eq!(scores.notes, Vec::<String>::new());
    }

    #[test]
    fn the_reference_learns_the_same_in_many_steps() {
        let (values, labels) = world(400, 5);
        let given = [("epochs", "300"), ("batch", "50"), ("learning_rate", "0.01")];
        let scores = run(&values, 5, &labels, Profile::Reference, &given, 2).unwrap();
        let f1 = scores.table("concept").unwrap().column("f1").unwrap().number(0).unwrap();
        assert!(f1 > 0.95, "{f1}");
        assert_eq!(scores.notes, ["fitted on 200 rows and scored on the other 200"]);
    }

    #[test]
    fn threads_change_nothing() {
        let (values, labels) = world(150, 3);
        let labels: Vec<Vec<Label>> = (0..70).map(|concept| labels[concept % 4].clone()).collect();
        for profile in [Profile::Paper, Profile::Reference] {
            let once = run(&values, 3, &labels, profile, &[("epochs", "3")], 1).unwrap();
            for threads in [2, 7] {
                assert_eq!(run(&values, 3, &labels, profile, &[("epochs", "3")], threads).unwrap(), once);
            }
        }
    }

    #[test]
    fn scale_of_the_columns_does_not_matter_when_standardised() {
        let (values, labels) = world(120, 3);
        let scaled: Vec<f32> = values.iter().enumerate().map(|(i, v)| v * [64.0, 1.0, 0.125][i % 3] + 4.0).collect();
        let cell = |values: &[f32], row| {
            let scores = run(values, 3, &labels, Profile::Paper, &[], 1).unwrap();
            scores.table("concept").unwrap().column("auc").unwrap().number(row).unwrap()
        };
        assert!((0..4).all(|row| (cell(&values, row) - cell(&scaled, row)).abs() < 1e-3));
    }

    #[test]
    fn edges_are_undefined_not_zero() {
        let values: Vec<f32> = (0..16).map(|i| (i % 5) as f32).collect();
        let all = |label: Label| vec![label; 8];
        let labels = [all(Label::No), all(Label::Yes), all(Label::Unknown)];
        let scores = run(&values, 2, &labels, Profile::Paper, &[], 1).unwrap();
        assert_eq!((scores.value("probe_f1"), scores.value("probe_auc")), (None, None));
        assert!(scores.notes[0].starts_with("3 of 3"), "{:?}", scores.notes);
        // The reference keeps what it can count: an empty concept is 0, an unknown one is nothing.
        let scores =
            run(&values, 2, &labels, Profile::Reference, &[("epochs", "200"), ("learning_rate", "0.1")], 1).unwrap();
        let f1: Vec<Option<f64>> =
            (0..3).map(|row| scores.table("concept").unwrap().column("f1").unwrap().number(row)).collect();
        assert_eq!(f1, [Some(0.0), Some(1.0), None]);
        for profile in [Profile::Paper, Profile::Reference] {
            assert_eq!(run(&[], 2, &[vec![]], profile, &[], 1).unwrap().value("probe_f1"), None);
            assert_eq!(run(&[1.0, 2.0], 2, &[], profile, &[], 1).unwrap().value("probe_f1"), None);
            assert_eq!(run(&[1.0, 2.0], 2, &[vec![Label::Yes]], profile, &[], 1).unwrap().value("probe_f1"), None);
        }
        // A constant column next to a useful one.
        let values: Vec<f32> = (0..80).flat_map(|row| [7.7, if row % 2 == 0 { 1.0 } else { -1.0 }]).collect();
        let labels = [(0..80).map(|row| if row % 2 == 0 { Label::Yes } else { Label::No }).collect()];
        assert_eq!(run(&values, 2, &labels, Profile::Paper, &[], 1).unwrap().value("probe_f1"), Some(1.0));
    }

    #[test]
    fn predictions_survive_packing() {
        let answers: Vec<bool> = (0..100).map(|i| i % 7 == 0 || i == 31 || i == 32).collect();
        let places: Vec<usize> = unpack(&pack(answers.iter().copied())).collect();
        assert_eq!(places, (0..100).filter(|&i| answers[i]).collect::<Vec<_>>());
    }
}
