//! Reads `tokenizer.bin` of llama2.c: the vocabulary of Llama 2 without the kinds of its tokens.
//!
//! The file starts with the length of the longest token; then every token has a score (f32), a length (i32) and its
//! text. Spaces are not marked, and the first 259 tokens are the unknown token, the ends of a text, and 256 bytes.

use etalon::error::{Error, InputError, Result};

use super::sentencepiece::{MOST_TOKENS, SPACE_MARK};
use super::utf8;
use super::vocabulary::Vocabulary;

/// Tokens before those of text.
const RESERVED: usize = 259;

/// Reads the bytes of a file.
pub(super) fn read(bytes: &[u8]) -> Result<Vocabulary> {
    let mut rest = bytes;
    let longest = i32::from_le_bytes(take(&mut rest, bytes)?);
    let (mut tokens, mut scores, mut kinds) = (Vec::new(), Vec::new(), Vec::new());
    while !rest.is_empty() {
        let at = bytes.len() - rest.len();
        let score = f32::from_le_bytes(take(&mut rest, bytes)?);
        let length = i32::from_le_bytes(take(&mut rest, bytes)?);
        let text = usize::try_from(length).ok().filter(|_| length <= longest);
        let (text, after) = text.and_then(|length| rest.split_at_checked(length)).ok_or_else(|| {
            damaged(at).expected(format!("tokens of at most {longest} bytes")).found(format!("{length} bytes"))
        })?;
        rest = after;
        let id = tokens.len();
        if id == MOST_TOKENS {
            return Err(damaged(at).found("more than four million tokens").into());
        }
        let (token, kind) = match id {
            0 => ("<unk>".to_string(), 2),
            1 => ("<s>".to_string(), 3),
            2 => ("</s>".to_string(), 3),
            // Some versions write the byte itself.
            3..RESERVED => (format!("<0x{:02X}>", id - 3), 6),
            _ => (utf8(text).map_err(|_| damaged(at).found("a token that is not UTF-8"))?.replace(' ', SPACE_MARK), 1),
        };
        tokens.push(token);
        scores.push(score);
        kinds.push(kind);
    }
    if tokens.len() <= RESERVED {
        return Err(damaged(bytes.len()).expected("more than 259 tokens").found(tokens.len()).into());
    }
    Ok(Vocabulary {
        model: "llama".into(),
        tokens,
        scores: Some(scores),
        kinds,
        bos: Some(1),
        eos: Some(2),
        unk: Some(0),
        ..Vocabulary::default()
    })
}

/// The next four bytes.
fn take(rest: &mut &[u8], bytes: &[u8]) -> Result<[u8; 4]> {
    let (first, after) =
        rest.split_first_chunk().ok_or_else(|| Error::from(damaged(bytes.len()).found("the end of the file")))?;
    *rest = after;
    Ok(*first)
}

fn damaged(at: usize) -> InputError {
    InputError::new("the tokenizer of llama2.c is damaged or cut off")
        .at(format!("byte {at}"))
        .advice("copy or download the file again")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(tokens: &[&str]) -> Vec<u8> {
        let mut bytes = 4_i32.to_le_bytes().to_vec();
        for (index, token) in tokens.iter().enumerate() {
            bytes.extend((-(index as f32)).to_le_bytes());
            bytes.extend((token.len() as i32).to_le_bytes());
            bytes.extend(token.as_bytes());
        }
        bytes
    }

    #[test]
    fn kinds_follow_from_ids() {
        let mut tokens = vec!["x"; 259];
        tokens.push(" the");
        let read = read(&file(&tokens)).unwrap();
        assert_eq!(
            (read.tokens[1].as_str(), read.tokens[13].as_str(), read.tokens[259].as_str()),
            ("<s>", "<0x0A>", "▁the")
        );
        assert_eq!((read.kinds[0], read.kinds[2], read.kinds[258], read.kinds[259]), (2, 3, 6, 1));
    }

    #[test]
    fn damaged_files_are_refused() {
        let bytes = file(&["x"; 300]);
        let why = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
        assert!(why(&bytes[..2]).contains("end of the file"));
        assert!(why(&bytes[..bytes.len() - 1]).contains("1 bytes"), "{}", why(&bytes[..bytes.len() - 1]));
        assert!(why(&file(&["x"; 259])).contains("more than 259"));
        let mut long = bytes.clone();
        long[8] = 200;
        assert!(why(&long).contains("200 bytes"));
    }
}
