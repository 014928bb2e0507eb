//! `tabular-toy`: three hidden numbers, seven functions of them.

use super::draw::correlated;
use super::factor_grid::weak_pairs;
use super::{Allowed, BLOCK_ROWS, Setting, World, WorldCard, WorldMaker, WorldSettings, labels_of, reserve};
use crate::codes::CodesBuilder;
use crate::context::Context;
use crate::error::Result;
use crate::labels::{Concept, Pair, PairSet};
use crate::store::ActivationStore;
use etalon_kernel::random::{index, stream};

pub(super) struct TabularToy;

static CARD: WorldCard = WorldCard {
    name: "tabular-toy",
    summary: "Three correlated numbers seen through seven functions; a concept is the sign of a number.",
    definition: "z is normal with unit variance and covariance `delta` between any two. A row is (sin z1 + z1, cos \
        z1 + z1, sin z2 + z2, cos z2 + z2, sin z3 + z3, cos z3 + z3, z1² + z2² + z3²). Concept i is present where z_i \
        > 0, and the class is 1 where at least two concepts are present. The true feature values are z itself. A pair is \
        a row and the same with the sign of one number changed.",
    settings: &[
        Setting { name: "rows", doc: "Number of rows.", default: "3000", allowed: Allowed::Whole(0, u64::MAX) },
        Setting {
            name: "delta",
            doc: "Covariance between any two of the hidden numbers.",
            default: "0",
            allowed: Allowed::Number(0.0, 0.99),
        },
        Setting {
            name: "pairs",
            doc: "Number of pairs that differ in one attribute.",
            default: "0",
            allowed: Allowed::Whole(0, 100_000_000),
        },
        Setting {
            name: "weak_pairs",
            doc: "Number of pairs of rows that share some but not all concepts.",
            default: "0",
            allowed: Allowed::Whole(0, 100_000_000),
        },
    ],
};

impl WorldMaker for TabularToy {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        let (rows, delta) = (settings.whole("rows")?, settings.number("delta")?);
        let (pairs, weak) = (settings.whole("pairs")?, settings.whole("weak_pairs")?);
        let _memory = reserve(rows.saturating_add(pairs.saturating_mul(2)), 7, 3, context.budget())?;
        let mut activations = Vec::with_capacity(rows * 7);
        let mut builder = CodesBuilder::new(3);
        let mut classes = Vec::with_capacity(rows);
        for block in 0..rows.div_ceil(BLOCK_ROWS) {
            let mut random = stream(seed, "tabular-toy/rows", block as u64);
            for _ in block * BLOCK_ROWS..((block + 1) * BLOCK_ROWS).min(rows) {
                context.check()?;
                let hidden = correlated(3, delta, &mut random);
                activations.extend(seen(&hidden).map(|value| value as f32));
                builder.push_dense(&hidden.iter().map(|&z| z as f32).collect::<Vec<_>>())?;
                classes.push(u32::from(hidden.iter().filter(|&&z| z > 0.0).count() >= 2));
            }
        }
        let codes = builder.finish();
        let names = || (1..=3).map(|number| format!("z{number}_positive")).collect();
        let labels = labels_of(&codes, names(), context)?;
        let mut world = World::new(CARD.name, ActivationStore::from_rows(activations, 7)?, codes, labels);
        world.classes = Some(classes);
        world.weak_pairs = weak_pairs(&world, weak, seed);
        if pairs > 0 {
            let mut random = stream(seed, "tabular-toy/pairs", 0);
            let (mut activations, mut builder, mut made) =
                (Vec::with_capacity(pairs * 14), CodesBuilder::new(3), Vec::new());
            for number in 0..pairs {
                context.check()?;
                let before = correlated(3, delta, &mut random);
                let changed = index(3, &mut random);
                let mut after = before.clone();
                after[changed] = -after[changed];
                for hidden in [&before, &after] {
                    activations.extend(seen(hidden).map(|value| value as f32));
                    builder.push_dense(&hidden.iter().map(|&z| z as f32).collect::<Vec<_>>())?;
                }
                let concept = Some(Concept(changed as u32));
                let (added, removed) = if before[changed] > 0.0 { (None, concept) } else { (concept, None) };
                made.push(Pair { before: 2 * number, after: 2 * number + 1, added, removed });
            }
            let codes = builder.finish();
            world.pair_labels = Some(labels_of(&codes, names(), context)?);
            world.pair_codes = Some(codes);
            world.pair_activations = Some(ActivationStore::from_rows(activations, 7)?);
            world.pairs = Some(PairSet { pairs: made });
        }
        Ok(world)
    }
}

fn seen(hidden: &[f64]) -> impl Iterator<Item = f64> + '_ {
    let waves = hidden.iter().flat_map(|&z| [libm::sin(z) + z, libm::cos(z) + z]);
    waves.chain([hidden.iter().map(|z| z * z).sum()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::labels::worlds::make;
    use etalon_kernel::statistics::pearson;

    #[test]
    fn functions_match_a_worked_example() {
        // z = (0, π/2, -1): sin 0 + 0 = 0, cos 0 + 0 = 1, 1 + π/2, 0 + π/2, -0.8415 - 1, 0.5403 - 1, 0 + 2.4674 + 1.
        let half = std::f64::consts::FRAC_PI_2;
        let found: Vec<f64> = seen(&[0.0, half, -1.0]).collect();
        let expected = [0.0, 1.0, 1.0 + half, half, -1.841_471, -0.459_698, 3.467_401];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{found:?}");
    }

    #[test]
    fn hidden_numbers_have_the_given_covariance() {
        let given = [("delta", "0.9"), ("rows", "20000")].map(|(name, value)| (name.to_string(), value.to_string()));
        let world = make("tabular-toy", &BTreeMap::from(given), 1, &Context::silent(2, 1 << 30).unwrap()).unwrap();
        let all = world.codes.all().unwrap();
        let column = |index: usize| (0..20_000).map(|row| f64::from(all.row(row).1[index])).collect::<Vec<_>>();
        assert!((pearson(&column(0), &column(2)).unwrap() - 0.9).abs() < 0.01);
        for (row, &class) in world.classes.as_ref().unwrap().iter().enumerate() {
            assert_eq!(class == 1, all.row(row).1.iter().filter(|&&z| z > 0.0).count() >= 2);
        }
    }
}
