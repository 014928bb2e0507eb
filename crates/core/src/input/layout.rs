//! Map coordinates of latents: a table with columns `latent`, `x`, `y` (and `name`), or an array of two or three columns.
//! `etalon layout` names the first column `row`, since it lays out any rows; for a dictionary the rows are its latents.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Finite, Source, read_rows, read_table};
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};

/// One point per latent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MapLayout {
    /// The latent of each point, unique.
    pub latents: Vec<u32>,
    /// Horizontal coordinate.
    pub x: Vec<f32>,
    /// Vertical coordinate.
    pub y: Vec<f32>,
    /// Names of the latents; empty if there are none.
    pub names: Vec<String>,
}

/// Reads a layout. An array of width 2 is x and y in the order of latents; of width 3, latent, x and y.
pub fn read_layout(path: &Path, budget: &Budget) -> Result<MapLayout> {
    let table = path.extension().is_some_and(|ending| ["csv", "tsv", "jsonl"].iter().any(|known| ending == *known));
    let layout = if table { from_table(path, budget) } else { from_array(path, budget) };
    layout.and_then(check_unique).in_file(path)
}

fn from_array(path: &Path, budget: &Budget) -> Result<MapLayout> {
    let rows = read_rows(&Source { path: path.into(), key: None }, Finite::Refuse, budget)?;
    if rows.width != 2 && rows.width != 3 {
        return Err(InputError::new("the layout has the wrong number of columns")
            .expected("2 columns (x, y) or 3 (latent, x, y)")
            .found(format!("{} columns", rows.width))
            .advice("save the coordinates as an array of latents × 2")
            .into());
    }
    let mut layout = MapLayout::default();
    for (row, point) in rows.values.chunks_exact(rows.width).enumerate() {
        let (first, latent) = if rows.width == 3 { (1, point[0]) } else { (0, row as f32) };
        // Beyond 2^24, neighbouring whole numbers are the same f32.
        let whole = latent >= 0.0 && latent.fract() == 0.0 && latent < (1u32 << 24) as f32;
        if rows.width == 3 && !whole {
            return Err(InputError::new("a latent of the layout is not valid")
                .expected("a whole number below 16777216")
                .found(latent)
                .at(format!("row {row}, column 0"))
                .advice("save the layout as CSV if there are more latents")
                .into());
        }
        layout.latents.push(if rows.width == 3 { latent as u32 } else { row as u32 });
        layout.x.push(point[first]);
        layout.y.push(point[first + 1]);
    }
    Ok(layout)
}

fn from_table(path: &Path, budget: &Budget) -> Result<MapLayout> {
    let table = read_table(path, budget)?;
    let column = |names: &[&str]| -> Result<usize> {
        names.iter().find_map(|name| table.column(name)).ok_or_else(|| {
            InputError::new(format!("the layout has no column `{}`", names[0]))
                .expected("columns latent, x, y, and optionally name")
                .found(table.header.join(", "))
                .at("the header")
                .advice("rename the columns")
                .into()
        })
    };
    let (latent, x, y) = (column(&["latent", "row", "id"])?, column(&["x"])?, column(&["y"])?);
    let name = table.column("name");
    let mut layout = MapLayout::default();
    for (row, cells) in table.cells.iter().enumerate() {
        let wrong = |column: usize, expected: &str| {
            InputError::new(format!("invalid `{}` in the layout", table.header[column]))
                .expected(expected)
                .found(format!("`{}`", cells[column].escape_debug()))
                .at(table.position(row))
        };
        let number = |column: usize| -> Result<f32> {
            let value = cells[column].trim().parse::<f32>().ok().filter(|value| value.is_finite());
            value.ok_or_else(|| wrong(column, "a finite number").into())
        };
        let id = cells[latent].trim().parse::<u32>().map_err(|_| wrong(latent, "a whole number"))?;
        layout.latents.push(id);
        layout.x.push(number(x)?);
        layout.y.push(number(y)?);
        layout.names.extend(name.map(|column| cells[column].clone()));
    }
    Ok(layout)
}

fn check_unique(layout: MapLayout) -> Result<MapLayout> {
    let mut seen = BTreeSet::new();
    if let Some(repeated) = layout.latents.iter().find(|latent| !seen.insert(**latent)) {
        return Err(InputError::new("a latent has two points in the layout")
            .expected("every latent once")
            .found(format!("latent {repeated}"))
            .advice("remove one of the two")
            .into());
    }
    Ok(layout)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn read(text: &str) -> Result<MapLayout> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("points.csv");
        fs::write(&path, text).unwrap();
        read_layout(&path, &Budget::of_machine())
    }

    #[test]
    fn columns_may_come_in_any_order() {
        let layout = read("x,latent,y,name\n0.5,7,-1,bird\n1,3,2,\n").unwrap();
        assert_eq!((layout.latents, layout.x, layout.y), (vec![7, 3], vec![0.5, 1.0], vec![-1.0, 2.0]));
        assert_eq!(layout.names, ["bird", ""]);
        assert!(read("id,x,y\n").unwrap().latents.is_empty());
    }

    #[test]
    fn invalid_layouts_are_refused_with_their_position() {
        for (text, expected) in [
            ("latent,x\n1,2\n", "no column `y`"),
            ("latent,x,y\n1,2,nan\n", "line 2"),
            ("latent,x,y\n1.5,2,3\n", "whole number"),
            ("latent,x,y\n1,2,3\n1,4,5\n", "two points"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.is_input() && error.to_string().contains(expected), "{error}");
        }
    }
}
