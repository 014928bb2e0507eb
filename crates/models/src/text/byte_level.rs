//! Byte-level BPE, the tokenizers of GPT-2 and its successors: every byte is written as a visible character.

use etalon::error::{InputError, Result};
use serde_json::{Map, Value, json};

/// The characters of the 256 bytes.
pub(super) struct Alphabet {
    /// Bytes of the characters from U+0000 to U+0143.
    bytes: [Option<u8>; 324],
}

impl Alphabet {
    /// Visible Latin-1 characters stand for themselves; the other bytes follow, in order, from U+0100 on.
    pub fn new() -> Alphabet {
        let mut bytes = [None; 324];
        let mut next = 256;
        for byte in 0..=255_u8 {
            let visible = matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
            let character = if visible { usize::from(byte) } else { next };
            next += usize::from(!visible);
            if let Some(slot) = bytes.get_mut(character) {
                *slot = Some(byte);
            }
        }
        Alphabet { bytes }
    }

    /// The bytes of a token. Characters outside the alphabet are kept.
    pub fn bytes(&self, token: &str) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(token.len());
        for character in token.chars() {
            match self.bytes.get(character as usize).copied().flatten() {
                Some(byte) => bytes.push(byte),
                None => bytes.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes
    }
}

/// How a text is split before pairs are merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    /// GPT-2's pattern.
    Gpt2,
    /// Digits one by one, then GPT-2's pattern.
    Digits,
    /// Llama 3's pattern: up to three digits; words that are tokens are not merged.
    Llama3,
    /// Qwen 2's pattern: digits one by one; text is composed (NFC) first.
    Qwen2,
    /// What llama.cpp does for vocabularies of unknown origin.
    Default,
}

/// Names of splits in the key `tokenizer.ggml.pre` of GGUF files.
const NAMES: [(&str, Split); 25] = [
    ("default", Split::Default),
    ("gpt-2", Split::Gpt2),
    ("exaone4", Split::Gpt2),
    ("gigachat", Split::Gpt2),
    ("jais", Split::Gpt2),
    ("mellum", Split::Gpt2),
    ("modern-bert", Split::Gpt2),
    ("mpt", Split::Gpt2),
    ("olmo", Split::Gpt2),
    ("phi-2", Split::Gpt2),
    ("trillion", Split::Gpt2),
    ("smollm", Split::Digits),
    ("codeshell", Split::Digits),
    ("command-r", Split::Digits),
    ("exaone", Split::Digits),
    ("minerva-7b", Split::Digits),
    ("refact", Split::Digits),
    ("starcoder", Split::Digits),
    ("llama-bpe", Split::Llama3),
    ("llama3", Split::Llama3),
    ("llama-v3", Split::Llama3),
    ("falcon3", Split::Llama3),
    ("pixtral", Split::Llama3),
    ("qwen2", Split::Qwen2),
    ("deepseek-r1-qwen", Split::Qwen2),
];

/// Contractions in any case, words with one leading character, digits, punctuation, line ends, spaces; `N` is replaced.
const CASELESS: &str =
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|N| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";

impl Split {
    /// The split of a name in a GGUF file; unknown names are refused, because a wrong split gives plausible wrong tokens.
    pub fn named(name: &str) -> Result<Split> {
        if let Some((_, split)) = NAMES.iter().find(|(known, _)| *known == name) {
            return Ok(*split);
        }
        let known = NAMES.map(|(known, _)| known);
        Err(InputError::new(format!("unknown pre-tokenizer `{name}` in the GGUF file"))
            .advice("use the `tokenizer.json` of the model instead.")
            .one_of(name, &known)
            .into())
    }

    /// Whether words that are tokens are used as they are, whatever the merges say.
    pub fn ignores_merges(self) -> bool {
        self == Split::Llama3
    }

    fn normalizer(self) -> Value {
        if self == Split::Qwen2 { json!({"type": "NFC"}) } else { Value::Null }
    }

    fn pre_tokenizer(self) -> Value {
        let pattern = |regex: &str| json!({"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": false});
        let bytes = |regex: bool| json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": regex});
        let steps = match self {
            Split::Gpt2 => vec![bytes(true)],
            Split::Digits => vec![json!({"type": "Digits", "individual_digits": true}), bytes(true)],
            Split::Llama3 => vec![pattern(&CASELESS.replace("|N|", r"|\p{N}{1,3}|")), bytes(false)],
            Split::Qwen2 => vec![pattern(&CASELESS.replace("|N|", r"|\p{N}|")), bytes(false)],
            Split::Default => vec![
                pattern(r"[\p{P}\$\+<=>\^~\|]+"),
                pattern(r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)"),
                pattern(r"\p{N}+"),
                pattern("[0-9][0-9][0-9]"),
                bytes(false),
            ],
        };
        json!({"type": "Sequence", "pretokenizers": steps})
    }
}

/// A byte-level tokenizer in the terms of `tokenizer.json`. `merges` are `left right`; `added` are id, text, and whether
/// it is a control token.
pub(super) fn describe(
    vocabulary: Map<String, Value>,
    merges: Vec<String>,
    added: &[(u32, String, bool)],
    split: Split,
) -> Map<String, Value> {
    let merges: Vec<Value> = merges.into_iter().map(Value::String).collect();
    let mut model = Map::new();
    model.insert("type".into(), "BPE".into());
    model.insert("ignore_merges".into(), split.ignores_merges().into());
    model.insert("vocab".into(), Value::Object(vocabulary));
    model.insert("merges".into(), Value::Array(merges));
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let mut description = Map::new();
    description.insert("version".into(), "1.0".into());
    description.insert("added_tokens".into(), added_tokens(added));
    description.insert("normalizer".into(), split.normalizer());
    description.insert("pre_tokenizer".into(), split.pre_tokenizer());
    description.insert("post_processor".into(), bytes.clone());
    description.insert("decoder".into(), bytes);
    description.insert("model".into(), Value::Object(model));
    description
}

/// Added tokens in the terms of `tokenizer.json`.
pub(super) fn added_tokens(added: &[(u32, String, bool)]) -> Value {
    let entry = |(id, content, special): &(u32, String, bool)| {
        json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
            "normalized": false, "special": special})
    };
    added.iter().map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_has_one_character() {
        let alphabet = Alphabet::new();
        let mut bytes: Vec<u8> = alphabet.bytes.iter().flatten().copied().collect();
        bytes.sort();
        assert_eq!(bytes, (0..=255).collect::<Vec<u8>>());
        // A space is the 33rd invisible byte: U+0100 + 32 = Ġ; a line feed is Ċ.
        assert_eq!(alphabet.bytes("ĠaĊ€"), b" a\n\xe2\x82\xac");
    }

    #[test]
    fn unknown_splits_are_refused_with_the_known_ones() {
        assert_eq!(Split::named("smollm").unwrap(), Split::Digits);
        let error = Split::named("smollm2").unwrap_err().to_string();
        assert!(error.contains("did you mean `smollm`") && error.contains("llama-bpe"), "{error}");
    }
}
