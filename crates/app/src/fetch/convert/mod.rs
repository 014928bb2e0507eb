//! Conversions of packages into files that Etalon reads, one file per family.

pub mod arrays;
pub mod brown;
pub mod brown_tags;
pub mod cifar;
pub mod countries;
pub mod embeddings;
pub mod emoji;
mod emoji_attributes;
mod emoji_pairs;
pub mod files;
pub mod foldoc;
pub mod groceries;
mod image_table;
mod synsets;
pub mod texts;
pub mod wordnet;

use etalon::error::{Error, InputError};

/// The error for a member that is not what the conversion expects.
fn unexpected(what: &str, found: impl std::fmt::Display) -> Error {
    InputError::new(format!("{what} of the package is not as expected"))
        .found(found)
        .advice("please report it, with the version of this program")
        .into()
}
