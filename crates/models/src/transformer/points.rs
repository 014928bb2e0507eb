//! The sites of a transformer: which points of a block can be visited, and their names.

use etalon::error::Result;
use etalon::network::{Layout, RowKind, Site, SiteId, Tap};

use super::config::{Order, TransformerConfig};

/// A point of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The residual stream before the block.
    ResidualPre,
    /// The stream in front of attention, normalised, before the factors and summands of the norm.
    AttentionNormalised,
    /// The input of attention, normalised.
    AttentionIn,
    /// Queries, before positions are encoded.
    Query,
    /// Keys, before positions are encoded.
    Key,
    /// Values.
    Value,
    /// The outputs of all heads, before they are mixed.
    Z,
    /// The output of attention, before its norm.
    AttentionRaw,
    /// What attention adds to the residual stream.
    AttentionOut,
    /// The residual stream between attention and perceptron.
    ResidualMid,
    /// The same after the norm of a post-norm network.
    ResidualMidNormed,
    /// The stream in front of the perceptron, normalised, before the factors and summands of the norm.
    MlpNormalised,
    /// The input of the perceptron, normalised.
    MlpIn,
    /// Units of the perceptron before the activation function.
    MlpPre,
    /// Units of the perceptron after the activation function, and multiplied if they are gated.
    MlpPost,
    /// The output of the perceptron, before its norm.
    MlpRaw,
    /// What the perceptron adds to the residual stream.
    MlpOut,
    /// The residual stream after the block.
    ResidualPost,
    /// The same after the norm of a post-norm network.
    ResidualPostNormed,
}

use Point::{
    AttentionIn, AttentionNormalised, AttentionOut, AttentionRaw, Key, MlpIn, MlpNormalised, MlpOut, MlpPost, MlpPre,
    MlpRaw, Query, ResidualMid, ResidualMidNormed, ResidualPost, ResidualPostNormed, ResidualPre, Value, Z,
};

const ALL: [Point; 19] = [
    ResidualPre,
    AttentionNormalised,
    AttentionIn,
    Query,
    Key,
    Value,
    Z,
    AttentionRaw,
    AttentionOut,
    ResidualMid,
    ResidualMidNormed,
    MlpNormalised,
    MlpIn,
    MlpPre,
    MlpPost,
    MlpRaw,
    MlpOut,
    ResidualPost,
    ResidualPostNormed,
];

/// The paths of PyTorch's modules, for a family. `None` where the family has no such module.
#[derive(Clone, Copy, Debug)]
pub struct SiteNames {
    /// The path of a block, with `{}` for its number: `model.layers.{}`.
    pub block: &'static str,
    /// Paths inside a block whose outputs are points: (point, path).
    pub modules: &'static [(Point, &'static str)],
    /// The path of the last norm; empty if there is none.
    pub last_norm: &'static str,
}

/// The sites of a transformer, found by layer and point.
#[derive(Clone, Debug)]
pub struct Points {
    sites: Vec<Site>,
    /// By layer and point.
    ids: Vec<[Option<SiteId>; ALL.len()]>,
    last_normalised: Option<SiteId>,
    last_norm: Option<SiteId>,
}

/// The name of a point in TransformerLens, where it has one.
fn lens_name(point: Point, order: Order) -> Option<&'static str> {
    Some(match point {
        ResidualPre => "hook_resid_pre",
        AttentionNormalised => "ln1.hook_normalized",
        Query => "attn.hook_q",
        Key => "attn.hook_k",
        Value => "attn.hook_v",
        Z => "attn.hook_z",
        AttentionOut => "hook_attn_out",
        ResidualMid => "hook_resid_mid",
        MlpNormalised => "ln2.hook_normalized",
        MlpPre => "mlp.hook_pre",
        MlpPost => "mlp.hook_post",
        MlpOut => "hook_mlp_out",
        ResidualPost => "hook_resid_post",
        ResidualPostNormed if order == Order::PostNorm => "hook_normalized_resid_post",
        _ => return None,
    })
}

impl Points {
    /// The sites of all blocks, and of the last norm.
    pub fn new(config: &TransformerConfig, names: SiteNames, rows: RowKind) -> Points {
        let mut points = Points { sites: Vec::new(), ids: Vec::new(), last_normalised: None, last_norm: None };
        for layer in 0..config.layers {
            let mut ids = [None; ALL.len()];
            for (index, point) in ALL.into_iter().enumerate() {
                if exists(point, config, names) {
                    ids[index] = points.add(config, names, layer, point, rows);
                }
            }
            points.ids.push(ids);
        }
        if !names.last_norm.is_empty() {
            let [normalised, normed] = ["ln_final.hook_normalized", names.last_norm]
                .map(|name| points.push(Site::new(name, config.width, rows, config.layers)));
            (points.last_normalised, points.last_norm) = (Some(normalised), Some(normed));
        }
        points
    }

    /// Adds a site that is not one of a block.
    pub fn push(&mut self, site: Site) -> SiteId {
        self.sites.push(site);
        SiteId(self.sites.len() as u32 - 1)
    }

    /// Adds a name to the stream before the first block.
    pub fn name_input(&mut self, name: &str) {
        if let Some(site) = self.sites.first_mut() {
            site.aliases.push(name.to_string());
        }
    }

    fn add(
        &mut self,
        config: &TransformerConfig,
        names: SiteNames,
        layer: usize,
        point: Point,
        rows: RowKind,
    ) -> Option<SiteId> {
        let path = names.block.replace("{}", &layer.to_string());
        let modules = names.modules.iter().filter(|(other, _)| *other == point);
        let mut aliases: Vec<String> = modules
            .map(|(_, module)| if module.is_empty() { path.clone() } else { format!("{path}.{module}") })
            .collect();
        let name = match lens_name(point, config.order) {
            Some(name) => format!("blocks.{layer}.{name}"),
            None if aliases.is_empty() => return None,
            None => aliases.remove(0),
        };
        let site = Site::new(name, width(point, config), rows, layer);
        let site = aliases.into_iter().fold(site, Site::alias);
        self.sites.push(if point == MlpPre { site.before_activation() } else { site });
        Some(SiteId(self.sites.len() as u32 - 1))
    }

    /// All sites.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The site of the last norm before its factors and summands.
    pub(super) fn last_normalised(&self) -> Option<SiteId> {
        self.last_normalised
    }

    /// The site of the last norm.
    pub(super) fn last_norm(&self) -> Option<SiteId> {
        self.last_norm
    }

    /// Whether a tap wants to see a point of a block.
    pub(super) fn is_watched(&self, layer: usize, tap: &dyn Tap) -> bool {
        self.ids[layer].iter().flatten().any(|id| tap.wants(*id))
    }

    /// A view of one block's points.
    pub(super) fn of<'a>(&'a self, layer: usize, layout: Layout, tap: &'a mut dyn Tap) -> Visits<'a> {
        Visits { ids: &self.ids[layer], layout, tap }
    }
}

impl Points {
    /// The site of a point of a block.
    pub fn id(&self, layer: usize, point: Point) -> Option<SiteId> {
        ALL.iter().position(|other| *other == point).and_then(|index| *self.ids.get(layer)?.get(index)?)
    }

    /// The block and the point of a site, if it is one of a block.
    pub fn find(&self, site: SiteId) -> Option<(usize, Point)> {
        let of_block = |ids: &[Option<SiteId>; ALL.len()]| ids.iter().position(|id| *id == Some(site));
        self.ids.iter().enumerate().find_map(|(layer, ids)| Some((layer, ALL[of_block(ids)?])))
    }
}

fn width(point: Point, config: &TransformerConfig) -> usize {
    let dim = config.attention.first().map_or(0, |attention| attention.dim);
    let kv = config.attention.first().map_or(0, |attention| attention.kv_heads * dim);
    match point {
        Query | Z => config.z(),
        Key | Value => kv,
        MlpPre | MlpPost => config.hidden,
        _ => config.width,
    }
}

/// Whether a block of this shape has the point as something different from its neighbours.
fn exists(point: Point, config: &TransformerConfig, names: SiteNames) -> bool {
    match point {
        ResidualMid => config.order != Order::Parallel,
        ResidualMidNormed | ResidualPostNormed => config.order == Order::PostNorm,
        AttentionNormalised | AttentionIn | MlpNormalised | MlpIn => config.order != Order::PostNorm,
        // Different from what is added only if there is a norm or a factor between them, which the family names.
        AttentionRaw | MlpRaw => names.modules.iter().any(|(other, _)| *other == point),
        _ => true,
    }
}

/// The visits of one block.
pub(super) struct Visits<'a> {
    ids: &'a [Option<SiteId>; ALL.len()],
    layout: Layout,
    tap: &'a mut dyn Tap,
}

impl Visits<'_> {
    fn id(&self, point: Point) -> Option<SiteId> {
        ALL.iter().position(|other| *other == point).and_then(|index| self.ids[index]).filter(|id| self.tap.wants(*id))
    }

    /// Whether the tap wants to see a point.
    pub fn wants(&self, point: Point) -> bool {
        self.id(point).is_some()
    }

    /// Shows rows to the tap, if it wants to see them.
    pub fn see(&mut self, point: Point, rows: &mut [f32]) -> Result<()> {
        let Some(id) = self.id(point) else { return Ok(()) };
        let width = rows.len() / (self.layout.samples * self.layout.rows).max(1);
        self.tap.visit(id, self.layout.with_width(width), rows)
    }

    /// Shows some columns of wider rows.
    pub fn see_columns(
        &mut self,
        point: Point,
        rows: &mut [f32],
        pitch: usize,
        columns: std::ops::Range<usize>,
    ) -> Result<()> {
        if !self.wants(point) {
            return Ok(());
        }
        let mut part: Vec<f32> = rows.chunks_exact(pitch).flat_map(|row| &row[columns.clone()]).copied().collect();
        self.see(point, &mut part)?;
        for (row, part) in rows.chunks_exact_mut(pitch).zip(part.chunks_exact(columns.len())) {
            row[columns.clone()].copy_from_slice(part);
        }
        Ok(())
    }
}
