//! Imports SAEBench result files.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::Envelope;
use crate::error::{Error, InputError, Result};
use crate::results::{Metadata, Profile, Recipe, ResultFile, Scores, Stored};

/// The end of every file name.
pub const SUFFIX: &str = "eval_results.json";

/// The maximum size of a file in bytes.
const MAX_BYTES: u64 = 1 << 30;

/// The results below a directory.
#[derive(Debug, Default)]
pub struct Imported {
    /// The results with their metadata.
    pub results: Vec<Stored>,
    /// Invalid files, with the reason.
    pub refused: Vec<(PathBuf, String)>,
}

/// Reads all SAEBench files below a directory, in the order of paths. Invalid files are listed.
pub fn read(directory: &Path) -> Result<Imported> {
    let mut files = Vec::new();
    list(directory, &mut files)?;
    files.sort();
    let mut imported = Imported::default();
    let mut read = Vec::new();
    for file in files {
        match read_file(&file) {
            Ok((envelope, hash)) => read.push((name(&file), envelope, hash)),
            Err(error) => imported.refused.push((file, error.to_string().lines().collect::<Vec<_>>().join("; "))),
        }
    }
    // Only the core evaluation has L0; the other evaluations of a dictionary share its name.
    let l0: BTreeMap<String, f64> = read
        .iter()
        .filter(|(_, envelope, _)| envelope.eval_type_id == "core")
        .filter_map(|(name, envelope, _)| Some((name.clone(), envelope.number("sparsity", "l0")?)))
        .collect();
    for (name, envelope, hash) in read {
        let l0 = l0.get(&name).copied();
        imported.results.push(convert(&name, envelope, hash, l0)?);
    }
    Ok(imported)
}

fn list(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let entries = fs::read_dir(directory).map_err(Error::io("list a directory", directory))?;
    for entry in entries {
        let entry = entry.map_err(Error::io("list a directory", directory))?;
        let (path, kind) = (entry.path(), entry.file_type().map_err(Error::io("read the type of a file", directory))?);
        if kind.is_dir() {
            list(&path, files)?;
        } else if kind.is_file() && path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX)) {
            files.push(path);
        }
    }
    Ok(())
}

/// A file, and the hash of its bytes.
fn read_file(file: &Path) -> Result<(Envelope, String)> {
    let size = fs::metadata(file).map_err(Error::io("read the size of a file", file))?.len();
    if size > MAX_BYTES {
        return Err(InputError::new("the file is too large for a result").found(format!("{size} bytes")).into());
    }
    let bytes = fs::read(file).map_err(Error::io("read a result of SAEBench", file))?;
    let envelope: Envelope = serde_json::from_str(&json_of_python(&String::from_utf8_lossy(&bytes)))
        .map_err(|error| InputError::new("this is not a result of SAEBench").found(error))?;
    Ok((envelope, format!("blake3:{}", blake3::hash(&bytes).to_hex())))
}

/// Replaces `NaN` and `Infinity`, which Python writes but JSON does not allow, by `null`; not inside strings.
fn json_of_python(text: &str) -> String {
    let (mut out, mut rest, mut quoted) = (String::with_capacity(text.len()), text, false);
    while let Some(next) = rest.chars().next() {
        let word = ["NaN", "-Infinity", "Infinity"].into_iter().find(|word| !quoted && rest.starts_with(word));
        let taken = match (word, quoted && next == '\\') {
            (Some(word), _) => {
                out.push_str("null");
                word.len()
            }
            // An escaped character does not end the string.
            (None, true) => {
                let taken = rest.char_indices().nth(2).map_or(rest.len(), |(offset, _)| offset);
                out.push_str(&rest[..taken]);
                taken
            }
            (None, false) => {
                quoted ^= next == '"';
                out.push(next);
                next.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    out
}

/// The name of the dictionary, which all of its evaluations share.
fn name(file: &Path) -> String {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(SUFFIX).unwrap_or(&name).trim_end_matches('_').to_string()
}

fn convert(name: &str, envelope: Envelope, hash: String, l0: Option<f64>) -> Result<Stored> {
    let mut scores = Scores::default();
    let details = envelope.eval_result_details.len();
    for (category, numbers) in &envelope.eval_result_metrics {
        for (key, value) in numbers.as_object().into_iter().flatten() {
            // Such files have −1 for undefined numbers.
            let value = value.as_f64().filter(|value| *value != -1.0 || category == "tpp_metrics");
            let taken = scores.headline.iter().any(|headline| headline.key == *key);
            let key = if taken { format!("{category}.{key}") } else { key.clone() };
            scores.headline(&key, value, None, details.max(1));
        }
    }
    main_number_first(&mut scores, &envelope.eval_type_id);
    if scores.headline.iter().any(|headline| headline.value.is_none()) {
        scores.note("numbers that the file gives as -1 or null are undefined");
    }
    scores.note("computed by SAEBench; such files hold no intervals");
    let settings = envelope.sae_cfg_dict.unwrap_or_default();
    let known = |key: &str| settings.get(key).filter(|value| !value.is_null()).cloned();
    let simple = |value: &Value| value.is_number() || value.is_string() || value.is_boolean();
    let seed = envelope.eval_config.get("random_seed").and_then(Value::as_u64).unwrap_or(0);
    let stored_elsewhere = ["model_name", "random_seed"];
    let config = envelope.eval_config.into_iter();
    let params = config.filter(|(key, value)| simple(value) && !stored_elsewhere.contains(&key.as_str())).collect();
    let recipe = Recipe {
        metric: format!("saebench-{}", envelope.eval_type_id.replace('_', "-")),
        version: 1,
        profile: Profile::Reference,
        seed,
        params,
        inputs: BTreeMap::from([("file".into(), hash)]),
    };
    let mut about = Metadata::from([("inputs".into(), json!(name))]);
    about.extend(known("architecture").map(|architecture| ("group".into(), architecture)));
    about.extend(known("d_sae").map(|latents| ("latents".into(), latents)));
    about.extend(known("training_tokens").map(|tokens| ("training_tokens".into(), tokens)));
    about.extend(l0.map(|l0| ("l0".into(), json!(l0))));
    about.extend(known("model_name").map(|model| ("data".into(), model)));
    let result = ResultFile { etalon: env!("CARGO_PKG_VERSION").into(), recipe, scores, seconds: 0.0 };
    result.scores.check()?;
    Stored::new(result, about)
}

/// Moves the main number of an evaluation to the front.
fn main_number_first(scores: &mut Scores, id: &str) {
    let first = match id {
        "core" => "explained_variance",
        "absorption_first_letter" => "mean_absorption_fraction_score",
        "scr" => "scr_metric_threshold_20",
        "tpp" => "tpp_threshold_20_total_metric",
        "sparse_probing" => "sae_top_1_test_accuracy",
        "ravel" => "disentanglement_score",
        _ => return,
    };
    if let Some(index) = scores.headline.iter().position(|headline| headline.key == first) {
        scores.headline[..=index].rotate_right(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(directory: &Path, name: &str, text: &str) {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn nan_and_infinity_become_null_outside_of_strings() {
        let text = r#"{"a": NaN, "b": [-Infinity, Infinity, 1], "c\"NaN": "NaN \\", "d": NaN}"#;
        assert_eq!(json_of_python(text), r#"{"a": null, "b": [null, null, 1], "c\"NaN": "NaN \\", "d": null}"#);
    }

    #[test]
    fn published_files_become_results() {
        let directory = tempfile::tempdir().unwrap();
        let rest = r#""sae_lens_id": "custom_sae", "sae_lens_release_id": "r", "sae_cfg_dict":
            {"architecture": "topk", "d_sae": 4096, "model_name": "pythia", "training_tokens": 499998720}}"#;
        let core = format!(
            r#"{{"eval_type_id": "core", "eval_config": {{"model_name": "pythia", "batch_size_prompts": 16}},
            "eval_result_metrics": {{"sparsity": {{"l0": 40.5, "l1": -1}}, "reconstruction_quality":
            {{"mse": NaN, "explained_variance": 0.75}}}}, "eval_result_details": null, {rest}"#
        );
        let tpp = format!(
            r#"{{"eval_type_id": "tpp", "eval_config": {{"random_seed": 42, "n_values": [2]}}, "eval_result_metrics":
            {{"tpp_metrics": {{"tpp_threshold_20_total_metric": 0.2}}}}, {rest}"#
        );
        write(directory.path(), "core/r_custom_sae_eval_results.json", &core);
        write(directory.path(), "tpp/x/r_custom_sae_eval_results.json", &tpp);
        write(directory.path(), "tpp/cut_eval_results.json", &tpp[..90]);
        write(directory.path(), "tpp/other.json", "{}");
        let imported = read(directory.path()).unwrap();
        assert_eq!(imported.refused.len(), 1);
        assert!(imported.refused[0].1.contains("not a result of SAEBench"));
        let [core, tpp] = &imported.results[..] else { panic!("{:?}", imported.results) };
        let numbers: Vec<(&str, Option<f64>)> =
            core.result.scores.headline.iter().map(|headline| (headline.key.as_str(), headline.value)).collect();
        let expected = [("explained_variance", Some(0.75)), ("l0", Some(40.5)), ("l1", None), ("mse", None)];
        assert_eq!(numbers, expected);
        assert_eq!(
            (core.about["inputs"].as_str(), tpp.about["inputs"].as_str()),
            (Some("r_custom_sae"), Some("r_custom_sae"))
        );
        // Other evaluations take L0 from the core one.
        assert_eq!((tpp.about["l0"].as_f64(), tpp.about["latents"].as_u64()), (Some(40.5), Some(4096)));
        assert_eq!((tpp.result.recipe.seed, tpp.result.recipe.metric.as_str()), (42, "saebench-tpp"));
        assert_eq!(core.about["data"], "pythia");
    }
}
