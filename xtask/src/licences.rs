//! Licences and sources of dependencies, from `cargo metadata` and the lists in `deny.toml`: the part of cargo-deny's
//! checks that needs no other program.

use std::fs;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::steps::{cargo_command, output, root};

/// How sources that are registries start in `cargo metadata`; others are git repositories. Which registries are allowed is
/// in `deny.toml`, for cargo-deny.
const REGISTRY: &str = "registry+";

/// Checks the dependencies on this platform.
pub fn check() -> Result<()> {
    let rules: toml::Value = toml::from_str(&fs::read_to_string(root().join("deny.toml"))?)?;
    let rules = rules.get("licenses").context("deny.toml has no section `licenses`")?;
    let about = output(Command::new("rustc").arg("-vV"))?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: ")).context("rustc did not print its host")?;
    let metadata =
        output(&mut cargo_command(&["metadata", "--format-version", "1", "--locked", "--filter-platform", host]))?;
    let metadata: Value = serde_json::from_str(&metadata)?;
    let packages = metadata["packages"].as_array().context("cargo did not list packages")?;
    let wrong: Vec<String> = packages.iter().filter_map(|package| problem(package, rules)).collect();
    if !wrong.is_empty() {
        bail!("dependencies that deny.toml does not allow:\n{}", wrong.join("\n"));
    }
    Ok(())
}

/// What is wrong with a package. Packages of this project have no source.
fn problem(package: &Value, rules: &toml::Value) -> Option<String> {
    let source = package["source"].as_str()?;
    let name = package["name"].as_str().unwrap_or_default();
    if !source.starts_with(REGISTRY) {
        return Some(format!("{name}: its source is {source}"));
    }
    let list = |value: &toml::Value| -> Vec<String> {
        let texts = value.get("allow").and_then(toml::Value::as_array).into_iter().flatten();
        texts.filter_map(|text| text.as_str().map(String::from)).collect()
    };
    let exceptions = rules.get("exceptions").and_then(toml::Value::as_array).into_iter().flatten();
    let own = exceptions.filter(|rule| rule.get("crate").and_then(toml::Value::as_str) == Some(name)).flat_map(list);
    let allowed: Vec<String> = list(rules).into_iter().chain(own).collect();
    match package["license"].as_str() {
        Some(licence) if is_allowed(licence, &allowed) => None,
        licence => Some(format!("{name}: its licence is {}", licence.unwrap_or("not stated"))),
    }
}

/// Whether an SPDX expression is satisfied by the allowed licences.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    // Older packages write a slash instead of OR.
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    any_of(&mut rest, allowed) && rest.is_empty()
}

/// Alternatives, separated by OR.
fn any_of(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut found = all_of(words, allowed);
    while let ["OR", rest @ ..] = *words {
        *words = rest;
        // Not `||`: the words of every alternative are consumed.
        found |= all_of(words, allowed);
    }
    found
}

/// Requirements, separated by AND.
fn all_of(words: &mut &[&str], allowed: &[String]) -> bool {
    let mut found = licence(words, allowed);
    while let ["AND", rest @ ..] = *words {
        *words = rest;
        found &= licence(words, allowed);
    }
    found
}

/// A licence, possibly with an exception, or an expression in parentheses.
fn licence(words: &mut &[&str], allowed: &[String]) -> bool {
    let (name, rest) = match *words {
        ["(", rest @ ..] => {
            *words = rest;
            let found = any_of(words, allowed);
            let closed = words.first() == Some(&")");
            *words = words.get(1..).unwrap_or_default();
            return found && closed;
        }
        [name, "WITH", exception, rest @ ..] => (format!("{name} WITH {exception}"), rest),
        [name, rest @ ..] => (name.to_string(), rest),
        [] => return false,
    };
    *words = rest;
    allowed.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_evaluated() {
        let allowed = ["MIT", "Zlib", "Apache-2.0 WITH LLVM-exception"].map(String::from);
        for good in ["MIT", "GPL-3.0 OR MIT", "GPL-3.0/MIT", "(GPL-3.0 OR MIT) AND Zlib", "MIT OR (GPL-3.0 AND Zlib)"] {
            assert!(is_allowed(good, &allowed), "{good}");
        }
        assert!(is_allowed("Apache-2.0 WITH LLVM-exception OR Apache-2.0", &allowed));
        for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0 OR MIT) AND NCSA", "Apache-2.0", "", "(MIT", "MIT Zlib"] {
            assert!(!is_allowed(bad, &allowed), "{bad}");
        }
    }

    #[test]
    fn packages_outside_the_registry_are_refused() {
        let rules: toml::Value =
            toml::from_str("allow = [\"MIT\"]\nexceptions = [{ crate = \"a\", allow = [\"NCSA\"] }]").unwrap();
        let package = |name: &str, licence: &str, source: Option<&str>| serde_json::json!({"name": name, "license": licence, "source": source});
        assert_eq!(problem(&package("own", "none", None), &rules), None);
        assert_eq!(problem(&package("a", "MIT AND NCSA", Some(REGISTRY)), &rules), None);
        assert!(problem(&package("b", "MIT AND NCSA", Some(REGISTRY)), &rules).is_some());
        assert!(problem(&package("b", "MIT", Some("git+https://example.org/b")), &rules).is_some());
    }
}
