//! Worlds of images that are fully described by factors, with dependent factors: shared by `dsprites` and
//! `shapes3d-like`.

use etalon_kernel::random::{ChaCha8Rng, index, permutation, stream, unit};
use rayon::prelude::*;

use super::{Allowed, BLOCK_ROWS, Images, Setting, World, WorldSettings, labels_of, reserve};
use crate::codes::{Codes, CodesBuilder};
use crate::context::Context;
use crate::error::Result;
use crate::labels::{Concept, Factors, Pair, PairSet};
use crate::store::ActivationStore;

/// A factor: its classes, and which of them a data set uses.
pub(super) struct FactorSpec {
    pub name: &'static str,
    /// The concept: the class is below `threshold`.
    pub concept: &'static str,
    pub classes: usize,
    pub threshold: usize,
    /// Every how manieth class is used while the factor is independent, and once it depends on another.
    pub steps: [usize; 2],
    /// In the released program: the end of the lower part and the start of the upper part.
    pub parts: [usize; 2],
}

/// A family of images.
pub(super) struct Family {
    pub name: &'static str,
    pub factors: &'static [FactorSpec],
    /// The factor whose concept all others depend on, in the paper.
    pub root: usize,
    /// Channels of the activations: 1 or 3.
    pub channels: usize,
    /// Draws an image of some factors: red, green and blue bytes.
    pub render: fn(&[usize], usize, &mut [u8]),
    /// The class of the task, from the factors; true for the labels of the released program.
    pub task: fn(&[usize], bool) -> u32,
    pub tasks: u32,
    /// Whether the released program's test of the class instead of the dependent value applies to a combination:
    /// `(factor, parent class)`.
    pub slip: Option<(usize, usize)>,
}

/// The settings of a family with some number of factors that can depend on the one before.
pub(super) const fn settings(dependent: u64) -> [Setting; 7] {
    [
        Setting { name: "rows", doc: "Number of images.", default: "4000", allowed: Allowed::Whole(0, u64::MAX) },
        Setting {
            name: "side",
            doc: "Pixels on each side of an image.",
            default: "64",
            allowed: Allowed::Whole(8, 128),
        },
        Setting {
            name: "variant",
            doc: "Dependencies and task labels of the paper, or of the released program.",
            default: "paper",
            allowed: Allowed::Word(&["paper", "code"]),
        },
        Setting {
            name: "corruption",
            doc: "Share of images whose background depends on the class of the task.",
            default: "0",
            allowed: Allowed::Number(0.0, 1.0),
        },
        Setting {
            name: "pairs",
            doc: "Number of pairs that differ in one attribute.",
            default: "500",
            allowed: Allowed::Whole(0, 100_000_000),
        },
        Setting {
            name: "weak_pairs",
            doc: "Number of pairs of rows that share some but not all concepts.",
            default: "0",
            allowed: Allowed::Whole(0, 100_000_000),
        },
        Setting {
            name: "lambda",
            doc: "Number of dependent factors.",
            default: "0",
            allowed: Allowed::Whole(0, dependent),
        },
    ]
}

/// The classes of a dependent factor that go with each state of what it depends on.
struct Filter {
    factor: usize,
    /// The allowed classes by class of the factor before; in the paper by that class and the concept of the root.
    allowed: Vec<Vec<bool>>,
    by_root: bool,
}

impl Family {
    fn concept(&self, factors: &[usize], factor: usize) -> bool {
        factors[factor] < self.factors[factor].threshold
    }

    /// The filters of the first `lambda` dependent factors.
    fn filters(&self, lambda: usize, paper: bool, random: &mut ChaCha8Rng) -> Vec<Filter> {
        let filter = |factor: usize| {
            let (spec, parent) = (&self.factors[factor], &self.factors[factor - 1]);
            let grid: Vec<usize> = (0..spec.classes).step_by(spec.steps[1]).collect();
            let [lower, upper] = if paper { [3 * spec.classes / 4, spec.classes / 4] } else { spec.parts };
            let mut draw = |below: bool| {
                let part: Vec<usize> =
                    grid.iter().copied().filter(|&class| if below { class < lower } else { class >= upper }).collect();
                let mut allowed = vec![false; spec.classes];
                permutation(part.len(), random)
                    .into_iter()
                    .take(grid.len() / 2)
                    .for_each(|index| allowed[part[index]] = true);
                allowed
            };
            let states = if paper { 2 * parent.classes } else { parent.classes };
            let below = |state: usize| if paper { state % 2 == 1 } else { state < parent.threshold };
            Filter { factor, allowed: (0..states).map(|state| draw(below(state))).collect(), by_root: paper }
        };
        (1..=lambda).map(filter).collect()
    }

    fn keeps(&self, factors: &[usize], filters: &[Filter]) -> bool {
        filters.iter().all(|filter| {
            let parent = factors[filter.factor - 1];
            let root = usize::from(self.concept(factors, self.root));
            let state = if filter.by_root { 2 * parent + root } else { parent };
            match self.slip {
                Some(slip) if !filter.by_root && slip == (filter.factor, parent) => filter.allowed[state][parent],
                _ => filter.allowed[state][factors[filter.factor]],
            }
        })
    }

    /// All combinations of a data set.
    pub fn combinations(&self, lambda: usize, paper: bool, seed: u64) -> Vec<Vec<usize>> {
        let filters = self.filters(lambda, paper, &mut stream(seed, &format!("{}/sets", self.name), 0));
        let dependent = |factor: usize| filters.iter().any(|filter| filter.factor == factor);
        let mut all: Vec<Vec<usize>> = vec![Vec::new()];
        for (factor, spec) in self.factors.iter().enumerate() {
            let step = spec.steps[usize::from(dependent(factor))];
            let extend = |before: &Vec<usize>| {
                (0..spec.classes).step_by(step).map(|class| [&before[..], &[class]].concat()).collect::<Vec<_>>()
            };
            all = all.iter().flat_map(extend).collect();
        }
        all.retain(|factors| self.keeps(factors, &filters));
        all
    }

    pub fn make(&self, settings: &WorldSettings, seed: u64, context: &Context) -> Result<World> {
        let (rows, side, pairs) = (settings.whole("rows")?, settings.whole("side")?, settings.whole("pairs")?);
        let (weak, lambda) = (settings.whole("weak_pairs")?, settings.whole("lambda")?);
        let (paper, corruption) = (settings.word("variant")? == "paper", settings.number("corruption")?);
        let size = side * side * 3;
        let _memory =
            reserve(rows.saturating_add(pairs.saturating_mul(2)), size * 2, self.factors.len(), context.budget())?;
        let all = self.combinations(lambda, paper, seed);
        let order = permutation(all.len(), &mut stream(seed, &format!("{}/order", self.name), 0));
        let chosen: Vec<&Vec<usize>> = (0..rows).map(|row| &all[order[row % order.len().max(1)]]).collect();
        let code_labels = !paper;
        let mut pixels = vec![0u8; rows * size];
        pixels.par_chunks_mut((BLOCK_ROWS * size).max(1)).enumerate().try_for_each(|(block, out)| -> Result<()> {
            let mut random = stream(seed, &format!("{}/corruption", self.name), block as u64);
            for (offset, image) in out.chunks_mut(size).enumerate() {
                context.check()?;
                let factors = chosen[block * BLOCK_ROWS + offset];
                (self.render)(factors, side, image);
                if unit(&mut random) < corruption {
                    background(image, (self.task)(factors, code_labels), self.tasks);
                }
            }
            Ok(())
        })?;
        let codes = self.codes(chosen.iter().map(|factors| &factors[..]))?;
        let names = || self.factors.iter().map(|spec| spec.concept.to_string()).collect();
        let labels = labels_of(&codes, names(), context)?;
        let mut world = World::new(self.name, self.activations(&pixels, size)?, codes, labels);
        world.classes = Some(chosen.iter().map(|factors| (self.task)(factors, code_labels)).collect());
        let column = |factor: usize| chosen.iter().map(|factors| factors[factor] as i32).collect();
        let factor_names = self.factors.iter().map(|spec| spec.name.to_string()).collect();
        world.factors = Some(Factors::new(factor_names, (0..self.factors.len()).map(column).collect())?);
        world.images = Some(Images { width: side, height: side, pixels });
        world.weak_pairs = weak_pairs(&world, weak, seed);
        if pairs > 0 && !all.is_empty() {
            let made = self.pairs(&all, pairs, seed);
            let mut pixels = vec![0u8; pairs * 2 * size];
            let sides: Vec<&Vec<usize>> = made.iter().flat_map(|(before, after, _)| [before, after]).collect();
            let render = |(out, factors): (&mut [u8], &&Vec<usize>)| -> Result<()> {
                context.check()?;
                (self.render)(factors, side, out);
                Ok(())
            };
            pixels.par_chunks_mut(size.max(1)).zip(&sides).try_for_each(render)?;
            let codes = self.codes(sides.iter().map(|factors| &factors[..]))?;
            world.pair_labels = Some(labels_of(&codes, names(), context)?);
            world.pair_codes = Some(codes);
            world.pairs = Some(PairSet { pairs: made.iter().map(|(_, _, pair)| *pair).collect() });
            world.pair_activations = Some(self.activations(&pixels, size)?);
            world.pair_images = Some(Images { width: side, height: side, pixels });
        }
        Ok(world)
    }

    /// Pairs of combinations that differ in one factor, whose concept changes.
    fn pairs(&self, all: &[Vec<usize>], count: usize, seed: u64) -> Vec<(Vec<usize>, Vec<usize>, Pair)> {
        let mut random = stream(seed, &format!("{}/pairs", self.name), 0);
        let mut draw = |number: usize| {
            let before = all[index(all.len(), &mut random)].clone();
            let factor = index(self.factors.len(), &mut random);
            let (spec, had) = (&self.factors[factor], self.concept(&before, factor));
            let others = if had { spec.threshold..spec.classes } else { 0..spec.threshold };
            let mut after = before.clone();
            after[factor] = others.start + index(others.len(), &mut random);
            let concept = Some(Concept(factor as u32));
            let (added, removed) = if had { (None, concept) } else { (concept, None) };
            (before, after, Pair { before: 2 * number, after: 2 * number + 1, added, removed })
        };
        (0..count).map(&mut draw).collect()
    }

    fn codes<'a>(&self, rows: impl Iterator<Item = &'a [usize]>) -> Result<Codes> {
        let mut builder = CodesBuilder::new(self.factors.len());
        for factors in rows {
            let present: Vec<u32> = (0..factors.len())
                .filter(|&factor| self.concept(factors, factor))
                .map(|factor| factor as u32)
                .collect();
            builder.push(&present, &vec![1.0; present.len()])?;
        }
        Ok(builder.finish())
    }

    fn activations(&self, pixels: &[u8], size: usize) -> Result<ActivationStore> {
        let every = if self.channels == 1 { 3 } else { 1 };
        let values = pixels.iter().step_by(every).map(|&byte| f32::from(byte) / 255.0).collect();
        ActivationStore::from_rows(values, size / every)
    }
}

/// Pixels of 0 become a tenth of full brightness times the class, or its share of the classes if there are more than ten.
fn background(image: &mut [u8], class: u32, classes: u32) {
    let value = 255 * class / classes.max(10);
    image.iter_mut().filter(|byte| **byte == 0).for_each(|byte| *byte = value as u8);
}

/// Random pairs of rows that agree in at least one concept but not in all.
pub(super) fn weak_pairs(world: &World, count: usize, seed: u64) -> Vec<[u32; 2]> {
    let (labels, rows) = (&world.labels, world.labels.rows());
    let mut random = stream(seed, &format!("{}/weak_pairs", world.name), 0);
    let mut pairs = Vec::new();
    // A world of equal rows has no such pair.
    for _ in 0..count.saturating_mul(100) {
        if pairs.len() == count || rows < 2 {
            break;
        }
        let (one, other) = (index(rows, &mut random), index(rows, &mut random));
        let same = (0..labels.concepts() as u32)
            .filter(|&concept| labels.label(one, Concept(concept)) == labels.label(other, Concept(concept)))
            .count();
        if same > 0 && same < labels.concepts() {
            pairs.push([one as u32, other as u32]);
        }
    }
    pairs
}
