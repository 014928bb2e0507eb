//! Worlds and data sets as directories that every other command reads.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::Given;
use crate::context::{Budget, Context};
use crate::error::{Error, InputError, Result};
use crate::labels::worlds::{Planted, World};
use crate::labels::{DataSet, first_letter_prompts, read_coco, read_cub, read_syncoco, read_syncub, read_words};
use crate::store::{ActivationStore, ImportOptions, csv_text, disk, import};

/// Writes a world: activations, true codes and directions, labels, pairs, generators (`generated/NAME`, with what was
/// planted in `planted.csv`), and last `world.json`.
pub fn save_world(
    world: &World,
    given: &BTreeMap<String, String>,
    seed: u64,
    out: &Path,
    context: &Context,
) -> Result<()> {
    claim(out)?;
    let store = |name: &str, store: &ActivationStore| {
        import(&mut store.reader(), &out.join(name), &ImportOptions::default(), context).map(|_| ())
    };
    let mut tables = BTreeMap::new();
    let mut table = |name: &'static str, text: String| {
        tables.insert(name, format!("blake3:{}", blake3::hash(text.as_bytes()).to_hex()));
        disk::write(&out.join(name), text.as_bytes())
    };
    store("activations", &world.activations)?;
    world.codes.save(&out.join("codes"))?;
    table("labels.csv", world.labels.to_csv(None)?)?;
    if let Some(directions) = &world.directions {
        store("directions", directions)?;
    }
    if let Some(pairs) = &world.pairs {
        table("pairs.csv", pairs.to_csv(Some(world.labels.names()))?)?;
    }
    if let Some(activations) = &world.pair_activations {
        store("pair-activations", activations)?;
    }
    if let Some(codes) = &world.pair_codes {
        codes.save(&out.join("pair-codes"))?;
    }
    if let Some(labels) = &world.pair_labels {
        table("pair-labels.csv", labels.to_csv(None)?)?;
    }
    let mut planted = vec![["model", "feature", "planted"].map(String::from)];
    for made in &world.generated {
        let below = format!("{GENERATED_PART}/{}", made.name);
        store(&format!("{below}/activations"), &made.activations)?;
        made.codes.save(&out.join(below).join("codes"))?;
        let record =
            |(feature, planted): &(u32, Planted)| [made.name.clone(), feature.to_string(), planted.name().to_string()];
        planted.extend(made.planted.iter().map(record));
    }
    if !world.generated.is_empty() {
        table("planted.csv", csv_text(planted)?)?;
    }
    let parts = STORES.iter().filter(|name| out.join(name).is_dir()).collect::<Vec<_>>();
    let about = json!({
        "world": world.name, "settings": given, "seed": seed, "rows": world.activations.rows(),
        "parts": parts, "tables": tables,
    });
    disk::write(&out.join(ABOUT), format!("{about:#}\n").as_bytes())
}

/// The part of a world below which every generator has a directory.
pub const GENERATED_PART: &str = "generated";

/// The world's files for everything that is not given. True codes are not taken as codes under test.
pub(super) fn complete(given: &Given, base: &Path) -> Result<Given> {
    let Some(world) = given.first("world") else { return Ok(given.clone()) };
    let directory = base.join(world);
    let mut found = Given::default().with("truth", world);
    let mut part = |key: &str, name: &str| {
        if directory.join(name).exists() {
            found.add(key, format!("{world}/{name}"));
        }
    };
    part("embeddings", "activations");
    part("labels", "labels.csv");
    part("pair-embeddings", "pair-activations");
    part("pair-labels", "pair-labels.csv");
    // They point into rows of their own, of which somebody has to bring the codes.
    if given.has("pair-codes") || given.has("sae") {
        part("pairs", "pairs.csv");
    }
    // The true codes of a world are not of the latents under test; activations can be encoded.
    if given.has("sae") {
        for name in generators(&directory)? {
            found.add("generated", format!("{name}={world}/{GENERATED_PART}/{name}/activations"));
        }
    }
    Ok(given.clone().or(&found))
}

/// The names of the generators of a world.
fn generators(directory: &Path) -> Result<Vec<String>> {
    let below = directory.join(GENERATED_PART);
    if !below.is_dir() {
        return Ok(Vec::new());
    }
    let failed = |error| Error::io("list the generators of a world", &below)(error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&below).map_err(failed)? {
        let entry = entry.map_err(|error| Error::io("list the generators of a world", &below)(error))?;
        if entry.path().join("activations").is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// What says that a world is whole.
const ABOUT: &str = "world.json";

/// The parts of a world that are directories, the first of which is written first.
const STORES: [&str; 6] = ["activations", "codes", "directions", "pair-activations", "pair-codes", GENERATED_PART];

/// The parts of a world that are tables.
const TABLES: [&str; 4] = ["labels.csv", "pairs.csv", "pair-labels.csv", "planted.csv"];

/// Makes sure that a world is written where nothing is, or where it was begun.
fn claim(out: &Path) -> Result<()> {
    let taken = |found: String| {
        InputError::new("the world needs a directory of its own")
            .expected("a new or empty directory, or the same world, begun earlier")
            .found(found)
            .advice("choose another directory")
            .file(out)
    };
    if !out.exists() {
        return Ok(());
    }
    if !out.is_dir() {
        return Err(taken("a file".into()).into());
    }
    let begun = out.join(STORES[0]).is_dir();
    for entry in std::fs::read_dir(out).map_err(Error::io("list a directory", out))? {
        let name = entry.map_err(Error::io("list a directory", out))?.file_name().to_string_lossy().into_owned();
        let ours = STORES.contains(&name.as_str()) || TABLES.contains(&name.as_str()) || name == ABOUT;
        if !(begun && (ours || name.ends_with(".tmp"))) {
            return Err(taken(format!("`{name}`")).into());
        }
    }
    Ok(())
}

/// Checks that every part of a world is there, and every byte of its tables. How many files and bytes that was.
pub fn verify_tables(directory: &Path) -> Result<(usize, u64)> {
    let path = directory.join(ABOUT);
    let about = std::fs::read(&path).map_err(Error::io("read a world", &path))?;
    let damaged = |what: &str| InputError::new(what).advice("delete the world and make it again");
    let about: Written = serde_json::from_slice(&about)
        .map_err(|error| damaged("the description of a world is damaged").found(error).file(&path))?;
    for name in STORES.iter().filter(|name| about.parts.iter().any(|part| part == *name)) {
        if !directory.join(name).is_dir() {
            return Err(damaged("a part of a world is missing").file(&directory.join(name)).into());
        }
    }
    let (mut files, mut bytes) = (1, 0);
    for name in TABLES {
        let Some(expected) = about.tables.get(name) else { continue };
        let table = directory.join(name);
        let text = std::fs::read(&table).map_err(Error::io("read a table of a world", &table))?;
        let found = format!("blake3:{}", blake3::hash(&text).to_hex());
        if found != *expected {
            return Err(damaged("a table of a world is damaged").expected(expected).found(found).file(&table).into());
        }
        (files, bytes) = (files + 1, bytes + text.len() as u64);
    }
    Ok((files, bytes))
}

/// What a world says of its parts.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default)]
    tables: BTreeMap<String, String>,
}

/// What a conversion wrote.
pub struct Converted {
    /// How many images it names.
    pub images: usize,
    /// How many concepts it has.
    pub concepts: usize,
    /// What the loader noticed.
    pub notes: Vec<String>,
}

/// Converts a data set to `labels.csv` (first column `image`), and where it has them `pairs.csv` and `splits.csv`.
pub fn convert_data_set(name: &str, from: &Path, out: &Path, seed: u64, budget: &Budget) -> Result<Converted> {
    if out.exists() && !out.is_dir() {
        return Err(InputError::new("the output is a directory").found("a file of that name").file(out).into());
    }
    let data: DataSet = match name {
        "cub" => read_cub(from, 0, budget)?,
        "coco" => read_coco(from, budget)?,
        "syncub" => read_syncub(from, budget)?,
        "syncoco" => read_syncoco(from, budget)?,
        "words" => read_words(from, budget)?,
        other => return Err(Error::Bug(format!("no loader for `{other}`"))),
    };
    if out.join("labels.csv").exists() {
        return Err(InputError::new("there is a data set already").advice("name another directory").file(out).into());
    }
    let write = |name: &str, text: String| {
        let path = out.join(name);
        match std::fs::read(&path) {
            // What an earlier run began is taken over; anything else is not ours.
            Ok(there) if there == text.as_bytes() => Ok(()),
            Ok(_) => Err(InputError::new("there is another file of that name")
                .advice("name another directory")
                .file(&path)
                .into()),
            Err(_) => disk::write(&path, text.as_bytes()),
        }
    };
    if let Some(pairs) = &data.pairs {
        write("pairs.csv", pairs.to_csv(Some(data.labels.names()))?)?;
    }
    if name == "words" {
        let prompts = first_letter_prompts(&data.images, seed);
        let line = |(word, prompt): (&String, &String)| format!("{}\n", json!({"word": word, "prompt": prompt}));
        write("prompts.jsonl", data.images.iter().zip(&prompts).map(line).collect())?;
    }
    if let Some(splits) = &data.splits {
        write("splits.csv", splits.to_csv(&data.images)?)?;
    }
    // Last, because its presence says that the rest is there.
    write("labels.csv", data.labels.to_csv(Some(&data.images))?)?;
    Ok(Converted { images: data.images.len(), concepts: data.labels.concepts(), notes: data.notes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Opening;
    use crate::run::GENERATED;
    use crate::sae::{checkpoint, untrained};

    #[test]
    fn generators_are_saved_and_found_again() {
        let given = [("rows", "40"), ("features", "12"), ("width", "8"), ("active", "3"), ("planted", "2")]
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let (given, context) = (BTreeMap::from(given), Context::silent(1, 1 << 26).unwrap());
        let world = crate::labels::worlds::make("blindspots", &given, 1, context.budget()).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("world");
        // Twice: what is there already is taken over.
        for _ in 0..2 {
            save_world(&world, &given, 1, &out, &context).unwrap();
        }
        verify_tables(&out).unwrap();
        assert!(std::fs::read_to_string(out.join("planted.csv")).unwrap().contains("model_1,"));
        // Named as codes they are read as they are.
        let codes = Given::default().with("codes", "world/codes").with("generated", "a=world/generated/model_2/codes");
        let opening = Opening::at(scratch.path());
        let inputs = codes.open(&opening, &context).unwrap().inputs;
        assert_eq!(inputs.find(&GENERATED).unwrap().codes.id().unwrap(), world.generated[1].codes.id().unwrap());
        // With a dictionary the world brings the activations of all of them.
        let dictionary = untrained(&world.activations, 20, 3, 0).unwrap();
        checkpoint::save(&dictionary, &serde_json::Map::new(), "etalon", &scratch.path().join("sae")).unwrap();
        let given = Given::default().with("sae", "sae").with("world", "world");
        let inputs = given.open(&opening, &context).unwrap().inputs;
        let all: Vec<_> = inputs.all(&GENERATED).collect();
        assert_eq!(all.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["model_1", "model_2"]);
        assert_eq!((all[0].1.codes.rows(), all[0].1.codes.latents()), (40, 20));
        std::fs::remove_dir_all(out.join("generated")).unwrap();
        assert!(verify_tables(&out).unwrap_err().to_string().contains("missing"));
    }
}
