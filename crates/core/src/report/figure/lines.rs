//! Line chart with error bands and labels at the ends of lines.

use super::Figure;
use super::axis::{Frame, Scale, span, widen};
use super::canvas::{Anchor, Canvas, Ink, Stroke, text_width};
use crate::report::words::{brief, plain, shorten};
use crate::results::Interval;

/// One point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Horizontal value.
    pub x: f64,
    /// Vertical value.
    pub y: f64,
    /// The error band.
    pub interval: Option<Interval>,
}

/// One line, its points from left to right.
pub struct Series {
    /// The label.
    pub label: String,
    /// The colour.
    pub colour: usize,
    /// The style. A dashed series of one point is drawn as a horizontal reference line.
    pub stroke: Stroke,
    /// The points.
    pub points: Vec<Point>,
}

/// A line chart.
pub struct Lines {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// Name of the horizontal axis.
    pub across: String,
    /// Name of the vertical axis.
    pub up: String,
    /// Names of the horizontal values of a categorical axis: `x` is the index of the category. Empty for a numeric
    /// axis.
    pub categories: Vec<String>,
    /// Whether intervals are joined to a band, as along a numeric axis; otherwise a category has error bars.
    pub bands: bool,
    /// The lines.
    pub series: Vec<Series>,
    /// Whether points are drawn as markers.
    pub marks: bool,
    /// The width.
    pub width: f64,
}

impl Lines {
    /// Draws the figure.
    pub fn draw(&self) -> Figure {
        let (low, high, far) = self.heights();
        let label = |(series, far): (&Series, &bool)| match series.points.last().filter(|_| *far) {
            Some(point) => format!("{} ({})", shorten(&series.label, 18), brief(point.y)),
            None => shorten(&series.label, 26),
        };
        let labels: Vec<String> = self.series.iter().zip(&far).map(label).collect();
        let margin = labels.iter().map(|label| text_width(label, 12.0)).fold(0.0, f64::max) + 16.0;
        let categories: Vec<String> = self.categories.iter().map(|name| shorten(name, 24)).collect();
        let category_width = (self.width - 56.0 - margin) / categories.len().max(1) as f64;
        let longest = categories.iter().map(|name| text_width(name, 11.0)).fold(0.0, f64::max);
        let rotated = longest > category_width;
        let bottom = 260.0;
        let below = if rotated { 24.0 + longest * 0.5 + 18.0 } else { 46.0 };
        let frame = Frame { left: 56.0, top: 12.0, right: self.width - margin, bottom };
        let mut canvas = Canvas::new(self.width, bottom + below);

        let up = Scale::linear((low, high), (frame.bottom, frame.top));
        frame.vertical(&mut canvas, &up, &self.up);
        if low < 0.0 && high > 0.0 {
            canvas.dashes((frame.left, up.position(0.0)), (frame.right, up.position(0.0)));
        }
        let ends = (frame.left + 14.0, frame.right - 8.0);
        let across = if categories.is_empty() {
            let points = self.series.iter().flat_map(|series| &series.points);
            let across = Scale::logarithmic(span(points.map(|p| p.x)).unwrap_or((0.0, 1.0)), ends);
            frame.horizontal(&mut canvas, &across, &self.ticks(&across), &self.across);
            across
        } else {
            let half = category_width / 2.0;
            let across = Scale::linear((0.0, categories.len() as f64 - 1.0), (frame.left + half, frame.right - half));
            frame.base(&mut canvas);
            for (index, name) in categories.iter().enumerate() {
                let x = if categories.len() == 1 {
                    (frame.left + frame.right) / 2.0
                } else {
                    across.position(index as f64)
                };
                canvas.line((x, bottom), (x, bottom + 4.0), Ink::Text, 1.0);
                match rotated {
                    true => canvas.rotated_text((x + 4.0, bottom + 16.0), Anchor::End, -30.0, 11.0, name),
                    false => canvas.text((x, bottom + 17.0), Anchor::Middle, 11.0, Ink::Quiet, name),
                }
            }
            if !rotated {
                let middle = (frame.left + frame.right) / 2.0;
                canvas.text((middle, bottom + 36.0), Anchor::Middle, 12.0, Ink::Text, &self.across);
            }
            across
        };
        self.draw_intervals(&mut canvas, &across, &up, &far);
        let mut ends = Vec::new();
        for ((series, label), _) in self.series.iter().zip(&labels).zip(&far).filter(|(_, far)| !**far) {
            let ink = Ink::Colour(series.colour);
            let path: Vec<(f64, f64)> =
                series.points.iter().map(|p| (across.position(p.x), up.position(p.y))).collect();
            match path[..] {
                [(_, y)] if self.is_reference(series) => {
                    canvas.path(&[(frame.left, y), (frame.right, y)], ink, 1.5, Stroke::Dashed);
                }
                _ => canvas.path(&path, ink, 1.5, series.stroke),
            }
            for (point, &position) in series.points.iter().zip(&path).filter(|_| self.marks) {
                let x = categories.get(point.x as usize).cloned().unwrap_or_else(|| plain(point.x));
                canvas.mark(position, series.colour, 3.5, &format!("{}, {x}: {}", series.label, brief(point.y)));
            }
            if let Some(&(x, y)) = path.last() {
                ends.push((y, if self.is_reference(series) { frame.right } else { x }, label.clone(), series.colour));
            }
        }
        // Reference lines outside of the axis are labelled at the nearer edge.
        for ((series, label), _) in self.series.iter().zip(&labels).zip(&far).filter(|(_, far)| **far) {
            let is_below = series.points.iter().any(|point| point.y < low);
            let edge = if is_below { frame.bottom } else { frame.top };
            ends.push((edge, frame.right, label.clone(), series.colour));
        }
        label_ends(&mut canvas, &frame, ends);
        Figure::new(&self.name, &self.title, self.describe(), canvas)
    }

    /// Whether a series is drawn as a horizontal reference line.
    fn is_reference(&self, series: &Series) -> bool {
        self.categories.is_empty() && series.stroke == Stroke::Dashed && series.points.len() == 1
    }

    /// The range of the vertical axis, and by series whether it is a reference line too far away to be inside it.
    fn heights(&self) -> (f64, f64, Vec<bool>) {
        let of = |series: &Series| {
            let points = series.points.iter();
            let heights = points.flat_map(|p| [Some(p.y), p.interval.map(|i| i.low), p.interval.map(|i| i.high)]);
            heights.flatten().collect::<Vec<f64>>()
        };
        let others: Vec<&Series> = self.series.iter().filter(|series| !self.is_reference(series)).collect();
        let near = span(others.iter().flat_map(|series| of(series))).map(|(low, high)| {
            // Reference lines are included up to three times the range of the other lines, and at least 1, away.
            let margin = (3.0 * (high - low)).max(1.0);
            (low - margin)..=(high + margin)
        });
        let is_far = |series: &Series| {
            self.is_reference(series)
                && near.as_ref().is_some_and(|near| series.points.iter().any(|point| !near.contains(&point.y)))
        };
        let far: Vec<bool> = self.series.iter().map(is_far).collect();
        let shown = self.series.iter().zip(&far).filter(|(_, far)| !**far);
        let (low, high) = span(shown.flat_map(|(series, _)| of(series))).unwrap_or((0.0, 1.0));
        // For scores between 0 and 1 the axis includes 0, so that small differences do not look large.
        let (low, high) = if low >= 0.0 && high <= 1.0 { widen(0.0, high.max(0.1)) } else { widen(low, high) };
        (low, high, far)
    }

    /// The horizontal values themselves if they are few, otherwise round numbers.
    fn ticks(&self, across: &Scale) -> Vec<f64> {
        let mut values: Vec<f64> = self.series.iter().flat_map(|series| &series.points).map(|p| p.x).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let apart = values.windows(2).all(|pair| across.position(pair[1]) - across.position(pair[0]) > 34.0);
        if values.len() <= 8 && apart { values } else { across.ticks(6) }
    }

    fn draw_intervals(&self, canvas: &mut Canvas, across: &Scale, up: &Scale, far: &[bool]) {
        for (series, _) in self.series.iter().zip(far).filter(|(_, far)| !**far) {
            let noisy: Vec<(f64, Interval)> =
                series.points.iter().filter_map(|p| Some((across.position(p.x), p.interval?))).collect();
            if noisy.len() == 1 || !self.bands {
                for (x, noise) in &noisy {
                    canvas.line(
                        (*x, up.position(noise.low)),
                        (*x, up.position(noise.high)),
                        Ink::Colour(series.colour),
                        1.5,
                    );
                }
                continue;
            }
            let upper = noisy.iter().map(|(x, noise)| (*x, up.position(noise.high)));
            let lower = noisy.iter().rev().map(|(x, noise)| (*x, up.position(noise.low)));
            canvas.area(&upper.chain(lower).collect::<Vec<_>>(), Ink::Colour(series.colour), 0.16);
        }
    }

    fn describe(&self) -> String {
        let ends = |series: &Series| {
            let (first, last) = (series.points.first()?, series.points.last()?);
            Some(format!("{}: from {} to {}", series.label, brief(first.y), brief(last.y)))
        };
        let lines: Vec<String> = self.series.iter().filter_map(ends).collect();
        format!("{} against {}. {}", self.up, self.across, lines.join("; "))
    }
}

/// Writes labels at the ends of lines, moved apart where they would overlap.
fn label_ends(canvas: &mut Canvas, frame: &Frame, mut ends: Vec<(f64, f64, String, usize)>) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.3.cmp(&b.3)));
    let gap = 15.0;
    let mut heights: Vec<f64> = Vec::new();
    for (y, ..) in &ends {
        heights.push(heights.last().map_or(*y, |above| y.max(above + gap)));
    }
    // Labels below the frame are moved up again.
    let mut limit = frame.bottom;
    for height in heights.iter_mut().rev() {
        *height = height.min(limit);
        limit = *height - gap;
    }
    // Aligned at the end of the longest line.
    let x = ends.iter().map(|end| end.1).fold(frame.left, f64::max);
    for ((_, _, label, colour), y) in ends.into_iter().zip(heights) {
        canvas.text((x + 9.0, y + 4.0), Anchor::Start, 12.0, Ink::Colour(colour), &label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(label: &str, stroke: Stroke, points: &[(f64, f64)]) -> Series {
        let points = points.iter().map(|&(x, y)| Point { x, y, interval: None }).collect();
        Series { label: label.into(), colour: 0, stroke, points }
    }

    #[test]
    fn reference_lines_span_the_figure_and_distant_ones_are_only_labelled() {
        let lines = Lines {
            name: "lines".into(),
            title: "Lines".into(),
            across: "latents".into(),
            up: "score".into(),
            categories: Vec::new(),
            bands: true,
            series: vec![
                series("trained", Stroke::Solid, &[(1.0, 0.2), (2.0, 0.6)]),
                series("pca", Stroke::Dashed, &[(2.0, 0.4)]),
                series("random", Stroke::Dashed, &[(1.0, -265.0)]),
            ],
            marks: true,
            width: 430.0,
        };
        let (low, high, far) = lines.heights();
        assert_eq!(far, [false, false, true]);
        assert!(low <= 0.0 && low > -1.0 && (0.6..1.0).contains(&high));
        let drawn = lines.draw().inline();
        // PCA is the only dashed line; the distant reference is a label with its number.
        assert_eq!(drawn.matches("stroke-dasharray=\"5 4\"").count(), 1, "{drawn}");
        assert!(drawn.contains("random (") && drawn.contains("265"), "{drawn}");
    }
}
