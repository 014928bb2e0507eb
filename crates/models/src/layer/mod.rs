//! Layers on plain slices. Rows are processed in chunks of a fixed size, each on one thread, so that results do not depend
//! on the number of threads.

mod conv;
mod depthwise;
mod linear;
mod norm;
mod pool;
mod rope;
mod rows;

pub use conv::{Conv, MapShape, Slide, WeightOrder};
pub use depthwise::Depthwise;
pub use linear::{Linear, WeightNumber};
pub use norm::Norm;
pub use pool::{Pool, mean_positions};
pub use rope::{Rope, RopeScaling};
pub use rows::{add, multiply_rows};

/// Rows that one task processes.
pub const CHUNK: usize = 128;
