//! Memory that was used outside of the limit, or never returned.

use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

use crate::common::files::{npy, npy_f32, npy_header, scipy, zip_deflated};
use crate::common::served::{Served, serve_sandbox};
use crate::common::{Sandbox, finish};
use crate::{SOON, noise};

#[test]
fn a_study_returns_the_memory_of_every_dictionary() {
    let sandbox = Sandbox::new();
    sandbox.write("x.npy", npy_f32(&[200, 128], &noise(200 * 128, 1)));
    // One dictionary is 2 · 2048 · 128 · 4 bytes, 2 MB; sixteen of them are 34 MB.
    let seeds: Vec<String> = (0..16).map(|seed| seed.to_string()).collect();
    sandbox.done(&format!(
        "train --store x.npy --arch untrained --latents 2048 --k 8 --seed {} --out saes",
        seeds.join(",")
    ));
    sandbox.write("s.toml", "metrics = [\"core\"]\n[inputs]\nembeddings = \"x.npy\"\n[[set]]\nsae = \"saes/*\"\n");
    sandbox.done("run s.toml --memory 30MB");
    assert_eq!(sandbox.files("s-results/results").len(), 16);
}

#[test]
fn compressed_codes_are_charged_to_the_limit() {
    let sandbox = Sandbox::new();
    let (rows, width) = (10_000, 1000);
    let data: Vec<u8> = 1f32.to_le_bytes().repeat(rows * width);
    let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {width}), }}");
    sandbox.write("bomb.npz", zip_deflated("z.npy", &npy_header(&header, &data)));
    assert!(std::fs::metadata(sandbox.path("bomb.npz")).unwrap().len() < 1 << 20);
    let refused = sandbox.run("eval core --codes bomb.npz --memory 10MB");
    assert!(refused.code == Some(2) && refused.err.contains("not enough memory"), "{refused:?}");
}

#[test]
fn a_header_with_billions_of_columns_is_refused() {
    let sandbox = Sandbox::new();
    sandbox.write("w.npz", scipy(3, i64::from(u32::MAX), &[0, 1, 2, 3], &[0, 5, 9], &[1.0, 2.0, 3.0]));
    sandbox.write("x.npy", npy_f32(&[3, 4], &noise(12, 1)));
    for metric in ["core", "monosemanticity", "divergence", "fid"] {
        let refused = sandbox.run_for(
            &format!("eval {metric} --codes w.npz --embeddings x.npy --generated a=w.npz --memory 500MB"),
            SOON,
        );
        assert_eq!(refused.code, Some(2), "{metric}: {refused:?}");
        assert!(refused.err.contains("not enough memory for numbers of 4294967295 latents"), "{metric}: {refused:?}");
    }
}

#[test]
fn too_little_address_space_is_an_error() {
    let sandbox = Sandbox::with_inputs();
    sandbox.write("big.npy", npy("<f8", false, "(20000, 1000)", &vec![0; 160_000_000]));
    let train = "train --store big.npy --arch topk --latents 4096 --k 4 --steps 1 --warmup 0 --batch 64 --out sae";
    for (kilobytes, arguments) in [
        (300_000, "eval core --codes codes.npy --embeddings embeddings.npy"),
        (100_000, train),
        (300_000, train),
        (300_000, "layout big.npy --out l.npy --memory 4GB"),
    ] {
        let mut command = std::process::Command::new("sh");
        let program = env!("CARGO_BIN_EXE_etalon");
        command.args(["-c", &format!("ulimit -v {kilobytes}; exec {program} {arguments}")]);
        command.current_dir(sandbox.path("."));
        let output = finish(command, SOON);
        // Enough for the first command; the others name what they lack instead of ending in an abort.
        assert!(matches!(output.code, Some(0 | 2)), "{arguments}: {output:?}");
    }
}

/// The most memory that the server has used, in bytes.
fn peak(served: &Served) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", served.child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() * 1024
}

#[test]
fn slow_readers_of_long_results_share_the_memory() {
    let sandbox = Sandbox::new();
    sandbox.write("w.npz", scipy(3, 1_000_000, &[0, 2, 3, 4], &[1, 77, 77, 9], &[1.0, 2.0, 3.0, 4.0]));
    sandbox.write("x.npy", npy_f32(&[3, 4], &noise(12, 1)));
    sandbox.write(
        "s.toml",
        "metrics = [\"monosemanticity\"]\nout = \"out\"\n[inputs]\nembeddings = \"x.npy\"\n[[set]]\nname = \"a\"\ncodes = \"w.npz\"\n",
    );
    sandbox.done("run s.toml");
    let name = sandbox.files("out/results").remove(0);
    let length = std::fs::metadata(sandbox.path("out/results").join(&name)).unwrap().len();
    assert!(length > 5_000_000, "{length}");
    let served = serve_sandbox(sandbox, "--memory 200MB");
    let cookie = format!("Cookie: etalon-{}={}", served.port, served.token);
    let connect = || {
        let mut stream = TcpStream::connect(("127.0.0.1", served.port)).unwrap();
        let host = format!("Host: 127.0.0.1:{}", served.port);
        write!(stream, "GET /api/v1/results/{name} HTTP/1.1\r\n{host}\r\n{cookie}\r\n\r\n").unwrap();
        stream
    };
    let before = peak(&served);
    let _readers: Vec<TcpStream> = (0..12).map(|_| connect()).collect();
    std::thread::sleep(Duration::from_secs(3));
    let grown = peak(&served) - before;
    assert!(grown < 6 * length, "{grown} bytes more for 12 readers of {length} bytes");
}

#[test]
fn reading_a_directory_again_takes_no_more_memory() {
    let sandbox = Sandbox::new();
    std::fs::create_dir_all(sandbox.path("out/results")).unwrap();
    // As doubles they are converted in memory: 1.5 MB, and 2 MB while they are read.
    let values: Vec<u8> = (0..6 * 20_000).flat_map(|value| f64::from(value % 7).to_le_bytes()).collect();
    sandbox.write("out/directions.npy", npy("<f8", false, "(6, 20000)", &values));
    let served = serve_sandbox(sandbox, "--memory 6MB");
    for change in 0..12 {
        served.sandbox.write("out/points.csv", format!("latent,x,y\n{change},1,2\n"));
        let manifest = served.get("/api/v1/manifest.json").json();
        assert_eq!((&manifest["problems"], &manifest["directions"]), (&serde_json::json!([]), &serde_json::json!(6)));
        assert_eq!(served.get("/api/v1/layouts/points.json").json()["latent"][0], change);
    }
}
