//! Tokens that no text has.

use crate::network::Tokenize;

/// Names of tokens that were reserved and never used, without brackets and number.
const PLACEHOLDERS: [&str; 7] =
    ["unused", "reserved", "reserved_special_token", "reserved_token", "extra_id", "extra", "dummy"];

/// Whether a token is one that no text has: outside of the tokenizer, special, without text, or reserved.
pub(super) fn is_unused(tokenizer: &dyn Tokenize, token: u32) -> bool {
    if token as usize >= tokenizer.size() || tokenizer.is_special(token) {
        return true;
    }
    tokenizer.token_text(token).map_or(true, |text| text.is_empty() || is_placeholder(&text))
}

/// Whether a text is the name of a reserved token, such as `<unused12>` or `<|reserved_special_token_3|>`.
fn is_placeholder(text: &str) -> bool {
    let brackets = |c: char| matches!(c, '<' | '>' | '[' | ']' | '|');
    let inside = text.trim_matches(brackets);
    inside.len() + 2 <= text.len()
        && PLACEHOLDERS.contains(&inside.trim_end_matches(|c: char| c.is_ascii_digit() || c == '_'))
}

/// A token as a table shows it: control characters are escaped.
pub(super) fn shown(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NumberTokenizer;

    #[test]
    fn reserved_tokens_are_recognised_by_name() {
        for name in ["<unused12>", "[unused3]", "<|reserved_special_token_247|>", "<extra_id_0>", "<|extra_7|>"] {
            assert!(is_placeholder(name), "{name}");
        }
        for name in ["unused", " extra", "<b>", "<extraordinary>", "[1]", "<", "", "<reserved words>"] {
            assert!(!is_placeholder(name), "{name}");
        }
        let tokenizer = NumberTokenizer { size: 3, bos: Some(1) };
        assert_eq!([0, 1, 2, 3].map(|token| is_unused(&tokenizer, token)), [false, true, false, true]);
        assert_eq!(shown(" a\n\u{7f}é"), " a\\n\\u{7f}é");
    }
}
