//! SAEBench files: exported from real results, checked against the published schemas if available, and imported again.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use etalon::codes::Codes;
use etalon::context::{Budget, Context};
use etalon::error::Result;
use etalon::labels::{Annotations, Label};
use etalon::metrics;
use etalon::network::{Judge, Question};
use etalon::report::saebench::{self, Envelope};
use etalon::results::{Profile, Stored};
use etalon::run::{
    CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, ENTITIES, FORGET, Inputs, JUDGES, LABELS, NETWORK, QUESTIONS, RETAIN,
    SIDE_QUESTIONS, TOKENS, TokenSource, TokenTexts,
};
use etalon::sae::{Activation, Dictionary, Linear, Normalisation, Parts};
use etalon::store::ActivationStore;
use etalon_kernel::random::{stream, unit};
use serde_json::{Value, json};

use crate::toy_network;

const METRICS: [&str; 10] = [
    "core",
    "sparse_probing",
    "sae_probes",
    "scr",
    "tpp",
    "absorption",
    "autointerp",
    "ravel",
    "meta_structure",
    "unlearning",
];
const WIDTH: usize = 8;
const LATENTS: usize = 12;

/// Rows of four classes, each with its own axis and latent, and a fifth concept that is independent of them.
fn inputs() -> Inputs {
    let rows = 480;
    let mut random = stream(8, "saebench test", 0);
    let (mut activations, mut codes) = (Vec::new(), Vec::new());
    for row in 0..rows {
        let class = row % 4;
        let mut x: Vec<f32> = (0..WIDTH).map(|_| 0.3 * (unit(&mut random) as f32 - 0.5)).collect();
        x[class] += 1.0;
        x[4] += if row.is_multiple_of(3) { 1.0 } else { 0.0 };
        let mut f = vec![0.0f32; LATENTS];
        f[class] = 1.0 + unit(&mut random) as f32;
        f[4] = if row.is_multiple_of(3) { 1.0 } else { 0.0 };
        f[5 + row % 7] = 0.1;
        activations.extend(x);
        codes.extend(f);
    }
    let mut directions = vec![0.0; LATENTS * WIDTH];
    (0..LATENTS).for_each(|latent| directions[latent * WIDTH + latent % WIDTH] = 1.0);
    let names = ["a", "b", "c", "d", "third"].map(String::from).to_vec();
    let label = |row: usize, concept: usize| {
        let yes = if concept < 4 { row % 4 == concept } else { row.is_multiple_of(3) };
        if yes { Label::Yes } else { Label::No }
    };
    let dictionary = Linear::new(Parts {
        arch: "topk".into(),
        encoder: directions.clone(),
        encoder_bias: vec![0.0; LATENTS],
        decoder: directions.clone(),
        bias: vec![0.0; WIDTH],
        subtract_bias: true,
        input: Normalisation::None,
        activation: Activation::TopK(3),
    });
    Inputs::default()
        .with(&CODES, Codes::from_dense(&codes, LATENTS).unwrap())
        .with(&EMBEDDINGS, ActivationStore::from_rows(activations, WIDTH).unwrap())
        .with(&LABELS, Annotations::new(names, rows, label).unwrap())
        .with(&DIRECTIONS, ActivationStore::from_rows(directions, WIDTH).unwrap())
        .with(&DICTIONARY, Arc::new(dictionary.unwrap()) as Arc<dyn Dictionary>)
        .with(&TOKENS, tokens(rows))
        .and(&JUDGES, "", Arc::new(FirstJudge) as Arc<dyn Judge>)
}

/// The toy network with a dictionary of its width: its neurons, or a few latents.
fn network_inputs(neurons: bool) -> Inputs {
    let run = toy_network::text_run();
    let width = run.network.card().width;
    let latents = if neurons { width } else { LATENTS };
    let weights = |shift: usize| -> Vec<f32> {
        let cell = |index: usize| match neurons {
            true => f32::from(u8::from(index.is_multiple_of(width + 1))),
            false => ((index * 7919 + shift) % 103) as f32 / 50.0 - 1.0,
        };
        (0..latents * width).map(cell).collect()
    };
    let dictionary = Linear::new(Parts {
        arch: if neurons { "identity" } else { "topk" }.into(),
        encoder: weights(5),
        encoder_bias: vec![0.0; latents],
        decoder: weights(40),
        bias: vec![0.0; width],
        subtract_bias: !neurons,
        input: Normalisation::None,
        activation: if neurons { Activation::Signed } else { Activation::TopK(3) },
    });
    Inputs::default()
        .with(&NETWORK, run)
        .with(&DICTIONARY, Arc::new(dictionary.unwrap()) as Arc<dyn Dictionary>)
        .with(&ENTITIES, toy_network::entities())
        .with(&FORGET, toy_network::texts(3))
        .with(&RETAIN, toy_network::texts(5))
        .with(&QUESTIONS, toy_network::questions(1))
        .and(&SIDE_QUESTIONS, "", toy_network::questions(2))
}

/// Texts of forty tokens behind some rows.
fn tokens(rows: usize) -> TokenSource {
    let words: Vec<String> = (0..rows).map(|row| format!(" word{}", row % 11)).collect();
    let sequences: Vec<Vec<String>> = words.chunks(40).map(<[String]>::to_vec).collect();
    TokenSource::Texts(Arc::new(TokenTexts::new(&sequences, &Budget::new(1 << 24)).unwrap()))
}

/// A judge that always names the first window.
struct FirstJudge;

impl Judge for FirstJudge {
    fn id(&self) -> String {
        "first".into()
    }

    fn answer(&self, _: &Question, _: &Context) -> Result<String> {
        Ok("1".into())
    }
}

fn results() -> Vec<Stored> {
    let inputs = inputs();
    let about = BTreeMap::from([
        ("inputs".to_string(), json!("my score/core")),
        ("latents".to_string(), json!(LATENTS)),
        ("architecture".to_string(), json!(inputs.get(&DICTIONARY).unwrap().card().arch)),
        ("training_tokens".to_string(), json!(5_000_000_000u64)),
    ]);
    let result = |name: &str| {
        let metric = metrics::find(name).unwrap();
        let quick =
            [("repeats", "2"), ("meta_steps", "20"), ("quadrant_rows", "10"), ("buffer", "1"), ("known", "once")];
        let declared = |name: &str| metric.card().params.iter().any(|param| param.name == name);
        let given: Vec<(&str, &str)> = quick.into_iter().filter(|(name, _)| declared(name)).collect();
        // The toy network has a width of its own.
        let inputs = match name {
            "ravel" => network_inputs(true),
            "unlearning" => network_inputs(false),
            _ => inputs.clone(),
        };
        let result = crate::run(metric, &inputs, &given, Profile::Paper, 3, 2).unwrap();
        Stored::new(result, about.clone()).unwrap()
    };
    METRICS.map(result).to_vec()
}

#[test]
fn every_evaluation_is_exported_validly_and_imported_again() {
    let files = saebench::files(&results(), 1_700_000_000_000).unwrap();
    let folders: Vec<String> =
        files.iter().map(|(path, _)| path.parent().unwrap().to_string_lossy().into_owned()).collect();
    let expected = [
        "absorption",
        "autointerp",
        "core",
        "meta_structure",
        "ravel",
        "scr",
        "sparse_probing",
        "sparse_probing_sae_probes",
        "tpp",
        "unlearning",
    ];
    assert_eq!(folders, expected);
    let directory = tempfile::tempdir().unwrap();
    for (path, envelope) in &files {
        envelope.check().unwrap();
        // All evaluations of a dictionary share their file name, which has no word that names an evaluation.
        let name = path.file_name().unwrap().to_string_lossy();
        assert_eq!(name, "my-sc.ore-c.ore_width-12_custom_sae_eval_results.json");
        assert_eq!(envelope.sae_cfg_dict.as_ref().unwrap()["training_tokens"], json!(i32::MAX));
        assert!(envelope.eval_result_details.iter().all(Value::is_object));
        let text = serde_json::to_string_pretty(envelope).unwrap();
        assert_eq!(&serde_json::from_str::<Envelope>(&text).unwrap(), envelope);
        against_schema(envelope);
        std::fs::create_dir_all(directory.path().join(path).parent().unwrap()).unwrap();
        std::fs::write(directory.path().join(path), text).unwrap();
    }
    let core = &files[2].1;
    assert!(core.number("reconstruction_quality", "explained_variance").unwrap() > 0.0);
    // Numbers that need a language model are undefined, which is −1 in such files.
    assert_eq!(core.number("model_performance_preservation", "ce_loss_score"), Some(-1.0));
    assert_eq!(core.eval_result_details.len(), LATENTS);
    let ravel = &files[4].1;
    assert!(ravel.number("ravel", "disentanglement_score").unwrap() >= 0.0);
    assert_eq!(ravel.eval_config["entity_attribute_selection"], json!({"number": ["A", "B"]}));
    let cause = &ravel.eval_result_unstructured.as_ref().unwrap()["number_results"]["number_A"]["cause_score"];
    assert!(cause.as_f64().unwrap() >= 0.0);
    let tpp = &files[8].1;
    assert!(tpp.number("tpp_metrics", "tpp_threshold_2_total_metric").is_some());

    let imported = saebench::read(directory.path()).unwrap();
    assert!(imported.refused.is_empty());
    assert_eq!(imported.results.len(), files.len());
    let l0 = core.number("sparsity", "l0");
    assert!(imported.results.iter().all(|stored| stored.about["l0"].as_f64() == l0));
}

/// Checks a file against the published schema of its evaluation, if the folder of schemas exists.
fn against_schema(envelope: &Envelope) {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/golden/saebench-schemas"));
    let path = folder.join(format!("eval_output_schema_{}.json", envelope.eval_type_id));
    let Ok(text) = std::fs::read_to_string(path) else { return };
    let schema: Value = serde_json::from_str(&text).unwrap();
    let value = serde_json::to_value(envelope).unwrap();
    if let Err(wrong) = conforms(&value, &schema, &schema) {
        panic!("{}: {wrong}", envelope.eval_type_id);
    }
}

/// Checks a value against the part of JSON Schema that these files use; other keywords are an error.
fn conforms(value: &Value, schema: &Value, root: &Value) -> std::result::Result<(), String> {
    for (keyword, rule) in schema.as_object().ok_or("a schema is an object")? {
        match keyword.as_str() {
            "title" | "description" | "default" | "$defs" | "ui_default_display" => {}
            "$ref" => {
                let pointer = rule.as_str().unwrap().trim_start_matches('#');
                conforms(value, root.pointer(pointer).ok_or("no such definition")?, root)?;
            }
            "anyOf" => {
                let any = rule.as_array().unwrap().iter().any(|schema| conforms(value, schema, root).is_ok());
                any.then_some(()).ok_or_else(|| format!("{value} matches none of {rule}"))?;
            }
            "type" => {
                let fits = match rule.as_str().unwrap() {
                    "object" => value.is_object(),
                    "array" => value.is_array(),
                    "string" => value.is_string(),
                    "boolean" => value.is_boolean(),
                    "null" => value.is_null(),
                    "integer" => value.is_i64() || value.is_u64(),
                    "number" => value.is_number(),
                    other => return Err(format!("unknown type {other}")),
                };
                fits.then_some(()).ok_or_else(|| format!("{value} is not of type {rule}"))?;
            }
            "required" => {
                for name in rule.as_array().unwrap() {
                    let exists = value.get(name.as_str().unwrap()).is_some();
                    exists.then_some(()).ok_or_else(|| format!("{name} is missing"))?;
                }
            }
            "properties" => {
                for (name, schema) in rule.as_object().unwrap() {
                    if let Some(value) = value.get(name) {
                        conforms(value, schema, root).map_err(|wrong| format!("{name}: {wrong}"))?;
                    }
                }
            }
            "items" => {
                for value in value.as_array().into_iter().flatten() {
                    conforms(value, rule, root)?;
                }
            }
            "additionalProperties" => {
                if rule.is_object() {
                    let values = value.as_object().into_iter().flatten().map(|(_, value)| value);
                    values.map(|value| conforms(value, rule, root)).collect::<Result<Vec<_>, _>>()?;
                }
            }
            "minimum" | "minItems" | "maxItems" | "prefixItems" => {}
            other => return Err(format!("unknown keyword `{other}`")),
        }
    }
    Ok(())
}
