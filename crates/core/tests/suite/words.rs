//! The libraries name no program and no options: messages have `Key` and `Command`, which a program writes as its users
//! type them.

use std::fs;
use std::path::{Path, PathBuf};

/// All sources of the library that are not tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut entries: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    let is_test = |path: &PathBuf| path.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("tests"));
    entries.retain(|path| !is_test(path));
    entries.into_iter().flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
}

#[test]
fn texts_contain_no_command_line() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let files: Vec<PathBuf> =
        ["core", "kernel", "models"].iter().flat_map(|name| sources(&crates.join(name).join("src"))).collect();
    assert!(files.len() > 400, "the test found too few files: {}", files.len());
    let mut found = Vec::new();
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap();
        let lines = code.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        let wrong = lines.filter(|(_, line)| line.contains("`etalon ") || line.contains("`--"));
        found.extend(wrong.map(|(index, line)| format!("{}:{}: {}", file.display(), index + 1, line.trim())));
    }
    assert!(found.is_empty(), "write `Key` or `Command` instead:\n{}", found.join("\n"));
}
