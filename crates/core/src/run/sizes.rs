//! The comparison of two inputs along an axis, with an error that names both.

use std::path::Path;

use super::role::Axis;
use crate::error::{InputError, Key, Result};

/// One side of a comparison of sizes.
pub struct AxisSize<'a> {
    /// The name of the input in messages.
    pub(super) label: String,
    pub(super) size: usize,
    pub(super) file: Option<&'a Path>,
}

impl<'a> AxisSize<'a> {
    /// The size of an input along an axis, the key of its role, and the file it was read from.
    pub fn new(key: &str, size: usize, file: Option<&'a Path>) -> AxisSize<'a> {
        AxisSize { label: Key(key).to_string(), size, file }
    }

    /// Its size and its file, such as "20 rows in codes.npy".
    fn text(&self, axis: Axis) -> String {
        let file = self.file.map(|file| format!(" in {}", file.display())).unwrap_or_default();
        format!("{} {}{file}", self.size, axis.name())
    }
}

/// Checks that two inputs have the same size along an axis. The error names the axis, both sizes and both files.
pub fn check_sizes(axis: Axis, one: AxisSize<'_>, other: AxisSize<'_>) -> Result<()> {
    if one.size == other.size {
        return Ok(());
    }
    Err(InputError::new(format!("{} and {} differ in {}", one.label, other.label, axis.name()))
        .expected(one.text(axis))
        .found(other.text(axis))
        .advice(axis.help())
        .into())
}
