//! Concept purity: what the representation of a concept says about other concepts, and the measures of disentanglement
//! and leakage that are compared with it.

mod alignment;
mod areas;
#[cfg(test)]
mod claims_tests;
mod concepts;
mod dci;
mod explicitness;
#[cfg(test)]
mod golden_tests;
mod information;
mod known;
mod leakage;
mod mig;
mod nis;
mod ois;
mod oracle;
mod predictive;
mod probes;
mod r4;
mod sap;
#[cfg(test)]
mod tree_golden_tests;

pub use dci::Dci;
pub use explicitness::Explicitness;
pub use leakage::{Ctl, Icl};
pub use mig::{Mig, Modularity};
pub use nis::Nis;
pub use ois::Ois;
pub use predictive::{ConceptAuc, TaskAuc};
pub use r4::R4;
pub use sap::{ConceptAlignment, Sap};
