//! Worlds and data sets as directories that every other command reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use serde_json::json;

use crate::budget::Budget;
use crate::error::{Complaint, Error, Result};
use crate::labels::worlds::World;
use crate::labels::{DataSet, read_coco, read_cub, read_syncoco, read_syncub};
use crate::progress::Progress;
use crate::store::{ActivationStore, ImportOptions, disk, import};

/// Writes a world: activations, true codes and directions, labels, pairs, and last `world.json`.
pub fn save_world(
    world: &World,
    given: &BTreeMap<String, String>,
    seed: u64,
    out: &Path,
    budget: &Budget,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<()> {
    let store = |name: &str, store: &ActivationStore| {
        import(&mut store.reader(), &out.join(name), &ImportOptions::default(), budget, progress, cancel).map(|_| ())
    };
    let text = |name: &str, text: String| disk::write(&out.join(name), text.as_bytes());
    store("activations", &world.activations)?;
    world.codes.save(&out.join("codes"))?;
    text("labels.csv", world.labels.to_csv(None)?)?;
    if let Some(directions) = &world.directions {
        store("directions", directions)?;
    }
    if let Some(pairs) = &world.pairs {
        text("pairs.csv", pairs.to_csv(Some(world.labels.names()))?)?;
    }
    if let Some(activations) = &world.pair_activations {
        store("pair-activations", activations)?;
    }
    if let Some(codes) = &world.pair_codes {
        codes.save(&out.join("pair-codes"))?;
    }
    if let Some(labels) = &world.pair_labels {
        text("pair-labels.csv", labels.to_csv(None)?)?;
    }
    let about = json!({"world": world.name, "settings": given, "seed": seed, "rows": world.activations.rows()});
    text("world.json", format!("{about:#}\n"))
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
pub fn convert_data_set(name: &str, from: &Path, out: &Path, budget: &Budget) -> Result<Converted> {
    let data: DataSet = match name {
        "cub" => read_cub(from, 0, budget)?,
        "coco" => read_coco(from, budget)?,
        "syncub" => read_syncub(from, budget)?,
        "syncoco" => read_syncoco(from, budget)?,
        other => return Err(Error::Bug(format!("no loader for `{other}`"))),
    };
    if out.join("labels.csv").exists() {
        return Err(Complaint::new("there is a data set already").advice("name another directory").file(out).into());
    }
    let write = |name: &str, text: String| disk::write(&out.join(name), text.as_bytes());
    if let Some(pairs) = &data.pairs {
        write("pairs.csv", pairs.to_csv(Some(data.labels.names()))?)?;
    }
    if let Some(splits) = &data.splits {
        write("splits.csv", splits.to_csv(&data.images)?)?;
    }
    // Last, because its presence says that the rest is there.
    write("labels.csv", data.labels.to_csv(Some(&data.images))?)?;
    Ok(Converted { images: data.images.len(), concepts: data.labels.concepts(), notes: data.notes })
}
