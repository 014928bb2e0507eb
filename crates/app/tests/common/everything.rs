//! A study with inputs for every metric.

use std::fs;
use std::path::Path;

use serde_json::{Map, Value, json};

use super::{Sandbox, TIME_LIMIT, etalon, finish};

/// The size of a study.
pub struct Size {
    /// Rows of the world.
    pub rows: usize,
    /// Features of the world.
    pub features: usize,
    /// Width of the activations.
    pub width: usize,
    /// Latents of the dictionary.
    pub latents: usize,
}

/// Tokens of the tiny language model.
const VOCABULARY: usize = 96;

/// Writes a tiny language model, `model`, whose words are `w3` to `w95`, and a text for it, `texts.jsonl`.
pub fn make_model(sandbox: &Sandbox, texts: usize) {
    make_model_of(sandbox, "llama", VOCABULARY, texts);
}

/// The same with a golden network and the size of its vocabulary.
pub fn make_model_of(sandbox: &Sandbox, network: &str, vocabulary: usize, texts: usize) {
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/networks").join(network);
    for name in ["config.json", "model.safetensors"] {
        sandbox.write(&format!("model/{name}"), fs::read(golden.join(name)).unwrap());
    }
    let special = ["<pad>", "<s>", "</s>"];
    let word = |index: usize| special.get(index).map_or(format!("w{index}"), |word| word.to_string());
    let words: Map<String, Value> = (0..vocabulary).map(|index| (word(index), json!(index))).collect();
    let added = |(id, content): (usize, &&str)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
               "normalized": false, "special": true})
    };
    let tokenizer = json!({
        "version": "1.0", "truncation": null, "padding": null, "normalizer": null, "post_processor": null,
        "decoder": null, "pre_tokenizer": {"type": "WhitespaceSplit"},
        "added_tokens": special.iter().enumerate().map(added).collect::<Vec<_>>(),
        "model": {"type": "WordLevel", "vocab": words, "unk_token": "<pad>"},
    });
    sandbox.write("model/tokenizer.json", tokenizer.to_string());
    let config = json!({"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "tokenizer_class": "PreTrainedTokenizerFast"});
    sandbox.write("model/tokenizer_config.json", config.to_string());
    let text = |number: usize| {
        let word = |position: usize| format!("w{}", 3 + (number * 31 + position * position * 7) % (vocabulary - 3));
        let words: Vec<String> = (0..20 + number % 7).map(word).collect();
        json!({"id": format!("t{number}"), "text": words.join(" "), "odd": number % 2, "third": u8::from(number.is_multiple_of(3))})
    };
    sandbox.write("texts.jsonl", (0..texts).map(|number| format!("{}\n", text(number))).collect::<String>());
}

/// The site of the tiny model that is captured.
pub const SITE: &str = "blocks.1.hook_resid_post";

/// Generates a world, dictionaries, null codes, and a capture with its own dictionary.
pub fn make(sandbox: &Sandbox, size: &Size) {
    let Size { rows, features, width, latents } = size;
    for (seed, out) in [(0, "world"), (1, "made")] {
        let size = format!("--rows {rows} --features {features} --width {width} --active 2 --pairs 60");
        sandbox.done(&format!("data superposition {size} --seed {seed} --out {out}"));
    }
    for seed in [0, 1] {
        sandbox.done(&format!(
            "train --store world/activations --arch topk --latents {latents} --k 4 --steps 40 --batch 64 --seed {seed} --out sae{seed}"
        ));
    }
    make_model(sandbox, 64);
    sandbox
        .done(&format!("capture --model model --input texts.jsonl --site {SITE} --context 16 --pack --out captured"));
    sandbox.done(&format!(
        "train --store captured/sites/{SITE} --arch topk --latents 32 --k 4 --steps 20 --batch 64 --out spliced"
    ));
    make_entities(sandbox);
    sandbox.done(&format!("encode --sae untrained --store world/activations --latents {latents} --k 4 --out null"));
    let words = |number: usize| (0..40).map(|word| format!("w{} ", 3 + (number * 7 + word) % 90)).collect::<String>();
    for (name, first) in [("forget.jsonl", 0), ("retain.jsonl", 40)] {
        let lines = (0..4).map(|number| format!("{}\n", json!({"text": words(first + number)})));
        sandbox.write(name, lines.collect::<String>());
    }
    for (name, step) in [("questions.jsonl", 1), ("other.jsonl", 5)] {
        let question = |number: usize| {
            let word = |index: usize| format!("w{}", 3 + (number * 11 + index * step) % 90);
            json!({"question": word(0), "choices": [word(1), word(2), word(3), word(4)], "answer": number % 4})
        };
        sandbox.write(name, (0..12).map(|number| format!("{}\n", question(number))).collect::<String>());
    }
    let units: String = (0..*latents).map(|unit| format!("m{},l{}\n", unit % 2, unit % 3)).collect();
    sandbox.write("units.csv", format!("model,layer\n{units}"));
    let answers: String = (0..6 * latents).map(|trial| format!("{},{}\n", trial / 6, trial % 6 % 2)).collect();
    sandbox.write("responses.csv", format!("unit,correct\n{answers}"));
    let classes: String = (0..*rows).map(|row| format!("{}\n", row * 7 % 3)).collect();
    sandbox.write("task.csv", format!("task\n{classes}"));
}

/// Writes entities, `entities`, whose labels are what the tiny model answers.
fn make_entities(sandbox: &Sandbox) {
    let templates = [("A", ["%s", "w7 %s"]), ("B", ["w8 w9 %s", "w11 %s"])];
    let names: Vec<String> = (20..26).map(|word| format!("w{word}")).collect();
    let first = |template: &str, name: &str| {
        let arguments = ["generate", "--model", "model", &template.replace("%s", name), "--json", "--tokens", "6"];
        let answer = finish(etalon(&sandbox.path("."), &arguments), TIME_LIMIT).json();
        answer["text"].as_str().unwrap().trim().to_string()
    };
    let labels = |name: &String| {
        let of = |(attribute, templates): &(&str, [&str; 2])| (attribute.to_string(), json!(first(templates[0], name)));
        (name.clone(), Value::Object(templates.iter().map(of).collect()))
    };
    let splits = |names: Vec<String>| -> Value {
        let split =
            |(index, name): (usize, String)| (name, json!(if index.is_multiple_of(2) { "train" } else { "val" }));
        Value::Object(names.into_iter().enumerate().map(split).collect())
    };
    let all: Vec<String> = templates.iter().flat_map(|(_, texts)| texts.map(String::from)).collect();
    let of_attribute = |(name, texts): &(&str, [&str; 2])| (name.to_string(), json!(texts));
    let files = [
        ("entity_attributes", Value::Object(names.iter().map(labels).collect())),
        ("attribute_to_prompts", Value::Object(templates.iter().map(of_attribute).collect())),
        ("entity_to_split", splits(names.clone())),
        ("prompt_to_split", splits(all)),
    ];
    for (part, value) in files {
        sandbox.write(&format!("entities/ravel_word_{part}.json"), value.to_string());
    }
}

/// Inputs of `unlearning`.
const UNLEARNING: &str =
    "--forget forget.jsonl --retain retain.jsonl --questions questions.jsonl --side-questions other.jsonl";

/// Options of `eval` with every input that a metric can use.
pub fn inputs(sandbox: &Sandbox, metric: &str) -> String {
    if needs_network(sandbox).iter().any(|other| other == metric) {
        // The sequences are too short for the usual windows, and letters are no tokens of the tiny model.
        let of_metric = match metric {
            "autointerp" => "--buffer 3".to_string(),
            "ravel" => "--entities entities".to_string(),
            "unlearning" => format!("{UNLEARNING} --answers texts"),
            _ => String::new(),
        };
        return format!("--sae spliced --store captured/sites/{SITE} --capture captured {of_metric}");
    }
    let generated = "--generated m=world/activations --generated n=made/activations";
    let people = "--units units.csv --responses responses.csv --task-labels task.csv";
    format!("--sae sae0 --world world --other sae1 --null null {generated} {people}")
}

fn names(sandbox: &Sandbox, keep: impl Fn(&Value) -> bool) -> Vec<String> {
    let cards = sandbox.done("metrics --json").json();
    let cards = cards.as_array().unwrap().iter().filter(|card| keep(card));
    cards.map(|card| card["name"].as_str().unwrap().to_string()).collect()
}

/// The names of all metrics.
pub fn metrics(sandbox: &Sandbox) -> Vec<String> {
    names(sandbox, |_| true)
}

/// The names of the metrics that run a network or read its tokens.
fn needs_network(sandbox: &Sandbox) -> Vec<String> {
    let needs = |card: &Value, input: &str| card["needs"].to_string().contains(input);
    names(sandbox, |card| needs(card, "capture") || needs(card, "tokens"))
}

/// Parameters that make metrics quick, as tables of a study.
fn quick(sandbox: &Sandbox, metrics: &[String]) -> String {
    let cards = sandbox.done("metrics --json").json();
    let mut text = String::new();
    let wanted = |card: &&Value| metrics.iter().any(|name| card["name"] == name.as_str());
    for card in cards.as_array().unwrap().iter().filter(wanted) {
        let params = card["params"].as_array().unwrap().iter().filter_map(|param| param["name"].as_str());
        let quick = params.filter_map(|name| match name {
            "repeats" | "full_repeats" => Some(format!("{name} = 1\n")),
            "meta_steps" => Some(format!("{name} = 20\n")),
            "tasks" | "stages" | "splits" => Some(format!("{name} = 2\n")),
            "explanations" => Some(format!("{name} = 4\n")),
            "min_active" => Some(format!("{name} = 20\n")),
            "buffer" => Some(format!("{name} = 3\n")),
            "mask_batch" => Some(format!("{name} = 2\n")),
            "steered_latents" => Some(format!("{name} = 1\n")),
            "generated_tokens" => Some(format!("{name} = 4\n")),
            "answers" => Some(format!("{name} = \"texts\"\n")),
            _ => None,
        });
        let quick: String = quick.collect();
        if !quick.is_empty() {
            text += &format!("[params.{}]\n{quick}", card["name"].as_str().unwrap());
        }
    }
    text
}

/// Which metrics a study has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Those that need rows only.
    World,
    /// Those that run a network.
    Network,
}

/// A study of metrics on one set with all their inputs. Returns the number of metrics.
pub fn write_study(sandbox: &Sandbox, of: Of, name: &str, out: &str) -> usize {
    let network = needs_network(sandbox);
    let names: Vec<String> =
        metrics(sandbox).into_iter().filter(|name| network.contains(name) == (of == Of::Network)).collect();
    let set = match of {
        Of::World => "sae = \"sae0\"\nworld = \"world\"\nother = [\"sae1\"]\nnull = [\"null\"]\n\
             generated = [\"m=world/activations\", \"n=made/activations\"]\n\
             units = \"units.csv\"\nresponses = \"responses.csv\"\ntask-labels = \"task.csv\"\n"
            .to_string(),
        Of::Network => {
            format!(
                "sae = \"spliced\"\nembeddings = \"captured/sites/{SITE}\"\ncapture = \"captured\"\nentities = \"entities\"\n\
                 forget = \"forget.jsonl\"\nretain = \"retain.jsonl\"\nquestions = \"questions.jsonl\"\n\
                 side-questions = [\"other.jsonl\"]\n"
            )
        }
    };
    let (params, list) = (quick(sandbox, &names), names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>());
    sandbox.write(
        name,
        format!("out = \"{out}\"\nmetrics = [{}]\n[[set]]\nname = \"all\"\n{set}{params}", list.join(", ")),
    );
    names.len()
}
