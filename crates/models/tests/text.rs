//! Tokenizers, chat templates and rows against the libraries that made the golden files; `make.py` beside them says how.
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};

use etalon::network::Message;
use etalon_models::text::{
    Pack, Packing, Remainder, Row, RowLayout, RunningText, Span, Special, Tokenizer, TooLong, Vocabulary, running_text,
};
use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/text").join(name)
}

fn json(name: &str) -> Value {
    serde_json::from_slice(&fs::read(golden(name)).unwrap()).unwrap()
}

fn strings() -> Vec<String> {
    serde_json::from_value(json("strings.json")).unwrap()
}

fn numbers(value: &Value) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|number| number.as_u64().unwrap() as u32).collect()
}

fn open(name: &str) -> Tokenizer {
    Tokenizer::open(&golden(name)).unwrap()
}

/// Compares ids, spans and decoded text of every string.
fn compare(tokenizer: &Tokenizer, expected: &str, special: Special) {
    let expected = json(expected);
    for (text, expected) in strings().iter().zip(expected.as_array().unwrap()) {
        let ids = numbers(&expected["ids"]);
        assert_eq!(tokenizer.encode(text, special).unwrap(), ids, "{text:?}");
        let encoded = tokenizer.encode_spans(text, special).unwrap();
        assert_eq!(encoded.ids, ids, "{text:?}");
        for (span, expected) in encoded.spans.iter().zip(expected["spans"].as_array().unwrap()) {
            let expected = numbers(expected);
            // Of the pieces of one character SentencePiece gives its bytes to the last, we give them to all.
            let end = if expected[0] == expected[1] { span.end } else { expected[1] };
            assert_eq!((span.start, span.end), (expected[0], end), "{text:?}");
        }
        assert_eq!(tokenizer.decode(&ids).unwrap(), expected["decoded"].as_str().unwrap(), "{text:?}");
        if let Some(added) = expected.get("added") {
            assert_eq!(tokenizer.encode(text, Special::Add).unwrap(), numbers(added), "{text:?}");
        }
        let mut stream = tokenizer.decode_stream();
        let mut streamed: String = ids.iter().map(|id| stream.push(*id).unwrap()).collect();
        streamed += &stream.finish().unwrap();
        // Only bytes that are not text may differ: a stream shows them before it knows what follows.
        if !streamed.contains(char::REPLACEMENT_CHARACTER) {
            assert_eq!(streamed, tokenizer.decode(&ids).unwrap(), "{text:?}");
        }
    }
}

#[test]
fn byte_level_bpe_equals_tokenizers() {
    let tokenizer = open("byte_level");
    compare(&tokenizer, "byte_level/expected.json", Special::Recognise);
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.pad(), tokenizer.unk()), (Some(1), Some(0), Some(0), None));
    assert!(tokenizer.adds_bos() && tokenizer.is_special(0) && !tokenizer.is_special(70));
    // The settings beside the file are optional.
    let alone = tempfile::tempdir().unwrap();
    fs::copy(golden("byte_level/tokenizer.json"), alone.path().join("tokenizer.json")).unwrap();
    let alone = Tokenizer::open(&alone.path().join("tokenizer.json")).unwrap();
    assert_eq!((alone.bos(), alone.eos(), alone.adds_bos()), (Some(1), None, true));
}

#[test]
fn gpt2_layout_equals_tokenizers() {
    let tokenizer = open("gpt2");
    let expected = &json("byte_level/splits.json")["gpt-2"];
    for (text, expected) in strings().iter().zip(expected.as_array().unwrap()) {
        assert_eq!(tokenizer.encode(text, Special::Add).unwrap(), numbers(expected), "{text:?}");
    }
    assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.adds_bos()), (Some(1), Some(0), false));
}

#[test]
fn gguf_vocabularies_equal_tokenizers() {
    let file = json("byte_level/tokenizer.json");
    let mut tokens = vec![String::new(); file["model"]["vocab"].as_object().unwrap().len()];
    for (token, id) in file["model"]["vocab"].as_object().unwrap() {
        tokens[id.as_u64().unwrap() as usize] = token.clone();
    }
    let merge = |merge: &Value| format!("{} {}", merge[0].as_str().unwrap(), merge[1].as_str().unwrap());
    let merges: Vec<String> = file["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    let kinds = (0..tokens.len()).map(|id| if id < 2 { 3 } else { 1 }).collect();
    let base = Vocabulary { model: "gpt2".into(), tokens, merges, kinds, bos: Some(1), ..Vocabulary::default() };
    for (name, expected) in json("byte_level/splits.json").as_object().unwrap() {
        let tokenizer = Tokenizer::from_vocabulary(Vocabulary { pre: Some(name.clone()), ..base.clone() }).unwrap();
        for (text, expected) in strings().iter().zip(expected.as_array().unwrap()) {
            assert_eq!(tokenizer.encode(text, Special::Recognise).unwrap(), numbers(expected), "{name}: {text:?}");
        }
        assert_eq!(tokenizer.adds_bos(), name == "llama-bpe");
    }
}

#[test]
fn word_piece_equals_tokenizers() {
    let tokenizer = open("word_piece/vocab.txt");
    compare(&tokenizer, "word_piece/expected.json", Special::Recognise);
    let text = |id: &str| tokenizer.token_text(tokenizer.token_id(id).unwrap()).unwrap();
    assert_eq!((text("[CLS]"), text("##e")), ("[CLS]".into(), "##e".into()));
}

#[test]
fn sentence_piece_equals_the_library() {
    for name in ["unigram", "bpe", "bpe_suffix", "unigram_bytes"] {
        let tokenizer = open(name);
        compare(&tokenizer, &format!("{name}/expected.json"), Special::Ignore);
        assert_eq!((tokenizer.bos(), tokenizer.eos(), tokenizer.unk()), (Some(1), Some(2), Some(0)), "{name}");
        assert_eq!(tokenizer.encode("a<s>", Special::Add).unwrap().last(), Some(&1));
        assert!(tokenizer.adds_bos() && tokenizer.is_special(1));
    }
}

#[test]
fn llama2c_equals_the_library() {
    for name in ["llama2c", "llama2c_raw"] {
        compare(&open(&format!("{name}/tokenizer.bin")), "llama2c/expected.json", Special::Ignore);
    }
}

#[test]
fn unigram_json_equals_tokenizers() {
    let tokenizer = open("unigram_json");
    compare(&tokenizer, "unigram_json/expected.json", Special::Recognise);
    assert_eq!(tokenizer.token_text(tokenizer.token_id("▁the").unwrap()).unwrap(), " the");
}

#[test]
fn special_tokens_in_a_text_are_recognised_or_ignored() {
    let tokenizer = open("byte_level");
    let ignored = tokenizer.encode("a<|end|>", Special::Ignore).unwrap();
    assert!(ignored.len() > 2 && !ignored.contains(&0));
    assert_eq!(tokenizer.decode(&ignored).unwrap(), "a<|end|>");
    let recognised = tokenizer.encode("a<|end|>", Special::Recognise).unwrap();
    assert_eq!(recognised.len(), 2);
    assert_eq!(tokenizer.decode(&recognised).unwrap(), "a");
    assert_eq!(tokenizer.decode_with_special(&recognised).unwrap(), "a<|end|>");
}

#[test]
fn chat_templates_equal_transformers() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["tokenizer.json", "tokenizer_config.json"] {
        fs::copy(golden("byte_level").join(name), directory.path().join(name)).unwrap();
    }
    for case in json("chat.json").as_array().unwrap() {
        let source = case["template"].as_str().unwrap();
        fs::write(directory.path().join("chat_template.jinja"), source).unwrap();
        let tokenizer = Tokenizer::open(directory.path()).unwrap();
        let part = |message: &Value, index: usize| message[index].as_str().unwrap().to_string();
        let messages = case["messages"].as_array().unwrap().iter();
        let messages: Vec<Message> = messages.map(|message| Message::new(part(message, 0), part(message, 1))).collect();
        let rendered = tokenizer.chat_template().unwrap().render(&messages, case["prompt"].as_bool().unwrap());
        match case["expected"].as_str() {
            Some(expected) => assert_eq!(rendered.unwrap(), expected, "{source}"),
            None => assert!(rendered.unwrap_err().to_string().contains("roles must alternate"), "{source}"),
        }
    }
}

fn ids(rows: &[Row]) -> Vec<Vec<u32>> {
    rows.iter().map(|row| row.ids.clone()).collect()
}

#[test]
fn rows_equal_those_of_saelens() {
    let (file, tokenizer) = (json("pack.json"), open("byte_level"));
    let texts: Vec<String> = serde_json::from_value(file["texts"].clone()).unwrap();
    for case in file["cases"].as_array().unwrap() {
        let id = |key: &str| case[key].as_u64().map(|id| id as u32);
        let layout = match case["one"].as_bool().unwrap() {
            true => RowLayout::OneText { too_long: TooLong::Cut },
            false => RowLayout::Packed { separator: id("separator") },
        };
        let packing = Packing {
            context: case["context"].as_u64().unwrap() as usize,
            layout,
            special: Special::Recognise,
            row_start: id("row_start"),
            text_start: id("text_start"),
            remainder: Remainder::Drop,
        };
        if packing.context == 2 && packing.row_start.is_some() && packing.text_start.is_some() {
            assert!(Pack::new(&tokenizer, packing, numbered(&texts)).is_err(), "no space for text");
            continue;
        }
        let rows: Vec<Row> =
            Pack::new(&tokenizer, packing.clone(), numbered(&texts)).unwrap().map(Result::unwrap).collect();
        let expected: Vec<Vec<u32>> = case["rows"].as_array().unwrap().iter().map(numbers).collect();
        assert_eq!(ids(&rows), expected, "{packing:?}");
        rows.iter().for_each(|row| check_row(&tokenizer, row, &texts));
    }
}

#[test]
fn running_text_equals_that_of_saebench() {
    let (file, tokenizer) = (json("pack.json"), open("byte_level"));
    let texts: Vec<String> = serde_json::from_value(file["texts"].clone()).unwrap();
    for case in file["running"].as_array().unwrap() {
        let settings = RunningText {
            context: case["context"].as_u64().unwrap() as usize,
            tokens: case["tokens"].as_u64().map(|tokens| tokens as usize),
            bos: case["bos"].as_bool().unwrap(),
        };
        let rows = running_text(&tokenizer, &texts, settings).unwrap();
        let expected: Vec<Vec<u32>> = case["rows"].as_array().unwrap().iter().map(numbers).collect();
        assert_eq!(ids(&rows), expected, "{settings:?}");
    }
}

fn numbered(texts: &[String]) -> impl Iterator<Item = etalon::error::Result<(u64, &String)>> {
    (0..).zip(texts).map(Ok)
}

/// Tokens that are not special spell the bytes that they cover.
fn check_row(tokenizer: &Tokenizer, row: &Row, texts: &[String]) {
    let lengths = [row.ids.len(), row.texts.len(), row.spans.len(), row.special.len()];
    assert!(lengths.iter().all(|length| *length == lengths[0]));
    for (index, id) in row.ids.iter().enumerate().filter(|(index, _)| !row.special[*index]) {
        let Span { start, end } = row.spans[index];
        let covered = &texts[row.texts[index] as usize][start as usize..end as usize];
        let spelled = tokenizer.token_text(*id).unwrap();
        assert!(spelled == covered || spelled.contains("<0x"), "{spelled:?} is not {covered:?}");
    }
}

#[test]
fn one_text_per_row_is_cut_padded_or_refused() {
    let tokenizer = open("word_piece");
    let texts: Vec<String> = ["the the the the the", "a", ""].map(String::from).to_vec();
    let id = |token: &str| tokenizer.token_id(token).unwrap();
    let (start, end, pad, the) = (id("[CLS]"), id("[SEP]"), id("[PAD]"), id("the"));
    let cut = Packing { remainder: Remainder::Pad(pad), ..Packing::labelled(&tokenizer, 5) };
    let rows: Vec<Row> = Pack::new(&tokenizer, cut.clone(), numbered(&texts)).unwrap().map(Result::unwrap).collect();
    // The end token stays when a text is cut.
    assert_eq!(rows[0].ids, [start, the, the, the, end]);
    assert_eq!((&rows[1].ids[..], rows[1].length), (&[start, id("a"), end, pad, pad][..], 3));
    assert_eq!(rows[1].special, [true, false, true, true, true]);
    assert_eq!((rows.len(), rows[2].length), (3, 2));
    let refuse = Packing { layout: RowLayout::OneText { too_long: TooLong::Refuse }, ..cut };
    let mut rows = Pack::new(&tokenizer, refuse, numbered(&texts)).unwrap();
    let error = rows.next().unwrap().unwrap_err().to_string();
    assert!(error.contains("7 tokens") && error.contains("text 0"), "{error}");
    assert_eq!(rows.next().unwrap().unwrap().ids[1], id("a"), "the next text follows");
}

#[test]
fn wrong_ids_vocabularies_and_texts_are_refused() {
    let tokenizer = open("byte_level");
    let size = tokenizer.vocabulary_size();
    let error = tokenizer.decode(&[3, 9999]).unwrap_err().to_string();
    assert!(error.contains("9999") && error.contains("token 1"), "{error}");
    assert!(tokenizer.token_text(9999).is_err());
    assert_eq!(tokenizer.check_vocabulary(size + 7).unwrap(), 7);
    assert!(tokenizer.check_vocabulary(size - 1).unwrap_err().to_string().contains("more tokens"));
    assert!(tokenizer.check_vocabulary(50_257).unwrap_err().to_string().contains("fewer tokens"));
    let error = etalon_models::text::utf8(b"ab\xffc").unwrap_err().to_string();
    assert!(error.contains("byte 2") && error.contains("0xFF"), "{error}");
    assert_eq!(tokenizer.encode("", Special::Recognise).unwrap(), Vec::<u32>::new());
}

#[test]
fn damaged_files_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let why = |name: &str, bytes: &[u8]| {
        let path = directory.path().join(name);
        fs::write(&path, bytes).unwrap();
        let error = Tokenizer::open(&path).err().unwrap_or_else(|| panic!("{name} was accepted"));
        fs::remove_file(&path).unwrap();
        assert!(error.is_input(), "{error}");
        error.to_string()
    };
    let half = |name: &str| {
        let bytes = fs::read(golden(name)).unwrap();
        bytes[..bytes.len() / 2].to_vec()
    };
    assert!(why("tokenizer.json", &half("byte_level/tokenizer.json")).contains("line 1"));
    assert!(why("tokenizer.json", b"{\"model\": 3}").contains("`model`"));
    assert!(why("tokenizer.model", &half("unigram/tokenizer.model")).contains("cut off"));
    assert!(why("tokenizer.bin", &half("llama2c/tokenizer.bin")).contains("cut off"));
    assert!(why("vocab.txt", b"a\nb\n").contains("[CLS]"));
    assert!(why("vocab.txt", b"\xff").contains("UTF-8"));
    assert!(why("vocab.json", b"{}").contains("no such file"), "without merges.txt");
    assert!(why("model.gguf", b"GGUF").contains("weights"));
    assert!(why("tokenizer.json", b"").contains("empty"));
    let error = Tokenizer::open(directory.path()).err().unwrap().to_string();
    assert!(error.contains("no tokenizer") && error.contains("tokenizer.json"), "{error}");
}
