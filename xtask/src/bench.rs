//! Benchmarks: every speed is a ratio to a peer measured in the same run on the same machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::contest::{By, Contest, Entry, Promise, Ratio};
use crate::steps::{self, cargo, output, root, step};

/// A benchmark: a program, its peer, and the promised ratio.
struct Question {
    name: &'static str,
    asks: &'static str,
    /// The peer takes at least this many times as long; 0 if no ratio is promised.
    ratio: f64,
    /// Memory limit of our program, in bytes.
    memory: Option<u64>,
    /// The Python packages of the peer.
    packages: Packages,
    /// Other values that our program reports, and their requirements.
    also: &'static [(&'static str, Must)],
}

/// Python environments of the peers: separate, because packages are large or conflict.
#[derive(Clone, Copy)]
enum Packages {
    Plain,
    Torch,
    Umap,
}

impl Packages {
    fn environment(self) -> Result<PathBuf> {
        match self {
            Packages::Plain => environment("bench-venv", &["requirements"]),
            Packages::Torch => environment("bench-venv-training", &["training", "training-alone"]),
            Packages::Umap => environment("bench-venv-umap", &["requirements-umap"]),
        }
    }
}

/// The requirement of a value.
#[derive(Clone, Copy)]
enum Must {
    /// At least this.
    Reach(f64),
    /// At most this.
    Stay(f64),
    /// At most this much less than the peer's.
    NearPeer(f64),
    /// The peer's is at least this many times as large: for seconds of a part.
    Beat(f64),
}

impl Must {
    /// The requirement in words, and whether it is met.
    fn judge(self, name: &str, ours: &Value, theirs: &Value) -> Result<(String, bool)> {
        let mine = ours[name].as_f64().with_context(|| format!("our program does not report {name}"))?;
        match self {
            Must::Reach(least) => Ok((format!("{name} {mine:.0}, at least {least:.0}"), mine >= least)),
            Must::Stay(most) => Ok((format!("{name} {mine:.0}, at most {most:.0}"), mine <= most)),
            Must::Beat(ratio) => {
                let other = theirs[name].as_f64().with_context(|| format!("the peer does not report {name}"))?;
                let words = format!("{name} {mine:.3}, the peer {other:.3}, at least {ratio} times as long");
                Ok((words, other >= ratio * mine))
            }
            Must::NearPeer(less) => {
                let other = theirs[name].as_f64().with_context(|| format!("the peer does not report {name}"))?;
                Ok((format!("{name} {mine:.4}, at least {other:.4} - {less}"), mine >= other - less))
            }
        }
    }
}

const QUESTIONS: [Question; 13] = [
    Question {
        name: "fbmp",
        asks: "FBMP at CUB's size: 5,794 rows x 312 concepts x 4,096 latents, 32 active, three beta, 20 steps",
        ratio: 10_000.0,
        memory: None,
        packages: Packages::Plain,
        also: &[],
    },
    Question {
        name: "monosemanticity",
        asks: "Monosemanticity: 50,000 rows x 4,096 latents, 32 active, embeddings of width 768",
        ratio: 100.0,
        memory: None,
        packages: Packages::Plain,
        also: &[],
    },
    Question {
        name: "cknna",
        asks: "CKNNA: 20,000 rows x 4,096 latents, 32 active, embeddings of width 768",
        ratio: 1.0,
        memory: Some(2_000_000_000),
        packages: Packages::Plain,
        also: &[],
    },
    Question {
        name: "mis",
        asks: "Machine interpretability score: 2,048 units on 50,000 images with embeddings of width 512, 20 tasks of 9 explanations, on two\n\
               cores; units per second after the selection of images, and the speed of the selection as percent of that of reading memory",
        ratio: 20.0,
        memory: None,
        packages: Packages::Plain,
        also: &[
            ("units_per_second", Must::Reach(5000.0)),
            ("percent_of_bandwidth", Must::Reach(50.0)),
            // Bytes per unit during the selection.
            ("reserved", Must::Stay(4000.0)),
        ],
    },
    Question {
        name: "import",
        asks: "Import of a 4 GB array into a checked store, and a scan of it, with a budget of 200 MB",
        ratio: 0.0,
        // Mapped pages of the store count as held memory, so the limit is that of the promise for 40 GB.
        memory: None,
        packages: Packages::Plain,
        also: &[],
    },
    Question {
        name: "saebench",
        asks: "Sparse probing, SCR (4 couples) and TPP for one dictionary: 16,384 latents, 20,000 pooled samples of width 768, 5 classes\n\
               and a property, codes given, one repeat, the released program's probes",
        ratio: 50.0,
        memory: None,
        packages: Packages::Torch,
        also: &[],
    },
    Question {
        name: "absorption",
        asks: "Absorption: 26 classes, 20,000 words of width 768, 16,384 latents, codes given",
        ratio: 100.0,
        memory: None,
        packages: Packages::Torch,
        also: &[],
    },
    Question {
        name: "archetypal",
        asks: "A training step of a relaxed archetypal dictionary: 32,000 latents of width 768 over 4,000 candidates, top 32, 1,024 rows,\n\
               two threads",
        ratio: 1.0,
        memory: Some(6_000_000_000),
        packages: Packages::Torch,
        also: &[],
    },
    Question {
        name: "blindspots",
        asks: "Sums, counts, strongest rows and co-occurrences of 8,000,000 tokens (half real, half generated), 32,000 latents, 5\n\
               active of the 24 of an image, from stored codes, on one core: seconds of the processor, and tokens per second",
        ratio: 1.0,
        memory: None,
        packages: Packages::Plain,
        also: &[("rate", Must::Reach(2e6))],
    },
    Question {
        name: "purity",
        asks: "OIS for 112 concepts on 5,000 samples: 12,544 probes of 32 hidden units, 25 epochs, batches of 512, two threads",
        ratio: 300.0,
        memory: None,
        packages: Packages::Plain,
        also: &[],
    },
    Question {
        name: "disentanglement",
        asks: "DCI and R4 on 5,000 rows, 10 latents and 5 concepts: 100 trees of depth 3 per fit, two threads",
        ratio: 10.0,
        memory: None,
        packages: Packages::Plain,
        also: &[("dci_seconds", Must::Beat(10.0)), ("r4_seconds", Must::Beat(10.0))],
    },
    Question {
        name: "umap",
        asks: "A map of 32,000 directions of width 768: 15 neighbours, 200 epochs",
        ratio: 1.0,
        memory: None,
        packages: Packages::Umap,
        also: &[("trustworthiness", Must::NearPeer(0.01))],
    },
    Question {
        name: "cosine",
        asks: "The largest cosine of each of 65,536 directions of width 768 with another",
        ratio: 1.0,
        memory: Some(2_000_000_000),
        packages: Packages::Plain,
        also: &[],
    },
];

const fn ours(name: &'static str, title: &'static str) -> Entry {
    Entry { by: By::Etalon, name, title }
}

const fn peer(name: &'static str, title: &'static str) -> Entry {
    Entry { by: By::Python, name, title }
}

const fn candle(name: &'static str, title: &'static str) -> Entry {
    Entry { by: By::Candle, name, title }
}

/// A promise for batches of eight samples: a peer takes at least `ratio` times as long as ours.
const fn at_eight(slower: &'static [&'static str], faster: &'static str, ratio: f64) -> Promise {
    Promise { sizes: &[8], slower, faster, ratio: Ratio::Always(ratio) }
}

const CONTESTS: [Contest; 5] = [
    Contest {
        name: "train",
        asks: "A training step at width 768, 32 latents per row, 1,024 rows, two threads, by number of latents",
        sizes: &[&[4096], &[16_384]],
        entries: &[
            ours("topk", "etalon TopK"),
            ours("topk clipped", "etalon TopK, clipped"),
            ours("batch_topk", "etalon BatchTopK"),
            ours("matryoshka", "etalon Matryoshka"),
            ours("product", "etalon encoder product alone"),
            peer("product", "PyTorch encoder product alone"),
            peer("dense", "PyTorch dense TopK step"),
            peer("dictionary_learning", "dictionary-learning 0.1.0 TopK"),
            peer("overcomplete", "overcomplete 0.3.0 TopK"),
        ],
        rounds: 9,
        promises: &[
            Promise {
                sizes: &[4096],
                slower: &["PyTorch dense TopK step"],
                faster: "etalon TopK",
                ratio: Ratio::Amx { with: 7.0, without: 3.5 },
            },
            Promise {
                sizes: &[16_384],
                slower: &["PyTorch dense TopK step"],
                faster: "etalon TopK",
                ratio: Ratio::Amx { with: 12.0, without: 6.0 },
            },
            Promise {
                sizes: &[4096, 16_384],
                slower: &["dictionary-learning 0.1.0 TopK"],
                faster: "etalon TopK, clipped",
                ratio: Ratio::Always(10.0),
            },
            Promise {
                sizes: &[4096, 16_384],
                slower: &["overcomplete 0.3.0 TopK"],
                faster: "etalon TopK, clipped",
                ratio: Ratio::Always(5.0),
            },
            Promise {
                sizes: &[16_384],
                slower: &["etalon encoder product alone", "PyTorch encoder product alone"],
                faster: "etalon TopK",
                ratio: Ratio::Always(0.75),
            },
            Promise {
                sizes: &[4096, 16_384],
                slower: &["etalon TopK"],
                faster: "etalon TopK, clipped",
                ratio: Ratio::Always(0.77),
            },
            Promise {
                sizes: &[4096, 16_384],
                slower: &["etalon TopK"],
                faster: "etalon BatchTopK",
                ratio: Ratio::Always(0.77),
            },
            Promise {
                sizes: &[4096, 16_384],
                slower: &["etalon TopK"],
                faster: "etalon Matryoshka",
                ratio: Ratio::Always(0.77),
            },
        ],
        steps: None,
    },
    Contest {
        name: "jumprelu",
        asks: "A JumpReLU training of 100 steps at width 768, 1,024 rows a step, two threads, by number of latents: with the controller,\n\
               which lowers L0 to 32 as in longer trainings, and with the published loss, which keeps about half of all latents at first",
        sizes: &[&[1024], &[4096]],
        entries: &[
            ours("controlled", "etalon JumpReLU"),
            ours("published", "etalon JumpReLU, published loss"),
            peer("jumprelu", "dictionary-learning 0.1.0 JumpReLU"),
        ],
        rounds: 3,
        promises: &[Promise {
            sizes: &[1024, 4096],
            slower: &["dictionary-learning 0.1.0 JumpReLU"],
            faster: "etalon JumpReLU",
            ratio: Ratio::Always(2.0),
        }],
        steps: None,
    },
    Contest {
        name: "encode",
        asks: "Encoding against the bare product of the same rows, two threads, by rows x width x latents",
        sizes: &[&[1920, 768, 16_384], &[9600, 384, 4096], &[19_200, 128, 2048]],
        entries: &[
            ours("product", "product alone"),
            ours("topk", "TopK, 32 per row"),
            ours("threshold", "threshold"),
            ours("topk to disk", "TopK, written to disk"),
        ],
        rounds: 30,
        promises: &[
            Promise {
                sizes: &[16_384, 4096, 2048],
                slower: &["product alone"],
                faster: "TopK, 32 per row",
                ratio: Ratio::Always(0.9),
            },
            Promise {
                sizes: &[16_384, 4096, 2048],
                slower: &["product alone"],
                faster: "threshold",
                ratio: Ratio::Always(0.9),
            },
        ],
        steps: None,
    },
    Contest {
        name: "grid",
        asks: "Four architectures at six sizes, width 768, 1,024 rows a step, default settings, two threads: fifty epochs of\n\
               118,287 rows are 5,800 steps each. The first steps are measured, in which JumpReLU keeps half\n\
               of all latents: our engine is made for sparse codes and is slow until its training has thinned them out.",
        sizes: &[&[128], &[256], &[512], &[1024], &[2048], &[4096]],
        entries: &[
            ours("topk", "etalon TopK"),
            ours("batch_topk", "etalon BatchTopK"),
            ours("matryoshka", "etalon Matryoshka"),
            ours("jumprelu", "etalon JumpReLU"),
            peer("topk", "dictionary-learning TopK"),
            peer("batch_topk", "dictionary-learning BatchTopK"),
            peer("matryoshka", "dictionary-learning Matryoshka"),
            peer("jumprelu", "dictionary-learning JumpReLU"),
        ],
        rounds: 5,
        promises: &[],
        steps: Some(5800.0),
    },
    Contest {
        name: "networks",
        asks: "Networks in f32 on two threads, by samples of a batch: SmolLM2-135M on sequences of 128 tokens (all blocks), its head\n\
               with a cross-entropy, the gradient through its upper 15 blocks (of a sum, and of the loss with the head), ResNet-50 and\n\
               EfficientNet-Lite0 on images of 224 pixels. PyTorch has channels last; folded: batch norms are in the weights. Weights are\n\
               made; the results of both programs agree. The best of several turns is compared, because other programs may run.",
        sizes: &[&[8]],
        entries: &[
            peer("llama", "PyTorch SmolLM2"),
            peer("head", "PyTorch head + cross-entropy"),
            peer("gradient", "PyTorch gradient"),
            peer("loss gradient", "PyTorch gradient of the loss"),
            peer("resnet", "PyTorch ResNet-50"),
            peer("resnet folded", "PyTorch ResNet-50, folded"),
            peer("efficientnet", "PyTorch EfficientNet-Lite0"),
            peer("efficientnet folded", "PyTorch EfficientNet-Lite0, folded"),
            ours("llama", "etalon SmolLM2"),
            ours("llama bf16", "etalon SmolLM2, bf16 weights"),
            ours("llama int8", "etalon SmolLM2, int8 weights"),
            ours("head", "etalon head + cross-entropy"),
            ours("gradient", "etalon gradient"),
            ours("loss gradient", "etalon gradient of the loss"),
            ours("resnet", "etalon ResNet-50"),
            ours("efficientnet", "etalon EfficientNet-Lite0"),
            candle("llama", "candle SmolLM2"),
            candle("head", "candle head + cross-entropy"),
            candle("resnet", "candle ResNet-50"),
        ],
        rounds: 5,
        promises: &[
            at_eight(&["PyTorch SmolLM2"], "etalon SmolLM2", 1.0 / 1.05),
            at_eight(&["PyTorch head + cross-entropy"], "etalon head + cross-entropy", 1.0 / 0.75),
            at_eight(&["PyTorch gradient"], "etalon gradient", 1.0 / 1.05),
            at_eight(&["PyTorch gradient of the loss"], "etalon gradient of the loss", 1.0 / 1.05),
            at_eight(&["PyTorch ResNet-50", "PyTorch ResNet-50, folded"], "etalon ResNet-50", 1.0 / 1.05),
            at_eight(
                &["PyTorch EfficientNet-Lite0", "PyTorch EfficientNet-Lite0, folded"],
                "etalon EfficientNet-Lite0",
                1.0 / 1.05,
            ),
            at_eight(&["candle SmolLM2"], "etalon SmolLM2", 1.0 / 0.7),
            at_eight(&["candle head + cross-entropy"], "etalon head + cross-entropy", 1.0 / 0.7),
            at_eight(&["candle ResNet-50"], "etalon ResNet-50", 1.0 / 0.7),
        ],
        steps: None,
    },
];

/// Runs the named benchmarks, or all.
pub fn run(names: &[&str]) -> Result<()> {
    let all: Vec<&str> =
        QUESTIONS.iter().map(|question| question.name).chain(CONTESTS.iter().map(|contest| contest.name)).collect();
    if let Some(name) = names.iter().find(|name| !all.contains(name)) {
        bail!("no bench `{name}`; there are {}", all.join(", "));
    }
    let selected = |name: &str| names.is_empty() || names.contains(&name);
    step("build", || cargo(&["build", "--release", "--package", "etalon-bench"]))?;
    let mut missed = Vec::new();
    for question in QUESTIONS.iter().filter(|question| selected(question.name)) {
        let python = question.packages.environment()?;
        let report = measure(question, &python)?;
        publish(question.name, &report.text)?;
        if !report.kept {
            missed.push(question.name);
        }
    }
    for contest in CONTESTS.iter().filter(|contest| selected(contest.name)) {
        if contest.entries.iter().any(|entry| entry.by == By::Candle) {
            let package = root().join("benches/candle/Cargo.toml");
            let target = programs().join("..");
            let [package, target] = [&package, &target].map(|path| path.to_string_lossy());
            let build = ["build", "--release", "--manifest-path", &package, "--target-dir", &target];
            step("build the peer on candle", || cargo(&build))?;
        }
        let python = Packages::Torch.environment()?;
        let (text, kept) = contest.run(&programs(), &python)?;
        publish(contest.name, &format!("{text}\ncpu      {}\n", processor()))?;
        if !kept {
            missed.push(contest.name);
        }
    }
    if missed.is_empty() { Ok(()) } else { bail!("promise not kept: {}", missed.join(", ")) }
}

/// Prints a result and writes it to `benches/results`.
fn publish(name: &str, text: &str) -> Result<()> {
    eprintln!("{text}");
    Ok(fs::write(root().join(format!("benches/results/{name}.txt")), text)?)
}

/// The directory of release builds.
fn programs() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from).join("release")
}

struct Report {
    text: String,
    kept: bool,
}

fn measure(question: &Question, python: &Path) -> Result<Report> {
    let scratch = root().join("target/bench-data");
    fs::create_dir_all(&scratch)?;
    let program = programs().join(question.name);
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
    let seconds = |value: &Value| value["seconds"].as_f64().context("a benchmark must report its seconds");
    let (mine, other) = (seconds(&ours)?, seconds(&theirs)?);
    let (ratio, memory) = (other / mine, ours["peak_memory"].as_u64().unwrap_or(0));
    let judged = question.also.iter().map(|(name, must)| must.judge(name, &ours, &theirs));
    let judged = judged.collect::<Result<Vec<(String, bool)>>>()?;
    let reached = judged.iter().all(|(_, reached)| *reached);
    let also = judged.into_iter().map(|(words, _)| words).collect::<Vec<_>>().join("; ");
    let kept = reached && ratio >= question.ratio && question.memory.is_none_or(|limit| memory <= limit);
    let promise = match (question.ratio > 0.0, question.memory) {
        (true, Some(limit)) => format!("ratio at least {}, at most {:.1} GB", question.ratio, limit as f64 / 1e9),
        (true, None) => format!("ratio at least {}", question.ratio),
        (false, _) => "none; both do other work".into(),
    };
    let promise = if also.is_empty() { promise } else { format!("{promise}; {also}") };
    let text = format!(
        "{}\n\netalon   {mine:>12.3} s   peak memory {:.2} GB{}\npeer     {other:>12.3} s   {}\nratio    {ratio:>12.1}\npromise  {promise}: {}\n\ncpu      {}\n",
        question.asks,
        memory as f64 / 1e9,
        ours["how"].as_str().map_or_else(String::new, |how| format!("; {how}")),
        theirs["how"].as_str().unwrap_or(""),
        if kept { "kept" } else { "NOT KEPT" },
        processor(),
    );
    Ok(Report { text, kept })
}

fn json(text: &str) -> Result<Value> {
    let line = text.lines().last().context("a benchmark printed nothing")?;
    serde_json::from_str(line).with_context(|| format!("not JSON: {line}"))
}

/// A Python environment below target/, created once: the packages of the first list with their dependencies, those of the
/// other lists without.
fn environment(name: &str, lists: &[&str]) -> Result<PathBuf> {
    let directory = root().join("target").join(name);
    let python = directory.join("bin/python");
    let lists: Vec<PathBuf> = lists.iter().map(|list| root().join(format!("benches/peers/{list}.txt"))).collect();
    let requirements: Vec<u8> = lists.iter().map(fs::read).collect::<std::io::Result<Vec<_>>>()?.concat();
    let stamp = directory.join("requirements.txt");
    if fs::read(&stamp).is_ok_and(|installed| installed == requirements) && python.exists() {
        return Ok(python);
    }
    step("python environment for the peers", || {
        steps::run(Command::new("python3").args(["-m", "venv"]).arg(&directory))?;
        for (index, list) in lists.iter().enumerate() {
            let mut install = Command::new(&python);
            install.args(["-m", "pip", "install", "--quiet"]).args((index > 0).then_some("--no-deps"));
            steps::run(install.arg("-r").arg(list))?;
        }
        Ok(fs::write(&stamp, &requirements)?)
    })?;
    Ok(python)
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find(|line| line.starts_with("model name")).and_then(|line| line.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    format!("{}, {cores} cores", name.unwrap_or("unknown"))
}
