//! Records of an Arrow IPC file or stream, such as Feather files and the caches of Hugging Face `datasets`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::arrow_batch::{BatchReader, Dictionaries, Values};
use super::arrow_messages::Messages;
use super::{Cell, Column, Record, RecordReader, all, check_names};
use crate::context::{Budget, Reservation};
use crate::error::{InFile, Result};
use crate::input::file::Regular;

struct ArrowRecords {
    file: Regular,
    messages: Messages,
    columns: Vec<Column>,
    selected: Vec<usize>,
    dictionaries: Dictionaries,
    /// The memory of each dictionary.
    dictionary_memory: Vec<Reservation>,
    /// The message of the current batch, and the next row of it.
    message: usize,
    row: usize,
    batch: Option<OpenBatch>,
    budget: Budget,
    path: PathBuf,
}

struct OpenBatch {
    /// The values of every column; `None` for those that are not selected.
    columns: Vec<Option<Values>>,
    _memory: Reservation,
}

/// Opens an Arrow file.
pub(super) fn open(path: &Path, budget: &Budget) -> Result<Box<dyn RecordReader>> {
    let mut file = Regular::open(path)?;
    let messages = Messages::scan(&mut file)?;
    let mut columns = Vec::new();
    messages.fields.iter().for_each(|field| field.columns("", &mut columns));
    check_names(&columns)?;
    let selected = all(&columns);
    Ok(Box::new(ArrowRecords {
        file,
        messages,
        columns,
        selected,
        dictionaries: Dictionaries::new(),
        dictionary_memory: Vec::new(),
        message: 0,
        row: 0,
        batch: None,
        budget: budget.clone(),
        path: path.to_path_buf(),
    }))
}

impl ArrowRecords {
    /// Moves to the next row, reading dictionaries on the way; false at the end.
    fn advance(&mut self) -> Result<bool> {
        loop {
            match self.messages.rows.get(self.message) {
                None => return Ok(false),
                Some(Some(rows)) if self.row < *rows => return Ok(true),
                Some(Some(_)) => {}
                Some(None) => self.read_dictionary()?,
            }
            (self.message, self.row, self.batch) = (self.message + 1, 0, None);
        }
    }

    fn read_dictionary(&mut self) -> Result<()> {
        let batch = self.messages.batch(&mut self.file, self.message)?;
        let mut known = Vec::new();
        self.messages.fields.iter().for_each(|field| field.dictionaries(&mut known));
        let Some((id, field)) = known.into_iter().find(|(id, _)| Some(*id) == batch.dictionary) else { return Ok(()) };
        let mut values = field.clone();
        values.dictionary = None;
        let mut reader = BatchReader::new(&mut self.file, &batch, &self.dictionaries, &self.budget)?;
        let read = reader.values(&values, true)?;
        self.dictionary_memory.push(reader.memory);
        self.dictionaries.insert(id, Arc::new(read));
        Ok(())
    }

    fn open_batch(&mut self) -> Result<()> {
        let batch = self.messages.batch(&mut self.file, self.message)?;
        let mut reader = BatchReader::new(&mut self.file, &batch, &self.dictionaries, &self.budget)?;
        let (mut column, mut columns) = (0, Vec::new());
        let wanted = |column: usize| self.selected.contains(&column);
        for field in &self.messages.fields {
            reader.columns(field, &[], &wanted, &mut column, &mut columns)?;
        }
        self.batch = Some(OpenBatch { columns, _memory: reader.memory });
        Ok(())
    }

    fn record(&self) -> std::result::Result<Vec<Cell>, String> {
        let values = |column: usize| self.batch.as_ref()?.columns.get(column)?.as_ref();
        let cell = |&column: &usize| match (values(column), self.columns.get(column)) {
            (Some(values), Some(about)) => values.cell(self.row, &about.name),
            _ => Ok(Cell::Null),
        };
        self.selected.iter().map(cell).collect()
    }

    fn read_next(&mut self) -> Result<Option<Record>> {
        if !self.advance()? {
            return Ok(None);
        }
        if self.batch.is_none() {
            self.open_batch()?;
        }
        let record = self.record().map_or_else(Record::Corrupt, Record::Cells);
        self.row += 1;
        Ok(Some(record))
    }
}

impl RecordReader for ArrowRecords {
    fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn count(&self) -> Option<u64> {
        self.messages.rows.iter().flatten().try_fold(0u64, |sum, &rows| sum.checked_add(rows as u64))
    }

    fn select(&mut self, columns: &[usize]) {
        self.selected = columns.to_vec();
        self.batch = None;
    }

    fn read(&mut self) -> Result<Option<Record>> {
        let path = self.path.clone();
        self.read_next().in_file(&path)
    }

    fn skip(&mut self, records: u64) -> Result<u64> {
        let path = self.path.clone();
        let mut skipped = 0;
        while skipped < records && self.advance().in_file(&path)? {
            let rows = self.messages.rows.get(self.message).copied().flatten().unwrap_or(0);
            let step = ((rows - self.row) as u64).min(records - skipped);
            self.row += step as usize;
            skipped += step;
        }
        Ok(skipped)
    }
}
