//! Numerical kernels of Etalon on plain slices, independent of concepts and dictionaries. The only crate of the
//! project with `unsafe`.

pub mod activation;
pub mod aligned;
pub mod amx;
mod amx_support;
pub mod assignment;
pub mod avx512;
pub mod bits;
pub mod candidates;
pub mod cholesky;
pub mod eigen;
pub mod huge_pages;
pub mod int8;
pub mod kmeans;
pub mod lanczos;
pub mod largest_products;
pub mod map;
pub mod matching_pursuit;
pub mod monitor;
pub mod neighbours;
pub mod neural;
pub mod nnls;
pub mod packed;
pub mod pairs;
pub mod prefetch;
pub mod product;
pub mod random;
pub mod statistics;
pub mod thin;
pub mod top_k;
pub mod umap;
pub mod vector;
