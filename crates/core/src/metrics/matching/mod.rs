//! MATCHScore: do latents, alone or in coalitions, fire where people see a concept?

mod concepts;
mod fbmp;
mod firing;
mod naive;
mod nnomp;
mod placement;
mod strategy;

pub use concepts::{Matching, match_concepts};
pub use strategy::{BETA, K, MATCHER, Matcher, REFERENCE_BATCH, Strategy, THRESHOLD};
