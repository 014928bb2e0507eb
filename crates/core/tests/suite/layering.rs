//! A module uses only modules before it, and the modules of a folder form no cycle. Reads every `crate::` and `super::`
//! path of the library outside of `#[cfg(test)]` items.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The order of the data flow, as in ARCHITECTURE.md.
const ORDER: [&str; 17] = [
    "error", "context", "input", "store", "codes", "labels", "sae", "probe", "network", "results", "run", "metrics",
    "load", "study", "samples", "report", "prelude",
];

/// Exported macros, with the modules that define them.
const MACROS: [(&str, &str); 1] = [("state", "run")];

/// The segments of a path.
type Parts = Vec<String>;

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Rust source without comments, string and character literals.
fn code(text: &str) -> Vec<char> {
    let text: Vec<char> = text.chars().collect();
    let (mut out, mut at) = (Vec::with_capacity(text.len()), 0);
    let starts = |at: usize, with: &str| with.chars().enumerate().all(|(i, c)| text.get(at + i) == Some(&c));
    while at < text.len() {
        let word_before = out.last().is_some_and(|c| is_word(*c));
        let hashes = text[at..].iter().skip(1).take_while(|c| **c == '#').count();
        if starts(at, "//") {
            at += text[at..].iter().take_while(|c| **c != '\n').count();
        } else if starts(at, "/*") {
            let mut depth = 0;
            loop {
                let (opens, closes) = (starts(at, "/*"), starts(at, "*/"));
                depth += i32::from(opens) - i32::from(closes);
                at += if opens || closes { 2 } else { 1 };
                if depth == 0 || at >= text.len() {
                    break;
                }
            }
        } else if text[at] == 'r' && !word_before && text.get(at + 1 + hashes) == Some(&'"') {
            let end = format!("\"{}", "#".repeat(hashes));
            at += hashes + 2;
            while at < text.len() && !starts(at, &end) {
                at += 1;
            }
            at += end.len();
            out.push(' ');
        } else if text[at] == '"' || (text[at] == '\'' && (starts(at + 1, "\\") || starts(at + 2, "'"))) {
            let quote = text[at];
            at += 1;
            while at < text.len() && text[at] != quote {
                at += if text[at] == '\\' { 2 } else { 1 };
            }
            at += 1;
            out.push(' ');
        } else {
            out.push(text[at]);
            at += 1;
        }
    }
    out
}

const TEST: &str = "#[cfg(test)]";

/// The code without `#[cfg(test)]` items.
fn without_tests(code: &[char]) -> Vec<char> {
    let (mut out, mut at) = (Vec::with_capacity(code.len()), 0);
    while at < code.len() {
        let is_test = code[at..].iter().take(TEST.len()).copied().eq(TEST.chars());
        if is_test {
            at = end_of_item(code, at + TEST.len());
        } else {
            out.push(code[at]);
            at += 1;
        }
    }
    out
}

/// The end of an item: its semicolon or closing brace.
fn end_of_item(code: &[char], start: usize) -> usize {
    let head: String = code[start..].iter().take_while(|c| !";{(".contains(**c)).collect();
    let is_use = head.split_whitespace().any(|word| word == "use" || word.starts_with("use "));
    let mut depth = 0;
    for (at, c) in code.iter().enumerate().skip(start) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        if depth == 0 && (*c == ';' || (*c == '}' && !is_use)) {
            return at + 1;
        }
    }
    code.len()
}

fn skip_spaces(code: &[char], at: &mut usize) {
    while code.get(*at).is_some_and(|c| c.is_whitespace()) {
        *at += 1;
    }
}

fn word(code: &[char], at: &mut usize) -> String {
    let word: String = code[*at..].iter().take_while(|c| is_word(**c)).collect();
    *at += word.chars().count();
    word
}

/// All paths of a tree such as `crate::{a, b::{C, D as E}}`, each with the name after `as`.
fn tree(code: &[char], at: &mut usize) -> Vec<(Parts, Option<String>)> {
    let mut parts = Parts::new();
    loop {
        skip_spaces(code, at);
        match code.get(*at) {
            Some('{') => {
                *at += 1;
                let mut paths = Vec::new();
                loop {
                    skip_spaces(code, at);
                    match code.get(*at) {
                        None => return paths,
                        Some('}') => break,
                        Some(',') => *at += 1,
                        Some(_) => {
                            let below = tree(code, at);
                            paths.extend(below.into_iter().map(|(path, name)| ([parts.clone(), path].concat(), name)));
                        }
                    }
                }
                *at += 1;
                return paths;
            }
            Some(c) if is_word(*c) => parts.push(word(code, at)),
            // A star, or not a path.
            _ => {
                *at += 1;
                return vec![(parts, None)];
            }
        }
        let mut next = *at;
        skip_spaces(code, &mut next);
        if code.get(next) == Some(&':') && code.get(next + 1) == Some(&':') {
            *at = next + 2;
            continue;
        }
        let name = word(code, &mut next);
        if name == "as" {
            skip_spaces(code, &mut next);
            let name = word(code, &mut next);
            *at = next;
            return vec![(parts, Some(name))];
        }
        return vec![(parts, None)];
    }
}

/// The offsets at which an identifier or keyword occurs.
fn words(code: &[char], word: &str) -> Vec<usize> {
    let length = word.chars().count();
    let is_here = |at: &usize| {
        code[*at..].iter().take(length).copied().eq(word.chars())
            && !code.get(at + length).is_some_and(|c| is_word(*c))
            && !(*at > 0 && (is_word(code[at - 1]) || code[at - 1] == ':'))
    };
    (0..code.len()).filter(is_here).collect()
}

/// The code of every module of the library that is declared outside of tests.
struct Library {
    modules: BTreeMap<Parts, Vec<char>>,
    /// By module, the names that it imports from its children, with the child.
    names: BTreeMap<Parts, BTreeMap<String, String>>,
}

impl Library {
    fn read(root: &Path) -> Library {
        let mut library = Library { modules: BTreeMap::new(), names: BTreeMap::new() };
        library.add(root, &root.join("lib.rs"), Parts::new());
        for (module, code) in &library.modules {
            for start in words(code, "use") {
                for (path, name) in tree(code, &mut (start + 3)) {
                    let path = if path.first().is_some_and(|part| part == "self") { &path[1..] } else { &path[..] };
                    let [child, .., last] = path else { continue };
                    if library.modules.contains_key(&[&module[..], std::slice::from_ref(child)].concat()) {
                        let names = library.names.entry(module.clone()).or_default();
                        names.insert(name.unwrap_or(last.clone()), child.clone());
                    }
                }
            }
        }
        library
    }

    /// Reads a module and its children.
    fn add(&mut self, root: &Path, file: &Path, module: Parts) {
        let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let code = without_tests(&code(&text));
        for start in words(&code, "mod") {
            let mut at = start + 3;
            skip_spaces(&code, &mut at);
            let name = word(&code, &mut at);
            if code.get(at) == Some(&';') {
                let child = [&module[..], &[name]].concat();
                let beside = child.iter().fold(root.to_path_buf(), |path, part| path.join(part));
                let files = [beside.with_extension("rs"), beside.join("mod.rs")];
                let file = files.iter().find(|file| file.is_file());
                self.add(root, file.unwrap_or_else(|| panic!("no file of `{}`", child.join("::"))), child.clone());
            }
        }
        self.modules.insert(module, code);
    }

    /// The module of the library that a path points into.
    fn resolve(&self, from: &[String], path: &[String]) -> Parts {
        let mut path = path;
        let mut module = match path.first().map(String::as_str) {
            Some("crate") => {
                path = &path[1..];
                Parts::new()
            }
            _ => from.to_vec(),
        };
        while path.first().is_some_and(|part| part == "super") {
            module.pop();
            path = &path[1..];
        }
        for part in path {
            let child = [&module[..], std::slice::from_ref(part)].concat();
            if self.modules.contains_key(&child) {
                module = child;
                continue;
            }
            // A re-exported name belongs to the child that defines it.
            if let Some(child) = self.names.get(&module).and_then(|names| names.get(part)) {
                module.push(child.clone());
            }
            break;
        }
        if let (true, [name, ..]) = (module.is_empty(), path) {
            let found = MACROS.iter().find(|(macro_name, _)| macro_name == name);
            let (_, defined_in) = found.unwrap_or_else(|| panic!("{}: `crate::{name}` is unknown", from.join("::")));
            module.push(defined_in.to_string());
        }
        module
    }

    /// By folder and module, the modules of the same folder that it uses.
    fn uses(&self) -> BTreeMap<Parts, BTreeMap<String, BTreeSet<String>>> {
        let mut folders: BTreeMap<Parts, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (from, code) in self.modules.iter().filter(|(module, _)| !module.is_empty()) {
            for start in [words(code, "crate"), words(code, "super")].concat() {
                // `pub(crate)` and `pub(super)` are not paths.
                for (path, _) in tree(code, &mut start.clone()).into_iter().filter(|(path, _)| path.len() > 1) {
                    let to = self.resolve(from, &path);
                    let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
                    if let (Some(user), Some(used)) = (from.get(shared), to.get(shared)) {
                        let folder = folders.entry(from[..shared].to_vec()).or_default();
                        folder.entry(user.clone()).or_default().insert(used.clone());
                    }
                }
            }
        }
        folders
    }
}

/// A cycle of uses, if there is one.
fn cycle(uses: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn visit(
        module: &String,
        uses: &BTreeMap<String, BTreeSet<String>>,
        done: &mut BTreeSet<String>,
        chain: &mut Vec<String>,
    ) -> Option<Vec<String>> {
        if let Some(start) = chain.iter().position(|other| other == module) {
            return Some([&chain[start..], std::slice::from_ref(module)].concat());
        }
        if !done.insert(module.clone()) {
            return None;
        }
        chain.push(module.clone());
        let found = uses.get(module).into_iter().flatten().find_map(|used| visit(used, uses, done, chain));
        chain.pop();
        found
    }
    let (mut done, mut chain) = (BTreeSet::new(), Vec::new());
    uses.keys().find_map(|module| visit(module, uses, &mut done, &mut chain))
}

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

#[test]
fn no_module_uses_a_later_one() {
    let uses = Library::read(&root()).uses();
    let rank = |module: &String| {
        let rank = ORDER.iter().position(|other| other == module);
        rank.unwrap_or_else(|| panic!("the module `{module}` is not in the order"))
    };
    let mut count = 0;
    for (user, used) in &uses[&Parts::new()] {
        for used in used {
            assert!(rank(used) < rank(user), "`{user}` uses `{used}`, which comes later");
            count += 1;
        }
    }
    assert!(count > 50, "the test found too few uses: {count}");
}

#[test]
fn no_folder_has_a_cycle() {
    let uses = Library::read(&root()).uses();
    assert!(uses.len() > 10, "the test found too few folders: {}", uses.len());
    for (folder, uses) in uses {
        if let Some(cycle) = cycle(&uses) {
            panic!("modules of `{}` use each other: {}", folder.join("::"), cycle.join(" → "));
        }
    }
}

#[test]
fn paths_are_found_after_test_items_and_not_inside_them() {
    let text = r##"
        //! See [`crate::doc`].
        #[cfg(test)]
        mod tests;
        use crate::{error::Result, store::{self, Tile as Rows}};
        #[cfg(test)]
        use crate::{test_a, test_b::{C, D}};
        fn a<'a>(x: &'a str) -> char { if x == "crate::text" { '"' } else { '\'' } }
        #[cfg(test)]
        pub(crate) fn only_tests() -> [u8; 2] { crate::test_c::d(); [1, 2] }
        const RAW: &str = r#"a " crate::raw"#; /* crate::x /* crate::y */ */
        #[cfg(test)]
        mod more { use crate::test_e; fn f() { if true {} } }
        fn b() { super::super::sibling::call(); $crate::run::merge() }
    "##;
    let code = without_tests(&code(text));
    let paths = |word: &str| -> Vec<String> {
        let trees = words(&code, word).into_iter().flat_map(|at| tree(&code, &mut at.clone()));
        trees.map(|(path, _)| path.join("::")).collect()
    };
    let expected = ["crate::error::Result", "crate::store::self", "crate::store::Tile", "crate::run::merge"];
    assert_eq!(paths("crate"), expected);
    assert_eq!(paths("super"), ["super::super::sibling::call"]);
    let uses = |edges: &[(&str, &str)]| {
        let mut uses: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        edges.iter().for_each(|(a, b)| {
            uses.entry(a.to_string()).or_default().insert(b.to_string());
        });
        uses
    };
    assert_eq!(cycle(&uses(&[("a", "b"), ("b", "c"), ("a", "c")])), None);
    assert_eq!(cycle(&uses(&[("a", "b"), ("b", "c"), ("c", "b")])).unwrap(), ["b", "c", "b"]);
}

#[test]
fn the_library_has_no_unsafe_code() {
    let text = fs::read_to_string(root().join("lib.rs")).unwrap();
    assert!(text.contains("#![forbid(unsafe_code)]"));
}
