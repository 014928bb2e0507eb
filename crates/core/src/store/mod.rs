//! Arrays on disk and in memory: activations, and the stored form of sparse rows.
//!
//! A stored directory has data files that are plain little-endian arrays, a file of checksums (`.crc`) for each, and a
//! `manifest.json` that is written last: a directory is finished if it has a valid manifest. To resume, run again.

mod activations;
mod backing;
mod checksums;
mod csv;
pub mod disk;
mod import;
mod layout;
mod lock;
pub(crate) mod manifest;
mod map;
mod npy;
mod orphans;
pub(crate) mod output;
pub(crate) mod shard;
pub(crate) mod sparse;
mod splits;
mod verify;

pub use activations::{ActivationStore, StoreReader, Tile};
pub(crate) use checksums::BLOCK_BYTES;
pub use csv::csv_text;
pub use import::{ImportOptions, import};
pub use lock::Lock;
pub use manifest::Format;
pub use npy::{NpyWriter, npy_header, write_npy};
pub use splits::SplitRanges;
pub use verify::{KINDS, Kind, Verified, verify, verify_among};
