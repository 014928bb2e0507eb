//! `impure-codes`: concept scores that are exact for their own concept and, if impure, also encode the others.

use super::draw::correlated;
use super::{Allowed, BLOCK_ROWS, Setting, World, WorldCard, WorldMaker, WorldSettings, labels_of, reserve};
use crate::codes::CodesBuilder;
use crate::context::Context;
use crate::error::Result;
use crate::store::ActivationStore;
use etalon_kernel::random::{ChaCha8Rng, index, permutation, stream, unit};

pub(super) struct ImpureCodes;

static CARD: WorldCard = WorldCard {
    name: "impure-codes",
    summary: "Scores of concepts that are all perfectly accurate, and pure or impure by construction.",
    definition: "Concept j is present where z_j > 0, z normal with unit variance and `covariance` between any two. \
        The score of a concept is in [0.95, 1] where it is present and in [0, 0.05] where it is not. `pure`: \
        anywhere in it. `impure`: the interval is cut into 2^(concepts - 1) slots and the other concepts, in \
        ascending order with the first as the highest bit, number the slot. `distributed`: the same with the bits in \
        a new random order for every score, and random bits for absent concepts. `fixed`: impure, in the \
        middle of the slot. `unaligned`: slots of the whole [0, 1], so that a score says nothing about its own \
        concept. The class is 1 where at least two of the first three concepts are present.",
    settings: &[
        Setting { name: "rows", doc: "Number of rows.", default: "3000", allowed: Allowed::Whole(0, u64::MAX) },
        Setting {
            name: "concepts",
            doc: "Number of concepts.",
            default: "5",
            // More slots would be finer than the precision of f32.
            allowed: Allowed::Whole(2, 12),
        },
        Setting {
            name: "mode",
            doc: "What a score encodes besides its own concept.",
            default: "impure",
            allowed: Allowed::Word(&["pure", "impure", "distributed", "fixed", "unaligned"]),
        },
        Setting {
            name: "covariance",
            doc: "Covariance between any two of the hidden numbers behind the concepts.",
            default: "0",
            allowed: Allowed::Number(0.0, 0.99),
        },
    ],
};

/// Maximum distance of a score from 0 or 1.
const SLACK: f64 = 0.05;

impl WorldMaker for ImpureCodes {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        let (rows, concepts) = (settings.whole("rows")?, settings.whole("concepts")?);
        let (mode, covariance) = (settings.word("mode")?, settings.number("covariance")?);
        let _memory = reserve(rows, concepts, concepts, context.budget())?;
        let mut scores = Vec::with_capacity(rows * concepts);
        let mut builder = CodesBuilder::new(concepts);
        let mut classes = Vec::with_capacity(rows);
        for block in 0..rows.div_ceil(BLOCK_ROWS) {
            let mut random = stream(seed, "impure-codes/rows", block as u64);
            for _ in block * BLOCK_ROWS..((block + 1) * BLOCK_ROWS).min(rows) {
                context.check()?;
                let there: Vec<bool> =
                    correlated(concepts, covariance, &mut random).into_iter().map(|z| z > 0.0).collect();
                scores.extend((0..concepts).map(|concept| score(&there, concept, mode, &mut random) as f32));
                builder.push_dense(&there.iter().map(|&there| f32::from(u8::from(there))).collect::<Vec<_>>())?;
                classes.push(u32::from(there.iter().take(3).filter(|&&there| there).count() >= 2));
            }
        }
        let codes = builder.finish();
        let labels = labels_of(&codes, (0..concepts).map(|concept| format!("concept_{concept}")).collect(), context)?;
        // Score i is concept i, except in the mode where scores do not depend on their own concept.
        let identity = (0..concepts * concepts).map(|cell| f32::from(u8::from(cell / concepts == cell % concepts)));
        let directions =
            (mode != "unaligned").then(|| ActivationStore::from_rows(identity.collect(), concepts)).transpose()?;
        let mut world = World::new(CARD.name, ActivationStore::from_rows(scores, concepts)?, codes, labels);
        (world.directions, world.classes) = (directions, Some(classes));
        Ok(world)
    }
}

/// A score of a concept, with random numbers for what the mode leaves open.
fn score(there: &[bool], concept: usize, mode: &str, random: &mut ChaCha8Rng) -> f64 {
    let slot = if mode == "pure" { 0 } else { slot(there, concept, mode == "distributed", random) };
    let within = if mode == "fixed" { 0.5 } else { unit(random) };
    score_in_slot(there, concept, mode, slot, within)
}

/// The number that the other concepts make up; if they are scattered, in random order and with random bits for absent ones.
fn slot(there: &[bool], concept: usize, scattered: bool, random: &mut ChaCha8Rng) -> usize {
    let order = if scattered { permutation(there.len(), random) } else { (0..there.len()).collect() };
    let mut slot = 0;
    for other in order.into_iter().filter(|&other| other != concept) {
        slot = slot * 2 + if !there[other] && scattered { index(2, random) } else { usize::from(there[other]) };
    }
    slot
}

/// A score at a place from 0 to 1 within its slot; pure scores have one slot.
fn score_in_slot(there: &[bool], concept: usize, mode: &str, slot: usize, within: f64) -> f64 {
    let (low, high) = match (mode, there[concept]) {
        ("unaligned", _) => (0.0, 1.0),
        (_, true) => (1.0 - SLACK, 1.0),
        (_, false) => (0.0, SLACK),
    };
    let slots = if mode == "pure" { 1 } else { 1u64 << (there.len() - 1) };
    low + (slot as f64 + within) * ((high - low) / slots as f64)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::labels::worlds::make;
    use crate::labels::{Concept, Label};
    use etalon_kernel::statistics::area_under_curve;

    fn world(mode: &str, rows: &str) -> World {
        let given = [("mode", mode), ("rows", rows)].map(|(name, value)| (name.to_string(), value.to_string()));
        make("impure-codes", &BTreeMap::from(given), 5, &Context::silent(2, 1 << 30).unwrap()).unwrap()
    }

    #[test]
    fn slots_match_a_worked_example() {
        // Concepts 1 0 1 1 0. Concept 0 is present; the others are 0110 = 6 of 16 slots of 0.05/16 = 0.003125:
        // [0.95 + 0.01875, +0.003125), middle 0.9703125. Concept 1 is not; the others are 1110 = 14: middle 0.0453125.
        let there = [true, false, true, true, false];
        let mut random = stream(0, "test", 0);
        assert!((score(&there, 0, "fixed", &mut random) - 0.970_312_5).abs() < 1e-12);
        assert!((score(&there, 1, "fixed", &mut random) - 0.045_312_5).abs() < 1e-12);
        // Unaligned: slot 6 of 16 of [0, 1].
        let found = score(&there, 0, "unaligned", &mut random);
        assert!((0.375..0.4375).contains(&found), "{found}");
        for _ in 0..100 {
            let found = score(&there, 0, "impure", &mut random);
            assert!((0.968_75..0.971_875).contains(&found), "{found}");
            // Two ones are always set: the slot is at least 0011.
            assert!(score(&there, 0, "distributed", &mut random) >= 0.95 + 3.0 * 0.003_125);
        }
    }

    #[test]
    fn scores_are_those_of_the_released_program() {
        let read = |name: &str| {
            let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden/purity/table1");
            let bytes = std::fs::read(format!("{folder}/{name}.npy")).unwrap();
            let header = 10 + u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
            bytes[header..].to_vec()
        };
        let concepts: Vec<bool> =
            read("concepts").as_chunks::<4>().0.iter().map(|bytes| i32::from_le_bytes(*bytes) == 1).collect();
        let uniform: Vec<f64> =
            read("uniform").as_chunks::<8>().0.iter().map(|bytes| f64::from_le_bytes(*bytes)).collect();
        assert_eq!((concepts.len(), uniform.len()), (640, 640));
        for (mode, file) in [
            ("pure", "codes_random"),
            ("impure", "codes_localized"),
            ("fixed", "codes_localized_fixed"),
            ("unaligned", "codes_unaligned"),
        ] {
            let expected: Vec<f32> = read(file).as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
            for (entry, &expected) in expected.iter().enumerate() {
                let (there, concept) = (&concepts[entry / 4 * 4..][..4], entry % 4);
                let slot = if mode == "pure" { 0 } else { slot(there, concept, false, &mut stream(0, "unused", 0)) };
                let within = if mode == "fixed" { 0.5 } else { uniform[entry] };
                let found = score_in_slot(there, concept, mode, slot, within);
                // They are stored as 32-bit numbers.
                assert!((found - f64::from(expected)).abs() < 6e-8, "{mode}, entry {entry}: {found} and {expected}");
            }
        }
    }

    #[test]
    fn every_score_is_exact_for_its_own_concept() {
        for mode in ["pure", "impure", "distributed", "fixed"] {
            let world = world(mode, "500");
            let tile = world.activations.tile(0..500).unwrap();
            for row in 0..500 {
                for (concept, &score) in tile.row(row).iter().enumerate() {
                    let there = world.labels.label(row, Concept(concept as u32)) == Label::Yes;
                    assert!(if there { (0.95..=1.0).contains(&score) } else { (0.0..=0.05).contains(&score) });
                }
            }
        }
        assert!(world("unaligned", "5").directions.is_none());
    }

    #[test]
    fn impure_scores_predict_the_other_concepts() {
        // A score that only rises with another concept within each half has an area of 0.75 for the highest bit.
        for (mode, expected) in [("pure", 0.5), ("impure", 0.75)] {
            let world = world(mode, "6000");
            let tile = world.activations.tile(0..6000).unwrap();
            let score: Vec<f64> = (0..6000).map(|row| f64::from(tile.row(row)[1])).collect();
            let other: Vec<bool> = (0..6000).map(|row| world.labels.yes(Concept(0)).contains(row)).collect();
            let area = area_under_curve(&other, &score).unwrap();
            assert!((area - expected).abs() < 0.03, "{mode}: {area}");
        }
    }
}
