//! Overlaid histograms with common bins.

use super::Figure;
use super::axis::{Frame, Scale, span, widen};
use super::canvas::{Canvas, Ink, Stroke, legend_height};
use crate::report::words::brief;

/// Overlaid histograms.
pub struct Histogram {
    /// The name of the file, without `.svg`.
    pub name: String,
    /// The title.
    pub title: String,
    /// Name of the horizontal axis.
    pub across: String,
    /// Labels, colours and values.
    pub series: Vec<(String, usize, Vec<f64>)>,
}

/// Number of bins.
const BINS: usize = 30;

impl Histogram {
    /// Draws the figure.
    pub fn draw(mut self) -> Figure {
        self.series.iter_mut().for_each(|(_, _, values)| values.sort_unstable_by(f64::total_cmp));
        let width = 880.0;
        let names: Vec<(String, usize)> =
            self.series.iter().map(|(label, colour, _)| (label.clone(), *colour)).collect();
        let legend = legend_height(width - 70.0, &names);
        let frame = Frame { left: 56.0, top: legend + 10.0, right: width - 12.0, bottom: legend + 230.0 };
        let mut canvas = Canvas::new(width, frame.bottom + 46.0);
        canvas.legend((frame.left, frame.right), 2.0, false, &names);
        let all = self.series.iter().flat_map(|(_, _, values)| values.iter().copied());
        let (low, high) = span(all).unwrap_or((0.0, 1.0));
        let (low, high) = if low >= 0.0 && high <= 1.0 { (0.0, 1.0) } else { widen(low, high) };
        let shares: Vec<Vec<f64>> = self.series.iter().map(|(_, _, values)| shares(values, low, high)).collect();
        let highest = shares.iter().flatten().copied().fold(0.0, f64::max);
        let across = Scale::linear((low, high), (frame.left, frame.right));
        let up = Scale::linear((0.0, if highest > 0.0 { highest * 1.05 } else { 1.0 }), (frame.bottom, frame.top));
        frame.vertical(&mut canvas, &up, "fraction of latents");
        for (shares, (_, colour, _)) in shares.iter().zip(&self.series) {
            let edge = |bin: usize| across.position(low + (high - low) * bin as f64 / BINS as f64);
            let mut outline = vec![(edge(0), frame.bottom)];
            for (bin, &share) in shares.iter().enumerate() {
                outline.extend([(edge(bin), up.position(share)), (edge(bin + 1), up.position(share))]);
            }
            outline.push((edge(BINS), frame.bottom));
            canvas.area(&outline, Ink::Colour(*colour), 0.1);
            canvas.path(&outline, Ink::Colour(*colour), 1.5, Stroke::Solid);
        }
        frame.horizontal(&mut canvas, &across, &across.ticks(6), &self.across);
        let middle = |(label, _, values): &(String, usize, Vec<f64>)| {
            let median = etalon_kernel::statistics::quantile(values, 0.5).map_or("undefined".into(), brief);
            format!("{label}: {} latents, median {median}", values.len())
        };
        let description = self.series.iter().map(middle).collect::<Vec<_>>().join("; ");
        Figure::new(&self.name, &self.title, description, canvas)
    }
}

/// The fraction of values in each bin; the last bin includes its upper end.
fn shares(values: &[f64], low: f64, high: f64) -> Vec<f64> {
    let mut counts = vec![0.0; BINS];
    for value in values.iter().filter(|value| value.is_finite()) {
        let bin = ((value - low) / (high - low) * BINS as f64) as usize;
        counts[bin.min(BINS - 1)] += 1.0;
    }
    counts.iter().map(|count| count / values.len().max(1) as f64).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_sum_to_one_and_include_the_upper_end() {
        // 0 and 0.01 fall into the first bin of width 1/30, 1 into the last.
        let shares = shares(&[0.0, 0.01, 0.5, 1.0], 0.0, 1.0);
        assert_eq!((shares[0], shares[15], shares[29]), (0.5, 0.25, 0.25));
        assert_eq!(shares.iter().sum::<f64>(), 1.0);
    }
}
