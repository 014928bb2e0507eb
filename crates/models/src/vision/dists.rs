//! DISTS: a distance of images by the structure and texture of features, as in the package `DISTS_pytorch`.

use etalon::context::{Budget, Context};
use etalon::error::{InputError, Key, Result};
use etalon::network::{Layout, Network, SiteId, Tap};
use rayon::prelude::*;

use super::convnet::ConvNet;
use super::features::{Pooling, Stack};
use super::lpips::scaled;
use crate::weights::{Model, Weights};

/// Mean and standard deviation of ImageNet.
const MEAN: [f32; 3] = [0.485, 0.456, 0.406];
const DEVIATION: [f32; 3] = [0.229, 0.224, 0.225];

/// Keeps quotients defined where a channel is constant.
const EPS: f64 = 1e-6;

/// The distance DISTS: VGG16 whose max-pooling is replaced by a smooth one. Means of channels are compared as texture,
/// covariances as structure; the image itself counts as a layer. The distance does not factor into vectors of images.
#[derive(Debug)]
pub struct Dists {
    network: ConvNet,
    sites: Vec<SiteId>,
    /// Weights of texture and structure per channel, layer by layer; all together sum to 1.
    weights: Vec<[f64; 2]>,
}

impl Dists {
    /// Opens VGG16 and the weights `alpha` and `beta`, which may be in the same file or in `heads`.
    pub fn open(model: &Model, heads: Option<&Weights>, budget: &Budget) -> Result<Dists> {
        let Some(stack) = Stack::of(&model.weights).filter(|stack| *stack == Stack::Vgg16) else {
            return Err(InputError::new("the file has no network for DISTS")
                .expected("the convolutions of VGG16")
                .advice("use the weights of torchvision")
                .into());
        };
        let network = stack.open(model, Pooling::Root, budget)?;
        let sites = stack.tapped(&network);
        let width = |site: &SiteId| network.sites.get(site.0 as usize).map_or(0, |site| site.width);
        let channels = 3 + sites.iter().map(width).sum::<usize>();
        let heads = heads.unwrap_or(&model.weights);
        if !heads.has("alpha") && !heads.has("beta") {
            return Err(InputError::new("the weights of DISTS are missing")
                .expected("tensors `alpha` and `beta`")
                .advice(format!("name their file, `weights.pt` of DISTS_pytorch, with {}", Key("heads FILE")))
                .into());
        }
        let [alpha, beta] = ["alpha", "beta"].map(|name| heads.tensor(name, &[1, channels, 1, 1]));
        let pairs: Vec<[f64; 2]> =
            alpha?.iter().zip(&beta?).map(|(alpha, beta)| [f64::from(*alpha), f64::from(*beta)]).collect();
        let sum: f64 = pairs.iter().flatten().sum();
        if sum == 0.0 {
            return Err(InputError::new("the weights of DISTS sum to 0").at("tensors `alpha` and `beta`").into());
        }
        let weights = pairs.into_iter().map(|pair| pair.map(|weight| weight / sum)).collect();
        Ok(Dists { network, sites, weights })
    }

    /// Positions and channels of every layer for images of this size; the image is the first.
    fn layers(&self, height: usize, width: usize) -> Option<Vec<[usize; 2]>> {
        let layer = |site: &SiteId| {
            let layout = self.network.layout_at(*site, 1, height, width)?;
            Some([layout.rows, layout.width])
        };
        std::iter::once(Some([height * width, 3])).chain(self.sites.iter().map(layer)).collect()
    }

    /// Values per image of this size, as [`Dists::features`] returns them.
    pub fn width(&self, height: usize, width: usize) -> Option<usize> {
        Some(self.layers(height, width)?.iter().map(|[rows, channels]| rows * channels).sum())
    }

    /// What is compared of every image, a row for each: the image, in the range 0 to 1, and all layers.
    pub fn features(&self, images: &[f32], height: usize, width: usize, context: &Context) -> Result<Vec<f32>> {
        let mut state = self.network.start(scaled(images, MEAN, DEVIATION), height, width, context)?;
        let Some(values) = self.width(height, width) else {
            return Err(InputError::new("the images are too small for DISTS")
                .found(format!("{width} × {height}"))
                .into());
        };
        let samples = state.layout.samples;
        let _memory = context.budget().reserve(4 * (samples * values) as u64, "the features of the images")?;
        let mut features = Features { dists: self, values, done: 0, out: vec![0.0; samples * values] };
        features.add(height * width * 3, images);
        self.network.run(0..self.network.stages(), &mut state, &mut features, context)?;
        Ok(features.out)
    }

    /// The distance of two images of this size by their features.
    pub fn distance(&self, a: &[f32], b: &[f32], height: usize, width: usize) -> f64 {
        let (mut start, mut channel, mut sum) = (0, 0, 0.0);
        for [rows, channels] in self.layers(height, width).unwrap_or_default() {
            let range = start..start + rows * channels;
            if let (Some(a), Some(b), Some(weights)) =
                (a.get(range.clone()), b.get(range.clone()), self.weights.get(channel..channel + channels))
            {
                sum += similarity(a, b, channels, weights);
            }
            (start, channel) = (range.end, channel + channels);
        }
        1.0 - sum
    }

    /// The distance of every image of `a` and the image of `b` with the same index. Images are in the range 0 to 1.
    pub fn distances(&self, a: &[f32], b: &[f32], height: usize, width: usize, context: &Context) -> Result<Vec<f64>> {
        if a.len() != b.len() {
            return Err(InputError::new("DISTS compares images of equal number and size")
                .expected(format!("{} values", a.len()))
                .found(format!("{} values", b.len()))
                .into());
        }
        // Both halves of the batch are in memory when a layer is compared.
        let images = [a, b].concat();
        let mut state = self.network.start(scaled(&images, MEAN, DEVIATION), height, width, context)?;
        let pairs = state.layout.samples / 2;
        let mut comparison = Comparison { dists: self, channel: 0, similarities: vec![0.0; pairs] };
        comparison.compare(state.layout, &images);
        self.network.run(0..self.network.stages(), &mut state, &mut comparison, context)?;
        Ok(comparison.similarities.iter().map(|similarity| 1.0 - similarity).collect())
    }
}

/// Adds up the similarities of pairs, layer by layer.
struct Comparison<'a> {
    dists: &'a Dists,
    /// Channels of the layers so far.
    channel: usize,
    similarities: Vec<f64>,
}

impl Comparison<'_> {
    /// A layer: the features of all first images, then those of all second images.
    fn compare(&mut self, layout: Layout, rows: &[f32]) {
        let size = layout.rows * layout.width;
        let (a, b) = rows.split_at(rows.len() / 2);
        let weights = &self.dists.weights[self.channel..][..layout.width];
        let pairs = a.par_chunks(size).zip(b.par_chunks(size)).zip(&mut self.similarities);
        pairs.for_each(|((a, b), sum)| *sum += similarity(a, b, layout.width, weights));
        self.channel += layout.width;
    }
}

impl Tap for Comparison<'_> {
    fn wants(&self, site: SiteId) -> bool {
        self.dists.sites.contains(&site)
    }

    fn visit(&mut self, _: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        self.compare(layout, rows);
        Ok(())
    }
}

/// Copies the features of every image as they are computed.
struct Features<'a> {
    dists: &'a Dists,
    /// Values per image.
    values: usize,
    /// Values per image of the layers so far.
    done: usize,
    out: Vec<f32>,
}

impl Features<'_> {
    /// Adds a layer with this many values per image.
    fn add(&mut self, size: usize, rows: &[f32]) {
        let images = self.out.chunks_mut(self.values).zip(rows.chunks_exact(size));
        images.for_each(|(out, rows)| out[self.done..][..size].copy_from_slice(rows));
        self.done += size;
    }
}

impl Tap for Features<'_> {
    fn wants(&self, site: SiteId) -> bool {
        self.dists.sites.contains(&site)
    }

    fn visit(&mut self, _: SiteId, layout: Layout, rows: &mut [f32]) -> Result<()> {
        self.add(layout.rows * layout.width, rows);
        Ok(())
    }
}

/// The weighted similarity of two maps, over all channels.
fn similarity(a: &[f32], b: &[f32], channels: usize, weights: &[[f64; 2]]) -> f64 {
    let count = (a.len() / channels.max(1)) as f64;
    let rows = || a.chunks_exact(channels).zip(b.chunks_exact(channels));
    let mut means = vec![[0.0f64; 2]; channels];
    for (a, b) in rows() {
        means.iter_mut().zip(a.iter().zip(b)).for_each(|(mean, (a, b))| {
            *mean = [mean[0] + f64::from(*a) / count, mean[1] + f64::from(*b) / count];
        });
    }
    // Variances and covariance, around the means: a difference of large sums would cancel.
    let mut moments = vec![[0.0f64; 3]; channels];
    for (a, b) in rows() {
        for ((moments, mean), (a, b)) in moments.iter_mut().zip(&means).zip(a.iter().zip(b)) {
            let (a, b) = (f64::from(*a) - mean[0], f64::from(*b) - mean[1]);
            *moments = [moments[0] + a * a / count, moments[1] + b * b / count, moments[2] + a * b / count];
        }
    }
    let channel = |((mean, moments), weight): ((&[f64; 2], &[f64; 3]), &[f64; 2])| {
        let texture = (2.0 * mean[0] * mean[1] + EPS) / (mean[0] * mean[0] + mean[1] * mean[1] + EPS);
        let structure = (2.0 * moments[2] + EPS) / (moments[0] + moments[1] + EPS);
        weight[0] * texture + weight[1] * structure
    };
    means.iter().zip(&moments).zip(weights).map(channel).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_channel_by_hand() {
        // Means 2 and 3, variances 1 and 4, covariance 2: texture 12 / 13, structure 4 / 5.
        let found = similarity(&[1.0, 3.0], &[1.0, 5.0], 1, &[[0.25, 0.75]]);
        assert!((found - (0.25 * 12.0 / 13.0 + 0.75 * 4.0 / 5.0)).abs() < 1e-6);
        // Equal maps, also constant ones, have similarity 1.
        assert!(
            (similarity(&[2.0, 2.0, 0.0, 1.0], &[2.0, 2.0, 0.0, 1.0], 2, &[[0.1, 0.2], [0.3, 0.4]]) - 1.0).abs()
                < 1e-12
        );
    }
}
