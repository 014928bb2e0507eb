//! How latents are selected for a concept: the matcher and its parameters.

use std::fmt;

use serde_json::Value;

use crate::codes::Codes;
use crate::error::{Error, Result};
use crate::metrics::card::distinct;
use crate::metrics::{Kind, Param};
use crate::results::{Profile, Table};
use crate::run::Job;

/// The parameter `matcher`, shared with `tapa` and `stay`.
pub const MATCHER: Param = Param::new(
    "matcher",
    "How latents are selected for a concept: the best one, the k best, a binary pursuit, or a non-negative pursuit",
    Kind::Word(&["one-to-one", "naive", "fbmp", "nnomp"]),
    "fbmp",
)
.several();

/// The parameter `beta`.
pub const BETA: Param = Param::new(
    "beta",
    "Weight of recall against precision in each step of fbmp; below 1 favours precision",
    Kind::Number(0.01, 100.0),
    "0.5",
)
.several();

/// The parameter `k`.
pub const K: Param =
    Param::new("k", "Maximum number of latents per concept (one-to-one always selects one)", Kind::Whole(1, 1000), "3")
        .several();

/// The parameter `threshold`.
pub const THRESHOLD: Param =
    Param::new("threshold", "A latent fires where its value is above this", Kind::Number(0.0, f64::INFINITY), "0")
        .reference("1e-8");

/// The parameter `reference_batch`, shared with `fms`.
pub const REFERENCE_BATCH: Param = Param::new(
    "reference_batch",
    "Misplace the last batch of this many rows as the released code does, which loses some rows; 0 keeps every row",
    Kind::Whole(0, u64::MAX),
    "0",
)
.reference("1024");

/// The parameter `row_groups`.
pub const ROW_GROUPS: Param = Param::new(
    "row_groups",
    "Also compute the interval over rows, by leaving out each of this many groups of rows in turn; 0 for none, else at least 5",
    Kind::Whole(0, 1000),
    "0",
);

/// An algorithm that selects latents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// The latent with the best F1.
    OneToOne,
    /// The k latents with the best F1, each scored alone.
    Naive,
    /// Fully-binary matching pursuit: each latent is scored against the residual.
    Fbmp,
    /// Non-negative orthogonal matching pursuit on the values of the codes.
    Nnomp,
}

impl Matcher {
    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Matcher::OneToOne => "one-to-one",
            Matcher::Naive => "naive",
            Matcher::Fbmp => "fbmp",
            Matcher::Nnomp => "nnomp",
        }
    }

    fn of(name: &str) -> Option<Matcher> {
        [Matcher::OneToOne, Matcher::Naive, Matcher::Fbmp, Matcher::Nnomp].into_iter().find(|m| m.name() == name)
    }
}

/// A matcher with its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strategy {
    pub matcher: Matcher,
    /// The weight of recall; `fbmp` only.
    pub beta: Option<f64>,
    /// Maximum size of a coalition; 1 for one-to-one.
    pub k: usize,
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.matcher.name())?;
        if let Some(beta) = self.beta {
            write!(f, " beta={beta}")?;
        }
        if self.matcher == Matcher::OneToOne { Ok(()) } else { write!(f, " k={}", self.k) }
    }
}

impl Strategy {
    /// Every combination of the parameters `matcher`, `beta` and `k`, in the order given, each once.
    pub fn from_params(job: &Job<'_>) -> Result<Vec<Strategy>> {
        let bug = |name: &str| Error::Bug(format!("parameter `{name}` was not checked"));
        let (betas, sizes) = (job.several(BETA.name)?, job.several(K.name)?);
        let mut strategies = Vec::new();
        for matcher in job.several(MATCHER.name)? {
            let matcher = matcher.as_str().and_then(Matcher::of).ok_or_else(|| bug("matcher"))?;
            let betas = if matcher == Matcher::Fbmp { betas.iter().map(Value::as_f64).collect() } else { vec![None] };
            for beta in betas {
                for k in &sizes {
                    let k = k.as_u64().ok_or_else(|| bug("k"))? as usize;
                    strategies.push(Strategy { matcher, beta, k: if matcher == Matcher::OneToOne { 1 } else { k } });
                }
            }
        }
        Ok(distinct(strategies.into_iter()))
    }

    /// The maximum number of steps of a run. In the released code it does not depend on `k`.
    pub fn steps(&self, profile: Profile, codes: &Codes, concepts: usize) -> usize {
        let latents = codes.latents();
        match (profile, self.matcher) {
            (_, Matcher::OneToOne) => 1,
            (Profile::Paper, _) => self.k.min(latents),
            (Profile::Reference, Matcher::Naive) => latents.min(10),
            (Profile::Reference, Matcher::Nnomp) => latents.min(20),
            // The number of concepts, where the number of latents was meant.
            (Profile::Reference, Matcher::Fbmp) => codes.rows().min(concepts).min(20),
        }
    }

    /// Whether two strategies differ in `k` at most, so that one run serves both.
    pub fn shares_run(&self, other: &Strategy) -> bool {
        self.matcher == other.matcher && self.beta == other.beta
    }
}

/// A table by strategy and concept, with the columns `strategy` and `name`.
pub fn concept_table(strategies: &[Strategy], names: &[String]) -> Table {
    Table::new("concept")
        .words("strategy", strategies.iter().flat_map(|strategy| names.iter().map(|_| strategy.to_string())))
        .words("name", strategies.iter().flat_map(|_| names.iter().cloned()))
}
