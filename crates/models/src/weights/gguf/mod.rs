//! GGUF, the format of llama.cpp, presented as a Hugging Face model.

mod architecture;
mod config;
mod cursor;
mod header;
mod metadata;
mod rope;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{InFile, InputError, Result};
use etalon::input::Map;

use super::opened::{Opened, insert};
use super::source::{Part, Source};
use super::tensors::Stored;
use architecture::Architecture;
use config::Facts;
use header::Info;

pub use metadata::{List, Metadata, Value};

/// Opens a GGUF file.
pub(super) fn open(path: &Path, budget: &Budget) -> Result<Opened> {
    let map = Arc::new(Map::open_input(path)?);
    present(&map, budget).in_file(path)
}

fn present(map: &Arc<Map>, budget: &Budget) -> Result<Opened> {
    let (metadata, infos) = header::read(map.bytes(0..map.length())?, budget)?;
    map.release();
    if let Some(parts) = metadata.integer("split.count").filter(|&parts| parts > 1) {
        return Err(InputError::new("the GGUF file is one of several parts")
            .expected("a model in one file")
            .found(format!("{parts} parts"))
            .advice("join the parts with `llama-gguf-split --merge`")
            .into());
    }
    let architecture = Architecture::of(&metadata)?;
    let recognised = format!("GGUF {}", quantisation(&metadata, &infos));
    let facts = Facts::new(&metadata, &infos, architecture);
    let config = facts.config(map)?;
    let (heads, key_value_heads) = (facts.heads()?, facts.key_value_heads()?);
    let mut tensors = BTreeMap::new();
    for info in infos {
        // The factors are in the configuration.
        if info.name == rope::TENSOR && architecture.scales_by_factors() {
            continue;
        }
        let part = Part { map: map.clone(), range: info.range };
        let stored = Stored::new(Source::Bytes(vec![part], info.encoding), &info.shape, info.encoding.name());
        let change = architecture.change(&info.name, &info.shape, heads, key_value_heads)?;
        let name = architecture.name(&info.name).unwrap_or(info.name);
        insert(&mut tensors, name, stored.changed(change))?;
    }
    Ok(Opened { config, tensors, recognised, gguf: Some(metadata), files: vec![map.clone()] })
}

/// The name of the quantisation: what the file says, or the number type of most values.
fn quantisation(metadata: &Metadata, infos: &[Info]) -> String {
    let stated = match metadata.integer("general.file_type") {
        Some(0) => Some("float32"),
        Some(1) => Some("float16"),
        Some(2) => Some("Q4_0"),
        Some(3) => Some("Q4_1"),
        Some(7) => Some("Q8_0"),
        Some(8) => Some("Q5_0"),
        Some(9) => Some("Q5_1"),
        Some(10) => Some("Q2_K"),
        Some(11) => Some("Q3_K_S"),
        Some(12) => Some("Q3_K_M"),
        Some(13) => Some("Q3_K_L"),
        Some(14) => Some("Q4_K_S"),
        Some(15) => Some("Q4_K_M"),
        Some(16) => Some("Q5_K_S"),
        Some(17) => Some("Q5_K_M"),
        Some(18) => Some("Q6_K"),
        Some(21) => Some("Q2_K_S"),
        Some(32) => Some("bfloat16"),
        _ => None,
    };
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for info in infos {
        *counts.entry(info.encoding.name()).or_default() += info.range.len();
    }
    let most = counts.into_iter().max_by_key(|(_, bytes)| *bytes).map_or("without tensors", |(name, _)| name);
    stated.unwrap_or(most).to_string()
}
