//! Codes on disk.

use std::path::Path;
use std::sync::OnceLock;

use super::{Codes, CodesView, Form};
use crate::error::{InputError, Result};
use crate::store::output::Output;
use crate::store::shard::ShardWriter;
use crate::store::sparse::{self, FILES, FORMAT, SparseLayout, SparseRows, content_id};

/// Rows that are saved at a time.
const SAVE_ROWS: usize = 4096;

impl Codes {
    /// Opens a directory that [`Codes::save`] or [`CodesWriter`] wrote. Rows stay on disk and are checked when they
    /// are first looked at.
    pub fn open(directory: &Path) -> Result<Codes> {
        let rows = SparseRows::open(directory)?;
        let (latents, id) = (rows.layout().latents, OnceLock::from(rows.layout().id.clone()));
        Ok(Codes { latents, form: Form::Stored(Box::new(rows)), columns: OnceLock::new(), id, memory: None })
    }

    /// Writes the codes to a directory; nothing happens if it holds these very codes.
    pub fn save(&self, directory: &Path) -> Result<()> {
        let mut writer = CodesWriter::create(directory, self.latents())?;
        for first in (0..self.rows()).step_by(SAVE_ROWS) {
            writer.append(self.view(first..(first + SAVE_ROWS).min(self.rows()))?)?;
        }
        writer.finish().map(drop)
    }
}

/// Writes codes block by block, so that they need not fit in memory. Nothing is to be seen under the final names
/// before [`CodesWriter::finish`]; dropped before that, it leaves nothing.
#[derive(Debug)]
pub struct CodesWriter {
    /// Offsets, latents, values. Before the output, so that they go first when all is dropped.
    files: [ShardWriter; 3],
    output: Output,
    latents: usize,
    rows: usize,
    entries: usize,
}

impl CodesWriter {
    /// Claims a directory that is new, empty, unfinished, or finished with the very codes that will come.
    pub fn create(directory: &Path, latents: usize) -> Result<CodesWriter> {
        if u32::try_from(latents).is_err() {
            return Err(InputError::new("there are too many latents")
                .expected(format!("at most {}", u32::MAX))
                .found(latents)
                .into());
        }
        let output = Output::claim(directory, FORMAT, sparse::is_ours)?;
        let [offsets, indices, values] = FILES.map(|name| output.file(name));
        let mut files = [offsets?, indices?, values?];
        files[0].append(&0u64.to_le_bytes())?;
        Ok(CodesWriter { output, latents, rows: 0, entries: 0, files })
    }

    /// How many rows were appended.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Appends rows; those of a tile at a time are a good measure.
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

    /// Gives everything its name, and opens it.
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
