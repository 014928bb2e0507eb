//! `etalon fetch hf:org/name` with the real client of the hub and a small local server that has the hub's paths.
//!
//! Needs the client: `cargo xtask test` installs it and runs this. By hand: `pip install huggingface_hub`, then
//! `cargo test -p etalon-app --test hub -- --ignored`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use common::{Sandbox, TIME_LIMIT, etalon, finish, words};
use serde_json::json;

const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";
const FILES: [(&str, &str); 3] = [("config.json", "{}"), ("model.safetensors", "weights"), ("model.onnx", "left out")];
const TOKEN: &str = "hf_abcdefghijklmnopqrstuvwxyz";

/// Answers a request; returns it, with whether it had the token.
fn answer(stream: TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let mut has_token = false;
    for line in reader.lines() {
        let line = line.ok()?;
        has_token |= line.to_lowercase().starts_with("authorization:") && line.contains(TOKEN);
        if line.is_empty() {
            break;
        }
    }
    let mut parts = first.split(' ');
    let (method, path) = (parts.next()?, parts.next()?.split('?').next()?);
    let listed = || FILES.map(|(name, text)| json!({"type": "file", "path": name, "size": text.len(), "oid": COMMIT}));
    let siblings = FILES.map(|(name, _)| json!({"rfilename": name}));
    let body = match path {
        _ if path.ends_with(&format!("/tree/{COMMIT}")) => json!(listed()).to_string(),
        "/api/models/org/name/revision/main" => {
            json!({"_id": "x", "id": "org/name", "modelId": "org/name", "sha": COMMIT, "siblings": siblings})
                .to_string()
        }
        _ => {
            let file = path.strip_prefix(&format!("/org/name/resolve/{COMMIT}/"));
            file.and_then(|file| FILES.iter().find(|(name, _)| *name == file)).map_or("", |(_, text)| text).to_string()
        }
    };
    let status = if body.is_empty() { "404 Not Found" } else { "200 OK" };
    let mut stream = stream;
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Length: {}\r\nETag: \"{:040x}\"\r\nX-Repo-Commit: {COMMIT}\r\nConnection: close\r\n\r\n",
        body.len(),
        path.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    if method == "GET" {
        stream.write_all(body.as_bytes()).ok()?;
    }
    Some(format!("{method} {path} {has_token}"))
}

#[test]
#[ignore = "needs the client of the Hugging Face hub"]
fn the_real_client_honours_its_variables() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(Mutex::new(Vec::new()));
    let seen = requests.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let seen = seen.clone();
            std::thread::spawn(move || seen.lock().unwrap().extend(answer(stream)));
        }
    });
    let sandbox = Sandbox::new();
    let fetch = |variables: &[(&str, &str)]| {
        let mut command = etalon(&sandbox.path("."), &words("fetch hf:org/name --json"));
        command.env("ETALON_CACHE", sandbox.path("cache")).env("HF_HOME", sandbox.path("home")).env("HF_TOKEN", TOKEN);
        command.env("HF_ENDPOINT", &address).envs(variables.iter().copied()).env_remove("HF_HUB_CACHE");
        finish(command, TIME_LIMIT)
    };
    // Offline, nothing is asked for, and the message says so.
    let output = fetch(&[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(output.code, Some(2), "{output:?}");
    assert!(requests.lock().unwrap().is_empty());
    let output = fetch(&[]);
    assert_eq!(output.code, Some(0), "{output:?}");
    assert!(!output.err.contains(TOKEN) && !output.out.contains(TOKEN));
    let folder = output.json()["path"].as_str().unwrap().to_string();
    assert_eq!(std::fs::read_to_string(format!("{folder}/model.safetensors")).unwrap(), "weights");
    assert!(!std::path::Path::new(&format!("{folder}/model.onnx")).exists());
    let requests = requests.lock().unwrap();
    assert!(requests.iter().any(|request| request == "GET /api/models/org/name/revision/main true"), "{requests:?}");
    // Once it is there, it is there offline.
    assert_eq!(fetch(&[("HF_HUB_OFFLINE", "1")]).code, Some(0));
}
