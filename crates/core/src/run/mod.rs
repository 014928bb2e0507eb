//! How work is done: inputs declared once, states that merge along a fixed tree, one way to run a metric.
//!
//! The same inputs give the same bits with any number of threads, units and processes: integers, extremes and tops commute,
//! sums follow the tree over leaves of rows, and randomness is keyed by `(seed, purpose, block)`.

mod artefact;
mod batch;
mod files;
mod inputs;
mod job;
mod layout;
pub mod leaves;
mod read;
mod role;
mod roles;
mod scan;
mod state;
#[cfg(test)]
mod tests;
mod top_rows;
mod tree;
mod units;
mod work;

pub use artefact::{Artefact, ByRow, Checkpoint, Generated, Samples, Truth, WorldDirectory};
pub use batch::RowBatch;
pub use inputs::{Inputs, Item, Over};
pub use job::Job;
pub use read::{load_activations, load_codes, load_directions, load_labels};
pub use role::{AnyRole, Axis, Load, Loading, Many, Role, RoleCard};
pub use roles::{
    CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, GENERATED, LABELS, NULLS, OTHERS, PAIR_CODES, PAIR_EMBEDDINGS,
    PAIR_LABELS, PAIRS, POOLING, ROLES, SAE, SAMPLES, TRAINING, TRUTH, UNITS, WORLD, find_role,
};
pub(crate) use scan::{Member, Scanner};
pub use state::{Count, KeyCounts, List, Max, Min, State, Sum};
pub use top_rows::TopRows;
pub use units::{Unit, Units};
pub use work::{Kept, Lazy, Mode, Outcome, Output, Work};
