//! Dot plot: one row per concept, one dot per input set.

use super::Figure;
use super::axis::{Frame, Scale, span, widen};
use super::canvas::{Anchor, Canvas, Ink, legend_height, text_width};
use crate::report::words::{brief, shorten};

/// A dot plot.
pub struct Dots {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// Name of the horizontal axis.
    pub across: String,
    /// Labels and colours.
    pub series: Vec<(String, usize)>,
    /// Names of the rows, with one value per series.
    pub rows: Vec<(String, Vec<Option<f64>>)>,
}

impl Dots {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let (width, row) = (880.0, 20.0);
        let names: Vec<String> = self.rows.iter().map(|(name, _)| shorten(name, 34)).collect();
        let margin = names.iter().map(|name| text_width(name, 12.0)).fold(60.0, f64::max) + 14.0;
        let legend = legend_height(width - margin - 10.0, &self.series);
        let top = legend + 8.0;
        let frame = Frame { left: margin, top, right: width - 16.0, bottom: top + row * self.rows.len() as f64 + 6.0 };
        let mut canvas = Canvas::new(width, frame.bottom + 46.0);
        canvas.legend((frame.left, frame.right), 2.0, true, &self.series);
        let values = || self.rows.iter().flat_map(|(_, values)| values).flatten().copied();
        let (low, high) = span(values()).unwrap_or((0.0, 1.0));
        let (low, high) = if low >= 0.0 && high <= 1.0 { (0.0, 1.0) } else { widen(low.min(0.0), high) };
        let across = Scale::linear((low, high), (frame.left + 6.0, frame.right - 6.0));
        let ticks = across.ticks(6);
        for &tick in &ticks {
            canvas.line((across.position(tick), frame.top), (across.position(tick), frame.bottom), Ink::Grid, 1.0);
        }
        if low < 0.0 {
            canvas.dashes((across.position(0.0), frame.top), (across.position(0.0), frame.bottom));
        }
        frame.horizontal(&mut canvas, &across, &ticks, &self.across);
        for (index, (name, values)) in self.rows.iter().enumerate() {
            let y = frame.top + row * (index as f64 + 0.5) + 3.0;
            canvas.text((frame.left - 8.0, y + 4.0), Anchor::End, 12.0, Ink::Text, &names[index]);
            if let Some((low, high)) = span(values.iter().flatten().copied()) {
                canvas.line((across.position(low), y), (across.position(high), y), Ink::Grid, 3.0);
            }
            for (value, (label, colour)) in values.iter().zip(&self.series) {
                if let Some(value) = value {
                    let hint = format!("{name}, {label}: {}", brief(*value));
                    canvas.mark((across.position(*value), y), *colour, 4.5, &hint);
                }
            }
        }
        let ends = |row: Option<&(String, _)>| row.map_or(String::new(), |(name, _)| name.clone());
        let description = format!(
            "{} for {} rows and {} input sets, from {} at the top to {} at the bottom.",
            self.across,
            self.rows.len(),
            self.series.len(),
            ends(self.rows.first()),
            ends(self.rows.last())
        );
        Figure::new(&self.name, &self.title, description, canvas)
    }
}
