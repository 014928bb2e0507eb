//! Directories of worlds: writing them, using them as inputs, and verifying them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::json;

use super::Given;
use crate::context::Context;
use crate::error::{Error, InputError, Result};
use crate::labels::worlds::{Planted, World};
use crate::store::{ActivationStore, ImportOptions, disk, import, write_csv};

/// Writes a world: activations, images, factors, true codes and directions, labels, task labels, pairs, generators (`generated/NAME`, with their
/// planted faults in `planted.csv`), and last `world.json`, which marks the directory as complete.
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
    let mut noted = |name: &'static str, hash: blake3::Hash| {
        tables.insert(name, format!("blake3:{}", hash.to_hex()));
    };
    let path = |name: &str| out.join(name);
    store("activations", &world.activations)?;
    context.check()?;
    world.codes.save(&out.join("codes"))?;
    for (name, images) in [(IMAGES, &world.images), (PAIR_IMAGES, &world.pair_images)] {
        // Worlds without factors have images to look at only.
        if let Some(images) = images.as_ref().filter(|_| world.factors.is_some()) {
            let rows = images.pixels.len() / (3 * images.width * images.height).max(1);
            let bytes = npy_bytes(&[rows, images.height, images.width, 3], &images.pixels);
            disk::write(&path(name), &bytes)?;
            noted(name, blake3::hash(&bytes));
        }
    }
    noted("labels.csv", write_csv(&path("labels.csv"), world.labels.csv_records(None)?, context)?);
    if let Some(factors) = &world.factors {
        noted("factors.csv", write_csv(&path("factors.csv"), factors.csv_records(), context)?);
    }
    if let Some(classes) = &world.classes {
        let cells = classes.iter().map(|class| [class.to_string()]);
        let records = std::iter::once(["task".to_string()]).chain(cells);
        noted("task-labels.csv", write_csv(&path("task-labels.csv"), records, context)?);
    }
    if !world.weak_pairs.is_empty() {
        let cells = world.weak_pairs.iter().map(|pair| pair.map(|row| row.to_string()));
        let records = std::iter::once(["before", "after"].map(String::from)).chain(cells);
        noted("weak-pairs.csv", write_csv(&path("weak-pairs.csv"), records, context)?);
    }
    if let Some(directions) = &world.directions {
        store("directions", directions)?;
    }
    if let Some(pairs) = &world.pairs {
        let records = pairs.csv_records(Some(world.labels.names()));
        noted("pairs.csv", write_csv(&path("pairs.csv"), records, context)?);
    }
    if let Some(activations) = &world.pair_activations {
        store("pair-activations", activations)?;
    }
    if let Some(codes) = &world.pair_codes {
        codes.save(&out.join("pair-codes"))?;
    }
    if let Some(labels) = &world.pair_labels {
        noted("pair-labels.csv", write_csv(&path("pair-labels.csv"), labels.csv_records(None)?, context)?);
    }
    let mut planted = vec![["model", "feature", "planted"].map(String::from)];
    for generator in &world.generated {
        let folder = format!("{GENERATED_PART}/{}", generator.name);
        store(&format!("{folder}/activations"), &generator.activations)?;
        generator.codes.save(&out.join(folder).join("codes"))?;
        let record = |(feature, planted): &(u32, Planted)| {
            [generator.name.clone(), feature.to_string(), planted.name().to_string()]
        };
        planted.extend(generator.planted.iter().map(record));
    }
    if !world.generated.is_empty() {
        noted("planted.csv", write_csv(&path("planted.csv"), planted, context)?);
    }
    let parts = STORES.iter().filter(|name| out.join(name).is_dir()).collect::<Vec<_>>();
    let about = json!({
        "world": world.name, "settings": given, "seed": seed, "rows": world.activations.rows(),
        "parts": parts, "tables": tables,
    });
    disk::write(&out.join(ABOUT), format!("{about:#}\n").as_bytes())
}

/// The folder of a world that has a directory per generator.
pub const GENERATED_PART: &str = "generated";

/// Fills roles without a value from the world, if one is given. The true codes of the world are never the codes under
/// test.
pub(super) fn complete(given: &Given, base: &Path) -> Result<Given> {
    let Some(world) = given.first("world") else { return Ok(given.clone()) };
    let directory = base.join(world);
    let mut of_world = Given::default().with("truth", world);
    let mut part = |key: &str, name: &str| {
        if directory.join(name).exists() {
            of_world.add(key, format!("{world}/{name}"));
        }
    };
    part("embeddings", "activations");
    part("labels", "labels.csv");
    // Factors take the place of labels in metrics of classes: given labels are meant.
    if !given.has("labels") {
        part("factors", "factors.csv");
    }
    part("task-labels", "task-labels.csv");
    part("pair-embeddings", "pair-activations");
    part("pair-labels", "pair-labels.csv");
    // Pairs point into the pair rows, so they can be used only if those have codes.
    if given.has("pair-codes") || given.has("sae") {
        part("pairs", "pairs.csv");
    }
    // The codes of the generators are true codes too; with a dictionary, their activations are encoded.
    if given.has("sae") {
        for name in generators(&directory)? {
            of_world.add("generated", format!("{name}={world}/{GENERATED_PART}/{name}/activations"));
        }
    }
    Ok(given.clone().or(&of_world))
}

/// The names of the generators of a world.
fn generators(directory: &Path) -> Result<Vec<String>> {
    let folder = directory.join(GENERATED_PART);
    if !folder.is_dir() {
        return Ok(Vec::new());
    }
    let mut names = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(Error::io("list the generators of a world", &folder))? {
        let entry = entry.map_err(Error::io("list the generators of a world", &folder))?;
        if entry.path().join("activations").is_dir() {
            names.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// The description of a world, written last: its presence marks the world as complete.
const ABOUT: &str = "world.json";

/// The directories of a world. The first one is written first.
const STORES: [&str; 6] = ["activations", "codes", "directions", "pair-activations", "pair-codes", GENERATED_PART];

/// The files of a world whose bytes are verified.
const FILES: [&str; 9] = [
    "labels.csv",
    "pairs.csv",
    "pair-labels.csv",
    "planted.csv",
    "factors.csv",
    "task-labels.csv",
    "weak-pairs.csv",
    IMAGES,
    PAIR_IMAGES,
];

/// The images of a world of factors: rows × height × width × 3 bytes.
const IMAGES: &str = "images.npy";

/// The images of the rows of pairs.
const PAIR_IMAGES: &str = "pair-images.npy";

/// A NumPy file of bytes.
fn npy_bytes(shape: &[usize], values: &[u8]) -> Vec<u8> {
    let sizes: Vec<String> = shape.iter().map(usize::to_string).collect();
    let header = format!("{{'descr': '|u1', 'fortran_order': False, 'shape': ({}), }}", sizes.join(", "));
    // Magic, version and length are 10 bytes; the header ends with a line feed at a multiple of 64.
    let length = (header.len() + 11).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((length as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = length - 1).bytes());
    bytes.extend(values);
    bytes
}

/// Checks that a world can be written to a directory: it is new or empty, or holds a world that was begun earlier.
fn claim(out: &Path) -> Result<()> {
    let occupied = |found: String| {
        InputError::new("the world needs an empty directory")
            .expected("a new or empty directory, or the same world, begun earlier")
            .found(found)
            .advice("choose another directory")
            .file(out)
    };
    if !out.exists() {
        return Ok(());
    }
    if !out.is_dir() {
        return Err(occupied("a file".into()).into());
    }
    let begun = out.join(STORES[0]).is_dir();
    for entry in std::fs::read_dir(out).map_err(Error::io("list a directory", out))? {
        let name = entry.map_err(Error::io("list a directory", out))?.file_name().to_string_lossy().into_owned();
        let ours = STORES.contains(&name.as_str()) || FILES.contains(&name.as_str()) || name == ABOUT;
        if !(begun && (ours || name.ends_with(".tmp"))) {
            return Err(occupied(format!("`{name}`")).into());
        }
    }
    Ok(())
}

/// Checks that all parts of a world exist, and every byte of its tables and images. Returns the number of files and bytes.
pub fn verify_tables(directory: &Path) -> Result<(usize, u64)> {
    let path = directory.join(ABOUT);
    let about = disk::read(&path).map_err(Error::io("read a world", &path))?;
    let damaged = |what: &str| InputError::new(what).advice("delete the world and create it again");
    let about: Written = serde_json::from_slice(&about)
        .map_err(|error| damaged("the description of a world is damaged").found(error).file(&path))?;
    for name in STORES.iter().filter(|name| about.parts.iter().any(|part| part == *name)) {
        if !directory.join(name).is_dir() {
            return Err(damaged("a part of a world is missing").file(&directory.join(name)).into());
        }
    }
    let (mut files, mut bytes) = (1, 0);
    for name in FILES {
        let Some(expected) = about.tables.get(name) else { continue };
        let path = directory.join(name);
        let (hash, length) = hashed(&path).map_err(Error::io("read a file of a world", &path))?;
        let found = format!("blake3:{hash}");
        if found != *expected {
            return Err(damaged("a file of a world is damaged").expected(expected).found(found).file(&path).into());
        }
        (files, bytes) = (files + 1, bytes + length);
    }
    Ok((files, bytes))
}

/// The hash and the length of a file, read in pieces: images may be larger than memory.
fn hashed(path: &Path) -> std::io::Result<(String, u64)> {
    let mut hasher = blake3::Hasher::new();
    let bytes = std::io::copy(&mut std::fs::File::open(path)?, &mut hasher)?;
    Ok((hasher.finalize().to_hex().to_string(), bytes))
}

/// The part of `world.json` that is verified.
#[derive(Deserialize)]
struct Written {
    #[serde(default)]
    parts: Vec<String>,
    #[serde(default)]
    tables: BTreeMap<String, String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Opening;
    use crate::run::GENERATED;
    use crate::sae::{checkpoint, untrained};

    #[test]
    fn generators_are_saved_and_loaded() {
        let given = [("rows", "40"), ("features", "12"), ("width", "8"), ("active", "3"), ("planted", "2")]
            .map(|(name, value)| (name.to_string(), value.to_string()));
        let (given, context) = (BTreeMap::from(given), Context::silent(1, 1 << 26).unwrap());
        let world = crate::labels::worlds::make("blindspots", &given, 1, &context).unwrap();
        let scratch = tempfile::tempdir().unwrap();
        let out = scratch.path().join("world");
        // The second time it resumes.
        for _ in 0..2 {
            save_world(&world, &given, 1, &out, &context).unwrap();
        }
        verify_tables(&out).unwrap();
        assert!(std::fs::read_to_string(out.join("planted.csv")).unwrap().contains("model_1,"));
        // Codes of a generator are read without a dictionary.
        let codes = Given::default().with("codes", "world/codes").with("generated", "a=world/generated/model_2/codes");
        let opening = Opening::at(scratch.path());
        let inputs = codes.open(&opening, &context).unwrap().inputs;
        assert_eq!(inputs.find(&GENERATED).unwrap().codes.id().unwrap(), world.generated[1].codes.id().unwrap());
        // With a dictionary, the world provides the activations of all generators.
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
