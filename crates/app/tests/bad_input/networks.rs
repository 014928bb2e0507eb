//! Networks and texts that do not fit together, or are damaged.

use serde_json::{Value, json};

use crate::common::Sandbox;
use crate::common::everything::{SITE, make_model};
use crate::{Case, case};

/// A capture of the tiny model, before something is wrong.
fn capture(room: &Sandbox) -> String {
    make_model(room, 8);
    format!("capture --model model --input texts.jsonl --site {SITE} --context 16 --out out")
}

/// The same network in a training that stores no activations.
fn stream(room: &Sandbox) -> String {
    let network = capture(room).replace("capture ", "").replace(" --out out", "");
    format!("train --stream --steps 4 --batch 8 --buffer 40 --arch topk --latents 8 --k 2 {network} --out out")
}

/// Changes a JSON file.
fn change(room: &Sandbox, name: &str, change: impl FnOnce(&mut Value)) {
    let mut value = room.json(name);
    change(&mut value);
    room.write(name, value.to_string());
}

/// Gives a tensor another name of the same length.
fn rename(room: &Sandbox, from: &str, to: &str) {
    assert_eq!(from.len(), to.len());
    room.change("model/model.safetensors", |bytes| {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
    });
}

const DOWN: &str = "model.layers.1.mlp.down_proj.weight";

pub fn cases() -> Vec<Case> {
    let mut cases = weights();
    cases.extend(texts());
    cases.extend(streams());
    cases.extend(entities());
    cases
}

/// Files of entities, of which one is changed; an empty text removes it.
fn write_entities(room: &Sandbox, changed: &str, text: &str) -> String {
    let files = [
        ("entity_attributes", r#"{"w20": {"A": "w5"}, "w21": {"A": "w6"}}"#),
        ("attribute_to_prompts", r#"{"A": ["w7 %s"]}"#),
        ("entity_to_split", r#"{"w20": "train", "w21": "val"}"#),
        ("prompt_to_split", r#"{"w7 %s": "train"}"#),
    ];
    for (part, own) in files {
        let text = if part == changed { text } else { own };
        if !text.is_empty() {
            room.write(&format!("entities/ravel_word_{part}.json"), text);
        }
    }
    make_model(room, 8);
    room.done(&format!("capture --model model --input texts.jsonl --site {SITE} --context 16 --pack --out captured"));
    room.done(&format!("train --store captured/sites/{SITE} --arch identity --out sae"));
    format!("eval ravel --sae sae --store captured/sites/{SITE} --capture captured --entities entities --out out.json")
}

fn entities() -> Vec<Case> {
    vec![
        case(
            "entities of an unknown name",
            |_| "eval ravel --entities countris --out out.json".into(),
            &[
                "error: there is no file, folder or packaged name of this name\n  found: `countris`\n  help: did you mean `countries`?",
            ],
        ),
        case(
            "entities without one of their files",
            |room| write_entities(room, "prompt_to_split", ""),
            &["error: a file about `word` is missing\n  expected: `ravel_word_prompt_to_split.json` beside"],
        ),
        case(
            "entities that are no object",
            |room| write_entities(room, "entity_attributes", "[]"),
            &["error: the file is not the JSON object that it should be", "{entity: {attribute: label}}"],
        ),
        case(
            "a template without an entity",
            |room| write_entities(room, "attribute_to_prompts", r#"{"A": ["w7 w8"]}"#),
            &[
                "error: a template of `A` does not have one place for the entity\n  expected: `%s` once\n  found: 0 times in `w7 w8`",
            ],
        ),
        case(
            "an entity of an unknown split",
            |room| write_entities(room, "entity_to_split", r#"{"w20": "train", "w21": "dev"}"#),
            &["error: unknown split of the entity `w21`\n  expected: train, val or test\n  found: `dev`"],
        ),
    ]
}

fn weights() -> Vec<Case> {
    vec![
        case(
            "truncated weights",
            |room| {
                let command = capture(room);
                room.change("model/model.safetensors", |bytes| bytes.truncate(bytes.len() - 5));
                command
            },
            &[
                "error: the length of the safetensors file does not agree with its header\n  expected: 65800 bytes\n  found: 65795 bytes\n  \
               help: copy or write the file again\n  file: model/model.safetensors\n",
            ],
        ),
        case(
            "a header that ends",
            |room| {
                let command = capture(room);
                room.change("model/model.safetensors", |bytes| bytes.truncate(60));
                command
            },
            &[
                "error: the header of the safetensors file is too long\n  expected: at most 52 bytes\n  found: 2912 bytes\n  at: byte 0\n  \
               help: copy or write the file again\n  file: model/model.safetensors\n",
            ],
        ),
        case(
            "an architecture that is not known",
            |room| {
                let command = capture(room);
                change(room, "model/config.json", |config| config["model_type"] = json!("mamba"));
                command
            },
            &["mamba", "llama"],
        ),
        case(
            "an architecture that is not the one of the file",
            |room| {
                let command = capture(room);
                change(room, "model/config.json", |config| {
                    *config = json!({"model_type": "gpt2", "n_embd": 16, "n_layer": 2, "n_head": 2, "vocab_size": 96, "n_positions": 32});
                });
                command
            },
            &["`ln_f.weight` is missing", "model.safetensors"],
        ),
        case(
            "a missing tensor",
            |room| {
                let command = capture(room);
                rename(room, DOWN, "model.layers.1.mlp.down_proj.weighs");
                command
            },
            &[DOWN, "model.safetensors"],
        ),
        case(
            "an extra tensor",
            |room| {
                let command = capture(room).replace("blocks.1", "blocks.0");
                change(room, "model/config.json", |config| {
                    let layers = config["num_hidden_layers"].as_u64().unwrap();
                    config["num_hidden_layers"] = json!(layers - 1);
                });
                command
            },
            &["error: the file has tensors that the network does not use\n  \
               expected: the tensors of the architecture in the configuration, and no others\n  \
               found: `model.layers.2.input_layernorm.weight`, `model.layers.2.mlp.down_proj.weight`, \
               `model.layers.2.mlp.gate_proj.weight`, `model.layers.2.mlp.up_proj.weight`, \
               `model.layers.2.post_attention_layernorm.weight` and 4 more\n  \
               help: check that the configuration belongs to the weights\n  file: model\n"],
        ),
        case(
            "a tensor of another shape",
            |room| {
                let command = capture(room);
                change(room, "model/config.json", |config| {
                    let hidden = config["intermediate_size"].as_u64().unwrap();
                    config["intermediate_size"] = json!(hidden + 8);
                });
                command
            },
            &["wrong shape", "expected: ", "mlp."],
        ),
        case(
            "a hub name that is not in the cache",
            |room| capture(room).replace("--model model", "--model nobody/nothing-of-this-name"),
            &["nobody/nothing-of-this-name", "`etalon fetch"],
        ),
        case(
            "a packaged name that was not fetched",
            |room| capture(room).replace("--model model", "--model smollm2 --cache empty"),
            &["smollm2", "`etalon fetch smollm2`"],
        ),
        case(
            "a tokenizer with more tokens than the network",
            |room| {
                let command = capture(room);
                change(room, "model/tokenizer.json", |tokenizer| {
                    (96..120).for_each(|id| tokenizer["model"]["vocab"][format!("w{id}")] = json!(id));
                });
                command
            },
            &["more tokens", "120", "96"],
        ),
    ]
}

fn texts() -> Vec<Case> {
    vec![
        case(
            "no text",
            |room| {
                let command = capture(room);
                room.write("texts.jsonl", "");
                command
            },
            &["texts.jsonl"],
        ),
        case(
            "an empty text",
            |room| {
                let command = capture(room);
                room.write("texts.jsonl", "{\"text\": \"\"}\n");
                command
            },
            &["none of the texts", "the text is empty"],
        ),
        case(
            "a text that is not UTF-8",
            |room| {
                room.write("texts.txt", b"w3 w4 \xff\xfe w5");
                capture(room).replace("texts.jsonl", "texts.txt")
            },
            &["UTF-8", "texts.txt"],
        ),
        case(
            "records that are not UTF-8",
            |room| {
                let command = capture(room);
                room.write("texts.jsonl", b"{\"text\": \"w3 \xff\"}\n");
                command
            },
            &["UTF-8", "texts.jsonl"],
        ),
        case(
            "sequences longer than the context",
            |room| capture(room).replace("--context 16", "--context 4096"),
            &["longer than the context", "4096 tokens"],
        ),
    ]
}

fn streams() -> Vec<Case> {
    vec![
        case(
            "stream: truncated weights",
            |room| {
                let command = stream(room);
                room.change("model/model.safetensors", |bytes| bytes.truncate(bytes.len() - 5));
                command
            },
            &["file: model/model.safetensors"],
        ),
        case(
            "stream: an empty text",
            |room| {
                let command = stream(room);
                room.write("texts.jsonl", "{\"text\": \"\"}\n");
                command
            },
            &["none of the texts", "the text is empty"],
        ),
        case(
            "stream: packed texts that fill no sequence",
            |room| {
                let command = stream(room);
                room.write("texts.jsonl", "{\"text\": \"w3 w4\"}\n");
                format!("{command} --pack")
            },
            &["no rows to train on"],
        ),
        case(
            "stream: a hub name that is not in the cache",
            |room| stream(room).replace("--model model", "--model nobody/nothing-of-this-name"),
            &["nobody/nothing-of-this-name", "`etalon fetch"],
        ),
        case("stream: without steps", |room| stream(room).replace("--steps 4", ""), &["--steps"]),
        case("stream: with epochs", |room| stream(room).replace("--steps 4", "--steps 4 --epochs 2"), &["--epochs"]),
        case("stream: of a store", |room| format!("{} --store x.npy", stream(room)), &["--store", "cannot be used"]),
        case("stream: a held-out split", |room| format!("{} --held-out a", stream(room)), &["--held-out"]),
        case(
            "stream: a buffer smaller than a batch",
            |room| stream(room).replace("--buffer 40", "--buffer 7"),
            &["`--buffer`", "at least 8 rows", "found: 7"],
        ),
        case(
            "stream: a buffer larger than the memory",
            |room| format!("{} --memory 50MB", stream(room).replace("--buffer 40", "--buffer 100000000")),
            &["not enough memory", "a shuffle buffer of ", "`--buffer`"],
        ),
        case(
            "stream: a baseline",
            |room| stream(room).replace("--arch topk", "--arch topk,untrained"),
            &["`untrained`", "without `--stream`"],
        ),
        case("a buffer without a stream", |room| stream(room).replace("--stream ", ""), &["--stream"]),
    ]
}
