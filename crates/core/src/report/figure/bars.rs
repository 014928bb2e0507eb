//! Grouped bar chart with error bars and values.

use super::Figure;
use super::axis::{Frame, Scale};
use super::canvas::{Anchor, Canvas, Ink, legend_height, text_width};
use crate::report::words::{UNDEFINED, brief, interval, shorten};
use crate::results::Interval;

/// One bar; a dash if the value is undefined.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The value.
    pub value: Option<f64>,
    /// The error bar.
    pub interval: Option<Interval>,
}

/// A grouped bar chart.
pub struct Bars {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// Names of the groups and their bars, one per series; `None` if it was not measured.
    pub groups: Vec<(String, Vec<Option<Bar>>)>,
    /// Labels and colours.
    pub series: Vec<(String, usize)>,
    /// Name of the vertical axis.
    pub axis: String,
    /// Bars are clipped to these bounds; the number above a bar is not.
    pub bounds: (f64, f64),
}

impl Bars {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let width = 880.0;
        let legend = legend_height(width - 60.0, &self.series);
        let frame = Frame { left: 56.0, top: legend + 24.0, right: width - 6.0, bottom: legend + 264.0 };
        let group_width = (frame.right - frame.left) / self.groups.len().max(1) as f64;
        // Names are rotated only if they would overlap.
        let names: Vec<String> = self.groups.iter().map(|(name, _)| shorten(name, 42)).collect();
        let rotated = names.iter().any(|name| lines_of(name, group_width).len() > 2);
        let below = if rotated { 110.0 } else { 44.0 };
        let mut canvas = Canvas::new(width, frame.bottom + below);
        canvas.legend((frame.left, frame.right), 2.0, false, &self.series);
        let scale = Scale::linear(self.bounds, (frame.bottom, frame.top));
        frame.vertical(&mut canvas, &scale, &self.axis);
        let bar_width = (group_width * 0.82 / self.series.len().max(1) as f64).min(54.0);
        for (index, (_, bars)) in self.groups.iter().enumerate() {
            let middle = frame.left + group_width * (index as f64 + 0.5);
            let start = middle - bar_width * bars.len() as f64 / 2.0;
            for (series, bar) in bars.iter().enumerate() {
                let Some(bar) = bar else { continue };
                let left = start + bar_width * series as f64;
                self.draw_bar(&mut canvas, &scale, (left, bar_width), series, bar);
            }
            if rotated {
                canvas.rotated_text((middle + 4.0, frame.bottom + 16.0), Anchor::End, -28.0, 12.0, &names[index]);
            } else {
                for (row, text) in lines_of(&names[index], group_width).iter().enumerate() {
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
            canvas.text((middle, scale.position(low) - 5.0), Anchor::Middle, size, Ink::Quiet, UNDEFINED);
            return;
        };
        let clipped = value.clamp(low, high);
        let top = scale.position(clipped);
        let hint = match bar.interval {
            Some(noise) => format!("{label}: {} ({})", brief(value), interval(noise)),
            None => format!("{label}: {}", brief(value)),
        };
        let inner = (width * 0.86).max(1.0);
        let corner = (middle - inner / 2.0, top);
        canvas.bar(corner, (inner, scale.position(low) - top), Ink::Colour(*colour), 1.0, &hint);
        let mut text_y = top;
        if let Some(noise) = bar.interval {
            let (down, up) = (scale.position(noise.low.clamp(low, high)), scale.position(noise.high.clamp(low, high)));
            canvas.line((middle, down), (middle, up), Ink::Text, 1.5);
            for y in [down, up] {
                canvas.line((middle - 3.5, y), (middle + 3.5, y), Ink::Text, 1.5);
            }
            text_y = text_y.min(up);
        }
        // An arrow marks a clipped bar.
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

/// Breaks a name at spaces into lines of at most `width`.
fn lines_of(name: &str, width: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in name.split(' ') {
        match lines.last_mut() {
            Some(line) if text_width(&format!("{line} {word}"), 12.0) <= width - 6.0 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    // A single word that does not fit counts as many lines, so that the name is rotated.
    if lines.iter().any(|line| text_width(line, 12.0) > width) { vec![String::new(); 9] } else { lines }
}
