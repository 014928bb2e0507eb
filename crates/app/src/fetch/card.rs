//! The description of a packaged model or data set.

use etalon::error::{InputError, Result};
use etalon_models::data::{Entry, FORMAT};

use super::archive::Archives;
use super::cards::CARDS;
use super::clients::Package;
use super::output::Output;

/// Models or data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A network.
    Model,
    /// A data set.
    Data,
}

/// Converts the packages of an entry.
pub(super) type Convert = fn(&Archives, &mut Output<'_>) -> Result<()>;

/// A packaged model or data set.
pub struct Card {
    /// The name.
    pub name: &'static str,
    /// Models or data.
    pub kind: Kind,
    /// What it is.
    pub what: &'static str,
    /// The licence.
    pub licence: &'static str,
    /// Whom to name, and what the conversion changes.
    pub attribution: &'static str,
    /// The version of the conversion; a new one fetches again.
    pub version: u32,
    /// The conversion.
    pub(super) convert: Convert,
    /// The packages.
    pub packages: &'static [Package],
}

impl Card {
    /// Bytes to download.
    pub fn bytes(&self) -> u64 {
        self.packages.iter().map(|package| package.bytes).sum()
    }

    /// Whether a fetched entry is of this version.
    pub(super) fn matches(&self, entry: &Entry) -> bool {
        entry.version == self.version && entry.packages == self.pinned()
    }

    fn pinned(&self) -> Vec<(String, String)> {
        self.packages.iter().map(|package| (package.file.to_string(), package.sha256.to_string())).collect()
    }

    /// The description of what was converted.
    pub(super) fn entry(&self, output: Output<'_>) -> Entry {
        let (parts, counts) = output.finish();
        Entry {
            format: FORMAT,
            name: self.name.to_string(),
            version: self.version,
            licence: self.licence.to_string(),
            attribution: self.attribution.to_string(),
            packages: self.pinned(),
            parts,
            counts,
        }
    }
}

/// The card of a name.
pub fn find(name: &str) -> Result<&'static Card> {
    CARDS.iter().find(|card| card.name == name).ok_or_else(|| {
        let names: Vec<&str> = CARDS.iter().map(|card| card.name).collect();
        InputError::new(format!("there is no packaged model or data set `{name}`"))
            .advice("`etalon fetch --list` describes all; names of the Hugging Face hub start with `hf:`")
            .one_of(name, &names)
            .into()
    })
}
