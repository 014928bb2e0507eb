//! Inputs that a dictionary makes: codes from embeddings, directions from its decoder.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::generated::models;
use super::load::{Paths, load_activations};
use crate::budget::Budget;
use crate::error::{Complaint, InFile, Result};
use crate::input::Finite;
use crate::progress::Progress;
use crate::run::Inputs;
use crate::sae::checkpoint::{self, Loaded};
use crate::sae::train::Record;
use crate::sae::{Dictionary, encode_store};
use crate::store::ActivationStore;

/// What a checkpoint turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recognised {
    /// Such as "SAELens 6, jumprelu, 24 → 64".
    pub text: String,
    /// What the user should know.
    pub notes: Vec<String>,
}

impl Paths {
    /// If a dictionary is named: encodes the embeddings, and those of the pairs, and takes its directions where none are
    /// given. Without embeddings it can only be compared with others. Call it on the threads that should do the work.
    pub fn encode(
        &self,
        base: &Path,
        inputs: &mut Inputs,
        budget: &Budget,
        progress: &dyn Progress,
        cancel: &AtomicBool,
    ) -> Result<Option<Recognised>> {
        let Some(sae) = &self.sae else { return Ok(None) };
        let path = base.join(sae);
        if inputs.codes.is_some() || inputs.pair_codes.is_some() {
            return Err(Complaint::new("there are codes as well as a dictionary that would make them")
                .expected("either `sae`, or `codes` and `pair-codes`")
                .file(&path)
                .into());
        }
        let store = inputs.embeddings.clone();
        if store.is_none() && inputs.others.is_empty() {
            return Err(Complaint::new("the dictionary has nothing to encode")
                .expected("the activations of the rows, as `store` or `embeddings`")
                .file(&path)
                .into());
        }
        let Loaded { dictionary, recognised, notes, about, .. } = checkpoint::load(&path, budget)?;
        inputs.training = Record::of(&about).map(Arc::new);
        let encode = |store: &ActivationStore| encode_store(&dictionary, store, progress, cancel).map(Arc::new);
        inputs.codes = store.as_deref().map(encode).transpose()?;
        inputs.pair_codes = inputs.pair_embeddings.as_deref().map(encode).transpose()?;
        let generated = self.clone().with_world(base)?.generated;
        inputs.models = models(&generated, |text| {
            let store = Arc::new(load_activations(&base.join(text), Finite::Refuse, budget)?);
            Ok((encode(&store)?, Some(store)))
        })?;
        if inputs.directions.is_none() {
            let width = dictionary.card().width;
            inputs.directions =
                Some(Arc::new(ActivationStore::from_rows(dictionary.directions().to_vec(), width).in_file(&path)?));
        }
        inputs.dictionary = Some(Arc::new(dictionary));
        Ok(Some(Recognised { text: recognised, notes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Latent;
    use crate::progress::{Silent, Watch};
    use crate::sae::untrained;
    use crate::store::write_npy;

    #[test]
    fn a_dictionary_brings_codes_and_directions() {
        let scratch = tempfile::tempdir().unwrap();
        let value = |row: usize, column: usize| ((row * 7 + column * 3) % 11) as f32 - 5.0;
        let write = |name: &str, rows: usize| {
            write_npy(&scratch.path().join(name), rows, 4, |row, into| {
                into.iter_mut().enumerate().for_each(|(column, into)| *into = value(row, column));
                Ok(())
            })
            .unwrap();
        };
        write("x.npy", 20);
        write("pairs.npy", 6);
        let store = ActivationStore::from_rows((0..80).map(|i| value(i / 4, i % 4)).collect(), 4).unwrap();
        let dictionary = untrained(&store, 9, 2, 0).unwrap();
        checkpoint::save(&dictionary, &serde_json::Map::new(), "etalon", &scratch.path().join("sae")).unwrap();
        let budget = Budget::new(1 << 24);
        let cancel = AtomicBool::new(false);
        let paths = Paths {
            sae: Some("sae".into()),
            embeddings: Some("x.npy".into()),
            pair_embeddings: Some("pairs.npy".into()),
            generated: vec!["a=x.npy".into()],
            ..Paths::default()
        };
        let mut inputs = paths.load(scratch.path(), Finite::Refuse, &budget).unwrap();
        let recognised = paths.encode(scratch.path(), &mut inputs, &budget, &Silent, &cancel).unwrap().unwrap();
        assert_eq!(recognised.text, "Etalon, untrained, 4 → 9, k 2");
        let (codes, pair_codes) = (inputs.codes.clone().unwrap(), inputs.pair_codes.clone().unwrap());
        assert_eq!((codes.rows(), codes.latents(), pair_codes.rows()), (20, 9, 6));
        assert_eq!(codes.view(0..6).unwrap().row(3), pair_codes.all().unwrap().row(3));
        // A generator that made the very rows has their codes.
        assert_eq!(inputs.models[0].name, "a");
        assert_eq!(inputs.models[0].codes.id().unwrap(), codes.id().unwrap());
        assert_eq!(inputs.models[0].embeddings.as_ref().unwrap().rows(), 20);
        let directions = inputs.directions.clone().unwrap();
        assert_eq!(directions.tile(8..9).unwrap().values[..], *dictionary.direction(Latent(8)));
        assert_eq!(inputs.dictionary.as_ref().unwrap().id(), dictionary.id());

        // To be compared with another, a dictionary needs no rows; the other may be an array.
        let compared =
            Paths { sae: Some("sae".into()), others: vec!["sae".into(), "x.npy".into()], ..Paths::default() };
        let (alone, _) = compared
            .open(scratch.path(), Finite::Refuse, &budget, &Watch { progress: &Silent, cancel: &cancel })
            .unwrap();
        assert_eq!(alone.others.iter().map(|other| other.rows()).collect::<Vec<_>>(), [9, 20]);
        assert!(alone.codes.is_none() && alone.directions.is_some());

        // Twice is too much, and nothing to encode is too little.
        let error = paths.encode(scratch.path(), &mut inputs, &budget, &Silent, &cancel).unwrap_err().to_string();
        assert!(error.contains("codes as well as"), "{error}");
        let error = paths.encode(scratch.path(), &mut Inputs::default(), &budget, &Silent, &cancel).unwrap_err();
        assert!(error.to_string().contains("nothing to encode"));
        assert_eq!(Paths::default().encode(scratch.path(), &mut inputs, &budget, &Silent, &cancel).unwrap(), None);
    }

    #[test]
    fn the_nearer_of_codes_and_dictionary_wins() {
        let sae = Paths { sae: Some("a".into()), ..Paths::default() };
        let codes = Paths { codes: Some("b".into()), ..Paths::default() };
        assert_eq!(codes.clone().or(&sae), codes);
        assert_eq!(sae.clone().or(&codes), sae);
        assert_eq!(Paths::default().or(&sae), sae);
    }
}
