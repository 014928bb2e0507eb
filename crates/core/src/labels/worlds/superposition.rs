//! `superposition`: sparse features as directions in fewer dimensions than there are features.

use rayon::prelude::*;

use super::draw::normal;
use super::features::{
    ACTIVE, FEATURES, NOISE, POWER, ROWS, WIDTH, directions, draw_value, exceeded_at, groups, rates,
};
use super::{Allowed, BLOCK_ROWS, Setting, World, WorldCard, WorldMaker, WorldSettings, labels_of, reserve};
use crate::codes::{Codes, CodesBuilder};
use crate::context::Context;
use crate::error::{InputError, Key, Result};
use crate::labels::{Concept, Pair, PairSet};
use crate::store::ActivationStore;
use etalon_kernel::random::{ChaCha8Rng, index, permutation, stream, unit};

pub(super) struct Superposition;

static CARD: WorldCard = WorldCard {
    name: "superposition",
    summary: "Sparse features with known directions, rates, hierarchy and correlation, added up in a narrow space.",
    definition: "Feature i fires at a rate proportional to (i + 1)^-power, scaled so that `active` features fire \
        per row (no rate above 1/2). A share `hierarchy` of the features are children of an earlier feature: a child \
        fires only where its parent does, in at most half of those rows. Groups of up to 8 roots, and of up to 8 \
        children of one parent, fire together: a Gaussian copula with `correlation`, which leaves all rates as they \
        are. A feature that fires has the value 1 + |N(0, 0.5)|. Directions are random unit vectors, orthogonal \
        where there are no more features than dimensions (and at most 2048); a child's direction has the cosine \
        `splitting` with its parent's. A row is the sum of value times direction, plus N(0, noise) in every \
        dimension. A pair is a row and its copy, noise included, with one leaf feature added, one removed, or one \
        exchanged for another.",
    settings: &[
        Setting { default: "20000", ..ROWS },
        WIDTH,
        FEATURES,
        ACTIVE,
        POWER,
        Setting {
            name: "hierarchy",
            doc: "Share of the features that are children: they fire only where their parent fires.",
            default: "0",
            allowed: Allowed::Number(0.0, 0.9),
        },
        Setting {
            name: "splitting",
            doc: "Cosine between the directions of a child and its parent.",
            default: "0",
            allowed: Allowed::Number(0.0, 0.99),
        },
        Setting {
            name: "correlation",
            doc: "Correlation of the Gaussian copula within a group of features.",
            default: "0",
            allowed: Allowed::Number(0.0, 0.99),
        },
        NOISE,
        Setting {
            name: "pairs",
            doc: "Number of pairs that differ in one feature.",
            default: "0",
            allowed: Allowed::Whole(0, 100_000_000),
        },
    ],
};

/// Attempts to draw a row with a leaf that can be changed.
const TRIES: usize = 1000;

impl WorldMaker for Superposition {
    fn card(&self) -> &'static WorldCard {
        &CARD
    }

    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        let (rows, width, pairs) = (settings.whole("rows")?, settings.whole("width")?, settings.whole("pairs")?);
        let features = settings.whole("features")?;
        let _rows = reserve(rows.saturating_add(pairs.saturating_mul(2)), width, features, context.budget())?;
        let _directions = reserve(features, width.saturating_mul(3), 0, context.budget())?;
        let rule = Rule::new(settings, seed, context)?;
        let (activations, codes) = rule.rows(rows, context)?;
        let names = || (0..features).map(|feature| format!("feature_{feature}")).collect::<Vec<_>>();
        let labels = labels_of(&codes, names(), context)?;
        let mut world = World::new(CARD.name, ActivationStore::from_rows(activations, width)?, codes, labels);
        world.parents = Some(rule.parent.iter().map(|parent| parent.map(|parent| parent as u32)).collect());
        if pairs > 0 {
            let (activations, codes, set) = rule.pairs(pairs, context)?;
            world.pair_labels = Some(labels_of(&codes, names(), context)?);
            world.pair_activations = Some(ActivationStore::from_rows(activations, width)?);
            world.pair_codes = Some(codes);
            world.pairs = Some(set);
        }
        world.directions = Some(ActivationStore::from_rows(rule.directions, width)?);
        Ok(world)
    }
}

/// The parameters of all features. A row depends on them and on a random stream.
struct Rule {
    seed: u64,
    width: usize,
    noise: f64,
    correlation: f64,
    parent: Vec<Option<usize>>,
    is_leaf: Vec<bool>,
    /// The rate of a feature among the rows where its parent fires.
    rate: Vec<f64>,
    /// The threshold that a standard normal number exceeds at that rate.
    threshold: Vec<f64>,
    group: Vec<usize>,
    groups: usize,
    directions: Vec<f32>,
}

/// The features of a row that fire, ascending, and their values.
#[derive(Clone, Default)]
struct Row {
    features: Vec<u32>,
    values: Vec<f32>,
}

impl Row {
    fn has(&self, feature: usize) -> bool {
        self.features.binary_search(&(feature as u32)).is_ok()
    }

    fn insert(&mut self, feature: usize, value: f32) {
        if let Err(index) = self.features.binary_search(&(feature as u32)) {
            self.features.insert(index, feature as u32);
            self.values.insert(index, value);
        }
    }

    fn remove(&mut self, feature: usize) {
        if let Ok(index) = self.features.binary_search(&(feature as u32)) {
            self.features.remove(index);
            self.values.remove(index);
        }
    }
}

impl Rule {
    fn new(settings: &WorldSettings, seed: u64, context: &Context) -> Result<Rule> {
        let (features, width) = (settings.whole("features")?, settings.whole("width")?);
        let mut random = stream(seed, "superposition/hierarchy", 0);
        // Feature 0 is a root; any other may be the child of an earlier one.
        let children = ((settings.number("hierarchy")? * features as f64).round() as usize).min(features - 1);
        let mut parent = vec![None; features];
        for before in permutation(features - 1, &mut random).into_iter().take(children) {
            parent[before + 1] = Some(index(before + 1, &mut random));
        }
        let mut is_leaf = vec![true; features];
        parent.iter().flatten().for_each(|&parent: &usize| is_leaf[parent] = false);
        let marginal = rates(&parent, settings.number("power")?, settings.number("active")?)?;
        let rate: Vec<f64> =
            (0..features).map(|f| marginal[f] / parent[f].map_or(1.0, |parent| marginal[parent])).collect();
        let threshold = |&rate: &f64| context.check().map(|()| exceeded_at(rate));
        let threshold = rate.par_iter().map(threshold).collect::<Result<Vec<f64>>>()?;
        let (group, groups) = groups(&parent, &mut random);
        let directions = directions(&parent, width, settings.number("splitting")?, seed, context)?;
        Ok(Rule {
            seed,
            width,
            noise: settings.number("noise")?,
            correlation: settings.number("correlation")?,
            parent,
            is_leaf,
            rate,
            threshold,
            group,
            groups,
            directions,
        })
    }

    /// Draws which features fire, parents before children.
    fn draw(&self, random: &mut ChaCha8Rng) -> Row {
        let mut row = Row::default();
        let shared: Vec<f64> =
            if self.correlation > 0.0 { (0..self.groups).map(|_| normal(random)).collect() } else { Vec::new() };
        let (common, own) = (self.correlation.sqrt(), (1.0 - self.correlation).sqrt());
        for feature in 0..self.rate.len() {
            if self.parent[feature].is_some_and(|parent| !row.has(parent)) {
                continue;
            }
            let fires = match shared.get(self.group[feature]) {
                None => unit(random) < self.rate[feature],
                Some(&shared) => common * shared + own * normal(random) > self.threshold[feature],
            };
            if fires {
                row.features.push(feature as u32);
                row.values.push(draw_value(random));
            }
        }
        row
    }

    /// The sum of the features of a row, plus noise.
    fn write(&self, row: &Row, noise: &[f64], out: &mut [f32]) {
        let mut sum = noise.to_vec();
        for (&feature, &value) in row.features.iter().zip(&row.values) {
            let direction = &self.directions[feature as usize * self.width..][..self.width];
            sum.iter_mut().zip(direction).for_each(|(sum, &part)| *sum += f64::from(value) * f64::from(part));
        }
        out.iter_mut().zip(sum).for_each(|(out, sum)| *out = sum as f32);
    }

    fn draw_noise(&self, random: &mut ChaCha8Rng) -> Vec<f64> {
        let mut one = || if self.noise > 0.0 { self.noise * normal(random) } else { 0.0 };
        (0..self.width).map(|_| one()).collect()
    }

    fn rows(&self, rows: usize, context: &Context) -> Result<(Vec<f32>, Codes)> {
        let mut activations = vec![0f32; rows * self.width];
        let blocks: Result<Vec<Vec<Row>>> = activations
            .par_chunks_mut(BLOCK_ROWS * self.width)
            .enumerate()
            .map(|(block, out)| {
                let mut random = stream(self.seed, "superposition/rows", block as u64);
                let make = |out: &mut [f32]| {
                    context.check()?;
                    let row = self.draw(&mut random);
                    self.write(&row, &self.draw_noise(&mut random), out);
                    Ok(row)
                };
                out.chunks_mut(self.width).map(make).collect()
            })
            .collect();
        Ok((activations, self.codes(blocks?.iter().flatten(), context)?))
    }

    fn pairs(&self, pairs: usize, context: &Context) -> Result<(Vec<f32>, Codes, PairSet)> {
        let mut activations = vec![0f32; pairs * 2 * self.width];
        let blocks: Vec<Result<Vec<(Row, Row, Change)>>> = activations
            .par_chunks_mut(BLOCK_ROWS * 2 * self.width)
            .enumerate()
            .map(|(block, out)| {
                let mut random = stream(self.seed, "superposition/pairs", block as u64);
                let make = |out: &mut [f32]| {
                    context.check()?;
                    let (before, after, change) = self.draw_pair(&mut random)?;
                    let noise = self.draw_noise(&mut random);
                    let (first, second) = out.split_at_mut(self.width);
                    self.write(&before, &noise, first);
                    self.write(&after, &noise, second);
                    Ok((before, after, change))
                };
                out.chunks_mut(2 * self.width).map(make).collect()
            })
            .collect();
        let made: Vec<(Row, Row, Change)> =
            blocks.into_iter().collect::<Result<Vec<_>>>()?.into_iter().flatten().collect();
        let codes = self.codes(made.iter().flat_map(|(before, after, _)| [before, after]), context)?;
        let concept = |feature: Option<usize>| feature.map(|feature| Concept(feature as u32));
        let pair = |(number, (_, _, change)): (usize, &(Row, Row, Change))| Pair {
            before: 2 * number,
            after: 2 * number + 1,
            added: concept(change.added),
            removed: concept(change.removed),
        };
        Ok((activations, codes, PairSet { pairs: made.iter().enumerate().map(pair).collect() }))
    }

    /// A row and a change of one leaf that its hierarchy allows.
    fn draw_pair(&self, random: &mut ChaCha8Rng) -> Result<(Row, Row, Change)> {
        for _ in 0..TRIES {
            let before = self.draw(random);
            let removable: Vec<usize> =
                before.features.iter().map(|&feature| feature as usize).filter(|&f| self.is_leaf[f]).collect();
            let allowed = |&f: &usize| {
                self.is_leaf[f] && !before.has(f) && self.parent[f].is_none_or(|parent| before.has(parent))
            };
            let addable: Vec<usize> = (0..self.rate.len()).filter(allowed).collect();
            // Add, remove or exchange; only one of the first two if the other is impossible.
            let kind = index(3, random);
            let mut pick =
                |list: &[usize], needed: bool| (needed && !list.is_empty()).then(|| list[index(list.len(), random)]);
            let added = pick(&addable, kind != 1 || removable.is_empty());
            let removed = pick(&removable, kind != 0 || addable.is_empty());
            if added.is_none() && removed.is_none() {
                continue;
            }
            let mut after = before.clone();
            removed.into_iter().for_each(|feature| after.remove(feature));
            if let Some(feature) = added {
                after.insert(feature, draw_value(random));
            }
            return Ok((before, after, Change { added, removed }));
        }
        Err(InputError::new("no pair could be generated: the parents of all leaf features fire too rarely")
            .expected("rows with a leaf feature to add or remove")
            .found(format!("none in {TRIES} rows"))
            .advice(format!("raise {} or lower {}", Key("active"), Key("hierarchy")))
            .into())
    }

    fn codes<'a>(&self, rows: impl Iterator<Item = &'a Row>, context: &Context) -> Result<Codes> {
        let mut builder = CodesBuilder::new(self.rate.len());
        for row in rows {
            context.check()?;
            builder.push(&row.features, &row.values)?;
        }
        Ok(builder.finish())
    }
}

struct Change {
    added: Option<usize>,
    removed: Option<usize>,
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::codes::Latent;
    use crate::labels::worlds::make;
    use etalon_kernel::product::dot;
    use etalon_kernel::statistics::mean;

    fn world(settings: &[(&str, &str)]) -> World {
        let given: BTreeMap<String, String> =
            settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        make("superposition", &given, 7, &Context::silent(2, 1 << 30).unwrap()).unwrap()
    }

    fn firing(world: &World) -> Vec<f64> {
        let columns = world.codes.columns().unwrap();
        let rows = world.codes.rows() as f64;
        (0..world.codes.latents()).map(|f| columns.latent(Latent(f as u32)).0.len() as f64 / rows).collect()
    }

    fn direction(world: &World, feature: usize) -> Vec<f32> {
        world.directions.as_ref().unwrap().tile(feature..feature + 1).unwrap().values.to_vec()
    }

    #[test]
    fn a_row_is_the_sum_of_its_features() {
        let world = world(&[("rows", "40"), ("noise", "0"), ("features", "30"), ("width", "9"), ("active", "3")]);
        let width = world.activations.width();
        for (row, features, values) in world.codes.all().unwrap().iter() {
            let mut sum = vec![0f64; width];
            for (&feature, &value) in features.iter().zip(values) {
                assert!(value >= 1.0);
                let direction = direction(&world, feature as usize);
                sum.iter_mut().zip(&direction).for_each(|(sum, &part)| *sum += f64::from(value) * f64::from(part));
            }
            let tile = world.activations.tile(row..row + 1).unwrap();
            assert!(tile.values.iter().zip(&sum).all(|(&a, &b)| (f64::from(a) - b).abs() < 1e-5));
        }
    }

    #[test]
    fn rates_follow_the_power_law() {
        // 20 features, 3 active, exponent 1: the harmonic number H20 = 3.5977, so feature i fires at 3/3.5977/(i+1) =
        // 0.8339/(i+1), but feature 0 is cut to 1/2; the others share what is left: 2.5/2.5977/(i+1) = 0.9624/(i+1).
        let settings = [("rows", "40000"), ("features", "20"), ("width", "16"), ("active", "3"), ("power", "1")];
        for correlation in ["0", "0.6"] {
            let mut settings = settings.to_vec();
            settings.push(("correlation", correlation));
            let firing = firing(&world(&settings));
            assert!((firing.iter().sum::<f64>() - 3.0).abs() < 0.05);
            assert!((firing[0] - 0.5).abs() < 0.015);
            for (feature, rate) in firing.iter().enumerate().skip(2) {
                assert!((rate - 0.9624 / (feature as f64 + 1.0)).abs() < 0.015, "feature {feature}: {rate}");
            }
        }
    }

    #[test]
    fn children_imply_their_parent() {
        let settings = [("rows", "20000"), ("features", "60"), ("active", "6"), ("hierarchy", "0.5")];
        let world = world(&[&settings[..], &[("correlation", "0.5"), ("pairs", "300")]].concat());
        let parents = world.parents.clone().unwrap();
        assert_eq!(parents.iter().flatten().count(), 30);
        for (child, parent) in parents.iter().enumerate() {
            let Some(parent) = *parent else { continue };
            assert!((parent as usize) < child);
            for labels in [&world.labels, world.pair_labels.as_ref().unwrap()] {
                let mut alone = labels.yes(Concept(child as u32)).clone();
                alone.subtract(labels.yes(Concept(parent)));
                assert_eq!(alone.count(), 0, "child {child} without parent {parent}");
            }
        }
        assert!((firing(&world).iter().sum::<f64>() - 6.0).abs() < 0.15);
    }

    #[test]
    fn groups_fire_together() {
        let settings = [("rows", "20000"), ("features", "8"), ("active", "2"), ("power", "0")];
        let together = |correlation: &str| {
            let world = world(&[&settings[..], &[("correlation", correlation)]].concat());
            let yes = |feature| world.labels.yes(Concept(feature));
            yes(0).count_and(yes(1)) as f64 / 20_000.0
        };
        // Eight features in one group at rate 1/4: independent, two of them meet in 1/16 of the rows.
        assert!((together("0") - 0.0625).abs() < 0.008);
        assert!(together("0.5") > 0.1);
    }

    #[test]
    fn directions_are_orthogonal_or_have_the_given_cosine() {
        let orthogonal = world(&[("rows", "1"), ("features", "24"), ("width", "32"), ("active", "2")]);
        for a in 0..24 {
            for b in 0..24 {
                let cosine = dot(&direction(&orthogonal, a), &direction(&orthogonal, b));
                assert!((cosine - f64::from(a == b)).abs() < 1e-5, "{a} {b} {cosine}");
            }
        }
        let settings = [("rows", "1"), ("features", "80"), ("active", "2"), ("hierarchy", "0.4"), ("splitting", "0.8")];
        let split = world(&settings);
        for (child, parent) in split.parents.clone().unwrap().iter().enumerate() {
            let Some(parent) = *parent else { continue };
            assert!((dot(&direction(&split, child), &direction(&split, parent as usize)) - 0.8).abs() < 1e-5);
        }
    }

    #[test]
    fn pairs_differ_along_their_directions_only() {
        let settings = [("rows", "10"), ("features", "40"), ("width", "48"), ("active", "4"), ("pairs", "300")];
        let world = world(&[&settings[..], &[("hierarchy", "0.25")]].concat());
        let (store, pairs) = (world.pair_activations.as_ref().unwrap(), world.pairs.as_ref().unwrap());
        let leaf = |concept: Concept| !world.parents.as_ref().unwrap().contains(&Some(concept.0));
        let mut kinds = [0; 3];
        for pair in &pairs.pairs {
            let (before, after) =
                (store.tile(pair.before..pair.after).unwrap(), store.tile(pair.after..pair.after + 1));
            let moved: Vec<f32> = after.unwrap().values.iter().zip(before.values.iter()).map(|(a, b)| a - b).collect();
            let mut left = dot(&moved, &moved);
            for (concept, sign) in [(pair.added, 1.0), (pair.removed, -1.0)] {
                let Some(concept) = concept else { continue };
                assert!(leaf(concept));
                let along = sign * dot(&moved, &direction(&world, concept.0 as usize));
                assert!(along > 0.99, "{along}");
                left -= along * along;
            }
            // Directions are orthogonal here, so nothing else remains.
            assert!(left.abs() < 1e-3, "{left}");
            kinds[usize::from(pair.added.is_some()) + 2 * usize::from(pair.removed.is_some()) - 1] += 1;
        }
        assert!(kinds.iter().all(|&kind| kind > 60), "{kinds:?}");
    }

    #[test]
    fn noise_has_the_given_deviation() {
        let quiet = world(&[("rows", "2000"), ("noise", "0.3"), ("active", "0.001"), ("features", "1")]);
        let tile = quiet.activations.tile(0..2000).unwrap();
        let squares: Vec<f64> = tile.values.iter().map(|&v| f64::from(v) * f64::from(v)).collect();
        assert!((mean(&squares).unwrap().sqrt() - 0.3).abs() < 0.01);
    }

    #[test]
    fn impossible_worlds_are_refused() {
        let given = BTreeMap::from([("active".to_string(), "200".to_string())]);
        let error = make("superposition", &given, 0, &Context::silent(2, 1 << 30).unwrap()).unwrap_err().to_string();
        assert!(error.contains("at most 128.00"), "{error}");
    }
}
