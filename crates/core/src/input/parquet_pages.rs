//! Parquet files: opened with every size checked, and read a few rows of a column at a time.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex};

use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::DataType;
use ::parquet::errors::{ParquetError, Result as ParquetResult};
use ::parquet::file::reader::{FileReader, SerializedFileReader};

use super::file::Regular;
use super::parquet_footer;
use super::parquet_headers::Headers;
use crate::error::{Error, InputError, Result};

/// An open file whose footer and column offsets are checked.
pub(super) struct ParquetFile {
    reader: SerializedFileReader<File>,
    /// The same file, for page headers that are checked before the reader parses them.
    file: Arc<Mutex<Regular>>,
    /// Rows of each row group.
    pub group_rows: Vec<usize>,
    pub rows: usize,
}

impl ParquetFile {
    /// Opens a file.
    pub fn open(path: &Path) -> Result<ParquetFile> {
        let mut file = Regular::open(path)?;
        parquet_footer::check(&mut file)?;
        let length = file.length;
        let same = file.file.try_clone().map_err(Error::io("open the file", path))?;
        let reader = call(|| SerializedFileReader::new(same))?;
        let wrong = |what: &str, group: usize| {
            InputError::new(what).at(format!("row group {group}")).advice("copy or write the file again")
        };
        let mut group_rows = Vec::new();
        for (group, metadata) in reader.metadata().row_groups().iter().enumerate() {
            let rows = usize::try_from(metadata.num_rows()).ok();
            group_rows.push(rows.ok_or_else(|| wrong("a row group has a negative number of rows", group))?);
            for column in metadata.columns() {
                let start = column.dictionary_page_offset().unwrap_or(i64::MAX).min(column.data_page_offset());
                let end = start.checked_add(column.compressed_size());
                let inside = end.is_some_and(|end| end as u64 <= length) && start >= 0 && column.compressed_size() >= 0;
                if !inside || column.num_values() < 0 || column.uncompressed_size() < 0 {
                    return Err(wrong("a column is not inside the parquet file", group).into());
                }
            }
        }
        let rows = group_rows.iter().try_fold(0usize, |sum, &rows| sum.checked_add(rows));
        let rows = rows.filter(|&rows| rows <= isize::MAX as usize / 8);
        let rows = rows.ok_or_else(|| {
            InputError::new("the parquet file states an impossible number of rows")
                .advice("the file is damaged; copy or write it again")
        })?;
        Ok(ParquetFile { reader, file: Arc::new(Mutex::new(file)), group_rows, rows })
    }

    /// The content of the footer.
    pub fn metadata(&self) -> &::parquet::file::metadata::ParquetMetaData {
        self.reader.metadata()
    }

    /// Number of values of a column in a row group, nulls included.
    pub fn values(&self, group: usize, column: usize) -> usize {
        let values = self.metadata().row_group(group).column(column).num_values();
        usize::try_from(values).unwrap_or(0)
    }

    /// A reader of a column of a row group.
    pub fn column(&self, group: usize, column: usize) -> Result<ColumnReader> {
        let left = self.values(group, column);
        call(|| {
            let (start, bytes) = self.metadata().row_group(group).column(column).byte_range();
            let headers = Headers::new(self.file.clone(), start, start.saturating_add(bytes));
            let pages = self.reader.get_row_group(group)?.get_column_page_reader(column)?;
            let description = self.metadata().file_metadata().schema_descr().column(column);
            Ok(get_column_reader(description, Box::new(CountedPages { pages, headers, left })))
        })
    }
}

/// Pages with no more values in total than the footer states. Run-length coding can state billions in a few bytes.
struct CountedPages {
    pages: Box<dyn PageReader>,
    headers: Headers,
    left: usize,
}

impl PageReader for CountedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        self.headers.check()?;
        let page = self.pages.get_next_page()?;
        self.headers.advance();
        let Some(page) = page else { return Ok(None) };
        let values = page.num_values() as usize;
        if matches!(page, Page::DictionaryPage { .. }) {
            // An entry of a dictionary takes at least one byte.
            if values > page.buffer().len() {
                return Err(ParquetError::General(format!("a dictionary page is too short for its {values} entries")));
            }
        } else {
            self.left = self.left.checked_sub(values).ok_or_else(|| {
                ParquetError::General("the pages of a column have more values than the footer states".to_string())
            })?;
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.headers.check()?;
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.headers.check()?;
        self.pages.skip_next_page()?;
        self.headers.advance();
        Ok(())
    }
}

impl Iterator for CountedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<ParquetResult<Page>> {
        self.get_next_page().transpose()
    }
}

/// The levels of the values that were read of a column.
#[derive(Default)]
pub(super) struct Levels {
    /// Definition level of each value; less than the maximum means null.
    pub definition: Vec<i16>,
    /// Repetition level of each value; 0 where a row begins.
    pub repetition: Vec<i16>,
}

/// Reads whole rows of a column; appends values that are not null and the levels of all.
pub(super) fn read_records<T: DataType>(
    reader: &mut ColumnReaderImpl<T>,
    rows: usize,
    levels: &mut Levels,
    values: &mut Vec<T::T>,
) -> ParquetResult<()> {
    let mut done = 0;
    while done < rows {
        let (count, _, _) =
            reader.read_records(rows - done, Some(&mut levels.definition), Some(&mut levels.repetition), values)?;
        if count == 0 {
            return Err(ParquetError::General("a column has fewer rows than the footer states".to_string()));
        }
        done += count;
    }
    Ok(())
}

/// Calls the parquet crate. It can panic on damaged files, which must not end the program.
pub(super) fn call<T>(read: impl FnOnce() -> ParquetResult<T>) -> Result<T> {
    let damaged = |found: String| -> Error {
        InputError::new("the parquet file cannot be read").found(found).advice("copy or write it again").into()
    };
    match catch_unwind(AssertUnwindSafe(read)) {
        Ok(Ok(value)) => Ok(value),
        // The message of the crate; a test with a damaged page fails if it changes.
        Ok(Err(error)) if error.to_string().contains("CRC checksum mismatch") => {
            Err(damaged("a page whose bytes do not match its checksum (CRC): the file is damaged".to_string()))
        }
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(_) => Err(damaged("damaged data (the parquet reader panicked)".to_string())),
    }
}
