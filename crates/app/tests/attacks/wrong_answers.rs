//! Answers that were wrong and looked right.

use std::process::Stdio;
use std::time::Duration;

use serde_json::Value;

use crate::common::files::{npy, npy_f32, npy_i64};
use crate::common::{Sandbox, etalon, words};
use crate::noise;

/// Codes of `rows` rows whose first latent fires where `labels` is 1.
fn codes(labels: &[u8], latents: usize) -> Vec<u8> {
    let mut values: Vec<f32> = noise(labels.len() * latents, 1).iter().map(|value| value.max(0.0)).collect();
    labels.iter().enumerate().for_each(|(row, &label)| values[row * latents] += 3.0 * f32::from(label));
    npy_f32(&[labels.len(), latents], &values)
}

/// Labels that look random.
fn labels(rows: usize) -> Vec<u8> {
    noise(rows, 5).iter().map(|value| u8::from(*value > 0.2)).collect()
}

fn match_score(answer: &Value) -> f64 {
    answer["headline"]["match_score"]["value"].as_f64().unwrap()
}

#[test]
fn results_of_old_labels_are_not_averaged_with_new_ones() {
    let sandbox = Sandbox::new();
    let labels = labels(200);
    sandbox.write("z.npy", codes(&labels, 8));
    let table = |labels: &[u8]| labels.iter().fold("bird\n".to_string(), |text, label| format!("{text}{label}\n"));
    sandbox.write("y.csv", table(&labels));
    sandbox.write(
        "s.toml",
        "metrics = [\"match\"]\n[inputs]\nlabels = \"y.csv\"\n[[set]]\nname = \"mine\"\ncodes = \"z.npy\"\n",
    );
    let row = |arguments: &str| {
        let out = sandbox.done(arguments).out;
        out.lines().find(|line| line.contains("mine")).unwrap().to_string()
    };
    let first = row("run s.toml");
    let shifted: Vec<u8> = labels.iter().cycle().skip(7).take(200).copied().collect();
    sandbox.write("y.csv", table(&shifted));
    let second = row("run s.toml");
    assert_ne!(first, second);
    assert_eq!(second, row("run s.toml --out fresh"));
}

#[test]
fn a_sanity_check_of_other_codes_shows_only_them() {
    let sandbox = Sandbox::new();
    let labels = labels(200);
    sandbox.write("z.npy", codes(&labels, 8));
    // The same codes in another order of rows: their score is that of chance.
    let shifted: Vec<u8> = labels.iter().cycle().skip(7).take(200).copied().collect();
    sandbox.write("permuted.npy", codes(&shifted, 8));
    sandbox.write("x.npy", npy_f32(&[200, 6], &noise(1200, 3)));
    sandbox.write("y.csv", labels.iter().fold("bird\n".to_string(), |text, label| format!("{text}{label}\n")));
    let check = |codes: &str, out: &str| {
        let inputs = format!("--codes {codes}.npy --embeddings x.npy --labels y.csv");
        sandbox.done(&format!("sanity {inputs} --metrics match --nulls 1 --out {out}")).out
    };
    let table = |out: &str| out.lines().filter(|line| line.contains("trained")).map(String::from).collect::<Vec<_>>();
    let first = check("z", "out");
    let second = check("permuted", "out");
    let alone = check("permuted", "alone");
    assert_eq!(table(&second), table(&alone));
    assert_ne!(table(&first), table(&second));
    assert!(second.contains("superseded result"), "{second}");
    assert!(!first.contains("superseded") && !alone.contains("superseded"));
    let board = |out: &str| {
        sandbox.done(&format!("export {out} --out {out}-explorer"));
        sandbox.json(&format!("{out}-explorer/api/v1/runs.json"))["data"][0].clone()
    };
    let (both, alone) = (board("out"), board("alone"));
    assert_eq!(both["sets"].as_array().unwrap().len(), alone["sets"].as_array().unwrap().len());
    assert!(!both["superseded"].as_array().unwrap().is_empty() && alone["superseded"].as_array().unwrap().is_empty());
    let page = sandbox.read("out/report/index.html");
    assert!(page.contains("Superseded results"));
}

#[test]
fn samples_may_have_any_numbers() {
    let sandbox = Sandbox::new();
    let values: Vec<f32> = noise(240, 2).iter().map(|value| value.max(0.0)).collect();
    sandbox.write("z.npy", npy_f32(&[60, 4], &values));
    // Image ids of COCO.
    let ids = [139, 285, 632, 724, 776, 785, 802, 872, 885, 581_781];
    sandbox.write("counted.npy", npy_i64(&(0..60).map(|row| row / 6).collect::<Vec<i64>>()));
    sandbox.write("ids.npy", npy_i64(&(0..60).map(|row| ids[row / 6]).collect::<Vec<i64>>()));
    sandbox.write("mixed.npy", npy_i64(&(0..60).map(|row| ids[row % 10]).rev().collect::<Vec<i64>>()));
    let core = |samples: &str| {
        let answer = sandbox.done(&format!("eval core --codes z.npy --samples {samples}.npy --pool max --json")).json();
        answer["headline"]["l0"].clone()
    };
    assert_eq!(core("ids"), core("counted"));
    assert_eq!(core("ids")["n"], 10);

    let labels = |rows: usize| (0..rows).map(|row| (row % 2) as f32).collect::<Vec<f32>>();
    sandbox.write("y.npy", npy_f32(&[10, 1], &labels(10)));
    sandbox.write("y100.npy", npy_f32(&[100, 1], &labels(100)));
    let score = |samples: &str, labels: &str| {
        sandbox.run(&format!(
            "eval match --codes z.npy --labels {labels} --samples {samples}.npy --pool max --json --out {samples}.json"
        ))
    };
    let counted = match_score(&score("counted", "y.npy").json());
    assert_eq!(match_score(&score("ids", "y.npy").json()), counted);
    let refused = score("counted", "y100.npy");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for part in ["10 rows, one per sample", "100 rows", "a first column `id`", "file: y100.npy"] {
        assert!(refused.err.contains(part), "{refused:?}");
    }
    // Ids align a table in any order, also one with more samples.
    let line = |row: usize| format!("{},{}\n", ids[row], row % 2);
    let table: String = (0..10).rev().map(line).collect();
    sandbox.write("y.csv", format!("image,bird\n7,1\n{table}"));
    assert_eq!(match_score(&score("ids", "y.csv").json()), counted);
    let mixed = score("mixed", "y.npy");
    assert!(mixed.code == Some(2) && mixed.err.contains("in which order"), "{mixed:?}");
    assert_eq!(score("mixed", "y.csv").code, Some(0));
    sandbox.write("few.csv", "image,bird\n139,1\n285,0\n");
    let few = score("ids", "few.csv");
    assert!(few.code == Some(2) && few.err.contains("no id 632"), "{few:?}");
}

#[test]
fn a_table_with_row_numbers_may_have_any_order() {
    let sandbox = Sandbox::new();
    let labels = labels(300);
    sandbox.write("z.npy", codes(&labels, 8));
    let table = |name: &str, header: &str, rows: &[usize]| {
        let lines: String = rows.iter().map(|&row| format!("{row},{}\n", labels[row])).collect();
        sandbox.write(name, format!("{header}\n{lines}"));
    };
    let shuffled: Vec<usize> = (0..300).map(|row| row * 7 % 300).collect();
    table("a.csv", "id,bird", &(0..300).collect::<Vec<_>>());
    table("b.csv", "id,bird", &shuffled);
    // As pandas writes the index of a table.
    table("c.csv", ",bird", &shuffled);
    table("d.csv", "Unnamed: 0,bird", &shuffled);
    let score = |name: &str| sandbox.run(&format!("eval match --codes z.npy --labels {name} --json"));
    let expected = match_score(&score("a.csv").json());
    for name in ["b.csv", "c.csv", "d.csv"] {
        assert_eq!(match_score(&score(name).json()), expected, "{name}");
    }
    // Numbers that are not row numbers must ascend: otherwise the order of the rows is unknown.
    let other: String = shuffled.iter().map(|row| format!("{},{}\n", row + 5000, labels[*row])).collect();
    sandbox.write("e.csv", format!("id,bird\n{other}"));
    let refused = score("e.csv");
    assert!(refused.code == Some(2) && refused.err.contains("do not identify rows"), "{refused:?}");
}

#[test]
fn ids_that_nothing_is_compared_with_are_noted_or_refused() {
    let sandbox = Sandbox::new();
    let labels = labels(300);
    sandbox.write("z.npy", codes(&labels, 8));
    let table = |name: &str, rows: &[usize], id: &dyn Fn(usize) -> String| {
        let lines: String = rows.iter().map(|&row| format!("{},{}\n", id(row), labels[row])).collect();
        sandbox.write(name, format!("id,bird\n{lines}"));
    };
    let in_order: Vec<usize> = (0..300).collect();
    let shuffled: Vec<usize> = (0..300).map(|row| row * 7 % 300).collect();
    table("plain.csv", &in_order, &|row| row.to_string());
    table("names.csv", &in_order, &|row| format!("img{row:05}.jpg"));
    table("numbers.csv", &in_order, &|row| (5 + 3 * row).to_string());
    table("shuffled.csv", &shuffled, &|row| format!("img{row:05}.jpg"));
    let score = |name: &str| sandbox.run(&format!("eval match --codes z.npy --labels {name} --json --out {name}.json"));
    let expected = score("plain.csv").json();
    assert!(!expected["notes"].to_string().contains("ids of the labels"), "{expected}");
    for name in ["names.csv", "numbers.csv"] {
        let answer = score(name).json();
        assert_eq!(match_score(&answer), match_score(&expected), "{name}");
        let notes = answer["notes"].to_string();
        assert!(notes.contains(&format!("ids of the labels in {name} are not compared")), "{notes}");
    }
    // It was read by position: a wrong score without a note.
    let refused = score("shuffled.csv");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for part in ["do not identify rows", "before img", "remove the column of ids", "file: shuffled.csv"] {
        assert!(refused.err.contains(part), "{refused:?}");
    }
}

#[test]
fn values_that_become_zero_are_counted() {
    let sandbox = Sandbox::new();
    let labels = labels(60);
    let value = |row: usize, latent: usize| match latent {
        0 => f64::from(labels[row]) * 1e-60,
        _ => f64::from(u8::from(row.is_multiple_of(3))),
    };
    let values: Vec<u8> = (0..60).flat_map(|row| [value(row, 0), value(row, 1)]).flat_map(f64::to_le_bytes).collect();
    sandbox.write("z.npy", npy("<f8", false, "(60, 2)", &values));
    let table: String = labels.iter().map(|label| format!("{label}\n")).collect();
    sandbox.write("y.csv", format!("bird\n{table}"));
    let answer = sandbox.done("eval match --codes z.npy --labels y.csv --json").json();
    let lost = labels.iter().filter(|label| **label == 1).count();
    let notes = answer["notes"].to_string();
    assert!(notes.contains(&format!("{lost} values of z.npy are too small")), "{notes}");
}

#[test]
fn a_flipped_bit_in_the_state_of_a_training_is_found() {
    let sandbox = Sandbox::new();
    sandbox.write("x.npy", npy_f32(&[500, 16], &noise(8000, 3)));
    let train = "train --store x.npy --arch topk --latents 64 --k 4 --batch 64 --steps 100000 --warmup 10 \
                 --checkpoint-every 5 --out sae";
    let mut child =
        etalon(&sandbox.path("."), &words(train)).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    while child.try_wait().unwrap().is_none() && !sandbox.path("sae.training/training.json").exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let step = sandbox.json("sae.training/training.json")["step"].as_u64().unwrap();
    for name in [format!("sae.training/state-0-{step}.safetensors"), "sae.training/training.json".into()] {
        let flip = |bytes: &mut Vec<u8>| {
            let position = bytes.len() / 3;
            bytes[position] ^= 0x40;
        };
        sandbox.change(&name, flip);
        let refused = sandbox.run(train);
        assert_eq!(refused.code, Some(2), "{refused:?}");
        for part in ["the state of an unfinished training is damaged", "remove the directory", &name] {
            assert!(refused.err.contains(part), "{name}: {refused:?}");
        }
        sandbox.change(&name, flip);
    }
}

#[test]
fn a_flipped_bit_in_a_parquet_page_with_a_checksum_is_found() {
    let sandbox = Sandbox::new();
    let mut bytes = include_bytes!("../../../../tests/golden/parquet/plain.parquet").to_vec();
    sandbox.write("z.parquet", &bytes);
    sandbox.done("eval core --codes z.parquet");
    // 19 becomes -19.
    let start = bytes.windows(4).position(|four| four == 19f32.to_le_bytes()).unwrap();
    bytes[start + 3] ^= 0x80;
    sandbox.write("z.parquet", &bytes);
    let refused = sandbox.run("eval core --codes z.parquet");
    assert!(refused.code == Some(2) && refused.err.contains("checksum"), "{refused:?}");
}

#[test]
fn a_study_that_is_too_long_is_not_cut() {
    let sandbox = Sandbox::with_inputs();
    let set = |name: &str| format!("[[set]]\nname = \"{name}\"\ncodes = \"codes.npy\"\n");
    let comment = format!("#{}\n", "x".repeat(1000)).repeat(17_000);
    sandbox.write("s.toml", format!("metrics = [\"core\"]\n{}{comment}{}", set("first"), set("second")));
    let refused = sandbox.run("run s.toml");
    assert!(refused.code == Some(2) && refused.err.contains("too large for a study"), "{refused:?}");
}

#[test]
fn settings_that_contradict_the_weights_are_refused() {
    use crate::common::files::{SAELENS, SAELENS_SETTINGS, saelens};
    let sandbox = Sandbox::with_inputs();
    sandbox.write("sae/cfg.json", SAELENS_SETTINGS);
    let thresholds: Vec<(&str, &[usize])> = SAELENS.into_iter().chain([("threshold", &[6usize][..])]).collect();
    sandbox.write("sae/sae_weights.safetensors", saelens(&thresholds));
    let refused = sandbox.run("eval core --sae sae --store embeddings.npy");
    assert_eq!(refused.code, Some(2), "{refused:?}");
    for part in ["contradict the weights", "standard, and a tensor `threshold`", "key `architecture`", "cfg.json"] {
        assert!(refused.err.contains(part), "{refused:?}");
    }
    sandbox.write("sae/cfg.json", SAELENS_SETTINGS.replace("standard", "jumprelu"));
    sandbox.done("eval core --sae sae --store embeddings.npy");
}

#[test]
fn scores_of_codes_that_never_fire_are_explained() {
    let sandbox = Sandbox::with_inputs();
    for (name, value, note) in [("negative", -1.5, "0 or negative, down to -1.5"), ("zero", 0.0, "all codes are 0")] {
        sandbox.write(&format!("{name}.npy"), npy_f32(&[8, 3], &[value; 24]));
        let answer = sandbox.done(&format!("eval match --codes {name}.npy --labels labels.csv --json")).json();
        assert_eq!(match_score(&answer), 0.0);
        assert!(answer["notes"].to_string().contains(note), "{answer}");
    }
}
