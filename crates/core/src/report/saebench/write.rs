//! Exports results as SAEBench files, for SAEBench's graphs and Neuronpedia.

use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::envelope::{Envelope, SHAPES};
use super::read::SUFFIX;
use super::translate::{COUNTS, SIZES, attributes, judged_latents, translate};
use crate::error::{Error, Result};
use crate::results::{Headlines, Profile, Stored, Table, current};

/// SAEBench's name for dictionaries outside of releases.
const CUSTOM: &str = "custom_sae";

/// Names of the parameters of `autointerp`, theirs and ours.
const JUDGED: [(&str, &str); 10] = [
    ("n_latents", "judged_latents"),
    ("dead_latent_threshold", "dead_latent_threshold"),
    ("buffer", "buffer"),
    ("act_threshold_frac", "activation_share"),
    ("max_tokens_in_explanation", "explanation_tokens"),
    ("n_top_ex_for_generation", "top_explaining"),
    ("n_iw_sampled_ex_for_generation", "weighted_explaining"),
    ("n_top_ex_for_scoring", "top_scored"),
    ("n_random_ex_for_scoring", "random_scored"),
    ("n_iw_sampled_ex_for_scoring", "weighted_scored"),
];

/// Names of the parameters of `ravel`, theirs and ours.
const EXCHANGED: [(&str, &str); 7] = [
    ("top_n_entities", "kept_entities"),
    ("top_n_templates", "kept_templates"),
    ("num_pairs_per_attribute", "pairs_per_attribute"),
    ("train_test_split", "pair_train_share"),
    ("learning_rate", "mask_rate"),
    ("num_epochs", "mask_epochs"),
    ("n_generated_tokens", "answer_tokens"),
];

/// Names of the parameters of `unlearning`, theirs and ours.
const UNLEARNED: [(&str, &str); 2] = [("dataset_size", "corpus_sequences"), ("seq_len", "sequence_length")];

/// Bytes of memory of an entry by latent, as values and as text.
const LATENT_BYTES: u64 = 1600;

/// Bytes of memory that [`files`] and their text take.
pub fn bytes(results: &[Stored]) -> u64 {
    let core = results.iter().filter(|stored| stored.result.recipe.metric == "core");
    let latents = core.map(|stored| stored.result.scores.table("latent").map_or(0, Table::rows) as u64);
    LATENT_BYTES * latents.sum::<u64>()
}

/// A file for every result that SAEBench has an evaluation for: its path below the output folder, and its content.
/// Takes the lowest of several seeds, and no superseded results. `now` is in milliseconds since 1970.
pub fn files(results: &[Stored], now: u64) -> Result<Vec<(PathBuf, Envelope)>> {
    let mut results = current(results).current;
    results.sort_by(|a, b| a.result.recipe.seed.cmp(&b.result.recipe.seed).then(a.id.cmp(&b.id)));
    let mut files: Vec<(PathBuf, Envelope)> = Vec::new();
    for stored in &results {
        let network = network_run(stored, &results);
        let losses = network.map(|network| &network.result.scores);
        let Some((id, metrics, details)) = translate(&stored.result.scores, &stored.result.recipe.metric, losses)
        else {
            continue;
        };
        let folder = SHAPES.iter().find(|shape| shape.id == id).map_or(id, |shape| shape.folder);
        let release = release(stored);
        let path = PathBuf::from(folder).join(format!("{release}_{CUSTOM}_{SUFFIX}"));
        if files.iter().any(|(other, _)| *other == path) {
            continue;
        }
        let envelope = Envelope {
            eval_type_id: id.into(),
            eval_config: config(stored, network),
            eval_id: uuid(&stored.id),
            datetime_epoch_millis: now,
            eval_result_metrics: metrics,
            eval_result_details: details,
            sae_bench_commit_hash: format!("etalon {}", stored.result.etalon),
            sae_lens_id: Some(CUSTOM.into()),
            sae_lens_release_id: Some(release),
            sae_lens_version: None,
            sae_cfg_dict: Some(dictionary(stored)),
            eval_result_unstructured: Some(unstructured(stored)),
        };
        envelope.check().map_err(|error| Error::Bug(format!("{}: {error}", path.display())))?;
        files.push((path, envelope));
    }
    files.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(files)
}

/// Headline numbers with intervals, and notes; of judged latents, what was said about them; of attributes, their scores.
fn unstructured(stored: &Stored) -> Value {
    let scores = &stored.result.scores;
    let mut value = json!({"headline": Headlines(&scores.headline), "notes": scores.notes});
    let latents = judged_latents(scores).filter(|_| stored.result.recipe.metric == "autointerp");
    if let (Some(Value::Object(latents)), Some(value)) = (latents, value.as_object_mut()) {
        value.extend(latents);
    }
    let kinds = attributes(scores).filter(|_| stored.result.recipe.metric == "ravel");
    if let (Some((kinds, _)), Some(value)) = (kinds, value.as_object_mut()) {
        value.extend(kinds);
    }
    value
}

/// The result of `loss_recovered` that belongs to a result of `core`: SAEBench has both in one file. It is of the same
/// dictionary, profile and seed.
fn network_run<'a>(stored: &Stored, results: &[&'a Stored]) -> Option<&'a Stored> {
    let recipe = &stored.result.recipe;
    let belongs = |other: &&Stored| {
        let theirs = &other.result.recipe;
        theirs.metric == "loss_recovered"
            && (theirs.profile, theirs.seed) == (recipe.profile, recipe.seed)
            && other.about.get("inputs") == stored.about.get("inputs")
            && recipe.inputs.get("dictionary") == theirs.inputs.get("dictionary")
    };
    if recipe.metric == "core" { results.iter().copied().find(belongs) } else { None }
}

/// A unique name of the dictionary that is valid in paths. Readers infer the evaluation from words in the path, so a
/// dot is inserted into those words.
fn release(stored: &Stored) -> String {
    let part = |key: &str, before: &str| {
        let value = stored.about.get(key)?;
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        Some(format!("{before}{text}"))
    };
    let parts = [part("data", ""), part("inputs", ""), part("latents", "width-"), part("k", "k-")];
    let text = parts.into_iter().flatten().collect::<Vec<_>>().join("_");
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' || c == '.' { c } else { '-' };
    let text: String = text.chars().map(plain).collect();
    ["tpp", "scr", "absorption", "autointerp", "sparse_probing", "unlearning", "core"]
        .into_iter()
        .fold(text, |text, word| text.replace(word, &format!("{}.{}", &word[..1], &word[1..])))
}

/// A UUID derived from the id of the result.
fn uuid(id: &str) -> String {
    let digits = blake3::hash(id.as_bytes()).to_hex();
    format!("{}-{}-4{}-8{}-{}", &digits[..8], &digits[8..12], &digits[12..15], &digits[15..18], &digits[18..30])
}

fn config(stored: &Stored, network: Option<&Stored>) -> Map<String, Value> {
    let recipe = &stored.result.recipe;
    let model =
        stored.about.get("model").or_else(|| stored.about.get("data")).and_then(Value::as_str).unwrap_or("unknown");
    let mut config = Map::from_iter([
        ("model_name".to_string(), json!(model)),
        ("random_seed".to_string(), json!(recipe.seed.min(i32::MAX as u64))),
        ("llm_dtype".to_string(), json!("float32")),
        ("llm_batch_size".to_string(), json!(1)),
    ]);
    match recipe.metric.as_str() {
        "core" => {
            let context = stored.about.get("context").and_then(Value::as_u64).unwrap_or(1);
            config.extend([("dataset".to_string(), json!(model)), ("context_size".to_string(), json!(context))]);
            config.extend(["compute_kl", "compute_ce_loss"].map(|name| (name.to_string(), json!(network.is_some()))));
            // Whether special tokens stay as they are while the network runs.
            let special = network.and_then(|network| network.result.recipe.params.get("special"));
            let keeps = |special: &Value| json!(special.as_str() != Some("replace"));
            config.extend(
                special.map(|special| ("exclude_special_tokens_from_reconstruction".to_string(), keeps(special))),
            );
        }
        "scr" | "tpp" => {
            config.insert("perform_scr".into(), json!(recipe.metric == "scr"));
            config.insert("n_values".into(), json!(COUNTS));
        }
        "sparse_probing" => drop(config.insert("k_values".into(), json!(SIZES))),
        "absorption" => {
            for (theirs, ours) in
                [("f1_jump_threshold", "jump"), ("max_k_value", "most_latents"), ("min_GT_probe_f1", "probe_floor")]
            {
                config.extend(recipe.params.get(ours).map(|value| (theirs.to_string(), value.clone())));
            }
        }
        "autointerp" => {
            for (theirs, ours) in JUDGED {
                config.extend(recipe.params.get(ours).map(|value| (theirs.to_string(), value.clone())));
            }
            let overlap = recipe.params.get("overlap").and_then(Value::as_str);
            let context = stored.about.get("context").and_then(Value::as_u64).unwrap_or(1);
            config.insert("no_overlap".into(), json!(overlap != Some("yes")));
            config.insert("llm_context_size".into(), json!(context));
            config.insert("scoring".into(), json!(true));
            config.insert("dataset_name".into(), json!(model));
        }
        "ravel" => {
            for (theirs, ours) in EXCHANGED {
                config.extend(recipe.params.get(ours).map(|value| (theirs.to_string(), value.clone())));
            }
            let selection = attributes(&stored.result.scores).map_or(json!({}), |(_, selection)| selection);
            config.insert("entity_attribute_selection".into(), selection);
            let batch = recipe.params.get("mask_batch").cloned().unwrap_or(json!(1));
            config.insert("llm_batch_size".into(), batch);
            let downsample = recipe.params.get("most_prompts").and_then(Value::as_u64).filter(|most| *most > 0);
            config.insert("full_dataset_downsample".into(), json!(downsample));
            config.insert("force_dataset_recompute".into(), json!(false));
            // The skyline is a part of the same result here.
            config.insert("train_mdas".into(), json!(false));
            config.insert("artifact_dir".into(), json!(""));
        }
        "unlearning" => {
            for (theirs, ours) in UNLEARNED {
                config.extend(recipe.params.get(ours).map(|value| (theirs.to_string(), value.clone())));
            }
            for (theirs, ours, whole) in [
                ("retain_thresholds", "retain_thresholds", false),
                ("n_features_list", "clamped_latents", true),
                ("multipliers", "multipliers", true),
            ] {
                config.insert(theirs.into(), list(recipe.params.get(ours), whole));
            }
            config.insert("intervention_method".into(), json!("clamp_feature_activation"));
            config.insert("target_metric".into(), json!("correct"));
        }
        _ => {}
    }
    let profile = if recipe.profile == Profile::Reference { "reference" } else { "paper" };
    config.insert("etalon_profile".into(), json!(profile));
    config.insert("etalon_params".into(), json!(recipe.params));
    config
}

/// A parameter with one or several values as a list, of whole numbers where the schema wants them.
fn list(value: Option<&Value>, whole: bool) -> Value {
    let values = value.map(|value| value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]));
    let rounded = |value: Value| match value.as_f64() {
        Some(number) if whole => json!(number.round() as i64),
        _ => value,
    };
    Value::Array(values.unwrap_or_default().into_iter().map(rounded).collect())
}

/// The layer of a site such as `blocks.7.hook_resid_post`; 0 if it has none.
fn layer(site: &str) -> u64 {
    site.strip_prefix("blocks.").and_then(|rest| rest.split('.').next()?.parse().ok()).unwrap_or(0)
}

fn dictionary(stored: &Stored) -> Map<String, Value> {
    let text = |key: &str| stored.about.get(key).and_then(Value::as_str).unwrap_or("unknown").to_string();
    let whole = |key: &str| stored.about.get(key).and_then(Value::as_u64).map(|number| number.min(i32::MAX as u64));
    let architecture = match text("architecture").as_str() {
        "matryoshka" => "matryoshka_batch_topk".to_string(),
        "relu" => "standard".into(),
        "relu_april" => "standard_april_update".into(),
        other => other.to_string(),
    };
    let mut settings = Map::from_iter([
        ("architecture".to_string(), json!(architecture)),
        ("d_sae".to_string(), json!(whole("latents").unwrap_or(0))),
        (
            "model_name".to_string(),
            json!(if stored.about.contains_key("model") { text("model") } else { text("data") }),
        ),
        ("hook_name".to_string(), stored.about.get("site").cloned().unwrap_or(json!(""))),
        ("hook_layer".to_string(), json!(layer(&text("site")))),
        ("activation_fn_str".to_string(), json!(if architecture == "topk" { "topk" } else { "relu" })),
        ("dtype".to_string(), json!("float32")),
    ]);
    settings.extend(whole("width").map(|width| ("d_in".to_string(), json!(width))));
    settings.extend(whole("training_tokens").map(|tokens| ("training_tokens".to_string(), json!(tokens))));
    settings
}
