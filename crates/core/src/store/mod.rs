//! Arrays on disk and in memory: activations, and the stored form of sparse rows.
//!
//! A stored directory has data files that are plain little-endian arrays, a file of checksums (`.crc`) for each, and a
//! `manifest.json` that is written last: a directory is finished if it has a valid manifest. To resume, run again.
//!
//! ```
//! use etalon::store::ActivationStore;
//!
//! // Three rows of width 2.
//! let store = ActivationStore::from_rows(vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2)?;
//! assert_eq!((store.rows(), store.width()), (3, 2));
//! assert_eq!(store.tile(1..3)?.values[..], [3.0, 4.0, 5.0, 6.0]);
//! # Ok::<(), etalon::error::Error>(())
//! ```

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
mod stored_number;
mod verify;

pub use activations::{ActivationStore, StoreReader, Tile};
pub(crate) use checksums::BLOCK_BYTES;
pub use csv::{csv_text, write_csv};
pub use import::{ImportOptions, import};
pub use lock::Lock;
pub use manifest::DirectoryFormat;
pub use npy::{NpyWriter, npy_header, write_npy};
pub use splits::SplitRanges;
pub use stored_number::StoredNumber;
pub use verify::{DirectoryKind, KINDS, Verified, verify, verify_among};
