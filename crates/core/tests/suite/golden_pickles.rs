//! Checkpoints and pickles as torch and numpy write them; `tests/golden/pickles/make.py` made them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use etalon::context::Budget;
use etalon::input::{TensorFile, read_tensors};
use serde::Deserialize;

#[derive(Deserialize)]
struct Expected {
    shape: Vec<usize>,
    values: Vec<f32>,
}

fn file(name: &str) -> PathBuf {
    crate::golden("pickles").join(name)
}

fn expected(arrays: bool) -> BTreeMap<String, Expected> {
    let text = std::fs::read_to_string(file("expected.json")).unwrap();
    let all: BTreeMap<String, Expected> = serde_json::from_str(&text).unwrap();
    all.into_iter().filter(|(name, _)| name.starts_with("net.") == arrays).collect()
}

fn budget() -> Budget {
    Budget::new(1 << 24)
}

/// Reads a file as a whole and tensor by tensor.
fn check(path: &Path, expected: &BTreeMap<String, Expected>) {
    let (all, lazy) = (read_tensors(path, &budget()).unwrap(), TensorFile::open(path, &budget()).unwrap());
    assert_eq!(lazy.names().collect::<Vec<_>>(), expected.keys().collect::<Vec<_>>(), "{}", path.display());
    for (name, expected) in expected {
        assert_eq!(all[name].shape, expected.shape, "{name} of {}", path.display());
        assert_eq!(all[name].values, expected.values, "{name} of {}", path.display());
        assert_eq!(lazy.shape(name), Some(&expected.shape[..]));
        assert_eq!(lazy.read(name).unwrap(), expected.values, "{name} of {}", path.display());
    }
}

#[test]
fn torch_files_of_both_formats() {
    for name in ["zip.pth", "old.pth"] {
        check(&file(name), &expected(false));
        let opened = TensorFile::open(&file(name), &budget()).unwrap();
        let numbers = ["plain", "half", "brain", "double", "long"].map(|name| opened.number(name).unwrap());
        assert_eq!(numbers, ["float32", "float16", "bfloat16", "float64", "int64"]);
    }
}

#[test]
fn pickles_of_numpy_arrays_of_every_protocol() {
    for protocol in 2..=5 {
        check(&file(&format!("arrays{protocol}.pkl")), &expected(true));
    }
}

#[test]
fn a_cut_file_is_refused_at_every_byte() {
    let directory = tempfile::tempdir().unwrap();
    for name in ["old.pth", "arrays2.pkl", "arrays3.pkl", "arrays4.pkl", "arrays5.pkl"] {
        let bytes = std::fs::read(file(name)).unwrap();
        let path = directory.path().join(name);
        for length in 1..bytes.len() {
            std::fs::write(&path, &bytes[..length]).unwrap();
            let Err(error) = TensorFile::open(&path, &budget()).map(|_| ()) else {
                panic!("{length} bytes of {name} were accepted");
            };
            assert!(error.is_input() && error.to_string().contains(name), "{error}");
        }
    }
}

/// The file with `from` replaced by `to`, which has the same length.
fn changed(name: &str, from: &[u8], to: &[u8]) -> String {
    let mut bytes = std::fs::read(file(name)).unwrap();
    let start = bytes.windows(from.len()).position(|part| part == from).unwrap();
    bytes[start..start + to.len()].copy_from_slice(to);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    let read = TensorFile::open(&path, &budget()).and_then(|opened| {
        let names: Vec<String> = opened.names().map(str::to_string).collect();
        names.iter().try_for_each(|name| opened.read(name).map(drop))
    });
    read.unwrap_err().to_string()
}

#[test]
fn wrong_descriptions_are_refused() {
    // Another version, big-endian, a storage that is longer than the file, a shape that is larger than its bytes.
    assert!(changed("old.pth", b"\x80\x02M\xe9\x03.", b"\x80\x02M\xea\x03.").contains("unknown version"));
    let little = b"little_endianq\x02\x88";
    let big = [&little[..little.len() - 1], b"\x89"].concat();
    assert!(changed("old.pth", little, &big).contains("byte order"));
    // The last storage, of `parameter`, has 6 numbers; the first of them is -1.
    let length = [6u64.to_le_bytes().as_slice(), &(-1f32).to_le_bytes()].concat();
    let lying = [u64::MAX.to_le_bytes().as_slice(), &(-1f32).to_le_bytes()].concat();
    assert!(changed("old.pth", &length, &lying).contains("ends within a storage"));
    let short = [5u64.to_le_bytes().as_slice(), &(-1f32).to_le_bytes()].concat();
    assert!(changed("old.pth", &length, &short).contains("does not agree with its tensor"));
    assert!(changed("arrays3.pkl", b"K\x04K\x06\x86", b"K\x04K\x07\x86").contains("does not agree with its tensor"));
    // A function that is not on the list.
    assert!(changed("arrays3.pkl", b"_reconstruct", b"_reconstruCt").contains("name that is not on the list"));
    // Infinity in place of the first number.
    let error = changed("arrays3.pkl", &(-0.875f32).to_le_bytes(), &f32::INFINITY.to_le_bytes());
    assert!(error.contains("NaN or infinite") && error.contains("`net.kernel`"), "{error}");
}

#[test]
fn values_are_reserved_before_they_are_read() {
    let path = file("old.pth");
    let small = Budget::new(5 << 12 << 7);
    let opened = TensorFile::open(&path, &small).unwrap();
    let _rest = small.reserve(small.left() - 100, "the rest").unwrap();
    assert!(opened.read("plain").unwrap_err().to_string().contains("the tensor `plain`"));
    assert_eq!(opened.read("single").unwrap(), [2.5]);
}
