//! Reports: text tables, SVG figures, the HTML page, CSV, data for the explorer, SAEBench files. The same results give
//! the same bytes.

mod agreement;
mod board;
mod csv;
mod data;
mod figure;
mod gather;
mod page;
mod plots;
pub mod saebench;
mod significance;
mod table;
mod words;

#[cfg(test)]
mod number_tests;
#[cfg(test)]
mod tests;

pub use board::{album, board};
pub use csv::csv;
pub use page::{Options, overview, page};
pub use table::text_table;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::context::{Budget, Reservation};
use crate::error::Result;
use crate::results::{Stored, Table, measure_key};
use crate::store::disk;
use data::by_data;
use gather::Gathered;
use plots::Album;

/// All figures as SVG files: name without `.svg`, and content.
pub fn figures<'a>(results: impl IntoIterator<Item = &'a Stored>) -> Vec<(String, String)> {
    Album::of(&Gathered::of(results)).all().map(|figure| (figure.name.clone(), figure.standalone())).collect()
}

/// Writes `report/index.html`, `report/figures/*.svg` and `report/results.csv` below a directory; returns the path of
/// the page. With several data sets, the index is an overview, and each data set has a page and a folder of figures.
pub fn write(directory: &Path, title: &str, results: &[Stored], budget: &Budget) -> Result<PathBuf> {
    let _memory = working_memory(results, budget)?;
    let directory = directory.join("report");
    let write = |name: &str, text: &str| disk::write(&directory.join(name), text.as_bytes());
    let parts = by_data(results);
    let options = Options { beside: true, ..Options::default() };
    write("results.csv", &csv(results)?)?;
    if parts.len() < 2 {
        for (name, svg) in figures(results) {
            write(&format!("figures/{name}.svg"), &svg)?;
        }
        // The page is written last, because it links to the other files.
        write("index.html", &page(title, results, &options)?)?;
        return Ok(directory.join("index.html"));
    }
    for part in &parts {
        let options = Options { figures: Some(part.slug.clone()), ..options.clone() };
        for (name, svg) in figures(part.results.iter().copied()) {
            write(&format!("{}/{name}.svg", options.folder()), &svg)?;
        }
        write(
            &format!("{}.html", part.slug),
            &page(&format!("{title}: {}", part.name), part.results.iter().copied(), &options)?,
        )?;
    }
    write("index.html", &overview(title, &parts)?)?;
    Ok(directory.join("index.html"))
}

/// Reserves memory for the columns that figures and comparisons copy, for one measure at a time: a value with its
/// weight by row and, by concept, its name and its point in a curve.
pub fn working_memory(results: &[Stored], budget: &Budget) -> Result<Reservation> {
    let bytes = |table: &Table| {
        let each = match table.axis.as_str() {
            "concept" | "feature" => 160,
            // A score is the mean of one column, or the difference of the means of two.
            "latent" => 17,
            _ => 26,
        };
        each * table.rows() as u64
    };
    let mut measures: BTreeMap<String, u64> = BTreeMap::new();
    for stored in results {
        let largest = stored.result.scores.tables.iter().map(bytes).max().unwrap_or(0);
        *measures.entry(measure_key(stored)).or_default() += largest;
    }
    budget.reserve(measures.into_values().max().unwrap_or(0), "the figures and comparisons of a report")
}
