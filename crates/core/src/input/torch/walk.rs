//! Walks through the tree of a pickle and collects tensors; their names are the keys on the path, joined by dots.

use std::collections::BTreeMap;

use super::super::pickle::{Id, Node, Tree};
use super::TorchModule;
use super::arguments;
use super::numpy;
use super::plan::ReadPlan;
use crate::error::{InputError, Result};

/// Limits of the walk through a pickle, which may contain itself.
const DEEPEST: usize = 32;
const MOST_NODES: usize = 1 << 20;
const LONGEST_NAME: usize = 4096;

/// What a pickle describes.
#[derive(Default)]
pub(super) struct TorchContent {
    pub plans: BTreeMap<String, ReadPlan>,
    pub module: TorchModule,
}

/// Attributes of a module that contain its tensors and its parts.
const PARTS: [&str; 3] = ["_parameters", "_buffers", "_modules"];

/// Collects the tensors of a pickle.
pub(super) fn walk(tree: &Tree) -> Result<TorchContent> {
    let mut walk = Walk { tree, found: TorchContent::default(), visited: 0 };
    walk.visit(tree.root, "", 0)?;
    Ok(walk.found)
}

struct Walk<'a> {
    tree: &'a Tree<'a>,
    found: TorchContent,
    visited: usize,
}

impl Walk<'_> {
    /// A module: its parts have the names of the state dict; of the other attributes, only single values are read.
    fn visit_module(&mut self, class: &'static str, attributes: Option<Id>, name: &str, depth: usize) -> Result<()> {
        let tree = self.tree;
        self.found.module.classes.insert(name.to_string(), class);
        let Some(Node::Dict(attributes)) = attributes.map(|id| tree.node(id)) else { return Ok(()) };
        for &(key, value) in attributes {
            let Some(key) = tree.text(key) else { continue };
            let path = if name.is_empty() { key.to_string() } else { format!("{name}.{key}") };
            let module = &mut self.found.module;
            match tree.node(value) {
                Node::Dict(_) if PARTS.contains(&key) => self.visit(value, name, depth + 1)?,
                Node::Int(number) => module.numbers.extend([(path, *number as f64)]),
                Node::Float(number) => module.numbers.extend([(path, *number)]),
                Node::Name(function) => module.functions.extend([(path, *function)]),
                Node::Call("_rebuild_tensor_v2", arguments, _) => {
                    let plan = arguments::tensor(tree, *arguments).transpose()?;
                    if plan.is_some_and(|plan| plan.shape().is_empty()) {
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
                    match (tree.text(key), tree.node(key)) {
                        (Some(part), _) => self.visit(value, &below(part), depth + 1)?,
                        (_, Node::Int(number)) => self.visit(value, &below(&number.to_string()), depth + 1)?,
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
            Node::Call("_rebuild_parameter", arguments, _) => {
                if let Some(&tensor) = arguments::tuple(tree, *arguments).and_then(<[Id]>::first) {
                    self.visit(tensor, name, depth + 1)?;
                }
            }
            Node::Call("_rebuild_tensor" | "_rebuild_tensor_v2", arguments, _) => {
                let plan = arguments::tensor(tree, *arguments).transpose()?;
                self.insert(name, plan, "convert the tensor, for example with .float().cpu(), and save it again")?;
            }
            Node::Call(function @ ("_reconstruct" | "_frombuffer"), arguments, state) => {
                let plan = numpy::array(tree, function, *arguments, *state);
                self.insert(name, plan, "convert the array with astype(numpy.float32), and save it again")?;
            }
            _ => {}
        }
        Ok(())
    }

    fn insert(&mut self, name: &str, plan: Option<ReadPlan>, advice: &str) -> Result<()> {
        let name = if name.is_empty() { "tensor" } else { name };
        let plan = plan.ok_or_else(|| {
            InputError::new("the description of a tensor is invalid")
                .expected("a dense tensor of bool, integers, float16, bfloat16, float32 or float64")
                .at(format!("tensor `{name}`"))
                .advice(advice)
        })?;
        if self.found.plans.insert(name.to_string(), plan).is_some() {
            return Err(InputError::new("two tensors have the same name")
                .expected("unique names")
                .found(name)
                .advice("rename one of them and save the file again")
                .into());
        }
        Ok(())
    }
}
