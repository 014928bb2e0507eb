//! `etalon demo --real`: a real network on real texts, by the commands that a user would type.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::{Error, Result};
use etalon::store::disk;
use etalon_models::data::resolve;

use crate::cli;
use crate::console::Console;

/// The network and the texts. They are packages that `etalon fetch` downloads.
const PACKAGES: [&str; 2] = ["stories15m", "brown"];

/// The study, which is also an example.
const STUDY: &str = include_str!("../../../../examples/networks/stories15m.toml");

const SITE: &str = "blocks.3.hook_resid_post";

/// Captures, trains and evaluates. Every step resumes, so that an interrupted demo continues.
pub fn run(args: &cli::Demo, console: &Console) -> Result<ExitCode> {
    // Before anything is written: the message says how to fetch what is missing.
    PACKAGES.iter().try_for_each(|name| resolve(name, None).map(drop))?;
    disk::make_directory(&args.out)?;
    disk::write(&args.out.join("study.toml"), STUDY.as_bytes())?;
    let mut code = ExitCode::SUCCESS;
    for words in commands(&args.out, args.seed) {
        console.status(format!("$ etalon {}", words.join(" ")));
        let words: Vec<String> = std::iter::once("etalon".to_string()).chain(words).collect();
        let (cli, matches) =
            crate::parse(&words).map_err(|error| Error::Bug(format!("a command of the demo: {error}")))?;
        code = crate::dispatch(&cli, &matches, console)?;
    }
    Ok(code)
}

/// The commands without the name of the program.
fn commands(out: &Path, seed: u64) -> Vec<Vec<String>> {
    let path = |name: &str| out.join(name).display().to_string();
    let words = |text: &str, paths: &[(&str, &str)]| {
        let mut words: Vec<String> = text.split(' ').map(String::from).collect();
        paths.iter().for_each(|(option, name)| words.extend([option.to_string(), path(name)]));
        words
    };
    let capture = format!(
        "capture --model stories15m --input brown/sentences --site {SITE} --pack --context 128 --limit 4000 --label-columns pos"
    );
    let store = |capture: &str| format!("{capture}/sites/{SITE}");
    let train = format!("train --epochs 8 --lr 0.001 --log-every 500 --seed {seed} --arch");
    vec![
        words(&capture, &[("--out", "capture")]),
        words(&format!("{capture} --randomise weights --weights-seed {seed}"), &[("--out", "randomised")]),
        words(&format!("{train} topk --latents 512,2048 --k 32"), &[("--store", &store("capture")), ("--out", "saes")]),
        words(
            &format!("{train} batch_topk,jumprelu,untrained --latents 2048 --k 32"),
            &[("--store", &store("capture")), ("--out", "more-saes")],
        ),
        words(
            &format!("{train} topk --latents 2048 --k 32"),
            &[("--store", &store("randomised")), ("--out", "randomised-sae")],
        ),
        vec!["run".into(), path("study.toml")],
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_valid() {
        for words in commands(Path::new("some where"), 3) {
            let words: Vec<String> = std::iter::once("etalon".to_string()).chain(words).collect();
            assert!(crate::parse(&words).is_ok(), "{words:?}");
        }
        assert!(STUDY.contains(SITE));
    }
}
