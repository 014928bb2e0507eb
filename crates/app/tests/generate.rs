//! `etalon generate`: conversations with the template of a model, and seeded sampling.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::everything::make_model;
use common::gguf::Llama;
use common::{Output, Sandbox, TIME_LIMIT, etalon, finish};
use serde_json::{Value, json};

/// Runs `generate` with a prompt and options.
fn generate(sandbox: &Sandbox, model: &str, prompt: &str, options: &[&str]) -> Output {
    let arguments = [&["generate", "--model", model, prompt, "--json"][..], options].concat();
    finish(etalon(&sandbox.path("."), &arguments), TIME_LIMIT)
}

fn done(sandbox: &Sandbox, model: &str, prompt: &str, options: &[&str]) -> Value {
    let output = generate(sandbox, model, prompt, options);
    assert_eq!(output.code, Some(0), "{output:#?}");
    output.json()
}

/// Puts `w7` in front of a message and `w9` behind it; the answer follows `w11`.
const TEMPLATE: &str = "{{ bos_token }} {% for message in messages %}w7 {{ message['content'] }} w9 {% endfor %}{% if add_generation_prompt %}w11{% endif %}";

#[test]
fn a_conversation_has_the_template_of_the_model() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 1);
    let refused = generate(&sandbox, "model", "w5 w6", &["--chat"]);
    assert!(refused.code == Some(2) && refused.err.contains("no chat template"), "{refused:#?}");
    assert!(refused.err.contains("help: leave out `--chat`") && refused.json()["exit_code"] == 2, "{refused:#?}");
    let mut config = sandbox.json("model/tokenizer_config.json");
    config["chat_template"] = json!(TEMPLATE);
    sandbox.write("model/tokenizer_config.json", config.to_string());
    let options = ["--tokens", "8"];
    let chat = done(&sandbox, "model", "w5 w6", &["--chat", "--tokens", "8"]);
    // <s>, w7, the prompt, w9 and w11.
    assert_eq!(chat["prompt_tokens"], 6);
    let by_hand = done(&sandbox, "model", "<s> w7 w5 w6 w9 w11", &options);
    assert_eq!((&chat["tokens"], &by_hand["prompt_tokens"]), (&by_hand["tokens"], &json!(6)));
    assert_ne!(chat["tokens"], done(&sandbox, "model", "w5 w6", &options)["tokens"]);
}

#[test]
fn a_conversation_has_the_template_of_a_gguf_file() {
    let sandbox = Sandbox::new();
    let network = Llama { width: 64, hidden: 64, layers: 2 };
    network.write(&sandbox.path("plain.gguf"));
    let refused = generate(&sandbox, "plain.gguf", "ab", &["--chat"]);
    assert!(refused.code == Some(2) && refused.err.contains("no chat template"), "{refused:#?}");
    let template = "{{ bos_token }}{% for message in messages %}q{{ message['content'] }}{% endfor %}{% if add_generation_prompt %}a{% endif %}";
    network.write_with(&sandbox.path("chat.gguf"), Some(template));
    let chat = done(&sandbox, "chat.gguf", "xyz", &["--chat", "--tokens", "6"]);
    // The tokenizer adds <s> and the space of SentencePiece to a text: they are the same in both prompts.
    let by_hand = done(&sandbox, "chat.gguf", "qxyza", &["--tokens", "6"]);
    assert_eq!(chat, by_hand);
    // A template changes nothing else.
    assert_eq!(done(&sandbox, "plain.gguf", "qxyza", &["--tokens", "6"]), by_hand);
}

#[test]
fn the_same_seed_gives_the_same_text() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 1);
    let sample = |options: &[&str]| {
        done(&sandbox, "model", "w5 w6", &[options, &["--tokens", "20", "--temperature", "2"]].concat())["tokens"]
            .clone()
    };
    let first = sample(&["--seed", "5"]);
    assert_eq!(sample(&["--seed", "5"]), first);
    for threads in ["1", "2", "7"] {
        assert_eq!(sample(&["--seed", "5", "--threads", threads]), first);
    }
    assert_ne!(sample(&["--seed", "6"]), first);
    assert_ne!(sample(&["--seed", "5", "--top-k", "1"]), first);
    // The most probable token alone is what greedy generation takes.
    let greedy = done(&sandbox, "model", "w5 w6", &["--tokens", "20"])["tokens"].clone();
    assert_eq!(sample(&["--seed", "5", "--top-k", "1"]), greedy);
}
