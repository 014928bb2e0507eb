//! A room uses only the rooms to its left: reads the `crate::` paths of the library.

use std::fs;
use std::path::{Path, PathBuf};

/// The order in which data passes through. ARCHITECTURE.md draws the same list.
const ROOMS: [&str; 15] = [
    "error", "budget", "progress", "kernel", "input", "store", "codes", "labels", "sae", "probe", "results", "run",
    "metrics", "study", "report",
];

fn place(room: &str) -> Option<usize> {
    ROOMS.iter().position(|other| *other == room)
}

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The rooms that a source text names after `crate::`, also inside `use crate::{a, b}`.
fn rooms_used(text: &str) -> Vec<String> {
    let mut rooms = Vec::new();
    for (start, _) in text.match_indices("crate::") {
        let rest = &text[start + "crate::".len()..];
        let list = rest.strip_prefix('{').and_then(|rest| rest.split('}').next());
        let names = list.map_or_else(|| vec![rest], |list| list.split(',').collect());
        for name in names {
            rooms.push(name.trim().chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect());
        }
    }
    rooms
}

#[test]
fn no_room_looks_to_its_right() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let mut edges = 0;
    for file in files {
        let inside = file.strip_prefix(&root).unwrap();
        let room = inside.iter().next().unwrap().to_string_lossy().trim_end_matches(".rs").to_string();
        let Some(here) = place(&room) else {
            assert_eq!(room, "lib", "room `{room}` has no place in the order");
            continue;
        };
        // Unit tests of a room may reach to the right: they are not part of the library.
        let text = fs::read_to_string(&file).unwrap();
        let text = text.split("#[cfg(test)]").next().unwrap();
        for used in rooms_used(text) {
            let there = place(&used).unwrap_or_else(|| panic!("{}: `crate::{used}` is no room", inside.display()));
            assert!(there <= here, "{}: `{room}` uses `{used}`, which is to its right", inside.display());
            edges += 1;
        }
    }
    assert!(edges > 50, "the test reads too little: {edges} edges");
}
