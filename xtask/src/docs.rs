//! Documentation that follows from the program itself.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

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
    let cards: Vec<Value> = serde_json::from_str(&etalon(&["metrics", "--json"])?)?;
    let mut index = String::from("# Metrics\n\nMade from the cards of the program by `cargo xtask docs`.\n\n");
    for card in &cards {
        let name = word(card, "name");
        index += &format!("- [{name}]({name}.md): {}\n", word(card, "summary"));
        pages.push((PathBuf::from(format!("docs/metrics/{name}.md")), page(card)));
    }
    pages.push((PathBuf::from("docs/metrics/README.md"), index));
    let help = etalon(&["--help"])?;
    let mut commands = format!("# Commands\n\nMade by `cargo xtask docs`.\n\n```text\n{help}```\n");
    for name in command_names(&help) {
        commands += &format!("\n## {name}\n\n```text\n{}```\n", etalon(&[name, "--help"])?);
    }
    pages.push((PathBuf::from("docs/commands.md"), commands));
    pages.push((PathBuf::from("CONTRIBUTING.md"), contributing()?));
    Ok(pages)
}

/// The guide with the metric that `crates/core/examples` compiles.
fn contributing() -> Result<String> {
    let guide = fs::read_to_string(root().join("CONTRIBUTING.md"))?;
    let example = fs::read_to_string(root().join("crates/core/examples/firing_rate.rs"))?;
    let start = example.find("use etalon::metrics").context("the example imports metrics")?;
    let end = example.find("/// Evaluates it on two rows").context("the example has a main function")?;
    let (before, rest) = guide.split_once("```rust\n").context("CONTRIBUTING.md shows a metric")?;
    let (_, after) = rest.split_once("```\n").context("CONTRIBUTING.md ends the metric")?;
    Ok(format!("{before}```rust\n{}\n```\n{after}", example[start..end].trim()))
}

/// The names that the help lists under its heading.
fn command_names(help: &str) -> impl Iterator<Item = &str> {
    let listed = help.lines().skip_while(|line| !line.starts_with("Commands:")).skip(1);
    // A summary may run over several lines; names stand two spaces in.
    let named = listed.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    named.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help")
}

fn word<'a>(card: &'a Value, key: &str) -> &'a str {
    card[key].as_str().unwrap_or_default()
}

fn items<'a>(card: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    card[key].as_array().into_iter().flatten()
}

/// A card as Markdown: the five headings, every line of the card a paragraph of its own.
fn page(card: &Value) -> String {
    let paragraphs = |key: &str| word(card, key).lines().map(str::trim).collect::<Vec<_>>().join("\n\n");
    let list = |key: &str| items(card, key).filter_map(Value::as_str).collect::<Vec<_>>().join("`, `");
    let mut inputs = format!("Needs `{}`.", list("needs"));
    if items(card, "uses").next().is_some() {
        inputs += &format!(" Uses `{}` if given.", list("uses"));
    }
    inputs += "\n\n| option | meaning | values | default |\n|---|---|---|---|\n";
    for param in items(card, "params") {
        let several = if param["several"] == true { ", several with commas" } else { "" };
        let reference = param["reference_default"].as_str().map(|value| format!(" (reference: {value})"));
        let values = word(param, "values").replace('|', "\\|");
        inputs += &format!(
            "| `--{}` | {} | {values}{several} | {}{} |\n",
            word(param, "name").replace('_', "-"),
            word(param, "doc"),
            word(param, "default"),
            reference.unwrap_or_default(),
        );
    }
    inputs += "\n| headline | meaning | better |\n|---|---|---|\n";
    for output in items(card, "headline") {
        inputs += &format!("| `{}` | {} | {} |\n", word(output, "key"), word(output, "doc"), word(output, "better"));
    }
    format!(
        "# {} (`{}`)\n\n{}\n\n## What it measures\n\n{}\n\n## Definition\n\n{}\n\nInterval: {}\n\n## Inputs\n\n{inputs}\n## Cost\n\n{}\n\n## Source\n\n{}\n",
        word(card, "title"),
        word(card, "name"),
        word(card, "summary"),
        paragraphs("measures"),
        paragraphs("definition"),
        word(card, "interval"),
        paragraphs("cost"),
        paragraphs("source"),
    )
}
