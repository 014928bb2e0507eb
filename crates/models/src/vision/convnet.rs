//! Networks of convolutions: stages of layers, with named sites.

use std::ops::Range;

use etalon::context::{Context, Reservation};
use etalon::error::{Error, InputError, Result};
use etalon::network::{Batch, Layout, Network, NetworkCard, Site, SiteId, State, Tap};

use super::unit::{Place, Unit};
use crate::layer::{MapShape, Pool, mean_positions};

/// A layer of a stage.
#[derive(Clone, Debug)]
pub(super) enum Layer {
    Unit(Unit),
    Pool(Pool, SiteId),
    /// The mean over all positions.
    Mean(SiteId),
}

/// What is added to the result of the last convolution of a stage.
#[derive(Clone, Debug)]
pub(super) enum Shortcut {
    None,
    /// The input of the stage.
    Input,
    /// A convolution of the input.
    Unit(Box<Unit>),
}

/// Layers one after the other, with a shortcut from the first to the last.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub layers: Vec<Layer>,
    pub shortcut: Shortcut,
}

/// A network of convolutions.
pub struct ConvNet {
    pub(super) card: NetworkCard,
    pub(super) sites: Vec<Site>,
    pub(super) stages: Vec<Stage>,
    pub(super) memory: Reservation,
}

impl std::fmt::Debug for ConvNet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} with {} stages, {} bytes", self.card.family, self.stages.len(), self.memory.bytes())
    }
}

/// Values of a map of the samples that pass through a stage together, per thread: 2 MB.
const CACHED: usize = 1 << 19;

impl Layer {
    fn sites(&self) -> [Option<SiteId>; 4] {
        match self {
            Layer::Unit(unit) => unit.sites.all(),
            Layer::Pool(_, site) | Layer::Mean(site) => [Some(*site), None, None, None],
        }
    }

    fn shape(&self, from: Place) -> Option<Place> {
        let shape = match self {
            Layer::Unit(unit) => unit.shape(from.shape)?,
            Layer::Pool(pool, _) => pool.shape(from.shape)?,
            Layer::Mean(_) => MapShape { height: 1, width: 1, ..from.shape },
        };
        Some(Place { shape, pooled: from.pooled || matches!(self, Layer::Mean(_)) })
    }

    fn scratch(&self, map: MapShape) -> usize {
        match self {
            Layer::Unit(unit) => unit.scratch(map),
            Layer::Pool(pool, _) => pool.scratch(map),
            Layer::Mean(_) => 0,
        }
    }

    fn run(
        &self,
        (x, map): (&[f32], MapShape),
        shortcut: Option<&[f32]>,
        (out, to): (&mut [f32], Place),
        tap: &mut dyn Tap,
    ) -> Result<()> {
        let site = match self {
            Layer::Unit(unit) => return unit.run((x, map), shortcut, (out, to), tap),
            Layer::Pool(pool, site) => {
                pool.apply(x, map, out);
                *site
            }
            Layer::Mean(site) => {
                mean_positions(x, map, out);
                *site
            }
        };
        if tap.wants(site) { tap.visit(site, to.layout(), out) } else { Ok(()) }
    }
}

/// A buffer for some values: the smallest one that is large enough, or a new one. New ones are zeroed by the system when
/// they are written first.
fn take(buffers: &mut Vec<Vec<f32>>, values: usize) -> Vec<f32> {
    let fitting = buffers.iter().enumerate().filter(|(_, buffer)| buffer.capacity() >= values);
    match fitting.min_by_key(|(index, buffer)| (buffer.capacity(), *index)).map(|(index, _)| index) {
        Some(index) => {
            let mut buffer = buffers.swap_remove(index);
            buffer.resize(values, 0.0);
            buffer
        }
        None => {
            // One that is too small makes room for the new one.
            buffers.pop();
            vec![0.0; values]
        }
    }
}

impl Stage {
    /// Runs the stage. Where no site is read, a few samples at a time pass through all layers while their maps
    /// are in the cache.
    fn run(&self, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<()> {
        let State { values, layout, scratch, .. } = state;
        let start = Place::of(*layout);
        let (end, largest, _) = self.sizes(start).ok_or_else(too_small)?;
        let mut out = take(scratch, end.shape.values());
        let samples = start.shape.samples.max(1);
        let together = CACHED * context.threads() * samples / largest.max(1);
        let together = if self.sites().any(|site| tap.wants(site)) { samples } else { together.clamp(1, samples) };
        let [from, to] = [start, end].map(|place| (place.shape.values() / samples * together).max(1));
        for (x, out) in values.chunks(from).zip(out.chunks_mut(to)) {
            let samples = x.len() * samples / values.len().max(1);
            let start = Place { shape: MapShape { samples, ..start.shape }, ..start };
            self.part((x, start), out, scratch, tap, context)?;
        }
        scratch.push(std::mem::replace(values, out));
        *layout = end.layout();
        Ok(())
    }

    /// Runs the stage for some samples.
    fn part(
        &self,
        (x, start): (&[f32], Place),
        out: &mut [f32],
        scratch: &mut Vec<Vec<f32>>,
        tap: &mut dyn Tap,
        context: &Context,
    ) -> Result<()> {
        let mut added = None;
        if let Shortcut::Unit(unit) = &self.shortcut {
            let to = Place { shape: unit.shape(start.shape).ok_or_else(too_small)?, ..start };
            let sum = added.insert(take(scratch, to.shape.values()));
            unit.run((x, start.shape), None, (sum, to), tap)?;
        }
        let shortcut = match &self.shortcut {
            Shortcut::None => None,
            Shortcut::Input => Some(x),
            Shortcut::Unit(_) => added.as_deref(),
        };
        let (mut current, mut place): (Option<Vec<f32>>, Place) = (None, start);
        for (index, layer) in self.layers.iter().enumerate() {
            context.check()?;
            let to = layer.shape(place).ok_or_else(too_small)?;
            let from = (current.as_deref().unwrap_or(x), place.shape);
            if index + 1 == self.layers.len() {
                layer.run(from, shortcut, (out, to), tap)?;
            } else {
                let mut next = take(scratch, to.shape.values());
                layer.run(from, None, (&mut next, to), tap)?;
                scratch.extend(current.replace(next));
            }
            place = to;
        }
        scratch.extend(current);
        scratch.extend(added);
        Ok(())
    }

    /// All sites of the stage.
    fn sites(&self) -> impl Iterator<Item = SiteId> {
        let shortcut = match &self.shortcut {
            Shortcut::Unit(unit) => unit.sites.all(),
            Shortcut::None | Shortcut::Input => [None; 4],
        };
        let layers = self.layers.iter().flat_map(Layer::sites);
        shortcut.into_iter().chain(layers).flatten()
    }

    /// The result of the stage, the values of the largest map in it, and those that layers allocate.
    fn sizes(&self, from: Place) -> Option<(Place, usize, usize)> {
        let (mut place, mut largest, mut allocated) = (from, from.shape.values(), 0);
        if let Shortcut::Unit(unit) = &self.shortcut {
            largest = largest.max(unit.shape(from.shape)?.values());
        }
        for layer in &self.layers {
            allocated = allocated.max(layer.scratch(place.shape));
            place = layer.shape(place)?;
            largest = largest.max(place.shape.values());
        }
        Some((place, largest, allocated))
    }
}

fn too_small() -> InputError {
    InputError::new("the images are too small for the network: a map is smaller than a window")
        .advice("use larger images, or sites of earlier layers")
}

/// Maps that exist at a time: input, shortcut, and what a layer reads and writes.
const MAPS: usize = 4;

impl ConvNet {
    /// The state before the first stage, for images that are prepared.
    pub(super) fn start(&self, images: Vec<f32>, height: usize, width: usize, context: &Context) -> Result<State> {
        let pixels = 3 * height * width;
        if pixels == 0 || images.is_empty() || !images.len().is_multiple_of(pixels) {
            return Err(Error::Bug(format!("{} values in images of {width} × {height}", images.len())));
        }
        let shape = MapShape { samples: images.len() / pixels, height, width, channels: 3 };
        let start = Place { shape, pooled: false };
        let (mut place, mut largest, mut allocated) = (start, 0, 0);
        for (index, stage) in self.stages.iter().enumerate() {
            let sizes = match stage.sizes(place) {
                Some(sizes) => sizes,
                None if index == 0 => return Err(too_small().found(format!("{width} × {height} pixels")).into()),
                // The first stages may be all that is wanted.
                None => break,
            };
            (place, largest, allocated) = (sizes.0, largest.max(sizes.1), allocated.max(sizes.2));
        }
        State::new(images, start.layout(), MAPS * largest + allocated, context)
    }

    /// The layout at a site, for images of this size.
    pub(super) fn layout_at(&self, site: SiteId, samples: usize, height: usize, width: usize) -> Option<Layout> {
        let stage = self.sites.get(site.0 as usize)?.stage;
        let mut place = Place { shape: MapShape { samples, height, width, channels: 3 }, pooled: false };
        for earlier in self.stages.get(..stage)? {
            place = earlier.sizes(place)?.0;
        }
        for layer in &self.stages.get(stage)?.layers {
            place = layer.shape(place)?;
            if layer.sites().contains(&Some(site)) {
                return Some(place.layout());
            }
        }
        None
    }
}

impl Network for ConvNet {
    fn card(&self) -> &NetworkCard {
        &self.card
    }

    fn sites(&self) -> &[Site] {
        &self.sites
    }

    fn stages(&self) -> usize {
        self.stages.len()
    }

    fn begin(&self, batch: &Batch<'_>, context: &Context) -> Result<State> {
        let Batch::Images { values, height, width } = *batch else {
            return Err(InputError::new("a network of images cannot run on texts").expected("images").into());
        };
        self.start(values.to_vec(), height, width, context)
    }

    fn run(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<()> {
        let stages = self.stages.get(stages).ok_or_else(|| Error::Bug("stages out of range".into()))?;
        stages.iter().try_for_each(|stage| stage.run(state, tap, context))
    }
}
