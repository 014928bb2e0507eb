//! Decision trees of one concept, and the parts of its score.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::{permutation, stream};
use etalon_kernel::statistics::mean;
use serde::{Deserialize, Serialize};

use crate::codes::CodesView;
use crate::error::Result;
use crate::labels::Concept;
use crate::probe::tree::{Tree, TreeRows};
use crate::probe::tree_accuracy::{accuracies, accuracies_on, accuracy_on, reference_accuracies};
use crate::results::Profile;
use crate::run::Job;

/// The same number of rows of both classes, in random order, positives and negatives alternating.
pub(super) fn balanced(yes: &Bits, known: &Bits, concept: Concept, seed: u64) -> Vec<(usize, bool)> {
    let mut random = stream(seed, "fms/balance", u64::from(concept.0));
    let mut shuffled = |rows: Vec<usize>| -> Vec<usize> {
        permutation(rows.len(), &mut random).into_iter().map(|index| rows[index]).collect()
    };
    let positives = shuffled(yes.rows().collect());
    let negatives = shuffled(known.rows().filter(|&row| !yes.contains(row)).collect());
    positives.into_iter().zip(negatives).flat_map(|(yes, no)| [(yes, true), (no, false)]).collect()
}

/// The results of one concept.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct MeasuredConcept {
    /// Rows with the concept.
    pub positives: usize,
    /// Balanced rows.
    pub rows: usize,
    /// Depth of the tree grown on them.
    pub depth: usize,
    /// The split at the root of this tree.
    pub root: Option<Root>,
    /// Measured on the rows that the tree was grown on.
    pub measured: Option<Measured>,
    /// Measured on held-out rows.
    pub held_out: Option<HeldOut>,
}

/// The first split of a tree.
#[derive(Serialize, Deserialize)]
pub(super) struct Root {
    pub latent: u32,
    pub threshold: f64,
}

/// Held-out numbers, the mean of both directions.
#[derive(Serialize, Deserialize)]
pub(super) struct HeldOut {
    /// The accuracy of the stump.
    pub accuracy: f64,
    pub fms: f64,
}

/// The parts of the score of one concept.
#[derive(Serialize, Deserialize)]
pub(super) struct Measured {
    /// The accuracy of the stump.
    pub accuracy: f64,
    pub global: f64,
    /// The accuracies of the stumps after each cut.
    stumps: Vec<f64>,
}

impl Measured {
    fn new(levels: &[f64], stumps: Vec<f64>, profile: Profile) -> Option<Measured> {
        let accuracy = *levels.get(1)?;
        let mut others: Vec<f64> = levels.iter().skip(2).map(|level| level - accuracy).collect();
        if profile == Profile::Reference {
            others.insert(0, levels[0] - accuracy);
        }
        Some(Measured { accuracy, global: 1.0 - mean(&others).unwrap_or(0.0), stumps })
    }

    /// MS_local after each cut.
    pub fn local(&self) -> Vec<f64> {
        self.stumps.iter().map(|stump| 2.0 * (self.accuracy - stump)).collect()
    }

    /// The score after each cut.
    pub fn scores(&self) -> Vec<f64> {
        self.local().iter().map(|local| self.accuracy * (local + self.global) / 2.0).collect()
    }
}

/// Grows trees on the codes of a job.
pub(super) struct Trees<'a> {
    pub job: &'a Job<'a>,
    /// The codes, in the order of the job.
    pub codes: CodesView<'a>,
    /// The parameter `cuts`.
    pub cuts: usize,
}

impl Trees<'_> {
    /// Measures one concept on its balanced rows; `positives` is not set.
    pub fn measure(&self, rows: &[(usize, bool)]) -> Result<MeasuredConcept> {
        let entries: usize = rows.iter().map(|&(row, _)| self.codes.entries(row).len()).sum();
        let bytes = 48 * entries as u64 + 64 * rows.len() as u64;
        let _memory = self.job.budget().reserve(bytes, "the rows of a concept for its trees")?;
        let whole = self.whole(rows)?;
        let half = rows.len() / 4 * 2;
        let (one, other) = (&rows[..half], &rows[half..2 * half]);
        let held_out = match [self.held_out(one, other)?, self.held_out(other, one)?] {
            [Some(one), Some(other)] => {
                let fms = |half: &Measured| mean(&half.scores()).unwrap_or(0.0);
                Some(HeldOut { accuracy: (one.accuracy + other.accuracy) / 2.0, fms: (fms(&one) + fms(&other)) / 2.0 })
            }
            _ => None,
        };
        Ok(MeasuredConcept { held_out, ..whole })
    }

    /// Grows and scores a tree on the same rows.
    fn whole(&self, rows: &[(usize, bool)]) -> Result<MeasuredConcept> {
        let profile = self.job.profile;
        let sample = TreeRows::new(self.codes, rows)?;
        let tree = Tree::grow_monitored(&sample, None, &[], self.job.context)?;
        let splits = sample.best_splits(self.cuts + 1);
        let levels = match profile {
            Profile::Paper => accuracies(&tree),
            Profile::Reference => reference_accuracies(&tree),
        };
        let stump = |number: usize| match profile {
            Profile::Paper => Some(splits.get(number).map_or(0.5, |split| split.correct() as f64 / rows.len() as f64)),
            // The level of the stump in a larger tree has the same truncated counts as the stump alone.
            Profile::Reference => reference_accuracies(&Tree::stump(*splits.get(number)?)).get(1).copied(),
        };
        let stumps = (1..=self.cuts).map_while(stump).collect();
        let root = tree.nodes.first().and_then(|root| root.split);
        Ok(MeasuredConcept {
            rows: rows.len(),
            depth: tree.depth(),
            root: root.map(|split| Root { latent: split.latent.0, threshold: split.threshold }),
            measured: Measured::new(&levels, stumps, profile),
            ..MeasuredConcept::default()
        })
    }

    /// Grows and selects on some rows, scores on others.
    fn held_out(&self, grown: &[(usize, bool)], scored: &[(usize, bool)]) -> Result<Option<Measured>> {
        let sample = TreeRows::new(self.codes, grown)?;
        let tree = Tree::grow_monitored(&sample, None, &[], self.job.context)?;
        let levels = accuracies_on(&tree, self.codes, scored);
        let splits = sample.best_splits(self.cuts + 1);
        let mut stumps: Vec<f64> = splits.iter().skip(1).map(|split| accuracy_on(split, self.codes, scored)).collect();
        stumps.resize(self.cuts, 0.5);
        let measured = Measured::new(&levels, stumps, Profile::Paper);
        Ok(measured.map(|measured| Measured { global: measured.global.min(1.0), ..measured }))
    }
}
