//! Runs the program in a temporary directory with small input files.
#![allow(dead_code, reason = "every test program uses a different part")]
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

pub mod chat_server;
pub mod everything;
pub mod files;
pub mod gguf;
#[cfg(target_os = "linux")]
pub mod interrupt;
pub mod served;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Time limit of a command.
pub const TIME_LIMIT: Duration = Duration::from_secs(900);

/// The program with arguments, without environment variables that change its behaviour.
pub fn etalon<A: AsRef<str>>(directory: &Path, arguments: &[A]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_etalon"));
    command.args(arguments.iter().map(AsRef::as_ref)).current_dir(directory);
    command.env_remove("ETALON_CRASH_AT").env_remove("RUST_BACKTRACE").stdin(Stdio::null());
    command
}

/// Exit code and output of the program.
#[derive(Debug)]
pub struct Output {
    /// The exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub out: String,
    /// Standard error.
    pub err: String,
}

impl Output {
    /// Standard output of `--json`.
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("not JSON: {error}\n{self:#?}"))
    }
}

/// Runs a command to its end, or kills it after the time limit.
pub fn finish(mut command: Command, limit: Duration) -> Output {
    let directory = tempfile::tempdir().unwrap();
    let (out, err) = (directory.path().join("out"), directory.path().join("err"));
    // Files instead of pipes, because a full pipe would block the program.
    command.stdout(fs::File::create(&out).unwrap()).stderr(fs::File::create(&err).unwrap());
    let mut child = command.spawn().unwrap();
    let began = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if began.elapsed() > limit {
            child.kill().unwrap();
            let status = child.wait().unwrap();
            fs::write(&err, format!("still running after {limit:?}")).unwrap();
            break status;
        }
        std::thread::sleep(Duration::from_millis(2));
    };
    let text = |path: &Path| String::from_utf8(fs::read(path).unwrap()).expect("output is UTF-8");
    Output { code: status.code(), out: text(&out), err: text(&err) }
}

/// A temporary directory in which the program runs.
pub struct Sandbox {
    directory: tempfile::TempDir,
}

impl Sandbox {
    /// An empty directory.
    pub fn new() -> Sandbox {
        Sandbox { directory: tempfile::tempdir().unwrap() }
    }

    /// A directory with small consistent inputs: 8 rows, 3 latents, 2 concepts, embeddings of width 4, 4 pairs.
    pub fn with_inputs() -> Sandbox {
        let sandbox = Sandbox::new();
        sandbox.write("codes.npy", files::npy_f32(&[8, 3], &CODES));
        sandbox.write("labels.csv", LABELS);
        sandbox.write("embeddings.npy", files::npy_f32(&[8, 4], &embeddings()));
        sandbox.write("pairs.csv", "before,after,added,removed\n0,4,red,\n5,1,,red\n2,4,round,\n6,7,red,round\n");
        sandbox
    }

    /// A path in the directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Writes a file, with the directories above it.
    pub fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// The text of a file.
    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// A JSON file.
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(&self.read(name)).unwrap()
    }

    /// Changes the bytes of a file.
    pub fn change(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = fs::read(self.path(name)).unwrap();
        change(&mut bytes);
        fs::write(self.path(name), bytes).unwrap();
    }

    /// Runs the program here; arguments are separated by spaces.
    pub fn run(&self, arguments: &str) -> Output {
        self.run_for(arguments, TIME_LIMIT)
    }

    /// Runs it with a time limit.
    pub fn run_for(&self, arguments: &str, limit: Duration) -> Output {
        finish(etalon(self.directory.path(), &words(arguments)), limit)
    }

    /// Runs it and asserts success.
    pub fn done(&self, arguments: &str) -> Output {
        let output = self.run(arguments);
        assert_eq!(output.code, Some(0), "etalon {arguments}\n{}{}", output.out, output.err);
        output
    }

    /// All files below a subdirectory, as relative paths.
    pub fn files(&self, below: &str) -> Vec<String> {
        let base = self.path(below);
        let mut found = Vec::new();
        let mut left = vec![base.clone()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(&directory).into_iter().flatten() {
                let path = entry.unwrap().path();
                if path.is_dir() && !path.is_symlink() {
                    left.push(path);
                } else {
                    found.push(path.strip_prefix(&base).unwrap().to_string_lossy().into_owned());
                }
            }
        }
        found.sort();
        found
    }

    /// Temporary and lock files anywhere in the directory.
    pub fn leftovers(&self) -> Vec<String> {
        self.files(".").into_iter().filter(|name| is_leftover(name)).collect()
    }
}

/// Whether this is the name of a temporary or lock file.
pub fn is_leftover(name: &str) -> bool {
    name.ends_with(".tmp") || name.ends_with(".lock")
}

/// Words of a command line without quotes.
pub fn words(text: &str) -> Vec<&str> {
    text.split_whitespace().collect()
}

/// Latent 0 fires with `red`, latent 1 with `round` but for one row, latent 2 at random.
pub const CODES: [f32; 24] = [
    0.0, 0.0, 0.5, //
    1.0, 0.0, 0.0, //
    0.0, 2.0, 0.0, //
    1.5, 1.0, 0.0, //
    1.0, 0.0, 0.3, //
    0.0, 0.0, 0.0, //
    0.0, 1.0, 0.0, //
    2.0, 0.0, 0.7,
];

/// Labels of the same rows.
pub const LABELS: &str = "red,round\n0,0\n1,0\n0,1\n1,1\n1,1\n0,0\n0,1\n1,0\n";

/// Finite values that are not constant.
pub fn embeddings() -> Vec<f32> {
    (0..32).map(|index| ((index * 7) % 11) as f32 / 10.0 - 0.3).collect()
}

/// The text of a result without the time it took.
pub fn without_seconds(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("\"seconds\":")).collect::<Vec<_>>().join("\n")
}
