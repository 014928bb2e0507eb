//! WordPiece, the tokenizer of BERT, in the terms of `tokenizer.json`.

use etalon::error::{Error, InputError, Result};
use serde_json::{Map, Value, json};

use super::byte_level::added_tokens;

/// Special tokens of BERT.
const SPECIAL: [&str; 5] = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"];

/// Whether a vocabulary was made of lower-case text: no word has a capital letter.
pub(super) fn is_lower_case(tokens: &[&str]) -> bool {
    let word = |token: &&&str| !(token.starts_with('[') && token.ends_with(']'));
    tokens.iter().filter(word).all(|token| !token.contains(|letter: char| letter.is_ascii_uppercase()))
}

/// A tokenizer of a list of tokens, of which those that continue a word start with `##`.
pub(super) fn describe(tokens: &[&str], lower_case: bool) -> Result<Map<String, Value>> {
    // The last of equal tokens counts, as in the original program.
    let vocabulary: Map<String, Value> =
        tokens.iter().enumerate().map(|(id, token)| (token.to_string(), id.into())).collect();
    let id = |token: &str| vocabulary.get(token).and_then(Value::as_u64).and_then(|id| u32::try_from(id).ok());
    let added: Vec<_> = SPECIAL.iter().filter_map(|token| Some((id(token)?, token.to_string(), true))).collect();
    let required = |token: &str| {
        id(token).ok_or_else(|| -> Error {
            InputError::new(format!("the vocabulary has no `{token}`"))
                .expected("the vocabulary of BERT, one token per line")
                .advice("is it another kind of file?")
                .into()
        })
    };
    let (start, end) = (required("[CLS]")?, required("[SEP]")?);
    required("[UNK]")?;
    let description = json!({
        "version": "1.0",
        "added_tokens": added_tokens(&added),
        "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
            "strip_accents": null, "lowercase": lower_case},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", end], "cls": ["[CLS]", start]},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": true},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100, "vocab": vocabulary},
    });
    match description {
        Value::Object(description) => Ok(description),
        _ => Ok(Map::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_is_recognised() {
        assert!(is_lower_case(&["[CLS]", "a", "##b"]));
        assert!(!is_lower_case(&["[CLS]", "A"]));
        let error = describe(&["a"], true).unwrap_err().to_string();
        assert!(error.contains("no `[CLS]`"), "{error}");
    }
}
