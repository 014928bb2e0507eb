//! Names of the Hugging Face hub, looked up in the cache on this machine. Nothing is downloaded here.
//!
//! The cache has one folder per repository: `models--org--name`, or `datasets--org--name`, with `refs/main` (the commit
//! of a branch or tag) and `snapshots/COMMIT` (the files).

use std::env;
use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::error::{Command, Error, InputError, Result};

/// Longest file below `refs`: a commit has 40 letters.
const LONGEST_REFERENCE: u64 = 200;

/// The variables of the environment that say where the cache is.
#[derive(Clone, Debug, Default)]
pub struct Environment {
    /// `HF_HUB_CACHE`: the cache itself.
    pub hub_cache: Option<PathBuf>,
    /// `HF_HOME`: the cache is its folder `hub`.
    pub home_of_hub: Option<PathBuf>,
    /// `XDG_CACHE_HOME`: the cache is its folder `huggingface/hub`.
    pub cache_home: Option<PathBuf>,
    /// `HOME`: the cache is its folder `.cache/huggingface/hub`.
    pub home: Option<PathBuf>,
}

impl Environment {
    /// The variables of this process. Empty ones count as not set.
    pub fn of_process() -> Environment {
        let path = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Environment {
            hub_cache: path("HF_HUB_CACHE").or_else(|| path("HUGGINGFACE_HUB_CACHE")),
            home_of_hub: path("HF_HOME"),
            cache_home: path("XDG_CACHE_HOME"),
            home: path("HOME"),
        }
    }

    /// The cache, as the library of Hugging Face finds it; `None` if no variable is set.
    pub fn cache(&self) -> Option<PathBuf> {
        let expanded = |path: &PathBuf| match (path.strip_prefix("~"), &self.home) {
            (Ok(below), Some(home)) => home.join(below),
            _ => path.clone(),
        };
        let home_of_hub = || {
            let cache_home =
                self.cache_home.as_ref().map(expanded).or_else(|| Some(self.home.as_ref()?.join(".cache")));
            self.home_of_hub.as_ref().map(expanded).or_else(|| Some(cache_home?.join("huggingface")))
        };
        self.hub_cache.as_ref().map(expanded).or_else(|| Some(home_of_hub()?.join("hub")))
    }
}

/// A repository of the hub: `[hf:][datasets/]org/name[/path][@revision]`.
#[derive(Debug, PartialEq, Eq)]
struct HubName<'a> {
    /// The folders of the cache in which it can be, without the name.
    kinds: &'static [&'static str],
    repository: String,
    /// A file or folder in it.
    inside: &'a str,
    revision: &'a str,
}

/// The revision if none is given.
const MAIN: &str = "main";

impl<'a> HubName<'a> {
    /// Parses a name; `None` if it cannot be one.
    fn parse(text: &'a str) -> Option<HubName<'a>> {
        let text = text.strip_prefix("hf:").unwrap_or(text);
        let (text, kinds): (_, &[&str]) = match text.strip_prefix("datasets/") {
            Some(rest) => (rest, &["datasets"]),
            None => (text, &["models", "datasets"]),
        };
        let (name, revision) = text.split_once('@').unwrap_or((text, MAIN));
        let mut parts = name.splitn(3, '/');
        let (first, second, inside) = (parts.next()?, parts.next(), parts.next().unwrap_or(""));
        let valid = |part: &str| {
            let letters = part.chars().all(|letter| letter.is_ascii_alphanumeric() || "._-".contains(letter));
            letters && !part.is_empty() && !part.starts_with('.') && !part.contains("--") && !part.contains("..")
        };
        let below = |path: &str| {
            let parts = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
            parts && !path.contains(['\\', '\0'])
        };
        // Old models have a name without an organisation.
        let repository = second.map_or(first.to_string(), |second| format!("{first}/{second}"));
        let all_valid = repository.split('/').all(valid) && below(inside) && below(revision) && !revision.is_empty();
        all_valid.then_some(HubName { kinds, repository, inside, revision })
    }
}

/// The path of a model, a dictionary or a data set: `name` itself if it is a path that exists, else the files of a
/// repository `org/name[@revision]` in the cache. A revision is a branch, a tag, or the first letters of a commit;
/// `main` if none is given. `org/name/path` is a file or folder in it; `datasets/org/name` is a data set even if there
/// is a model of the same name.
pub fn resolve(name: &str, environment: &Environment) -> Result<PathBuf> {
    let path = PathBuf::from(name);
    if path.exists() {
        return Ok(path);
    }
    let Some(wanted) = HubName::parse(name) else {
        return Err(InputError::new("there is no such file or directory")
            .expected("a path, or a name of the Hugging Face hub such as org/name or org/name@revision")
            .advice("check the path")
            .file(&path)
            .into());
    };
    let Some(cache) = environment.cache() else {
        return Err(InputError::new(format!("`{name}` is not a path, and there is no Hugging Face cache"))
            .expected("one of the environment variables HF_HUB_CACHE, HF_HOME, XDG_CACHE_HOME or HOME")
            .advice("give the path of the model, or set HF_HUB_CACHE")
            .into());
    };
    let folders: Vec<PathBuf> = wanted.kinds.iter().map(|kind| cache.join(folder(kind, &wanted.repository))).collect();
    match folders.iter().find(|folder| folder.is_dir()) {
        Some(folder) => in_repository(folder, &wanted),
        None => {
            let searched: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            Err(InputError::new(format!("`{name}` is neither a path nor in the Hugging Face cache"))
                .expected(format!("one of the directories {}", searched.join(", ")))
                .advice(format!("download it with {}, or check the path", fetch(&wanted)))
                .into())
        }
    }
}

/// The files of a repository that is in the cache of this process; `None` if the text cannot be a name, or nothing of that name
/// was downloaded.
pub fn in_cache(name: &str) -> Option<Result<PathBuf>> {
    let (wanted, cache) = (HubName::parse(name)?, Environment::of_process().cache()?);
    let folders = wanted.kinds.iter().map(|kind| cache.join(folder(kind, &wanted.repository)));
    folders.into_iter().find(|folder| folder.is_dir()).map(|folder| in_repository(&folder, &wanted))
}

/// The command that downloads what a text names; `None` if it cannot be the name of a repository.
pub fn download_command(name: &str) -> Option<Command<String>> {
    let wanted = HubName::parse(name).filter(|wanted| wanted.repository.contains('/') || name.starts_with("hf:"))?;
    Some(fetch(&wanted))
}

/// The folder of a repository in the cache.
fn folder(kind: &str, repository: &str) -> String {
    format!("{kind}--{}", repository.replace('/', "--"))
}

/// The command that downloads a repository.
fn fetch(wanted: &HubName) -> Command<String> {
    let kind = if wanted.kinds == ["datasets"] { "datasets/" } else { "" };
    let revision = if wanted.revision == MAIN { String::new() } else { format!("@{}", wanted.revision) };
    Command(format!("fetch hf:{kind}{}{revision}", wanted.repository))
}

fn in_repository(folder: &Path, wanted: &HubName) -> Result<PathBuf> {
    let snapshots = folder.join("snapshots");
    let commit = commit(folder, &snapshots, wanted)?;
    let path = snapshots.join(&commit).join(wanted.inside);
    if path.exists() {
        return Ok(if wanted.inside.is_empty() { snapshots.join(commit) } else { path });
    }
    Err(InputError::new(format!("`{}` is not complete in the Hugging Face cache", wanted.repository))
        .expected(match wanted.inside {
            "" => format!("the files of the commit {commit}"),
            inside => format!("`{inside}` in the commit {commit}"),
        })
        .advice(format!("download it with {}", fetch(wanted)))
        .file(&path)
        .into())
}

/// The commit of a revision.
fn commit(folder: &Path, snapshots: &Path, wanted: &HubName) -> Result<String> {
    let reference = folder.join("refs").join(wanted.revision);
    if reference.is_file() {
        let length = fs::metadata(&reference).map_err(Error::io("check a reference", &reference))?.len();
        let text = if length <= LONGEST_REFERENCE { fs::read_to_string(&reference).ok() } else { None };
        let commit = text.map(|text| text.trim().to_string());
        let valid = |commit: &String| !commit.is_empty() && commit.chars().all(|letter| letter.is_ascii_alphanumeric());
        return commit.filter(valid).ok_or_else(|| {
            InputError::new("a reference in the Hugging Face cache is damaged")
                .expected("a commit")
                .advice(format!("delete the file, then download the repository again with {}", fetch(wanted)))
                .file(&reference)
                .into()
        });
    }
    let commits = commits(snapshots)?;
    let found: Vec<&String> = commits.iter().filter(|commit| commit.starts_with(wanted.revision)).collect();
    match found[..] {
        [commit] => Ok(commit.clone()),
        _ => {
            let known = if commits.is_empty() { "no commits".to_string() } else { commits.join(", ") };
            let what = if found.is_empty() { "is not" } else { "is not unique" };
            let advice = match (found.is_empty(), commits.first()) {
                (true, None) => format!("download it with {}", fetch(wanted)),
                (true, Some(commit)) => {
                    let short = commit.get(..8).unwrap_or(commit);
                    format!("download it with {}, or use `{}@{short}`", fetch(wanted), wanted.repository)
                }
                (false, _) => "give more letters of the commit".to_string(),
            };
            Err(InputError::new(format!(
                "the revision `{}` of `{}` {what} in the Hugging Face cache",
                wanted.revision, wanted.repository
            ))
            .expected(format!("a name in {} or a commit", folder.join("refs").display()))
            .found(known)
            .advice(advice)
            .file(folder)
            .into())
        }
    }
}

/// The commits of which there are files, sorted.
fn commits(snapshots: &Path) -> Result<Vec<String>> {
    if !snapshots.is_dir() {
        return Ok(Vec::new());
    }
    let mut commits = Vec::new();
    for entry in fs::read_dir(snapshots).map_err(Error::io("list the Hugging Face cache", snapshots))? {
        let entry = entry.map_err(Error::io("list the Hugging Face cache", snapshots))?;
        commits.extend(entry.file_name().into_string().ok().filter(|_| entry.path().is_dir()));
    }
    commits.sort();
    Ok(commits)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with a model of two commits and a data set.
    struct Cache(tempfile::TempDir);

    const ONE: &str = "1a2b3c4d5e6f70819203a4b5c6d7e8f901234567";
    const TWO: &str = "1a2bffffffffffffffffffffffffffffffffffff";

    impl Cache {
        fn new() -> Cache {
            let cache = Cache(tempfile::tempdir().unwrap());
            for commit in [ONE, TWO] {
                cache.write(&format!("models--org--tiny/snapshots/{commit}/config.json"), "{}");
            }
            cache.write("models--org--tiny/refs/main", ONE);
            cache.write("models--org--tiny/refs/refs/pr/1", &format!("{TWO}\n"));
            cache.write(&format!("datasets--org--words/snapshots/{ONE}/data/a.parquet"), "");
            cache.write("datasets--org--words/refs/main", ONE);
            cache.write(&format!("models--gpt2/snapshots/{ONE}/config.json"), "{}");
            cache
        }

        fn write(&self, name: &str, text: &str) {
            let path = self.0.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn resolve(&self, name: &str) -> Result<String> {
            let environment = Environment { hub_cache: Some(self.0.path().to_path_buf()), ..Environment::default() };
            let path = resolve(name, &environment)?;
            Ok(path.strip_prefix(self.0.path()).unwrap_or(&path).display().to_string())
        }

        fn refused(&self, name: &str) -> String {
            let error = self.resolve(name).unwrap_err();
            assert!(error.is_input(), "{error:?}");
            error.to_string()
        }
    }

    #[test]
    fn names_are_found_in_the_cache() {
        let cache = Cache::new();
        for (name, expected) in [
            ("org/tiny", format!("models--org--tiny/snapshots/{ONE}")),
            ("hf:org/tiny@main", format!("models--org--tiny/snapshots/{ONE}")),
            ("org/tiny@refs/pr/1", format!("models--org--tiny/snapshots/{TWO}")),
            ("org/tiny@1a2bf", format!("models--org--tiny/snapshots/{TWO}")),
            ("org/tiny/config.json", format!("models--org--tiny/snapshots/{ONE}/config.json")),
            ("org/words", format!("datasets--org--words/snapshots/{ONE}")),
            ("datasets/org/words/data@1a", format!("datasets--org--words/snapshots/{ONE}/data")),
            ("gpt2@1a2b", format!("models--gpt2/snapshots/{ONE}")),
        ] {
            assert_eq!(cache.resolve(name).unwrap(), expected, "{name}");
        }
    }

    #[test]
    fn a_path_that_exists_wins() {
        let cache = Cache::new();
        let path = cache.0.path().join("gpt2.bin");
        fs::write(&path, "x").unwrap();
        assert_eq!(cache.resolve(path.to_str().unwrap()).unwrap(), "gpt2.bin");
    }

    #[test]
    fn absent_names_say_where_was_searched_and_what_to_do() {
        let cache = Cache::new();
        let error = cache.refused("org/huge");
        assert!(error.contains("`org/huge` is neither a path nor in the Hugging Face cache"), "{error}");
        for part in ["models--org--huge", "datasets--org--huge", "`fetch hf:org/huge`"] {
            assert!(error.contains(part), "{part}: {error}");
        }
        assert!(cache.refused("datasets/org/tiny@v1").contains("`fetch hf:datasets/org/tiny@v1`"));
        let error = cache.refused("org/tiny@1a2b");
        assert!(error.contains("not unique") && error.contains(ONE) && error.contains("more letters"), "{error}");
        let error = cache.refused("org/tiny@v9");
        assert!(error.contains("revision `v9`") && error.contains("`fetch hf:org/tiny@v9`"), "{error}");
        // Without `refs/main` the commit has to be named.
        let error = cache.refused("gpt2");
        assert!(error.contains("revision `main`") && error.contains("`gpt2@1a2b3c4d`"), "{error}");
        assert!(cache.refused("org/tiny/layers.3").contains("`layers.3` in the commit 1a2b3c4d"));
        cache.write("models--org--tiny/refs/evil", "../../../../etc");
        assert!(cache.refused("org/tiny@evil").contains("damaged"));
        cache.write("models--org--tiny/refs/gone", TWO.replace('f', "0").as_str());
        assert!(cache.refused("org/tiny@gone").contains("not complete"));
    }

    #[test]
    fn names_cannot_leave_the_cache() {
        for name in
            ["../x", "a/../b", "org/..", "a/b@../../x", "a/b/../c", "/abs/olute", "org/na me", "", "a--b/c", "a/b@"]
        {
            assert_eq!(HubName::parse(name), None, "{name}");
        }
        assert!(Cache::new().refused("../nowhere/x").contains("no such file or directory"));
    }

    #[test]
    fn the_environment_says_where_the_cache_is() {
        let path = |text: &str| Some(PathBuf::from(text));
        let home = Environment { home: path("/home/a"), ..Environment::default() };
        assert_eq!(home.cache(), path("/home/a/.cache/huggingface/hub"));
        let cache_home = Environment { cache_home: path("/cache"), ..home };
        assert_eq!(cache_home.cache(), path("/cache/huggingface/hub"));
        let home_of_hub = Environment { home_of_hub: path("~/hf"), ..cache_home };
        assert_eq!(home_of_hub.cache(), path("/home/a/hf/hub"));
        let all = Environment { hub_cache: path("/hub"), ..home_of_hub };
        assert_eq!(all.cache(), path("/hub"));
        assert_eq!(Environment::default().cache(), None);
        assert!(resolve("org/none", &Environment::default()).unwrap_err().to_string().contains("HF_HUB_CACHE"));
    }
}
