//! Inputs that crashed the program or made it wait for ever.

use std::process::{Command, Stdio};
use std::time::Duration;

use crate::common::files::npy_f32;
use crate::common::{Sandbox, etalon, words};
use crate::{SOON, noise};

fn pipe(sandbox: &Sandbox, name: &str) {
    std::fs::create_dir_all(sandbox.path(name).parent().unwrap()).unwrap();
    assert!(Command::new("mkfifo").arg(sandbox.path(name)).status().unwrap().success());
}

#[test]
fn a_pipe_is_not_waited_for() {
    let sandbox = Sandbox::with_inputs();
    pipe(&sandbox, "d/results/aaaa.json");
    pipe(&sandbox, "w/world.json");
    pipe(&sandbox, "train.jsonl");
    for (arguments, says) in [
        ("report d", "a pipe, a device or a socket"),
        ("verify d", "a pipe, a device or a socket"),
        ("export d --out x", "no results here"),
        ("verify w", "nothing that Etalon wrote"),
        ("eval core --world w --codes codes.npy", "holds no world"),
        ("train --store embeddings.npy --arch topk --latents 8 --k 2 --steps 2 --log train.jsonl --out sae", "a pipe"),
    ] {
        let refused = sandbox.run_for(arguments, SOON);
        assert!(refused.code == Some(2) && refused.err.contains(says), "{arguments}: {refused:?}");
    }
}

#[test]
fn a_parquet_header_of_billions_of_values_ends_at_once() {
    let varint = |mut value: u64| {
        let mut bytes = Vec::new();
        while value > 0x7f {
            bytes.push(value as u8 & 0x7f | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    };
    let zigzag = |value: u64| varint(value << 1);
    let text = |text: &[u8]| [varint(text.len() as u64), text.to_vec()].concat();
    let root = [vec![0x48], text(b"m"), vec![0x15], zigzag(1), vec![0]].concat();
    let leaf = [vec![0x15], zigzag(4), vec![0x25], zigzag(0), vec![0x18], text(b"c"), vec![0]].concat();
    let mut footer = [vec![0x15], zigzag(1), vec![0x19, 0x2c], root, leaf, vec![0x16], zigzag(0)].concat();
    // Unknown fields: lists of 2^31 - 1 booleans, which take no bytes.
    for field in 100..110 {
        footer.extend([vec![0x09], zigzag(field), vec![0xf1], varint(0x7fff_ffff)].concat());
    }
    footer.extend([vec![0x09], zigzag(4), vec![0x0c, 0]].concat());
    let length = (footer.len() as u32).to_le_bytes();
    let sandbox = Sandbox::new();
    sandbox.write("h.parquet", [b"PAR1", &footer[..], &length, b"PAR1"].concat());
    let refused = sandbox.run_for("eval core --codes h.parquet", SOON);
    assert_eq!(refused.code, Some(2), "{refused:?}");
}

#[test]
fn stored_units_of_any_content_are_harmless() {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("s.toml", "metrics = [\"core\"]\n[[set]]\nname = \"a\"\ncodes = \"codes.npy\"\n");
    sandbox.done("run s.toml");
    let name = sandbox.files("s-results/results").remove(0);
    std::fs::remove_file(sandbox.path("s-results/results").join(&name)).unwrap();
    // One column: the largest of 2^60 things, none kept; as an old version stored it, and without its frame.
    let body: Vec<u8> = [1u64, 4, 1 << 60, 0, 0, 0].iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut old = [&b"ETALTLY1"[..], &(body.len() as u64).to_le_bytes(), &body].concat();
    old.extend(crc32c::crc32c(&old).to_le_bytes());
    let mut framed = body.clone();
    framed.extend((body.len() as u64).to_le_bytes());
    framed.extend(crc32c::crc32c(&framed).to_le_bytes());
    for (ending, bytes) in [("0-000000.tally", &old), ("0-000000", &framed), ("0-000000.state", &framed)] {
        sandbox.write(&format!("s-results/units/{}-{ending}", &name[..32]), bytes);
    }
    pipe(&sandbox, &format!("s-results/units/{}-1-000000", &name[..32]));
    let output = sandbox.run_for("run s.toml", SOON);
    assert_eq!(output.code, Some(0), "{output:?}");
}

#[test]
fn a_file_that_is_cut_while_it_is_read_is_an_error() {
    let sandbox = Sandbox::new();
    let bytes = npy_f32(&[40_000, 64], &noise(40_000 * 64, 1));
    for delay in [50, 150, 400] {
        sandbox.write("x.npy", &bytes);
        let arguments =
            format!("encode --sae untrained --latents 2048 --k 16 --store x.npy --out c{delay} --threads 1");
        let mut command = etalon(&sandbox.path("."), &words(&arguments));
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay));
        std::fs::File::options().write(true).open(sandbox.path("x.npy")).unwrap().set_len(4096).unwrap();
        let status = child.wait().unwrap();
        assert!(matches!(status.code(), Some(0 | 2)), "cut after {delay} ms: {status}");
    }
}
