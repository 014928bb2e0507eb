//! Arrays on disk and in memory: activations, and the stored form of sparse rows.
//!
//! A stored directory has data files that are plain little-endian arrays, a seal (`.crc`) with checksums beside each,
//! and a `manifest.json` that is written last: "is it done?" means "is there a valid manifest?". To resume is to run
//! again.

mod activations;
mod backing;
mod csv;
pub mod disk;
mod import;
mod layout;
mod lock;
pub(crate) mod manifest;
mod map;
mod npy;
pub(crate) mod output;
mod seal;
pub(crate) mod shard;
pub(crate) mod sparse;
mod splits;
mod verify;

pub use activations::{ActivationStore, StoreReader, Tile};
pub use csv::csv_text;
pub use import::{ImportOptions, import};
pub use lock::Lock;
pub use manifest::Format;
pub use npy::{NpyWriter, write_npy};
pub(crate) use seal::BLOCK_BYTES;
pub use splits::SplitRanges;
pub use verify::{KINDS, Kind, Verified, verify, verify_among};
