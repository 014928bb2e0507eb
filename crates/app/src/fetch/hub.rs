//! Repositories of the Hugging Face hub, downloaded by the user's own client into the user's own cache.
//!
//! The client reads `HF_ENDPOINT`, `HF_TOKEN`, `HF_HOME` and `HF_HUB_OFFLINE` itself. This program never reads the token.

use std::path::{Path, PathBuf};

use etalon::context::Context;
use etalon::error::{InputError, Result};
use etalon::store::{Lock, disk};
use etalon_models::data::packages;
use etalon_models::hub::{self, Environment};

use super::clients::Client;

/// Copies of weights in formats that Etalon does not read.
const LEFT_OUT: [&str; 9] =
    ["*.onnx*", "*.h5", "*.msgpack", "*.ot", "*.tflite", "*.mlmodel", "*.mlpackage/*", "openvino/*", "coreml/*"];

/// A repository: `hf:[datasets/]org/name[@revision]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubName {
    repository: String,
    is_data: bool,
    revision: Option<String>,
}

impl HubName {
    /// Parses a name that starts with `hf:`; `None` for any other name.
    pub fn parse(text: &str) -> Option<Result<HubName>> {
        let name = text.strip_prefix("hf:")?;
        Some(parse(name).ok_or_else(|| {
            InputError::new("the name of a hub repository is not valid")
                .expected("hf:org/name, hf:org/name@revision or hf:datasets/org/name")
                .found(format!("`{}`", text.escape_debug()))
                .advice("copy the name from the page of the model or data set")
                .into()
        }))
    }

    /// The name for other commands.
    pub fn short(&self) -> String {
        let kind = if self.is_data { "datasets/" } else { "" };
        let revision = self.revision.as_ref().map_or(String::new(), |revision| format!("@{revision}"));
        format!("{kind}{}{revision}", self.repository)
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments = vec!["download".to_string(), self.repository.clone()];
        if self.is_data {
            arguments.extend(["--repo-type", "dataset"].map(String::from));
        }
        if let Some(revision) = &self.revision {
            arguments.extend(["--revision".to_string(), revision.clone()]);
        }
        arguments.extend(LEFT_OUT.iter().flat_map(|pattern| ["--exclude".to_string(), pattern.to_string()]));
        arguments
    }
}

fn parse(name: &str) -> Option<HubName> {
    let (name, revision) = match name.split_once('@') {
        Some((name, revision)) => (name, Some(revision)),
        None => (name, None),
    };
    let (is_data, repository) = match name.strip_prefix("datasets/") {
        Some(rest) => (true, rest),
        None => (false, name),
    };
    // Nothing that a client could take for an option or another path.
    let plain = |part: &str| {
        let letters = part.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
        letters && !part.is_empty() && !part.starts_with(['.', '-']) && !part.contains("..")
    };
    let parts = repository.split('/').count() <= 2 && repository.split('/').all(plain);
    let valid = parts && revision.is_none_or(|revision| revision.split('/').all(plain));
    valid.then(|| HubName { repository: repository.into(), is_data, revision: revision.map(str::to_string) })
}

/// Runs the client; returns the folder of the files in the user's cache.
pub fn download(name: &HubName, cache: &Path, environment: &Environment, context: &Context) -> Result<PathBuf> {
    let arguments = name.arguments();
    let commands = vec![("hf", arguments.clone()), ("huggingface-cli", arguments)];
    // The client runs in a folder of its own, so that it cannot read settings of the current one.
    let directory = packages(cache).join(".partial").join(format!("hub-{}", std::process::id()));
    let lock = Lock::take(&directory)?;
    let out = Client::Hub.run(commands, &directory, None, context);
    drop(lock);
    disk::remove_directory(&directory)?;
    out?;
    // What clients print differs between versions; the cache is the same.
    hub::resolve(&format!("hf:{}", name.short()), environment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_arguments_of_the_client() {
        let name = HubName::parse("hf:datasets/org/name@v1.0").unwrap().unwrap();
        let start = ["download", "org/name", "--repo-type", "dataset", "--revision", "v1.0", "--exclude", "*.onnx*"];
        assert_eq!(name.arguments()[..8], start);
        assert_eq!(name.short(), "datasets/org/name@v1.0");
        assert_eq!(HubName::parse("hf:gpt2").unwrap().unwrap().arguments()[..2], ["download", "gpt2"]);
        assert!(HubName::parse("org/name").is_none());
    }

    #[test]
    fn names_that_could_be_something_else_are_refused() {
        for name in
            ["hf:", "hf:--help", "hf:a/b/c", "hf:../x", "hf:a b", "hf:a/b@", "hf:a/b@-x", "hf:a/b@../c", "hf:/a"]
        {
            assert!(HubName::parse(name).unwrap().is_err(), "{name}");
        }
    }
}
