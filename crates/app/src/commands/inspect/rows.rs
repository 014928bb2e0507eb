//! Activations and codes: sizes, lengths of rows, and columns that stand out.

use etalon::codes::Codes;
use etalon::error::{Error, Result};
use etalon::store::ActivationStore;
use etalon_kernel::statistics::median;

use super::Inspection;
use crate::console::{Console, message};

/// Rows that are read; of more, as many in blocks that are spread evenly.
const ROWS: usize = 1 << 16;
const BLOCK: usize = 1 << 10;

/// A row this many times as long as the median row stands out.
const LONG: f64 = 10.0;

/// A column with this many times the mean square of the median column stands out.
const LARGE: f64 = 100.0;

/// Columns that a message names.
const NAMED: usize = 4;

/// Sums over rows.
struct Sums {
    lengths: Vec<f64>,
    squares: Vec<f64>,
    lowest: Vec<f32>,
    highest: Vec<f32>,
}

impl Sums {
    fn new(width: usize) -> Sums {
        let (lowest, highest) = (vec![f32::INFINITY; width], vec![f32::NEG_INFINITY; width]);
        Sums { lengths: Vec::new(), squares: vec![0.0; width], lowest, highest }
    }

    fn add(&mut self, row: &[f32]) {
        let mut square = 0.0;
        for (column, &value) in row.iter().enumerate() {
            let of_value = f64::from(value) * f64::from(value);
            square += of_value;
            self.squares[column] += of_value;
            self.lowest[column] = self.lowest[column].min(value);
            self.highest[column] = self.highest[column].max(value);
        }
        self.lengths.push(square.sqrt());
    }
}

pub(super) fn inspect(store: &ActivationStore, console: &Console) -> Result<Inspection> {
    let (rows, width) = (store.rows(), store.width());
    let mut found = Inspection::new("activations");
    found.fact("rows", rows);
    found.fact("width", width);
    if let Some(samples) = store.samples() {
        let mut distinct = samples.to_vec();
        distinct.sort_unstable();
        distinct.dedup();
        found.fact("samples", distinct.len());
        if distinct.len() < rows {
            found.fact("rows_per_sample", format!("{:.1} on average", rows as f64 / distinct.len().max(1) as f64));
        }
    }
    if !store.splits().is_empty() {
        found.fact("splits", store.splits().keys().map(|name| name.to_string()).collect::<Vec<_>>());
    }
    let starts: Vec<usize> = match rows <= ROWS {
        true => (0..rows).step_by(BLOCK).collect(),
        false => (0..ROWS / BLOCK).map(|block| block * (rows - BLOCK) / (ROWS / BLOCK - 1)).collect(),
    };
    let mut sums = Sums::new(width);
    for start in starts {
        console.context.check()?;
        match store.tile(start..(start + BLOCK).min(rows)) {
            Ok(tile) => (0..tile.rows()).for_each(|row| sums.add(tile.row(row))),
            // A row that is not finite, or a damaged block: the other rows can still be described.
            Err(error @ Error::Input(_)) => found.warn(message(&error)),
            Err(error) => return Err(error),
        }
    }
    describe(&mut found, &sums);
    Ok(found)
}

/// Adds what the sums show.
fn describe(found: &mut Inspection, sums: &Sums) {
    let read = sums.lengths.len();
    let Some(middle) = median(&mut sums.lengths.clone()) else { return };
    let least = sums.lengths.iter().copied().fold(f64::INFINITY, f64::min);
    let most = sums.lengths.iter().copied().fold(0.0, f64::max);
    found.fact("rows_read", read);
    found.fact("lengths", format!("median {middle:.4}, from {least:.4} to {most:.4}"));
    let zero = sums.lengths.iter().filter(|length| **length == 0.0).count();
    if zero > 0 {
        found.warn(format!("{zero} of {read} rows are zero"));
    }
    let long = sums.lengths.iter().filter(|length| **length > LONG * middle).count();
    if long > 0 {
        found.warn(format!(
            "{long} of {read} rows are more than {LONG} times as long as the median row and dominate errors and explained \
             variance; in language models these are often the first tokens"
        ));
    }
    let constant: Vec<usize> =
        (0..sums.lowest.len()).filter(|&column| sums.lowest[column] == sums.highest[column]).collect();
    if !constant.is_empty() && read > 1 {
        found.warn(format!("{} never change", columns(&constant)));
    }
    let total: f64 = sums.squares.iter().sum();
    let usual = median(&mut sums.squares.clone()).unwrap_or(0.0);
    let large: Vec<usize> =
        (0..sums.squares.len()).filter(|&column| usual > 0.0 && sums.squares[column] > LARGE * usual).collect();
    if !large.is_empty() && total > 0.0 {
        let share = large.iter().map(|&column| sums.squares[column]).sum::<f64>() / total;
        found.warn(format!(
            "{} have {:.0} % of the squared length of the rows; explained variance says little about the other columns",
            columns(&large),
            100.0 * share
        ));
    }
}

/// Some columns, by number.
fn columns(columns: &[usize]) -> String {
    let named: Vec<String> = columns.iter().take(NAMED).map(usize::to_string).collect();
    let more = if columns.len() > NAMED { ", ..." } else { "" };
    format!("{} columns ({}{more})", columns.len(), named.join(", "))
}

pub(super) fn inspect_codes(codes: &Codes) -> Result<Inspection> {
    let (rows, latents) = (codes.rows(), codes.latents());
    let mut found = Inspection::new("codes");
    found.fact("rows", rows);
    found.fact("latents", latents);
    found.fact("active_latents_per_row", format!("{:.2}", codes.entries() as f64 / rows.max(1) as f64));
    let mut fires = vec![false; latents];
    let mut silent = 0usize;
    for start in (0..rows).step_by(BLOCK) {
        for (_, latents, _) in codes.view(start..(start + BLOCK).min(rows))?.iter() {
            silent += usize::from(latents.is_empty());
            latents.iter().for_each(|&latent| fires[latent as usize] = true);
        }
    }
    let dead = fires.iter().filter(|fires| !**fires).count();
    if dead > 0 {
        found.warn(format!("{dead} of {latents} latents never fire"));
    }
    if silent > 0 {
        found.warn(format!("{silent} of {rows} rows have no active latent"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_columns_that_stand_out_are_named() {
        let mut sums = Sums::new(8);
        for row in 0..40 {
            // Column 3 is a hundred times as large as the others, column 7 never changes, row 39 is long, row 0 is zero.
            let factor = [0.0, 1.0, 1.0, 1.0][row.min(3)] * if row == 39 { 50.0 } else { 1.0 };
            let value = |column: usize| factor * [1.0, 1.5, 1.0, 100.0, 1.0, 2.0, 1.0, 0.0][column];
            sums.add(&std::array::from_fn::<f32, 8, _>(value));
        }
        let mut found = Inspection::new("activations");
        describe(&mut found, &sums);
        let text = found.text("x");
        for part in [
            "1 of 40 rows are zero",
            "1 of 40 rows are more than 10",
            "1 columns (7) never",
            "1 columns (3) have 100 %",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
    }
}
