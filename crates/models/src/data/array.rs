//! Images of an array, described by a table of the same name if there is one: `images.npy` by `images.csv`.

use std::path::{Path, PathBuf};

use etalon::context::{Budget, Reservation};
use etalon::error::{InFile, InputError, Key, Result};
use etalon::input::{PixelArray, Record, RecordReader, open_records};

use super::input::{Item, Source};
use super::options::{ContentKind, InputOptions};
use super::sample::{Content, Sample};
use super::table::{Described, Fields};
use crate::image::Pixels;

/// Endings of the table, in the order in which it is searched for.
const TABLES: [&str; 3] = ["csv", "jsonl", "parquet"];

/// The table that describes the images, and its columns.
type OpenTable = Option<(Box<dyn RecordReader>, Fields)>;

/// The images of an array.
pub(super) struct ArraySamples {
    array: PixelArray,
    table: OpenTable,
    /// Opens the table again, to move back.
    reopen: Box<dyn Fn() -> Result<OpenTable> + Send>,
    next: usize,
    notes: Vec<String>,
    /// The array, and the table that describes it.
    files: Vec<PathBuf>,
    _memory: Reservation,
}

impl ArraySamples {
    pub fn open(path: &Path, options: &InputOptions, budget: &Budget) -> Result<ArraySamples> {
        if options.kind == Some(ContentKind::Text) {
            return Err(InputError::new("an array contains images, not texts")
                .advice(format!("remove {}, or open a table or a text file", Key("kind text")))
                .file(path)
                .into());
        }
        let array = PixelArray::open(path)?;
        let memory = budget.reserve(4 * array.image_bytes() as u64, "an image of an array")?;
        let described_by = TABLES.iter().map(|ending| path.with_extension(ending)).find(|table| table.is_file());
        let notes = described_by.iter().map(|table| format!("the images are described by {}", table.display()));
        let notes = notes.collect();
        let files = std::iter::once(path.to_path_buf()).chain(described_by.clone()).collect();
        let (options, budget) = (options.clone(), budget.clone());
        let reopen = Box::new(move || {
            let Some(table) = &described_by else { return Ok(None) };
            let mut reader = open_records(table, &budget)?;
            let fields = Fields::describing(reader.columns(), &options).in_file(table)?;
            reader.select(fields.selected());
            Ok(Some((reader, fields)))
        });
        Ok(ArraySamples { array, table: reopen()?, reopen, next: 0, notes, files, _memory: memory })
    }

    /// What the table says about the next image, or the reason why it says nothing.
    fn described(&mut self) -> Result<std::result::Result<Described, String>> {
        let Some((reader, fields)) = &mut self.table else { return Ok(Ok(Described::default())) };
        Ok(match reader.read()? {
            Some(Record::Cells(cells)) => Ok(fields.sort(cells)),
            Some(Record::Corrupt(reason)) => Err(format!("its line in the table: {reason}")),
            None => {
                return Err(InputError::new("the table and the array have different lengths")
                    .expected(format!("{} records, one per image", self.array.images))
                    .found(format!("{} records", self.next))
                    .advice("write one line per image, in the order of the array")
                    .into());
            }
        })
    }
}

impl Source for ArraySamples {
    fn kind(&self) -> ContentKind {
        ContentKind::Image
    }

    fn label_columns(&self) -> &[String] {
        self.table.as_ref().map_or(&[], |(_, fields)| &fields.label_columns)
    }

    fn count(&self) -> Option<u64> {
        Some(self.array.images as u64)
    }

    fn files(&self) -> Option<Vec<PathBuf>> {
        Some(self.files.clone())
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }

    fn read(&mut self) -> Result<Option<Item>> {
        if self.next >= self.array.images {
            return Ok(None);
        }
        let described = match self.described()? {
            Ok(described) => described,
            Err(reason) => {
                self.next += 1;
                return Ok(Some(Item::Corrupt(None, reason)));
            }
        };
        let mut values = vec![0; self.array.image_bytes()];
        self.array.read(self.next, &mut values)?;
        self.next += 1;
        let rgb = match self.array.channels {
            1 => values.iter().flat_map(|&grey| [grey; 3]).collect(),
            _ => values,
        };
        let content = Content::Pixels(Pixels::new(self.array.width, self.array.height, rgb)?);
        let Described { id, caption, labels, .. } = described;
        let (file, words, marked) = (None, None, None);
        Ok(Some(Item::Sample(Box::new(Sample { position: 0, id, content, file, caption, labels, words, marked }))))
    }

    fn seek(&mut self, position: u64) -> Result<()> {
        self.next = usize::try_from(position).unwrap_or(usize::MAX).min(self.array.images);
        self.table = (self.reopen)()?;
        if let Some((reader, _)) = &mut self.table {
            reader.skip(self.next as u64)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use etalon::store::npy_header;

    use super::super::input::Input;
    use super::super::sample::Label;
    use super::*;

    #[test]
    fn a_table_of_the_same_name_describes_the_images() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("images.npy");
        std::fs::write(&path, [npy_header("|u1", "(3, 1, 2)"), vec![0, 1, 2, 3, 4, 5]].concat()).unwrap();
        let open = || Input::open(path.to_str().unwrap(), &InputOptions::default(), &Budget::new(1 << 20)).unwrap();
        let plain = open().next().unwrap().unwrap();
        assert!(matches!(&plain.content, Content::Pixels(pixels) if pixels.rgb() == [0, 0, 0, 1, 1, 1]));
        assert_eq!(plain.id, "0");
        std::fs::write(path.with_extension("csv"), "id,class\na,x\nb\nc,y\n").unwrap();
        let mut input = open();
        assert_eq!((input.label_columns(), input.count()), (&["class".to_string()][..], Some(3)));
        input.next().unwrap();
        let last = input.next().unwrap().unwrap();
        assert_eq!((last.position, last.id.as_str(), &last.labels[0]), (2, "c", &Label::Value("y".into())));
        assert!(input.skipped()[0].reason.contains("1 cells instead of 2"));
        let mut later = open();
        later.seek(2).unwrap();
        assert_eq!(later.next().unwrap().unwrap().id, "c");
        std::fs::write(path.with_extension("csv"), "id,class\na,x\n").unwrap();
        let mut input = open();
        input.next().unwrap();
        assert!(input.next().unwrap_err().to_string().contains("different lengths"));
    }
}
