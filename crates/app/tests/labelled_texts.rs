//! Texts with labels that networks are evaluated on: prompts about first letters, and published data sets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::sync::Arc;

use common::Sandbox;
use common::everything::{SITE, make_model};
use etalon::store::ActivationStore;
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;
use serde_json::{Value, json};

/// The tiny model with words of letters: `aa`, `ab`, … and those of the question.
fn make_spelling_model(sandbox: &Sandbox) {
    make_model(sandbox, 1);
    let mut tokenizer = sandbox.json("model/tokenizer.json");
    let question = ["has", "the", "first", "letter:"];
    let word = |index: usize| match index {
        0..3 => ["<pad>", "<s>", "</s>"][index].to_string(),
        3..7 => question[index - 3].to_string(),
        _ => {
            let letter = |number: usize| char::from(b'a' + number as u8);
            [letter((index - 7) % 4), letter((index - 7) / 4)].iter().collect()
        }
    };
    let words: serde_json::Map<String, Value> = (0..96).map(|index| (word(index), json!(index))).collect();
    tokenizer["model"]["vocab"] = Value::Object(words);
    sandbox.write("model/tokenizer.json", tokenizer.to_string());
}

fn rows(path: std::path::PathBuf) -> (Vec<f32>, usize, Vec<u32>) {
    let store = ActivationStore::open(&path).unwrap();
    let (count, width) = (store.rows(), store.width());
    (store.tile(0..count).unwrap().values.into_owned(), width, store.samples().unwrap().to_vec())
}

#[test]
fn absorption_is_measured_on_the_words_of_a_model() {
    let sandbox = Sandbox::new();
    make_spelling_model(&sandbox);
    let network = format!("--model model --input first-letters --site {SITE} --context 64 --examples 5 --cache cache");
    sandbox.done(&format!("train {network} --arch topk --latents 24 --k 4 --steps 20 --batch 32 --out sae"));
    let output = sandbox.done(&format!("eval absorption {network} --sae sae --probe-floor 0 --out a.json"));
    assert!(output.err.contains("labels:"), "{}", output.err);
    let result = sandbox.json("a.json");
    // `has`, `the` and `first` are words as well.
    let names: Vec<&str> =
        result["tables"]["concept"]["name"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert_eq!(names, ["a", "b", "c", "d", "f", "h", "t"]);
    assert!(result["headline"]["absorption_fraction"]["value"].is_number(), "{result}");
    // The same input is found in the cache; another seed is another input.
    let captures = || sandbox.done("cache --cache cache --json").json().as_array().unwrap().len();
    assert_eq!(captures(), 1);
    sandbox.done(&format!("eval absorption {network} --input-seed 1 --sae sae --probe-floor 0 --out b.json"));
    assert_eq!(captures(), 2);
}

#[test]
fn rows_are_the_tokens_of_the_words() {
    let sandbox = Sandbox::new();
    make_spelling_model(&sandbox);
    let capture = |input: &str, out: &str| {
        sandbox.done(&format!("capture --model model --input {input} --site {SITE} --context 64 --out {out}"))
    };
    capture("first-letters --examples 5 --limit 20", "words");
    let lines: Vec<Value> =
        sandbox.read("words/rows.jsonl").lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 20);
    // The same prompts, with a row per token. Five tokens from the end: the word, and `has the first letter:`.
    let texts: String = lines.iter().map(|line| format!("{}\n", json!({"text": line["text"]}))).collect();
    sandbox.write("texts.jsonl", texts);
    capture("texts.jsonl", "tokens");
    let (words, width, samples) = rows(sandbox.path(&format!("words/sites/{SITE}")));
    assert_eq!(samples, (0..20).collect::<Vec<u32>>());
    let (tokens, _, of_tokens) = rows(sandbox.path(&format!("tokens/sites/{SITE}")));
    let all = sandbox.read("tokens/rows.jsonl");
    for (sample, line) in all.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        let shown: Vec<&str> = line["words"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let text = lines[sample]["text"].as_str().unwrap();
        let word = text.rsplit('\n').next().unwrap().split(' ').next().unwrap();
        assert_eq!(shown[shown.len() - 5].trim(), word);
        let end = of_tokens.iter().rposition(|other| *other == sample as u32).unwrap() + 1;
        let expected = &tokens[(end - 5) * width..(end - 4) * width];
        let found = &words[sample * width..(sample + 1) * width];
        assert!(expected.iter().zip(found).all(|(a, b)| (a - b).abs() < 1e-5), "{sample}");
    }
}

#[test]
fn first_letters_need_a_language_model_and_space() {
    let sandbox = Sandbox::new();
    make_spelling_model(&sandbox);
    let base = format!("capture --model model --site {SITE} --out x --input first-letters");
    for (options, message) in [
        ("--context 48", "behind the end of its sequence"),
        ("--context 64 --examples 200", "too few words"),
        ("--context 64 --examples 3 --pack", "cannot be packed"),
    ] {
        let output = sandbox.run(&format!("{base} {options}"));
        assert!(output.code == Some(2) && output.err.contains(message), "{options}: {output:#?}");
        assert!(!sandbox.path("x").exists(), "{options}");
    }
    sandbox.write("texts.jsonl", "{\"text\": \"aa ab ac\"}\n");
    let texts = sandbox
        .run(&format!("capture --model model --site {SITE} --out x --input texts.jsonl --context 64 --rows word"));
    assert!(texts.code == Some(2) && texts.err.contains("the texts mark no words"), "{texts:#?}");
    let both = sandbox
        .run(&format!("capture --model model --site {SITE} --out x --context 64 --input first-letters,texts.jsonl"));
    assert!(both.code == Some(2) && both.err.contains("capture it alone"), "{both:#?}");
}

/// A text of the tiny vocabulary that depends on its class and its group.
fn biography(index: usize, profession: usize, gender: usize) -> String {
    let word = |position: usize| match position % 4 {
        0 => format!("w{}", 10 + profession),
        1 => format!("w{}", 40 + gender),
        _ => format!("w{}", 60 + (index * 7 + position * 3) % 30),
    };
    (0..12).map(word).collect::<Vec<_>>().join(" ")
}

/// A table as `bias_in_bios` is published.
fn biographies(count: usize) -> Vec<u8> {
    let schema =
        "message schema { REQUIRED BYTE_ARRAY hard_text (UTF8); REQUIRED INT64 profession; REQUIRED INT64 gender; }";
    let (mut texts, mut professions, mut genders) = (Vec::new(), Vec::new(), Vec::new());
    for index in 0..count {
        let (profession, gender) = (index % 3, index / 3 % 2);
        texts.push(ByteArray::from(biography(index, profession, gender).as_str()));
        professions.push(profession as i64);
        genders.push(gender as i64);
    }
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::default())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&texts, None, None).unwrap();
    column.close().unwrap();
    for values in [&professions, &genders] {
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<Int64Type>().write_batch(values, None, None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

/// A table as `europarl` is published: a structure with a text per language.
fn sentences(one: &str, other: &str, count: usize) -> Vec<u8> {
    let field = |name: &str| format!("OPTIONAL BYTE_ARRAY {name} (UTF8);");
    let schema = format!("message schema {{ OPTIONAL group translation {{ {} {} }} }}", field(one), field(other));
    let mut bytes = Vec::new();
    let schema = Arc::new(parse_message_type(&schema).unwrap());
    let mut writer = SerializedFileWriter::new(&mut bytes, schema, Arc::new(WriterProperties::default())).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for language in [one, other] {
        let texts: Vec<ByteArray> =
            (0..count).map(|index| ByteArray::from(format!("{language} {index}").as_str())).collect();
        let mut column = group.next_column().unwrap().unwrap();
        column.typed::<ByteArrayType>().write_batch(&texts, Some(&vec![2; count]), None).unwrap();
        column.close().unwrap();
    }
    group.close().unwrap();
    writer.close().unwrap();
    bytes
}

#[test]
fn probing_runs_from_a_published_data_set() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 1);
    sandbox.write("bios/data/train-00000-of-00001.parquet", biographies(600));
    sandbox.write("bios/data/test-00000-of-00001.parquet", biographies(150));
    let network =
        format!("--model model --input bias_in_bios:bios --site {SITE} --context 16 --per-class 80 --cache cache");
    sandbox.done(&format!("train {network} --arch topk --latents 24 --k 4 --steps 20 --batch 32 --out sae"));
    let metrics = "sparse_probing,scr,tpp --repeats 1 --full-repeats 1 --pool mean --quadrant-rows 10";
    let output = sandbox.done(&format!("eval {metrics} {network} --sae sae --out a.json"));
    assert!(output.err.contains("labels:"), "{}", output.err);
    let results = sandbox.json("a.json");
    let value = |metric: usize, key: &str| results[metric]["headline"][key]["value"].as_f64();
    assert!(value(0, "top_1_accuracy").is_some() && value(2, "tpp_20").is_some(), "{results}");
    let text = results.to_string();
    assert!(text.contains("attorney") && text.contains("female"), "{text}");
    // A study finds the data set beside its file, and chooses classes.
    sandbox.write(
        "study/study.toml",
        format!(
            "out = \"out\"\nmetrics = [\"sparse_probing\"]\n[[set]]\nname = \"x\"\nsae = \"../sae\"\nmodel = \"../model\"\n\
             input = \"bias_in_bios:../bios\"\nsite = \"{SITE}\"\npool = \"mean\"\n\
             capture = {{ context = \"16\", per-class = \"80\", classes = \"0,1\", label-columns = \"profession\" }}\n\
             [params.sparse_probing]\nrepeats = 1\nfull_repeats = 1\n"
        ),
    );
    let output = sandbox.done("run study/study.toml --cache cache --json").json();
    assert_eq!(output["failed"].as_array().unwrap().len(), 0, "{output}");
    let wrong = sandbox.run(&format!("capture --model model --input texts.jsonl --site {SITE} --per-class 50 --out x"));
    assert!(wrong.code == Some(2) && wrong.err.contains("`--per-class` belongs to published data sets"), "{wrong:#?}");
}

#[test]
fn languages_are_columns_of_a_structure() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 1);
    sandbox.write("europarl/de-en/train-00000-of-00001.parquet", sentences("de", "en", 40));
    sandbox.write("europarl/en-fr/train-00000-of-00001.parquet", sentences("en", "fr", 40));
    sandbox.done(&format!(
        "capture --model model --input europarl:europarl --site {SITE} --context 16 --per-class 20 --out x --rows mean --keep-special"
    ));
    let labels = sandbox.read("x/labels.csv");
    assert!(labels.starts_with("sample,de,en\n") || labels.lines().next().unwrap().ends_with("de,en"), "{labels}");
    assert_eq!(labels.lines().filter(|line| line.ends_with(",1,0")).count(), 20);
    let texts = sandbox.read("x/rows.jsonl");
    assert_eq!(texts.lines().filter(|line| line.contains("\"text\":\"en ")).count(), 20);
}
