//! What people see: tables, figures and the page around them. The same results give the same bytes.

mod csv;
mod figure;
mod gather;
mod page;
mod plots;
mod standing;
mod table;
mod words;

#[cfg(test)]
mod tests;

pub use csv::csv;
pub use page::{Options, page};
pub use table::text_table;

use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::results::Stored;
use crate::store::disk;
use gather::Gathered;
use plots::Album;

/// Every figure as a file of its own: its name without `.svg`, and its content.
pub fn figures(results: &[Stored]) -> Vec<(String, String)> {
    Album::of(&Gathered::of(results)).all().map(|figure| (figure.name.clone(), figure.standalone())).collect()
}

/// Writes `report/index.html`, `report/figures/*.svg` and `report/results.csv` below a directory; gives the page.
pub fn write(directory: &Path, title: &str, results: &[Stored]) -> Result<PathBuf> {
    let directory = directory.join("report");
    for (name, svg) in figures(results) {
        disk::write(&directory.join("figures").join(format!("{name}.svg")), svg.as_bytes())?;
    }
    disk::write(&directory.join("results.csv"), csv(results).as_bytes())?;
    // The page comes last, since it points to the others.
    let index = directory.join("index.html");
    let options = Options { beside: true, ..Options::default() };
    disk::write(&index, page(title, results, &options)?.as_bytes())?;
    Ok(index)
}
