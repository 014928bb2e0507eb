//! Which sites of a network of images are the outputs of convolutions, linear maps and norms.

use etalon::network::{LayerType, RowKind, Site, SiteId};

use super::convnet::{Layer, Shortcut, Stage};
use super::unit::Unit;
use crate::transformer::{Point, Points};

fn mark(sites: &mut [Site], site: Option<SiteId>, layer: LayerType) {
    if let Some(site) = site.and_then(|site| sites.get_mut(site.0 as usize)) {
        site.layer = Some(layer);
    }
}

/// Marks the sites of a network of convolutions.
pub(super) fn mark_stages(stages: &[Stage], sites: &mut [Site]) {
    for stage in stages {
        let shortcut = match &stage.shortcut {
            Shortcut::Unit(unit) => Some(&**unit),
            Shortcut::None | Shortcut::Input => None,
        };
        let units = stage.layers.iter().filter_map(|layer| match layer {
            Layer::Unit(unit) => Some(unit),
            Layer::Pool(..) | Layer::Mean(_) => None,
        });
        units.chain(shortcut).for_each(|unit| mark_unit(unit, sites));
    }
}

fn mark_unit(unit: &Unit, sites: &mut [Site]) {
    mark(sites, unit.sites.conv, LayerType::Conv);
    mark(sites, unit.sites.norm, LayerType::BatchNorm);
    // A classifier is a convolution of one position.
    let is_classifier = |site: &SiteId| sites.get(site.0 as usize).is_some_and(|site| site.rows == RowKind::Sample);
    let classifier = unit.sites.output.filter(|site| unit.sites.conv.is_none() && is_classifier(site));
    mark(sites, classifier, LayerType::Linear);
}

/// Marks the sites of a vision transformer. Where a factor follows a linear map, the family names the site between them.
pub(super) fn mark_transformer(points: &Points, layers: usize, last_norm: &str, sites: &mut [Site]) {
    for layer in 0..layers {
        let mut of = |point: Point, kind: LayerType| mark(sites, points.id(layer, point), kind);
        [Point::AttentionIn, Point::MlpIn].into_iter().for_each(|point| of(point, LayerType::LayerNorm));
        [Point::Query, Point::Key, Point::Value].into_iter().for_each(|point| of(point, LayerType::AttentionLinear));
        of(Point::MlpPre, LayerType::Linear);
        for (raw, out, kind) in [
            (Point::AttentionRaw, Point::AttentionOut, LayerType::AttentionLinear),
            (Point::MlpRaw, Point::MlpOut, LayerType::Linear),
        ] {
            let is_scaled = points.id(layer, raw).is_some();
            of(raw, kind);
            of(out, if is_scaled { LayerType::LayerScale } else { kind });
        }
    }
    let norm = sites.iter().position(|site| site.name == last_norm).map(|index| SiteId(index as u32));
    mark(sites, norm, LayerType::LayerNorm);
}
