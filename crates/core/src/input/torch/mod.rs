//! Torch checkpoints: a pickle that describes the tensors, and the numbers of every storage. Since torch 1.6 they are
//! entries of a zip archive, before they were parts of one file. Pickles with arrays of numpy are read too.

mod arguments;
mod legacy;
mod numpy;
mod plan;
mod rows;
mod storage;
mod walk;

use std::collections::BTreeMap;
use std::path::Path;

use super::file::Regular;
use super::map::Map;
use super::pickle::Tree;
use super::tensors::{Collector, Tensor, Tensors};
use crate::context::Budget;
use crate::error::{Error, InputError, Result};
use storage::Storages;
use walk::{TorchContent, walk};

pub(super) use plan::ReadPlan;
pub(super) use rows::open_rows;
pub(super) use storage::is_pickle;

/// A torch module: its tensors under the names of its state dict, and its plain attributes. Of a file that contains
/// only a state dict, the tensors.
#[derive(Debug, Default)]
pub struct TorchModule {
    /// The tensors. Attributes that are single numbers in a tensor are among them.
    pub tensors: Tensors,
    /// The class of each module, by the path of the module; that of the outermost is empty.
    pub classes: BTreeMap<String, &'static str>,
    /// Attributes that are numbers, by the path of the module and their name.
    pub numbers: BTreeMap<String, f64>,
    /// Attributes that are functions.
    pub functions: BTreeMap<String, &'static str>,
}

/// What the pickle of a checkpoint describes.
pub(super) struct Checkpoint {
    storages: Storages,
    plans: BTreeMap<String, ReadPlan>,
    module: TorchModule,
}

impl Checkpoint {
    /// Reads the description of the tensors.
    pub fn open(path: &Path, budget: &Budget) -> Result<Checkpoint> {
        let mut file = Regular::open(path)?;
        let mut start = [0; 4];
        let known = file.length.min(4) as usize;
        file.read_at(0, &mut start[..known])?;
        match start {
            [b'P', b'K', 3, 4] => Checkpoint::of_archive(path, budget),
            [0x80, 1..=5, ..] => Checkpoint::of_pickles(path, budget),
            _ => Err(InputError::new("the file is not a torch checkpoint")
                .expected("a zip archive or a pickle")
                .found(format!("\"{}\" at the start", start[..known].escape_ascii()))
                .advice("save it with torch.save")
                .into()),
        }
    }

    fn of_archive(path: &Path, budget: &Budget) -> Result<Checkpoint> {
        let (pickle, archive) = storage::open_archive(path, budget)?;
        let tree = Tree::read(&pickle, 0, budget)?;
        let TorchContent { plans, module } = walk(&tree)?;
        drop(tree);
        let inside = plans.values().any(|plan| !plan.is_storage());
        Ok(Checkpoint { storages: archive.with_pickle(inside.then_some(pickle)), plans, module })
    }

    fn of_pickles(path: &Path, budget: &Budget) -> Result<Checkpoint> {
        let map = Map::open(path)?;
        let bytes = map.bytes(0..map.length())?;
        let first = Tree::read(bytes, 0, budget)?;
        let (tree, parts) = match legacy::is_torch(&first) {
            true => legacy::read(bytes, first.end, budget)?,
            false => (first, BTreeMap::new()),
        };
        let TorchContent { plans, module } = walk(&tree)?;
        drop(tree);
        Ok(Checkpoint { storages: Storages::mapped(map, parts), plans, module })
    }

    /// The names of the tensors, with their plans.
    pub fn plans(&self) -> &BTreeMap<String, ReadPlan> {
        &self.plans
    }

    /// Reads one tensor. The caller reserves memory for the values.
    pub fn values(&self, name: &str, budget: &Budget) -> Result<Vec<f32>> {
        let plan = self.plans.get(name).ok_or_else(|| Error::Bug(format!("no plan of the tensor `{name}`")))?;
        let bytes = self.storages.bytes(name, plan, budget)?;
        let values = plan.decode(name, &bytes, self.storages.big_endian(), budget)?;
        self.storages.release();
        Ok(values)
    }
}

/// Reads every tensor of a checkpoint.
pub(super) fn read_tensors(path: &Path, budget: &Budget) -> Result<Tensors> {
    Ok(read_module(path, budget)?.tensors)
}

/// The names of the tensors of a checkpoint, without their values.
pub(super) fn tensor_names(path: &Path, budget: &Budget) -> Result<Vec<String>> {
    Ok(Checkpoint::open(path, budget)?.plans.into_keys().collect())
}

/// Reads every tensor and the attributes of a checkpoint.
pub(super) fn read_module(path: &Path, budget: &Budget) -> Result<TorchModule> {
    let Checkpoint { storages, plans, module } = Checkpoint::open(path, budget)?;
    // Tensors that share a storage are copied out of it together, so that it is read once.
    let mut together: Vec<(&String, &ReadPlan)> = plans.iter().collect();
    together.sort_by_key(|(name, plan)| (plan.place(), *name));
    let mut tensors = Collector::new(budget);
    for shared in together.chunk_by(|(_, one), (_, two)| one.place() == two.place()) {
        let Some((name, plan)) = shared.first() else { continue };
        let bytes = storages.bytes(name, plan, budget)?;
        for (name, plan) in shared {
            tensors.reserve(name, plan.length())?;
            let values = plan.decode(name, &bytes, storages.big_endian(), budget)?;
            tensors.insert(name.to_string(), Tensor { shape: plan.shape().to_vec(), values })?;
        }
    }
    Ok(TorchModule { tensors: tensors.finish(), ..module })
}
