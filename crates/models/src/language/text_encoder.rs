//! Encoders of texts: BERT and MiniLM, and the text tower of CLIP. A text becomes one row.

use std::ops::Range;
use std::sync::Arc;

use etalon::context::{Budget, Context, Reservation};
use etalon::error::{Error, InputError, Result};
use etalon::network::{Batch, Layout, Network, NetworkCard, RowKind, Site, SiteId, State, Tap};
use rayon::prelude::*;

use crate::config::Config;
use crate::layer::{Linear, Norm};
use crate::transformer::{Blocks, EncoderNames, EncoderSizes, Order, Point, Points, SiteNames, Transformer};
use crate::vision::{CLIP_MODULES, CLIP_NAMES, clip_sizes};
use crate::weights::Model;

const BERT: EncoderNames = EncoderNames {
    qkv: &["attention.self.query", "attention.self.key", "attention.self.value"],
    out: "attention.output.dense",
    norms: ["attention.output.LayerNorm", "output.LayerNorm"],
    mlp: ["intermediate.dense", "output.dense"],
    scales: None,
};

pub(super) const BERT_SITES: SiteNames = SiteNames {
    block: "encoder.layer.{}",
    modules: &[
        (Point::Query, "attention.self.query"),
        (Point::Key, "attention.self.key"),
        (Point::Value, "attention.self.value"),
        (Point::AttentionOut, "attention.output.dense"),
        (Point::ResidualMidNormed, "attention"),
        (Point::ResidualMidNormed, "attention.output"),
        (Point::MlpPre, "intermediate.dense"),
        (Point::MlpPost, "intermediate"),
        (Point::MlpOut, "output.dense"),
        (Point::ResidualPostNormed, ""),
    ],
    last_norm: "",
};

pub(super) const CLIP_SITES: SiteNames = SiteNames {
    block: "text_model.encoder.layers.{}",
    modules: CLIP_MODULES,
    last_norm: "text_model.final_layer_norm",
};

/// How the tokens of a text become one row.
#[derive(Clone, Debug)]
enum Pool {
    /// Their mean.
    Mean,
    /// The first token with this number; without a number, the token with the largest one.
    End(Option<u32>),
}

/// An encoder of texts.
pub struct TextEncoder {
    card: NetworkCard,
    transformer: Transformer,
    tokens: Vec<f32>,
    positions: Vec<f32>,
    /// After the embeddings.
    first_norm: Option<Norm>,
    pool: Pool,
    output: Option<Linear>,
    sites: Vec<Site>,
    pooled: SiteId,
    last: SiteId,
    _memory: Reservation,
}

impl TextEncoder {
    /// Reads BERT, MiniLM and other encoders with the names of BERT.
    pub fn bert(model: Model, budget: &Budget) -> Result<TextEncoder> {
        let id = model.id()?;
        let Model { config, weights, recognised, .. } = model;
        let (config, weights) = (Config(&config), Arc::new(weights));
        let sizes = EncoderSizes {
            width: config.size(&["hidden_size"])?,
            layers: config.size(&["num_hidden_layers"])?,
            heads: config.size(&["num_attention_heads"])?,
            hidden: config.size(&["intermediate_size"])?,
            eps: config.optional_number(&["layer_norm_eps"])?.unwrap_or(1e-12) as f32,
            qkv_bias: true,
            gated: false,
        };
        let (width, context) = (sizes.width, config.size(&["max_position_embeddings"])?);
        let (vocabulary, types) = (config.size(&["vocab_size"])?, config.size(&["type_vocab_size"])?);
        let memory = budget.reserve(4 * (width * (vocabulary + context)) as u64, "the embeddings of the network")?;
        let prefix = if weights.has("bert.embeddings.word_embeddings.weight") { "bert." } else { "" };
        let table =
            |name: &str, rows: usize| weights.tensor(&format!("{prefix}embeddings.{name}.weight"), &[rows, width]);
        let mut positions = table("position_embeddings", context)?;
        // All texts have token type 0: its embedding is added to every position.
        let kind = table("token_type_embeddings", types)?;
        positions.chunks_exact_mut(width).for_each(|row| etalon_kernel::neural::add(&kind[..width], row));
        let shape = sizes.config(config.activation(&["hidden_act"], "gelu")?, Order::PostNorm, false);
        let source = weights.clone();
        let read = move |layer: usize| sizes.block(&source, &format!("{prefix}encoder.layer.{layer}"), &BERT);
        let blocks = Blocks::open(&shape, model.options.numbers, Box::new(read), budget)?;
        let points = Points::new(&shape, BERT_SITES, RowKind::Token);
        let mut sites = points.sites().to_vec();
        let stage = sizes.layers + 1;
        sites.push(Site::new("pooled", width, RowKind::Sample, stage));
        sites.push(Site::new("sentence_embedding", width, RowKind::Sample, stage));
        let encoder = TextEncoder {
            card: NetworkCard {
                weights: recognised,
                id,
                parameters: weights.parameters(),
                layers: sizes.layers,
                width,
                context,
                vocabulary,
                ..NetworkCard::new("bert")
            },
            tokens: table("word_embeddings", vocabulary)?,
            positions,
            first_norm: Some(sizes.norm(&weights, &format!("{prefix}embeddings.LayerNorm"))?),
            pool: Pool::Mean,
            output: None,
            pooled: SiteId(sites.len() as u32 - 2),
            last: SiteId(sites.len() as u32 - 1),
            sites,
            transformer: Transformer { config: shape, blocks, norm: None, points },
            _memory: memory,
        };
        if encoder.transformer.blocks.are_resident() {
            let unused = |name: &str| ["pooler.", "cls.", "position_ids"].iter().any(|part| name.contains(part));
            weights.refuse_unread(unused)?;
        }
        Ok(encoder)
    }

    /// Reads the text tower of CLIP.
    pub fn clip(model: Model, budget: &Budget) -> Result<TextEncoder> {
        let id = model.id()?;
        let Model { config, weights, recognised, .. } = model;
        let (whole, weights) = (Config(&config), Arc::new(weights));
        let config = whole.table("text_config").unwrap_or(whole);
        let sizes = clip_sizes(&config)?;
        let (width, context) = (sizes.width, config.size(&["max_position_embeddings"])?);
        let vocabulary = config.size(&["vocab_size"])?;
        let memory = budget.reserve(4 * (width * (vocabulary + context)) as u64, "the embeddings of the network")?;
        let table =
            |name: &str, rows: usize| weights.tensor(&format!("text_model.embeddings.{name}.weight"), &[rows, width]);
        let shape = sizes.config(config.activation(&["hidden_act"], "quick_gelu")?, Order::PreNorm, true);
        let source = weights.clone();
        let read = move |layer: usize| sizes.block(&source, &format!("text_model.encoder.layers.{layer}"), &CLIP_NAMES);
        let blocks = Blocks::open(&shape, model.options.numbers, Box::new(read), budget)?;
        let to = whole.optional_size(&["projection_dim"])?.map_or_else(|| config.size(&["projection_dim"]), Ok)?;
        let projection = weights.tensor("text_projection.weight", &[to, width])?;
        // Files of the first release give 2 as the number of the end, which is not what their tokenizer writes.
        let end = config.optional_size(&["eos_token_id"])?.map(|end| end as u32).filter(|end| *end != 2);
        let points = Points::new(&shape, CLIP_SITES, RowKind::Token);
        let mut sites = points.sites().to_vec();
        let stage = sizes.layers + 1;
        sites.push(Site::new("pooled", width, RowKind::Sample, stage));
        sites.push(Site::new("text_projection", to, RowKind::Sample, stage));
        Ok(TextEncoder {
            card: NetworkCard {
                weights: recognised,
                id,
                parameters: weights.parameters(),
                layers: sizes.layers,
                width,
                context,
                vocabulary,
                ..NetworkCard::new("clip-text")
            },
            tokens: table("token_embedding", vocabulary)?,
            positions: table("position_embedding", context)?,
            first_norm: None,
            pool: Pool::End(end),
            output: Some(Linear::stacked(width, &[&projection], None)),
            pooled: SiteId(sites.len() as u32 - 2),
            last: SiteId(sites.len() as u32 - 1),
            sites,
            transformer: Transformer {
                config: shape,
                blocks,
                norm: Some(sizes.norm(&weights, "text_model.final_layer_norm")?),
                points,
            },
            _memory: memory,
        })
    }

    /// The row of every text that stands for it.
    fn ends(&self, tokens: &[u32], length: usize) -> Result<Vec<u32>> {
        let Pool::End(end) = self.pool else { return Ok(Vec::new()) };
        let row = |text: &[u32]| {
            let found = match end {
                Some(end) => text.iter().position(|token| *token == end),
                None => text.iter().max().and_then(|most| text.iter().position(|token| token == most)),
            };
            found.map(|at| at as u32).ok_or_else(|| {
                Error::from(
                    InputError::new("a text has no end token")
                        .expected(format!("token {} in every text", end.unwrap_or_default()))
                        .advice("tokenise with the tokenizer of the network, with special tokens"),
                )
            })
        };
        tokens.chunks_exact(length).map(row).collect()
    }

    fn finish(&self, state: &mut State, tap: &mut dyn Tap) -> Result<()> {
        let (layout, width) = (state.layout, state.layout.width);
        let mut pooled = Vec::with_capacity(layout.samples * width);
        for (sample, rows) in state.values.chunks_exact(layout.rows * width).enumerate() {
            match state.marked.get(sample) {
                Some(&row) => pooled.extend_from_slice(&rows[row as usize * width..][..width]),
                None => pooled
                    .extend((0..width).map(|i| rows.iter().skip(i).step_by(width).sum::<f32>() / layout.rows as f32)),
            }
        }
        let mut layout = Layout { samples: layout.samples, rows: 1, width, grid: None };
        if tap.wants(self.pooled) {
            tap.visit(self.pooled, layout, &mut pooled)?;
        }
        match &self.output {
            Some(output) => {
                let mut projected = vec![0.0; layout.samples * output.to()];
                output.apply(&pooled, &mut projected);
                (layout.width, pooled) = (output.to(), projected);
            }
            None => pooled.chunks_exact_mut(width).for_each(to_unit_length),
        }
        if tap.wants(self.last) {
            tap.visit(self.last, layout, &mut pooled)?;
        }
        (state.values, state.layout) = (pooled, layout);
        Ok(())
    }
}

/// Divides a row by its length.
fn to_unit_length(row: &mut [f32]) {
    let length = row.iter().map(|value| f64::from(*value) * f64::from(*value)).sum::<f64>().sqrt().max(1e-12) as f32;
    row.iter_mut().for_each(|value| *value /= length);
}

impl Network for TextEncoder {
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
        let Batch::Tokens { tokens, length } = *batch else {
            return Err(InputError::new("an encoder of texts cannot run on images").expected("texts").into());
        };
        super::check_tokens(&self.card, tokens, length, 0)?;
        let width = self.card.width;
        let mut values = vec![0.0; tokens.len() * width];
        values.par_chunks_mut(length * width).zip(tokens.par_chunks(length)).for_each(|(rows, tokens)| {
            for ((row, token), position) in rows.chunks_exact_mut(width).zip(tokens).zip(self.positions.chunks(width)) {
                row.copy_from_slice(&self.tokens[*token as usize * width..][..width]);
                etalon_kernel::neural::add(position, row);
            }
        });
        if let Some(norm) = &self.first_norm {
            let mut normed = vec![0.0; values.len()];
            norm.apply(&values, &mut normed);
            values = normed;
        }
        let rows = tokens.len();
        let layout = Layout { samples: rows / length, rows: length, width, grid: None };
        let mut state = State::new(values, layout, rows * self.transformer.config.scratch_per_row(), context)?;
        state.marked = self.ends(tokens, length)?;
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
