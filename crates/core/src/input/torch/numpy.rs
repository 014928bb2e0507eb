//! Arrays of numpy in a pickle.

use super::super::number::{Number, NumberFormat};
use super::super::pickle::{Id, Node, Tree};
use super::super::strided::View;
use super::arguments::{sizes, tuple};
use super::plan::{Place, ReadPlan};

/// The plan of an array that a pickle creates with one of numpy's functions; `None` if it is not an array of numbers.
pub(super) fn array(tree: &Tree, function: &str, arguments: Id, state: Option<Id>) -> Option<ReadPlan> {
    let (shape, number_type, fortran, data) = match function {
        // An empty array, then its state: version, shape, type, order, bytes.
        "_reconstruct" => {
            let [_, shape, number_type, fortran, data, ..] = *tuple(tree, state?)? else { return None };
            (shape, number_type, *tree.node(fortran) == Node::Bool(true), data)
        }
        // Bytes, type, shape, order.
        "_frombuffer" => {
            let [data, number_type, shape, order] = *tuple(tree, arguments)? else { return None };
            (shape, number_type, tree.text(order)? == "F", data)
        }
        _ => return None,
    };
    let dimensions = sizes(tree, shape)?;
    let view = if fortran { View::fortran(&dimensions) } else { View::c_order(&dimensions) };
    ReadPlan::new(place(tree, data)?, format(tree, number_type)?, view.length()?, view).ok()
}

/// `dtype('f4', False, True)` with the state `(3, '<', ...)`, the second item of which is the byte order.
fn format(tree: &Tree, id: Id) -> Option<NumberFormat> {
    let Node::Call("dtype", arguments, state) = *tree.node(id) else { return None };
    let number = Number::of_numpy(tree.text(*tuple(tree, arguments)?.first()?)?)?;
    let order = tree.text(*tuple(tree, state?)?.get(1)?)?;
    Some(NumberFormat { number, big_endian: order == ">" })
}

/// Bytes, or in protocol 2 `_codecs.encode(text, 'latin1')`.
fn place(tree: &Tree, id: Id) -> Option<Place> {
    match tree.node(id) {
        Node::Bytes(range) => Some(Place::Pickle { start: range.start, end: range.end }),
        Node::Call("encode", arguments, _) => {
            let [text, encoding] = *tuple(tree, *arguments)? else { return None };
            let range = tree.range(text).filter(|_| tree.text(encoding) == Some("latin1"))?;
            Some(Place::Text { start: range.start, end: range.end })
        }
        // No bytes at all are `bytes()` in protocol 2.
        Node::Call("bytes", arguments, _) if tuple(tree, *arguments)?.is_empty() => {
            Some(Place::Pickle { start: 0, end: 0 })
        }
        _ => None,
    }
}
