//! Reads a study file, `STUDY.toml`.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::folder::{dictionaries, folder_of, other_seeds};
use super::grid::Set;
use crate::context::Context;
use crate::error::{Error, InFile, InputError, Key, Result, Size};
use crate::input;
use crate::load::{CapturedInputs, Given, NetworkSource, Opening, setting_text};
use crate::metrics::{self, METRICS, Metric};
use crate::results::Profile;
use crate::run::OTHERS;

/// The maximum size of a study file in bytes.
const MAX_BYTES: u64 = 16 << 20;

/// The format of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Written {
    title: Option<String>,
    out: Option<PathBuf>,
    #[serde(default)]
    profile: Profile,
    #[serde(default = "one_seed")]
    seeds: Vec<u64>,
    metrics: Vec<String>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    params: BTreeMap<String, BTreeMap<String, toml::Value>>,
    #[serde(default)]
    inputs: Given,
    #[serde(rename = "set", default)]
    sets: Vec<toml::Table>,
}

/// A command that makes inputs of the study: words separated by spaces, or a list of words.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Step {
    Text(String),
    Words(Vec<String>),
}

/// A `[[set]]`: its name, metadata for reports, its metrics if not all of the study, and values of roles as in `[inputs]`.
struct WrittenSet {
    name: String,
    metrics: Option<Vec<String>>,
    about: BTreeMap<String, serde_json::Value>,
    given: Given,
}

impl WrittenSet {
    /// One set, or one for every dictionary of a folder (`sae = "saes/*"`), named after the dictionary. With `pair_seeds`,
    /// it is compared with the dictionaries of the folder that differ only in their seed.
    fn read(mut table: toml::Table, base: &Path, pair_seeds: bool) -> Result<Vec<WrittenSet>> {
        let folder = table.get("sae").and_then(toml::Value::as_str).and_then(folder_of).map(String::from);
        let name = match table.remove("name") {
            Some(toml::Value::String(name)) => name,
            None if folder.is_some() => String::new(),
            _ => {
                return Err(InputError::new("a set has no name")
                    .at("table `[[set]]`")
                    .advice("add name = \"…\"")
                    .into());
            }
        };
        let wrong = |error: toml::de::Error| {
            InputError::new(format!("the set `{name}` is invalid")).found(error.message().trim())
        };
        let about: BTreeMap<String, serde_json::Value> =
            table.remove("about").map(toml::Value::try_into).transpose().map_err(wrong)?.unwrap_or_default();
        let metrics: Option<Vec<String>> =
            table.remove("metrics").map(toml::Value::try_into).transpose().map_err(wrong)?;
        let given: Given = toml::Value::Table(table).try_into().map_err(wrong)?;
        let Some(folder) = folder else { return Ok(vec![WrittenSet { name, metrics, about, given }]) };
        let all = dictionaries(&base.join(&folder))?;
        let others = OTHERS.card().key;
        let pair_seeds = pair_seeds && !given.has(others);
        let one = |dictionary: &String| WrittenSet {
            name: format!("{name} {dictionary}").trim().into(),
            metrics: metrics.clone(),
            about: about.clone(),
            given: {
                let mut given = given.clone();
                given.set("sae", format!("{folder}{dictionary}"));
                for other in other_seeds(dictionary, &all).filter(|_| pair_seeds) {
                    given.add(others, format!("{folder}{other}"));
                }
                given
            },
        };
        Ok(all.iter().map(one).collect())
    }
}

fn one_seed() -> Vec<u64> {
    vec![0]
}

/// A checked study; paths are relative to the file it was read from.
pub struct Study {
    /// The title of the report.
    pub title: String,
    /// The results directory.
    pub out: PathBuf,
    /// The published definitions, or the numbers of the released programs.
    pub profile: Profile,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Metrics, each with its given parameters.
    pub metrics: Vec<(&'static dyn Metric, BTreeMap<String, String>)>,
    sets: Vec<StudySet>,
    base: PathBuf,
    capture: Option<CaptureFor>,
}

/// A set of a study.
struct StudySet {
    name: String,
    given: Given,
    about: BTreeMap<String, serde_json::Value>,
    /// Indices of its metrics.
    metrics: Vec<usize>,
}

/// Captures the activations of a set of a study. Gets the network, whose paths are relative to the directory, and what else
/// the set gives.
pub type CaptureFor = Box<dyn Fn(&NetworkSource, &Path, &Given) -> Result<CapturedInputs> + Send + Sync>;

impl Study {
    /// The commands that make the inputs of a study, each as its words.
    pub fn steps(file: &Path) -> Result<Vec<Vec<String>>> {
        let words = |step: Step| match step {
            Step::Text(text) => text.split_whitespace().map(String::from).collect(),
            Step::Words(words) => words,
        };
        Ok(Study::written(file)?.steps.into_iter().map(words).collect())
    }

    /// Parses a study file.
    fn written(file: &Path) -> Result<Written> {
        let (mut opened, length) = input::open_regular(file)?;
        if length > MAX_BYTES {
            return Err(InputError::new("the file is too large for a study")
                .expected(format!("at most {}", Size(MAX_BYTES)))
                .found(Size(length))
                .file(file)
                .into());
        }
        let mut text = String::new();
        opened.read_to_string(&mut text).map_err(|error| match error.kind() {
            ErrorKind::InvalidData => {
                InputError::new("the study is not UTF-8 text").advice("save it as UTF-8").file(file).into()
            }
            _ => Error::io("read the study", file)(error),
        })?;
        toml::from_str(&text).map_err(|error| {
            let line = error.span().map(|span| 1 + text.bytes().take(span.start).filter(|&byte| byte == b'\n').count());
            let invalid = InputError::new("the study is invalid").found(error.message().trim()).file(file);
            match line {
                Some(line) => invalid.at(format!("line {line}")).into(),
                None => invalid.into(),
            }
        })
    }

    /// Reads and checks a study file.
    pub fn read(file: &Path) -> Result<Study> {
        let written = Study::written(file)?;
        let base = file.parent().map(Path::to_path_buf).unwrap_or_default();
        let stem = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let wrong = |what: String| InputError::new(what).file(file);
        let mut chosen = Vec::new();
        for name in &written.metrics {
            let metric = metrics::find(name).ok_or_else(|| {
                let known: Vec<&str> = METRICS.iter().map(|metric| metric.card().name).collect();
                wrong(format!("there is no metric `{name}`")).one_of(name, &known).at("key `metrics`")
            })?;
            let given = written.params.get(name).map(given_params).unwrap_or_default();
            metric.card().params(written.profile, &given).in_file(file)?;
            if chosen.iter().any(|(other, _): &(&dyn Metric, _)| other.card().name == name) {
                return Err(wrong(format!("the metric `{name}` is named twice")).at("key `metrics`").into());
            }
            chosen.push((metric, given));
        }
        if let Some(name) = written.params.keys().find(|name| !written.metrics.contains(name)) {
            return Err(wrong(format!("parameters for `{name}`, which the study does not evaluate"))
                .at(format!("table `[params.{name}]`"))
                .advice(format!("add \"{name}\" to `metrics`, or delete the table"))
                .into());
        }
        let compares =
            |(metric, _): &(&dyn Metric, _)| metric.card().roles().iter().any(|r| r.card().key == OTHERS.card().key);
        let pair_seeds = chosen.iter().any(compares) && !written.inputs.has(OTHERS.card().key);
        let sets = written.sets.into_iter().map(|set| WrittenSet::read(set, &base, pair_seeds));
        let sets: Vec<WrittenSet> = sets.collect::<Result<Vec<_>>>().in_file(file)?.into_iter().flatten().collect();
        let mut names: Vec<&String> = sets.iter().map(|set| &set.name).collect();
        names.sort();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(wrong(format!("two sets are called `{}`", pair[0]))
                .advice("give every set its own name")
                .into());
        }
        if sets.is_empty() || written.seeds.is_empty() || written.metrics.is_empty() {
            return Err(wrong("the study is empty".into())
                .expected("at least one metric, one seed and one [[set]]")
                .into());
        }
        let mut checked = Vec::new();
        for WrittenSet { name, metrics, about, given } in sets {
            let metrics = match metrics {
                None => (0..chosen.len()).collect(),
                Some(names) => indices(&names, &written.metrics)
                    .map_err(|error| error.at(format!("key `metrics` of the set `{name}`")).file(file))?,
            };
            checked.push(StudySet { name, given: given.or(&written.inputs), about, metrics });
        }
        let sets = checked;
        for StudySet { name, given, .. } in &sets {
            let checked = given.network().map_err(|error| match error {
                Error::Input(error) => error.at(format!("set `{name}`")).into(),
                other => other,
            });
            checked.in_file(file)?;
        }
        Ok(Study {
            title: written.title.unwrap_or_else(|| stem.clone()),
            out: base.join(written.out.unwrap_or_else(|| PathBuf::from(format!("{stem}-results")))),
            profile: written.profile,
            seeds: written.seeds,
            metrics: chosen,
            sets,
            base,
            capture: None,
        })
    }

    /// Captures activations with a function, where sets name a network instead of embeddings.
    #[must_use]
    pub fn with_networks(mut self, capture: CaptureFor) -> Study {
        self.capture = Some(capture);
        self
    }

    /// The names of the sets.
    pub fn sets(&self) -> impl Iterator<Item = &str> {
        self.sets.iter().map(|set| set.name.as_str())
    }

    /// The metrics that are evaluated on a set, as indices of [`Study::metrics`].
    pub fn metrics_of(&self, set: usize) -> impl Iterator<Item = usize> {
        self.sets.get(set).into_iter().flat_map(|set| set.metrics.iter().copied())
    }

    /// Loads the inputs of a set. Also returns [`Opened::messages`](crate::load::Opened::messages).
    pub fn load(&self, index: usize, context: &Context) -> Result<(Set, Vec<String>)> {
        let StudySet { name, given, about, .. } =
            self.sets.get(index).ok_or_else(|| Error::Bug(format!("no set number {index}")))?;
        let given = match (given.network()?, &self.capture) {
            (None, _) => given.clone(),
            (Some(source), Some(capture)) => given.clone().captured(&capture(&source, &self.base, given)?),
            (Some(_), None) => {
                return Err(InputError::new("this program has no networks")
                    .advice(format!("give {} instead", Key("embeddings")))
                    .into());
            }
        };
        let opened = given.open(&Opening::at(&self.base), context)?;
        let messages = opened.messages();
        let mut set = Set::new(name, opened.inputs);
        set.about.extend(about.clone());
        Ok((set, messages))
    }
}

/// The indices of the metrics of a set among those of the study, in the order of the study.
fn indices(names: &[String], known: &[String]) -> std::result::Result<Vec<usize>, Box<InputError>> {
    if let Some(name) = names.iter().find(|name| !known.contains(name)) {
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        return Err(InputError::new(format!("the study does not evaluate `{name}`")).one_of(name, &known).into());
    }
    Ok((0..known.len()).filter(|index| names.contains(&known[*index])).collect())
}

/// Parameters as strings, as on the command line.
fn given_params(table: &BTreeMap<String, toml::Value>) -> BTreeMap<String, String> {
    table.iter().map(|(name, value)| (name.replace('-', "_"), setting_text(value))).collect()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::Map;

    use super::*;
    use crate::sae::{Activation, Linear, Normalisation, Parts, checkpoint};

    /// Writes a dictionary with one latent.
    fn save_neuron(directory: &Path) {
        let neuron = Linear::new(Parts {
            arch: "identity".into(),
            encoder: vec![1.0],
            encoder_bias: vec![0.0],
            decoder: vec![1.0],
            bias: vec![0.0],
            subtract_bias: false,
            input: Normalisation::None,
            activation: Activation::Signed,
        });
        checkpoint::save(&neuron.unwrap(), &Map::new(), "etalon", directory).unwrap();
    }

    #[test]
    fn every_dictionary_of_a_folder_is_a_set() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["b", "a"] {
            save_neuron(&scratch.path().join("saes").join(name));
        }
        let file = scratch.path().join("study.toml");
        let text = "metrics = [\"core\"]\n[inputs]\nembeddings = \"x.npy\"\n[[set]]\nsae = \"saes/*\"\n[[set]]\nname = \"again\"\nsae = \"saes/*\"\n";
        fs::write(&file, text).unwrap();
        let study = Study::read(&file).unwrap();
        assert_eq!(study.sets().collect::<Vec<_>>(), ["a", "b", "again a", "again b"]);
        assert_eq!(study.sets[0].given.first("sae"), Some("saes/a"));
        fs::write(&file, text.replace("saes/*", "none/*")).unwrap();
        assert!(Study::read(&file).is_err());
    }

    #[test]
    fn sets_choose_metrics_and_steps_are_words() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("study.toml");
        let text = "metrics = [\"core\", \"mdl\"]\nsteps = [\"data words  --out a\", [\"train\", \"--out\", \"b c\"]]\n\
            [[set]]\nname = \"a\"\ncodes = \"x.npy\"\n[[set]]\nname = \"b\"\ncodes = \"x.npy\"\nmetrics = [\"mdl\"]\n";
        fs::write(&file, text).unwrap();
        assert_eq!(Study::steps(&file).unwrap(), [vec!["data", "words", "--out", "a"], vec!["train", "--out", "b c"]]);
        let study = Study::read(&file).unwrap();
        let cells: Vec<String> = study.cells().iter().map(ToString::to_string).collect();
        assert_eq!(cells, ["a:core:0", "a:mdl:0", "b:mdl:0"]);
        fs::write(&file, text.replace("[\"mdl\"]", "[\"mld\"]")).unwrap();
        let error = Study::read(&file).map(drop).unwrap_err().to_string();
        assert!(error.contains("does not evaluate `mld`") && error.contains("set `b`"), "{error}");
    }

    #[test]
    fn seeds_of_a_folder_are_compared() {
        let scratch = tempfile::tempdir().unwrap();
        for name in ["pca-seed0", "pca-seed1", "pca-seed12", "other"] {
            save_neuron(&scratch.path().join("saes").join(name));
        }
        let file = scratch.path().join("study.toml");
        let text = "metrics = [\"stability\"]\n[[set]]\nsae = \"saes/*\"\n";
        let others = |text: &str| {
            fs::write(&file, text).unwrap();
            let study = Study::read(&file).unwrap();
            study.sets.iter().map(|set| set.given.get("other").cloned().collect()).collect::<Vec<Vec<String>>>()
        };
        let found = others(text);
        // other, pca-seed0, pca-seed1, pca-seed12
        assert_eq!(found[0], [""; 0]);
        assert_eq!(found[1], ["saes/pca-seed1", "saes/pca-seed12"]);
        assert_eq!(found[2], ["saes/pca-seed0", "saes/pca-seed12"]);
        // Given ones are kept; other metrics need none.
        assert_eq!(others(&format!("{text}other = [\"saes/other\"]\n"))[1], ["saes/other"]);
        let inputs = text.replace("[[set]]", "[inputs]\nother = [\"saes/other\"]\n[[set]]");
        assert_eq!(others(&inputs)[1], ["saes/other"]);
        assert!(others(&text.replace("stability", "core")).concat().is_empty());
    }
}
