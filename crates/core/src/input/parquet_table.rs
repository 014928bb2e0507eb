//! Parquet files as tables of text.

use std::path::Path;

use ::parquet::basic::ConvertedType;
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::Result as ParquetResult;
use ::parquet::schema::types::ColumnDescriptor;

use super::TextTable;
use super::parquet_pages::{Levels, ParquetFile, call, read_records};
use crate::context::Budget;
use crate::error::{InputError, Result};

/// Rows that are turned into text at a time.
const BLOCK: usize = 4096;

/// Reads every column as text: numbers in decimal, nulls as empty cells.
pub(super) fn read(path: &Path, budget: &Budget) -> Result<TextTable> {
    let file = ParquetFile::open(path)?;
    let schema = file.metadata().file_metadata().schema_descr();
    let names: Vec<String> = schema.columns().iter().map(|column| column.name().to_string()).collect();
    for column in schema.columns() {
        if column.path().parts().len() != 1 || column.max_rep_level() > 0 {
            return Err(InputError::new("a column of the table is nested")
                .expected("text, numbers or booleans in every cell")
                .at(format!("column `{}`", column.path().string()))
                .advice("drop or flatten the column before saving")
                .into());
        }
    }
    let mut table = TextTable::new(names)?;
    let mut pending = 0;
    for (group, &group_rows) in file.group_rows.iter().enumerate() {
        let mut readers = Vec::with_capacity(table.header.len());
        for column in 0..table.header.len() {
            readers.push(file.column(group, column)?);
        }
        for start in (0..group_rows).step_by(BLOCK) {
            let count = BLOCK.min(group_rows - start);
            let mut cells: Vec<Vec<String>> = vec![Vec::with_capacity(readers.len()); count];
            for (column, reader) in readers.iter_mut().enumerate() {
                let texts = call(|| texts(reader, &schema.column(column), count))?;
                if texts.len() != count {
                    return Err(InputError::new("a column has the wrong number of values")
                        .expected(format!("{count} values"))
                        .found(format!("{} values", texts.len()))
                        .at(format!("column `{}`", table.header[column]))
                        .advice("the file is damaged; copy or write it again")
                        .into());
                }
                for (row, text) in cells.iter_mut().zip(texts) {
                    row.push(text.ok_or_else(|| {
                        InputError::new("a cell is not text")
                            .expected("UTF-8 text, numbers or booleans")
                            .at(format!("column `{}`", table.header[column]))
                            .advice("convert the column to text before saving")
                    })?);
                }
            }
            for row in cells {
                table.push(row, &mut pending, budget)?;
            }
        }
    }
    table.reserve(&mut pending, budget)?;
    Ok(table)
}

/// The next cells of a column; `None` where bytes are not text.
fn texts(reader: &mut ColumnReader, column: &ColumnDescriptor, rows: usize) -> ParquetResult<Vec<Option<String>>> {
    let full = column.max_def_level();
    let unsigned = matches!(
        column.converted_type(),
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
    );
    match reader {
        ColumnReader::BoolColumnReader(reader) => cells(reader, full, rows, |value| Some(value.to_string())),
        ColumnReader::Int32ColumnReader(reader) => cells(reader, full, rows, |value| {
            Some(if unsigned { (*value as u32).to_string() } else { value.to_string() })
        }),
        ColumnReader::Int64ColumnReader(reader) => cells(reader, full, rows, |value| {
            Some(if unsigned { (*value as u64).to_string() } else { value.to_string() })
        }),
        ColumnReader::FloatColumnReader(reader) => cells(reader, full, rows, |value| Some(value.to_string())),
        ColumnReader::DoubleColumnReader(reader) => cells(reader, full, rows, |value| Some(value.to_string())),
        ColumnReader::ByteArrayColumnReader(reader) => cells(reader, full, rows, |value| {
            std::str::from_utf8(value.data()).ok().filter(|text| !text.contains('\0')).map(str::to_string)
        }),
        ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => Ok(vec![None; rows]),
    }
}

fn cells<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    full: i16,
    rows: usize,
    text: impl Fn(&T::T) -> Option<String>,
) -> ParquetResult<Vec<Option<String>>> {
    let mut levels = Levels::default();
    let mut values = Vec::new();
    read_records(reader, rows, &mut levels, &mut values)?;
    if full == 0 {
        return Ok(values.iter().map(text).collect());
    }
    let mut values = values.iter();
    let cell = |level: &i16| if *level == full { values.next().and_then(&text) } else { Some(String::new()) };
    Ok(levels.definition.iter().map(cell).collect())
}
