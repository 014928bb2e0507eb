//! `shapes`: small images of one shape each, and pairs of images that differ in one attribute.

use rayon::prelude::*;

use super::scene::{CONCEPTS, Scene};
use super::{Allowed, BLOCK_ROWS, Images, Setting, World, WorldCard, WorldMaker, WorldSettings, labels_of, reserve};
use crate::codes::{Codes, CodesBuilder};
use crate::context::Context;
use crate::error::Result;
use crate::labels::{Pair, PairSet};
use crate::store::ActivationStore;
use etalon_kernel::random::stream;

pub(super) struct Shapes;

static CARD: WorldCard = WorldCard {
    name: "shapes",
    summary: "Small images of a shape with known attributes, and pairs that differ in exactly one of them.",
    definition: "Every image shows one shape (square, circle, triangle, cross) in one colour (red, green, blue, \
        yellow), small or large, left or right, at the top or the bottom, on a dark or a light background, with or \
        without a gray border; all attributes are independent and equally likely. Position, size and brightness vary \
        by `jitter`, and every byte by N(0, 255·noise). Edges are smoothed by 4 × 4 samples per pixel. The \
        activations are the bytes divided by 255, minus the mean image of the rows. A pair is one scene drawn \
        twice, the second time with one attribute changed and everything else, variation and noise included, kept.",
    settings: &[
        Setting { name: "rows", doc: "Number of images.", default: "4000", allowed: Allowed::Whole(0, u64::MAX) },
        Setting {
            name: "side",
            doc: "Pixels on each side of an image.",
            default: "16",
            allowed: Allowed::Whole(8, 128),
        },
        Setting {
            name: "jitter",
            doc: "How much position, size and brightness vary.",
            default: "0.5",
            allowed: Allowed::Number(0.0, 1.0),
        },
        Setting {
            name: "noise",
            doc: "Standard deviation of the noise, as a fraction of full brightness.",
            default: "0.02",
            allowed: Allowed::Number(0.0, 1.0),
        },
        Setting {
            name: "pairs",
            doc: "Number of pairs that differ in one attribute.",
            default: "500",
            allowed: Allowed::Whole(0, 100_000_000),
        },
    ],
};

impl WorldMaker for Shapes {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        let (rows, side, pairs) = (settings.whole("rows")?, settings.whole("side")?, settings.whole("pairs")?);
        let (jitter, noise) = (settings.number("jitter")?, settings.number("noise")?);
        let size = side * side * 3;
        let _memory =
            reserve(rows.saturating_add(pairs.saturating_mul(2)), size * 2, CONCEPTS.len(), context.budget())?;
        let mut pixels = vec![0u8; rows * size];
        let scenes: Result<Vec<Vec<Scene>>> = pixels
            .par_chunks_mut(BLOCK_ROWS * size)
            .enumerate()
            .map(|(block, out)| {
                let mut random = stream(seed, "shapes/rows", block as u64);
                let draw = |out: &mut [u8]| {
                    context.check()?;
                    let scene = Scene::draw(&mut random);
                    scene.render(side, jitter, noise, &mut random, out);
                    Ok(scene)
                };
                out.chunks_mut(size).map(draw).collect()
            })
            .collect();
        let mut pair_pixels = vec![0u8; pairs * 2 * size];
        let changes: Result<Vec<Vec<(Scene, Scene, Pair)>>> = pair_pixels
            .par_chunks_mut(BLOCK_ROWS * 2 * size)
            .enumerate()
            .map(|(block, out)| {
                let mut random = stream(seed, "shapes/pairs", block as u64);
                let draw = |(number, out): (usize, &mut [u8])| {
                    context.check()?;
                    let before = Scene::draw(&mut random);
                    let (after, added, removed) = before.change(&mut random);
                    let (first, second) = out.split_at_mut(size);
                    // Both sides have the same noise.
                    before.render(side, jitter, noise, &mut random.clone(), first);
                    after.render(side, jitter, noise, &mut random, second);
                    let row = 2 * (block * BLOCK_ROWS + number);
                    Ok((before, after, Pair { before: row, after: row + 1, added, removed }))
                };
                out.chunks_mut(2 * size).enumerate().map(draw).collect()
            })
            .collect();
        let (scenes, changes) = (scenes?, changes?);
        let names = || CONCEPTS.map(String::from).to_vec();
        let mean = mean_image(&pixels, size);
        let codes = codes_of(scenes.iter().flatten())?;
        let labels = labels_of(&codes, names(), context)?;
        let mut world = World::new(CARD.name, centred(&pixels, &mean)?, codes, labels);
        world.images = Some(Images { width: side, height: side, pixels });
        if pairs > 0 {
            let made = || changes.iter().flatten();
            let codes = codes_of(made().flat_map(|(before, after, _)| [before, after]))?;
            world.pair_labels = Some(labels_of(&codes, names(), context)?);
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

fn mean_image(pixels: &[u8], size: usize) -> Vec<f64> {
    let mut sums = vec![0u64; size];
    for image in pixels.chunks_exact(size) {
        sums.iter_mut().zip(image).for_each(|(sum, &byte)| *sum += u64::from(byte));
    }
    let rows = (pixels.len() / size).max(1) as f64;
    sums.into_iter().map(|sum| sum as f64 / rows).collect()
}

fn centred(pixels: &[u8], mean: &[f64]) -> Result<ActivationStore> {
    let values = pixels
        .chunks_exact(mean.len())
        .flat_map(|image| image.iter().zip(mean).map(|(&byte, mean)| ((f64::from(byte) - mean) / 255.0) as f32));
    ActivationStore::from_rows(values.collect(), mean.len())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::labels::Concept;
    use crate::labels::worlds::make;
    use crate::labels::worlds::scene::ATTRIBUTES;

    fn world(settings: &[(&str, &str)]) -> World {
        let given: BTreeMap<String, String> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        make("shapes", &given, 2, &Context::silent(2, 1 << 30).unwrap()).unwrap()
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
    fn activations_are_centred_images() {
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
