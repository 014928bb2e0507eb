//! The metrics: one file each, one list.
//!
//! To add one: write its file, its `mod` line and its entry in [`METRICS`]. The command line, its help, the
//! documentation and the test battery follow from its [`Card`].

mod absorption;
mod blindspots;
mod card;
mod card_text;
mod cknna;
pub mod cooccurrence;
mod evaluate;
mod fid;
mod fms;
pub mod matching;
mod mdl;
mod meta_structure;
mod monosemanticity;
mod probe_ceiling;
mod probing;
mod reconstruction;
mod recovery;
mod resamples;
mod sae_probes;
mod sparse_probing;
mod spurious;
mod stability;
mod stay;
mod tapa;
#[cfg(test)]
pub(crate) mod testing;
mod training;

pub use card::{Better, Card, Kind, Output, Param};
pub use evaluate::{Evaluated, Evaluation, evaluate, evaluate_together, recipe};

use crate::error::Result;
use crate::results::Scores;
use crate::run::{Job, Work};

/// A way to measure.
pub trait Metric: Sync {
    /// What it is, what it needs, what it gives.
    fn card(&self) -> &'static Card;
    /// Computes the scores. Everything long goes through `work`; loops outside of it must be short.
    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores>;
}

/// All metrics, in the order in which people read them.
pub static METRICS: &[&dyn Metric] = &[
    &matching::Match,
    &tapa::Tapa,
    &stay::Stay,
    &monosemanticity::Monosemanticity,
    &cknna::Cknna,
    &fms::Fms,
    &probe_ceiling::ProbeCeiling,
    &sparse_probing::SparseProbing,
    &sae_probes::SaeProbes,
    &spurious::Scr,
    &spurious::Tpp,
    &absorption::Absorption,
    &mdl::Mdl,
    &meta_structure::MetaStructure,
    &recovery::Recovery,
    &reconstruction::Reconstruction,
    &stability::Stability,
    &cooccurrence::Cooccurrence,
    &fid::Fid,
    &training::Training,
    &blindspots::Blindspots,
    &blindspots::BlindspotModels,
    &blindspots::Divergence,
    &blindspots::Frequency,
];

/// Metrics that train probes or dictionaries by the hundred and may take minutes: computed where they are named.
pub const SLOW: &[&str] = &["sparse_probing", "sae_probes", "scr", "tpp", "absorption", "meta_structure"];

/// A metric by name.
pub fn find(name: &str) -> Option<&'static dyn Metric> {
    METRICS.iter().copied().find(|metric| metric.card().name == name)
}
