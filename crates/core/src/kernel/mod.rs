//! Mathematics on plain slices: nothing here knows about files, concepts or dictionaries.

pub mod ahead;
pub mod aligned;
pub mod assignment;
pub mod bits;
pub mod candidates;
pub mod cholesky;
pub mod eigen;
pub mod eight;
pub mod integer;
pub mod kmeans;
pub mod lanczos;
pub mod large;
pub mod neighbours;
pub mod nnls;
pub mod panels;
pub mod product;
pub mod random;
pub mod statistics;
pub mod tiles;
pub mod top;
pub mod umap;
pub mod vector;
