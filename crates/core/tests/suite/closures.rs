//! What is compiled for vector instructions must be inlined: what is not inlined is compiled for the oldest processor, and every
//! `mul_add` in it becomes a call. So `pulp::Arch::dispatch` and `pulp::Simd::vectorize` receive structs, whose methods are
//! `#[inline(always)]`, and never closures: these are called through a function that need not be inlined. Closures that are
//! `#[inline(always)]` can be given to `etalon_kernel::vectorised`.

use std::fs;
use std::path::Path;

/// The files below a directory, sorted.
fn files(directory: &Path, found: &mut Vec<std::path::PathBuf>) {
    let mut entries: Vec<_> = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The calls that receive something to compile for vector instructions.
const CALLS: [&str; 2] = [".dispatch(", ".vectorize("];

/// Whether a value is a struct, by its name or path.
fn is_struct(value: &str) -> bool {
    let path: String = value.trim_start().chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
    path.trim_end_matches("::")
        .rsplit("::")
        .next()
        .is_some_and(|name| name.starts_with(|first: char| first.is_ascii_uppercase()))
}

/// Arguments of calls that need not be inlined, and functions for vector instructions without the attribute.
fn lost(text: &str) -> Vec<String> {
    let mut lost = Vec::new();
    for argument in CALLS.iter().flat_map(|call| text.split(call).skip(1)) {
        let name: String = argument.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
        let is_variable = argument.trim_start()[name.len()..].starts_with(')');
        // A variable is what it was set to, an argument is what its type says.
        let (set_to, typed) = (format!("let {name} ="), format!("({name}:"));
        let set: Vec<&str> = text.split(&set_to).skip(1).chain(text.split(&typed).skip(1)).collect();
        let is_safe = match is_variable {
            true => !set.is_empty() && set.iter().all(|value| is_struct(value)),
            false => is_struct(argument),
        };
        if !is_safe {
            lost.push(argument.lines().next().unwrap_or_default().to_string());
        }
    }
    let closures = text.split(" vectorised(").skip(1).chain(text.split("\nvectorised(").skip(1));
    let closures = closures.filter(|closure| !closure.trim_start().starts_with("#[inline(always)]"));
    lost.extend(closures.map(|closure| closure.lines().next().unwrap_or_default().to_string()));
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    for (index, line) in lines.iter().enumerate() {
        let attributes =
            lines[..index].iter().rev().take_while(|line| line.starts_with("#[") || line.starts_with("//"));
        let for_vectors = line.contains("fn with_simd<") || (line.contains("fn ") && line.contains("<S: Simd"));
        if for_vectors && !attributes.clone().any(|line| *line == "#[inline(always)]") {
            lost.push((*line).to_string());
        }
    }
    lost
}

#[test]
fn what_needs_vector_instructions_is_inlined() {
    let good = "a.dispatch(Op { b }); vectorised(\n    #[inline(always)]\n || c); let pass = Op { c };\na.dispatch(pass);\n\
        simd.vectorize(parts::Op { simd }); a.dispatch(Op::<3>(c));\n#[inline(always)]\nfn with_simd<S: Simd>(self, _: S) {\n\
        #[inline(always)]\n#[allow(unsafe_code)]\nfn run<S: Simd, const N: usize>(self, simd: S) {\nfn go(op: Op<'_>) { a.dispatch(op);";
    assert_eq!(lost(good), [""; 0]);
    let bad = "a.dispatch(|| c); a.dispatch(\n #[inline(always)] move || c); let run = || c; a.dispatch(run);\n\
        a.dispatch(given); let sum = vectorised(|| c); vectorised(run);\n#[inline]\nfn with_simd<S: Simd>(self, _: S) {\n\
        fn run<S: Simd>(simd: S) {\nfn go(f: impl Fn()) { a.dispatch(f);";
    assert_eq!(lost(bad).len(), 9, "{:?}", lost(bad));
    let (root, mut found) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."), Vec::new());
    ["crates/kernel", "crates/core", "crates/models", "crates/app", "benches", "fuzz", "xtask"]
        .iter()
        .map(|name| root.join(name).join("src"))
        .filter(|path| path.is_dir())
        .for_each(|path| files(&path, &mut found));
    let mut calls = 0;
    for path in found {
        let text = fs::read_to_string(&path).unwrap();
        calls += CALLS.iter().map(|call| text.matches(call).count()).sum::<usize>();
        assert_eq!(lost(&text), [""; 0], "{}: #[inline(always)] is missing", path.display());
    }
    assert!(calls > 20, "{calls}");
}
