//! Records of a parquet file. Fields of structures are columns of their own; lists of texts or numbers are cells.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use ::parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Physical};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use ::parquet::data_type::DataType;
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::schema::types::ColumnDescriptor;

use super::{Cell, CellKind, Column, Record, RecordReader, all, check_names, text_cell};
use crate::context::{Budget, Reservation};
use crate::error::{InFile, InputError, Result};
use crate::input::parquet_pages::{Levels, ParquetFile, call, read_records};

/// Records that are read at a time. Images can be megabytes each.
const BLOCK: usize = 64;

/// A cell, or the reason why it cannot be read.
type Read = std::result::Result<Cell, String>;

struct ParquetRecords {
    file: ParquetFile,
    columns: Vec<Column>,
    selected: Vec<usize>,
    group: usize,
    /// Records of the group that were already read.
    group_row: usize,
    /// The readers of the selected columns in the current group, once it is opened.
    readers: Vec<ColumnReader>,
    ready: VecDeque<Record>,
    memory: Reservation,
    path: PathBuf,
}

/// Opens a parquet file.
pub(super) fn open(path: &Path, budget: &Budget) -> Result<Box<dyn RecordReader>> {
    let file = ParquetFile::open(path)?;
    let columns: Vec<Column> =
        file.metadata().file_metadata().schema_descr().columns().iter().map(|column| describe(column)).collect();
    check_names(&columns)?;
    let selected = all(&columns);
    let memory = budget.reserve(0, "records of a parquet file")?;
    let path = path.to_path_buf();
    let ready = VecDeque::new();
    Ok(Box::new(ParquetRecords {
        file,
        columns,
        selected,
        group: 0,
        group_row: 0,
        readers: Vec::new(),
        ready,
        memory,
        path,
    }))
}

/// The name and the kind of a column.
fn describe(column: &ColumnDescriptor) -> Column {
    let parts = column.path().parts();
    let element = kind_of(column);
    // A list has the parts `tokens.list.element`, in the names of whichever program wrote it.
    match (column.max_rep_level(), element, parts) {
        (0, kind, parts) => Column { name: parts.join("."), kind },
        (1, CellKind::Text | CellKind::Number | CellKind::Bool, [name, _] | [name, _, _]) => {
            Column { name: name.clone(), kind: CellKind::List }
        }
        (_, _, parts) => Column { name: parts.join("."), kind: CellKind::Nested },
    }
}

/// What a column, or the lists of a column, contain.
fn kind_of(column: &ColumnDescriptor) -> CellKind {
    let logical = column.logical_type_ref();
    let text = matches!(logical, Some(LogicalType::String | LogicalType::Json | LogicalType::Enum))
        || matches!(column.converted_type(), ConvertedType::UTF8 | ConvertedType::JSON | ConvertedType::ENUM);
    match column.physical_type() {
        Physical::BOOLEAN => CellKind::Bool,
        Physical::INT32 | Physical::INT64 if matches!(logical, None | Some(LogicalType::Integer(_))) => {
            CellKind::Number
        }
        Physical::FLOAT | Physical::DOUBLE => CellKind::Number,
        Physical::BYTE_ARRAY if text => CellKind::Text,
        Physical::BYTE_ARRAY => CellKind::Bytes,
        _ => CellKind::Nested,
    }
}

impl ParquetRecords {
    /// Moves to the next group with records, and opens its columns; false at the end.
    fn open_group(&mut self) -> Result<bool> {
        loop {
            let Some(&rows) = self.file.group_rows.get(self.group) else { return Ok(false) };
            if self.group_row < rows {
                break;
            }
            (self.group, self.group_row) = (self.group + 1, 0);
            self.readers.clear();
        }
        if self.readers.is_empty() {
            let open = |&column: &usize| self.file.column(self.group, column);
            self.readers = self.selected.iter().map(open).collect::<Result<_>>()?;
            let skip = std::mem::take(&mut self.group_row);
            self.skip_rows(skip)?;
        }
        Ok(true)
    }

    /// Skips records of the current group.
    fn skip_rows(&mut self, rows: usize) -> Result<()> {
        for reader in &mut self.readers {
            let skipped = call(|| skip_records(reader, rows))?;
            if skipped != rows {
                return Err(wrong_count(rows, skipped).into());
            }
        }
        self.group_row += rows;
        Ok(())
    }

    fn fill(&mut self) -> Result<()> {
        if !self.open_group()? {
            return Ok(());
        }
        let rows = BLOCK.min(self.file.group_rows[self.group] - self.group_row);
        let schema = self.file.metadata().file_metadata().schema_descr();
        let mut records: Vec<std::result::Result<Vec<Cell>, String>> = vec![Ok(Vec::new()); rows];
        let mut bytes = 0;
        for (&index, reader) in self.selected.iter().zip(&mut self.readers) {
            let (column, descriptor) = (&self.columns[index], schema.column(index));
            let cells = call(|| cells(reader, &descriptor, column, rows))?;
            if cells.len() != rows {
                return Err(wrong_count(rows, cells.len()).at(format!("column `{}`", column.name)).into());
            }
            for (record, cell) in records.iter_mut().zip(cells) {
                bytes += cell.as_ref().map_or(0, size);
                match (&mut *record, cell) {
                    (Ok(cells), Ok(cell)) => cells.push(cell),
                    (Ok(_), Err(reason)) => *record = Err(reason),
                    (Err(_), _) => {}
                }
            }
        }
        if bytes > self.memory.bytes() {
            self.memory.resize(bytes, "records of a parquet file")?;
        }
        self.ready = records.into_iter().map(|cells| cells.map_or_else(Record::Corrupt, Record::Cells)).collect();
        self.group_row += rows;
        Ok(())
    }
}

impl RecordReader for ParquetRecords {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count(&self) -> Option<u64> {
        Some(self.file.rows as u64)
    }

    fn select(&mut self, columns: &[usize]) {
        self.selected = columns.to_vec();
        // The next record is the first one that was not returned.
        self.group_row = self.group_row.saturating_sub(self.ready.len());
        self.ready.clear();
        self.readers.clear();
    }

    fn read(&mut self) -> Result<Option<Record>> {
        if self.ready.is_empty() {
            let path = self.path.clone();
            self.fill().in_file(&path)?;
        }
        Ok(self.ready.pop_front())
    }

    fn skip(&mut self, records: u64) -> Result<u64> {
        let buffered = self.ready.len().min(usize::try_from(records).unwrap_or(usize::MAX));
        self.ready.drain(..buffered);
        let mut skipped = buffered as u64;
        while skipped < records {
            let Some(&rows) = self.file.group_rows.get(self.group) else { break };
            let left = (rows - self.group_row) as u64;
            let step = left.min(records - skipped);
            if step == left {
                (self.group, self.group_row) = (self.group + 1, 0);
                self.readers.clear();
            } else if self.readers.is_empty() {
                self.group_row += step as usize;
            } else {
                let path = self.path.clone();
                self.skip_rows(step as usize).in_file(&path)?;
            }
            skipped += step;
        }
        Ok(skipped)
    }
}

fn wrong_count(expected: usize, found: usize) -> InputError {
    InputError::new("a column has the wrong number of values")
        .expected(format!("{expected} values"))
        .found(format!("{found} values"))
        .advice("the file is damaged; copy or write it again")
}

/// The bytes of a cell in memory.
fn size(cell: &Cell) -> u64 {
    let content = match cell {
        Cell::Null | Cell::Nested => 0,
        Cell::Text(text) => text.len(),
        Cell::Bytes(bytes) => bytes.len(),
        Cell::List(list) => list.iter().map(|text| text.len() + 24).sum(),
    };
    content as u64 + 32
}

fn skip_records(reader: &mut ColumnReader, rows: usize) -> ParquetResult<usize> {
    match reader {
        ColumnReader::BoolColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int32ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int64ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::Int96ColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::FloatColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::DoubleColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::ByteArrayColumnReader(reader) => reader.skip_records(rows),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => reader.skip_records(rows),
    }
}

/// The next cells of a column.
fn cells(
    reader: &mut ColumnReader,
    descriptor: &ColumnDescriptor,
    column: &Column,
    rows: usize,
) -> ParquetResult<Vec<Read>> {
    if column.kind == CellKind::Nested {
        return skip_records(reader, rows).map(|skipped| vec![Ok(Cell::Nested); skipped]);
    }
    let unsigned = matches!(
        descriptor.converted_type(),
        ConvertedType::UINT_8 | ConvertedType::UINT_16 | ConvertedType::UINT_32 | ConvertedType::UINT_64
    );
    let text = |text: String| Ok(Cell::Text(text));
    let full = descriptor.max_def_level();
    let is_optional = descriptor.self_type().get_basic_info().repetition() == Repetition::OPTIONAL;
    let levels = Definition { full, element: full - i16::from(is_optional) };
    match reader {
        ColumnReader::BoolColumnReader(reader) => {
            rows_of(reader, levels, column, rows, |value| text(value.to_string()))
        }
        ColumnReader::Int32ColumnReader(reader) => rows_of(reader, levels, column, rows, |value| {
            text(if unsigned { (*value as u32).to_string() } else { value.to_string() })
        }),
        ColumnReader::Int64ColumnReader(reader) => rows_of(reader, levels, column, rows, |value| {
            text(if unsigned { (*value as u64).to_string() } else { value.to_string() })
        }),
        ColumnReader::FloatColumnReader(reader) => {
            rows_of(reader, levels, column, rows, |value| text(value.to_string()))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            rows_of(reader, levels, column, rows, |value| text(value.to_string()))
        }
        ColumnReader::ByteArrayColumnReader(reader) => rows_of(reader, levels, column, rows, |value| {
            if column.kind == CellKind::Bytes {
                Ok(Cell::Bytes(value.data().to_vec()))
            } else {
                text_cell(value.data(), &column.name)
            }
        }),
        ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
            Err(ParquetError::General(format!("column `{}` is read as nested", column.name)))
        }
    }
}

/// Definition levels of a column.
#[derive(Clone, Copy)]
struct Definition {
    /// That of a value.
    full: i16,
    /// That of an element of a list, missing or not. One less is an empty list, anything below is a missing list.
    element: i16,
}

fn rows_of<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    Definition { full, element }: Definition,
    column: &Column,
    rows: usize,
    cell: impl Fn(&T::T) -> Read,
) -> ParquetResult<Vec<Read>> {
    let (mut levels, mut values) = (Levels::default(), Vec::new());
    read_records(reader, rows, &mut levels, &mut values)?;
    if full == 0 {
        return Ok(values.iter().map(cell).collect());
    }
    let mut values = values.iter();
    let mut next =
        |level: i16| if level == full { values.next().map_or(Ok(Cell::Null), &cell) } else { Ok(Cell::Null) };
    if column.kind != CellKind::List {
        return Ok(levels.definition.iter().map(|&level| next(level)).collect());
    }
    let mut lists: Vec<Read> = Vec::with_capacity(rows);
    for (&definition, &repetition) in levels.definition.iter().zip(&levels.repetition) {
        if repetition == 0 {
            lists.push(Ok(if definition + 1 >= element { Cell::List(Vec::new()) } else { Cell::Null }));
        }
        match (lists.last_mut(), next(definition)) {
            (Some(Ok(Cell::List(list))), Ok(Cell::Text(text))) => list.push(text),
            (Some(Ok(Cell::List(list))), Ok(_)) if definition >= element => list.push(String::new()),
            (Some(last), Err(reason)) => *last = Err(reason),
            _ => {}
        }
    }
    Ok(lists)
}
