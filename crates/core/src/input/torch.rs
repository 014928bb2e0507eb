//! Torch checkpoints: a zip archive with a pickle that describes the tensors, and one entry of numbers per storage.

use std::collections::BTreeMap;
use std::path::Path;

use super::archive::Archive;
use super::file::Regular;
use super::number::{Number, NumberFormat};
use super::pickle::{Id, Node, Tree};
use super::source::key_error;
use super::strided::View;
use super::tensors::{Collector, Tensor, Tensors};
use super::{RowReader, Shape, Source};
use crate::context::{Budget, Reservation};
use crate::error::{InputError, Result};

/// Maximum length of the description in bytes.
const LONGEST_PICKLE: u64 = 1 << 24;

/// Memory per byte of a pickle: a node and the references to it.
const NODE_BYTES: u64 = 96;

/// Limits of the walk through a pickle, which may contain itself.
const DEEPEST: usize = 32;
const MOST_NODES: usize = 1 << 20;
const LONGEST_NAME: usize = 4096;

/// True for the entry that describes the tensors.
pub(super) fn is_pickle(name: &str) -> bool {
    name == "data.pkl" || name.ends_with("/data.pkl")
}

/// Where a tensor's values are.
#[derive(Debug)]
struct ReadPlan {
    storage: String,
    number: Number,
    /// Numbers in the storage.
    available: usize,
    view: View,
}

/// A torch module: its tensors under the names of its state dict, and its plain attributes. Of a file that contains only
/// a state dict, the tensors.
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

/// Reads every tensor of a checkpoint.
pub(super) fn read_tensors(path: &Path, budget: &Budget) -> Result<Tensors> {
    Ok(read_module(path, budget)?.tensors)
}

/// The names of the tensors of a checkpoint, without their values.
pub(super) fn tensor_names(path: &Path, budget: &Budget) -> Result<Vec<String>> {
    Ok(describe(path, budget)?.plans.into_keys().collect())
}

/// What the pickle of a checkpoint describes.
struct Description {
    archive: Archive,
    root: String,
    plans: BTreeMap<String, ReadPlan>,
    module: TorchModule,
}

/// Reads the description of the tensors.
fn describe(path: &Path, budget: &Budget) -> Result<Description> {
    check_magic(path)?;
    let mut archive = Archive::open(path)?;
    let pickles: Vec<String> = archive.names().filter(|name| is_pickle(name)).map(str::to_string).collect();
    let [pickle] = &pickles[..] else {
        return Err(InputError::new("the archive is not a torch checkpoint")
            .expected("one entry data.pkl")
            .found(format!("{} such entries", pickles.len()))
            .advice("save model.state_dict() with torch.save; TorchScript and other zip files are not supported")
            .into());
    };
    let size = archive.find(pickle).map_or(0, |entry| entry.size);
    if size > LONGEST_PICKLE {
        return Err(InputError::new("the description of the tensors is too long")
            .expected(format!("at most {LONGEST_PICKLE} bytes"))
            .found(format!("{size} bytes"))
            .at(format!("entry `{pickle}`"))
            .advice("save only model.state_dict()")
            .into());
    }
    let _nodes = budget.reserve(size * NODE_BYTES, "the description of the tensors")?;
    let (bytes, _memory) = archive.bytes(pickle, budget)?;
    let root = pickle.strip_suffix("data.pkl").unwrap_or_default().to_string();
    let (plans, module) = Walk::through(&Tree::read(&bytes)?)?;
    Ok(Description { archive, root, plans, module })
}

/// Reads every tensor and the attributes of a checkpoint.
pub(super) fn read_module(path: &Path, budget: &Budget) -> Result<TorchModule> {
    let Description { mut archive, root, plans, module } = describe(path, budget)?;
    let big_endian = big_endian(&mut archive, &root, budget)?;

    // Tensors that share a storage are copied out of it together, so that it is read once.
    let mut by_storage: BTreeMap<&str, Vec<(&String, &ReadPlan)>> = BTreeMap::new();
    for (name, plan) in &plans {
        by_storage.entry(&plan.storage).or_default().push((name, plan));
    }
    let mut tensors = Collector::new(budget);
    for (storage, plans) in by_storage {
        let entry = format!("{root}data/{storage}");
        let (bytes, _memory) = archive.bytes(&entry, budget)?;
        for (name, plan) in plans {
            let layout = NumberFormat { number: plan.number, big_endian };
            if plan.available.checked_mul(layout.size()) != Some(bytes.len()) {
                return Err(InputError::new("the size of a storage does not agree with its tensor")
                    .expected(format!("{} numbers of {} bytes", plan.available, layout.size()))
                    .found(format!("{} bytes", bytes.len()))
                    .at(format!("tensor `{name}`, entry `{entry}`"))
                    .advice("the file is damaged; write it again")
                    .into());
            }
            let _decoded = budget.reserve(plan.available as u64 * 4, format!("the storage of the tensor `{name}`"))?;
            tensors.reserve(name, plan.view.length().unwrap_or(usize::MAX))?;
            let mut values = vec![0f32; plan.available];
            layout.decode(&bytes, &mut values);
            let tensor = Tensor { shape: plan.view.dimensions.clone(), values: plan.view.copy(&values) };
            tensors.insert(name.clone(), tensor)?;
        }
    }
    Ok(TorchModule { tensors: tensors.finish(), ..module })
}

/// Refuses files that are no archive; the old torch format, a single pickle, gets its own message.
fn check_magic(path: &Path) -> Result<()> {
    let mut file = Regular::open(path)?;
    let mut start = [0; 4];
    let known = file.length.min(4) as usize;
    file.read_at(0, &mut start[..known])?;
    match start {
        [b'P', b'K', 3, 4] => Ok(()),
        [0x80, 1..=5, ..] => Err(InputError::new("the file is in the old torch format, or a plain pickle")
            .expected("the zip format of torch 1.6 and later")
            .advice("load it in torch and save it again with torch.save, or use safetensors")
            .into()),
        _ => Err(InputError::new("the file is not a torch checkpoint")
            .expected("a zip archive")
            .found(format!("\"{}\" at the start", start[..known].escape_ascii()))
            .advice("save it with torch.save")
            .into()),
    }
}

fn big_endian(archive: &mut Archive, root: &str, budget: &Budget) -> Result<bool> {
    let name = format!("{root}byteorder");
    if archive.find(&name).is_none() {
        return Ok(false);
    }
    match &archive.bytes(&name, budget)?.0[..] {
        b"little" => Ok(false),
        b"big" => Ok(true),
        other => Err(InputError::new("unknown byte order of the checkpoint")
            .expected("little or big")
            .found(other.escape_ascii())
            .at(format!("entry `{name}`"))
            .advice("the file is damaged; save it again with torch.save")
            .into()),
    }
}

/// Walks through the tree of a pickle and collects tensors; their names are the keys on the path, joined by dots.
struct Walk<'a> {
    tree: &'a Tree<'a>,
    plans: BTreeMap<String, ReadPlan>,
    module: TorchModule,
    visited: usize,
}

/// Attributes of a module that contain its tensors and its parts.
const PARTS: [&str; 3] = ["_parameters", "_buffers", "_modules"];

impl Walk<'_> {
    fn through(tree: &Tree) -> Result<(BTreeMap<String, ReadPlan>, TorchModule)> {
        let mut walk = Walk { tree, plans: BTreeMap::new(), module: TorchModule::default(), visited: 0 };
        walk.visit(tree.root, "", 0)?;
        Ok((walk.plans, walk.module))
    }

    /// A module: its parts have the names of the state dict; of the other attributes, only single values are read.
    fn visit_module(&mut self, class: &'static str, attributes: Option<Id>, name: &str, depth: usize) -> Result<()> {
        self.module.classes.insert(name.to_string(), class);
        let tree = self.tree;
        let Some(Node::Dict(attributes)) = attributes.map(|id| tree.node(id)) else { return Ok(()) };
        for &(key, value) in attributes {
            let Node::Text(key) = *tree.node(key) else { continue };
            let path = if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
            match tree.node(value) {
                Node::Dict(_) if PARTS.contains(&key) => self.visit(value, name, depth + 1)?,
                Node::Int(number) => self.module.numbers.extend([(path, *number as f64)]),
                Node::Float(number) => self.module.numbers.extend([(path, *number)]),
                Node::Name(function) => self.module.functions.extend([(path, *function)]),
                Node::Call("_rebuild_tensor_v2", arguments) => {
                    let single = self.plan(*arguments).is_some_and(|plan| plan.view.dimensions.is_empty());
                    if single {
                        self.visit(value, &path, depth + 1)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn visit(&mut self, id: Id, name: &str, depth: usize) -> Result<()> {
        self.visited += 1;
        if depth > DEEPEST || self.visited > MOST_NODES || name.len() > LONGEST_NAME {
            return Err(InputError::new("the checkpoint is nested too deeply")
                .expected(format!("at most {DEEPEST} levels, {MOST_NODES} values and names of {LONGEST_NAME} bytes"))
                .at(format!("`{}`", name.chars().take(200).collect::<String>()))
                .advice("save only model.state_dict()")
                .into());
        }
        let below = |part: &str| if name.is_empty() { part.to_string() } else { format!("{name}.{part}") };
        let tree = self.tree;
        match tree.node(id) {
            Node::Dict(entries) => {
                for &(key, value) in entries {
                    match tree.node(key) {
                        Node::Text(part) => self.visit(value, &below(part), depth + 1)?,
                        Node::Int(number) => self.visit(value, &below(&number.to_string()), depth + 1)?,
                        // Other keys cannot be part of a name; checkpoints have no tensors under them.
                        _ => {}
                    }
                }
            }
            Node::List(items) | Node::Tuple(items) => {
                for (index, &item) in items.iter().enumerate() {
                    self.visit(item, &below(&index.to_string()), depth + 1)?;
                }
            }
            Node::Object(class, attributes) => self.visit_module(class, *attributes, name, depth + 1)?,
            Node::Call("_rebuild_parameter", arguments) => {
                if let Node::Tuple(arguments) = tree.node(*arguments)
                    && let Some(&tensor) = arguments.first()
                {
                    self.visit(tensor, name, depth + 1)?;
                }
            }
            Node::Call("_rebuild_tensor_v2", arguments) => {
                let name = if name.is_empty() { "tensor" } else { name };
                let plan = self.plan(*arguments).ok_or_else(|| {
                    InputError::new("the description of a tensor is invalid")
                        .expected("a dense tensor of bool, integers, float16, bfloat16, float32 or float64")
                        .at(format!("tensor `{name}`"))
                        .advice("convert the tensor, for example with .float().cpu(), and save it again")
                })?;
                plan.view.check(plan.available)?;
                if self.plans.insert(name.to_string(), plan).is_some() {
                    return Err(InputError::new("two tensors have the same name")
                        .expected("unique names")
                        .found(name)
                        .advice("rename one of them and save the file again")
                        .into());
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// The arguments of `_rebuild_tensor_v2`: storage, offset, size, stride, and others that are not needed.
    fn plan(&self, arguments: Id) -> Option<ReadPlan> {
        let Node::Tuple(arguments) = self.tree.node(arguments) else { return None };
        let [storage, offset, size, stride, ..] = arguments[..] else { return None };
        let Node::Outside(storage) = self.tree.node(storage) else { return None };
        let Node::Tuple(storage) = self.tree.node(*storage) else { return None };
        let [tag, kind, key, _, available] = storage[..] else { return None };
        let (Node::Text("storage"), Node::Name(kind), Node::Text(key)) =
            (self.tree.node(tag), self.tree.node(kind), self.tree.node(key))
        else {
            return None;
        };
        let number = match *kind {
            "FloatStorage" => Number::F32,
            "HalfStorage" => Number::F16,
            "BFloat16Storage" => Number::Bf16,
            "DoubleStorage" => Number::F64,
            "LongStorage" => Number::I64,
            "IntStorage" => Number::I32,
            "ShortStorage" => Number::I16,
            "CharStorage" => Number::I8,
            "ByteStorage" => Number::U8,
            "BoolStorage" => Number::Bool,
            _ => return None,
        };
        let view = View { offset: self.size(offset)?, dimensions: self.sizes(size)?, strides: self.sizes(stride)? };
        Some(ReadPlan { storage: key.to_string(), number, available: self.size(available)?, view })
    }

    fn size(&self, id: Id) -> Option<usize> {
        match *self.tree.node(id) {
            Node::Int(value) => usize::try_from(value).ok(),
            _ => None,
        }
    }

    fn sizes(&self, id: Id) -> Option<Vec<usize>> {
        match self.tree.node(id) {
            Node::Tuple(items) => items.iter().map(|&item| self.size(item)).collect(),
            // torch.Size((2, 3))
            Node::Call("Size", arguments) => match self.tree.node(*arguments) {
                Node::Tuple(items) if items.len() == 1 => match self.tree.node(items[0]) {
                    Node::Tuple(items) => items.iter().map(|&item| self.size(item)).collect(),
                    _ => None,
                },
                _ => None,
            },
            _ => None,
        }
    }
}

/// Opens a tensor of a checkpoint as rows. Reads the whole checkpoint, which is small.
pub(super) fn open_rows(source: &Source, budget: &Budget) -> Result<Box<dyn RowReader>> {
    let mut tensors = read_tensors(&source.path, budget)?;
    let rows = |tensor: &Tensor| (2..=3).contains(&tensor.shape.len());
    let key = match &source.key {
        Some(key) => Some(key.clone()),
        None => {
            let mut names =
                tensors.iter().filter(|(_, tensor)| tensors.len() == 1 || rows(tensor)).map(|(name, _)| name);
            names.next().filter(|_| names.next().is_none()).cloned()
        }
    };
    let Some(tensor) = key.and_then(|key| tensors.remove(&key)) else {
        return Err(key_error(source.key.as_deref(), tensors.into_keys().collect()).into());
    };
    let shape = Shape::of(&tensor.shape)?;
    let memory = budget.reserve(tensor.values.len() as u64 * 4, "a tensor of a checkpoint")?;
    Ok(Box::new(TensorRows { values: tensor.values, used: 0, shape, _memory: memory }))
}

/// The rows of a tensor in memory.
struct TensorRows {
    values: Vec<f32>,
    /// Values that were read.
    used: usize,
    shape: Shape,
    _memory: Reservation,
}

impl RowReader for TensorRows {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn kind(&self) -> &str {
        "torch tensor"
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let rows = out.len().min(self.values.len() - self.used) / self.shape.width;
        let length = rows * self.shape.width;
        out[..length].copy_from_slice(&self.values[self.used..self.used + length]);
        self.used += length;
        Ok(rows)
    }
}
