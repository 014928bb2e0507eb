//! The archive of results: a directory with one file per recipe and input set. Files are added, never altered. See
//! `stored.rs` for the format of a file.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::recipe::{Recipe, ResultFile};
use super::stored::{Metadata, Stored, content, is_id, parsed_bytes, read, read_values, write};
use crate::context::{Budget, Reservation, Reserved};
use crate::error::{Command, Error, InputError, Result};
use crate::store::disk;

/// A damaged result file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damaged {
    /// The file.
    pub file: PathBuf,
    /// What is wrong with it.
    pub reason: String,
}

/// Where result files must be.
const RULE: &str = "results are read from DIR/results: move the file there, and pass DIR";

fn expected_directory() -> String {
    let [run, sanity, demo] = [Command("run"), Command("sanity"), Command("demo")];
    format!("a directory that contains `results`, as {run}, {sanity} and {demo} write it")
}

/// Whether a path is a result file under any name.
fn is_result(path: &Path) -> bool {
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    is_json && disk::read(path).is_ok_and(|bytes| read_values(&bytes).is_ok())
}

/// The results below one directory.
#[derive(Clone, Debug)]
pub struct Archive {
    results: PathBuf,
}

impl Archive {
    /// The archive of a directory, which may still be empty or missing.
    pub fn open(directory: &Path) -> Result<Archive> {
        let results = directory.join("results");
        for path in [directory, &results] {
            if path.exists() && !path.is_dir() {
                return Err(InputError::new("the results directory is a file")
                    .expected("a directory, which may be new")
                    .found("a file")
                    .file(path)
                    .into());
            }
        }
        Ok(Archive { results })
    }

    /// The archive of a directory that must exist.
    pub fn open_existing(directory: &Path) -> Result<Archive> {
        if directory.is_dir() {
            return Archive::open(directory);
        }
        let error = InputError::new("there is no such results directory").expected(expected_directory());
        Err(match is_result(directory) {
            true => error.found("a result file").advice(RULE),
            false => error,
        }
        .file(directory)
        .into())
    }

    /// The error of a directory without results. Names result files that are not where they are read.
    pub fn no_results(&self) -> InputError {
        let directory = self.directory();
        let mut files: Vec<PathBuf> =
            fs::read_dir(directory).into_iter().flatten().flatten().map(|e| e.path()).collect();
        files.sort();
        let error = InputError::new("there are no results here").expected(expected_directory());
        match files.iter().find(|file| is_result(file)).and_then(|file| file.file_name()) {
            Some(name) => {
                error.found(format!("the result `{}`, which is not in `results`", name.display())).advice(RULE)
            }
            None => error,
        }
        .file(directory)
    }

    /// The directory that holds `results/`.
    pub fn directory(&self) -> &Path {
        self.results.parent().unwrap_or(&self.results)
    }

    /// The file of a result.
    pub fn path(&self, id: &str) -> PathBuf {
        self.results.join(format!("{id}.json"))
    }

    /// Stores a result and returns its id. An existing file is kept, unless it is damaged or the metadata have changed.
    /// Different scores for the same recipe are an error.
    pub fn put(&self, result: &ResultFile, about: &Metadata, budget: &Budget) -> Result<String> {
        result.scores.check()?;
        let id = Stored::id_of(&result.recipe, about)?;
        if let Some(old) = self.get(&id, budget)? {
            if content(&old.result)? != content(result)? {
                return Err(Error::Bug(format!(
                    "the scores of recipe {id} of `{}` differ from stored ones",
                    result.recipe.metric
                )));
            }
            if old.about == *about {
                self.renew(&id)?;
                return Ok(id);
            }
        }
        let path = self.path(&id);
        let mut file = disk::NewFile::create(&path)?;
        write(result, about, &mut file).map_err(Error::io("write a result", &path))?;
        file.finish()?;
        Ok(id)
    }

    /// A result of this recipe with any metadata.
    pub fn same_recipe(&self, recipe: &Recipe, budget: &Budget) -> Result<Option<Reserved<Stored>>> {
        let prefix = format!("{}-", recipe.id()?);
        for id in self.ids()?.iter().filter(|id| id.starts_with(&prefix)) {
            if let Some(stored) = self.get(id, budget)? {
                return Ok(Some(stored));
            }
        }
        Ok(None)
    }

    /// A result by id; `None` if it is missing or damaged, so that it is computed again.
    pub fn get(&self, id: &str, budget: &Budget) -> Result<Option<Reserved<Stored>>> {
        // Other characters could lead out of the directory.
        if id.is_empty() || !id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-') {
            return Ok(None);
        }
        let path = self.path(id);
        let Some((read, memory)) = parse(&path, budget, |bytes| read(id, bytes).map(|stored| vec![stored]))? else {
            return Ok(None);
        };
        Ok(read.ok().and_then(|mut stored| stored.pop()).map(|stored| Reserved::new(stored, memory)))
    }

    /// Sets the time of a result to now, as if this run had written it. Results of other inputs under the same name
    /// become superseded.
    pub fn renew(&self, id: &str) -> Result<()> {
        let path = self.path(id);
        let now = fs::FileTimes::new().set_modified(SystemTime::now());
        let file = fs::File::options().append(true).open(&path);
        file.and_then(|file| file.set_times(now)).map_err(Error::io("mark a result as current", &path))
    }

    /// All valid results, in the order of file names.
    pub fn all(&self, budget: &Budget) -> Result<Reserved<Vec<Stored>>> {
        Ok(self.read_all(budget)?.0)
    }

    /// Reads all files one by one and keeps none: the number of valid results, and damaged files in the order of file
    /// names.
    pub fn check(&self, budget: &Budget) -> Result<(usize, Vec<Damaged>)> {
        let mut valid = 0;
        let damaged = self.visit(budget, |stored, _| {
            valid += stored.len();
            Ok(())
        })?;
        Ok((valid, damaged))
    }

    /// Valid results and damaged files, each in the order of file names.
    pub fn read_all(&self, budget: &Budget) -> Result<(Reserved<Vec<Stored>>, Vec<Damaged>)> {
        let (mut valid, mut memory) = (Vec::new(), budget.reserve(0, "results")?);
        let damaged = self.visit(budget, |stored, its_memory| {
            let bytes = memory.bytes() + its_memory.bytes();
            drop(its_memory);
            memory.resize(bytes, "results")?;
            valid.extend(stored);
            Ok(())
        })?;
        // A result may be in the archive twice: under its id, and in a file that a user has added.
        valid.sort_by(|one, two| (&one.id, one.written).cmp(&(&two.id, two.written)));
        valid.dedup_by(|one, two| one.id == two.id);
        Ok((Reserved::new(valid, memory), damaged))
    }

    /// Calls a function with the valid results of every file, and returns damaged files.
    fn visit(
        &self,
        budget: &Budget,
        mut keep: impl FnMut(Vec<Stored>, Reservation) -> Result<()>,
    ) -> Result<Vec<Damaged>> {
        let mut damaged = Vec::new();
        for id in self.ids()? {
            let file = self.path(&id);
            let values = |bytes: &[u8]| match is_id(&id) {
                true => read(&id, bytes).map(|stored| vec![stored]),
                false => read_values(bytes),
            };
            match parse(&file, budget, values)? {
                Some((Ok(stored), memory)) => keep(stored, memory)?,
                Some((Err(reason), _)) => damaged.push(Damaged { file, reason }),
                None => damaged.push(Damaged { file, reason: "the file was removed".into() }),
            }
        }
        Ok(damaged)
    }

    /// The number of result files and their size in bytes.
    pub fn size(&self) -> Result<(usize, u64)> {
        let ids = self.ids()?;
        let size = |id: &String| {
            let path = self.path(id);
            Ok(fs::metadata(&path).map_err(Error::io("read the size of a result", &path))?.len())
        };
        let bytes = ids.iter().map(size).sum::<Result<u64>>()?;
        Ok((ids.len(), bytes))
    }

    /// The ids of all result files, sorted.
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
            // Temporary files of a killed run begin with a dot.
            if let Some(id) = name.strip_suffix(".json").filter(|_| !name.starts_with('.')) {
                ids.push(id.to_string());
            }
        }
        ids.sort();
        Ok(ids)
    }
}

/// The results of a file, or how it is damaged.
type Parsed = Result<Vec<Stored>, String>;

/// Reads and parses a file, with the memory of what it contains; `None` if there is no such file.
fn parse(file: &Path, budget: &Budget, values: impl FnOnce(&[u8]) -> Parsed) -> Result<Option<(Parsed, Reservation)>> {
    let what = || format!("the result {}", file.display());
    // What is not a file has no length, and is refused when it is read.
    let length = fs::metadata(file).map_or(0, |about| if about.is_file() { about.len() } else { 0 });
    let mut memory = budget.reserve(length, what())?;
    let bytes = match disk::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Ok(Some((Err(error.to_string()), memory))),
        Err(error) => return Err(Error::io("read a result", file)(error)),
    };
    memory.resize(length + parsed_bytes(&bytes), what())?;
    let mut parsed = values(&bytes);
    drop(bytes);
    let written = written(file);
    parsed.iter_mut().flatten().for_each(|stored| stored.written = written);
    memory.resize(parsed.iter().flatten().map(Stored::bytes).sum(), what())?;
    Ok(Some((parsed, memory)))
}

/// The modification time of a file, if the system records it.
fn written(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|about| about.modified()).ok()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::results::{Interval, Profile, Recipe, Scores, Table};
    use serde_json::json;

    fn example(seed: u64) -> (ResultFile, Metadata) {
        let mut scores = Scores::default();
        scores.headline("match_score", Some(0.1 + 0.2), Some(Interval { low: 0.25, high: 0.4 }), 24);
        scores.note("a note with a line\nbreak and \"seconds\": 3,");
        scores.tables.push(Table::new("concept").words("name", ["ä", "b"]).numbers("f1", [Some(1.0 / 3.0), None]));
        // Read back as integers: JSON does not distinguish them.
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

    fn budget() -> Budget {
        Budget::new(1 << 20)
    }

    #[test]
    fn stored_results_can_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        assert!(archive.all(&budget()).unwrap().is_empty());
        let mut ids = Vec::new();
        for seed in 0..3 {
            let (result, about) = example(seed);
            let id = archive.put(&result, &about, &budget()).unwrap();
            let stored = archive.get(&id, &budget()).unwrap().unwrap();
            assert_eq!((content(&stored.result).unwrap(), &stored.about), (content(&result).unwrap(), &about));
            assert_eq!(stored.result.scores.headline, result.scores.headline);
            ids.push(id);
        }
        ids.sort();
        assert_eq!(archive.all(&budget()).unwrap().iter().map(|stored| stored.id.clone()).collect::<Vec<_>>(), ids);
        assert!(archive.get("00", &budget()).unwrap().is_none());
        assert!(archive.get("../../secret", &budget()).unwrap().is_none());
    }

    #[test]
    fn a_second_run_changes_nothing_and_different_scores_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let (mut result, mut about) = example(0);
        let id = archive.put(&result, &about, &budget()).unwrap();
        let before = fs::read(archive.path(&id)).unwrap();
        result.seconds = 99.0;
        archive.put(&result, &about, &budget()).unwrap();
        assert_eq!(fs::read(archive.path(&id)).unwrap(), before);
        about.insert("group".into(), json!("new"));
        archive.put(&result, &about, &budget()).unwrap();
        assert_eq!(archive.get(&id, &budget()).unwrap().unwrap().about["group"], json!("new"));
        about.insert("latents".into(), json!(1024));
        assert_ne!(archive.put(&result, &about, &budget()).unwrap(), id);
        about.insert("inputs".into(), json!("another name"));
        let other = archive.put(&result, &about, &budget()).unwrap();
        assert_ne!(other, id);
        assert_eq!(archive.same_recipe(&result.recipe, &budget()).unwrap().unwrap().result.recipe, result.recipe);
        result.scores.headline[0].value = Some(0.9);
        assert!(matches!(archive.put(&result, &about, &budget()), Err(Error::Bug(_))));
    }

    #[test]
    fn a_renewed_result_is_newer_and_the_same() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let ids = [0, 1].map(|seed| {
            let (result, about) = example(seed);
            archive.put(&result, &about, &budget()).unwrap()
        });
        let get = |id: &str| archive.get(id, &budget()).unwrap().unwrap();
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
    fn a_flipped_bit_is_detected_unless_it_is_in_the_time() {
        let (result, about) = example(0);
        let stored = Stored::new(result, about).unwrap();
        let bytes = stored.to_text().unwrap().into_bytes();
        for index in 0..bytes.len() {
            for bit in 0..8 {
                let mut wrong = bytes.clone();
                wrong[index] ^= 1 << bit;
                if let Ok(mut other) = read(&stored.id, &wrong) {
                    other.result.seconds = stored.result.seconds;
                    assert_eq!(other.to_text().unwrap().as_bytes(), bytes, "byte {index}, bit {bit}");
                }
            }
        }
        for length in 0..bytes.len() {
            assert!(read(&stored.id, &bytes[..length]).is_err(), "cut at {length}");
        }
    }

    #[test]
    fn damaged_files_are_listed_and_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let (result, about) = example(0);
        let id = archive.put(&result, &about, &budget()).unwrap();
        let good = fs::read_to_string(archive.path(&id)).unwrap();
        fs::write(archive.path(&id), good.replace("512", "513")).unwrap();
        let other = format!("{}-00000000", "0a".repeat(16));
        fs::write(archive.path(&other), &good).unwrap();
        fs::write(archive.results.join(".half.json.1-0.tmp"), "{").unwrap();
        assert!(archive.get(&id, &budget()).unwrap().is_none());
        let (_, damaged) = archive.check(&budget()).unwrap();
        assert!(archive.all(&budget()).unwrap().is_empty());
        assert_eq!(damaged.len(), 2);
        assert_eq!(damaged[0].reason, "the file name does not match the recipe");
        assert_eq!(damaged[1].reason, "wrong checksum");
        archive.put(&result, &about, &budget()).unwrap();
        assert_eq!(fs::read_to_string(archive.path(&id)).unwrap(), good);
    }

    #[test]
    fn results_in_files_with_other_names_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let stored: Vec<Stored> =
            (0..3).map(example).map(|(result, about)| Stored::new(result, about).unwrap()).collect();
        let json: Vec<serde_json::Value> = stored.iter().map(|stored| serde_json::to_value(stored).unwrap()).collect();
        fs::create_dir_all(&archive.results).unwrap();
        fs::write(archive.results.join("one.json"), format!("{:#}", json[0])).unwrap();
        fs::write(archive.results.join("more.json"), serde_json::to_string(&json[1..]).unwrap()).unwrap();
        // The same result once more, under its id.
        archive.put(&stored[0].result, &stored[0].about, &budget()).unwrap();
        let mut expected: Vec<&String> = stored.iter().map(|stored| &stored.id).collect();
        expected.sort();
        let (found, damaged) = archive.read_all(&budget()).unwrap();
        assert_eq!((found.iter().map(|stored| &stored.id).collect::<Vec<_>>(), damaged.len()), (expected, 0));
        assert_eq!(archive.size().unwrap().0, 3);
        let text = json[0].to_string();
        for wrong in [text.replace("\"seed\":0", "\"seed\":1"), text.replace("\"check\"", "\"checked\"")] {
            fs::write(archive.results.join("one.json"), wrong).unwrap();
            assert_eq!(archive.check(&budget()).unwrap().1.len(), 1);
        }
    }

    #[test]
    fn a_file_instead_of_a_directory_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Archive::open(file.path()).unwrap_err().is_input());
    }

    #[test]
    fn memory_of_results_is_reserved() {
        let directory = tempfile::tempdir().unwrap();
        let archive = Archive::open(directory.path()).unwrap();
        let (mut result, about) = example(0);
        let cells = (0..10_000).map(|row| (row % 3 == 0).then_some(f64::from(row) / 7.0));
        result.scores.tables = vec![Table::new("latent").numbers("score", cells)];
        archive.put(&result, &about, &Budget::new(0)).unwrap();
        // A cell has 16 bytes.
        let large = Budget::new(10 << 20);
        let (results, _) = archive.read_all(&large).unwrap();
        let used = (10 << 20) - large.left();
        assert!((160_000..164_000).contains(&used), "{used}");
        assert!(large.peak() > used);
        drop(results);
        assert_eq!(archive.check(&large).unwrap().0, 1);
        assert_eq!(large.left(), 10 << 20);
        let error = archive.read_all(&Budget::new(100_000)).unwrap_err();
        assert!(error.is_input() && error.to_string().contains("the result"), "{error}");
    }
}
