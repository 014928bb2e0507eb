//! One measure against another, every point named, with Pearson's correlation.

use super::Figure;
use super::axis::{Frame, Scale, span, widen};
use super::canvas::{Anchor, Canvas, Ink, text_width};
use crate::report::words::{brief, shorten};
use etalon_kernel::statistics::pearson;

/// A figure of named points.
pub struct Scatter {
    /// The name of the file.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// What runs to the right.
    pub across: String,
    /// What runs upwards.
    pub up: String,
    /// Names, colours and places.
    pub points: Vec<(String, usize, f64, f64)>,
}

/// A box that must stay free: left, top, right, bottom.
type Reservation = (f64, f64, f64, f64);

impl Scatter {
    /// Draws it.
    pub fn draw(&self) -> Figure {
        let (width, bottom) = (430.0, 300.0);
        let frame = Frame { left: 56.0, top: 26.0, right: width - 12.0, bottom };
        let mut canvas = Canvas::new(width, bottom + 46.0);
        let (x, y): (Vec<f64>, Vec<f64>) = self.points.iter().map(|point| (point.2, point.3)).unzip();
        let bounds = |values: &[f64]| span(values.iter().copied()).map_or((0.0, 1.0), |(low, high)| widen(low, high));
        let across = Scale::even(bounds(&x), (frame.left + 10.0, frame.right - 10.0));
        let up = Scale::even(bounds(&y), (frame.bottom - 10.0, frame.top + 10.0));
        frame.vertical(&mut canvas, &up, &shorten(&self.up, 40));
        let ticks = across.ticks(5);
        for &tick in &ticks {
            canvas.line((across.place(tick), frame.top), (across.place(tick), frame.bottom), Ink::Grid, 1.0);
        }
        frame.horizontal(&mut canvas, &across, &ticks, &shorten(&self.across, 52));
        let correlation = match pearson(&x, &y) {
            Some(r) => format!("r = {}, n = {}", brief(r), x.len()),
            None => format!("r undefined, n = {}", x.len()),
        };
        canvas.text((frame.right, 14.0), Anchor::End, 12.0, Ink::Text, &correlation);
        let places: Vec<(f64, f64)> = self.points.iter().map(|p| (across.place(p.2), up.place(p.3))).collect();
        let mut taken: Vec<Reservation> = places.iter().map(|&(x, y)| (x - 5.0, y - 5.0, x + 5.0, y + 5.0)).collect();
        for (point, &place) in self.points.iter().zip(&places) {
            let hint = format!("{}: {}, {}", point.0, brief(point.2), brief(point.3));
            canvas.mark(place, point.1, 4.5, &hint);
            label(&mut canvas, &frame, &mut taken, place, &shorten(&point.0, 22));
        }
        let description = format!("{} against {}: {correlation}.", self.up, self.across);
        Figure::new(&self.name, &self.title, description, canvas)
    }
}

/// Writes a name beside its point where there is room; the pointer reads those that found none.
fn label(canvas: &mut Canvas, frame: &Frame, taken: &mut Vec<Reservation>, (x, y): (f64, f64), text: &str) {
    let width = text_width(text, 11.0);
    let tries = [
        (x + 8.0, y + 4.0, Anchor::Start, x + 8.0),
        (x - 8.0, y + 4.0, Anchor::End, x - 8.0 - width),
        (x, y - 9.0, Anchor::Middle, x - width / 2.0),
        (x, y + 17.0, Anchor::Middle, x - width / 2.0),
    ];
    for (at, base, anchor, left) in tries {
        let wanted = (left, base - 9.0, left + width, base + 3.0);
        let inside = wanted.0 >= frame.left && wanted.2 <= frame.right && wanted.3 <= frame.bottom;
        let free = taken
            .iter()
            .all(|other| wanted.2 < other.0 || wanted.0 > other.2 || wanted.3 < other.1 || wanted.1 > other.3);
        if inside && free {
            canvas.text((at, base), anchor, 11.0, Ink::Text, text);
            taken.push(wanted);
            return;
        }
    }
}
