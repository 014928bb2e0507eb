//! The best probe of every concept, headline numbers and tables.

use etalon_kernel::bits::Bits;
use etalon_kernel::statistics::mean;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::fit::{Fold, ProbeResult};
use super::packed::unpack;
use crate::context::Reservation;
use crate::error::Result;
use crate::labels::Concept;
use crate::metrics::estimate::Estimate;
use crate::metrics::matching::f1;
use crate::results::{Cells, Profile, Scores, Table};
use crate::run::{Job, LABELS};

/// The numbers of one concept.
#[derive(Default, Serialize, Deserialize)]
pub(super) struct ConceptResult {
    positives: usize,
    own: Option<f64>,
    best: Option<BestProbe>,
    auc: Option<f64>,
}

/// The probe with the best F1 for a concept.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct BestProbe {
    probe: usize,
    f1: f64,
}

/// The predictions of all probes, as sets of rows.
pub(super) struct Predicted {
    /// By concept, the rows predicted by its probes.
    by_concept: Vec<Bits>,
    /// All scored rows.
    scored: Bits,
    _memory: Reservation,
}

/// The results of all probes.
pub(super) struct Results<'a> {
    pub folds: &'a [Fold],
    pub concepts: usize,
    /// By fold, then by concept; `None` if a class is missing.
    pub probes: &'a [Option<ProbeResult>],
}

impl Results<'_> {
    /// The probes of a concept, by fold.
    fn of(&self, concept: usize) -> impl Iterator<Item = Option<&ProbeResult>> {
        (0..self.folds.len()).map(move |fold| self.probes[fold * self.concepts + concept].as_ref())
    }

    fn is_fitted(&self, concept: usize) -> bool {
        self.of(concept).all(|probe| probe.is_some())
    }

    fn scored(&self, rows: usize) -> Bits {
        Bits::of(rows, self.folds.iter().flat_map(|fold| &fold.scored).copied())
    }

    /// The rows predicted by the probes of every concept.
    pub fn predicted(&self, job: &Job<'_>) -> Result<Predicted> {
        let rows = job.get(&LABELS)?.rows();
        let bytes = rows.div_ceil(64) as u64 * 8 * (self.concepts as u64 + 1);
        let memory = job.budget().reserve(bytes, "the predictions of all probes")?;
        let of_concept = |concept: usize| {
            job.check()?;
            let rows_of = |(probe, fold): (Option<&ProbeResult>, &Fold)| -> Vec<usize> {
                let predicted = probe.map_or(&[][..], |probe| &probe.predicted);
                unpack(predicted).filter_map(|index| fold.scored.get(index).copied()).collect()
            };
            Ok(Bits::of(rows, self.of(concept).zip(self.folds).flat_map(rows_of)))
        };
        let by_concept = (0..self.concepts).into_par_iter().map(of_concept).collect::<Result<Vec<Bits>>>()?;
        Ok(Predicted { by_concept, scored: self.scored(rows), _memory: memory })
    }

    /// The own and the best probe of a concept.
    pub fn concept(&self, job: &Job<'_>, predicted: &Predicted, concept: usize) -> Result<ConceptResult> {
        let (labels, label) = (job.get(&LABELS)?, Concept(concept as u32));
        let (mut yes, mut known) = (labels.yes(label).clone(), labels.known(label).clone());
        yes.intersect(&predicted.scored);
        known.intersect(&predicted.scored);
        let positives = yes.count();
        let is_defined = match job.profile {
            Profile::Paper => self.is_fitted(concept) && positives > 0,
            Profile::Reference => known.count() > 0,
        };
        if !is_defined {
            return Ok(ConceptResult { positives, ..ConceptResult::default() });
        }
        let f1_of = |probe: usize| {
            let predicted = &predicted.by_concept[probe];
            f1(yes.count_and(predicted), positives, known.count_and(predicted))
        };
        let own = f1_of(concept);
        let mut best = BestProbe { probe: concept, f1: own };
        for probe in (0..self.concepts).filter(|&probe| self.is_fitted(probe)) {
            job.check()?;
            let f1 = f1_of(probe);
            if f1 > best.f1 || (f1 == best.f1 && probe < best.probe) {
                best = BestProbe { probe, f1 };
            }
        }
        let areas: Vec<f64> = self.of(concept).flatten().filter_map(|probe| probe.auc).collect();
        Ok(ConceptResult { positives, own: Some(own), best: Some(best), auc: mean(&areas) })
    }

    /// Headline numbers, table and notes.
    pub fn scores(&self, job: &Job<'_>, concepts: &[ConceptResult]) -> Result<Scores> {
        let labels = job.get(&LABELS)?;
        let mut scores = Scores::default();
        let columns: [(&str, Vec<Option<f64>>); 3] = [
            ("probe_f1", concepts.iter().map(|concept| concept.best.map(|best| best.f1)).collect()),
            ("probe_own_f1", concepts.iter().map(|concept| concept.own).collect()),
            ("probe_auc", concepts.iter().map(|concept| concept.auc).collect()),
        ];
        for (key, column) in &columns {
            let values: Vec<f64> = column.iter().flatten().copied().collect();
            Estimate::mean(&values, job.seed, &format!("probe_ceiling/{key}")).headline(key, &mut scores);
        }
        let undefined = concepts.iter().filter(|concept| concept.own.is_none()).count();
        if undefined > 0 {
            let all = self.concepts;
            scores.note(format!(
                "{undefined} of {all} concepts have no positive row, or one class only in a training half: undefined"
            ));
        }
        let unfinished = self.probes.iter().flatten().filter(|probe| !probe.converged).count();
        if unfinished > 0 {
            let probes = self.probes.len();
            scores.note(format!("{unfinished} of {probes} fits did not converge; try a smaller `c`"));
        }
        if job.profile == Profile::Reference {
            let (rows, scored) = (labels.rows(), self.scored(labels.rows()).count());
            scores.note(format!("fitted on {} rows and scored on the other {scored}", rows - scored));
        }
        let [best, own, auc] = columns.map(|(_, column)| column);
        let best_probe = concepts.iter().map(|concept| concept.best.map(|best| best.probe as i64)).collect();
        scores.tables.push(
            Table::new("concept")
                .words("name", labels.names())
                .counts("positives", concepts.iter().map(|concept| concept.positives))
                .numbers("f1", own)
                .numbers("f1_best", best)
                .with("best_probe", Cells::Whole(best_probe))
                .numbers("auc", auc),
        );
        Ok(scores)
    }
}
