//! Every speed is a ratio to a peer measured in the same run on the same machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::steps::{self, cargo, output, root, step};

/// A question: the program that answers it, its peer, and the ratio that we promise.
struct Question {
    name: &'static str,
    asks: &'static str,
    /// The peer takes at least this many times as long as we do; 0 where no ratio is promised.
    ratio: f64,
    /// The most memory that our program may hold, in bytes.
    memory: Option<u64>,
}

const QUESTIONS: [Question; 4] = [
    Question {
        name: "fbmp",
        asks: "FBMP at CUB's size: 5,794 rows x 312 concepts x 4,096 latents, 32 active, three beta, 20 steps",
        ratio: 10_000.0,
        memory: None,
    },
    Question {
        name: "monosemanticity",
        asks: "Monosemanticity: 50,000 rows x 4,096 latents, 32 active, embeddings of width 768",
        ratio: 100.0,
        memory: None,
    },
    Question {
        name: "cknna",
        asks: "CKNNA: 20,000 rows x 4,096 latents, 32 active, embeddings of width 768",
        ratio: 1.0,
        memory: Some(2_000_000_000),
    },
    Question {
        name: "import",
        asks: "Import of a 4 GB array into a checked store, and a scan of it, with a budget of 200 MB",
        ratio: 0.0,
        // Mapped pages of the store count as held memory, so the limit is that of the promise for 40 GB.
        memory: None,
    },
];

/// Answers the questions named, or all.
pub fn run(names: &[&str]) -> Result<()> {
    if let Some(name) = names.iter().find(|name| QUESTIONS.iter().all(|question| question.name != **name)) {
        bail!("no bench `{name}`; there are {}", QUESTIONS.map(|question| question.name).join(", "));
    }
    let python = environment()?;
    step("build", || cargo(&["build", "--release", "--package", "etalon-bench"]))?;
    let mut missed = Vec::new();
    for question in QUESTIONS.iter().filter(|question| names.is_empty() || names.contains(&question.name)) {
        let report = answer(question, &python)?;
        eprintln!("{}", report.text);
        fs::write(root().join(format!("benches/results/{}.txt", question.name)), &report.text)?;
        if !report.kept {
            missed.push(question.name);
        }
    }
    if missed.is_empty() { Ok(()) } else { bail!("promise not kept: {}", missed.join(", ")) }
}

struct Report {
    text: String,
    kept: bool,
}

fn answer(question: &Question, python: &Path) -> Result<Report> {
    let scratch = root().join("target/bench-data");
    fs::create_dir_all(&scratch)?;
    let program = root().join("target/release").join(question.name);
    let peer = |arguments: &[&str]| -> Result<Value> {
        let script = root().join(format!("benches/peers/{}.py", question.name));
        json(&output(Command::new(python).arg(script).args(arguments).env("OMP_NUM_THREADS", "2"))?)
    };
    let (ours, theirs) = if question.name == "import" {
        let (source, copy, store) = (scratch.join("array.npy"), scratch.join("copy.npy"), scratch.join("store"));
        let (source, copy) = (source.to_string_lossy(), copy.to_string_lossy());
        let theirs = peer(&[&source, &copy, "measure"])?;
        let _ = fs::remove_dir_all(&store);
        let ours = json(&output(Command::new(&program).arg(&*source).arg(&store))?)?;
        fs::remove_dir_all(&store)?;
        (ours, theirs)
    } else {
        let ours = json(&output(&mut Command::new(&program))?)?;
        let count = ours["f_scores"].to_string();
        (ours, peer(&[&count])?)
    };
    let seconds = |value: &Value| value["seconds"].as_f64().context("a bench prints its seconds");
    let (mine, other) = (seconds(&ours)?, seconds(&theirs)?);
    let (ratio, memory) = (other / mine, ours["peak_memory"].as_u64().unwrap_or(0));
    let kept = ratio >= question.ratio && question.memory.is_none_or(|limit| memory <= limit);
    let promise = match (question.ratio > 0.0, question.memory) {
        (true, Some(limit)) => format!("ratio at least {}, at most {:.1} GB", question.ratio, limit as f64 / 1e9),
        (true, None) => format!("ratio at least {}", question.ratio),
        (false, _) => "none; both do other work".into(),
    };
    let text = format!(
        "{}\n\netalon   {mine:>12.3} s   peak memory {:.2} GB\npeer     {other:>12.3} s   {}\nratio    {ratio:>12.1}\npromise  {promise}: {}\n\ncpu      {}\n",
        question.asks,
        memory as f64 / 1e9,
        theirs["how"].as_str().unwrap_or(""),
        if kept { "kept" } else { "NOT KEPT" },
        processor(),
    );
    Ok(Report { text, kept })
}

fn json(text: &str) -> Result<Value> {
    let line = text.lines().last().context("a bench printed nothing")?;
    serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))
}

/// A Python environment below target/, made once.
fn environment() -> Result<PathBuf> {
    let directory = root().join("target/bench-venv");
    let python = directory.join("bin/python");
    let requirements = root().join("benches/peers/requirements.txt");
    let stamp = directory.join("requirements.txt");
    if fs::read(&stamp).ok() == fs::read(&requirements).ok() && python.exists() {
        return Ok(python);
    }
    step("python environment for the peers", || {
        steps::run(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
        let mut install = Command::new(&python);
        steps::run(install.args(["-m", "pip", "install", "--quiet", "-r"]).arg(&requirements))?;
        Ok(fs::copy(&requirements, &stamp).map(|_| ())?)
    })?;
    Ok(python)
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!("{}, {cores} cores", name.unwrap_or("unknown"))
}
