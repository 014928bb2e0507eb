//! How latents are chosen for a concept: the matcher, what it weighs, and how many it may take.

use std::fmt;

use crate::error::{Error, Result};
use crate::metrics::{Kind, Param};
use crate::run::Job;

/// The parameter that names the matchers. `tapa` and `stay` declare the same.
pub const MATCHER: Param = Param {
    name: "matcher",
    doc: "how latents are chosen for a concept: the best one, the k best ones, a binary pursuit, or a non-negative pursuit",
    kind: Kind::Word(&["one-to-one", "naive", "fbmp", "nnomp"]),
    several: true,
    default: "fbmp",
    reference: None,
};

/// The parameter that weighs recall against precision while `fbmp` chooses.
pub const BETA: Param = Param {
    name: "beta",
    doc: "fbmp only: weight of recall against precision in the choice of the next latent; below 1 favours precision",
    kind: Kind::Number(0.01, 100.0),
    several: true,
    default: "0.5",
    reference: None,
};

/// The parameter that bounds a coalition.
pub const K: Param = Param {
    name: "k",
    doc: "the largest number of latents that a concept may have (one-to-one always takes one)",
    kind: Kind::Whole(1, 1000),
    several: true,
    default: "3",
    reference: None,
};

/// The parameter that says when a latent fires.
pub const THRESHOLD: Param = Param {
    name: "threshold",
    doc: "a latent fires where its value is above this",
    kind: Kind::Number(0.0, f64::INFINITY),
    several: false,
    default: "0",
    reference: Some("1e-8"),
};

/// The parameter that repeats the row placement of the released program.
pub const REFERENCE_BATCH: Param = Param {
    name: "reference_batch",
    doc: "place rows as the released program does with this batch size, which loses some of them; 0 keeps every row",
    kind: Kind::Whole(0, u64::MAX),
    several: false,
    default: "0",
    reference: Some("1024"),
};

/// A way to choose latents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matcher {
    /// The latent with the best F1.
    OneToOne,
    /// The k latents with the best F1, each judged alone.
    Naive,
    /// Fully-binary matching pursuit: each next latent is judged by what is still unexplained.
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

/// A matcher with its settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strategy {
    /// How latents are chosen.
    pub matcher: Matcher,
    /// The weight of recall; only `fbmp` has one.
    pub beta: Option<f64>,
    /// The largest coalition; 1 for one-to-one.
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
    /// Every matcher × beta × k that the parameters ask for, in the order given, each once.
    pub fn from_params(job: &Job<'_>) -> Result<Vec<Strategy>> {
        let bug = |name: &str| Error::Bug(format!("parameter `{name}` was not checked"));
        let matchers = job.several(MATCHER.name)?;
        let betas = job.several(BETA.name)?;
        let sizes = job.several(K.name)?;
        let mut strategies = Vec::new();
        for matcher in &matchers {
            let matcher = matcher.as_str().and_then(Matcher::of).ok_or_else(|| bug("matcher"))?;
            let betas = match matcher {
                Matcher::Fbmp => betas.iter().map(|b| b.as_f64()).collect(),
                _ => vec![None],
            };
            for beta in betas {
                for k in &sizes {
                    let k = k.as_u64().ok_or_else(|| bug("k"))? as usize;
                    let strategy = Strategy { matcher, beta, k: if matcher == Matcher::OneToOne { 1 } else { k } };
                    if !strategies.contains(&strategy) {
                        strategies.push(strategy);
                    }
                }
            }
        }
        Ok(strategies)
    }
}
