//! Checks a description of a tokenizer before the library reads it: the library trusts its files and would panic.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use etalon::error::{Error, InputError, Result};
use serde_json::{Map, Value};
use tokenizers::utils::SysRegex;

use super::sentencepiece::{CharsMap, MOST_TOKENS};

/// Steps of a pipeline. The library guesses the kind of a step whose name it does not know.
const STEPS: [&str; 32] = [
    "BPEDecoder",
    "BertNormalizer",
    "BertPreTokenizer",
    "BertProcessing",
    "ByteFallback",
    "ByteLevel",
    "CTC",
    "CharDelimiterSplit",
    "Digits",
    "FixedLength",
    "Fuse",
    "Lowercase",
    "Metaspace",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Precompiled",
    "Prepend",
    "Punctuation",
    "Replace",
    "RobertaProcessing",
    "Sequence",
    "Split",
    "Strip",
    "StripAccents",
    "TemplateProcessing",
    "UnicodeScripts",
    "Whitespace",
    "WhitespaceSplit",
    "WordPiece",
];

/// Refuses what the library would panic on.
pub(super) fn check(description: &Map<String, Value>) -> Result<()> {
    let model = description.get("model").and_then(Value::as_object);
    let model = model.ok_or_else(|| wrong("`model` is missing"))?;
    let vocabulary = model.get("vocab").and_then(Value::as_object);
    let tokens = vocabulary.map_or_else(|| model.get("vocab").and_then(Value::as_array).map_or(0, Vec::len), Map::len);
    if tokens == 0 || tokens > MOST_TOKENS {
        return Err(InputError::new("the vocabulary of the tokenizer is empty or too large")
            .expected(format!("1 to {MOST_TOKENS} tokens"))
            .found(tokens)
            .into());
    }
    if let (Some(vocabulary), Some(merges)) = (vocabulary, model.get("merges").and_then(Value::as_array)) {
        let prefix = model.get("continuing_subword_prefix").and_then(Value::as_str).unwrap_or_default();
        merges.iter().try_for_each(|merge| check_merge(merge, vocabulary, prefix))?;
    }
    let steps = ["normalizer", "pre_tokenizer", "post_processor", "decoder"];
    steps.iter().filter_map(|step| description.get(*step)).try_for_each(|step| check_step(step, 0))
}

/// A merge is `left right` or a pair; both and their union must be tokens.
fn check_merge(merge: &Value, vocabulary: &Map<String, Value>, prefix: &str) -> Result<()> {
    let pair = match merge {
        Value::String(text) => text.split_once(' '),
        Value::Array(parts) => match &parts[..] {
            [Value::String(left), Value::String(right)] => Some((left.as_str(), right.as_str())),
            _ => None,
        },
        _ => None,
    };
    let (left, right) = pair.ok_or_else(|| wrong(&format!("a merge that is no pair: {merge}")))?;
    let merged = right.strip_prefix(prefix).map(|right| format!("{left}{right}")).unwrap_or_default();
    let missing = [left, right, &merged].into_iter().find(|token| !vocabulary.contains_key(*token));
    match missing {
        None => Ok(()),
        Some(token) => Err(InputError::new("a merge of the tokenizer has a token that the vocabulary does not have")
            .found(format!("{token:?}"))
            .at(format!("the merge of {left:?} and {right:?}"))
            .advice("the file is damaged, or its parts belong to different models; download it again")
            .into()),
    }
}

/// A step of the pipeline, and those in it.
fn check_step(step: &Value, depth: usize) -> Result<()> {
    if depth > 8 {
        return Err(wrong("steps nested more than eight times"));
    }
    if step.is_null() {
        return Ok(());
    }
    let name = step.get("type").and_then(Value::as_str).unwrap_or_default();
    if !STEPS.contains(&name) {
        return Err(InputError::new(format!("unknown step `{name}` in the tokenizer")).one_of(name, &STEPS).into());
    }
    match name {
        "Precompiled" => {
            let map = step.get("precompiled_charsmap").and_then(Value::as_str).unwrap_or_default();
            let map = STANDARD.decode(map).map_err(|_| wrong("a character map that is not Base64"))?;
            CharsMap::read(&map)?;
        }
        "FixedLength" if step.get("length").and_then(Value::as_u64) == Some(0) => {
            return Err(wrong("a split into parts of length 0"));
        }
        "Prepend" if step.get("prepend").and_then(Value::as_str) == Some("") => {
            return Err(wrong("a normalizer that prepends nothing"));
        }
        // Fails on tokens that are shorter.
        "Strip" if step.get("stop").and_then(Value::as_u64).unwrap_or(0) > 0 => {
            return Err(wrong("a decoder that removes characters at the end of tokens"));
        }
        "TemplateProcessing" => check_template(step)?,
        "Replace" => {
            let pattern = step.get("pattern").and_then(|pattern| pattern.get("Regex")).and_then(Value::as_str);
            check_pattern(pattern.unwrap_or("a"))?;
        }
        _ => {}
    }
    let lists = ["normalizers", "pretokenizers", "processors", "decoders"];
    let inner = lists.iter().filter_map(|list| step.get(*list)?.as_array()).flatten();
    inner.into_iter().try_for_each(|step| check_step(step, depth + 1))
}

/// A template names only special tokens that it defines, and no second text where there is one.
fn check_template(template: &Value) -> Result<()> {
    for key in ["single", "pair"] {
        for piece in template.get(key).and_then(Value::as_array).into_iter().flatten() {
            let of = |kind: &str| piece.get(kind).and_then(|piece| piece.get("id")).and_then(Value::as_str);
            let defined = |name: &str| template.get("special_tokens").is_some_and(|tokens| tokens.get(name).is_some());
            if of("SpecialToken").is_some_and(|name| !defined(name)) || (key == "single" && of("Sequence") == Some("B"))
            {
                return Err(wrong(&format!("a template with an unknown part: {piece}")));
            }
        }
    }
    Ok(())
}

/// A pattern that matches the empty text makes the library fail on some texts.
fn check_pattern(pattern: &str) -> Result<()> {
    let invalid = |error: tokenizers::Error| wrong(&format!("the pattern {pattern:?}: {error}"));
    let regex = SysRegex::new(pattern).map_err(invalid)?;
    let empty = ["", "a b", "Ab1 .,\n\té日"].iter().any(|text| regex.find_iter(text).any(|(start, end)| start == end));
    if empty { Err(wrong(&format!("the pattern {pattern:?}, which matches the empty text"))) } else { Ok(()) }
}

fn wrong(found: &str) -> Error {
    InputError::new("the description of the tokenizer is not valid")
        .expected("a `tokenizer.json` that the tokenizers library of Hugging Face wrote")
        .found(found)
        .advice("copy or download the file again")
        .into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refused(description: Value) -> String {
        check(description.as_object().unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn what_the_library_panics_on_is_refused() {
        assert!(refused(json!({})).contains("`model` is missing"));
        assert!(refused(json!({"model": {"vocab": {}}})).contains("empty"));
        let merged = |merge: Value| json!({"model": {"vocab": {"a": 0, "b": 1}, "merges": [merge]}});
        assert!(refused(merged(json!("a b"))).contains("\"ab\""));
        assert!(refused(merged(json!(["a", "c"]))).contains("\"c\""));
        assert!(refused(merged(json!("ab"))).contains("no pair"));
        let step = json!({"type": "Sequence", "pretokenizers": [{"type": "FixedLength", "length": 0}]});
        assert!(refused(json!({"model": {"vocab": {"a": 0}}, "pre_tokenizer": step})).contains("length 0"));
    }
}
