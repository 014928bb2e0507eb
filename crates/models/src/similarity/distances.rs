//! Distances from vectors: of all images, or of some pairs.

use std::path::Path;

use etalon::context::{Context, Monitor};
use etalon::error::{Error, InFile, InputError, Result};
use etalon::input::read_table;
use etalon::store::{ActivationStore, NpyWriter, csv_text, disk};
use etalon_kernel::product::rows_by_rows;
use rayon::prelude::*;

use super::images::Names;
use super::measure::Measure;

/// Most images of a matrix, which then has 1.6 GB.
pub(super) const MOST: usize = 20_000;

/// Rows of a block, and bytes of its values.
const BLOCK_ROWS: usize = 128;
const BLOCK_BYTES: usize = 32 << 20;

/// A matrix of distances, of which rows are filled by blocks.
struct Work<'a> {
    store: &'a ActivationStore,
    measure: &'a Measure,
    size: [usize; 2],
    context: &'a Context,
}

/// Refuses a matrix that is too large.
pub(super) fn check_count(count: usize) -> Result<()> {
    if count <= MOST {
        return Ok(());
    }
    Err(InputError::new("too many images for a matrix of distances")
        .expected(format!("at most {MOST}"))
        .found(count)
        .advice("write the vectors instead, or the distances of some pairs")
        .into())
}

/// Writes the distances of all images.
pub(super) fn matrix(
    store: &ActivationStore,
    measure: &Measure,
    size: [usize; 2],
    path: &Path,
    context: &Context,
) -> Result<()> {
    let count = store.rows();
    let _memory = context.budget().reserve(4 * (count * count) as u64, "the matrix of distances")?;
    let mut distances = vec![0f32; count * count];
    let work = Work { store, measure, size, context };
    context.start("distances of images", count as u64, "images");
    let filled =
        context.install(|| if measure.factors() { work.products(&mut distances) } else { work.direct(&mut distances) });
    context.finish();
    filled?;
    // Every pair was computed once, above the diagonal.
    for row in 1..count {
        for column in 0..row {
            distances[row * count + column] = distances[column * count + row];
        }
    }
    let mut writer = NpyWriter::create(path, count, count)?;
    distances.chunks(count.max(1)).try_for_each(|row| writer.append(row))?;
    writer.finish()
}

impl Work<'_> {
    /// By products of blocks in double precision: a difference of large sums must not cancel.
    fn products(&self, distances: &mut [f32]) -> Result<()> {
        let (count, width) = (self.store.rows(), self.store.width());
        let block = (BLOCK_BYTES / (8 * width)).clamp(1, BLOCK_ROWS);
        let values = (block * width) as u64;
        let _memory = self.context.budget().reserve(8 * 2 * values, "blocks of vectors")?;
        let norms = self.squares()?;
        for first in (0..count).step_by(block) {
            let rows = self.rows(first, block)?;
            for other in (first..count).step_by(block) {
                self.context.check()?;
                let columns = self.rows(other, block)?;
                let width_out = columns.len() / width;
                let mut products = vec![0f64; rows.len() / width * width_out];
                // Threads share the rows; every product is one sum in a fixed order.
                products.par_chunks_mut(width_out).zip(rows.par_chunks(width)).for_each(|(out, row)| {
                    rows_by_rows(row, &columns, width, out);
                });
                for (i, line) in products.chunks(width_out).enumerate() {
                    for (j, product) in line.iter().enumerate() {
                        let (row, column) = (first + i, other + j);
                        if row < column {
                            let distance = self.measure.of_products([norms[row], norms[column]], *product);
                            distances[row * count + column] = distance as f32;
                        }
                    }
                }
            }
            self.context.advance(block.min(count - first) as u64);
        }
        Ok(())
    }

    fn squares(&self) -> Result<Vec<f64>> {
        let square = |row: usize| {
            let tile = self.store.tile(row..row + 1)?;
            Ok(tile.values.iter().map(|value| f64::from(*value) * f64::from(*value)).sum())
        };
        (0..self.store.rows()).map(square).collect()
    }

    fn rows(&self, first: usize, block: usize) -> Result<Vec<f64>> {
        let tile = self.store.tile(first..(first + block).min(self.store.rows()))?;
        Ok(tile.values.iter().map(|value| f64::from(*value)).collect())
    }

    /// Pair by pair.
    fn direct(&self, distances: &mut [f32]) -> Result<()> {
        let count = self.store.rows();
        let [height, width] = self.size;
        for row in 0..count {
            let a = self.store.tile(row..row + 1)?;
            let line = distances.get_mut(row * count..(row + 1) * count).unwrap_or_default();
            line.par_iter_mut().enumerate().skip(row + 1).try_for_each(|(column, distance)| {
                self.context.check()?;
                let b = self.store.tile(column..column + 1)?;
                *distance = self.measure.distance(&a.values, &b.values, height, width) as f32;
                Ok::<(), Error>(())
            })?;
            self.context.advance(1);
        }
        Ok(())
    }
}

/// Pairs of a table, as its cells and as rows.
pub(super) struct Pairs {
    names: Vec<[String; 2]>,
    rows: Vec<[usize; 2]>,
}

impl Pairs {
    /// Reads the columns `a` and `b`.
    pub fn read(path: &Path, ids: &[String], context: &Context) -> Result<Pairs> {
        let table = read_table(path, context.budget())?;
        let column = |name: &str| table.header.iter().position(|column| column == name);
        let (Some(a), Some(b)) = (column("a"), column("b")) else {
            return Err(InputError::new("the table of pairs lacks a column")
                .expected("the columns `a` and `b`")
                .found(table.header.join(", "))
                .file(path)
                .into());
        };
        let columns = [a, b];
        let names = Names::of(ids);
        let (mut cells, mut rows) = (Vec::new(), Vec::new());
        for (index, line) in table.cells.iter().enumerate() {
            let pair = columns.map(|column| line.get(column).map_or("", |cell| cell.trim()));
            let at = table.lines.get(index).map_or(index as u64 + 1, |line| *line);
            let row = |name: &str| {
                names.row(name).map_err(|error| match error {
                    Error::Input(input) => input.at(format!("line {at}")).into(),
                    other => other,
                })
            };
            rows.push([row(pair[0]).in_file(path)?, row(pair[1]).in_file(path)?]);
            cells.push(pair.map(String::from));
        }
        if rows.is_empty() {
            return Err(InputError::new("the table has no pairs").file(path).into());
        }
        Ok(Pairs { names: cells, rows })
    }

    /// The rows that occur, ascending.
    pub fn used(&self) -> Vec<usize> {
        let mut used: Vec<usize> = self.rows.iter().flatten().copied().collect();
        used.sort_unstable();
        used.dedup();
        used
    }

    /// Writes the distance of every pair. `store` has the rows that occur.
    pub fn write(
        &self,
        store: &ActivationStore,
        measure: &Measure,
        [height, width]: [usize; 2],
        path: &Path,
        context: &Context,
    ) -> Result<()> {
        let used = self.used();
        let vector = |row: usize| {
            let index = used.binary_search(&row).map_err(|_| Error::Bug("a row without a vector".into()))?;
            store.tile(index..index + 1)
        };
        context.start("distances of pairs", self.rows.len() as u64, "pairs");
        let distances: Result<Vec<f64>> = context.install(|| {
            self.rows
                .par_iter()
                .map(|[a, b]| {
                    context.check()?;
                    let distance = measure.distance(&vector(*a)?.values, &vector(*b)?.values, height, width);
                    context.advance(1);
                    Ok(distance)
                })
                .collect()
        });
        context.finish();
        let header = ["a", "b", "distance"].map(String::from);
        let lines = self.names.iter().zip(distances?);
        let lines = lines.map(|([a, b], distance)| [a.clone(), b.clone(), (distance as f32).to_string()]);
        disk::write(path, csv_text(std::iter::once(header).chain(lines))?.as_bytes())
    }
}
