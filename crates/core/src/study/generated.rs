//! Generators that are compared with the real rows: NAME=PATH.

use std::path::Path;
use std::sync::Arc;

use crate::codes::Codes;
use crate::error::{Complaint, Error, Result};
use crate::run::Model;
use crate::store::ActivationStore;

/// The part of a world below which every generator has a directory.
pub(super) const GENERATED: &str = "generated";

/// Reads every generator that is named; `read` knows whether its path holds codes or activations.
pub(super) fn models(
    named: &[String],
    read: impl Fn(&String) -> Result<(Arc<Codes>, Option<Arc<ActivationStore>>)>,
) -> Result<Vec<Model>> {
    let mut models: Vec<Model> = Vec::new();
    for text in named {
        let parts = text.split_once('=').filter(|(name, path)| !name.trim().is_empty() && !path.is_empty());
        let (name, path) = parts.ok_or_else(|| {
            Complaint::new("a generator is named with its path").expected("NAME=PATH").found(format!("`{text}`"))
        })?;
        // Before anything is read or encoded twice.
        if models.iter().any(|other| other.name == name) {
            return Err(Complaint::new(format!("two models are called `{name}`"))
                .expected("a name of its own for every model")
                .into());
        }
        let (codes, embeddings) = read(&path.to_string())?;
        models.push(Model { name: name.into(), codes, embeddings });
    }
    Ok(models)
}

/// The activations of every generator of a world, by name.
pub(super) fn generated_in(directory: &Path, world: &str) -> Result<Vec<String>> {
    let below = directory.join(GENERATED);
    if !below.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&below).map_err(Error::io("list the generators of a world", &below))? {
        let entry = entry.map_err(Error::io("list the generators of a world", &below))?;
        if entry.path().join("activations").is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names.into_iter().map(|name| format!("{name}={world}/{GENERATED}/{name}/activations")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generator_has_a_name_and_a_path() {
        let read = |path: &String| {
            assert_eq!(path, "x=y.npy");
            Ok((Arc::new(Codes::from_dense(&[1.0], 1).unwrap()), None))
        };
        // Only the first sign of equality divides.
        assert_eq!(models(&["a=x=y.npy".into()], read).unwrap()[0].name, "a");
        for wrong in ["x.npy", "=x.npy", "a="] {
            let error = models(&[wrong.into()], read).unwrap_err().to_string();
            assert!(error.contains("NAME=PATH") && error.contains(wrong), "{error}");
        }
        let error = models(&["a=x=y.npy".into(), "a=x=y.npy".into()], read).unwrap_err().to_string();
        assert!(error.contains("two models are called `a`"), "{error}");
    }
}
