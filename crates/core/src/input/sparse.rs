//! Sparse arrays as scipy saves them, row by row (CSR).

use super::Source;
use super::archive::Archive;
use super::format::Format;
use super::npz::RawArray;
use super::source::no_key;
use crate::context::{Budget, Reservation};
use crate::error::{InFile, InputError, Result};

/// Sparse rows (CSR): only entries other than zero are stored, in ascending order of columns.
#[derive(Clone, Debug, PartialEq)]
pub struct SparseRows {
    /// Number of rows.
    pub rows: usize,
    /// Number of columns.
    pub columns: usize,
    /// Start of each row in `indices` and `values`, and the end of the last one.
    pub offsets: Vec<u64>,
    /// The columns of the entries.
    pub indices: Vec<u32>,
    /// The values of the entries.
    pub values: Vec<f32>,
    /// Number of values that are too small for `f32` and became 0.
    pub underflowed: u64,
}

/// Reads a file of `scipy.sparse.save_npz`; `None` for any other file. Within a row, entries are sorted by column,
/// entries of the same column are added up, and zeros are dropped.
pub fn read_sparse(source: &Source, budget: &Budget) -> Result<Option<SparseRows>> {
    if Format::of(&source.path)? != Format::Npz {
        return Ok(None);
    }
    let mut archive = Archive::open(&source.path)?;
    if !["format.npy", "shape.npy", "data.npy"].iter().all(|name| archive.find(name).is_some()) {
        return Ok(None);
    }
    no_key(source, "sparse npz").in_file(&source.path)?;
    read(&mut archive, budget).in_file(&source.path).map(Some)
}

fn read(archive: &mut Archive, budget: &Budget) -> Result<SparseRows> {
    let format = array(archive, "format", budget)?;
    let format: String =
        format.data().iter().filter(|byte| byte.is_ascii_graphic()).take(16).map(|&byte| char::from(byte)).collect();
    if format != "csr" {
        return Err(InputError::new("the sparse array is not stored row by row")
            .expected("the format csr")
            .found(format)
            .advice("save array.tocsr()")
            .into());
    }
    let (sizes, _) = integers(archive, "shape", budget)?;
    let [rows, columns] = sizes[..] else {
        return Err(wrong("shape", "2 dimensions", sizes.len()).into());
    };
    let (Ok(rows), Ok(columns)) = (usize::try_from(rows), u32::try_from(columns)) else {
        return Err(wrong("shape", "rows, and at most 2^32 − 1 columns", format!("{rows} × {columns}")).into());
    };
    let (starts, _starts) = integers(archive, "indptr", budget)?;
    let (columns_of, _columns) = integers(archive, "indices", budget)?;
    let data = array(archive, "data", budget)?;
    let layout = data.layout()?;
    let entries = data.data().len() / layout.size();
    if Some(starts.len()) != rows.checked_add(1) {
        return Err(wrong("indptr", format!("{rows} + 1 offsets"), starts.len()).into());
    }
    if columns_of.len() != entries {
        return Err(wrong("indices", format!("{entries} columns, one per value"), columns_of.len()).into());
    }
    let _memory = budget.reserve(entries as u64 * 12 + rows as u64 * 8, "a sparse array")?;
    let mut values = vec![0f32; entries];
    layout.decode(data.data(), &mut values);

    let mut sparse = SparseRows {
        rows,
        columns: columns as usize,
        offsets: Vec::with_capacity(starts.len()),
        indices: Vec::with_capacity(entries),
        values: Vec::with_capacity(entries),
        underflowed: layout.underflowed(data.data(), &values),
    };
    sparse.offsets.push(0);
    let mut row_entries: Vec<(u32, f32)> = Vec::new();
    let mut reached = 0;
    for (row, &end) in starts.iter().skip(1).enumerate() {
        let range = usize::try_from(end).ok().filter(|&end| end >= reached && end <= entries).map(|end| reached..end);
        let Some(range) = range.filter(|_| starts[0] == 0) else {
            let expected = format!("offsets that ascend from 0 to {entries}");
            return Err(wrong("indptr", expected, format!("{} to {end}", starts[row])).at(format!("row {row}")).into());
        };
        reached = range.end;
        row_entries.clear();
        for (&column, &value) in columns_of[range.clone()].iter().zip(&values[range]) {
            match u32::try_from(column).ok().filter(|&column| column < columns) {
                Some(column) if value.is_finite() => row_entries.push((column, value)),
                Some(column) => {
                    let bad = values.iter().filter(|value| !value.is_finite()).count();
                    return Err(InputError::new(format!("{bad} values are NaN or infinite"))
                        .expected("finite numbers")
                        .found(format!("{value} in npz csr {}", layout.name()))
                        .at(format!("first at row {row}, column {column}"))
                        .advice("fix the array and save it again")
                        .into());
                }
                None => {
                    return Err(wrong("indices", format!("columns from 0, below {columns}"), column)
                        .at(format!("row {row}"))
                        .into());
                }
            }
        }
        sparse.push(&mut row_entries);
    }
    if reached != entries {
        return Err(wrong("indptr", format!("{entries} as the last offset"), reached).into());
    }
    Ok(sparse)
}

impl SparseRows {
    /// Appends a row.
    fn push(&mut self, entries: &mut [(u32, f32)]) {
        // A stable sort, so that equal columns are added up in the order of the file.
        entries.sort_by_key(|&(column, _)| column);
        for same in entries.chunk_by(|a, b| a.0 == b.0) {
            let value = same.iter().map(|&(_, value)| f64::from(value)).sum::<f64>() as f32;
            if value != 0.0 {
                self.indices.push(same[0].0);
                self.values.push(value);
            }
        }
        self.offsets.push(self.values.len() as u64);
    }
}

fn array(archive: &mut Archive, key: &str, budget: &Budget) -> Result<RawArray> {
    RawArray::read(archive, key, budget)?.ok_or_else(|| {
        InputError::new("a part of the sparse array is missing")
            .expected(format!("an entry `{key}.npy`"))
            .advice("save it again with scipy.sparse.save_npz")
            .into()
    })
}

fn integers(archive: &mut Archive, key: &str, budget: &Budget) -> Result<(Vec<i64>, Reservation)> {
    let raw = array(archive, key, budget)?;
    let layout = raw.layout()?;
    let length = (raw.data().len() / layout.size()) as u64;
    let memory = budget.reserve(length.saturating_mul(8), format!("the part `{key}` of a sparse array"))?;
    match layout.integers(raw.data()) {
        Some(integers) => Ok((integers, memory)),
        None => Err(wrong(key, "integers", layout.name()).into()),
    }
}

fn wrong(part: &str, expected: impl std::fmt::Display, found: impl std::fmt::Display) -> InputError {
    InputError::new(format!("the part `{part}` of the sparse array is invalid"))
        .expected(expected)
        .found(found)
        .advice("save it again with scipy.sparse.save_npz")
}
