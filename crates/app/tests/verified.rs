//! Values of released programs, one folder of `tests/golden/verified` per test; its README documents their origin.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;

use common::{Sandbox, TIME_LIMIT, etalon, finish};
use serde_json::Value;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/verified");

/// One test per set, and one that checks that no set is missing.
macro_rules! sets {
    ($($set:ident),* $(,)?) => {
        $(#[test]
        fn $set() {
            check(stringify!($set));
        })*

        #[test]
        fn every_set_has_a_test() {
            let entries = fs::read_dir(FOLDER).unwrap().map(|entry| entry.unwrap().path());
            let mut stored: Vec<String> = entries
                .filter(|path| path.is_dir())
                .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
                .collect();
            stored.sort();
            assert_eq!(stored, [$(stringify!($set)),*]);
        }
    };
}

sets!(
    overcomplete_mp_forward,
    overcomplete_ra_training,
    p1_fms,
    p1_probe_ceiling,
    p1_stay_dropped_pairs,
    p1_tapa_stay,
    p5_stability,
    sae_probes_signed_codes,
    saebench_core,
    saebench_folds_decoder_norms,
    saebench_mdl,
);

/// Runs every command of a set and compares every value. A set with `known_failure` must fail exactly at the values in
/// `failing`, so that correct values stay correct.
fn check(set: &str) {
    let (sandbox, folder) = (Sandbox::new(), format!("{FOLDER}/{set}"));
    let scratch = sandbox.path("").to_string_lossy().into_owned();
    let insert = |text: &str| text.replace("{dir}", &folder).replace("{tmp}", &scratch);
    let expected: Value = serde_json::from_slice(&fs::read(format!("{folder}/expected.json")).unwrap()).unwrap();
    let (mut failing, mut differences) = (Vec::new(), String::new());
    for (number, run) in array(&expected["runs"]).iter().enumerate() {
        let mut arguments = vec!["-q".to_string()];
        arguments.extend(strings(&run["args"]).into_iter().map(insert));
        if arguments[1] == "eval" {
            arguments.extend(["--out".into(), "result.json".into()]);
        }
        let output = finish(etalon(&sandbox.path(""), &arguments), TIME_LIMIT);
        assert_eq!(output.code, Some(0), "{set}: etalon {}\n{}", arguments.join(" "), output.err);
        for value in array(&run["values"]) {
            let at = strings(&value["at"]);
            let found = match at[0] {
                "npy" => npy(&fs::read(insert(at[1])).unwrap()),
                "safetensors" => tensor(&fs::read(insert(at[1])).unwrap(), at[2]),
                _ => numbers(at.iter().fold(&sandbox.json("result.json"), |inner, key| &inner[key])),
            };
            let expected = match value["expected"].as_str() {
                Some(file) => npy(&fs::read(format!("{folder}/{file}")).unwrap()),
                None => numbers(&value["expected"]),
            };
            if let Some(difference) = difference(&found, &expected, value) {
                let name = format!("run {number}, {}", at.join("/"));
                differences += &format!("\n{name}: {difference}");
                failing.push(name);
            }
        }
    }
    let Some(defect) = expected["known_failure"].as_str() else {
        assert!(failing.is_empty(), "{set}:{differences}");
        return;
    };
    assert!(
        !failing.is_empty(),
        "{set} agrees now: remove `known_failure` and `failing` from its expected.json. The defect was: {defect}"
    );
    let listed = strings(&expected["failing"]);
    assert!(
        failing == listed,
        "{set}: other values fail than `failing` in expected.json lists: update the list if the defect is partly fixed\n\
         known defect: {defect}\nlisted: {listed:#?}\nfailing:{differences}"
    );
}

/// The largest difference of two lists, if it exceeds the tolerance of this value. NaN means undefined.
fn difference(found: &[f64], expected: &[f64], value: &Value) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("{} numbers, expected {}", found.len(), expected.len()));
    }
    let limit = |name: &str| value[name].as_f64().unwrap_or(0.0);
    let ignore_undefined = value["ignore_null"] == true;
    let excess = |index: usize| {
        let (found, expected) = (found[index], expected[index]);
        match (found.is_nan(), expected.is_nan()) {
            (true, true) => 0.0,
            (false, true) if ignore_undefined => 0.0,
            (false, false) => (found - expected).abs() - limit("tol") - limit("rel") * expected.abs(),
            _ => f64::INFINITY,
        }
    };
    let worst = (0..found.len()).max_by(|&a, &b| excess(a).total_cmp(&excess(b)))?;
    (excess(worst) > 0.0).then(|| format!("[{worst}] found {}, expected {}", found[worst], expected[worst]))
}

fn array(value: &Value) -> &[Value] {
    value.as_array().unwrap()
}

fn strings(value: &Value) -> Vec<&str> {
    array(value).iter().map(|text| text.as_str().unwrap()).collect()
}

/// All numbers of a value in order; `null` is NaN.
fn numbers(value: &Value) -> Vec<f64> {
    match value {
        Value::Array(inner) => inner.iter().flat_map(numbers).collect(),
        Value::Null => vec![f64::NAN],
        number => vec![number.as_f64().unwrap()],
    }
}

/// The numbers of a NumPy file of `f32`.
fn npy(bytes: &[u8]) -> Vec<f64> {
    let data = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = String::from_utf8_lossy(&bytes[..data]);
    assert!(header.contains("'<f4'") && header.contains("'fortran_order': False"), "{header}");
    floats(&bytes[data..])
}

/// One `f32` tensor of a safetensors file.
fn tensor(bytes: &[u8], name: &str) -> Vec<f64> {
    let (length, rest) = bytes.split_at(8);
    let (header, data) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
    let header: Value = serde_json::from_slice(header).unwrap();
    assert_eq!(header[name]["dtype"], "F32", "{name}");
    let offset = |end: usize| header[name]["data_offsets"][end].as_u64().unwrap() as usize;
    floats(&data[offset(0)..offset(1)])
}

fn floats(bytes: &[u8]) -> Vec<f64> {
    bytes.chunks_exact(4).map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap()))).collect()
}
