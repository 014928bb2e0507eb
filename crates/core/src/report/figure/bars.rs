//! Grouped bars with error bars and their values: the sanity figure.

use super::Figure;
use super::axis::{Frame, Scale};
use super::canvas::{Anchor, Canvas, Ink, legend_height, text_width};
use crate::report::words::{UNDEFINED, brief, interval, shorten};
use crate::results::Interval;

/// One bar; without a value a dash stands in its place.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// How high it is.
    pub value: Option<f64>,
    /// Its error bar.
    pub interval: Option<Interval>,
}

/// Groups of bars.
pub struct Bars {
    /// The name of the file.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// The names of the groups and their bars, one per series; `None` where nothing was measured.
    pub groups: Vec<(String, Vec<Option<Bar>>)>,
    /// Names and colours.
    pub series: Vec<(String, usize)>,
    /// What the height means.
    pub axis: String,
    /// The bounds that values are cut to; the number above the bar is the true one.
    pub bounds: (f64, f64),
}

impl Bars {
    /// Draws them.
    pub fn draw(&self) -> Figure {
        let width = 880.0;
        let legend = legend_height(width - 60.0, &self.series);
        let frame = Frame { left: 56.0, top: legend + 24.0, right: width - 6.0, bottom: legend + 264.0 };
        let places = self.groups.len().max(1) as f64;
        let room = (frame.right - frame.left) / places;
        // Long names stand askew only when they would touch.
        let names: Vec<String> = self.groups.iter().map(|(name, _)| shorten(name, 42)).collect();
        let askew = names.iter().any(|name| lines_of(name, room).len() > 2);
        let below = if askew { 110.0 } else { 44.0 };
        let mut canvas = Canvas::new(width, frame.bottom + below);
        canvas.legend((frame.left, frame.right), 2.0, false, &self.series);
        let scale = Scale::even(self.bounds, (frame.bottom, frame.top));
        frame.vertical(&mut canvas, &scale, &self.axis);
        let bar_width = (room * 0.82 / self.series.len().max(1) as f64).min(54.0);
        for (place, (_, bars)) in self.groups.iter().enumerate() {
            let middle = frame.left + room * (place as f64 + 0.5);
            let start = middle - bar_width * bars.len() as f64 / 2.0;
            for (series, bar) in bars.iter().enumerate() {
                let Some(bar) = bar else { continue };
                let left = start + bar_width * series as f64;
                self.draw_bar(&mut canvas, &scale, (left, bar_width), series, bar);
            }
            if askew {
                canvas.climbing_text((middle + 4.0, frame.bottom + 16.0), Anchor::End, -28.0, 12.0, &names[place]);
            } else {
                for (row, text) in lines_of(&names[place], room).iter().enumerate() {
                    let y = frame.bottom + 17.0 + 15.0 * row as f64;
                    canvas.text((middle, y), Anchor::Middle, 12.0, Ink::Text, text);
                }
            }
        }
        frame.base(&mut canvas);
        Figure::new(&self.name, &self.title, self.describe(), canvas)
    }

    fn draw_bar(&self, canvas: &mut Canvas, scale: &Scale, (left, width): (f64, f64), series: usize, bar: &Bar) {
        let (low, high) = self.bounds;
        let (label, colour) = &self.series[series];
        let middle = left + width / 2.0;
        let size = if width < 24.0 { 9.0 } else { 11.0 };
        let Some(value) = bar.value else {
            canvas.text((middle, scale.place(low) - 5.0), Anchor::Middle, size, Ink::Quiet, UNDEFINED);
            return;
        };
        let cut = value.clamp(low, high);
        let top = scale.place(cut);
        let hint = match bar.interval {
            Some(noise) => format!("{label}: {} ({})", brief(value), interval(noise)),
            None => format!("{label}: {}", brief(value)),
        };
        let inner = (width * 0.86).max(1.0);
        let corner = (middle - inner / 2.0, top);
        canvas.bar(corner, (inner, scale.place(low) - top), Ink::Colour(*colour), 1.0, &hint);
        let mut text_y = top;
        if let Some(noise) = bar.interval {
            let (down, up) = (scale.place(noise.low.clamp(low, high)), scale.place(noise.high.clamp(low, high)));
            canvas.line((middle, down), (middle, up), Ink::Text, 1.5);
            for y in [down, up] {
                canvas.line((middle - 3.5, y), (middle + 3.5, y), Ink::Text, 1.5);
            }
            text_y = text_y.min(up);
        }
        // An arrow says that the bar is cut.
        let arrow = if value > high { "↑" } else { "" };
        canvas.text((middle, text_y - 5.0), Anchor::Middle, size, Ink::Text, &format!("{}{arrow}", brief(value)));
    }

    fn describe(&self) -> String {
        let group = |(name, bars): &(String, Vec<Option<Bar>>)| {
            let values = bars.iter().zip(&self.series).filter_map(|(bar, (label, _))| {
                Some(format!("{label} {}", (*bar)?.value.map_or("undefined".into(), brief)))
            });
            format!("{name}: {}", values.collect::<Vec<_>>().join(", "))
        };
        self.groups.iter().map(group).collect::<Vec<_>>().join("; ")
    }
}

/// A name broken at spaces into lines that fit.
fn lines_of(name: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), 12.0) <= room - 6.0 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    // A single word that does not fit counts as many lines, so that the name is set askew.
    if lines.iter().any(|line| text_width(line, 12.0) > room) { vec![String::new(); 9] } else { lines }
}
