//! Tokenizers of language models.

use std::fs;
use std::path::Path;

use etalon::error::Result;
use etalon::network::Message;
use etalon_models::text::{Special, Tokenizer};

use crate::targets::Seeds;

/// Every kind of character, and what looks like a special token.
const TEXTS: [&str; 3] = ["The latent é 日本 🙂  x\n\n12<s>", "▁a", ""];

fn golden(names: &[&str]) -> Seeds {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/text");
    names.iter().map(|name| Ok((name.to_string(), fs::read(folder.join(name))?))).collect()
}

pub fn json() -> Seeds {
    let mut seeds = golden(&["byte_level/tokenizer.json", "unigram_json/tokenizer.json"])?;
    let steps = r#"{"added_tokens": [{"id": 3, "content": "<s>", "single_word": true, "lstrip": true, "rstrip": true,
            "normalized": true, "special": true}],
        "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Prepend", "prepend": "x"},
            {"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"}, {"type": "Lowercase"}]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"},
            {"type": "Digits", "individual_digits": true}, {"type": "FixedLength", "length": 2}]},
        "post_processor": {"type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<s>": {"id": "<s>", "ids": [3], "tokens": ["<s>"]}}},
        "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "WordPiece", "unk_token": "<u>", "continuing_subword_prefix": "-",
            "max_input_chars_per_word": 100, "vocab": {"<u>": 0, "b": 1, "-b": 2, "<s>": 3}}}"#;
    seeds.push(("steps".into(), steps.as_bytes().to_vec()));
    Ok(seeds)
}

pub fn model() -> Seeds {
    golden(&["unigram/tokenizer.model", "bpe/tokenizer.model", "bpe_suffix/tokenizer.model"])
}

pub fn llama2c() -> Seeds {
    golden(&["llama2c/tokenizer.bin", "llama2c_raw/tokenizer.bin"])
}

/// A vocabulary in two files with its settings and a chat template.
pub fn directory() -> Seeds {
    let named = |name: &str| golden(&[name]).map(|mut read| read.remove(0).1);
    Ok(vec![
        ("vocab.json".into(), named("gpt2/vocab.json")?),
        ("merges.txt".into(), named("gpt2/merges.txt")?),
        ("tokenizer_config.json".into(), named("byte_level/tokenizer_config.json")?),
        ("special_tokens_map.json".into(), named("gpt2/special_tokens_map.json")?),
        ("chat_template.jinja".into(), b"{% for m in messages %}{{ bos_token ~ m['role'] }}{% endfor %}".to_vec()),
    ])
}

/// Opens a tokenizer and uses it.
pub fn read(path: &Path) -> Result<()> {
    let tokenizer = Tokenizer::open(path)?;
    for text in TEXTS {
        for special in [Special::Add, Special::Recognise, Special::Ignore] {
            let encoded = tokenizer.encode_spans(text, special)?;
            assert_eq!(tokenizer.encode(text, special)?, encoded.ids);
            assert!(encoded.spans.iter().all(|span| span.start <= span.end && span.end as usize <= text.len()));
            tokenizer.decode(&encoded.ids)?;
            encoded.ids.iter().try_for_each(|id| tokenizer.token_text(*id).map(drop))?;
        }
    }
    let messages = [Message::new("user", "a")];
    tokenizer.chat_template().map_or(Ok(String::new()), |template| template.render_at(&messages, true, 0)).map(drop)
}
