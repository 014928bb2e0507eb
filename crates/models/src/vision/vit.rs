//! Vision transformers: patches as tokens, a class token and registers before them.

use std::ops::Range;

use etalon::context::{Budget, Context, Reservation};
use etalon::error::{InputError, Result};
use etalon::network::{Batch, Grid, LayerType, Layout, Network, NetworkCard, RowKind, Site, SiteId, State, Tap};
use rayon::prelude::*;

use super::layer_types::mark_transformer;
use super::positions::{Interpolation, interpolate};
use crate::layer::{Linear, Norm};
use crate::transformer::{Blocks, Points, SiteNames, Transformer, TransformerConfig};

/// What a family says about its network.
pub(super) struct Family {
    pub config: TransformerConfig,
    pub names: SiteNames,
    pub blocks: Blocks,
    /// Pixels per side of a patch.
    pub patch: usize,
    /// Pixels per side of the images of the training.
    pub image: usize,
    /// From the pixels of a patch (row, column, channel) to a token.
    pub embed: Linear,
    pub class: Option<Vec<f32>>,
    pub registers: Vec<f32>,
    /// Position embeddings of the patches, and of the class token before them if [`Family::class_position`].
    pub positions: Vec<f32>,
    pub class_position: bool,
    pub interpolation: Interpolation,
    pub first_norm: Option<Norm>,
    pub last_norm: Norm,
    pub pool: Pool,
    /// From the pooled token to the output: a projection or a classifier.
    pub output: Option<Linear>,
    /// The name of the output.
    pub output_name: &'static str,
    pub card: NetworkCard,
    pub memory: Reservation,
}

/// How the tokens of an image become one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pool {
    /// The class token.
    Class,
    /// The mean of the patches.
    Patches,
}

/// A vision transformer.
pub struct VisionTransformer {
    card: NetworkCard,
    transformer: Transformer,
    patch: usize,
    embed: Linear,
    class: Option<Vec<f32>>,
    registers: Vec<f32>,
    positions: Vec<f32>,
    class_position: bool,
    interpolation: Interpolation,
    first_norm: Option<Norm>,
    pool: Pool,
    output: Option<Linear>,
    sites: Vec<Site>,
    pooled: SiteId,
    projected: Option<SiteId>,
    _memory: Reservation,
}

impl VisionTransformer {
    pub(super) fn new(family: Family) -> VisionTransformer {
        let Family { config, names, blocks, output, .. } = family;
        let points = Points::new(&config, names, RowKind::Patch);
        let mut sites = points.sites().to_vec();
        mark_transformer(&points, config.layers, names.last_norm, &mut sites);
        let stage = config.layers + 1;
        let pooled = SiteId(sites.len() as u32);
        sites.push(Site::new("pooled", config.width, RowKind::Sample, stage));
        let projected = output.as_ref().map(|output| {
            let mut site = Site::new(family.output_name, output.to(), RowKind::Sample, stage);
            site.layer = Some(LayerType::Linear);
            sites.push(site);
            SiteId(sites.len() as u32 - 1)
        });
        let card = NetworkCard { layers: config.layers, width: config.width, context: family.image, ..family.card };
        let transformer = Transformer { config, blocks, norm: Some(family.last_norm), points };
        VisionTransformer {
            card,
            transformer,
            patch: family.patch,
            embed: family.embed,
            class: family.class,
            registers: family.registers,
            positions: family.positions,
            class_position: family.class_position,
            interpolation: family.interpolation,
            first_norm: family.first_norm,
            pool: family.pool,
            output,
            sites,
            pooled,
            projected,
            _memory: family.memory,
        }
    }

    /// Tokens before the first patch.
    fn prefix(&self) -> usize {
        usize::from(self.class.is_some()) + self.registers.len() / self.card.width
    }

    /// Position embeddings for a grid of patches: that of the class token, and those of the patches.
    fn positions(&self, grid: (usize, usize)) -> (&[f32], Vec<f32>) {
        let width = self.card.width;
        let (class, patches) = self.positions.split_at(if self.class_position { width } else { 0 });
        let side = ((patches.len() / width) as f64).sqrt().round() as usize;
        (class, interpolate(patches, width, (side, side), grid, self.interpolation))
    }

    /// The pixels of all patches of an image, patch by patch.
    fn patches(&self, image: &[f32], columns: usize, rows: &mut Vec<f32>) {
        let line = 3 * self.patch;
        let pitch = columns * line;
        for band in image.chunks_exact(self.patch * pitch) {
            for column in 0..columns {
                for pixels in band.chunks_exact(pitch) {
                    rows.extend_from_slice(&pixels[column * line..][..line]);
                }
            }
        }
    }

    /// The first tokens of one image.
    fn tokens(&self, image: &[f32], grid: (usize, usize), class: &[f32], positions: &[f32], out: &mut [f32]) {
        let width = self.card.width;
        let mut pixels = Vec::with_capacity(image.len());
        self.patches(image, grid.1, &mut pixels);
        let (prefix, patches) = out.split_at_mut(self.prefix() * width);
        let class =
            self.class.iter().flat_map(|token| token.iter().enumerate().map(|(i, v)| v + class.get(i).unwrap_or(&0.0)));
        let first = class.chain(self.registers.iter().copied());
        prefix.iter_mut().zip(first).for_each(|(out, value)| *out = value);
        self.embed.apply(&pixels, patches);
        etalon_kernel::neural::add(positions, patches);
    }

    fn check(&self, values: &[f32], height: usize, width: usize) -> Result<usize> {
        let side = self.patch;
        if height == 0 || width == 0 || !height.is_multiple_of(side) || !width.is_multiple_of(side) {
            return Err(InputError::new("the size of the images does not fit the patches of the network")
                .expected(format!("multiples of {side} pixels, such as {0} × {0}", self.card.context))
                .found(format!("{width} × {height}"))
                .into());
        }
        Ok(values.len() / (height * width * 3))
    }

    fn finish(&self, state: &mut State, tap: &mut dyn Tap) -> Result<()> {
        let layout = state.layout;
        let (width, prefix) = (layout.width, self.prefix());
        let mut pooled = Vec::with_capacity(layout.samples * width);
        for rows in state.values.chunks_exact(layout.rows * width) {
            match self.pool {
                Pool::Class => pooled.extend_from_slice(&rows[..width]),
                Pool::Patches => {
                    let patches = &rows[prefix * width..];
                    let count = (patches.len() / width) as f32;
                    pooled.extend((0..width).map(|i| patches.iter().skip(i).step_by(width).sum::<f32>() / count));
                }
            }
        }
        let mut layout = Layout { samples: layout.samples, rows: 1, width, grid: None };
        if tap.wants(self.pooled) {
            tap.visit(self.pooled, layout, &mut pooled)?;
        }
        if let (Some(output), Some(site)) = (&self.output, self.projected) {
            let mut projected = vec![0.0; layout.samples * output.to()];
            output.apply(&pooled, &mut projected);
            (layout.width, pooled) = (output.to(), projected);
            if tap.wants(site) {
                tap.visit(site, layout, &mut pooled)?;
            }
        }
        (state.values, state.layout) = (pooled, layout);
        Ok(())
    }
}

impl Network for VisionTransformer {
    fn card(&self) -> &NetworkCard {
        &self.card
    }

    fn sites(&self) -> &[Site] {
        &self.sites
    }

    fn stages(&self) -> usize {
        self.transformer.stages() + 1
    }

    fn begin(&self, batch: &Batch<'_>, context: &Context) -> Result<State> {
        let Batch::Images { values, height, width: columns } = *batch else {
            return Err(InputError::new("a network of images cannot run on texts").expected("images").into());
        };
        let samples = self.check(values, height, columns)?;
        let (width, grid) = (self.card.width, (height / self.patch, columns / self.patch));
        let rows = self.prefix() + grid.0 * grid.1;
        let layout =
            Layout { samples, rows, width, grid: Some(Grid { prefix: self.prefix(), height: grid.0, width: grid.1 }) };
        let scratch = samples * rows * self.transformer.config.scratch_per_row();
        let mut state = State::new(vec![0.0; layout.values()], layout, scratch, context)?;
        let (class, positions) = self.positions(grid);
        let images = values.par_chunks(height * columns * 3);
        state.values.par_chunks_mut(rows * width).zip(images).for_each(|(out, image)| {
            self.tokens(image, grid, class, &positions, out);
        });
        if let Some(norm) = &self.first_norm {
            let mut normed = vec![0.0; state.values.len()];
            norm.apply(&state.values, &mut normed);
            state.values = normed;
        }
        Ok(state)
    }

    fn run(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<()> {
        let last = self.transformer.stages();
        let end = stages.end;
        if stages.start < last {
            self.transformer.run(stages.start..end.min(last), state, tap, context)?;
        }
        if end > last { self.finish(state, tap) } else { Ok(()) }
    }
}

/// The weights of a convolution of patches (out, channel, row, column) as a linear map of pixels (row, column, channel).
pub(super) fn patch_embedding(weight: &[f32], width: usize, patch: usize, bias: Option<Vec<f32>>) -> Linear {
    let area = patch * patch;
    let reordered: Vec<f32> = weight
        .chunks_exact(3 * area)
        .flat_map(|unit| (0..area).flat_map(move |pixel| (0..3).map(move |channel| unit[channel * area + pixel])))
        .collect();
    debug_assert_eq!(reordered.len(), width * 3 * area);
    Linear::stacked(3 * area, &[&reordered], bias)
}

/// Bytes of everything but the blocks.
pub(super) fn reserve(values: usize, budget: &Budget) -> Result<Reservation> {
    budget.reserve(4 * values as u64, "the embeddings of the network")
}
