//! What is compared, how, and where the results go.

use std::path::PathBuf;

use crate::data::InputOptions;

/// A distance of images.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeasureKind {
    /// LPIPS with AlexNet or VGG16.
    #[default]
    Lpips,
    /// DISTS with VGG16.
    Dists,
    /// 1 minus the cosine of activations at a site.
    Cosine,
    /// DreamSim's ensemble.
    DreamSim,
}

impl MeasureKind {
    /// The names, for options.
    pub const NAMES: [&'static str; 4] = ["lpips", "dists", "cosine", "dreamsim"];

    /// The measure of a name.
    pub fn parse(name: &str) -> Option<MeasureKind> {
        Some(match name {
            "lpips" => MeasureKind::Lpips,
            "dists" => MeasureKind::Dists,
            "cosine" => MeasureKind::Cosine,
            "dreamsim" => MeasureKind::DreamSim,
            _ => return None,
        })
    }
}

/// Distances of images.
#[derive(Clone, Debug, Default)]
pub struct SimilarityRequest {
    /// The network: a path, a packaged name, or a name of the hub.
    pub model: String,
    /// The images: a path or a packaged name.
    pub input: String,
    /// The distance.
    pub measure: MeasureKind,
    /// A file with the weights of LPIPS or DISTS, if they are not in the file of the network.
    pub heads: Option<PathBuf>,
    /// The site of a cosine.
    pub site: Option<String>,
    /// Resize images of LPIPS and DISTS to this many pixels per side.
    pub size: Option<usize>,
    /// A row per image: a new store of vectors.
    pub store: Option<PathBuf>,
    /// The matrix of all distances: a new `.npy` file.
    pub distances: Option<PathBuf>,
    /// A table of pairs and a new table with their distances.
    pub pairs: Option<(PathBuf, PathBuf)>,
    /// How the input is read.
    pub options: InputOptions,
}
