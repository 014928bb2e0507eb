//! Parquet files as rows of numbers: one column per value, or one column of lists.

use ::parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use ::parquet::column::reader::ColumnReader;
use ::parquet::errors::Result as ParquetResult;
use ::parquet::schema::types::ColumnDescriptor;
use half::f16;

use super::parquet_pages::{Levels, ParquetFile, call, read_records};
use super::source::key_error;
use super::{RowReader, Shape, Source};
use crate::error::{InFile, InputError, Result};

/// Values that are read of a column at a time.
const BLOCK: usize = 1 << 16;

/// The number type of a column, as far as the conversion depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    Bool,
    Signed,
    Unsigned,
    Half,
    Float,
}

/// The number type of a column; `None` if it does not contain numbers.
fn kind_of(column: &ColumnDescriptor) -> Option<ColumnKind> {
    let converted = column.converted_type();
    let unsigned = matches!(
        converted,
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
    );
    let signed = matches!(
        converted,
        ConvertedType::NONE
            | ConvertedType::INT_8
            | ConvertedType::INT_16
            | ConvertedType::INT_32
            | ConvertedType::INT_64
    );
    let logical = column.logical_type_ref();
    match column.physical_type() {
        Physical::BOOLEAN => Some(ColumnKind::Bool),
        Physical::FLOAT | Physical::DOUBLE => Some(ColumnKind::Float),
        Physical::FIXED_LEN_BYTE_ARRAY if logical == Some(&LogicalType::Float16) => Some(ColumnKind::Half),
        Physical::INT32 | Physical::INT64 if unsigned => Some(ColumnKind::Unsigned),
        // Dates and times are integers too, but not numbers of an array.
        Physical::INT32 | Physical::INT64 if signed && is_integer(logical) => Some(ColumnKind::Signed),
        _ => None,
    }
}

fn is_integer(logical: Option<&LogicalType>) -> bool {
    matches!(logical, None | Some(LogicalType::Integer(_)))
}

/// Opens the chosen columns as rows.
pub(super) fn open_rows(source: &Source) -> Result<Box<dyn RowReader>> {
    let file = ParquetFile::open(&source.path)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let name = |column: usize| schema.get_column_root(column).name().to_string();
    let mut names: Vec<String> = (0..schema.num_columns()).map(name).collect();
    names.dedup();
    let chosen: Vec<usize> = match &source.key {
        None => (0..schema.num_columns()).collect(),
        Some(key) => (0..schema.num_columns()).filter(|&column| name(column) == *key).collect(),
    };
    if chosen.is_empty() {
        return Err(key_error(source.key.as_deref(), names).into());
    }
    let lists = chosen.iter().filter(|&&column| schema.column(column).max_rep_level() > 0).count();
    if lists > 0 && chosen.len() > 1 {
        return Err(key_error(None, names).into());
    }
    let mut columns = Vec::new();
    for &index in &chosen {
        let column = schema.column(index);
        let found = match kind_of(&column) {
            _ if column.max_rep_level() > 1 => "lists of lists".to_string(),
            None => format!("{} ({})", column.physical_type(), column.converted_type()),
            Some(kind) => {
                columns.push(ParquetColumn { index, kind, full: column.max_def_level(), reader: None });
                continue;
            }
        };
        return Err(InputError::new("a column does not hold numbers")
            .expected("bool, integers, float, double or float16, or lists of them")
            .found(found)
            .at(format!("column `{}`", name(index)))
            .advice("choose a column of numbers by its name, like FILE:NAME")
            .into());
    }
    let width = match columns.as_slice() {
        [only] if lists == 1 => list_width(&file, only.index)?,
        several => several.len(),
    };
    let shape = Shape::of(&[file.rows, width])?;
    let kind = format!("parquet, {}", if lists == 1 { "a column of lists" } else { "columns of numbers" });
    let path = source.path.clone();
    let (group, group_row) = (0, 0);
    Ok(Box::new(ParquetRows { file, columns, list: lists == 1, shape, kind, path, group, group_row, underflowed: 0 }))
}

/// The length of the lists: the same in every row, so that it divides the number of values in each row group.
fn list_width(file: &ParquetFile, column: usize) -> Result<usize> {
    let mut width = None;
    for (group, &rows) in file.group_rows.iter().enumerate().filter(|(_, rows)| **rows > 0) {
        let values = file.values(group, column);
        if !values.is_multiple_of(rows) || width.is_some_and(|width| width != values / rows) {
            return Err(InputError::new("the lists do not all have the same length")
                .expected("as many values in every row")
                .found(format!("{values} values in {rows} rows"))
                .at(format!("row group {group}"))
                .advice("pad the lists to the same length before saving")
                .into());
        }
        width = Some(values / rows);
    }
    // A file without rows has no list to measure.
    Ok(width.unwrap_or(1))
}

struct ParquetColumn {
    index: usize,
    kind: ColumnKind,
    /// The definition level of a value that is not null.
    full: i16,
    reader: Option<ColumnReader>,
}

struct ParquetRows {
    file: ParquetFile,
    columns: Vec<ParquetColumn>,
    list: bool,
    shape: Shape,
    kind: String,
    path: std::path::PathBuf,
    group: usize,
    /// Rows of the group that were already read.
    group_row: usize,
    /// Values that became 0.
    underflowed: u64,
}

impl ParquetRows {
    /// Reads rows of the current row group.
    fn read_in_group(&mut self, rows: usize, out: &mut [f32]) -> Result<()> {
        let width = self.shape.width;
        let first_row = self.file.group_rows[..self.group].iter().sum::<usize>() + self.group_row;
        for (index, column) in self.columns.iter_mut().enumerate() {
            let reader = match &mut column.reader {
                Some(reader) => reader,
                none => none.insert(self.file.column(self.group, column.index)?),
            };
            let mut levels = Levels::default();
            let values = call(|| numbers(reader, column.kind, rows, &mut levels, &mut self.underflowed))?;
            let per_row = if self.list { width } else { 1 };
            check_levels(&levels, column.full, self.list, per_row, rows, first_row)?;
            if values.len() != rows * per_row {
                return Err(InputError::new("a column has the wrong number of values")
                    .expected(format!("{} values", rows * per_row))
                    .found(format!("{} values", values.len()))
                    .at(format!("rows {first_row} to {}", first_row + rows))
                    .advice("the file is damaged; copy or write it again")
                    .into());
            }
            if self.list {
                out[..rows * width].copy_from_slice(&values);
            } else {
                out.iter_mut().skip(index).step_by(width).zip(&values).for_each(|(out, value)| *out = *value);
            }
        }
        self.group_row += rows;
        if self.group_row == self.file.group_rows[self.group] {
            (self.group, self.group_row) = (self.group + 1, 0);
            self.columns.iter_mut().for_each(|column| column.reader = None);
        }
        Ok(())
    }
}

impl RowReader for ParquetRows {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn kind(&self) -> &str {
        &self.kind
    }

    fn read(&mut self, out: &mut [f32]) -> Result<usize> {
        let width = self.shape.width;
        let block_rows = (BLOCK / if self.list { width } else { 1 }).max(1);
        let total = out.len() / width;
        let mut filled = 0;
        while filled < total && self.group < self.file.group_rows.len() {
            let left = self.file.group_rows[self.group] - self.group_row;
            if left == 0 {
                self.group += 1;
                continue;
            }
            let rows = left.min(total - filled).min(block_rows);
            let path = self.path.clone();
            self.read_in_group(rows, &mut out[filled * width..(filled + rows) * width]).in_file(&path)?;
            filled += rows;
        }
        Ok(filled)
    }

    fn underflowed(&self) -> u64 {
        self.underflowed
    }
}

/// Refuses nulls, and lists that do not have `width` values.
fn check_levels(levels: &Levels, full: i16, list: bool, width: usize, rows: usize, first_row: usize) -> Result<()> {
    let row_of = |index: usize| first_row + index / width;
    if let Some(index) = levels.definition.iter().position(|&level| level != full) {
        return Err(InputError::new("a value is missing (null), or a list is empty")
            .expected("a number in every cell")
            .at(format!("row {}", row_of(index)))
            .advice("drop those rows, or fill in the values, before saving")
            .into());
    }
    let starts_row = |(index, &level): (usize, &i16)| (level == 0) == index.is_multiple_of(width);
    if list && (levels.repetition.len() != rows * width || !levels.repetition.iter().enumerate().all(starts_row)) {
        return Err(InputError::new("the lists do not all have the same length")
            .expected(format!("{width} values in every row"))
            .at(format!("rows {first_row} to {}", first_row + rows))
            .advice("pad the lists to the same length before saving")
            .into());
    }
    Ok(())
}

/// The next rows of a column as `f32`; counts the values that became 0.
fn numbers(
    reader: &mut ColumnReader,
    kind: ColumnKind,
    rows: usize,
    levels: &mut Levels,
    underflowed: &mut u64,
) -> ParquetResult<Vec<f32>> {
    Ok(match reader {
        ColumnReader::BoolColumnReader(reader) => {
            let mut values = Vec::new();
            read_records(reader, rows, levels, &mut values)?;
            values.into_iter().map(f32::from).collect()
        }
        ColumnReader::Int32ColumnReader(reader) => {
            let mut values = Vec::new();
            read_records(reader, rows, levels, &mut values)?;
            let unsigned = kind == ColumnKind::Unsigned;
            values.into_iter().map(|value| if unsigned { value as u32 as f32 } else { value as f32 }).collect()
        }
        ColumnReader::Int64ColumnReader(reader) => {
            let mut values = Vec::new();
            read_records(reader, rows, levels, &mut values)?;
            let unsigned = kind == ColumnKind::Unsigned;
            values.into_iter().map(|value| if unsigned { value as u64 as f32 } else { value as f32 }).collect()
        }
        ColumnReader::FloatColumnReader(reader) => {
            let mut values = Vec::new();
            read_records(reader, rows, levels, &mut values)?;
            values
        }
        ColumnReader::DoubleColumnReader(reader) => {
            let mut values = Vec::new();
            read_records(reader, rows, levels, &mut values)?;
            *underflowed += values.iter().filter(|value| **value as f32 == 0.0 && **value != 0.0).count() as u64;
            values.into_iter().map(|value| value as f32).collect()
        }
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            let mut values = Vec::new();
            read_records(reader, rows, levels, &mut values)?;
            let half = |bytes: &[u8]| bytes.first_chunk().map_or(f32::NAN, |bytes| f16::from_le_bytes(*bytes).to_f32());
            values.iter().map(|value| half(value.data())).collect()
        }
        ColumnReader::Int96ColumnReader(_) | ColumnReader::ByteArrayColumnReader(_) => Vec::new(),
    })
}
