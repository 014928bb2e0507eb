//! Scatter plot with labelled points.

use super::Figure;
use super::axis::{Frame, Scale, span, widen};
use super::canvas::{Anchor, Canvas, Ink, text_width};
use crate::report::words::{brief, shorten};

/// A scatter plot.
pub struct Scatter {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// Name of the horizontal axis.
    pub across: String,
    /// Name of the vertical axis.
    pub up: String,
    /// A text above the points, such as a correlation.
    pub note: String,
    /// Labels, colours, and horizontal and vertical values.
    pub points: Vec<(String, usize, f64, f64)>,
}

/// A rectangle: left, top, right, bottom.
type Rectangle = (f64, f64, f64, f64);

impl Scatter {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let (width, bottom) = (430.0, 300.0);
        let frame = Frame { left: 56.0, top: 26.0, right: width - 12.0, bottom };
        let mut canvas = Canvas::new(width, bottom + 46.0);
        let (x, y): (Vec<f64>, Vec<f64>) = self.points.iter().map(|point| (point.2, point.3)).unzip();
        let bounds = |values: &[f64]| span(values.iter().copied()).map_or((0.0, 1.0), |(low, high)| widen(low, high));
        let across = Scale::linear(bounds(&x), (frame.left + 10.0, frame.right - 10.0));
        let up = Scale::linear(bounds(&y), (frame.bottom - 10.0, frame.top + 10.0));
        frame.vertical(&mut canvas, &up, &shorten(&self.up, 40));
        let ticks = across.ticks(5);
        for &tick in &ticks {
            canvas.line((across.position(tick), frame.top), (across.position(tick), frame.bottom), Ink::Grid, 1.0);
        }
        frame.horizontal(&mut canvas, &across, &ticks, &shorten(&self.across, 52));
        canvas.text((frame.right, 14.0), Anchor::End, 12.0, Ink::Text, &self.note);
        let positions: Vec<(f64, f64)> = self.points.iter().map(|p| (across.position(p.2), up.position(p.3))).collect();
        let mut taken: Vec<Rectangle> = positions.iter().map(|&(x, y)| (x - 5.0, y - 5.0, x + 5.0, y + 5.0)).collect();
        for (point, &position) in self.points.iter().zip(&positions) {
            let hint = format!("{}: {}, {}", point.0, brief(point.2), brief(point.3));
            canvas.mark(position, point.1, 4.5, &hint);
            label(&mut canvas, &frame, &mut taken, position, &shorten(&point.0, 22));
        }
        let description = format!("{} against {}. {}", self.up, self.across, self.note);
        Figure::new(&self.name, &self.title, description, canvas)
    }
}

/// Writes a label next to its point where it does not overlap others. Points without a label have a tooltip.
fn label(canvas: &mut Canvas, frame: &Frame, taken: &mut Vec<Rectangle>, (x, y): (f64, f64), text: &str) {
    let width = text_width(text, 11.0);
    let candidates = [
        (x + 8.0, y + 4.0, Anchor::Start, x + 8.0),
        (x - 8.0, y + 4.0, Anchor::End, x - 8.0 - width),
        (x, y - 9.0, Anchor::Middle, x - width / 2.0),
        (x, y + 17.0, Anchor::Middle, x - width / 2.0),
    ];
    for (x, baseline, anchor, left) in candidates {
        let area = (left, baseline - 9.0, left + width, baseline + 3.0);
        let inside = area.0 >= frame.left && area.2 <= frame.right && area.3 <= frame.bottom;
        let free =
            taken.iter().all(|other| area.2 < other.0 || area.0 > other.2 || area.3 < other.1 || area.1 > other.3);
        if inside && free {
            canvas.text((x, baseline), anchor, 11.0, Ink::Text, text);
            taken.push(area);
            return;
        }
    }
}
