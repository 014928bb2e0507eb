//! Damaged directories of Etalon, and outputs that exist already.

use std::fs;

use crate::common::Sandbox;
use crate::common::files::npy_f32;
use crate::{Case, case};

/// Makes a store and hands one of its files over to be damaged.
fn store(room: &Sandbox, file: &str, damage: fn(&mut Vec<u8>)) {
    room.done("data array --from embeddings.npy --out store");
    room.change(&format!("store/{file}"), damage);
}

fn codes(room: &Sandbox, file: &str, damage: fn(&mut Vec<u8>)) {
    room.done("encode --sae random --latents 6 --k 2 --store embeddings.npy --out z");
    room.change(&format!("z/{file}"), damage);
}

/// Makes results and damages the first.
fn results(room: &Sandbox, damage: fn(&mut Vec<u8>)) {
    room.write(
        "s.toml",
        "metrics = [\"match\"]\n[[set]]\nname = \"a\"\ncodes = \"codes.npy\"\nlabels = \"labels.csv\"\n",
    );
    room.done("run s.toml --out r");
    let name = room.files("r/results").remove(0);
    room.change(&format!("r/results/{name}"), damage);
}

#[expect(clippy::ptr_arg, reason = "ways to damage a file have one type")]
fn flip(bytes: &mut Vec<u8>) {
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
}

fn cut(bytes: &mut Vec<u8>) {
    bytes.truncate(bytes.len() / 2);
}

/// Raises the version of a manifest, with a checksum that is right.
fn newer(bytes: &mut Vec<u8>) {
    let text = String::from_utf8(bytes.clone()).unwrap().replace("\"version\": 1,", "\"version\": 2,");
    let head = &text[..text.rfind(",\n  \"crc32c\"").unwrap()];
    *bytes = format!("{head},\n  \"crc32c\": \"{:08x}\"\n}}\n", crc32c(head.as_bytes())).into_bytes();
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0u32, |crc, &byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}

const USE: &str = "eval monosemanticity --codes codes.npy --embeddings store --out out.json";
const USE_CODES: &str = "eval match --codes z --labels labels.csv --out out.json";

pub fn cases() -> Vec<Case> {
    vec![
        case(
            "store: a flipped bit",
            |room| {
                store(room, "shard-00000.f32", flip);
                USE.into()
            },
            &["damaged", "checksum", "bytes 0 to 128", "file: store/shard-00000.f32"],
        ),
        case(
            "store: a cut shard",
            |room| {
                store(room, "shard-00000.f32", cut);
                USE.into()
            },
            &["expected: 128 bytes", "found: 64 bytes", "file: store/shard-00000.f32"],
        ),
        case(
            "store: a missing shard",
            |room| {
                store(room, "shard-00000.f32", |_| ());
                fs::remove_file(room.path("store/shard-00000.f32")).unwrap();
                USE.into()
            },
            &["store/shard-00000.f32"],
        ),
        case(
            "store: a flipped bit in the checksums",
            |room| {
                store(room, "shard-00000.crc", flip);
                USE.into()
            },
            &["damaged", "file: store/shard-00000"],
        ),
        case(
            "store: a flipped bit in the manifest",
            |room| {
                store(room, "manifest.json", flip);
                USE.into()
            },
            &["the manifest is damaged", "a wrong checksum", "create it again", "file: store/manifest.json"],
        ),
        case(
            "store: a cut manifest",
            |room| {
                store(room, "manifest.json", cut);
                USE.into()
            },
            &["the manifest is damaged", "file: store/manifest.json"],
        ),
        case(
            "store: an empty manifest",
            |room| {
                store(room, "manifest.json", Vec::clear);
                USE.into()
            },
            &["the manifest is damaged", "too few bytes", "file: store/manifest.json"],
        ),
        case(
            "store: no manifest",
            |room| {
                store(room, "manifest.json", |_| ());
                fs::remove_file(room.path("store/manifest.json")).unwrap();
                USE.into()
            },
            &["not a finished Etalon directory", "manifest.json", "file: store"],
        ),
        case(
            "store: a newer version",
            |room| {
                store(room, "manifest.json", newer);
                USE.into()
            },
            &["newer version of Etalon", "version 1", "found: version 2", "newest Etalon", "file: store"],
        ),
        case(
            "store: codes instead",
            |room| {
                codes(room, "manifest.json", |_| ());
                USE.replace("store", "z")
            },
            &["another format", "expected: etalon-activations", "found: etalon-codes", "file: z"],
        ),
        case(
            "codes: a flipped bit in the values",
            |room| {
                codes(room, "values.f32", flip);
                USE_CODES.into()
            },
            &["damaged", "checksum", "file: z/values.f32"],
        ),
        case(
            "codes: cut latents",
            |room| {
                codes(room, "latents.u32", cut);
                USE_CODES.into()
            },
            &["damaged", "file: z/latents.u32"],
        ),
        case(
            "codes: a newer version",
            |room| {
                codes(room, "manifest.json", newer);
                USE_CODES.into()
            },
            &["newer version of Etalon", "found: version 2", "file: z"],
        ),
        case(
            "codes: a whole world",
            |room| {
                room.done("data tabular-toy --rows 8 --out w");
                "eval match --codes w --labels labels.csv --out out.json".into()
            },
            &["not a finished Etalon directory", "this is a world", "`codes`", "file: w"],
        ),
        case(
            "world: labels cut within a row",
            |room| {
                room.done("data tabular-toy --rows 20 --out w");
                room.change("w/labels.csv", |bytes| bytes.truncate(bytes.len() - 4));
                "eval probe_ceiling --world w --out out.json".into()
            },
            &["file: w/labels.csv"],
        ),
        case(
            "world: activations damaged",
            |room| {
                room.done("data tabular-toy --rows 20 --out w");
                room.change("w/activations/shard-00000.f32", flip);
                "eval probe_ceiling --world w --out out.json".into()
            },
            &["damaged", "file: w/activations/shard-00000.f32"],
        ),
        case(
            "verify: a store",
            |room| {
                store(room, "shard-00000.f32", flip);
                "verify store".into()
            },
            &["damaged", "checksum", "file: store/shard-00000.f32"],
        ),
        case(
            "verify: the manifest of codes",
            |room| {
                codes(room, "manifest.json", flip);
                "verify z".into()
            },
            &["the manifest is damaged", "file: z/manifest.json"],
        ),
        case(
            "verify: a newer version",
            |room| {
                codes(room, "manifest.json", newer);
                "verify z".into()
            },
            &["newer version of Etalon", "found: version 2"],
        ),
        case(
            "verify: a part of a world",
            |room| {
                room.done("data superposition --rows 20 --width 4 --features 6 --active 2 --out w");
                room.change("w/codes/values.f32", flip);
                "verify w".into()
            },
            &["damaged", "file: w/codes/values.f32"],
        ),
        case(
            "verify: the labels of a world",
            |room| {
                room.done("data superposition --rows 20 --width 4 --features 6 --active 2 --out w");
                room.change("w/labels.csv", flip);
                "verify w".into()
            },
            &["file: w/labels.csv"],
        ),
        case(
            "verify: a part of a world is missing",
            |room| {
                room.done("data superposition --rows 20 --width 4 --features 6 --active 2 --out w");
                fs::remove_dir_all(room.path("w/codes")).unwrap();
                "verify w".into()
            },
            &["file: w/codes"],
        ),
        case(
            "verify: a flipped bit in a result",
            |room| {
                results(room, flip);
                "verify r".into()
            },
            &["a result is damaged", "wrong checksum", "run the study again", "file: r/results/"],
        ),
        case(
            "verify: a cut result",
            |room| {
                results(room, cut);
                "verify r".into()
            },
            &["a result is damaged", "truncated", "file: r/results/"],
        ),
        case(
            "verify: a directory of another program",
            |room| {
                room.write("folder/a.txt", "a");
                "verify folder".into()
            },
            &["nothing that Etalon wrote", "file: folder"],
        ),
        case("verify: missing", |_| "verify gone".into(), &["no such directory", "file: gone"]),
        case("verify: a file", |_| "verify codes.npy".into(), &["a file", "file: codes.npy"]),
        case("report: missing", |_| "report gone".into(), &["no such results directory", "file: gone"]),
        case("report: a file", |_| "report codes.npy".into(), &["file: codes.npy"]),
        case(
            "report: no results",
            |room| {
                fs::create_dir(room.path("folder")).unwrap();
                "report folder".into()
            },
            &["there are no results here", "etalon run", "file: folder"],
        ),
        case(
            "report: a result file outside of `results`",
            |room| {
                room.done("eval core --codes codes.npy --out folder/single.json");
                "report folder".into()
            },
            &["there are no results here", "`single.json`", "DIR/results", "file: folder"],
        ),
        case(
            "report: a result file",
            |room| {
                room.done("eval core --codes codes.npy --out single.json");
                "report single.json".into()
            },
            &["a result file", "DIR/results", "file: single.json"],
        ),
        case(
            "report: only damaged results",
            |room| {
                results(room, flip);
                "report r".into()
            },
            &["skipped, damaged", "there are no results here", "file: r"],
        ),
        case(
            "a store where a file is",
            |_| "data array --from embeddings.npy --out codes.npy".into(),
            &["a file", "file: codes.npy"],
        ),
        case(
            "a store where another is",
            |room| {
                room.done("data array --from embeddings.npy --out store");
                "data array --from codes.npy --out store".into()
            },
            &["8 rows of 4 values; the source has 8 of 3", "file: store"],
        ),
        case(
            "a store where another of the same shape is",
            |room| {
                room.done("data array --from embeddings.npy --out store");
                room.write("x.npy", npy_f32(&[8, 4], &[0.25; 32]));
                "data array --from x.npy --out store".into()
            },
            &["choose another directory", "file: store"],
        ),
        case(
            "a store among other files",
            |room| {
                room.write("folder/thesis.tex", "years of work");
                "data array --from embeddings.npy --out folder".into()
            },
            &["contains other files", "`thesis.tex`", "choose another directory", "file: folder"],
        ),
        case(
            "codes where a store is",
            |room| {
                room.done("data array --from embeddings.npy --out store");
                "encode --sae random --latents 6 --k 2 --store embeddings.npy --out store".into()
            },
            &["file: store"],
        ),
        case(
            "codes where other codes are",
            |room| {
                codes(room, "manifest.json", |_| ());
                "encode --sae random --latents 6 --k 3 --store embeddings.npy --out z".into()
            },
            &["file: z"],
        ),
        case(
            "a world where another is",
            |room| {
                room.done("data tabular-toy --rows 20 --out w");
                "data tabular-toy --rows 21 --out w".into()
            },
            &["file: w"],
        ),
        case(
            "a world where a file is",
            |_| "data tabular-toy --rows 20 --out labels.csv".into(),
            &["a file", "file: labels.csv"],
        ),
        case(
            "a world among other files",
            |room| {
                room.write("folder/labels.csv", "my own\n1\n");
                "data tabular-toy --rows 20 --out folder".into()
            },
            &["labels.csv", "file: folder"],
        ),
        case("the demo where a file is", |_| "demo --out labels.csv".into(), &["found: a file", "file: labels.csv"]),
        case(
            "the sanity check where a file is",
            |_| "sanity --codes codes.npy --embeddings embeddings.npy --labels labels.csv --out labels.csv".into(),
            &["found: a file", "file: labels.csv"],
        ),
    ]
}
