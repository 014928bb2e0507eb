//! A study with inputs for every metric.

use super::Sandbox;

/// The size of a study.
pub struct Size {
    /// Rows of the world.
    pub rows: usize,
    /// Features of the world.
    pub features: usize,
    /// Width of the activations.
    pub width: usize,
    /// Latents of the dictionary.
    pub latents: usize,
}

/// Generates a world, dictionaries and null codes.
pub fn make(sandbox: &Sandbox, size: &Size) {
    let Size { rows, features, width, latents } = size;
    for (seed, out) in [(0, "world"), (1, "made")] {
        let size = format!("--rows {rows} --features {features} --width {width} --active 2 --pairs 60");
        sandbox.done(&format!("data superposition {size} --seed {seed} --out {out}"));
    }
    for seed in [0, 1] {
        sandbox.done(&format!(
            "train --store world/activations --arch topk --latents {latents} --k 4 --steps 40 --batch 64 --seed {seed} --out sae{seed}"
        ));
    }
    sandbox.done(&format!("encode --sae untrained --store world/activations --latents {latents} --k 4 --out null"));
}

/// Options of `eval` with every input.
pub const INPUTS: &str =
    "--sae sae0 --world world --other sae1 --null null --generated m=world/activations --generated n=made/activations";

/// The names of all metrics that need no network; those that do have tests of their own.
pub fn metrics(sandbox: &Sandbox) -> Vec<String> {
    let cards = sandbox.done("metrics --json").json();
    let cards = cards.as_array().unwrap().iter().filter(|card| !card["needs"].to_string().contains("capture"));
    cards.map(|card| card["name"].as_str().unwrap().to_string()).collect()
}

/// Parameters that make a metric quick, as tables of a study.
pub fn quick(sandbox: &Sandbox) -> String {
    let cards = sandbox.done("metrics --json").json();
    let mut text = String::new();
    for card in cards.as_array().unwrap() {
        let params = card["params"].as_array().unwrap().iter().filter_map(|param| param["name"].as_str());
        let quick = params.filter_map(|name| match name {
            "repeats" | "full_repeats" => Some(format!("{name} = 1\n")),
            "meta_steps" => Some(format!("{name} = 20\n")),
            _ => None,
        });
        let quick: String = quick.collect();
        if !quick.is_empty() {
            text += &format!("[params.{}]\n{quick}", card["name"].as_str().unwrap());
        }
    }
    text
}

/// A study of all metrics on one set.
pub fn write_study(sandbox: &Sandbox, name: &str, out: &str) {
    let names: Vec<String> = metrics(sandbox).iter().map(|name| format!("\"{name}\"")).collect();
    sandbox.write(
        name,
        format!(
            "out = \"{out}\"\nmetrics = [{}]\n[[set]]\nname = \"all\"\nsae = \"sae0\"\nworld = \"world\"\nother = [\"sae1\"]\nnull = [\"null\"]\n\
             generated = [\"m=world/activations\", \"n=made/activations\"]\n{}",
            names.join(", "),
            quick(sandbox)
        ),
    );
}
