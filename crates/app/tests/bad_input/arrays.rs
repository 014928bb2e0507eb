//! Arrays that are truncated, have wrong headers, or contain values that are not numbers.

use crate::common::files::{npy, npy_f32, npy_header, npy_i64, safetensors, scipy, zip, zip_claiming};
use crate::common::{CODES, Sandbox, embeddings};
use crate::{Case, case};

/// Writes the file as codes and evaluates it.
fn codes(room: &Sandbox, name: &str, bytes: impl AsRef<[u8]>) -> String {
    room.write(name, bytes);
    codes_at(name)
}

fn codes_at(name: &str) -> String {
    format!("eval match --codes {name} --labels labels.csv --out out.json")
}

/// Writes the file as embeddings and evaluates it.
fn embedded(room: &Sandbox, name: &str, bytes: impl AsRef<[u8]>) -> String {
    room.write(name, bytes);
    format!("eval monosemanticity --codes codes.npy --embeddings {name} --out out.json")
}

/// Embeddings with wrong values at some indices.
fn spoilt(changes: &[(usize, f32)]) -> Vec<u8> {
    let mut values = embeddings();
    changes.iter().for_each(|&(index, value)| values[index] = value);
    npy_f32(&[8, 4], &values)
}

fn cut(mut bytes: Vec<u8>, length: usize) -> Vec<u8> {
    bytes.truncate(length);
    bytes
}

pub fn cases() -> Vec<Case> {
    vec![
        case("missing file", |_| codes_at("gone.npy"), &["there is no such file", "help: ", "file: gone.npy"]),
        case(
            "symlink to nowhere",
            |room| {
                std::os::unix::fs::symlink("nowhere.npy", room.path("link.npy")).unwrap();
                codes_at("link.npy")
            },
            &["there is no such file", "file: link.npy"],
        ),
        case(
            "a directory of another program",
            |room| {
                std::fs::create_dir(room.path("folder.npy")).unwrap();
                codes_at("folder.npy")
            },
            &["not a finished Etalon directory", "manifest.json", "file: folder.npy"],
        ),
        case(
            "a pipe",
            |room| {
                let made = std::process::Command::new("mkfifo").arg(room.path("pipe.npy")).status().unwrap();
                assert!(made.success());
                codes_at("pipe.npy")
            },
            &["expected: a regular file", "found: a pipe", "save it to a file first", "file: pipe.npy"],
        ),
        case(
            "parquet: a bit of a page with a checksum is flipped",
            |room| {
                let mut bytes = include_bytes!("../../../../tests/golden/parquet/plain.parquet").to_vec();
                let start = bytes.windows(4).position(|four| four == 19f32.to_le_bytes()).unwrap();
                bytes[start + 3] ^= 0x80;
                codes(room, "x.parquet", bytes)
            },
            &["do not match its checksum (CRC)", "help: ", "file: x.parquet"],
        ),
        case("empty file", |room| codes(room, "x.npy", ""), &["the file is empty", "file: x.npy"]),
        case("unknown ending", |room| codes(room, "x.dat", "1 2 3"), &["the ending .dat", ".npy", "file: x.dat"]),
        case("an empty key", |_| codes_at("x.npz:"), &["a key is missing", "x.npz:codes"]),
        case(
            "npy: not one",
            |room| codes(room, "x.npy", "hello, world"),
            &["not a numpy array", "byte 0", "file: x.npy"],
        ),
        case(
            "npy: cut within the header",
            |room| codes(room, "x.npy", cut(npy_f32(&[8, 3], &CODES), 30)),
            &["ends too early", "file: x.npy"],
        ),
        case(
            "npy: cut within the numbers",
            |room| codes(room, "x.npy", cut(npy_f32(&[8, 3], &CODES), 200)),
            &["224 bytes for 8 × 3 of 4 bytes each", "found: 200 bytes", "file: x.npy"],
        ),
        case(
            "npy: more than the header says",
            |room| codes(room, "x.npy", npy_f32(&[7, 3], &CODES)),
            &["does not agree with its header", "found: 224 bytes", "file: x.npy"],
        ),
        case(
            "npy: 2^60 rows",
            |room| codes(room, "x.npy", npy("<f4", false, "(1152921504606846976, 3)", b"")),
            &["1152921504606846976 × 3", "file: x.npy"],
        ),
        case(
            "npy: 2^40 rows, in a store",
            |room| {
                room.write("x.npy", npy("<f4", false, "(1099511627776, 3)", b"1234"));
                "data array --from x.npy --out out".into()
            },
            &["does not agree with its header", "1099511627776 × 3", "file: x.npy"],
        ),
        case(
            "npy: a header of 4 GB",
            |room| codes(room, "x.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{'descr'"),
            &["header of the numpy array is too long", "4294967295", "file: x.npy"],
        ),
        case(
            "npy: a version that does not exist",
            |room| codes(room, "x.npy", b"\x93NUMPY\x09\x00\x10\x00{'descr': '<f4'}"),
            &["1.0, 2.0 or 3.0", "found: 9.0", "file: x.npy"],
        ),
        case(
            "npy: a header that is code",
            |room| codes(room, "x.npy", npy_header("__import__('os').system('id')", b"")),
            &["of the header", "file: x.npy"],
        ),
        case(
            "npy: objects",
            |room| codes(room, "x.npy", npy("|O", false, "(8, 3)", b"\x80\x04]")),
            &["found: |O", "objects can execute code", "file: x.npy"],
        ),
        case(
            "npy: words",
            |room| codes(room, "x.npy", npy("<U3", false, "(8, 3)", &[0; 288])),
            &["found: <U3", "save text as a CSV table", "file: x.npy"],
        ),
        case(
            "npy: complex numbers",
            |room| codes(room, "x.npy", npy("<c8", false, "(8, 3)", &[0; 192])),
            &["found: <c8", "real part", "file: x.npy"],
        ),
        case(
            "npy: four dimensions",
            |room| codes(room, "x.npy", npy_f32(&[2, 2, 2, 3], &CODES)),
            &["1, 2 or 3 dimensions", "4 dimensions: 2 × 2 × 2 × 3", "reshape", "file: x.npy"],
        ),
        case(
            "npy: a single number",
            |room| codes(room, "x.npy", npy_f32(&[], &[1.0])),
            &["does not have rows", "a single number", "file: x.npy"],
        ),
        case(
            "npy: rows without values",
            |room| codes(room, "x.npy", npy_f32(&[8, 0], &[])),
            &["rows without values", "8 × 0", "file: x.npy"],
        ),
        case("npy: a key", |_| codes_at("codes.npy:z"), &["there is no such file", "file: codes.npy:z"]),
        case(
            "codes: NaN",
            |room| {
                let mut values = CODES;
                values[7] = f32::NAN;
                codes(room, "x.npy", npy_f32(&[8, 3], &values))
            },
            &["NaN", "row 2", "file: x.npy"],
        ),
        case(
            "embeddings: NaN and infinity, in place",
            |room| embedded(room, "x.npy", spoilt(&[(6, f32::NAN), (13, f32::INFINITY), (30, f32::NEG_INFINITY)])),
            &["not finite", "NaN; 3 such values in rows 0 to 7", "row 1, column 2", "--nan drop-rows", "file: x.npy"],
        ),
        case(
            "embeddings: infinity, in float64",
            |room| {
                let mut data: Vec<u8> = embeddings().iter().flat_map(|&value| f64::from(value).to_le_bytes()).collect();
                data[80..88].copy_from_slice(&1e300f64.to_le_bytes());
                embedded(room, "x.npy", npy("<f8", false, "(8, 4)", &data))
            },
            &["1 value is NaN or infinite", "row 2, column 2", "beyond 3.4e38", "file: x.npy"],
        ),
        case(
            "store: NaN",
            |room| {
                room.write("x.npy", spoilt(&[(6, f32::NAN), (13, f32::INFINITY)]));
                "data array --from x.npy --out out".into()
            },
            &["NaN", "row 1", "column 2", "--nan drop-rows", "file: x.npy"],
        ),
        case(
            "dropped rows that pairs refer to",
            |room| {
                room.write("x.npy", spoilt(&[(6, f32::NAN)]));
                "eval tapa,cknna --codes codes.npy --labels labels.csv --pairs pairs.csv --embeddings x.npy --nan drop-rows \
                 --out out.json"
                    .into()
            },
            &["rows cannot be dropped while pairs point at them", "1 rows to drop"],
        ),
        case("a table as codes", |_| codes_at("labels.csv"), &["a table of text, not an array", "file: labels.csv"]),
    ]
}

const TENSOR: &str = r#"{"z":{"dtype":"F32","shape":[8,3],"data_offsets":[0,96]}}"#;

/// A torch checkpoint whose description is these bytes.
fn torch(pickle: &[u8]) -> Vec<u8> {
    zip(&[("a/data.pkl", pickle), ("a/data/0", &[0; 96])])
}

/// Safetensors, zip archives and parquet.
pub fn archives() -> Vec<Case> {
    vec![
        case(
            "safetensors: cut within the length",
            |room| codes(room, "x.safetensors", [1, 2, 3]),
            &["at least 8 bytes", "found: 3", "file: x.safetensors"],
        ),
        case(
            "safetensors: a header of 2^60 bytes",
            |room| codes(room, "x.safetensors", [&(1u64 << 60).to_le_bytes()[..], b"{}"].concat()),
            &["header of the safetensors file is too long", "1152921504606846976", "file: x.safetensors"],
        ),
        case(
            "safetensors: not JSON",
            |room| codes(room, "x.safetensors", safetensors("{\"z\":", b"")),
            &["header of the safetensors file is invalid", "EOF", "file: x.safetensors"],
        ),
        case(
            "safetensors: cut within the numbers",
            |room| codes(room, "x.safetensors", safetensors(TENSOR, &[0; 90])),
            &["does not agree with its header", "expected: ", "found: ", "file: x.safetensors"],
        ),
        case(
            "safetensors: 2^60 rows",
            |room| {
                let header = r#"{"z":{"dtype":"F32","shape":[1152921504606846976,4],"data_offsets":[0,16]}}"#;
                codes(room, "x.safetensors", safetensors(header, &[0; 16]))
            },
            &["header of the safetensors file is invalid", "file: x.safetensors"],
        ),
        case(
            "safetensors: overlapping tensors",
            |room| {
                let header = r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[8,24]}}"#;
                codes(room, "x.safetensors:a", "")
                    + &{
                        room.write("x.safetensors", safetensors(header, &[0; 24]));
                        String::new()
                    }
            },
            &["header of the safetensors file is invalid", "file: x.safetensors"],
        ),
        case(
            "safetensors: a gap between tensors",
            |room| {
                let header = r#"{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"b":{"dtype":"F32","shape":[2,2],"data_offsets":[24,40]}}"#;
                codes(room, "x.safetensors", safetensors(header, &[0; 40]))
            },
            &["header of the safetensors file is invalid", "file: x.safetensors"],
        ),
        case(
            "safetensors: the same key twice",
            |room| {
                let twice =
                    TENSOR.replace("}}", "},\"z\":{\"dtype\":\"F32\",\"shape\":[8,3],\"data_offsets\":[0,96]}}");
                codes(room, "x.safetensors", safetensors(&twice, &[0; 96]))
            },
            &["header of the safetensors file is invalid", "twice", "`z`", "file: x.safetensors"],
        ),
        case(
            "safetensors: no such key",
            |room| {
                room.write("x.safetensors", safetensors(TENSOR, &[0; 96]));
                codes_at("x.safetensors:y")
            },
            &["no array of that name", "one of z", "found: y", "file: x.safetensors"],
        ),
        case(
            "npz: cut",
            |room| {
                let whole = zip(&[("z.npy", &npy_f32(&[8, 3], &CODES))]);
                codes(room, "x.npz", cut(whole, 150))
            },
            &["zip archive cannot be read", "file: x.npz"],
        ),
        case(
            "npz: damaged numbers",
            |room| {
                let mut whole = zip(&[("z.npy", &npy_f32(&[8, 3], &CODES))]);
                whole[200] ^= 1;
                codes(room, "x.npz", whole)
            },
            &["damaged", "hecksum", "file: x.npz"],
        ),
        case(
            "npz: several arrays and no key",
            |room| codes(room, "x.npz", zip(&[("a.npy", &npy_i64(&[1])), ("b.npy", &npy_i64(&[2]))])),
            &["several arrays", "one of a, b", "FILE:a", "file: x.npz"],
        ),
        case(
            "npz: a bomb",
            |room| codes(room, "x.npz", zip_claiming(&[("z.npy", &npy_f32(&[8, 3], &CODES))], &[1 << 30])),
            &["impossible size", "1073741824 bytes", "entry `z.npy`", "file: x.npz"],
        ),
        case(
            "npz: a name that leads out",
            |room| codes(room, "x.npz", zip(&[("../../z.npy", &npy_f32(&[8, 3], &CODES))])),
            &["leads out", "entry `../../z.npy`", "may be malicious", "file: x.npz"],
        ),
        case(
            "npz: 5,000 entries",
            |room| {
                let names: Vec<String> = (0..5000).map(|index| format!("{index}.npy")).collect();
                let entries: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), &b""[..])).collect();
                codes(room, "x.npz", zip(&entries))
            },
            &["too many entries", "at most 4096", "found: 5000", "file: x.npz"],
        ),
        case(
            "npz: objects",
            |room| codes(room, "x.npz", zip(&[("z.npy", &npy("|O", false, "(1,)", b"\x80\x04N."))])),
            &["objects can execute code", "file: x.npz"],
        ),
        case(
            "scipy: a column beyond the last",
            |room| codes(room, "x.npz", scipy(8, 3, &[0, 1, 1, 1, 1, 1, 1, 1, 1], &[3], &[1.0])),
            &["part `indices`", "columns from 0, below 3", "found: 3", "at: row 0", "file: x.npz"],
        ),
        case(
            "scipy: rows that go backwards",
            |room| codes(room, "x.npz", scipy(3, 3, &[0, 2, 1, 2], &[0, 1], &[1.0, 1.0])),
            &["part `indptr`", "at: row 1", "file: x.npz"],
        ),
        case(
            "scipy: 2^60 rows",
            |room| codes(room, "x.npz", scipy(1 << 60, 3, &[0, 1], &[0], &[1.0])),
            &["part `indptr`", "1152921504606846976 + 1 offsets", "found: 2", "file: x.npz"],
        ),
        case(
            "torch: a pickle that calls the shell",
            |room| codes(room, "x.pt", torch(b"\x80\x02cposix\nsystem\nX\x02\x00\x00\x00id\x85R.")),
            &["name that is not on the list", "posix", "system", "file: x.pt"],
        ),
        case(
            "torch: a pickle that builds an object",
            |room| codes(room, "x.pt", torch(b"\x80\x02}q\x00i__main__\nThing\n.")),
            &["instruction that is not on the list", "file: x.pt"],
        ),
        case(
            "torch: a pickle that ends too early",
            |room| codes(room, "x.pt", torch(b"\x80\x02}X\xff\xff\xff\x7f")),
            &["the pickle ends too early", "file: x.pt"],
        ),
        case(
            "torch: the old format, cut",
            |room| codes(room, "x.pt", b"\x80\x02\x8a\x0al\xfc\x9c"),
            &["the pickle ends too early", "save it again", "file: x.pt"],
        ),
        case("torch: not one", |room| codes(room, "x.pt", "weights"), &["not a torch checkpoint", "file: x.pt"]),
        case(
            "torch: a plain zip",
            |room| codes(room, "x.pt", zip(&[("z.npy", &npy_f32(&[8, 3], &CODES))])),
            &["not a torch checkpoint", "one entry data.pkl", "file: x.pt"],
        ),
        case("parquet: cut", |room| codes(room, "x.parquet", b"PAR1\x15\x04\x15\x10"), &["parquet", "file: x.parquet"]),
        case(
            "parquet: a footer of 2 GB",
            |room| codes(room, "x.parquet", b"PAR1\0\0\0\0\0\0\0\0\xff\xff\xff\x7fPAR1"),
            &["footer", "2147483647", "file: x.parquet"],
        ),
        case(
            "parquet: a footer of rubbish",
            |room| codes(room, "x.parquet", b"PAR1\xff\xff\xff\xff\xff\xff\xff\xff\x08\0\0\0PAR1"),
            &["parquet", "copy or write", "file: x.parquet"],
        ),
        case(
            "parquet as labels: not one",
            |room| {
                room.write("y.parquet", "red,round\n0,1\n");
                "eval match --codes codes.npy --labels y.parquet --out out.json".into()
            },
            &["parquet", "file: y.parquet"],
        ),
    ]
}
