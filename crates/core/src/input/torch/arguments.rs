//! The arguments of calls in a pickle: sizes, storages, tensors.

use super::super::number::{Number, NumberFormat};
use super::super::pickle::{Id, Node, Tree};
use super::super::strided::View;
use super::plan::{Place, ReadPlan};
use crate::error::Result;

/// A reference to a storage: its type, its key, and its number of values.
pub(super) struct StorageId<'a> {
    pub number: Number,
    pub key: &'a str,
    pub available: usize,
}

/// The items of a tuple.
pub(super) fn tuple<'a>(tree: &'a Tree, id: Id) -> Option<&'a [Id]> {
    match tree.node(id) {
        Node::Tuple(items) => Some(items),
        _ => None,
    }
}

/// A whole number from 0.
fn size(tree: &Tree, id: Id) -> Option<usize> {
    match *tree.node(id) {
        Node::Int(value) => usize::try_from(value).ok(),
        _ => None,
    }
}

/// A tuple of whole numbers, or `torch.Size((2, 3))`.
pub(super) fn sizes(tree: &Tree, id: Id) -> Option<Vec<usize>> {
    let items = match tree.node(id) {
        Node::Call("Size", arguments, _) => match *tuple(tree, *arguments)? {
            [items] => tuple(tree, items)?,
            _ => return None,
        },
        _ => tuple(tree, id)?,
    };
    items.iter().map(|&item| size(tree, item)).collect()
}

/// `('storage', torch.FloatStorage, key, device, length)`. The old format adds what part of another storage it is, or
/// `None`.
pub(super) fn storage<'a>(tree: &Tree<'a>, id: Id) -> Option<StorageId<'a>> {
    let Node::Outside(arguments) = *tree.node(id) else { return None };
    let (tag, kind, key, length) = match *tuple(tree, arguments)? {
        [tag, kind, key, _, length] => (tag, kind, key, length),
        [tag, kind, key, _, length, view] if *tree.node(view) == Node::Inert => (tag, kind, key, length),
        _ => return None,
    };
    let Node::Name(kind) = tree.node(kind) else { return None };
    if tree.text(tag) != Some("storage") {
        return None;
    }
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
    Some(StorageId { number, key: tree.text(key)?, available: size(tree, length)? })
}

/// The arguments of `_rebuild_tensor_v2`: storage, offset, size, stride, and others that are not needed. `None` if they
/// describe no dense tensor; an error if it reaches beyond its storage.
pub(super) fn tensor(tree: &Tree, arguments: Id) -> Option<Result<ReadPlan>> {
    let [source, offset, dimensions, strides, ..] = *tuple(tree, arguments)? else { return None };
    let StorageId { number, key, available } = storage(tree, source)?;
    let view =
        View { offset: size(tree, offset)?, dimensions: sizes(tree, dimensions)?, strides: sizes(tree, strides)? };
    Some(ReadPlan::new(Place::Storage(key.to_string()), NumberFormat::little(number), available, view))
}
