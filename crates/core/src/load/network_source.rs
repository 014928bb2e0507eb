//! Activations that come from running a network instead of from a file. The library has no networks: the program captures
//! them and gives the result to [`Given::captured`](super::Given::captured).

use std::collections::BTreeMap;

/// What a user wrote about a network: any of the keys `model`, `input` and `site`, and a table of settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Written {
    pub model: Option<String>,
    pub input: Option<String>,
    pub site: Option<String>,
    pub settings: Option<BTreeMap<String, String>>,
}

/// The keys of a network in a study file, besides the table `capture`.
pub(super) const KEYS: [&str; 3] = ["model", "input", "site"];

/// A network, what it is run on, and the site whose activations are the embeddings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkSource {
    /// The network.
    pub model: String,
    /// Texts or images.
    pub input: String,
    /// The site.
    pub site: String,
    /// Settings of the capture, as on the command line.
    pub settings: BTreeMap<String, String>,
}

/// What a program captured for a [`NetworkSource`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CapturedInputs {
    /// The store of the activations.
    pub store: String,
    /// Labels of the rows, if they fit.
    pub labels: Option<String>,
    /// Pairs of samples, if rows are samples.
    pub pairs: Option<String>,
    /// The capture, for metrics that run the network again.
    pub capture: Option<String>,
}

impl Written {
    /// The field of a key.
    pub fn field(&mut self, key: &str) -> Option<&mut Option<String>> {
        Some(match key {
            "model" => &mut self.model,
            "input" => &mut self.input,
            "site" => &mut self.site,
            _ => return None,
        })
    }

    pub fn is_empty(&self) -> bool {
        *self == Written::default()
    }

    pub fn or(self, other: &Written) -> Written {
        Written {
            model: self.model.or_else(|| other.model.clone()),
            input: self.input.or_else(|| other.input.clone()),
            site: self.site.or_else(|| other.site.clone()),
            settings: self.settings.or_else(|| other.settings.clone()),
        }
    }
}
