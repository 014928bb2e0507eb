//! The format of torch before 1.6: five pickles (a magic number, the version, the system, the tensors, the keys of the
//! storages), then every storage as its length and its numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use super::super::number::Number;
use super::super::pickle::{Node, Tree};
use super::arguments::storage;
use crate::context::Budget;
use crate::error::{InputError, Result};

/// 0x1950a86a20f9469cfc6c, little-endian.
const MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The version of the format; there is only one.
const VERSION: i64 = 1001;

/// True if the first pickle of a file is the magic number of torch.
pub(super) fn is_torch(first: &Tree) -> bool {
    *first.node(first.root) == Node::Long(&MAGIC)
}

/// Reads the pickles after the magic number; returns the description of the tensors, and the bytes of the storages.
pub(super) fn read<'a>(
    bytes: &'a [u8],
    start: usize,
    budget: &Budget,
) -> Result<(Tree<'a>, BTreeMap<String, Range<usize>>)> {
    let wrong =
        |what: &str| InputError::new(what).advice("the file is damaged; copy it again, or save it with torch.save");
    let version = Tree::read(bytes, start, budget)?;
    if *version.node(version.root) != Node::Int(VERSION) {
        return Err(wrong("unknown version of the old torch format").expected(VERSION).into());
    }
    let system = Tree::read(bytes, version.end, budget)?;
    let Node::Dict(entries) = system.node(system.root) else {
        return Err(wrong("the old torch format does not describe its system").into());
    };
    let little = entries.iter().find(|(key, _)| system.text(*key) == Some("little_endian"));
    if little.is_some_and(|(_, value)| *system.node(*value) != Node::Bool(true)) {
        return Err(InputError::new("unsupported byte order of a file in the old torch format")
            .expected("little-endian")
            .advice("load it in torch and save it again with torch.save")
            .into());
    }
    let tensors = Tree::read(bytes, system.end, budget)?;
    let keys = Tree::read(bytes, tensors.end, budget)?;
    let Node::List(list) = keys.node(keys.root) else {
        return Err(wrong("the old torch format does not list its storages").into());
    };
    let numbers: BTreeMap<&str, Number> = storages(&tensors);
    let (mut parts, mut offset) = (BTreeMap::new(), keys.end);
    for &key in list {
        let key = keys.text(key).ok_or_else(|| wrong("the key of a storage is not text"))?;
        let number = numbers.get(key).copied().ok_or_else(|| wrong("no tensor uses a storage").found(key))?;
        let ends = || wrong("the file ends within a storage").at(format!("storage `{key}`, byte {offset}"));
        let length = bytes.get(offset..).and_then(<[u8]>::first_chunk).ok_or_else(ends)?;
        let length = usize::try_from(u64::from_le_bytes(*length)).ok().and_then(|n| n.checked_mul(number.size()));
        let end = length.and_then(|length| length.checked_add(offset + 8)).filter(|&end| end <= bytes.len());
        let end = end.ok_or_else(ends)?;
        if parts.insert(key.to_string(), offset + 8..end).is_some() {
            return Err(wrong("a storage appears twice").found(key).into());
        }
        offset = end;
    }
    Ok((tensors, parts))
}

/// The number types of all storages that a pickle mentions.
fn storages<'a>(tree: &Tree<'a>) -> BTreeMap<&'a str, Number> {
    tree.ids().filter_map(|id| storage(tree, id)).map(|storage| (storage.key, storage.number)).collect()
}
