//! Heat map of a correlation matrix, with the number and its n in every cell.

use super::Figure;
use super::canvas::{Anchor, Canvas, Ink, text_width};
use crate::report::words::{UNDEFINED, brief, shorten};

/// One cell.
pub struct HeatCell {
    /// From −1 to 1.
    pub value: Option<f64>,
    /// The number of values that it is computed from.
    pub n: usize,
    /// Whether it may be due to chance: then it is in parentheses and has no colour.
    pub is_weak: bool,
}

/// A heat map of values from −1 to 1.
pub struct Heat {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// Names of rows and columns.
    pub names: Vec<String>,
    /// The cells, row by row.
    pub cells: Vec<Vec<HeatCell>>,
}

impl Heat {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let names: Vec<String> = self.names.iter().map(|name| shorten(name, 34)).collect();
        let longest = names.iter().map(|name| text_width(name, 12.0)).fold(40.0, f64::max);
        let count = names.len().max(1) as f64;
        let (left, size) = (longest + 14.0, ((860.0 - longest) / count).min(58.0));
        let height = size.min(34.0);
        // Column names are rotated by 35 degrees: sin 35° = 0.57, cos 35° = 0.82.
        let top = longest * 0.57 + 18.0;
        let right = left + size * count + (longest * 0.82 - size / 2.0).max(0.0);
        let mut canvas = Canvas::new(right + 8.0, top + height * count + 8.0);
        for (column, name) in names.iter().enumerate() {
            let x = left + size * (column as f64 + 0.5);
            canvas.rotated_text((x, top - 8.0), Anchor::Start, -35.0, 12.0, name);
        }
        for (row, (name, cells)) in names.iter().zip(&self.cells).enumerate() {
            let y = top + height * row as f64;
            canvas.text((left - 8.0, y + height / 2.0 + 4.0), Anchor::End, 12.0, Ink::Text, name);
            for (column, cell) in cells.iter().enumerate() {
                let x = left + size * column as f64;
                let value = cell.value.filter(|_| !cell.is_weak).unwrap_or(0.0).clamp(-1.0, 1.0);
                // Light enough for dark text; blue is positive, orange negative.
                let ink = Ink::Colour(if value < 0.0 { 1 } else { 0 });
                let text = cell.value.map_or(UNDEFINED.into(), brief);
                let hint = format!("{name}, {}: {text}, n = {}", self.names[column], cell.n);
                canvas.bar((x + 1.0, y + 1.0), (size - 2.0, height - 2.0), ink, value.abs() * 0.42 + 0.03, &hint);
                let text = if cell.is_weak { format!("({text})") } else { text };
                let ink = if cell.is_weak { Ink::Quiet } else { Ink::Text };
                let middle = x + size / 2.0;
                canvas.text((middle, y + height / 2.0), Anchor::Middle, 11.0, ink, &text);
                canvas.text(
                    (middle, y + height / 2.0 + 11.0),
                    Anchor::Middle,
                    9.0,
                    Ink::Quiet,
                    &format!("n {}", cell.n),
                );
            }
        }
        let description = format!(
            "Rank correlation between {} measures over input sets, each oriented so that higher is better.",
            self.names.len()
        );
        Figure::new(&self.name, &self.title, description, canvas)
    }
}
