//! Worlds: synthetic data with known truth, of any size.
//!
//! To add one, write its file, its `mod` line and its entry in [`WORLDS`]. The command line and its help follow from its
//! [`WorldCard`]. The same settings and seed give the same bits with any number of threads: rows are generated in blocks,
//! each with its own random stream.

mod blindspots;
mod draw;
mod dsprites;
mod factor_grid;
mod features;
mod impure_codes;
mod scene;
mod settings;
mod shapes;
mod shapes3d;
mod superposition;
mod tabular_toy;

use std::collections::BTreeMap;

pub use settings::{Allowed, Setting, WorldSettings};

use super::{Annotations, Factors, PairSet};
use crate::codes::Codes;
use crate::context::{Budget, Context};
use crate::error::{Command, InputError, Result};
use crate::store::ActivationStore;
use etalon_kernel::bits::Bits;

/// Data with known truth. All fields about rows are in the same order, and so are all fields about pairs.
#[derive(Debug)]
#[non_exhaustive]
pub struct World {
    /// The name of the world.
    pub name: &'static str,
    /// The activations, to train dictionaries on.
    pub activations: ActivationStore,
    /// The true feature values of every row: a concept is present where its value is above 0.
    pub codes: Codes,
    /// The direction of every feature in the activations, if features have directions.
    pub directions: Option<ActivationStore>,
    /// Features × rows: whether the feature is present.
    pub labels: Annotations,
    /// The feature that each feature implies, if there is a hierarchy.
    pub parents: Option<Vec<Option<u32>>>,
    /// The class of every row, if the world has a task.
    pub classes: Option<Vec<u32>>,
    /// The factors that describe every row, if they have more classes than the concepts.
    pub factors: Option<Factors>,
    /// Pairs of rows that share at least one but not all concepts.
    pub weak_pairs: Vec<[u32; 2]>,
    /// Pairs of rows of `pair_activations` that differ only in the concepts of the pair.
    pub pairs: Option<PairSet>,
    /// The rows of the pairs.
    pub pair_activations: Option<ActivationStore>,
    /// Their true feature values.
    pub pair_codes: Option<Codes>,
    /// Features × the rows of pairs.
    pub pair_labels: Option<Annotations>,
    /// Images of the rows.
    pub images: Option<Images>,
    /// Images of the rows of pairs.
    pub pair_images: Option<Images>,
    /// The rows of every generator, one per row of the activations.
    pub generated: Vec<WorldGenerator>,
}

impl World {
    /// A world of rows only.
    fn new(name: &'static str, activations: ActivationStore, codes: Codes, labels: Annotations) -> World {
        World {
            name,
            activations,
            codes,
            directions: None,
            labels,
            parents: None,
            classes: None,
            factors: None,
            weak_pairs: Vec::new(),
            pairs: None,
            pair_activations: None,
            pair_codes: None,
            pair_labels: None,
            images: None,
            pair_images: None,
            generated: Vec::new(),
        }
    }
}

/// The rows of one generator, and its known errors.
#[derive(Debug)]
pub struct WorldGenerator {
    /// Its name.
    pub name: String,
    /// The activations, to encode with dictionaries.
    pub activations: ActivationStore,
    /// The true feature values of every row.
    pub codes: Codes,
    /// The features that it changes, ascending.
    pub planted: Vec<(u32, Planted)>,
}

/// What a generator does to a feature.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Planted {
    /// The feature is generated too rarely.
    Suppressed,
    /// The feature is generated too often.
    Exaggerated,
    /// Where the feature is in the real row, that row is copied.
    Memorised,
}

impl Planted {
    /// The name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Planted::Suppressed => "suppressed",
            Planted::Exaggerated => "exaggerated",
            Planted::Memorised => "memorised",
        }
    }
}

/// One small image per row: red, green and blue bytes, line by line from the top.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Images {
    /// Width of an image in pixels.
    pub width: usize,
    /// Height of an image in pixels.
    pub height: usize,
    /// All images, one after the other.
    pub pixels: Vec<u8>,
}

impl Images {
    /// The bytes of an image; `None` if there is no such row.
    pub fn row(&self, row: usize) -> Option<&[u8]> {
        let size = self.width * self.height * 3;
        self.pixels.get(row.checked_mul(size)?..)?.get(..size)
    }
}

/// The description of a world.
pub struct WorldCard {
    /// The name on the command line.
    pub name: &'static str,
    /// One sentence.
    pub summary: &'static str,
    /// How it is generated, complete enough to cite.
    pub definition: &'static str,
    /// Its settings.
    pub settings: &'static [Setting],
}

/// Generates one kind of world.
pub trait WorldMaker: Sync {
    /// The description.
    fn card(&self) -> &'static WorldCard;
    /// Generates the world. Long loops check whether the user has cancelled.
    fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World>;
}

/// All worlds, in the order of the documentation.
pub static WORLDS: &[&dyn WorldMaker] = &[
    &superposition::Superposition,
    &shapes::Shapes,
    &impure_codes::ImpureCodes,
    &tabular_toy::TabularToy,
    &dsprites::Dsprites,
    &shapes3d::Shapes3d,
    &blindspots::Blindspots,
];

/// A world maker by name.
pub fn find(name: &str) -> Option<&'static dyn WorldMaker> {
    WORLDS.iter().copied().find(|maker| maker.card().name == name)
}

/// Generates a world by name, with the given settings and the defaults of all others.
pub fn make(name: &str, given: &BTreeMap<String, String>, seed: u64, context: &Context) -> Result<World> {
    let maker = find(name).ok_or_else(|| {
        let known: Vec<&str> = WORLDS.iter().map(|maker| maker.card().name).collect();
        InputError::new(format!("there is no world `{name}`"))
            .advice(format!("list all worlds with {}", Command("data --list")))
            .one_of(name, &known)
    })?;
    let settings = WorldSettings::of(maker.card(), given)?;
    context.install(|| maker.make(&settings, seed, context))
}

/// The class of the task of `dsprites` by the classes of its factors: that of the paper, or that of the released program.
pub(crate) fn dsprites_task(factors: &[usize], code: bool) -> u32 {
    dsprites::task(factors, code)
}

/// The same of `shapes3d-like`, which is that of 3dshapes.
pub(crate) fn shapes3d_task(factors: &[usize], code: bool) -> u32 {
    shapes3d::task(factors, code)
}

/// Rows per random stream.
const BLOCK_ROWS: usize = 1024;

/// Every feature is a concept, which is present where the feature is above 0.
fn labels_of(codes: &Codes, names: Vec<String>, context: &Context) -> Result<Annotations> {
    let mut yes = vec![Bits::empty(codes.rows()); codes.latents()];
    for (row, features, values) in codes.all()?.iter() {
        context.check()?;
        for (&feature, _) in features.iter().zip(values).filter(|&(_, &value)| value > 0.0) {
            yes[feature as usize].insert(row);
        }
    }
    Annotations::from_yes(names, codes.rows(), yes)
}

/// Reserves memory for rows and labels of a world before it is generated.
fn reserve(rows: usize, width: usize, features: usize, budget: &Budget) -> Result<crate::context::Reservation> {
    let (rows, width, features) = (rows as u64, width as u64, features as u64);
    let bytes = rows.saturating_mul(width.saturating_mul(4).saturating_add(features / 4 + 64));
    budget.reserve(bytes, format!("a world of {rows} rows of width {width} with {features} features"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Latent;
    use crate::labels::{Concept, Label};

    /// A small world of every kind, with pairs where it can have them.
    fn small(maker: &dyn WorldMaker, seed: u64, threads: usize) -> World {
        let mut given = BTreeMap::from([("rows".to_string(), "1500".to_string())]);
        for (name, value) in [("pairs", "60"), ("hierarchy", "0.3"), ("correlation", "0.4")] {
            if maker.card().settings.iter().any(|setting| setting.name == name) {
                given.insert(name.into(), value.into());
            }
        }
        make(maker.card().name, &given, seed, &Context::silent(threads, 1 << 30).unwrap()).unwrap()
    }

    fn ids(world: &World) -> Vec<String> {
        let store = |store: &Option<ActivationStore>| store.as_ref().map_or(String::new(), |s| s.id().unwrap());
        vec![
            world.activations.id().unwrap(),
            world.codes.id().unwrap(),
            world.labels.id(),
            store(&world.directions),
            store(&world.pair_activations),
            world.pairs.as_ref().map_or(String::new(), PairSet::id),
            world.generated.iter().map(|made| made.codes.id().unwrap() + &made.activations.id().unwrap()).collect(),
        ]
    }

    #[test]
    fn every_world_is_consistent() {
        for maker in WORLDS {
            let world = small(*maker, 3, 2);
            assert_eq!(world.name, maker.card().name);
            let features = world.codes.latents();
            assert_eq!((world.activations.rows(), world.codes.rows(), world.labels.rows()), (1500, 1500, 1500));
            assert_eq!(world.labels.concepts(), features);
            for feature in 0..features as u32 {
                let fired = world.codes.columns().unwrap().fired(Latent(feature), 0.0);
                assert_eq!(&fired, world.labels.yes(Concept(feature)), "{}", world.name);
                assert_eq!(world.labels.known(Concept(feature)).count(), 1500);
            }
            if let Some(directions) = &world.directions {
                assert_eq!((directions.rows(), directions.width()), (features, world.activations.width()));
            }
            if let Some(images) = &world.images {
                assert_eq!(images.pixels.len(), 1500 * images.width * images.height * 3);
                assert!(images.row(1499).is_some() && images.row(1500).is_none());
            }
            for made in &world.generated {
                assert_eq!((made.activations.rows(), made.codes.rows(), made.codes.latents()), (1500, 1500, features));
                assert_eq!(made.activations.width(), world.activations.width());
                assert!(made.planted.windows(2).all(|pair| pair[0].0 < pair[1].0));
            }
            let Some(pairs) = &world.pairs else { continue };
            let labels = world.pair_labels.as_ref().unwrap();
            assert_eq!(pairs.pairs.len(), 60);
            assert_eq!(world.pair_activations.as_ref().unwrap().rows(), 120);
            assert_eq!(world.pair_codes.as_ref().unwrap().rows(), 120);
            pairs.check(120, features).unwrap();
            for pair in &pairs.pairs {
                for concept in (0..features as u32).map(Concept) {
                    let sides = (labels.label(pair.before, concept), labels.label(pair.after, concept));
                    let expected = match concept {
                        _ if pair.added == Some(concept) => (Label::No, Label::Yes),
                        _ if pair.removed == Some(concept) => (Label::Yes, Label::No),
                        _ => (sides.0, sides.0),
                    };
                    assert_eq!(sides, expected, "{}: {pair:?}, {concept:?}", world.name);
                }
            }
        }
    }

    #[test]
    fn worlds_depend_on_the_seed_and_not_on_threads() {
        for maker in WORLDS {
            let first = ids(&small(*maker, 3, 2));
            for threads in [1, 7] {
                assert_eq!(ids(&small(*maker, 3, threads)), first, "{}", maker.card().name);
            }
            let other = ids(&small(*maker, 4, 2));
            assert!((0..3).all(|part| other[part] != first[part]), "{}", maker.card().name);
        }
    }

    #[test]
    fn worlds_may_have_no_rows_or_one_row() {
        for maker in WORLDS {
            for rows in ["0", "1"] {
                let given = BTreeMap::from([("rows".to_string(), rows.to_string())]);
                let world = make(maker.card().name, &given, 0, &Context::silent(2, 1 << 30).unwrap()).unwrap();
                assert_eq!(world.activations.rows().to_string(), rows);
            }
        }
    }

    #[test]
    fn a_world_that_does_not_fit_is_refused() {
        for maker in WORLDS {
            let given = BTreeMap::from([("rows".to_string(), "1000000000".to_string())]);
            let error = make(maker.card().name, &given, 0, &Context::silent(1, 1 << 20).unwrap()).unwrap_err();
            assert!(matches!(error, crate::error::Error::Memory { .. }), "{error}");
        }
        let error = make("nowhere", &BTreeMap::new(), 0, &Context::silent(1, 0).unwrap()).unwrap_err();
        assert!(error.to_string().contains("superposition"));
    }

    #[test]
    fn cancelled_worlds_are_not_generated() {
        for maker in WORLDS {
            let context = Context::silent(2, 1 << 30).unwrap();
            context.cancel();
            let error = make(maker.card().name, &BTreeMap::new(), 0, &context).unwrap_err();
            assert!(matches!(error, crate::error::Error::Cancelled), "{}: {error}", maker.card().name);
        }
    }
}
