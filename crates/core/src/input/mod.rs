//! Reads the files of other programs: checked arrays, tables and tensors come out. No other module parses foreign bytes.
//!
//! Three rules hold for every reader. A size that a file states is compared with the length of the file, and reserved
//! in the memory budget, before anything is allocated. Nothing in a data file is ever executed. Every error names what
//! is wrong, what was expected, where, and what to do.

mod archive;
mod csv;
mod file;
mod finite;
mod format;
mod fortran;
pub mod hub;
mod json;
mod jsonl;
mod layout;
mod map;
mod npy;
mod npz;
mod number;
mod packaged;
mod parquet;
mod parquet_footer;
mod parquet_headers;
mod parquet_pages;
mod parquet_table;
mod parquet_thrift;
mod pickle;
mod pickle_names;
mod picture;
mod pixel_array;
mod python;
mod records;
mod safetensors;
mod samples;
mod shape;
mod source;
mod sparse;
mod stream;
mod strided;
mod table;
mod tensor_file;
mod tensors;
mod torch;
mod trials;
mod words;

use std::ops::Range;
use std::path::Path;

use crate::context::{Budget, Reservation};
use crate::error::{Error, InFile, InputError, Result};
use finite::FiniteCheck;
use format::Format;

pub use file::open_regular;
pub use finite::Finite;
pub use layout::{MapLayout, read_layout};
pub use map::Map;
pub(crate) use packaged::packaged_path;
pub use packaged::{FindPackage, provide_packages};
pub use picture::{LARGEST_PICTURE, picture_ending, read_picture};
pub use pixel_array::PixelArray;
pub use records::{Cell, CellKind, Column, Record, RecordReader, open_records};
pub(crate) use samples::LONGEST_SAMPLE;
pub use samples::{Firing, Region, Sample, read_samples};
pub use shape::{Shape, format_shape};
pub use source::Source;
pub use sparse::{SparseRows, read_sparse};
pub use table::TextTable;
pub use tensor_file::TensorFile;
pub use tensors::{Tensor, Tensors};
pub use torch::TorchModule;
pub use trials::read_trials;
pub(crate) use words::spaced_words;

/// Rows of an array, read in order, converted to `f32`, in bounded memory.
pub trait RowReader: Send {
    /// The number of rows and their width.
    fn shape(&self) -> Shape;
    /// The format and the number type, for messages: "npy float16, Fortran order".
    fn kind(&self) -> &str;
    /// Fills `out` (a multiple of the width) with the next rows; returns how many were read, 0 at the end. Values are
    /// not checked: NaN and infinities are passed on.
    fn read(&mut self, out: &mut [f32]) -> Result<usize>;
    /// How many values that were read are too small for `f32` and became 0.
    fn underflowed(&self) -> u64 {
        0
    }
}

/// A whole array in memory.
#[derive(Debug)]
#[non_exhaustive]
pub struct DenseRows {
    /// The rows, one after the other.
    pub values: Vec<f32>,
    /// Number of rows.
    pub rows: usize,
    /// Values per row.
    pub width: usize,
    /// Rows per sample, when the array was 3-D; `None` too when rows were dropped, because samples are then uneven.
    pub rows_per_sample: Option<usize>,
    /// The rows of the file that were dropped because they were not finite, ascending.
    pub dropped: Vec<usize>,
    /// Format and number type: see [`RowReader::kind`].
    pub kind: String,
    /// The memory reservation of the values; keep it as long as them.
    pub memory: Reservation,
}

/// Opens an array as rows. The ending of the name, or else the first bytes, decide the format.
pub fn open_rows(source: &Source, budget: &Budget) -> Result<Box<dyn RowReader>> {
    let format = Format::of(&source.path)?;
    let rows = match format {
        Format::Npy => npy::open_rows(source, budget),
        Format::Npz => npz::open_rows(source, budget),
        Format::Safetensors => safetensors::open_rows(source),
        Format::Parquet => parquet::open_rows(source),
        Format::Torch => torch::open_rows(source, budget),
        Format::Csv { .. } | Format::Jsonl | Format::Arrow => {
            Err(InputError::new("the file is a table of text, not an array")
                .expected("an array as .npy, .npz, .safetensors, .parquet or .pt")
                .found(format.name())
                .advice("save the numbers with numpy.save")
                .into())
        }
    };
    rows.in_file(&source.path)
}

/// Reads the whole array into memory, within the budget.
pub fn read_rows(source: &Source, finite: Finite, budget: &Budget) -> Result<DenseRows> {
    let (mut read, check) = read_all(source, budget)?;
    match finite {
        Finite::Refuse => check.refuse(&read.kind).in_file(&source.path)?,
        Finite::DropRows => {
            read.dropped = finite::drop_rows(&mut read.values, read.width);
            if !read.dropped.is_empty() {
                read.rows -= read.dropped.len();
                read.rows_per_sample = None;
            }
        }
    }
    Ok(read)
}

/// Reads the whole array into memory without checking values: for labels, where NaN means not annotated.
pub fn read_with_gaps(source: &Source, budget: &Budget) -> Result<DenseRows> {
    read_all(source, budget).map(|(read, _)| read)
}

fn read_all(source: &Source, budget: &Budget) -> Result<(DenseRows, FiniteCheck)> {
    let mut reader = open_rows(source, budget)?;
    let Shape { rows, width, rows_per_sample } = reader.shape();
    let length = rows.checked_mul(width).ok_or_else(|| Error::Bug("rows × width of an open array".into()))?;
    let memory = budget.reserve(length as u64 * 4, format!("an array of {rows} × {width} numbers"))?;
    let mut values = vec![0f32; length];
    let mut check = FiniteCheck::new(width);
    // Blocks: values are checked while they are still in the cache.
    let block = ((1 << 18) / width).max(1) * width;
    let mut filled = 0;
    while filled < length {
        let end = length.min(filled + block);
        let count = reader.read(&mut values[filled..end])? * width;
        if count == 0 {
            return Err(Error::Bug(format!("{} rows of {rows} came out of an open array", filled / width)));
        }
        check.update(&values[filled..filled + count]);
        filled += count;
    }
    let kind = reader.kind().to_string();
    Ok((DenseRows { values, rows, width, rows_per_sample, dropped: Vec::new(), kind, memory }, check))
}

/// The byte range of the values, when the file stores them as C-order little-endian `f32` that can be mapped.
pub fn plain_f32(source: &Source) -> Result<Option<(Range<u64>, Shape)>> {
    let plain = match Format::of(&source.path)? {
        Format::Npy => npy::plain_f32(source),
        Format::Safetensors => safetensors::plain_f32(source),
        _ => Ok(None),
    };
    plain.in_file(&source.path)
}

/// Reads a table of text cells with a header: labels, pairs, metadata.
pub fn read_table(path: &Path, budget: &Budget) -> Result<TextTable> {
    read_table_with_lists(path, &[], budget)
}

/// Reads a table in which some columns may have lists where the format has them (JSONL); their cells are JSON text.
pub(crate) fn read_table_with_lists(path: &Path, lists: &[&str], budget: &Budget) -> Result<TextTable> {
    let format = Format::of(path)?;
    let table = match format {
        Format::Csv { delimiter } => csv::read(path, delimiter, budget),
        Format::Jsonl => jsonl::read(path, lists, budget),
        Format::Parquet => parquet_table::read(path, budget),
        _ => Err(InputError::new("the file is not a table of text")
            .expected("a table as .csv, .tsv, .jsonl or .parquet")
            .found(format.name())
            .advice("save the table as CSV with a header line")
            .into()),
    };
    table.in_file(path)
}

/// Reads a torch file: a state dict, or a whole module of a known class. Nothing in it is executed.
pub fn read_torch_module(path: &Path, budget: &Budget) -> Result<TorchModule> {
    torch::read_module(path, budget).in_file(path)
}

/// The names of the tensors in a torch file, without their values.
pub fn torch_tensor_names(path: &Path, budget: &Budget) -> Result<Vec<String>> {
    torch::tensor_names(path, budget).in_file(path)
}

/// Reads the tensors of a `.safetensors`, `.npz` or torch (`.pt`, `.pth`, `.bin`) file. Nothing in it is executed.
pub fn read_tensors(path: &Path, budget: &Budget) -> Result<Tensors> {
    let format = Format::of(path)?;
    let tensors = match format {
        Format::Npz => npz::read_tensors(path, budget),
        Format::Safetensors => safetensors::read_tensors(path, budget),
        Format::Torch => torch::read_tensors(path, budget),
        _ => Err(InputError::new("not a checkpoint with named tensors")
            .expected("a .safetensors, .npz, .pt, .pth or .bin file")
            .found(format.name())
            .advice("save the tensors with safetensors.torch.save_file")
            .into()),
    };
    tensors.in_file(path)
}
