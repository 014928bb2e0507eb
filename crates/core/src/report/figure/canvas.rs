//! Writes SVG elements. Escapes all text; skips elements with coordinates that are not finite.

use std::fmt::Write;

use super::palette::COLOURS;
use crate::report::words::{shorten, tidy};

/// Which part of a text is at its coordinates.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// The start.
    Start,
    /// The middle.
    Middle,
    /// The end.
    End,
}

/// A colour.
#[derive(Clone, Copy)]
pub enum Ink {
    /// The colour of text.
    Text,
    /// A less prominent text colour.
    Quiet,
    /// Grid lines.
    Grid,
    /// A colour of the palette, by index.
    Colour(usize),
}

impl Ink {
    /// The SVG attributes for `fill` or `stroke`. Classes let a page change the palette for a dark background.
    fn attributes(self, property: &str) -> String {
        match self {
            Ink::Text => format!("{property}=\"currentColor\""),
            Ink::Quiet => format!("{property}=\"currentColor\" {property}-opacity=\"0.72\""),
            Ink::Grid => format!("{property}=\"currentColor\" {property}-opacity=\"0.14\""),
            Ink::Colour(index) => {
                let index = index % COLOURS.len();
                format!("class=\"{property}-{index}\" {property}=\"{}\"", COLOURS[index])
            }
        }
    }
}

/// The style of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stroke {
    /// Solid.
    Solid,
    /// Dashed, for references.
    Dashed,
}

impl Stroke {
    fn dashes(self) -> &'static str {
        match self {
            Stroke::Solid => "",
            Stroke::Dashed => " stroke-dasharray=\"5 4\"",
        }
    }
}

/// A drawing in progress.
pub struct Canvas {
    width: f64,
    height: f64,
    body: String,
}

/// A coordinate with two decimals.
fn round(value: f64) -> f64 {
    let rounded = (value * 100.0).round() / 100.0;
    if rounded == 0.0 { 0.0 } else { rounded }
}

/// Escapes text for element content and quoted attributes.
pub fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in tidy(text).chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

/// The approximate width of a text; slightly too wide, because fonts differ.
pub fn text_width(text: &str, size: f64) -> f64 {
    let wide = |c: char| matches!(c, 'm' | 'w' | 'M' | 'W' | '@' | '%') || c as u32 > 0x2e7f;
    let narrow =
        |c: char| matches!(c, 'i' | 'l' | 'j' | 't' | 'f' | 'r' | '.' | ',' | ' ' | '\'' | '|' | '(' | ')' | ':');
    text.chars()
        .map(|c| {
            if wide(c) {
                0.95
            } else if narrow(c) {
                0.36
            } else {
                0.58
            }
        })
        .sum::<f64>()
        * size
}

impl Canvas {
    pub fn new(width: f64, height: f64) -> Canvas {
        Canvas { width: width.ceil(), height: height.ceil(), body: String::new() }
    }

    pub fn finish(self) -> (f64, f64, String) {
        (self.width, self.height, self.body)
    }

    /// Adds an element unless a number in it is not finite. Writing to a string cannot fail.
    fn add(&mut self, numbers: &[f64], element: std::fmt::Arguments<'_>) {
        if numbers.iter().all(|number| number.is_finite()) {
            let _ = self.body.write_fmt(element);
        }
    }

    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), ink: Ink, width: f64) {
        let [a, b, c, d] = [from.0, from.1, to.0, to.1].map(round);
        let attributes = ink.attributes("stroke");
        self.add(
            &[a, b, c, d],
            format_args!("<line x1=\"{a}\" y1=\"{b}\" x2=\"{c}\" y2=\"{d}\" {attributes} stroke-width=\"{width}\"/>"),
        );
    }

    /// A thin dashed line, for references such as zero.
    pub fn dashes(&mut self, from: (f64, f64), to: (f64, f64)) {
        let [a, b, c, d] = [from.0, from.1, to.0, to.1].map(round);
        self.add(
            &[a, b, c, d],
            format_args!(
                "<line x1=\"{a}\" y1=\"{b}\" x2=\"{c}\" y2=\"{d}\" stroke=\"currentColor\" stroke-opacity=\"0.5\" \
                 stroke-dasharray=\"4 3\"/>"
            ),
        );
    }

    /// A filled rectangle with the tooltip `hint`.
    pub fn bar(&mut self, corner: (f64, f64), size: (f64, f64), ink: Ink, opacity: f64, hint: &str) {
        let [a, b, c, d] = [corner.0, corner.1, size.0.max(0.0), size.1.max(0.0)].map(round);
        let (attributes, hint) = (ink.attributes("fill"), title(hint));
        let opacity = if opacity < 1.0 { format!(" fill-opacity=\"{opacity}\"") } else { String::new() };
        self.add(
            &[a, b, c, d],
            format_args!("<rect x=\"{a}\" y=\"{b}\" width=\"{c}\" height=\"{d}\" {attributes}{opacity}>{hint}</rect>"),
        );
    }

    pub fn path(&mut self, points: &[(f64, f64)], ink: Ink, width: f64, stroke: Stroke) {
        let (attributes, dashes) = (ink.attributes("stroke"), stroke.dashes());
        let list = list(points);
        if points.len() > 1 {
            self.add(
                &flat(points),
                format_args!(
                    "<polyline points=\"{list}\" fill=\"none\" {attributes} stroke-width=\"{width}\"{dashes} \
                     stroke-linejoin=\"round\"/>"
                ),
            );
        }
    }

    pub fn area(&mut self, points: &[(f64, f64)], ink: Ink, opacity: f64) {
        let (attributes, list) = (ink.attributes("fill"), list(points));
        if points.len() > 2 {
            self.add(
                &flat(points),
                format_args!("<polygon points=\"{list}\" {attributes} fill-opacity=\"{opacity}\"/>"),
            );
        }
    }

    /// A marker whose shape depends on the colour, so that sets can be distinguished by either.
    pub fn mark(&mut self, (x, y): (f64, f64), colour: usize, size: f64, hint: &str) {
        let (x, y, r) = (round(x), round(y), size);
        let (attributes, hint) = (Ink::Colour(colour).attributes("fill"), title(hint));
        let shape =
            |corners: &[(f64, f64)]| list(&corners.iter().map(|(dx, dy)| (x + dx * r, y + dy * r)).collect::<Vec<_>>());
        let points = match colour % 5 {
            0 => {
                return self.add(
                    &[x, y],
                    format_args!("<circle cx=\"{x}\" cy=\"{y}\" r=\"{r}\" {attributes}>{hint}</circle>"),
                );
            }
            1 => shape(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            2 => shape(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            3 => shape(&[(0.0, -1.25), (1.25, 0.0), (0.0, 1.25), (-1.25, 0.0)]),
            _ => shape(&[(0.0, 1.2), (1.1, -0.8), (-1.1, -0.8)]),
        };
        self.add(&[x, y], format_args!("<polygon points=\"{points}\" {attributes}>{hint}</polygon>"));
    }

    pub fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, size: f64, ink: Ink, text: &str) {
        let (x, y, text) = (round(x), round(y), escape(text));
        let (anchor, attributes) = (anchor_name(anchor), ink.attributes("fill"));
        self.add(
            &[x, y],
            format_args!(
                "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" font-size=\"{size}\" {attributes}>{text}</text>"
            ),
        );
    }

    /// Text rotated by some degrees.
    pub fn rotated_text(&mut self, (x, y): (f64, f64), anchor: Anchor, degrees: f64, size: f64, text: &str) {
        let (x, y, text) = (round(x), round(y), escape(text));
        let anchor = anchor_name(anchor);
        self.add(
            &[x, y],
            format_args!(
                "<text transform=\"translate({x} {y}) rotate({degrees})\" text-anchor=\"{anchor}\" \
                 font-size=\"{size}\">{text}</text>"
            ),
        );
    }

    /// A legend in as many rows as it needs; returns its height. Symbols are markers if `marks`, otherwise squares.
    pub fn legend(&mut self, (left, right): (f64, f64), top: f64, marks: bool, entries: &[(String, usize)]) -> f64 {
        let (mut x, mut y) = (left, top + 9.0);
        for (label, colour) in entries {
            let label = &shorten(label, 40);
            let width = 18.0 + text_width(label, 12.0) + 18.0;
            if x > left && x + width > right {
                (x, y) = (left, y + 19.0);
            }
            match marks {
                true => self.mark((x + 5.0, y - 1.0), *colour, 5.0, ""),
                false => self.bar((x, y - 6.0), (10.0, 10.0), Ink::Colour(*colour), 1.0, ""),
            }
            self.text((x + 15.0, y + 3.0), Anchor::Start, 12.0, Ink::Text, label);
            x += width;
        }
        if entries.is_empty() { 0.0 } else { y - top + 15.0 }
    }
}

/// The height of a legend.
pub fn legend_height(width: f64, entries: &[(String, usize)]) -> f64 {
    Canvas::new(0.0, 0.0).legend((0.0, width), 0.0, true, entries)
}

fn anchor_name(anchor: Anchor) -> &'static str {
    match anchor {
        Anchor::Start => "start",
        Anchor::Middle => "middle",
        Anchor::End => "end",
    }
}

fn title(hint: &str) -> String {
    if hint.is_empty() { String::new() } else { format!("<title>{}</title>", escape(hint)) }
}

fn list(points: &[(f64, f64)]) -> String {
    points.iter().map(|(x, y)| format!("{},{}", round(*x), round(*y))).collect::<Vec<_>>().join(" ")
}

fn flat(points: &[(f64, f64)]) -> Vec<f64> {
    points.iter().flat_map(|(x, y)| [*x, *y]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_that_are_not_finite_are_skipped() {
        let mut canvas = Canvas::new(10.0, 10.0);
        canvas.line((0.0, f64::NAN), (1.0, 1.0), Ink::Text, 1.0);
        canvas.path(&[(0.0, 0.0), (f64::INFINITY, 1.0)], Ink::Colour(0), 1.5, Stroke::Solid);
        canvas.mark((f64::NAN, 0.0), 1, 3.0, "x");
        assert_eq!(canvas.finish().2, "");
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("<script>\"'&\u{0}"), "&lt;script&gt;&quot;&#39;&amp;\u{fffd}");
    }
}
