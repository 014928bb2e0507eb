//! `shapes`: small pictures of one shape each, and pairs of pictures that differ in one attribute.

use rayon::prelude::*;

use super::{
    Allowed, BLOCK_ROWS, Images, Setting, World, WorldCard, WorldMaker, WorldSettings, labels_of, normal, reserve,
};
use crate::codes::{Codes, CodesBuilder};
use crate::context::Budget;
use crate::error::Result;
use crate::labels::{Concept, Pair, PairSet};
use crate::store::ActivationStore;
use etalon_kernel::random::{ChaCha8Rng, index, stream, unit};

pub(super) struct Shapes;

static CARD: WorldCard = WorldCard {
    name: "shapes",
    summary: "Small pictures of a shape with known attributes, and pairs that differ in exactly one of them.",
    definition: "Every picture shows one shape (square, circle, triangle, cross) in one colour (red, green, blue, \
        yellow), small or large, left or right, at the top or the bottom, on a dark or a light background, with or \
        without a gray border; all attributes are independent and equally likely. Place, size and brightness waver \
        by `jitter`, and every byte by N(0, 255·noise). Edges are smoothed by 4 × 4 samples per pixel. The \
        activations are the bytes divided by 255, minus the mean picture of the rows. A pair is one scene drawn \
        twice, the second time with one attribute changed and everything else, wavering and noise included, kept.",
    settings: &[
        Setting {
            name: "rows",
            doc: "How many pictures to make.",
            default: "4000",
            allowed: Allowed::Whole(0, u64::MAX),
        },
        Setting {
            name: "side",
            doc: "Pixels on each side of a picture.",
            default: "16",
            allowed: Allowed::Whole(8, 128),
        },
        Setting {
            name: "jitter",
            doc: "How much place, size and brightness waver.",
            default: "0.5",
            allowed: Allowed::Number(0.0, 1.0),
        },
        Setting {
            name: "noise",
            doc: "The standard deviation of the noise, as a part of full brightness.",
            default: "0.02",
            allowed: Allowed::Number(0.0, 1.0),
        },
        Setting {
            name: "pairs",
            doc: "How many pairs that differ in one attribute to make.",
            default: "500",
            allowed: Allowed::Whole(0, 100_000_000),
        },
    ],
};

/// The concepts, attribute by attribute.
const CONCEPTS: [&str; 15] = [
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
/// Where the concepts of each attribute begin, and how many choices it has. One concept for two choices means there or
/// not there.
const ATTRIBUTES: [(u32, Choice); 7] = [
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

#[derive(Clone, Copy)]
enum Choice {
    /// Exactly one of so many concepts is there.
    OneOf(u32),
    /// The one concept is there or not.
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

/// What is in a picture: the choice made for each attribute, and how it wavers.
#[derive(Clone)]
struct Scene {
    choices: [u32; 7],
    waver: [f64; 4],
}

impl Scene {
    fn draw(random: &mut ChaCha8Rng) -> Scene {
        let choices = ATTRIBUTES.map(|(_, choice)| index(choice.count(), random) as u32);
        Scene { choices, waver: [(); 4].map(|()| 2.0 * unit(random) - 1.0) }
    }

    /// The concept that an attribute shows, if it shows one.
    fn concept(&self, attribute: usize) -> Option<Concept> {
        let (first, choice) = ATTRIBUTES[attribute];
        match choice {
            Choice::OneOf(_) => Some(Concept(first + self.choices[attribute])),
            Choice::Maybe => (self.choices[attribute] == 1).then_some(Concept(first)),
        }
    }

    fn concepts(&self) -> Vec<u32> {
        (0..ATTRIBUTES.len()).filter_map(|attribute| self.concept(attribute)).map(|concept| concept.0).collect()
    }

    /// The same scene with another choice for one attribute, and which concepts came and went.
    fn change(&self, random: &mut ChaCha8Rng) -> (Scene, Option<Concept>, Option<Concept>) {
        let attribute = index(ATTRIBUTES.len(), random);
        let count = ATTRIBUTES[attribute].1.count();
        let mut after = self.clone();
        let step = 1 + index(count - 1, random);
        after.choices[attribute] = ((self.choices[attribute] as usize + step) % count) as u32;
        let (added, removed) = (after.concept(attribute), self.concept(attribute));
        (after, added, removed)
    }

    fn render(&self, side: usize, jitter: f64, noise: f64, random: &mut ChaCha8Rng, out: &mut [u8]) {
        let [shape, colour, large, right, bottom, light, border] = self.choices;
        let [waver_x, waver_y, waver_size, waver_light] = self.waver.map(|waver| waver * jitter);
        let centre = |far: u32, waver: f64| if far == 1 { 0.70 } else { 0.30 } + 0.04 * waver;
        let (x, y) = (centre(right, waver_x), centre(bottom, waver_y));
        let radius = if large == 1 { 0.23 } else { 0.13 } + 0.02 * waver_size;
        let background = if light == 1 { LIGHT } else { DARK };
        let paint = COLOURS[colour as usize % COLOURS.len()].map(|part| part * (0.9 + 0.1 * waver_light));
        let step = 1.0 / (side * SAMPLES) as f64;
        for (place, pixel) in out.chunks_exact_mut(3).enumerate() {
            let mut sum = [0.0; 3];
            for sample in 0..SAMPLES * SAMPLES {
                let at_x = ((place % side * SAMPLES + sample % SAMPLES) as f64 + 0.5) * step;
                let at_y = ((place / side * SAMPLES + sample / SAMPLES) as f64 + 0.5) * step;
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

/// Is a point in the shape of radius 1 around the origin? `v` grows downwards.
fn inside(shape: u32, u: f64, v: f64) -> bool {
    match shape {
        0 => u.abs() <= 0.886 && v.abs() <= 0.886,
        1 => u * u + v * v <= 1.0,
        2 => v <= 0.75 && u.abs() <= (v + 1.0) * 0.62,
        _ => (u.abs() <= 0.36 && v.abs() <= 1.0) || (v.abs() <= 0.36 && u.abs() <= 1.0),
    }
}

impl WorldMaker for Shapes {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, budget: &Budget) -> Result<World> {
        let (rows, side, pairs) = (settings.whole("rows")?, settings.whole("side")?, settings.whole("pairs")?);
        let (jitter, noise) = (settings.number("jitter")?, settings.number("noise")?);
        let size = side * side * 3;
        let _taken = reserve(rows.saturating_add(pairs.saturating_mul(2)), size * 2, CONCEPTS.len(), budget)?;
        let mut pixels = vec![0u8; rows * size];
        let scenes: Vec<Vec<Scene>> = pixels
            .par_chunks_mut(BLOCK_ROWS * size)
            .enumerate()
            .map(|(block, out)| {
                let mut random = stream(seed, "shapes/rows", block as u64);
                let draw = |out: &mut [u8]| {
                    let scene = Scene::draw(&mut random);
                    scene.render(side, jitter, noise, &mut random, out);
                    scene
                };
                out.chunks_mut(size).map(draw).collect()
            })
            .collect();
        let mut pair_pixels = vec![0u8; pairs * 2 * size];
        let changes: Vec<Vec<(Scene, Scene, Pair)>> = pair_pixels
            .par_chunks_mut(BLOCK_ROWS * 2 * size)
            .enumerate()
            .map(|(block, out)| {
                let mut random = stream(seed, "shapes/pairs", block as u64);
                let draw = |(place, out): (usize, &mut [u8])| {
                    let before = Scene::draw(&mut random);
                    let (after, added, removed) = before.change(&mut random);
                    let (first, second) = out.split_at_mut(size);
                    // Both sides have the same grain.
                    before.render(side, jitter, noise, &mut random.clone(), first);
                    after.render(side, jitter, noise, &mut random, second);
                    let row = 2 * (block * BLOCK_ROWS + place);
                    (before, after, Pair { before: row, after: row + 1, added, removed })
                };
                out.chunks_mut(2 * size).enumerate().map(draw).collect()
            })
            .collect();
        let names = || CONCEPTS.map(String::from).to_vec();
        let mean = mean_picture(&pixels, size);
        let codes = codes_of(scenes.iter().flatten())?;
        let labels = labels_of(&codes, names())?;
        let mut world = World {
            name: CARD.name,
            activations: centred(&pixels, &mean)?,
            codes,
            directions: None,
            labels,
            parents: None,
            classes: None,
            pairs: None,
            pair_activations: None,
            pair_codes: None,
            pair_labels: None,
            images: Some(Images { width: side, height: side, pixels }),
            pair_images: None,
            generated: Vec::new(),
        };
        if pairs > 0 {
            let made = || changes.iter().flatten();
            let codes = codes_of(made().flat_map(|(before, after, _)| [before, after]))?;
            world.pair_labels = Some(labels_of(&codes, names())?);
            world.pair_codes = Some(codes);
            world.pairs = Some(PairSet { pairs: made().map(|(_, _, pair)| *pair).collect() });
            world.pair_activations = Some(centred(&pair_pixels, &mean)?);
            world.pair_images = Some(Images { width: side, height: side, pixels: pair_pixels });
        }
        Ok(world)
    }
}

fn codes_of<'a>(scenes: impl Iterator<Item = &'a Scene>) -> Result<Codes> {
    let mut builder = CodesBuilder::new(CONCEPTS.len());
    for scene in scenes {
        let concepts = scene.concepts();
        builder.push(&concepts, &vec![1.0; concepts.len()])?;
    }
    Ok(builder.finish())
}

fn mean_picture(pixels: &[u8], size: usize) -> Vec<f64> {
    let mut sums = vec![0u64; size];
    for picture in pixels.chunks_exact(size) {
        sums.iter_mut().zip(picture).for_each(|(sum, &byte)| *sum += u64::from(byte));
    }
    let rows = (pixels.len() / size).max(1) as f64;
    sums.into_iter().map(|sum| sum as f64 / rows).collect()
}

fn centred(pixels: &[u8], mean: &[f64]) -> Result<ActivationStore> {
    let values = pixels
        .chunks_exact(mean.len())
        .flat_map(|picture| picture.iter().zip(mean).map(|(&byte, mean)| ((f64::from(byte) - mean) / 255.0) as f32));
    ActivationStore::from_rows(values.collect(), mean.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::labels::worlds::make;

    fn world(settings: &[(&str, &str)]) -> World {
        let given: BTreeMap<String, String> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        make("shapes", &given, 2, &Budget::new(1 << 30)).unwrap()
    }

    fn render(choices: [u32; 7]) -> Vec<u8> {
        let mut out = vec![0; 32 * 32 * 3];
        Scene { choices, waver: [0.0; 4] }.render(32, 0.0, 0.0, &mut stream(0, "test", 0), &mut out);
        out
    }

    fn pixel(picture: &[u8], x: usize, y: usize) -> [u8; 3] {
        let at = (y * 32 + x) * 3;
        [picture[at], picture[at + 1], picture[at + 2]]
    }

    #[test]
    fn a_picture_by_hand() {
        // A large blue circle at the left and the bottom, dark, with border: its centre is at (0.3, 0.7), so at pixel
        // (9, 22); the border is two pixels wide; the opposite corner region is background.
        let picture = render([1, 2, 1, 0, 1, 0, 1]);
        assert_eq!(pixel(&picture, 9, 22), [37, 88, 193]);
        assert_eq!(pixel(&picture, 0, 0), [128, 128, 128]);
        assert_eq!(pixel(&picture, 1, 31), [128, 128, 128]);
        assert_eq!(pixel(&picture, 24, 8), [28, 28, 34]);
        assert_eq!(pixel(&render([1, 2, 1, 0, 1, 1, 0]), 0, 0), [218, 216, 208]);
    }

    #[test]
    fn edges_are_smooth() {
        // The area of a circle of radius 0.23 is π·0.23²·32² = 170.2 pixels; blue over dark tells the coverage.
        let picture = render([1, 2, 1, 0, 1, 0, 0]);
        let covered: f64 =
            picture.chunks_exact(3).map(|pixel| (f64::from(pixel[2]) - 34.0) / (0.9 * 214.0 - 34.0)).sum();
        assert!((covered - 170.2).abs() < 2.0, "{covered}");
    }

    #[test]
    fn every_choice_changes_the_picture() {
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

    #[test]
    fn pairs_change_one_attribute() {
        let world = world(&[("rows", "10"), ("pairs", "400")]);
        let labels = world.pair_labels.as_ref().unwrap();
        let images = world.pair_images.as_ref().unwrap();
        let mut seen = [0; 7];
        for pair in &world.pairs.as_ref().unwrap().pairs {
            assert_ne!(images.row(pair.before), images.row(pair.after));
            let changed: Vec<usize> = (0..7)
                .filter(|&attribute| {
                    let first = ATTRIBUTES[attribute].0;
                    let end = ATTRIBUTES.get(attribute + 1).map_or(15, |next| next.0);
                    (first..end).any(|concept| {
                        labels.label(pair.before, Concept(concept)) != labels.label(pair.after, Concept(concept))
                    })
                })
                .collect();
            assert_eq!(changed.len(), 1);
            seen[changed[0]] += 1;
        }
        assert!(seen.iter().all(|&count| count > 25), "{seen:?}");
    }

    #[test]
    fn activations_are_centred_pictures() {
        let world = world(&[("rows", "300"), ("pairs", "0")]);
        assert!(world.pairs.is_none());
        let tile = world.activations.tile(0..300).unwrap();
        for column in 0..16 * 16 * 3 {
            let sum: f64 = (0..300).map(|row| f64::from(tile.row(row)[column])).sum();
            assert!(sum.abs() < 1e-3, "{sum}");
        }
        let images = world.images.as_ref().unwrap();
        let step = f64::from(images.row(1).unwrap()[5]) - f64::from(images.row(0).unwrap()[5]);
        assert!((f64::from(tile.row(1)[5]) - f64::from(tile.row(0)[5]) - step / 255.0).abs() < 1e-6);
    }
}
