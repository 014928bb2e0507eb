//! Networks among what a user gave, and what was captured of them.

use super::given::Given;
use super::network_source::{CapturedInputs, KEYS, NetworkSource, Written};
use crate::error::{InputError, Key, Result};
use crate::run::{EMBEDDINGS, LABELS, NETWORK, PAIRS};

impl Given {
    /// The network that the embeddings come from, if one is given; refuses one that lacks a key or is given beside
    /// embeddings.
    pub fn network(&self) -> Result<Option<NetworkSource>> {
        let written = &self.network;
        if written.is_empty() {
            return Ok(None);
        }
        if self.has(EMBEDDINGS.card().key) {
            return Err(InputError::new(format!("{} and a network are given", Key(EMBEDDINGS.card().key)))
                .expected("embeddings from a file, or from a network")
                .advice("remove one of them")
                .into());
        }
        match (&written.model, &written.input, &written.site) {
            (Some(model), Some(input), Some(site)) => Ok(Some(NetworkSource {
                model: model.clone(),
                input: input.clone(),
                site: site.clone(),
                settings: written.settings.clone().unwrap_or_default(),
            })),
            (model, input, site) => {
                let lacks = KEYS.into_iter().zip([model, input, site]).filter(|(_, value)| value.is_none());
                let lacks: Vec<String> = lacks.map(|(key, _)| Key(key).to_string()).collect();
                Err(InputError::new("the network that gives the embeddings is incomplete")
                    .expected(format!("{}, {} and {}", Key("model"), Key("input"), Key("site")))
                    .found(format!("no {}", lacks.join(", no ")))
                    .into())
            }
        }
    }

    /// Replaces the network by what was captured. Labels, pairs and a capture that the user gave are kept.
    #[must_use]
    pub fn captured(mut self, captured: &CapturedInputs) -> Given {
        self.network = Written::default();
        self.set(EMBEDDINGS.card().key, captured.store.clone());
        let given = [(LABELS.card().key, &captured.labels), (PAIRS.card().key, &captured.pairs)];
        for (key, value) in given.into_iter().chain([(NETWORK.card().key, &captured.capture)]) {
            if let Some(value) = value.as_ref().filter(|_| !self.has(key)) {
                self.add(key, value.clone());
            }
        }
        self
    }

    /// Fills what a network lacks from `other`, unless embeddings are given here. A network here overrides embeddings
    /// there.
    pub(super) fn or_network(&mut self, other: &Given) {
        let own = std::mem::take(&mut self.network);
        self.network = if self.has(EMBEDDINGS.card().key) { own } else { own.or(&other.network) };
    }

    /// Whether a network is given.
    pub(super) fn has_network(&self) -> bool {
        !self.network.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Given {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn sets_complete_the_network_of_the_inputs() {
        let inputs = read("model = \"m\"\ninput = \"d\"\ncapture = {context = 8, pack = true}\nlabels = \"l.csv\"\n");
        let set = read("site = \"s\"\nsae = \"a\"\n").or(&inputs);
        let source = set.network().unwrap().unwrap();
        assert_eq!((source.model.as_str(), source.input.as_str(), source.site.as_str()), ("m", "d", "s"));
        let settings: Vec<(&str, &str)> = source.settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(settings, [("context", "8"), ("pack", "true")]);
        let captured = CapturedInputs {
            store: "x".into(),
            labels: Some("own".into()),
            pairs: Some("p".into()),
            capture: Some("c".into()),
        };
        let given = set.captured(&captured);
        assert_eq!((given.first("embeddings"), given.first("labels")), (Some("x"), Some("l.csv")));
        assert_eq!(given.first("pairs"), Some("p"));
        assert_eq!((given.first("capture"), given.network().unwrap()), (Some("c"), None));
        let error = inputs.network().unwrap_err().to_string();
        assert!(error.contains("incomplete") && error.contains("site"), "{error}");
    }

    #[test]
    fn a_set_has_its_own_source_of_embeddings() {
        let network = read("model = \"m\"\ninput = \"d\"\nsite = \"s\"\n");
        let file = read("embeddings = \"x.npy\"\n");
        // Both in one place contradict each other; otherwise the set wins.
        assert!(read("model = \"m\"\nembeddings = \"x.npy\"\n").network().is_err());
        assert_eq!(file.clone().or(&network).network().unwrap(), None);
        let set = network.or(&file);
        assert!(set.network().unwrap().is_some() && !set.has("embeddings"));
        // A capture is a directory, or a table of settings.
        assert_eq!(read("capture = \"c\"\n").first("capture"), Some("c"));
        let wrong = toml::from_str::<Given>("codes = {a = 1}").unwrap_err().to_string();
        assert!(wrong.contains("a string"), "{wrong}");
    }
}
