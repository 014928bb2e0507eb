//! The scenes of `shapes`: one shape with attributes, and its rendering.

use super::draw::normal;
use crate::labels::Concept;
use etalon_kernel::random::{ChaCha8Rng, index, unit};

/// The concepts, attribute by attribute.
pub(super) const CONCEPTS: [&str; 15] = [
    "square",
    "circle",
    "triangle",
    "cross",
    "red",
    "green",
    "blue",
    "yellow",
    "large",
    "left",
    "right",
    "top",
    "bottom",
    "light background",
    "border",
];

/// The first concept of each attribute, and its choices.
pub(super) const ATTRIBUTES: [(u32, Choice); 7] = [
    (0, Choice::OneOf(4)),
    (4, Choice::OneOf(4)),
    (8, Choice::Maybe),
    (9, Choice::OneOf(2)),
    (11, Choice::OneOf(2)),
    (13, Choice::Maybe),
    (14, Choice::Maybe),
];
const COLOURS: [[f64; 3]; 4] = [[214.0, 48.0, 49.0], [39.0, 174.0, 96.0], [41.0, 98.0, 214.0], [241.0, 196.0, 15.0]];
const DARK: [f64; 3] = [28.0, 28.0, 34.0];
const LIGHT: [f64; 3] = [218.0, 216.0, 208.0];
const BORDER: [f64; 3] = [128.0, 128.0, 128.0];
/// Samples along each side of a pixel.
const SAMPLES: usize = 4;

/// The choices of an attribute.
#[derive(Clone, Copy)]
pub(super) enum Choice {
    /// Exactly one of this number of concepts is present.
    OneOf(u32),
    /// The one concept is present or absent.
    Maybe,
}

impl Choice {
    fn count(self) -> usize {
        match self {
            Choice::OneOf(count) => count as usize,
            Choice::Maybe => 2,
        }
    }
}

/// The content of an image: the choice for each attribute, and random deviations of position, size and brightness.
#[derive(Clone)]
pub(super) struct Scene {
    choices: [u32; 7],
    deviations: [f64; 4],
}

impl Scene {
    pub fn draw(random: &mut ChaCha8Rng) -> Scene {
        let choices = ATTRIBUTES.map(|(_, choice)| index(choice.count(), random) as u32);
        Scene { choices, deviations: [(); 4].map(|()| 2.0 * unit(random) - 1.0) }
    }

    /// The concept of an attribute, if it has one.
    fn concept(&self, attribute: usize) -> Option<Concept> {
        let (first, choice) = ATTRIBUTES[attribute];
        match choice {
            Choice::OneOf(_) => Some(Concept(first + self.choices[attribute])),
            Choice::Maybe => (self.choices[attribute] == 1).then_some(Concept(first)),
        }
    }

    /// All concepts of the scene, ascending.
    pub fn concepts(&self) -> Vec<u32> {
        (0..ATTRIBUTES.len()).filter_map(|attribute| self.concept(attribute)).map(|concept| concept.0).collect()
    }

    /// The same scene with another choice for one attribute, with the concepts that were added and removed.
    pub fn change(&self, random: &mut ChaCha8Rng) -> (Scene, Option<Concept>, Option<Concept>) {
        let attribute = index(ATTRIBUTES.len(), random);
        let count = ATTRIBUTES[attribute].1.count();
        let mut after = self.clone();
        let step = 1 + index(count - 1, random);
        after.choices[attribute] = ((self.choices[attribute] as usize + step) % count) as u32;
        let (added, removed) = (after.concept(attribute), self.concept(attribute));
        (after, added, removed)
    }

    /// Draws the scene into red, green and blue bytes.
    pub fn render(&self, side: usize, jitter: f64, noise: f64, random: &mut ChaCha8Rng, out: &mut [u8]) {
        let [shape, colour, large, right, bottom, light, border] = self.choices;
        let [shift_x, shift_y, shift_size, shift_light] = self.deviations.map(|deviation| deviation * jitter);
        let centre = |far: u32, shift: f64| if far == 1 { 0.70 } else { 0.30 } + 0.04 * shift;
        let (x, y) = (centre(right, shift_x), centre(bottom, shift_y));
        let radius = if large == 1 { 0.23 } else { 0.13 } + 0.02 * shift_size;
        let background = if light == 1 { LIGHT } else { DARK };
        let paint = COLOURS[colour as usize % COLOURS.len()].map(|part| part * (0.9 + 0.1 * shift_light));
        let step = 1.0 / (side * SAMPLES) as f64;
        for (number, pixel) in out.chunks_exact_mut(3).enumerate() {
            let mut sum = [0.0; 3];
            for sample in 0..SAMPLES * SAMPLES {
                let at_x = ((number % side * SAMPLES + sample % SAMPLES) as f64 + 0.5) * step;
                let at_y = ((number / side * SAMPLES + sample / SAMPLES) as f64 + 0.5) * step;
                let edge = at_x.min(at_y).min(1.0 - at_x).min(1.0 - at_y);
                let colour = match () {
                    () if inside(shape, (at_x - x) / radius, (at_y - y) / radius) => paint,
                    () if border == 1 && edge < 1.0 / 16.0 => BORDER,
                    () => background,
                };
                sum.iter_mut().zip(colour).for_each(|(sum, part)| *sum += part);
            }
            for (out, sum) in pixel.iter_mut().zip(sum) {
                let grain = if noise > 0.0 { 255.0 * noise * normal(random) } else { 0.0 };
                *out = (sum / (SAMPLES * SAMPLES) as f64 + grain).round().clamp(0.0, 255.0) as u8;
            }
        }
    }
}

/// True if a point is in the shape of radius 1 around the origin; `v` grows downwards.
fn inside(shape: u32, u: f64, v: f64) -> bool {
    match shape {
        0 => u.abs() <= 0.886 && v.abs() <= 0.886,
        1 => u * u + v * v <= 1.0,
        2 => v <= 0.75 && u.abs() <= (v + 1.0) * 0.62,
        _ => (u.abs() <= 0.36 && v.abs() <= 1.0) || (v.abs() <= 0.36 && u.abs() <= 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::random::stream;

    fn render(choices: [u32; 7]) -> Vec<u8> {
        let mut out = vec![0; 32 * 32 * 3];
        Scene { choices, deviations: [0.0; 4] }.render(32, 0.0, 0.0, &mut stream(0, "test", 0), &mut out);
        out
    }

    fn pixel(image: &[u8], x: usize, y: usize) -> [u8; 3] {
        let start = (y * 32 + x) * 3;
        [image[start], image[start + 1], image[start + 2]]
    }

    #[test]
    fn pixels_match_a_worked_example() {
        // A large blue circle at the left and the bottom, dark, with border: its centre is at (0.3, 0.7), so at pixel
        // (9, 22); the border is two pixels wide; the opposite corner region is background.
        let image = render([1, 2, 1, 0, 1, 0, 1]);
        assert_eq!(pixel(&image, 9, 22), [37, 88, 193]);
        assert_eq!(pixel(&image, 0, 0), [128, 128, 128]);
        assert_eq!(pixel(&image, 1, 31), [128, 128, 128]);
        assert_eq!(pixel(&image, 24, 8), [28, 28, 34]);
        assert_eq!(pixel(&render([1, 2, 1, 0, 1, 1, 0]), 0, 0), [218, 216, 208]);
    }

    #[test]
    fn edges_are_smooth() {
        // The area of a circle of radius 0.23 is π·0.23²·32² = 170.2 pixels; blue over dark tells the coverage.
        let image = render([1, 2, 1, 0, 1, 0, 0]);
        let covered: f64 = image.chunks_exact(3).map(|pixel| (f64::from(pixel[2]) - 34.0) / (0.9 * 214.0 - 34.0)).sum();
        assert!((covered - 170.2).abs() < 2.0, "{covered}");
    }

    #[test]
    fn every_choice_changes_the_image() {
        let mut seen: Vec<Vec<u8>> = Vec::new();
        for number in 0..512u32 {
            let mut rest = number;
            let choices = ATTRIBUTES.map(|(_, choice)| {
                let count = choice.count() as u32;
                let value = rest % count;
                rest /= count;
                value
            });
            seen.push(render(choices));
        }
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), 512);
    }
}
