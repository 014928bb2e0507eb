//! Sparse codes: which latents fire in which row, and how strongly.
//!
//! Codes are stored by row (CSR). Columns are built once, on demand. Values may be negative
//! (PCA, matching pursuit); a latent *fires* where its value is above a threshold that the metric names.
//!
//! ```
//! use etalon::codes::{Codes, Latent};
//!
//! // Two rows of three latents.
//! let codes = Codes::from_dense(&[0.0, 2.0, 0.0, 1.0, 0.0, -3.0], 3)?;
//! assert_eq!(codes.all()?.row(1), (&[0, 2][..], &[1.0, -3.0][..]));
//! // Latent 1 fires in row 0.
//! assert_eq!(codes.columns()?.latent(Latent(1)), (&[0][..], &[2.0][..]));
//! # Ok::<(), etalon::error::Error>(())
//! ```

mod builder;
mod columns;
mod pool;
mod scipy;
mod stored;

use std::ops::Range;
use std::sync::OnceLock;

pub use builder::CodesBuilder;
pub use columns::Columns;
pub use pool::Pool;
pub use stored::CodesWriter;

use crate::context::{Budget, Reservation};
use crate::error::{Error, Result};
use crate::store::sparse::{MappedSparseRows, content_id};

/// A latent: a column of the codes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct Latent(pub u32);

/// Sparse codes of `rows` × `latents`.
#[derive(Debug)]
pub struct Codes {
    latents: usize,
    form: Form,
    columns: OnceLock<(Columns, Option<Reservation>)>,
    id: OnceLock<String>,
    /// The reservation of the rows, and the budget that columns are charged to.
    memory: Option<(Reservation, Budget)>,
}

/// The storage of the rows.
#[derive(Debug)]
enum Form {
    Memory { offsets: Vec<u64>, indices: Vec<u32>, values: Vec<f32> },
    Stored(Box<MappedSparseRows>),
}

/// Consecutive rows of codes, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct CodesView<'a> {
    /// The index of the first row.
    pub first_row: usize,
    offsets: &'a [u64],
    indices: &'a [u32],
    values: &'a [f32],
}

impl<'a> CodesView<'a> {
    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The latents (ascending) and values of a row, by its index within this view; values are never zero.
    pub fn row(&self, index: usize) -> (&'a [u32], &'a [f32]) {
        let range = self.entries(index);
        (&self.indices[range.clone()], &self.values[range])
    }

    /// The range of the entries of a row among those of all rows of this view.
    pub fn entries(&self, index: usize) -> Range<usize> {
        let base = self.offsets[0];
        (self.offsets[index] - base) as usize..(self.offsets[index + 1] - base) as usize
    }

    /// The latents of all rows, one row after the other.
    pub fn latents(&self) -> &'a [u32] {
        self.indices
    }

    /// The values of all rows, one row after the other.
    pub fn values(&self) -> &'a [f32] {
        self.values
    }

    /// The smallest and the largest value, zeros included.
    pub fn extremes(&self) -> (f32, f32) {
        self.values.iter().fold((0.0, 0.0), |(low, high), &value| (low.min(value), high.max(value)))
    }

    /// All rows in order, each with its number, latents and values.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &'a [u32], &'a [f32])> + use<'a> {
        let view = *self;
        (0..view.rows()).map(move |index| {
            let (latents, values) = view.row(index);
            (view.first_row + index, latents, values)
        })
    }
}

impl Codes {
    fn new(
        latents: usize,
        offsets: Vec<u64>,
        indices: Vec<u32>,
        values: Vec<f32>,
        memory: Option<(Reservation, Budget)>,
    ) -> Codes {
        let form = Form::Memory { offsets, indices, values };
        Codes { latents, form, columns: OnceLock::new(), id: OnceLock::new(), memory }
    }

    /// Codes from a dense row-major array; zeros are dropped, values that are not finite are refused.
    pub fn from_dense(values: &[f32], latents: usize) -> Result<Codes> {
        let mut builder = CodesBuilder::new(latents);
        if latents > 0 {
            values.chunks_exact(latents).try_for_each(|row| builder.push_dense(row))?;
        }
        Ok(builder.finish())
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        match &self.form {
            Form::Memory { offsets, .. } => offsets.len() - 1,
            Form::Stored(rows) => rows.layout().rows,
        }
    }

    /// Number of latents, including those that never fire.
    pub fn latents(&self) -> usize {
        self.latents
    }

    /// Number of entries that are not zero.
    pub fn entries(&self) -> usize {
        match &self.form {
            Form::Memory { values, .. } => values.len(),
            Form::Stored(rows) => rows.layout().entries,
        }
    }

    /// Consecutive rows.
    pub fn view(&self, rows: Range<usize>) -> Result<CodesView<'_>> {
        let first_row = rows.start;
        let (offsets, indices, values) = match &self.form {
            Form::Stored(stored) => stored.slices(rows)?,
            Form::Memory { offsets, indices, values } => {
                if rows.start > rows.end || rows.end > self.rows() {
                    return Err(Error::Bug(format!("rows {rows:?} of codes with {}", self.rows())));
                }
                let offsets = &offsets[rows.start..=rows.end];
                let entries = offsets[0] as usize..offsets[offsets.len() - 1] as usize;
                (offsets, &indices[entries.clone()], &values[entries])
            }
        };
        Ok(CodesView { first_row, offsets, indices, values })
    }

    /// All rows.
    pub fn all(&self) -> Result<CodesView<'_>> {
        self.view(0..self.rows())
    }

    /// The same codes by latent, built on the first call, which reserves their memory. Blocks of a stage share them through
    /// [`Lazy`](crate::run::Lazy).
    pub fn columns(&self) -> Result<&Columns> {
        if let Some((columns, _)) = self.columns.get() {
            return Ok(columns);
        }
        let bytes = 8 * (self.latents as u64 + self.entries() as u64);
        let memory =
            self.memory.as_ref().map(|(_, budget)| budget.reserve(bytes, "the codes by latent")).transpose()?;
        let built = Columns::build(self.all()?, self.latents)?;
        Ok(&self.columns.get_or_init(|| (built, memory)).0)
    }

    /// The content address: equal codes have equal ids, in memory or on disk.
    pub fn id(&self) -> Result<String> {
        if let Some(id) = self.id.get() {
            return Ok(id.clone());
        }
        let CodesView { offsets, indices, values, .. } = self.all()?;
        let parts: [&[u8]; 3] =
            [bytemuck::cast_slice(offsets), bytemuck::cast_slice(indices), bytemuck::cast_slice(values)];
        let id = content_id(self.latents, parts.map(blake3::hash));
        Ok(self.id.get_or_init(|| id).clone())
    }

    /// The codes of some rows, in the order given.
    pub fn select(&self, rows: &[usize]) -> Result<Codes> {
        let all = self.all()?;
        let mut builder = CodesBuilder::new(self.latents);
        for &row in rows {
            let (latents, values) = all.row(row);
            builder.push(latents, values)?;
        }
        Ok(builder.finish())
    }

    /// The codes of some rows, in the order given, every value times the scale of its latent.
    pub fn select_scaled(&self, rows: &[usize], scales: &[f32]) -> Result<Codes> {
        let all = self.all()?;
        let mut builder = CodesBuilder::new(self.latents);
        for &row in rows {
            let (latents, values) = all.row(row);
            let scaled = latents.iter().zip(values).map(|(&latent, &value)| (latent, value * scales[latent as usize]));
            let (latents, values): (Vec<u32>, Vec<f32>) = scaled.filter(|(_, value)| *value != 0.0).unzip();
            builder.push(&latents, &values)?;
        }
        Ok(builder.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_columns_and_selection_agree() {
        let codes = Codes::from_dense(&[0.0, 2.0, 0.0, 1.0, 0.0, -3.0], 3).unwrap();
        assert_eq!((codes.rows(), codes.latents(), codes.entries()), (2, 3, 3));
        let all = codes.all().unwrap();
        assert_eq!(all.row(1), (&[0u32, 2][..], &[1.0f32, -3.0][..]));
        assert_eq!(codes.view(1..2).unwrap().row(0), all.row(1));
        assert_eq!((codes.view(0..1).unwrap().extremes(), all.extremes()), ((0.0, 2.0), (-3.0, 2.0)));
        let columns = codes.columns().unwrap();
        assert_eq!(columns.latent(Latent(2)), (&[1u32][..], &[-3.0f32][..]));
        assert_eq!(columns.fired(Latent(2), 0.0).count(), 0);
        assert_eq!(columns.fired(Latent(1), 0.0).rows().collect::<Vec<_>>(), [0]);
        let swapped = codes.select(&[1, 0]).unwrap();
        assert_eq!(swapped.all().unwrap().row(0), all.row(1));
        assert_ne!(swapped.id().unwrap(), codes.id().unwrap());
    }

    #[test]
    fn codes_may_be_empty() {
        let codes = Codes::from_dense(&[], 0).unwrap();
        assert_eq!((codes.rows(), codes.latents()), (0, 0));
        assert_eq!(codes.all().unwrap().iter().count(), 0);
    }
}
