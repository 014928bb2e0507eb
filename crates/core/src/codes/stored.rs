//! Reads and writes codes on disk.

use std::path::Path;
use std::sync::OnceLock;

use super::{Codes, CodesView, Form};
use crate::error::{InputError, Result};
use crate::store::output::OutputDirectory;
use crate::store::shard::ShardWriter;
use crate::store::sparse::{self, FILES, FORMAT, MappedSparseRows, SparseLayout, content_id};

/// Rows that are written at a time.
const SAVE_ROWS: usize = 4096;

impl Codes {
    /// Opens a directory that [`Codes::save`] or [`CodesWriter`] wrote. Rows stay on disk and are checked when they
    /// are first read.
    pub fn open(directory: &Path) -> Result<Codes> {
        let rows = MappedSparseRows::open(directory)?;
        let (latents, id) = (rows.layout().latents, OnceLock::from(rows.layout().id.clone()));
        Ok(Codes { latents, form: Form::Stored(Box::new(rows)), columns: OnceLock::new(), id, memory: None })
    }

    /// Writes the codes to a directory. Does nothing if it already contains the same codes.
    pub fn save(&self, directory: &Path) -> Result<()> {
        let mut writer = CodesWriter::create(directory, self.latents())?;
        for first in (0..self.rows()).step_by(SAVE_ROWS) {
            writer.append(self.view(first..(first + SAVE_ROWS).min(self.rows()))?)?;
        }
        writer.finish().map(drop)
    }
}

/// Writes codes block by block, so that they need not fit in memory. The files appear under their final names in
/// [`CodesWriter::finish`]; dropped before that, the writer leaves nothing.
#[derive(Debug)]
pub struct CodesWriter {
    /// Offsets, latents, values. Declared before the output, so that they are dropped before its lock.
    files: [ShardWriter; 3],
    output: OutputDirectory,
    latents: usize,
    rows: usize,
    entries: usize,
}

impl CodesWriter {
    /// Locks a directory that is new, empty, unfinished, or finished with the same codes.
    pub fn create(directory: &Path, latents: usize) -> Result<CodesWriter> {
        if u32::try_from(latents).is_err() {
            return Err(InputError::new("too many latents")
                .expected(format!("at most {}", u32::MAX))
                .found(latents)
                .advice(format!("lower {}", crate::error::Key("latents")))
                .into());
        }
        let output = OutputDirectory::claim(directory, FORMAT, sparse::is_ours)?;
        let [offsets, indices, values] = FILES.map(|name| output.file(name));
        let mut files = [offsets?, indices?, values?];
        files[0].append(&0u64.to_le_bytes())?;
        Ok(CodesWriter { output, latents, rows: 0, entries: 0, files })
    }

    /// Number of rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows, preferably many at a time.
    pub fn append(&mut self, view: CodesView<'_>) -> Result<()> {
        sparse::check((view.offsets, view.indices, view.values), self.rows, self.latents)?;
        let (base, entries) = (view.offsets[0], self.entries as u64);
        let offsets: Vec<u64> = view.offsets[1..].iter().map(|offset| offset - base + entries).collect();
        self.files[0].append(bytemuck::cast_slice(&offsets))?;
        self.files[1].append(bytemuck::cast_slice(view.indices))?;
        self.files[2].append(bytemuck::cast_slice(view.values))?;
        self.rows += view.rows();
        self.entries += view.values.len();
        Ok(())
    }

    /// Gives the files their final names and opens the codes.
    pub fn finish(self) -> Result<Codes> {
        let [offsets, indices, values] = self.files.map(ShardWriter::finish);
        let [offsets, indices, values] = [offsets?, indices?, values?];
        let layout = SparseLayout {
            rows: self.rows,
            latents: self.latents,
            entries: self.entries,
            id: content_id(self.latents, [offsets.1, indices.1, values.1]),
            block_bytes: crate::store::BLOCK_BYTES,
            files: [offsets.0, indices.0, values.0],
        };
        let directory = self.output.directory().to_path_buf();
        self.output.finish(&layout.files.each_ref(), &layout)?;
        Codes::open(&directory)
    }
}
