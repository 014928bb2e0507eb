//! The compiled module of the Python package `etalon`. It converts between NumPy arrays and the types of the library and runs
//! long work without the interpreter's lock; options, tables and everything else that a user sees are Python, in
//! `python/etalon`.

mod arrays;
mod cards;
mod dictionary;
mod error;
mod evaluate;
mod session;
mod train;

use pyo3::prelude::*;

/// The compiled part of the package.
#[pymodule]
mod _etalon {
    #[pymodule_export]
    use super::arrays::{Codes, Labels, Rows};
    #[pymodule_export]
    use super::cards::{archs, metrics, roles, version};
    #[pymodule_export]
    use super::dictionary::Dictionary;
    #[pymodule_export]
    use super::evaluate::evaluate;
    #[pymodule_export]
    use super::session::Session;
    #[pymodule_export]
    use super::train::train;
}
