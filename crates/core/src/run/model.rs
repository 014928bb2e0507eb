//! A generator that is compared with the real rows.

use std::sync::Arc;

use crate::codes::Codes;
use crate::error::{Complaint, Result};
use crate::store::ActivationStore;

/// What one generator made: row i is its answer to the prompt of real row i.
#[derive(Clone, Debug)]
pub struct Model {
    /// Its name in tables.
    pub name: String,
    /// Codes of the generated rows, by the dictionary that made the real codes.
    pub codes: Arc<Codes>,
    /// Embeddings of the generated rows.
    pub embeddings: Option<Arc<ActivationStore>>,
}

impl Model {
    /// The name and the content addresses.
    pub(super) fn id(&self) -> Result<String> {
        let embeddings = self.embeddings.as_ref().map(|store| store.id()).transpose()?;
        let parts = [Some(self.name.clone()), Some(self.codes.id()?), embeddings];
        Ok(parts.into_iter().flatten().collect::<Vec<_>>().join(" "))
    }

    /// Makes sure that every model has a name of its own, and as many rows and latents as the real codes.
    pub(super) fn check_all(models: &[Model], real: Option<&Codes>) -> Result<()> {
        for (place, model) in models.iter().enumerate() {
            if model.name.trim().is_empty() {
                return Err(Complaint::new("a model has no name").expected("NAME=PATH").into());
            }
            if models[..place].iter().any(|other| other.name == model.name) {
                return Err(Complaint::new(format!("two models are called `{}`", model.name))
                    .expected("a name of its own for every model")
                    .into());
            }
            let embeddings = model.embeddings.as_deref().map(ActivationStore::rows);
            let sizes = [
                (
                    "rows",
                    real.map(Codes::rows),
                    Some(model.codes.rows()),
                    "generate one row per real row, in its order",
                ),
                ("latents", real.map(Codes::latents), Some(model.codes.latents()), "encode both with one dictionary"),
                ("rows", Some(model.codes.rows()), embeddings, "take both from the same run"),
            ];
            for (unit, expected, found, advice) in sizes {
                if let (Some(expected), Some(found)) = (expected, found)
                    && expected != found
                {
                    return Err(Complaint::new(format!("the model `{}` has other {unit}", model.name))
                        .expected(format!("{expected} {unit}"))
                        .found(format!("{found} {unit}"))
                        .advice(advice)
                        .into());
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(name: &str, rows: usize, latents: usize) -> Model {
        let codes = Arc::new(Codes::from_dense(&vec![1.0; rows * latents], latents).unwrap());
        Model { name: name.into(), codes, embeddings: None }
    }

    #[test]
    fn models_must_fit_the_real_rows_and_each_other() {
        let real = Codes::from_dense(&[1.0; 6], 3).unwrap();
        let wrong = |models: &[Model]| Model::check_all(models, Some(&real)).unwrap_err().to_string();
        Model::check_all(&[model("a", 2, 3), model("b", 2, 3)], Some(&real)).unwrap();
        Model::check_all(&[], None).unwrap();
        let text = wrong(&[model("a", 2, 3), model("b", 1, 3)]);
        assert!(text.contains("`b` has other rows") && text.contains("2 rows"), "{text}");
        assert!(wrong(&[model("a", 2, 4)]).contains("`a` has other latents"));
        assert!(wrong(&[model("a", 2, 3), model("a", 2, 3)]).contains("two models are called `a`"));
        assert!(wrong(&[model(" ", 2, 3)]).contains("no name"));
        let mut short = model("a", 2, 3);
        short.embeddings = Some(Arc::new(ActivationStore::from_rows(vec![0.0; 6], 2).unwrap()));
        assert!(wrong(&[short]).contains("3 rows"));
    }
}
