//! Bar charts of several measures: one panel per measure, each with its own axis, and one row per input set.

use super::Figure;
use super::axis::{Scale, span, ticks, widen};
use super::canvas::{Anchor, Canvas, Ink, text_width};
use crate::report::words::{UNDEFINED, interval, plain, short, shorten};
use crate::results::Interval;

/// One bar; a dash if the value is undefined.
#[derive(Clone, Copy, Debug)]
pub struct Bar {
    /// The value.
    pub value: Option<f64>,
    /// The error bar.
    pub interval: Option<Interval>,
}

/// The bars of one measure.
pub struct Panel {
    /// The title above the bars.
    pub title: String,
    /// One per row of the figure; `None` if it was not measured.
    pub bars: Vec<Option<Bar>>,
}

/// A figure of panels.
pub struct Bars {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// Labels and colours of the rows.
    pub rows: Vec<(String, usize)>,
    /// The panels.
    pub panels: Vec<Panel>,
}

const WIDTH: f64 = 880.0;
const COLUMNS: usize = 3;
const ROW: f64 = 17.0;
/// Space for the title of a panel, for the numbers of its axis, and for the number next to every bar.
const ABOVE: f64 = 38.0;
const BELOW: f64 = 34.0;
const NUMBER: f64 = 52.0;

/// The horizontal extent of a panel, and the top of its bars.
#[derive(Clone, Copy)]
struct PanelArea {
    left: f64,
    right: f64,
    top: f64,
}

impl Bars {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let labels: Vec<String> = self.rows.iter().map(|(label, _)| shorten(label, 30)).collect();
        let margin = labels.iter().map(|label| text_width(label, 12.0)).fold(40.0, f64::max) + 20.0;
        let columns = COLUMNS.min(self.panels.len()).max(1);
        let width = (WIDTH - margin) / columns as f64;
        let height = ABOVE + ROW * self.rows.len() as f64 + BELOW;
        let lines = self.panels.len().div_ceil(columns);
        let mut canvas = Canvas::new(WIDTH, height * lines as f64);
        for line in 0..lines {
            let top = height * line as f64 + ABOVE;
            for (row, label) in labels.iter().enumerate() {
                canvas.text((margin - 8.0, middle(top, row) + 4.0), Anchor::End, 12.0, Ink::Text, label);
            }
        }
        for (index, panel) in self.panels.iter().enumerate() {
            let left = margin + width * (index % columns) as f64;
            let top = height * (index / columns) as f64 + ABOVE;
            self.panel(&mut canvas, panel, PanelArea { left, right: left + width - 10.0, top });
        }
        Figure::new(&self.name, &self.title, self.describe(), canvas)
    }

    fn panel(&self, canvas: &mut Canvas, panel: &Panel, area: PanelArea) {
        for (row, text) in lines_of(&panel.title, area.right - area.left).iter().rev().enumerate() {
            canvas.text((area.left, area.top - 9.0 - 14.0 * row as f64), Anchor::Start, 12.0, Ink::Text, text);
        }
        let bars = || panel.bars.iter().flatten();
        let ends = bars().flat_map(|bar| {
            let (low, high) = bar.interval.map_or((None, None), |noise| (Some(noise.low), Some(noise.high)));
            [bar.value, low, high].into_iter().flatten()
        });
        // Bars start at 0, and the axis covers every bar and error bar: nothing is clipped.
        let (low, high) = match span(ends.chain([0.0])) {
            Some((low, high)) if high > low => widen(low, high),
            _ => (0.0, 1.0),
        };
        let bottom = area.top + ROW * self.rows.len() as f64;
        let scale = Scale::linear((low, high), (area.left + 1.0, area.right - NUMBER));
        let mut free = f64::NEG_INFINITY;
        for tick in ticks(low, high, 4) {
            let (x, text) = (scale.position(tick), plain(tick));
            canvas.line((x, area.top), (x, bottom), Ink::Grid, 1.0);
            let half = text_width(&text, 10.0) / 2.0;
            if x - half > free {
                canvas.text((x, bottom + 13.0), Anchor::Middle, 10.0, Ink::Quiet, &text);
                free = x + half + 4.0;
            }
        }
        for (row, bar) in panel.bars.iter().enumerate() {
            if let Some(bar) = bar {
                self.bar(canvas, &scale, (middle(area.top, row), area.right), row, bar);
            }
        }
        canvas.line((scale.position(0.0), area.top), (scale.position(0.0), bottom), Ink::Text, 1.0);
    }

    fn bar(&self, canvas: &mut Canvas, scale: &Scale, (y, right): (f64, f64), row: usize, bar: &Bar) {
        let (label, colour) = &self.rows[row];
        let number =
            |canvas: &mut Canvas, text: &str| canvas.text((right, y + 4.0), Anchor::End, 11.0, Ink::Text, text);
        let Some(value) = bar.value else { return number(canvas, UNDEFINED) };
        let hint = match bar.interval {
            Some(noise) => format!("{label}: {} ({})", short(value), interval(noise)),
            None => format!("{label}: {}", short(value)),
        };
        let (zero, end) = (scale.position(0.0), scale.position(value));
        let (left, length) = (zero.min(end), (zero - end).abs());
        canvas.bar((left, y - 0.36 * ROW), (length, 0.72 * ROW), Ink::Colour(*colour), 1.0, &hint);
        if let Some(noise) = bar.interval {
            let (low, high) = (scale.position(noise.low), scale.position(noise.high));
            canvas.line((low, y), (high, y), Ink::Text, 1.5);
            for x in [low, high] {
                canvas.line((x, y - 3.0), (x, y + 3.0), Ink::Text, 1.5);
            }
        }
        number(canvas, &short(value));
    }

    fn describe(&self) -> String {
        let panel = |panel: &Panel| {
            let values = panel.bars.iter().zip(&self.rows).filter_map(|(bar, (label, _))| {
                Some(format!("{label} {}", (*bar)?.value.map_or("undefined".into(), short)))
            });
            format!("{}: {}", panel.title, values.collect::<Vec<_>>().join(", "))
        };
        self.panels.iter().map(panel).collect::<Vec<_>>().join("; ")
    }
}

/// The vertical middle of a row.
fn middle(top: f64, row: usize) -> f64 {
    top + ROW * (row as f64 + 0.5)
}

/// A title in at most two lines of some width; the rest is cut.
fn lines_of(title: &str, width: f64) -> Vec<String> {
    let fits = |text: &str| text_width(text, 12.0) <= width;
    let mut lines: Vec<String> = vec![String::new()];
    for word in title.split(' ') {
        let last = lines.len() - 1;
        let longer = if lines[last].is_empty() { word.to_string() } else { format!("{} {word}", lines[last]) };
        if fits(&longer) || lines[last].is_empty() || lines.len() == 2 {
            lines[last] = longer;
        } else {
            lines.push(word.to_string());
        }
    }
    let cut = |line: String| {
        let most = (1..=line.chars().count()).rev().find(|&most| fits(&shorten(&line, most)));
        shorten(&line, most.unwrap_or(1))
    };
    lines.into_iter().map(cut).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value of an attribute in an element.
    fn attribute(element: &str, name: &str) -> f64 {
        element.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
    }

    fn figure(values: &[f64], sets: usize) -> Figure {
        let bar = |value: f64| {
            Some(Bar { value: Some(value), interval: Some(Interval { low: value - 0.1, high: value + 0.1 }) })
        };
        let panel = |&value: &f64| Panel {
            title: format!("A measure whose title is long: {value}"),
            bars: (0..sets).map(|set| bar(value + 0.01 * set as f64)).collect(),
        };
        let rows = (0..sets).map(|set| (format!("dictionary-number-{set}"), set)).collect();
        Bars { name: "bars".into(), title: "Bars".into(), rows, panels: values.iter().map(panel).collect() }.draw()
    }

    #[test]
    fn no_bar_is_clipped() {
        // 2.74 is drawn on its own axis, which covers its error bar, and is longer than 0.99 of the axis 0 to 2.8.
        let svg = figure(&[0.5, 2.74, -1.5], 1).inline();
        let widths: Vec<f64> = svg.split("<rect ").skip(1).map(|bar| attribute(bar, "width")).collect();
        let full = (WIDTH - text_width("dictionary-number-0", 12.0) - 20.0) / 3.0 - 10.0 - NUMBER - 1.0;
        // Axes: 0 to 0.6, 0 to 3 (2.84 widened), −2 to 0 (−1.6 widened).
        for (width, share) in widths.iter().zip([0.5 / 0.6, 2.74 / 3.0, 1.5 / 2.0]) {
            assert!((width / full - share).abs() < 0.01, "{width} of {full}, expected {share}");
        }
        assert!(svg.contains(">2.740<") && svg.contains(">−1.500<"));
    }

    #[test]
    fn texts_do_not_overlap_for_any_number_of_sets() {
        for sets in [1, 5, 8, 24] {
            let svg = figure(&[0.5, 0.9, 12.25, 399.0, 0.001], sets).inline();
            let mut boxes: Vec<(f64, f64, f64, f64)> = Vec::new();
            for element in svg.split("<text ").skip(1) {
                let text = element.split('>').nth(1).unwrap().split('<').next().unwrap();
                let (x, y, size) = (
                    attribute(&format!(" {element}"), " x"),
                    attribute(element, " y"),
                    attribute(element, "font-size"),
                );
                let width = text_width(text, size);
                let left = match element.split("text-anchor=\"").nth(1).unwrap().split('"').next().unwrap() {
                    "start" => x,
                    "middle" => x - width / 2.0,
                    _ => x - width,
                };
                boxes.push((left, y - 0.75 * size, left + width, y));
            }
            for (index, a) in boxes.iter().enumerate() {
                for b in &boxes[..index] {
                    assert!(a.2 <= b.0 || b.2 <= a.0 || a.3 <= b.1 || b.3 <= a.1, "{sets} sets: {a:?} and {b:?}");
                }
            }
        }
    }
}
