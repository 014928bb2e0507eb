//! Lines with error bands, named at their ends.

use super::Figure;
use super::axis::{Frame, Scale, span, widen};
use super::canvas::{Anchor, Canvas, Ink, Stroke, text_width};
use crate::report::words::{brief, plain, shorten};
use crate::results::Interval;

/// One point of a line.
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Where.
    pub x: f64,
    /// How high.
    pub y: f64,
    /// The band around it.
    pub interval: Option<Interval>,
}

/// One line, its points from left to right.
pub struct Series {
    /// Its name.
    pub label: String,
    /// Its colour.
    pub colour: usize,
    /// How it is drawn. One dashed point is a level that runs through the whole figure.
    pub stroke: Stroke,
    /// Its points.
    pub points: Vec<Point>,
}

/// A figure of lines.
pub struct Lines {
    /// The name of the file.
    pub name: String,
    /// What is shown.
    pub title: String,
    /// What runs to the right.
    pub across: String,
    /// What runs upwards.
    pub up: String,
    /// Names of the places to the right, if they are not numbers: the place `x` is called `places[x]`.
    pub places: Vec<String>,
    /// The lines.
    pub series: Vec<Series>,
    /// Are points marked?
    pub marks: bool,
    /// Its width.
    pub width: f64,
}

impl Lines {
    /// Draws them.
    pub fn draw(&self) -> Figure {
        let (low, high, far) = self.heights();
        let label = |(series, far): (&Series, &bool)| match series.points.last().filter(|_| *far) {
            Some(point) => format!("{} ({})", shorten(&series.label, 18), brief(point.y)),
            None => shorten(&series.label, 26),
        };
        let labels: Vec<String> = self.series.iter().zip(&far).map(label).collect();
        let margin = labels.iter().map(|label| text_width(label, 12.0)).fold(0.0, f64::max) + 16.0;
        let places: Vec<String> = self.places.iter().map(|name| shorten(name, 24)).collect();
        let room = (self.width - 56.0 - margin) / places.len().max(1) as f64;
        let longest = places.iter().map(|name| text_width(name, 11.0)).fold(0.0, f64::max);
        let askew = longest > room;
        let bottom = 260.0;
        let below = if askew { 24.0 + longest * 0.5 + 18.0 } else { 46.0 };
        let frame = Frame { left: 56.0, top: 12.0, right: self.width - margin, bottom };
        let mut canvas = Canvas::new(self.width, bottom + below);

        let up = Scale::even((low, high), (frame.bottom, frame.top));
        frame.vertical(&mut canvas, &up, &self.up);
        if low < 0.0 && high > 0.0 {
            canvas.dashes((frame.left, up.place(0.0)), (frame.right, up.place(0.0)));
        }
        let ends = (frame.left + 14.0, frame.right - 8.0);
        let across = if places.is_empty() {
            let points = self.series.iter().flat_map(|series| &series.points);
            let across = Scale::doubling(span(points.map(|p| p.x)).unwrap_or((0.0, 1.0)), ends);
            frame.horizontal(&mut canvas, &across, &self.ticks(&across), &self.across);
            across
        } else {
            let half = room / 2.0;
            let across = Scale::even((0.0, places.len() as f64 - 1.0), (frame.left + half, frame.right - half));
            frame.base(&mut canvas);
            for (place, name) in places.iter().enumerate() {
                let x = if places.len() == 1 { (frame.left + frame.right) / 2.0 } else { across.place(place as f64) };
                canvas.line((x, bottom), (x, bottom + 4.0), Ink::Text, 1.0);
                match askew {
                    true => canvas.climbing_text((x + 4.0, bottom + 16.0), Anchor::End, -30.0, 11.0, name),
                    false => canvas.text((x, bottom + 17.0), Anchor::Middle, 11.0, Ink::Quiet, name),
                }
            }
            if !askew {
                let middle = (frame.left + frame.right) / 2.0;
                canvas.text((middle, bottom + 36.0), Anchor::Middle, 12.0, Ink::Text, &self.across);
            }
            across
        };
        self.bands(&mut canvas, &across, &up, &far);
        let mut ends = Vec::new();
        for ((series, label), _) in self.series.iter().zip(&labels).zip(&far).filter(|(_, far)| !**far) {
            let ink = Ink::Colour(series.colour);
            let path: Vec<(f64, f64)> = series.points.iter().map(|p| (across.place(p.x), up.place(p.y))).collect();
            match path[..] {
                [(_, y)] if self.is_level(series) => {
                    canvas.path(&[(frame.left, y), (frame.right, y)], ink, 1.5, Stroke::Dashed);
                }
                _ => canvas.path(&path, ink, 1.5, series.stroke),
            }
            for (point, &place) in series.points.iter().zip(&path).filter(|_| self.marks) {
                let x = places.get(point.x as usize).cloned().unwrap_or_else(|| plain(point.x));
                canvas.mark(place, series.colour, 3.5, &format!("{}, {x}: {}", series.label, brief(point.y)));
            }
            if let Some(&(x, y)) = path.last() {
                ends.push((y, if self.is_level(series) { frame.right } else { x }, label.clone(), series.colour));
            }
        }
        // What lies far outside is named at the edge that is nearer to it.
        for ((series, label), _) in self.series.iter().zip(&labels).zip(&far).filter(|(_, far)| **far) {
            let is_below = series.points.iter().any(|point| point.y < low);
            let edge = if is_below { frame.bottom } else { frame.top };
            ends.push((edge, frame.right, label.clone(), series.colour));
        }
        label_ends(&mut canvas, &frame, ends);
        Figure::new(&self.name, &self.title, self.describe(), canvas)
    }

    /// Is it one dashed point, which is drawn as a level?
    fn is_level(&self, series: &Series) -> bool {
        self.places.is_empty() && series.stroke == Stroke::Dashed && series.points.len() == 1
    }

    /// What the axis runs from and to, and which levels are so far from everything else that they are left out of it.
    fn heights(&self) -> (f64, f64, Vec<bool>) {
        let of = |series: &Series| {
            let points = series.points.iter();
            let heights = points.flat_map(|p| [Some(p.y), p.interval.map(|i| i.low), p.interval.map(|i| i.high)]);
            heights.flatten().collect::<Vec<f64>>()
        };
        let solid: Vec<&Series> = self.series.iter().filter(|series| !self.is_level(series)).collect();
        let near = span(solid.iter().flat_map(|series| of(series))).map(|(low, high)| {
            // Room for levels up to three times as high as the lines themselves, and at least as high as a score is.
            let room = (3.0 * (high - low)).max(1.0);
            (low - room)..=(high + room)
        });
        let is_far = |series: &Series| {
            self.is_level(series)
                && near.as_ref().is_some_and(|near| series.points.iter().any(|point| !near.contains(&point.y)))
        };
        let far: Vec<bool> = self.series.iter().map(is_far).collect();
        let shown = self.series.iter().zip(&far).filter(|(_, far)| !**far);
        let (low, high) = span(shown.flat_map(|(series, _)| of(series))).unwrap_or((0.0, 1.0));
        // Scores between 0 and 1 keep zero in sight, so that small differences do not look large.
        let (low, high) = if low >= 0.0 && high <= 1.0 { widen(0.0, high.max(0.1)) } else { widen(low, high) };
        (low, high, far)
    }

    /// The values that were measured if they are few, round numbers otherwise.
    fn ticks(&self, across: &Scale) -> Vec<f64> {
        let mut values: Vec<f64> = self.series.iter().flat_map(|series| &series.points).map(|p| p.x).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        let apart = values.windows(2).all(|pair| across.place(pair[1]) - across.place(pair[0]) > 34.0);
        if values.len() <= 8 && apart { values } else { across.ticks(6) }
    }

    fn bands(&self, canvas: &mut Canvas, across: &Scale, up: &Scale, far: &[bool]) {
        for (series, _) in self.series.iter().zip(far).filter(|(_, far)| !**far) {
            let noisy: Vec<(f64, Interval)> =
                series.points.iter().filter_map(|p| Some((across.place(p.x), p.interval?))).collect();
            if noisy.len() == 1 || !self.places.is_empty() {
                for (x, noise) in &noisy {
                    canvas.line((*x, up.place(noise.low)), (*x, up.place(noise.high)), Ink::Colour(series.colour), 1.5);
                }
                continue;
            }
            let upper = noisy.iter().map(|(x, noise)| (*x, up.place(noise.high)));
            let lower = noisy.iter().rev().map(|(x, noise)| (*x, up.place(noise.low)));
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

/// Writes names at the ends of lines, moved apart where they would touch.
fn label_ends(canvas: &mut Canvas, frame: &Frame, mut ends: Vec<(f64, f64, String, usize)>) {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.3.cmp(&b.3)));
    let gap = 15.0;
    let mut places: Vec<f64> = Vec::new();
    for (y, ..) in &ends {
        places.push(places.last().map_or(*y, |above| y.max(above + gap)));
    }
    // What was pushed below the frame is pushed back up.
    let mut limit = frame.bottom;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - gap;
    }
    // Below each other, at the end of the longest line.
    let x = ends.iter().map(|end| end.1).fold(frame.left, f64::max);
    for ((_, _, label, colour), y) in ends.into_iter().zip(places) {
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
    fn levels_run_through_and_far_ones_are_only_named() {
        let lines = Lines {
            name: "lines".into(),
            title: "Lines".into(),
            across: "latents".into(),
            up: "score".into(),
            places: Vec::new(),
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
        // The level of the simple dictionary is the only dashed path; the far one is a name with its number.
        assert_eq!(drawn.matches("stroke-dasharray=\"5 4\"").count(), 1, "{drawn}");
        assert!(drawn.contains("random (") && drawn.contains("265"), "{drawn}");
    }
}
