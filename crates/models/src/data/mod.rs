//! Inputs of networks: texts and images from files, folders, tables, arrays, and packaged data sets.
//!
//! [`Input::open`] takes a path or the name of a packaged data set and gives samples in a fixed order. It reads one sample at
//! a time, and [`Input::seek`] continues where an earlier run stopped.
//!
//! | input | samples |
//! |---|---|
//! | `.jsonl`, `.csv`, `.tsv`, `.parquet`, `.arrow`, `.feather` | one per record: a text column, or an image column (bytes, or paths relative to the table) |
//! | `.txt` | one, or one per line |
//! | `.npy` | one per image: uint8 [images, height, width] or [images, height, width, 3]; a table of the same name describes them |
//! | a folder | one per text or image file, at any depth, by name; or the records of all its tables |
//! | `NAME:PATH` | samples drawn from a published data set: equally many of every class |
//! | `first-letters` | a prompt for every word of the vocabulary of a language model |
//! | `A,B` | those of A, then those of B |
//!
//! An item that cannot be read is skipped, and [`Input::skipped`] lists it with the reason. [`Concepts`] turns the other columns
//! into concept labels.

mod array;
mod cache;
mod columns;
mod concepts;
mod draw;
mod drawn;
mod files;
mod first_letters;
mod folder;
mod identity;
mod input;
mod joined;
mod known;
mod layouts;
mod options;
mod packaged;
mod sample;
mod sampled;
mod table;
mod text_file;
mod words;

pub use cache::cache_directory;
pub use concepts::{ConceptOptions, ConceptTable, Concepts};
pub(crate) use first_letters::question as first_letter_question;
pub use first_letters::{FIRST_LETTERS, LETTER_EXAMPLES, LetterWords};
pub use identity::{InputAddress, input_id, known_input_id};
pub use input::{Input, Skipped};
pub use known::forget_inputs;
pub use layouts::split_layout;
pub use options::{ContentKind, InputOptions};
pub use packaged::{DATA_SETS, Entry, FORMAT, MODELS, Part, packaged, packaged_pairs, packages, resolve};
pub use sample::{Content, Label, Sample, Words};
