//! The engine: roles and inputs, mergeable states, and how the function of a metric is run.
//!
//! Read `role.rs` and `roles.rs` for inputs, `state.rs` for states, then `work/mod.rs` for stages. `leaves.rs` and
//! `tree.rs` fix the order of floating-point sums.
//!
//! The same inputs give the same bits with any number of threads, units and processes: counts, extremes and top lists
//! do not depend on the order of merging, sums follow the fixed tree over leaves of rows, and random streams are keyed
//! by `(seed, purpose, block)`.
//!
//! Inputs that share an axis must have the same size along it:
//!
//! ```
//! use etalon::codes::Codes;
//! use etalon::run::{CODES, EMBEDDINGS, Inputs};
//! use etalon::store::ActivationStore;
//!
//! let inputs = Inputs::default()
//!     .with(&CODES, Codes::from_dense(&[0.0, 2.0, 1.0, 0.0], 2)?)
//!     .with(&EMBEDDINGS, ActivationStore::from_rows(vec![1.0, 2.0, 3.0], 1)?);
//! let error = inputs.check().unwrap_err().to_string();
//! assert!(error.starts_with("`codes` and `embeddings` differ in rows"));
//! # Ok::<(), etalon::error::Error>(())
//! ```

mod artefact;
mod batch;
mod checks;
mod choice_questions;
mod derived_units;
mod distances;
mod erased;
mod files;
mod inputs;
mod job;
mod layout;
pub mod leaves;
mod loaders;
mod prompts;
mod responses;
mod role;
mod roles;
mod scan;
mod sizes;
mod state;
#[cfg(test)]
mod tests;
mod text_list;
mod token_texts;
mod top_rows;
mod tree;
mod unit_activations;
mod units;
mod work;

pub use artefact::{Artefact, ByRow, Checkpoint, Generated, Samples, Truth, WorldDirectory};
pub use batch::RowBatch;
pub use choice_questions::{ChoiceQuestion, ChoiceQuestions, LETTERS};
pub use distances::DistanceMatrix;
pub use inputs::{Inputs, Over};
pub use job::Job;
pub use loaders::{load_activations, load_codes, load_directions, load_factors, load_labels};
pub use prompts::Prompts;
pub use responses::{Response, Responses};
pub use role::{AnyRole, Axis, FromFile, Item, Load, Loading, Many, Role, RoleCard};
pub use roles::{
    CODES, DICTIONARY, DIRECTIONS, DISTANCES, EMBEDDINGS, ENCODER, ENTITIES, FACTORS, FORGET, GENERATED,
    IMAGE_SIMILARITY, JUDGES, LABELS, NETWORK, NULLS, OTHERS, PAIR_CODES, PAIR_EMBEDDINGS, PAIR_LABELS, PAIRS, POOLING,
    PROMPTS, QUESTIONS, RESPONSES, RETAIN, ROLES, SAE, SAMPLES, SIDE_QUESTIONS, SIMILARITY, TASK_LABELS, TOKENS,
    TRAINING, TRUTH, UNIT_ACTIVATIONS, UNITS, VISUALISATIONS, WORLD, find_role,
};
pub(crate) use scan::{Member, Scanner};
pub use sizes::{AxisSize, check_sizes};
pub use state::{Count, KeyCounts, List, Max, Min, State, Sum};
pub use text_list::TextList;
pub use token_texts::{TokenSource, TokenTexts};
pub use top_rows::TopRows;
pub use unit_activations::{ImageSimilarity, UnitActivations, UnitBatch};
pub use units::{Unit, Units};
pub use work::{BlockResult, Kept, Lazy, Mode, Outcome, Work};
