//! The units of a network of images: which layers count, and the table that describes their units.
//!
//! The rule is that of the study of 835 networks, made precise: the outputs of convolutions, linear maps, batch norms and
//! layer norms, without the first and the last layer.

use std::path::{Path, PathBuf};

use etalon::error::{Command, InputError, Key, Result};
use etalon::network::{LayerType, RowKind, Site, SiteId, find_sites};
use etalon::store::{csv_text, disk};

/// Which layers of a transformer count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnitChoice {
    /// All of them.
    All,
    /// The linear maps of attention.
    AttentionLinear,
    /// Those of the study of human answers ("IMI"): norms, perceptrons, and what attention and perceptron add.
    Imi,
}

/// The names of the choices.
const CHOICES: [(&str, UnitChoice); 3] =
    [("all", UnitChoice::All), ("attention_linear", UnitChoice::AttentionLinear), ("imi", UnitChoice::Imi)];

/// The sites that a user named: patterns, or `units` with a choice of layers, which is returned.
pub(super) fn sites_of(sites: &[Site], patterns: &str) -> Result<(Vec<SiteId>, Option<UnitChoice>)> {
    let patterns = patterns.trim();
    let written = match patterns.split_once(':') {
        None if patterns == "units" => "all",
        Some(("units", choice)) => choice,
        _ => return Ok((find_sites(sites, patterns)?, None)),
    };
    let Some((_, choice)) = CHOICES.iter().find(|(name, _)| *name == written) else {
        return Err(InputError::new(format!("there is no choice of units `{written}`"))
            .advice(format!("write {}, or {} and the choice", Key("site units"), Key("site units:")))
            .one_of(written, &CHOICES.map(|(name, _)| name))
            .into());
    };
    let layers = counted_layers(sites);
    let wanted = |site: &SiteId| choice.takes(&sites[site.0 as usize], is_transformer(sites));
    let found: Vec<SiteId> = match choice {
        // Factors of layers are not among the layers that count.
        UnitChoice::Imi => (0..sites.len() as u32).map(SiteId).filter(wanted).collect(),
        _ => layers.into_iter().filter(wanted).collect(),
    };
    if found.is_empty() {
        return Err(InputError::new("the network has no such units")
            .expected("a network of images whose convolutions, linear maps and norms are known; for `attention_linear` and `imi` a transformer")
            .found(format!("no layer for `units:{written}`"))
            .advice(format!("name sites instead; {} with the path of the network lists them", Command("models")))
            .into());
    }
    Ok((found, Some(*choice)))
}

impl UnitChoice {
    fn takes(self, site: &Site, of_transformer: bool) -> bool {
        let is_block = site.rows != RowKind::Sample && has_number(&site.name);
        match (self, site.layer) {
            (_, None) => false,
            (UnitChoice::All, Some(layer)) => layer != LayerType::LayerScale,
            (UnitChoice::AttentionLinear, Some(layer)) => layer == LayerType::AttentionLinear,
            // Without factors, what attention adds is the output of its last map.
            (UnitChoice::Imi, Some(LayerType::AttentionLinear)) => {
                of_transformer && is_block && site.name.ends_with("hook_attn_out")
            }
            (UnitChoice::Imi, Some(_)) => of_transformer && is_block,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        CHOICES.iter().find(|(_, choice)| *choice == self).map_or("all", |(name, _)| *name)
    }
}

/// Patches are embedded before the first site of a transformer: the first layer is not among its sites.
fn is_transformer(sites: &[Site]) -> bool {
    sites.first().is_some_and(|site| site.rows == RowKind::Patch)
}

fn parent(name: &str) -> &str {
    name.rsplit_once('.').map_or("", |(parent, _)| parent)
}

/// Whether a part of a path is a number.
fn has_number(path: &str) -> bool {
    path.split('.').any(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The layers whose units count, in the order of the network.
fn counted_layers(sites: &[Site]) -> Vec<SiteId> {
    let is_norm = |site: &Site| matches!(site.layer, Some(LayerType::BatchNorm | LayerType::LayerNorm));
    let is_map =
        |site: &Site| matches!(site.layer, Some(LayerType::Conv | LayerType::Linear | LayerType::AttentionLinear));
    let mut layers: Vec<usize> =
        (0..sites.len()).filter(|&site| is_norm(&sites[site]) || is_map(&sites[site])).collect();
    // First: the first map, everything before it, and norms of the same parent before the second.
    if !is_transformer(sites)
        && let Some(first) = layers.iter().position(|&site| is_map(&sites[site]))
    {
        let path = parent(&sites[layers[first]].name);
        let second = layers.iter().skip(first + 1).position(|&site| is_map(&sites[site]));
        let before_second = second.map_or(layers.len(), |second| first + 1 + second);
        let kept = |(index, &site): (usize, &usize)| {
            let is_first = index <= first || index < before_second && parent(&sites[site].name) == path;
            (!is_first).then_some(site)
        };
        layers = layers.iter().enumerate().filter_map(kept).collect();
    }
    // Last: classifiers, or else the last map, and norms after the map before them that belong to no block.
    let is_classifier = |site: usize| is_map(&sites[site]) && sites[site].rows == RowKind::Sample;
    let has_classifier = layers.iter().any(|&site| is_classifier(site));
    let last = layers.iter().rposition(|&site| is_map(&sites[site]));
    let dropped = |index: usize, site: usize| if has_classifier { is_classifier(site) } else { Some(index) == last };
    let left: Vec<usize> =
        layers.iter().enumerate().filter(|&(index, &site)| !dropped(index, site)).map(|(_, &site)| site).collect();
    let last_map = left.iter().rposition(|&site| is_map(&sites[site]));
    let kept = |(index, &site): (usize, &usize)| {
        let is_behind = last_map.is_some_and(|last| index > last);
        let path = parent(&sites[site].name);
        let shares = last_map.is_some_and(|last| path == parent(&sites[left[last]].name));
        (!is_behind || shares || has_number(path)).then_some(SiteId(site as u32))
    };
    left.iter().enumerate().filter_map(kept).collect()
}

/// The number of units of some sites.
pub(super) fn count(sites: &[Site], chosen: &[SiteId]) -> usize {
    chosen.iter().map(|site| sites[site.0 as usize].width).sum()
}

/// Writes a table of the units of every site, `units/NAME.csv`; returns the paths. The depth is the place of the layer among
/// those that count, from 0 to 1.
pub(super) fn write_tables(model: &str, sites: &[Site], chosen: &[SiteId], out: &Path) -> Result<Vec<PathBuf>> {
    let layers = counted_layers(sites);
    disk::make_directory(&out.join("units"))?;
    let mut paths = Vec::new();
    for id in chosen {
        let site = &sites[id.0 as usize];
        let depth = layers
            .iter()
            .position(|other| other == id)
            .map_or(String::new(), |place| (place as f64 / (layers.len() - 1).max(1) as f64).to_string());
        let kind = site.layer.map_or("", LayerType::name);
        let line = |channel: usize| {
            let (id, width) = (format!("{}:{channel}", site.name), site.width.to_string());
            let cells = [id.as_str(), model, site.name.as_str(), kind, depth.as_str(), width.as_str()];
            cells.into_iter().map(String::from).chain([channel.to_string()]).collect::<Vec<String>>()
        };
        let header = ["id", "model", "layer", "type", "depth", "width", "channel"].map(String::from).to_vec();
        let path = out.join("units").join(format!("{}.csv", site.name));
        disk::write(&path, csv_text(std::iter::once(header).chain((0..site.width).map(line)))?.as_bytes())?;
        paths.push(path);
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(name: String, width: usize, rows: RowKind, layer: Option<LayerType>) -> Site {
        let mut site = Site::new(name, width, rows, 0);
        site.layer = layer;
        site
    }

    /// The sites of a network of bottlenecks by its shapes, as its reader names them.
    fn resnet50() -> Vec<Site> {
        use LayerType::{BatchNorm, Conv, Linear};
        let map = |name: String, width: usize, layer: Option<LayerType>| site(name, width, RowKind::Position, layer);
        let mut sites = vec![
            map("conv1".into(), 64, Some(Conv)),
            map("bn1".into(), 64, Some(BatchNorm)),
            map("relu".into(), 64, None),
        ];
        for (group, (blocks, width)) in [(3, 64), (4, 128), (6, 256), (3, 512)].into_iter().enumerate() {
            for block in 0..blocks {
                let path = format!("layer{}.{block}", group + 1);
                for (number, width) in [(1, width), (2, width), (3, 4 * width)] {
                    sites.push(map(format!("{path}.conv{number}"), width, Some(Conv)));
                    sites.push(map(format!("{path}.bn{number}"), width, Some(BatchNorm)));
                    sites.push(map(format!("{path}.act{number}"), width, None));
                }
                if block == 0 {
                    sites.push(map(format!("{path}.downsample.0"), 4 * width, Some(Conv)));
                    sites.push(map(format!("{path}.downsample.1"), 4 * width, Some(BatchNorm)));
                }
            }
        }
        sites.push(site("avgpool".into(), 2048, RowKind::Sample, None));
        sites.push(site("fc".into(), 1000, RowKind::Sample, Some(Linear)));
        sites
    }

    #[test]
    fn the_units_of_resnet50_are_counted() {
        let sites = resnet50();
        let (found, choice) = sites_of(&sites, "units").unwrap();
        assert_eq!((choice, found.len(), count(&sites, &found)), (Some(UnitChoice::All), 104, 52_992));
        let names: Vec<&str> = found.iter().map(|site| sites[site.0 as usize].name.as_str()).collect();
        assert_eq!((names[0], names[103]), ("layer1.0.conv1", "layer4.2.bn3"));
        let (named, choice) = sites_of(&sites, "layer1.0.conv*").unwrap();
        assert_eq!((named.len(), choice), (3, None));
        let error = sites_of(&sites, "units:attention_linear").unwrap_err().to_string();
        assert!(error.contains("no such units") && error.contains("transformer"), "{error}");
        let error = sites_of(&sites, "units:best").unwrap_err().to_string();
        assert!(error.contains("attention_linear") && error.contains("best"), "{error}");
        // Without a classifier the last convolution is the last layer; its norm belongs to a block.
        let without: Vec<Site> = sites.into_iter().filter(|site| site.name != "fc").collect();
        let (found, _) = sites_of(&without, "units").unwrap();
        assert_eq!(count(&without, &found), 52_992 - 2048);
    }

    #[test]
    fn the_units_of_a_vision_transformer_are_counted() {
        use LayerType::{AttentionLinear, LayerNorm, Linear};
        let mut sites = Vec::new();
        for block in 0..12 {
            for (name, width, layer) in [
                ("hook_resid_pre", 768, None),
                ("norm1", 768, Some(LayerNorm)),
                ("attn.hook_q", 768, Some(AttentionLinear)),
                ("attn.hook_k", 768, Some(AttentionLinear)),
                ("attn.hook_v", 768, Some(AttentionLinear)),
                ("hook_attn_out", 768, Some(AttentionLinear)),
                ("norm2", 768, Some(LayerNorm)),
                ("mlp.hook_pre", 3072, Some(Linear)),
                ("hook_mlp_out", 768, Some(Linear)),
            ] {
                sites.push(site(format!("blocks.{block}.{name}"), width, RowKind::Patch, layer));
            }
        }
        sites.push(site("norm".into(), 768, RowKind::Patch, Some(LayerNorm)));
        sites.push(site("head".into(), 1000, RowKind::Sample, Some(Linear)));
        for (choice, units) in [("units", 101_376), ("units:all", 101_376), ("units:attention_linear", 36_864)] {
            let (found, _) = sites_of(&sites, choice).unwrap();
            assert_eq!(count(&sites, &found), units, "{choice}");
        }
        // Two norms, what attention adds, and both maps of the perceptron.
        let (found, _) = sites_of(&sites, "units:imi").unwrap();
        assert_eq!(count(&sites, &found), 12 * (768 + 768 + 768 + 3072 + 768));
    }

    #[test]
    fn tables_describe_every_unit() {
        let (sites, out) = (resnet50(), tempfile::tempdir().unwrap());
        let (chosen, _) = sites_of(&sites, "conv1, layer1.0.conv1, layer4.2.bn3").unwrap();
        let paths = write_tables("net", &sites, &chosen, out.path()).unwrap();
        let lines =
            |path: &PathBuf| std::fs::read_to_string(path).unwrap().lines().map(String::from).collect::<Vec<_>>();
        assert_eq!(lines(&paths[0])[..2], ["id,model,layer,type,depth,width,channel", "conv1:0,net,conv1,Conv,,64,0"]);
        assert_eq!(lines(&paths[1])[64], "layer1.0.conv1:63,net,layer1.0.conv1,Conv,0,64,63");
        assert_eq!(lines(&paths[2])[1], "layer4.2.bn3:0,net,layer4.2.bn3,BatchNorm,1,2048,0");
        assert_eq!(lines(&paths[2]).len(), 2049);
    }
}
