//! DreamSim's ensemble: three vision transformers whose vectors are put together, with low-rank changes of their
//! projections of queries, keys and values.
//!
//! A directory has what DreamSim downloads:
//!
//! | file | network | vector |
//! |---|---|---|
//! | `dino_vitbase16_pretrain.pth`, also in `checkpoints` or `hub/checkpoints` | DINO | the class token after the last block |
//! | `clip_vitb16_pretrain.pth.tar` | OpenAI's CLIP | the projection of the class token |
//! | `open_clip_vitb16_pretrain.pth.tar` | OpenCLIP | the same |
//! | `ensemble_lora/adapter_config.json`, `adapter_model.safetensors` or `.bin` | the changes, in the format of PEFT | |

use std::path::{Path, PathBuf};

use etalon::context::{Budget, Context};
use etalon::error::{Error, InFile, InputError, Result};
use etalon::input::{Tensor, TensorFile, Tensors};
use etalon::network::{Batch, Capture, Network, SiteId, find_sites};
use etalon_kernel::product::dot;
use serde_json::{Map, Value, json};

use super::adapter::Adapter;
use super::{VisionTransformer, timm};
use crate::image::{CLIP_MEAN, CLIP_STD, IMAGENET_MEAN, IMAGENET_STD};
use crate::weights::Model;

/// A network of the ensemble, as DreamSim publishes it.
struct BranchCard {
    files: &'static [&'static str],
    /// How the file names its tensors.
    prefix: &'static str,
    activation: &'static str,
    eps: f64,
    /// Whether the vector is the projection of the class token after the last norm; otherwise the token before it.
    projected: bool,
    mean: [f64; 3],
    std: [f64; 3],
    advice: &'static str,
}

const UNPACK: &str = "unpack dreamsim_ensemble_checkpoint.zip into the directory";

const BRANCHES: [BranchCard; 3] = [
    BranchCard {
        files: &[
            "dino_vitbase16_pretrain.pth",
            "checkpoints/dino_vitbase16_pretrain.pth",
            "hub/checkpoints/dino_vitbase16_pretrain.pth",
            "dino_vitbase16_pretrain.safetensors",
        ],
        prefix: "",
        activation: "gelu",
        eps: 1e-6,
        projected: false,
        mean: IMAGENET_MEAN,
        std: IMAGENET_STD,
        advice: "copy the file of DINO ViT-B/16 into the directory; torch.hub keeps it in `checkpoints`",
    },
    BranchCard {
        files: &["clip_vitb16_pretrain.pth.tar", "clip_vitb16_pretrain.safetensors"],
        prefix: "state_dict.",
        activation: "quick_gelu",
        eps: 1e-5,
        projected: true,
        mean: CLIP_MEAN,
        std: CLIP_STD,
        advice: UNPACK,
    },
    BranchCard {
        files: &["open_clip_vitb16_pretrain.pth.tar", "open_clip_vitb16_pretrain.safetensors"],
        prefix: "state_dict.",
        activation: "gelu",
        eps: 1e-5,
        projected: true,
        mean: CLIP_MEAN,
        std: CLIP_STD,
        advice: UNPACK,
    },
];

/// A network of the ensemble, ready to run.
struct Branch {
    network: VisionTransformer,
    site: SiteId,
    card: &'static BranchCard,
}

/// The ensemble. Images have values from 0 to 1.
pub struct DreamSim {
    branches: Vec<Branch>,
    side: usize,
    width: usize,
}

impl DreamSim {
    /// Opens the directory of an ensemble.
    pub fn open(directory: &Path, budget: &Budget) -> Result<DreamSim> {
        let adapter = Adapter::open(&directory.join("ensemble_lora"), budget)?;
        let mut branches = Vec::new();
        for (index, card) in BRANCHES.iter().enumerate() {
            let path = file(directory, card)?;
            let network = network(&path, index, card, &adapter, budget).in_file(&path)?;
            let name = match card.projected {
                true => "head".to_string(),
                false => format!("blocks.{}.hook_resid_post", network.card().layers.saturating_sub(1)),
            };
            let site = find_sites(network.sites(), &name)?.first().copied();
            let site = site.ok_or_else(|| Error::Bug(format!("a vision transformer without `{name}`")))?;
            branches.push(Branch { network, site, card });
        }
        adapter.refuse_unused()?;
        let sides: Vec<usize> = branches.iter().map(|branch| branch.network.card().context).collect();
        let side = sides.first().copied().unwrap_or(0);
        if let Some(other) = sides.iter().find(|other| **other != side) {
            return Err(InputError::new("the networks of the ensemble have images of different sizes")
                .expected(format!("{side} × {side} pixels"))
                .found(format!("{other} × {other} pixels"))
                .file(directory)
                .into());
        }
        let width = branches.iter().map(|branch| branch.network.sites()[branch.site.0 as usize].width).sum();
        Ok(DreamSim { branches, side, width })
    }

    /// Pixels per side of the images.
    pub fn side(&self) -> usize {
        self.side
    }

    /// Values per vector.
    pub fn width(&self) -> usize {
        self.width
    }

    /// A vector for every image: those of the networks one after the other, minus their mean, of length 1. The distance of two
    /// images is 1 minus the product of their vectors.
    pub fn embed(&self, images: &[f32], context: &Context) -> Result<Vec<f32>> {
        let samples = images.len() / (self.side * self.side * 3).max(1);
        let mut vectors = vec![0f32; samples * self.width];
        let mut first = 0;
        for branch in &self.branches {
            let found = branch.vectors(images, self.side, context)?;
            let width = found.len().checked_div(samples).unwrap_or(0);
            for (vector, part) in vectors.chunks_exact_mut(self.width).zip(found.chunks_exact(width.max(1))) {
                vector[first..first + width].copy_from_slice(part);
            }
            first += width;
        }
        vectors.chunks_exact_mut(self.width.max(1)).for_each(normalise);
        Ok(vectors)
    }
}

/// Subtracts the mean of a vector and divides by its length.
fn normalise(vector: &mut [f32]) {
    let mean = vector.iter().map(|value| f64::from(*value)).sum::<f64>() / vector.len().max(1) as f64;
    vector.iter_mut().for_each(|value| *value = (f64::from(*value) - mean) as f32);
    let length = dot(vector, vector).sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
    }
}

impl Branch {
    /// The vectors of images.
    fn vectors(&self, images: &[f32], side: usize, context: &Context) -> Result<Vec<f32>> {
        let (mean, std) = (self.card.mean.map(|value| value as f32), self.card.std.map(|value| value as f32));
        let values: Vec<f32> =
            images.chunks_exact(3).flat_map(|pixel| [0, 1, 2].map(|c| (pixel[c] - mean[c]) / std[c])).collect();
        let network = &self.network;
        let stages = network.sites()[self.site.0 as usize].stage + 1;
        let mut capture = Capture::new(&[self.site]);
        let mut state = network.begin(&Batch::Images { values: &values, height: side, width: side }, context)?;
        network.run(0..stages, &mut state, &mut capture, context)?;
        let Some((layout, rows)) = capture.of(self.site) else {
            return Err(Error::Bug("a site that was not visited".into()));
        };
        // The class token is the first row.
        Ok(rows.chunks_exact(layout.rows * layout.width).flat_map(|rows| &rows[..layout.width]).copied().collect())
    }
}

/// The file of a network.
fn file(directory: &Path, card: &BranchCard) -> Result<PathBuf> {
    let candidates = card.files.iter().map(|name| directory.join(name));
    candidates.clone().find(|path| path.is_file()).ok_or_else(|| {
        InputError::new("a part of DreamSim's ensemble is missing")
            .expected(card.files.join(", or "))
            .advice(card.advice)
            .file(directory)
            .into()
    })
}

/// Reads a network with the names of timm: the norm before the blocks is in the place of a dropout, and the projection is
/// stored as the right factor of a product.
fn network(
    path: &Path,
    index: usize,
    card: &BranchCard,
    adapter: &Adapter,
    budget: &Budget,
) -> Result<VisionTransformer> {
    let file = TensorFile::open(path, budget)?;
    // A file that was converted has the tensors without the dictionary around them.
    let prefix = if file.names().any(|name| name.starts_with(card.prefix)) { card.prefix } else { "" };
    let names: Vec<String> = file.names().filter(|name| name.starts_with(prefix)).map(String::from).collect();
    let values = |name: &str| file.shape(name).map_or(0, |shape| shape.iter().product::<usize>());
    let bytes = 4 * names.iter().map(|name| values(name)).sum::<usize>() as u64;
    let _memory = budget.reserve(bytes, "a network of the ensemble")?;
    let mut tensors = Tensors::new();
    for full in &names {
        let name = full.strip_prefix(prefix).unwrap_or(full);
        let (mut shape, mut values) = (file.shape(full).unwrap_or_default().to_vec(), file.read(full)?);
        let name = match name {
            "pos_drop.weight" => "norm_pre.weight".to_string(),
            "pos_drop.bias" => "norm_pre.bias".to_string(),
            "proj" => {
                let [from, to] = shape[..] else { return Err(wrong_projection(&shape)) };
                let cells = (0..to).flat_map(|column| (0..from).map(move |row| row * to + column));
                values = cells.map(|cell| values[cell]).collect();
                shape = vec![to, from];
                "head.weight".to_string()
            }
            name => name.to_string(),
        };
        if let Some(module) = name.strip_suffix(".weight") {
            adapter.add_to(index, module, &shape, &mut values)?;
        }
        tensors.insert(name, Tensor { shape, values });
    }
    if card.projected && !tensors.contains_key("head.weight") {
        return Err(InputError::new(format!("there is no tensor `{}proj`", card.prefix))
            .expected("the projection of the class token")
            .advice(UNPACK)
            .into());
    }
    let config: Map<String, Value> =
        [("act".to_string(), json!(card.activation)), ("norm_eps".to_string(), json!(card.eps))].into_iter().collect();
    timm::open(Model::in_memory(config, tensors, budget), budget)
}

fn wrong_projection(shape: &[usize]) -> Error {
    InputError::new("the tensor `proj` has the wrong shape")
        .expected("two dimensions")
        .found(etalon::input::format_shape(shape))
        .into()
}
