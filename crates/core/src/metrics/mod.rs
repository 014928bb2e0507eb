//! The metrics: one file or folder each, and one list.
//!
//! To add a metric, write its file, its `mod` line and its entry in [`METRICS`]. Command line, help, documentation and
//! test battery are generated from its [`Card`].

mod absorption;
mod autointerp;
mod blindspots;
mod card;
mod card_text;
mod cknna;
mod cooccurrence;
mod estimate;
mod evaluate;
mod fid;
mod fms;
mod his;
mod logit_effects;
mod loss_recovered;
mod matching;
mod mdl;
mod meta_structure;
mod mis;
mod monosemanticity;
mod probe_ceiling;
mod probing;
mod purity;
mod rank_tests;
mod ravel;
mod reconstruction;
mod recovery;
mod resamples;
mod sae_probes;
mod sparse_probing;
mod spurious;
mod stability;
mod stay;
mod steer;
mod tapa;
#[cfg(test)]
pub(crate) mod testing;
mod training;
mod unit_rows;
mod unlearning;
mod windows;

pub use card::{Better, Card, Kind, Output, Param};
pub use evaluate::{Evaluated, Evaluation, evaluate, evaluate_together, recipe};
pub use mis::{SimulatedAnswer, TwoChoiceTask, UnitTasks, simulated_answers, two_choice_tasks};

use crate::error::Result;
use crate::results::Scores;
use crate::run::{Job, Work};

/// A metric.
pub trait Metric: Sync {
    /// Its description: inputs, parameters, headline numbers, documentation.
    fn card(&self) -> &'static Card;
    /// Computes the scores. Long computations are stages of `work`; loops outside of a stage must be short.
    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores>;
}

/// All metrics, in the order of the documentation.
pub static METRICS: &[&dyn Metric] = &[
    &matching::Match,
    &tapa::Tapa,
    &stay::Stay,
    &monosemanticity::Monosemanticity,
    &mis::Mis,
    &his::His,
    &windows::Intruder,
    &windows::ExampleEmbedding,
    &autointerp::Autointerp,
    &cknna::Cknna,
    &fms::Fms,
    &probe_ceiling::ProbeCeiling,
    &purity::Ois,
    &purity::Nis,
    &purity::Sap,
    &purity::Mig,
    &purity::R4,
    &purity::Dci,
    &purity::Modularity,
    &purity::Explicitness,
    &purity::ConceptAlignment,
    &purity::ConceptAuc,
    &purity::TaskAuc,
    &purity::Ctl,
    &purity::Icl,
    &sparse_probing::SparseProbing,
    &sae_probes::SaeProbes,
    &spurious::Scr,
    &spurious::Tpp,
    &absorption::Absorption,
    &mdl::Mdl,
    &meta_structure::MetaStructure,
    &recovery::Recovery,
    &reconstruction::Reconstruction,
    &loss_recovered::LossRecovered,
    &ravel::Ravel,
    &logit_effects::LogitEffects,
    &unlearning::Unlearning,
    &steer::Steer,
    &stability::Stability,
    &cooccurrence::Cooccurrence,
    &fid::Fid,
    &training::Training,
    &blindspots::Blindspots,
    &blindspots::BlindspotModels,
    &blindspots::Divergence,
    &blindspots::Frequency,
];

/// Metrics that are only computed if requested by name: those that train many probes, trees or dictionaries and may take
/// minutes, the family around them, and those whose embeddings must be of images or windows of text.
pub const SLOW: &[&str] = &[
    "sparse_probing",
    "sae_probes",
    "scr",
    "tpp",
    "absorption",
    "meta_structure",
    // Concept purity.
    "ois",
    "nis",
    "sap",
    "mig",
    "r4",
    "dci",
    "modularity",
    "explicitness",
    "concept_alignment",
    "concept_auc",
    "task_auc",
    "ctl",
    "icl",
    "mis",
    "intruder",
    "example_embedding",
    "autointerp",
    "ravel",
    "his",
    "unlearning",
    "steer",
];

/// Finds a metric by name.
pub fn find(name: &str) -> Option<&'static dyn Metric> {
    METRICS.iter().copied().find(|metric| metric.card().name == name)
}
