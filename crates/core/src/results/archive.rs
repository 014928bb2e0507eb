//! The results of a directory: one file per recipe and name of its inputs, added and never altered.
//!
//! A file is the result's JSON, one top-level field to a line, and ends with what is known about the inputs, the time
//! it took, and a check of everything above the time:
//!
//! ```json
//! {
//!   "etalon": "0.1.0",
//!   ...
//!   "about": {"inputs": "trained", "latents": 512},
//!   "seconds": 0.02,
//!   "check": "crc32c:1f2e3d4c"
//! }
//! ```
//!
//! The time stands outside the check, so that two runs of one recipe differ in that number alone.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;

use super::recipe::{Recipe, ResultFile};
use crate::error::{Error, InputError, Result};
use crate::store::disk;

/// What people call the inputs: `inputs` (a name), `group`, `latents`, `l0` and whatever else tells them apart.
pub type Metadata = BTreeMap<String, Value>;

/// The line that the check ends before. No JSON string holds a line break, so it can begin only a top-level field.
const SECONDS: &str = "\n  \"seconds\": ";

/// A result with its name and what is known about its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored {
    /// The id of the recipe, then a mark of what people call the inputs: one recipe may be known by several names.
    pub id: String,
    /// The result.
    pub result: ResultFile,
    /// What people call its inputs.
    pub about: Metadata,
    /// When its file was written, or last kept by a run; `None` for a result that is not on disk.
    pub written: Option<SystemTime>,
}

/// A file that cannot be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// Which.
    pub file: PathBuf,
    /// Why.
    pub reason: String,
}

/// The results below one directory.
#[derive(Clone, Debug)]
pub struct Archive {
    results: PathBuf,
}

impl Stored {
    /// A result that need not be on disk.
    pub fn new(result: ResultFile, about: Metadata) -> Result<Stored> {
        Ok(Stored { id: Stored::id_of(&result.recipe, &about)?, result, about, written: None })
    }

    /// The id that a result of this recipe will have under this name.
    pub fn id_of(recipe: &Recipe, about: &Metadata) -> Result<String> {
        // Dictionaries of several sizes may share a name, and a recipe that looks at none of them.
        let name = |key: &str| about.get(key).map(Value::to_string).unwrap_or_default();
        let mark = crc32c::crc32c(["inputs", "data", "latents", "k"].map(name).join("\n").as_bytes());
        Ok(format!("{}-{mark:08x}", recipe.id()?))
    }

    /// The bytes of its file.
    fn to_text(&self) -> Result<String> {
        let json = |value: &Value| {
            serde_json::to_string(value).map_err(|error| Error::Bug(format!("a result to JSON: {error}")))
        };
        let whole = self.result.to_json()?;
        let fields = whole.as_object().ok_or_else(|| Error::Bug("a result is not a JSON object".into()))?;
        let about = serde_json::to_value(&self.about).map_err(|error| Error::Bug(format!("about to JSON: {error}")))?;
        let mut text = String::from("{");
        for (name, value) in
            fields.iter().filter(|(name, _)| *name != "seconds").chain([(&"about".to_string(), &about)])
        {
            text.push_str(&format!("\n  {}: {},", json(&Value::from(name.as_str()))?, json(value)?));
        }
        let ending = ending(&json(&Value::from(self.result.seconds))?, &text);
        Ok(text + &ending)
    }

    /// Reads a file back; the error says in a few words what is wrong with it.
    fn from_text(id: &str, text: &str) -> Result<Stored, String> {
        let cut = text.rfind(SECONDS).ok_or("the file is cut short")?;
        let (body, rest) = text.split_at(cut);
        let seconds = rest[SECONDS.len()..].split(',').next().unwrap_or_default();
        if ending(seconds, body) != rest {
            return Err("the check does not fit the content".into());
        }
        let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
        let result = ResultFile::from_json(&value).map_err(|error| one_line(&error))?;
        result.scores.check().map_err(|error| one_line(&error))?;
        let about: Metadata = match value.get("about") {
            Some(about) => serde_json::from_value(about.clone()).map_err(|error| format!("field `about`: {error}"))?,
            None => Metadata::new(),
        };
        let stored = Stored::new(result, about).map_err(|error| one_line(&error))?;
        if stored.id == id { Ok(stored) } else { Err("the name of the file is not that of its recipe".into()) }
    }
}

/// The lines after the checked part.
fn ending(seconds: &str, body: &str) -> String {
    format!("{SECONDS}{seconds},\n  \"check\": \"crc32c:{:08x}\"\n}}\n", crc32c::crc32c(body.as_bytes()))
}

/// What must be the same whenever a recipe is followed. As JSON, where an empty column has no type.
fn content(result: &ResultFile) -> Result<Value> {
    let mut value = result.to_json()?;
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|name, _| name != "seconds" && name != "etalon");
    }
    Ok(value)
}

fn one_line(error: &Error) -> String {
    error.to_string().lines().map(str::trim).collect::<Vec<_>>().join("; ")
}

impl Archive {
    /// The archive of a directory, which may still be empty or missing.
    pub fn open(directory: &Path) -> Result<Archive> {
        let results = directory.join("results");
        for path in [directory, &results] {
            if path.exists() && !path.is_dir() {
                return Err(InputError::new("results are kept in a directory")
                    .found("a file")
                    .advice("name a directory, or one that does not exist yet")
                    .file(path)
                    .into());
            }
        }
        Ok(Archive { results })
    }

    /// The archive of a directory that must be there.
    pub fn open_existing(directory: &Path) -> Result<Archive> {
        if directory.is_dir() {
            return Archive::open(directory);
        }
        Err(InputError::new("there is no such directory of results")
            .expected("a directory that `etalon run`, `etalon sanity` or `etalon demo` wrote")
            .file(directory)
            .into())
    }

    /// The directory that holds `results/`.
    pub fn directory(&self) -> &Path {
        self.results.parent().unwrap_or(&self.results)
    }

    /// Where a result is kept.
    pub fn path(&self, id: &str) -> PathBuf {
        self.results.join(format!("{id}.json"))
    }

    /// Keeps a result and gives its id. What is already there stays; a damaged file is replaced, news about the inputs
    /// are taken over, and different scores for one recipe are refused.
    pub fn put(&self, result: &ResultFile, about: &Metadata) -> Result<String> {
        result.scores.check()?;
        let new = Stored::new(result.clone(), about.clone())?;
        if let Some(old) = self.get(&new.id)? {
            if content(&old.result)? != content(&new.result)? {
                return Err(Error::Bug(format!(
                    "recipe {} of `{}` gave other scores than before",
                    new.id, new.result.recipe.metric
                )));
            }
            if old.about == new.about {
                self.renew(&new.id)?;
                return Ok(new.id);
            }
        }
        disk::write(&self.path(&new.id), new.to_text()?.as_bytes())?;
        Ok(new.id)
    }

    /// A result of this recipe under any name.
    pub fn same_recipe(&self, recipe: &Recipe) -> Result<Option<Stored>> {
        let prefix = format!("{}-", recipe.id()?);
        for id in self.ids()?.iter().filter(|id| id.starts_with(&prefix)) {
            if let Some(stored) = self.get(id)? {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    /// A result; a damaged one counts as missing, so that it is made again.
    pub fn get(&self, id: &str) -> Result<Option<Stored>> {
        // Ids come from recipes; anything else might point out of the directory.
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            return Ok(None);
        }
        let path = self.path(id);
        match fs::read(&path) {
            Ok(bytes) => Ok(read(id, &bytes).ok().map(|stored| Stored { written: written(&path), ..stored })),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read a result", &path)(error)),
        }
    }

    /// Marks a result as current: a run that found it there would have written it now. What other inputs gave under the
    /// same name since then is superseded.
    pub fn renew(&self, id: &str) -> Result<()> {
        let path = self.path(id);
        let now = fs::FileTimes::new().set_modified(SystemTime::now());
        let file = fs::File::options().append(true).open(&path);
        file.and_then(|file| file.set_times(now)).map_err(Error::io("mark a result as current", &path))
    }

    /// Every valid result, in the order of file names.
    pub fn all(&self) -> Result<Vec<Stored>> {
        Ok(self.read_all()?.0)
    }

    /// Every file that looks like a result and is none, in the order of file names.
    pub fn damaged(&self) -> Result<Vec<Damaged>> {
        Ok(self.read_all()?.1)
    }

    /// Valid results and damaged files, each in the order of file names.
    pub fn read_all(&self) -> Result<(Vec<Stored>, Vec<Damaged>)> {
        let (mut whole, mut damaged) = (Vec::new(), Vec::new());
        for id in self.ids()? {
            let file = self.path(&id);
            let bytes = fs::read(&file).map_err(Error::io("read a result", &file))?;
            match read(&id, &bytes) {
                Ok(stored) => whole.push(Stored { written: written(&file), ..stored }),
                Err(reason) => damaged.push(Damaged { file, reason }),
            }
        }
        Ok((whole, damaged))
    }

    /// The ids of all files that look like results, in order.
    fn ids(&self) -> Result<Vec<String>> {
        let entries = match fs::read_dir(&self.results) {
            Ok(entries) => entries,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("list the results", &self.results)(error)),
        };
        let mut ids = Vec::new();
        for entry in entries {
            let name = entry.map_err(Error::io("list the results", &self.results))?.file_name();
            let name = name.to_string_lossy();
            // Unfinished files of a killed run begin with a dot.
            if let Some(id) = name.strip_suffix(".json").filter(|_| !name.starts_with('.')) {
                ids.push(id.to_string());
            }
        }
        ids.sort();
        Ok(ids)
    }
}

/// The time of a file, if the system keeps one.
fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}

fn read(id: &str, bytes: &[u8]) -> Result<Stored, String> {
    Stored::from_text(id, std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Interval, Profile, Recipe, Scores, Table};
    use serde_json::json;

    fn example(seed: u64) -> (ResultFile, Metadata) {
        let mut scores = Scores::default();
        scores.headline("match_score", Some(0.1 + 0.2), Some(Interval { low: 0.25, high: 0.4 }), 24);
        scores.note("a note with a line\nbreak and \"seconds\": 3,");
        scores.tables.push(Table::new("concept").words("name", ["ä", "b"]).numbers("f1", [Some(1.0 / 3.0), None]));
        // Read back as whole numbers, since nothing in them says otherwise.
        scores.tables.push(Table::new("pair").numbers("delta", [None]).words("name", [""; 1]));
        let recipe = Recipe {
            metric: "match".into(),
            version: 1,
            profile: Profile::Paper,
            seed,
            params: BTreeMap::from([("beta".into(), json!(0.5))]),
            inputs: BTreeMap::from([("codes".into(), "blake3:00".into())]),
        };
        let about = Metadata::from([("inputs".into(), json!("trained")), ("latents".into(), json!(512))]);
        (ResultFile { etalon: "0.1.0".into(), recipe, scores, seconds: 0.25 }, about)
    }

    #[test]
    fn what_is_put_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        assert!(archive.all().unwrap().is_empty());
        let mut ids = Vec::new();
        for seed in 0..3 {
            let (result, about) = example(seed);
            let id = archive.put(&result, &about).unwrap();
            let stored = archive.get(&id).unwrap().unwrap();
            assert_eq!((content(&stored.result).unwrap(), &stored.about), (content(&result).unwrap(), &about));
            assert_eq!(stored.result.scores.headline, result.scores.headline);
            ids.push(id);
        }
        ids.sort();
        assert_eq!(archive.all().unwrap().into_iter().map(|stored| stored.id).collect::<Vec<_>>(), ids);
        assert_eq!(archive.get("00").unwrap(), None);
        assert_eq!(archive.get("../../secret").unwrap(), None);
    }

    #[test]
    fn a_second_run_changes_nothing_and_other_scores_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let (mut result, mut about) = example(0);
        let id = archive.put(&result, &about).unwrap();
        let before = fs::read(archive.path(&id)).unwrap();
        result.seconds = 99.0;
        archive.put(&result, &about).unwrap();
        assert_eq!(fs::read(archive.path(&id)).unwrap(), before);
        about.insert("group".into(), json!("new"));
        archive.put(&result, &about).unwrap();
        assert_eq!(archive.get(&id).unwrap().unwrap().about["group"], json!("new"));
        about.insert("latents".into(), json!(1024));
        assert_ne!(archive.put(&result, &about).unwrap(), id);
        about.insert("inputs".into(), json!("another name"));
        let other = archive.put(&result, &about).unwrap();
        assert_ne!(other, id);
        assert_eq!(archive.same_recipe(&result.recipe).unwrap().unwrap().result.recipe, result.recipe);
        result.scores.headline[0].value = Some(0.9);
        assert!(matches!(archive.put(&result, &about), Err(Error::Bug(_))));
    }

    #[test]
    fn a_renewed_result_is_newer_and_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let ids = [0, 1].map(|seed| {
            let (result, about) = example(seed);
            archive.put(&result, &about).unwrap()
        });
        let get = |id: &str| archive.get(id).unwrap().unwrap();
        let old = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1);
        let file = fs::File::options().append(true).open(archive.path(&ids[0])).unwrap();
        file.set_times(fs::FileTimes::new().set_modified(old)).unwrap();
        assert_eq!(get(&ids[0]).written, Some(old));
        let bytes = fs::read(archive.path(&ids[0])).unwrap();
        archive.renew(&ids[0]).unwrap();
        assert!(get(&ids[0]).written >= get(&ids[1]).written);
        assert_eq!(fs::read(archive.path(&ids[0])).unwrap(), bytes);
        assert!(archive.renew("00").is_err());
    }

    #[test]
    fn two_runs_differ_only_in_the_time() {
        let (mut result, about) = example(0);
        let first = Stored::new(result.clone(), about.clone()).unwrap().to_text().unwrap();
        result.seconds = 99.5;
        let second = Stored::new(result, about).unwrap().to_text().unwrap();
        assert_ne!(first, second);
        assert_eq!(first.replace("\"seconds\": 0.25,", ""), second.replace("\"seconds\": 99.5,", ""));
    }

    #[test]
    fn a_flipped_bit_is_found_or_is_in_the_time() {
        let (result, about) = example(0);
        let stored = Stored::new(result, about).unwrap();
        let bytes = stored.to_text().unwrap().into_bytes();
        for place in 0..bytes.len() {
            for bit in 0..8 {
                let mut wrong = bytes.clone();
                wrong[place] ^= 1 << bit;
                if let Ok(mut other) = read(&stored.id, &wrong) {
                    other.result.seconds = stored.result.seconds;
                    assert_eq!(other.to_text().unwrap().as_bytes(), bytes, "byte {place}, bit {bit}");
                }
            }
        }
        for length in 0..bytes.len() {
            assert!(read(&stored.id, &bytes[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn damaged_files_are_listed_and_made_again() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let (result, about) = example(0);
        let id = archive.put(&result, &about).unwrap();
        let good = fs::read_to_string(archive.path(&id)).unwrap();
        fs::write(archive.path(&id), good.replace("512", "513")).unwrap();
        fs::write(archive.path("0a"), &good).unwrap();
        fs::write(archive.results.join(".half.json.1-0.tmp"), "{").unwrap();
        assert_eq!(archive.get(&id).unwrap(), None);
        let damaged = archive.damaged().unwrap();
        assert!(archive.all().unwrap().is_empty());
        assert_eq!(damaged.len(), 2);
        assert_eq!(damaged[0].reason, "the name of the file is not that of its recipe");
        assert_eq!(damaged[1].reason, "the check does not fit the content");
        archive.put(&result, &about).unwrap();
        assert_eq!(fs::read_to_string(archive.path(&id)).unwrap(), good);
    }

    #[test]
    fn a_file_is_no_archive() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Archive::open(file.path()).unwrap_err().is_input());
    }
}
