//! Heat maps of square matrices with the same rows and columns, side by side, with the number in every cell.

use super::Figure;
use super::canvas::{Anchor, Canvas, Ink, text_width};
use crate::report::words::{UNDEFINED, brief, shorten};

/// Width that the cells of all panels share.
const WIDTH: f64 = 860.0;

/// The smallest cells that have room for a number, and for the name of their row.
const WITH_NUMBER: f64 = 26.0;
const WITH_NAME: f64 = 11.0;

/// One cell.
#[derive(Clone)]
pub struct HeatCell {
    /// The value.
    pub value: Option<f64>,
    /// The number of values that it is computed from, if it is shown.
    pub n: Option<usize>,
    /// Whether it may be due to chance: then it is in parentheses and has no colour.
    pub is_weak: bool,
}

/// One matrix.
pub struct HeatPanel {
    /// The heading; empty for none.
    pub heading: String,
    /// The cells, row by row.
    pub cells: Vec<Vec<HeatCell>>,
    /// The value without colour.
    pub centre: f64,
    /// The distance from it that has the full colour.
    pub reach: f64,
}

/// Heat maps with the same names.
pub struct Heat {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// A text alternative for screen readers.
    pub description: String,
    /// Names of rows and columns.
    pub names: Vec<String>,
    /// The matrices, from left to right.
    pub panels: Vec<HeatPanel>,
}

/// Positions and sizes of a figure.
struct HeatLayout {
    left: f64,
    top: f64,
    /// Width and height of a cell.
    cell: (f64, f64),
    /// Distance between panels.
    stride: f64,
}

impl Heat {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let length = if self.panels.len() > 1 { 20 } else { 34 };
        let names: Vec<String> = self.names.iter().map(|name| shorten(name, length)).collect();
        let longest = names.iter().map(|name| text_width(name, 12.0)).fold(40.0, f64::max);
        let (count, panels) = (names.len().max(1) as f64, self.panels.len().max(1) as f64);
        // Column names are rotated by 35 degrees (sin 35° = 0.57, cos 35° = 0.82) and reach beyond the last column.
        let beyond = |size: f64| (longest * 0.82 - size / 2.0).max(0.0);
        let room = WIDTH - longest - (panels - 1.0) * longest * 0.82;
        let size = (room / (count * panels)).clamp(4.0, 58.0);
        let headings = if self.panels.iter().any(|panel| !panel.heading.is_empty()) { 22.0 } else { 0.0 };
        let gap = beyond(size).max(18.0);
        let layout = HeatLayout {
            left: longest + 14.0,
            top: headings + longest * 0.57 + 18.0,
            cell: (size, size.min(34.0)),
            stride: size * count + gap,
        };
        let right = layout.left + layout.stride * panels - gap + beyond(size);
        let mut canvas = Canvas::new(right + 8.0, layout.top + layout.cell.1 * count + 8.0);
        if layout.cell.1 >= WITH_NAME {
            for (row, name) in names.iter().enumerate() {
                let y = layout.top + layout.cell.1 * (row as f64 + 0.5) + 4.0;
                canvas.text((layout.left - 8.0, y), Anchor::End, 12.0, Ink::Text, name);
            }
        }
        for (number, panel) in self.panels.iter().enumerate() {
            self.draw_panel(&mut canvas, panel, &names, &layout, layout.left + layout.stride * number as f64);
        }
        Figure::new(&self.name, &self.title, self.description.clone(), canvas)
    }

    fn draw_panel(&self, canvas: &mut Canvas, panel: &HeatPanel, names: &[String], layout: &HeatLayout, left: f64) {
        let (size, height) = layout.cell;
        if !panel.heading.is_empty() {
            canvas.text((left, 15.0), Anchor::Start, 13.0, Ink::Text, &panel.heading);
        }
        if size >= WITH_NAME {
            for (column, name) in names.iter().enumerate() {
                let x = left + size * (column as f64 + 0.5);
                canvas.rotated_text((x, layout.top - 8.0), Anchor::Start, -35.0, 12.0, name);
            }
        }
        for (row, (name, cells)) in names.iter().zip(&panel.cells).enumerate() {
            let y = layout.top + height * row as f64;
            for (column, (cell, other)) in cells.iter().zip(&self.names).enumerate() {
                let x = left + size * column as f64;
                let level = cell.value.filter(|_| !cell.is_weak).map_or(0.0, |value| panel.level(value));
                // Light enough for dark text; blue is above the centre, orange below.
                let ink = Ink::Colour(if level < 0.0 { 1 } else { 0 });
                let text = cell.value.map_or(UNDEFINED.into(), brief);
                let n = cell.n.map_or_else(String::new, |n| format!(", n = {n}"));
                let hint = format!("{name}, {other}: {text}{n}");
                canvas.bar((x + 1.0, y + 1.0), (size - 2.0, height - 2.0), ink, level.abs() * 0.42 + 0.03, &hint);
                if size < WITH_NUMBER {
                    continue;
                }
                let text = if cell.is_weak { format!("({text})") } else { text };
                let ink = if cell.is_weak { Ink::Quiet } else { Ink::Text };
                let (middle, base) = (x + size / 2.0, y + height / 2.0);
                match cell.n {
                    Some(n) => {
                        canvas.text((middle, base), Anchor::Middle, 11.0, ink, &text);
                        canvas.text((middle, base + 11.0), Anchor::Middle, 9.0, Ink::Quiet, &format!("n {n}"));
                    }
                    None => canvas.text((middle, base + 4.0), Anchor::Middle, 11.0, ink, &text),
                }
            }
        }
    }
}

impl HeatPanel {
    /// The strength of a value's colour, from −1 to 1.
    fn level(&self, value: f64) -> f64 {
        ((value - self.centre) / self.reach).clamp(-1.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_relative_to_the_centre_and_small_cells_have_no_number() {
        let cell = |value: f64| HeatCell { value: Some(value), n: None, is_weak: false };
        let panel = |cells: Vec<Vec<HeatCell>>| HeatPanel { heading: "areas".into(), cells, centre: 0.5, reach: 0.5 };
        let one = panel(Vec::new());
        assert_eq!([0.0, 0.5, 0.75, 1.0, 2.0].map(|value| one.level(value)), [-1.0, 0.0, 0.5, 1.0, 1.0]);
        let draw = |count: usize| {
            let heat = Heat {
                name: "heat".into(),
                title: "Heat".into(),
                description: String::new(),
                names: (0..count).map(|name| format!("name {name}")).collect(),
                panels: vec![panel(vec![vec![cell(0.25); count]; count]), panel(vec![vec![cell(1.0); count]; count])],
            };
            heat.draw().inline()
        };
        let (few, many) = (draw(2), draw(60));
        assert_eq!((few.matches(">0.25<").count(), few.matches(">1.00<").count()), (4, 4), "{few}");
        assert_eq!((few.matches(">name 1<").count(), few.matches(">areas<").count()), (3, 2));
        assert!(!many.contains(">0.25<") && !many.contains(">name 1<") && many.contains("name 1, name 2: 0.25"));
    }
}
