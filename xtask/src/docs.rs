//! Documentation that follows from the program itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps::{output, root};

/// Writes every generated page.
pub fn write() -> Result<()> {
    for (file, text) in pages()? {
        let path = root().join(&file);
        fs::create_dir_all(path.parent().context("a page lies in a directory")?)?;
        fs::write(&path, text)?;
        eprintln!("wrote {}", file.display());
    }
    Ok(())
}

/// The pages that differ from what the program says now.
pub fn stale() -> Result<Vec<String>> {
    let differs = |(file, text): &(PathBuf, String)| fs::read_to_string(root().join(file)).ok().as_ref() != Some(text);
    Ok(pages()?.iter().filter(|page| differs(page)).map(|(file, _)| file.display().to_string()).collect())
}

fn etalon(arguments: &[&str]) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--package", "etalon-app", "--"]).args(arguments).env("COLUMNS", "100");
    output(&mut command)
}

fn pages() -> Result<Vec<(PathBuf, String)>> {
    let mut pages = Vec::new();
    let list = etalon(&["metrics"])?;
    let mut index = String::from("# Metrics\n\nMade from the cards of the program by `cargo xtask docs`.\n\n");
    for line in list.lines().take_while(|line| !line.is_empty()) {
        let (name, summary) = line.split_once(' ').context("a line of `etalon metrics` has two parts")?;
        index += &format!("- [{name}]({name}.md): {}\n", summary.trim());
        pages.push((PathBuf::from(format!("docs/metrics/{name}.md")), card(&etalon(&["metrics", name])?)));
    }
    pages.push((PathBuf::from("docs/metrics/README.md"), index));
    let mut commands = format!("# Commands\n\nMade by `cargo xtask docs`.\n\n```text\n{}```\n", etalon(&["--help"])?);
    for name in ["demo", "data", "encode", "eval", "sanity", "run", "report", "verify", "metrics", "completions"] {
        commands += &format!("\n## {name}\n\n```text\n{}```\n", etalon(&[name, "--help"])?);
    }
    pages.push((PathBuf::from("docs/commands.md"), commands));
    Ok(pages)
}

/// A card as Markdown: its five headings become sections.
fn card(text: &str) -> String {
    let mut page = String::new();
    for (number, line) in text.lines().enumerate() {
        let markdown = match line.strip_prefix("  ") {
            _ if number == 0 => format!("# {line}\n"),
            Some(body) => body.to_string(),
            None if number > 1 && !line.is_empty() => format!("## {line}\n"),
            None => line.to_string(),
        };
        page += &format!("{markdown}\n");
    }
    page
}
