//! The distances: a vector for every image, and a distance of two vectors.

use std::path::Path;
use std::sync::Arc;

use etalon::context::Context;
use etalon::error::{Error, InFile, InputError, Key, Result};
use etalon::network::{Batch, Capture, Network, SiteId, find_sites};
use etalon_kernel::product::dot;

use super::request::{MeasureKind, SimilarityRequest};
use crate::data::resolve;
use crate::image::{Filter, Preprocess, Resize};
use crate::open::{Tower, open};
use crate::preprocessing::preprocessing;
use crate::vision::{Dists, DreamSim, Lpips};
use crate::weights::Model;

/// A distance of images.
pub(super) enum Measure {
    Lpips(Lpips),
    Dists(Dists),
    Cosine(Arc<dyn Network>, SiteId),
    DreamSim(DreamSim),
}

impl Measure {
    /// Opens the network of a request; returns how its images are prepared, too.
    pub fn open(request: &SimilarityRequest, context: &Context) -> Result<(Measure, Preprocess)> {
        check_options(request)?;
        let path = resolve(&request.model, request.options.cache.as_deref())?;
        if request.measure == MeasureKind::Cosine {
            return cosine(request, &path, context);
        }
        if request.measure == MeasureKind::DreamSim {
            return dreamsim(&path, context);
        }
        let budget = context.budget();
        let model = Model::open(&path, budget)?;
        let heads = request.heads.as_deref().map(|heads| Model::open(heads, budget)).transpose()?;
        let heads = heads.as_ref().map(|heads| &heads.weights);
        let resize = request.size.map_or(Resize::None, |side| Resize::Exact { width: side, height: side });
        let unit = Preprocess::unit(resize);
        let opened = context.install(|| {
            Ok(if request.measure == MeasureKind::Lpips {
                // The package `lpips` has images from -1 to 1.
                let centred = Preprocess { mean: [0.5; 3], std: [0.5; 3], ..unit };
                (Measure::Lpips(Lpips::open(&model, heads, budget)?), centred)
            } else {
                (Measure::Dists(Dists::open(&model, heads, budget)?), unit)
            })
        });
        opened.in_file(&path)
    }

    /// Values per image of this size; `None` if the image is too small.
    pub fn width(&self, height: usize, width: usize) -> Option<usize> {
        match self {
            Measure::Lpips(lpips) => lpips.width(height, width),
            Measure::Dists(dists) => dists.width(height, width),
            Measure::Cosine(network, site) => network.sites().get(site.0 as usize).map(|site| site.width),
            Measure::DreamSim(ensemble) => Some(ensemble.width()),
        }
    }

    /// A vector for every image; those of a cosine have length 1, or are zero.
    pub fn embed(&self, images: &[f32], height: usize, width: usize, context: &Context) -> Result<Vec<f32>> {
        match self {
            Measure::Lpips(lpips) => lpips.embed(images, height, width, context),
            Measure::Dists(dists) => dists.features(images, height, width, context),
            Measure::Cosine(network, site) => unit_rows(&**network, *site, images, [height, width], context),
            Measure::DreamSim(ensemble) => ensemble.embed(images, context),
        }
    }

    /// Whether distances follow from products of vectors.
    pub fn factors(&self) -> bool {
        !matches!(self, Measure::Dists(_))
    }

    /// A distance from the squared lengths of two vectors and their product.
    pub fn of_products(&self, [a, b]: [f64; 2], product: f64) -> f64 {
        match self {
            Measure::Cosine(..) | Measure::DreamSim(_) => (1.0 - product).clamp(0.0, 2.0),
            Measure::Lpips(_) | Measure::Dists(_) => (a + b - 2.0 * product).max(0.0),
        }
    }

    /// The distance of two vectors.
    pub fn distance(&self, a: &[f32], b: &[f32], height: usize, width: usize) -> f64 {
        match self {
            Measure::Dists(dists) => dists.distance(a, b, height, width),
            // Equal images have the distance 0, not its rounding error.
            Measure::Cosine(..) | Measure::DreamSim(_) if a == b => 0.0,
            Measure::Cosine(..) | Measure::DreamSim(_) => (1.0 - dot(a, b)).clamp(0.0, 2.0),
            Measure::Lpips(_) => a.iter().zip(b).map(|(a, b)| (f64::from(*a) - f64::from(*b)).powi(2)).sum(),
        }
    }
}

/// Refuses options that belong to another measure.
fn check_options(request: &SimilarityRequest) -> Result<()> {
    let cosine = request.measure == MeasureKind::Cosine;
    let refuse = |what: String| Err(InputError::new(what).advice("leave it out, or choose another measure").into());
    match request.measure {
        MeasureKind::Cosine | MeasureKind::DreamSim if request.heads.is_some() => {
            refuse(format!("{} belongs to LPIPS and DISTS", Key("heads")))
        }
        MeasureKind::Cosine | MeasureKind::DreamSim if request.size.is_some() => refuse(format!(
            "{} belongs to LPIPS and DISTS: the other measures have the image size of their network",
            Key("size")
        )),
        _ if !cosine && request.site.is_some() => {
            refuse(format!("{} belongs to {}", Key("site"), Key("measure cosine")))
        }
        MeasureKind::Dists if request.store.is_some() && request.pairs.is_none() => {
            Err(InputError::new("DISTS is no distance of vectors, so it has no store")
                .advice(format!("write distances with {} or {}", Key("distances FILE.npy"), Key("pairs FILE.csv")))
                .into())
        }
        _ => Ok(()),
    }
}

/// DreamSim's ensemble in a directory; images are resized as Pillow does, whatever their shape.
fn dreamsim(path: &Path, context: &Context) -> Result<(Measure, Preprocess)> {
    let ensemble = context.install(|| DreamSim::open(path, context.budget()))?;
    let resize = Resize::Exact { width: ensemble.side(), height: ensemble.side() };
    let preprocess = Preprocess { filter: Filter::Bicubic, ..Preprocess::unit(resize) };
    Ok((Measure::DreamSim(ensemble), preprocess))
}

fn cosine(request: &SimilarityRequest, path: &Path, context: &Context) -> Result<(Measure, Preprocess)> {
    let network = context.install(|| open(path, Tower::Main, context.budget()))?;
    if network.card().vocabulary > 0 {
        return Err(InputError::new("the network reads texts")
            .expected("a network of images")
            .found(network.card().family)
            .file(path)
            .into());
    }
    let Some(pattern) = &request.site else {
        return Err(InputError::new(format!("{} needs a site", Key("measure cosine")))
            .advice(format!("choose one with {}", Key("site")))
            .into());
    };
    let sites = find_sites(network.sites(), pattern)?;
    let [site] = sites[..] else {
        let found = format!("{} sites", sites.len());
        return Err(InputError::new("a cosine needs one site").expected("the name of one site").found(found).into());
    };
    let preprocess = preprocessing(path, network.card())?;
    Ok((Measure::Cosine(network, site), preprocess))
}

/// Activations at a site, one row per image: its class token if it has one, else the mean over positions; of length 1.
fn unit_rows(
    network: &dyn Network,
    site: SiteId,
    images: &[f32],
    [height, width]: [usize; 2],
    context: &Context,
) -> Result<Vec<f32>> {
    let stages = network.sites().get(site.0 as usize).map_or(0, |site| site.stage + 1);
    let mut capture = Capture::new(&[site]);
    let mut state = network.begin(&Batch::Images { values: images, height, width }, context)?;
    network.run(0..stages, &mut state, &mut capture, context)?;
    let Some((layout, values)) = capture.of(site) else {
        return Err(Error::Bug("a site that was not visited".into()));
    };
    let of_image = |rows: &[f32]| -> Vec<f32> {
        let mut row = vec![0.0f64; layout.width];
        let used = if layout.grid.is_some_and(|grid| grid.prefix > 0) { 1 } else { layout.rows };
        for position in rows.chunks_exact(layout.width).take(used) {
            row.iter_mut().zip(position).for_each(|(sum, value)| *sum += f64::from(*value));
        }
        let length = row.iter().map(|value| value * value).sum::<f64>().sqrt();
        let scale = if length > 0.0 { 1.0 / length } else { 0.0 };
        row.into_iter().map(|value| (value * scale) as f32).collect()
    };
    Ok(values.chunks_exact(layout.rows * layout.width).flat_map(of_image).collect())
}
