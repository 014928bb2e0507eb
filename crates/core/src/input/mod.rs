//! The gate: the only code that parses foreign bytes. What passes is checked arrays and tables.

use crate::error::Result;

/// How large an array of rows is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// How many rows there are.
    pub rows: usize,
    /// Values per row.
    pub width: usize,
    /// How many consecutive rows form a sample, when the array says so (samples × tokens × width).
    pub rows_per_sample: Option<usize>,
}

/// Rows of an array, read in order.
pub trait RowReader: Send {
    /// How large the array is.
    fn shape(&self) -> Shape;
    /// What kind of source it is, such as "npy".
    fn kind(&self) -> &str;
    /// Fills `out`, whose length is a multiple of the width, with the next rows; says how many, 0 at the end.
    fn read(&mut self, out: &mut [f32]) -> Result<usize>;
}
