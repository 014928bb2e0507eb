//! Sites: the named places of a network where activations can be read and replaced.

use crate::error::{Command, InputError, Key, Result};

/// Index of a site in [`super::Network::sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SiteId(pub u32);

/// What a row of a site's activations represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowKind {
    /// A token of a text.
    Token,
    /// A token of an image: a class token, registers, patches.
    Patch,
    /// A position of a feature map.
    Position,
    /// A whole sample.
    Sample,
}

impl RowKind {
    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            RowKind::Token => "token",
            RowKind::Patch => "patch",
            RowKind::Position => "position",
            RowKind::Sample => "sample",
        }
    }
}

/// The kind of layer whose output a site is, for networks of images.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LayerType {
    /// A convolution.
    Conv,
    /// A linear map.
    Linear,
    /// A linear map of attention: queries, keys, values, or the mix of the heads.
    AttentionLinear,
    /// A batch norm.
    BatchNorm,
    /// A layer norm.
    LayerNorm,
    /// Factors of a layer's output, one per channel.
    LayerScale,
}

impl LayerType {
    /// Its name in tables of units.
    pub fn name(self) -> &'static str {
        match self {
            LayerType::Conv => "Conv",
            LayerType::Linear | LayerType::AttentionLinear => "Linear",
            LayerType::BatchNorm => "BatchNorm",
            LayerType::LayerNorm => "LayerNorm",
            LayerType::LayerScale => "LayerScale",
        }
    }
}

/// A named place of a network.
#[derive(Clone, Debug)]
pub struct Site {
    /// Its name: that of TransformerLens for transformers, the path of the module for other networks.
    pub name: String,
    /// Equivalent names: the path of the module in PyTorch whose output it is.
    pub aliases: Vec<String>,
    /// Values per row.
    pub width: usize,
    /// What a row represents.
    pub rows: RowKind,
    /// The stage that visits it.
    pub stage: usize,
    /// Whether it is an input of an activation function (a pre-activation).
    pub before_activation: bool,
    /// The kind of layer whose output it is, if it is known.
    pub layer: Option<LayerType>,
}

impl Site {
    /// A site without equivalent names.
    pub fn new(name: impl Into<String>, width: usize, rows: RowKind, stage: usize) -> Site {
        Site { name: name.into(), aliases: Vec::new(), width, rows, stage, before_activation: false, layer: None }
    }

    /// Adds an equivalent name.
    #[must_use]
    pub fn alias(mut self, name: impl Into<String>) -> Site {
        self.aliases.push(name.into());
        self
    }

    /// Marks it as an input of an activation function.
    #[must_use]
    pub fn before_activation(mut self) -> Site {
        self.before_activation = true;
        self
    }

    fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.aliases.iter().map(String::as_str))
    }
}

/// The sites that a pattern means, in the order of the network. `*` matches any characters except a dot, `**` for any
/// characters. Several patterns are separated by commas.
pub fn find_sites(sites: &[Site], patterns: &str) -> Result<Vec<SiteId>> {
    let mut found = vec![false; sites.len()];
    for pattern in patterns.split(',').map(str::trim) {
        let mut any = false;
        for (site, found) in sites.iter().zip(&mut found) {
            if site.names().any(|name| matches(pattern.as_bytes(), name.as_bytes())) {
                (*found, any) = (true, true);
            }
        }
        if !any {
            return Err(unknown(sites, pattern).into());
        }
    }
    Ok(found.iter().enumerate().filter(|(_, found)| **found).map(|(index, _)| SiteId(index as u32)).collect())
}

/// Most names that a message lists.
const LISTED: usize = 12;

fn unknown(sites: &[Site], pattern: &str) -> InputError {
    let names: Vec<&str> = sites.iter().flat_map(Site::names).collect();
    let meant = crate::error::closest(pattern, names.iter().copied());
    let meant = meant.map_or(String::new(), |meant| format!("did you mean `{meant}`? "));
    let first: Vec<&str> = sites.iter().map(|site| site.name.as_str()).take(LISTED).collect();
    let more = if sites.len() > LISTED { format!(" and {} more", sites.len() - LISTED) } else { String::new() };
    let why = absent(pattern).map_or(String::new(), |why| format!("{why}; "));
    InputError::new(format!("the network has no site {}", Key(format!("site {pattern}"))))
        .expected(format!("{}{more}", first.join(", ")))
        .advice(format!("{why}{meant}{} with the path of the network lists its sites", Command("models")))
}

/// Why some networks lack a hook that TransformerLens has in others.
fn absent(pattern: &str) -> Option<&'static str> {
    let hooks = [
        ("hook_pos_embed", "only networks that add embeddings of positions to those of tokens have this hook"),
        (
            "hook_normalized",
            "only networks with norms before attention and perceptron have this hook; elsewhere use the output of the norm",
        ),
        ("hook_scale", "the factors of norms are not rows of activations"),
        ("hook_pattern", "attention between tokens is not one row per token"),
        ("hook_attn_scores", "attention between tokens is not one row per token"),
        ("hook_rot_q", "queries after the rotation are not a site; `attn.hook_q` is before it"),
        ("hook_rot_k", "keys after the rotation are not a site; `attn.hook_k` is before it"),
    ];
    hooks.into_iter().find(|(hook, _)| pattern.ends_with(hook)).map(|(_, why)| why)
}

/// Whether a name matches a pattern.
fn matches(pattern: &[u8], name: &[u8]) -> bool {
    match pattern {
        [] => name.is_empty(),
        [b'*', b'*', rest @ ..] => (0..=name.len()).any(|skip| matches(rest, &name[skip..])),
        [b'*', rest @ ..] => {
            let most = name.iter().position(|&byte| byte == b'.').unwrap_or(name.len());
            (0..=most).any(|skip| matches(rest, &name[skip..]))
        }
        [first, rest @ ..] => name.first() == Some(first) && matches(rest, &name[1..]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_and_equivalent_names() {
        let site = |layer: usize, point: &str, module: &str| {
            Site::new(format!("blocks.{layer}.{point}"), 4, RowKind::Token, layer)
                .alias(format!("model.layers.{layer}{module}"))
        };
        let sites: Vec<Site> = (0..12)
            .flat_map(|layer| [site(layer, "hook_mlp_out", ".mlp"), site(layer, "hook_resid_post", "")])
            .collect();
        let ids = |text: &str| find_sites(&sites, text).map(|ids| ids.iter().map(|id| id.0).collect::<Vec<_>>());
        assert_eq!(ids("blocks.7.hook_resid_post").unwrap(), [15]);
        assert_eq!(ids("model.layers.7").unwrap(), [15]);
        assert_eq!(ids("blocks.*.hook_resid_post").unwrap().len(), 12);
        assert_eq!(ids("blocks.1*.hook_resid_post").unwrap(), [3, 21, 23]);
        assert_eq!(ids("model.layers.*").unwrap().len(), 12);
        assert_eq!(ids("**").unwrap().len(), 24);
        assert_eq!(ids("model.layers.2.mlp, blocks.0.hook_mlp_out").unwrap(), [0, 4]);
        let error = ids("blocks.7.hook_resid_pos").unwrap_err().to_string();
        assert!(error.contains("did you mean `blocks.7.hook_resid_post`"), "{error}");
        assert!(ids("").is_err());
        let error = ids("hook_pos_embed").unwrap_err().to_string();
        assert!(error.contains("embeddings of positions") && error.contains("lists its sites"), "{error}");
    }
}
