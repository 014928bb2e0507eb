//! What most metrics and programs import: `use etalon::prelude::*;`.

pub use serde::{Deserialize, Serialize};

pub use crate::context::Context;
pub use crate::error::Result;
pub use crate::load::{Given, Opening};
pub use crate::metrics::{Metric, evaluate, recipe};
pub use crate::results::{Profile, Scores, Table};
pub use crate::run::{
    CODES, Count, DICTIONARY, DIRECTIONS, EMBEDDINGS, Inputs, Job, LABELS, List, Max, Min, Over, RowBatch, State, Sum,
    TopRows, Work,
};
