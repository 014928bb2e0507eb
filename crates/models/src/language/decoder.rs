//! A language model: embeddings, a transformer, a head.

use std::ops::Range;
use std::sync::Arc;

use etalon::context::{Budget, Context, Reservation};
use etalon::error::{Error, InputError, Result};
use etalon::network::{
    Batch, Generation, Kept, LanguageModel, LastNorm, Layout, Network, NetworkCard, RowKind, Site, SiteId, State, Tap,
};
use rayon::prelude::*;

use super::head::Head;
use super::{check_tokens, gemma, gpt_neox, gpt2, llama, processing, qwen, written};
use crate::config::Config;
use crate::generate::generate;
use crate::layer::{self, CHUNK, Norm};
use crate::transformer::{Block, Blocks, Cache, Points, SiteNames, Transformer, TransformerConfig};
use crate::weights::{Model, NetworkOptions, Weights};

/// What a family says about its network.
pub(super) struct Family {
    pub name: &'static str,
    pub config: TransformerConfig,
    pub names: SiteNames,
    /// Most tokens of a sequence.
    pub context: usize,
    pub vocabulary: usize,
    /// Embeddings of tokens.
    pub embedding: String,
    /// Multiplies embeddings.
    pub embedding_scale: f32,
    /// Embeddings of positions.
    pub positions: Option<String>,
    pub last_norm: Norm,
    /// The head's weights; `None` if they are the embeddings.
    pub head: Option<String>,
    pub head_bias: Option<String>,
    pub soft_cap: Option<f32>,
    /// Reads a block.
    pub read: ReadBlock,
    /// Tensors that may be in a file and are not needed, such as stored masks.
    pub ignored: fn(&str) -> bool,
}

/// Reads the block of an index.
pub(super) type ReadBlock = Box<dyn Fn(&Weights, usize) -> Result<Block> + Send + Sync>;

/// A language model.
pub struct Decoder {
    card: NetworkCard,
    transformer: Transformer,
    embedding: Vec<f32>,
    embedding_scale: f32,
    positions: Option<Positions>,
    head_weight: Option<Vec<f32>>,
    head: Head,
    _memory: Reservation,
}

/// Embeddings of positions, which are added to those of tokens.
struct Positions {
    values: Vec<f32>,
    /// The sites of the two summands.
    tokens_site: SiteId,
    positions_site: SiteId,
}

impl Positions {
    /// A row per token; the first of every sequence is at position `first`.
    fn rows(&self, tokens: usize, length: usize, first: usize, width: usize) -> Vec<f32> {
        let row = |at: usize| &self.values[(first + at % length) * width..][..width];
        (0..tokens).flat_map(row).copied().collect()
    }
}

/// The families, by `model_type`.
type Describe = fn(&Model) -> Result<Family>;

const FAMILIES: [(&str, Describe); 9] = [
    ("llama", llama::describe),
    ("mistral", llama::describe),
    ("gpt2", gpt2::describe),
    ("gpt_neox", gpt_neox::describe),
    ("gemma2", gemma::describe),
    ("gemma3_text", gemma::describe),
    ("gemma3", gemma::describe),
    ("qwen2", qwen::describe),
    ("qwen3", qwen::describe),
];

impl Decoder {
    /// Whether a `model_type` is a language model that can be run.
    pub fn knows(model_type: &str) -> bool {
        FAMILIES.iter().any(|(name, _)| *name == model_type)
    }

    /// The names of the families.
    pub fn families() -> impl Iterator<Item = &'static str> {
        FAMILIES.iter().map(|(name, _)| *name)
    }

    /// Reads a network.
    pub fn open(model: Model, budget: &Budget) -> Result<Decoder> {
        let model_type = Config(&model.config).text(&["model_type"]).unwrap_or_default();
        let describe = FAMILIES.iter().find(|(name, _)| *name == model_type).map(|(_, describe)| describe);
        let Some(describe) = describe else {
            let known: Vec<&str> = Decoder::families().collect();
            return Err(InputError::new("unknown kind of language model").one_of(model_type, &known).into());
        };
        let family = describe(&model)?;
        let id = model.id()?;
        Decoder::build(family, model, id, budget)
    }

    fn build(family: Family, model: Model, id: String, budget: &Budget) -> Result<Decoder> {
        let (width, layers, vocabulary) = (family.config.width, family.config.layers, family.vocabulary);
        let table = 4 * (vocabulary * width) as u64;
        let NetworkOptions { processing, numbers, .. } = model.options;
        let has_head = family.head.is_some() || !processing.is_none();
        let tables = 1 + u64::from(has_head);
        let mut memory = budget.reserve(tables * table, "the embeddings of the network")?;
        // A second copy, in the order that products prefer, only if there is plenty of memory.
        let copy = table < budget.left() / 4;
        if copy {
            memory.resize((tables + 1) * table, "the head of the network")?;
        }
        let weights = Arc::new(model.weights);
        let mut embedding = weights.tensor(&family.embedding, &[vocabulary, width])?;
        let mut positions = family.positions.map(|name| weights.tensor(&name, &[family.context, width])).transpose()?;
        let mut head_weight = family.head.map(|name| weights.tensor(&name, &[vocabulary, width])).transpose()?;
        let mut bias = family.head_bias.map(|name| weights.tensor(&name, &[vocabulary])).transpose()?;
        let mut last_norm = family.last_norm;
        if !processing.is_none() {
            // Twice as wide while they are changed.
            let _memory = budget.reserve(2 * table, "the head of the network in double precision")?;
            let centres = processing.center_writing_weights && matches!(last_norm, Norm::Layer { .. });
            let (norm, weight, sums) = processing::head(
                processing,
                last_norm,
                head_weight.as_deref().unwrap_or(&embedding),
                bias,
                family.soft_cap.is_some(),
            );
            (last_norm, head_weight, bias) = (norm, Some(weight), sums);
            if centres {
                processing::centre_embeddings(&mut embedding, width);
                positions.iter_mut().for_each(|positions| processing::centre_embeddings(positions, width));
            }
        }
        let head = Head::new(head_weight.as_deref().unwrap_or(&embedding), width, copy, bias, family.soft_cap);
        let mut points = Points::new(&family.config, family.names, RowKind::Token);
        let positions = match positions {
            Some(values) => {
                let [tokens_site, positions_site] =
                    ["hook_embed", "hook_pos_embed"].map(|name| points.push(Site::new(name, width, RowKind::Token, 0)));
                Some(Positions { values, tokens_site, positions_site })
            }
            // The stream begins with the embeddings of tokens.
            None => {
                points.name_input("hook_embed");
                None
            }
        };
        let source = weights.clone();
        let read = family.read;
        let attention = family.config.attention.clone();
        let read = move |layer: usize| -> Result<Block> {
            let block = read(&source, layer)?;
            Ok(match attention.get(layer) {
                Some(attention) if !processing.is_none() => block.processed(processing, attention),
                _ => block,
            })
        };
        let blocks = Blocks::open(&family.config, numbers, Box::new(read), budget)?;
        if blocks.are_resident() {
            weights.refuse_unread(family.ignored)?;
        }
        let card = NetworkCard {
            weights: model.recognised,
            id,
            parameters: weights.parameters(),
            layers,
            width,
            context: family.context,
            vocabulary,
            ..NetworkCard::new(family.name)
        };
        let transformer = Transformer { config: family.config, blocks, norm: Some(last_norm), points };
        let embedding_scale = family.embedding_scale;
        Ok(Decoder { card, transformer, embedding, embedding_scale, positions, head_weight, head, _memory: memory })
    }

    fn head_weight(&self) -> &[f32] {
        self.head_weight.as_deref().unwrap_or(&self.embedding)
    }

    /// Embeddings of tokens with their positions; the first of every sequence is at position `first`.
    fn embed(&self, tokens: &[u32], length: usize, first: usize) -> Vec<f32> {
        let mut values = self.embed_tokens(tokens);
        if let Some(positions) = &self.positions {
            layer::add(&positions.rows(tokens.len(), length, first, self.card.width), &mut values);
        }
        values
    }

    fn embed_tokens(&self, tokens: &[u32]) -> Vec<f32> {
        let width = self.card.width;
        let mut values = vec![0.0; tokens.len() * width];
        values.par_chunks_mut(CHUNK * width).zip(tokens.par_chunks(CHUNK)).for_each(|(rows, tokens)| {
            for (row, token) in rows.chunks_exact_mut(width).zip(tokens) {
                row.copy_from_slice(&self.embedding[*token as usize * width..][..width]);
                if self.embedding_scale != 1.0 {
                    row.iter_mut().for_each(|value| *value *= self.embedding_scale);
                }
            }
        });
        values
    }

    /// Shows the summands of the stream before the first block to the tap, which may change them.
    fn show_embeddings(&self, state: &mut State, first: usize, tap: &mut dyn Tap) -> Result<()> {
        let Some(positions) = &self.positions else { return Ok(()) };
        let (layout, width) = (state.layout, self.card.width);
        let sites = [positions.tokens_site, positions.positions_site];
        if state.tokens.is_empty() || !sites.iter().any(|site| tap.wants(*site)) {
            return Ok(());
        }
        let parts = [self.embed_tokens(&state.tokens), positions.rows(state.tokens.len(), layout.rows, first, width)];
        let mut shown = parts.clone();
        for (site, rows) in sites.into_iter().zip(&mut shown) {
            if tap.wants(site) {
                tap.visit(site, layout, rows)?;
            }
        }
        if shown != parts {
            let [mut sum, summand] = shown;
            layer::add(&summand, &mut sum);
            state.values = sum;
        }
        Ok(())
    }

    /// The cross-entropy of every row of a finished state that has a target, in order. Logits are not kept.
    pub fn losses(&self, state: &State, targets: &[Option<u32>], context: &Context) -> Result<Vec<f32>> {
        let chunks = state.values.par_chunks(CHUNK * self.card.width).zip(targets.par_chunks(CHUNK));
        let losses: Result<Vec<Vec<f32>>> = chunks
            .map(|(x, targets)| {
                context.check()?;
                Ok(self.head.losses(self.head_weight(), x, targets))
            })
            .collect();
        Ok(losses?.concat())
    }

    /// An empty cache for generation.
    pub fn cache(&self) -> Cache {
        Cache::new(self.transformer.config.layers)
    }

    /// Runs the next tokens of one sequence; the state has a row for each of them.
    pub fn extend(&self, tokens: &[u32], cache: &mut Cache, tap: &mut dyn Tap, context: &Context) -> Result<State> {
        check_tokens(&self.card, tokens, tokens.len(), cache.length())?;
        let values = self.embed(tokens, tokens.len(), cache.length());
        let mut state = self.state(values, tokens, tokens.len(), context)?;
        self.show_embeddings(&mut state, cache.length(), tap)?;
        self.transformer.run_cached(&mut state, cache, tap, context)?;
        Ok(state)
    }

    fn state(&self, values: Vec<f32>, tokens: &[u32], length: usize, context: &Context) -> Result<State> {
        let width = self.card.width;
        let rows = values.len() / width;
        let layout = Layout { samples: rows / length, rows: length, width, grid: None };
        let mut state = State::new(values, layout, rows * self.transformer.config.scratch_per_row(), context)?;
        if self.positions.is_some() {
            state.tokens = tokens.to_vec();
        }
        Ok(state)
    }
}

impl Network for Decoder {
    fn card(&self) -> &NetworkCard {
        &self.card
    }

    fn sites(&self) -> &[Site] {
        self.transformer.points.sites()
    }

    fn stages(&self) -> usize {
        self.transformer.stages()
    }

    fn begin(&self, batch: &Batch<'_>, context: &Context) -> Result<State> {
        let Batch::Tokens { tokens, length } = *batch else {
            return Err(InputError::new("a language model cannot run on images").expected("texts").into());
        };
        check_tokens(&self.card, tokens, length, 0)?;
        self.state(self.embed(tokens, length, 0), tokens, length, context)
    }

    fn run(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<()> {
        if stages.start == 0 {
            self.show_embeddings(state, 0, tap)?;
        }
        self.transformer.run(stages, state, tap, context)
    }

    fn language(self: Arc<Self>) -> Option<Arc<dyn LanguageModel>> {
        Some(self)
    }
}

impl LanguageModel for Decoder {
    fn logits(&self, state: &State, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        let width = self.card.width;
        let x = state.values.get(rows.start * width..rows.end * width);
        let x = x.ok_or_else(|| Error::Bug("rows of logits out of range".into()))?;
        self.head.logits(self.head_weight(), x, out);
        Ok(())
    }

    fn run_kept(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<Kept> {
        if stages.start == 0 {
            self.show_embeddings(state, 0, tap)?;
        }
        self.transformer.run_kept(stages, state, tap, context)
    }

    fn loss_gradient(&self, state: &State, targets: &[Option<u32>], context: &Context) -> Result<(Vec<f32>, Vec<f32>)> {
        let (width, vocabulary) = (self.card.width, self.card.vocabulary);
        let scale = 1.0 / targets.iter().flatten().count().max(1) as f32;
        let threads = rayon::current_num_threads().max(1) as u64;
        let _memory = context.budget().reserve(4 * (CHUNK * vocabulary) as u64 * threads, "logits")?;
        let mut gradient = vec![0.0; state.values.len()];
        let chunks = gradient.par_chunks_mut(CHUNK * width).zip(state.values.par_chunks(CHUNK * width));
        let losses: Result<Vec<Vec<f32>>> = chunks
            .zip(targets.par_chunks(CHUNK))
            .map_init(Vec::new, |buffer, ((gradient, x), targets)| {
                context.check()?;
                Ok(self.head.gradient(self.head_weight(), x, targets, scale, gradient, buffer))
            })
            .collect();
        Ok((gradient, losses?.concat()))
    }

    fn backward(&self, kept: &Kept, gradient: &mut [f32], context: &Context) -> Result<()> {
        self.transformer.backward(kept, gradient, context)
    }

    fn generate(
        &self,
        prompt: &[u32],
        settings: &Generation,
        tap: &mut dyn Tap,
        context: &Context,
    ) -> Result<Vec<u32>> {
        generate(self, prompt, settings, tap, context)
    }

    fn unembedding(&self, token: u32, out: &mut [f32]) -> Result<()> {
        let row = self.head_weight().chunks_exact(self.card.width).nth(token as usize);
        out.copy_from_slice(row.ok_or_else(|| Error::Bug(format!("token {token} of the head")))?);
        Ok(())
    }

    fn last_norm(&self) -> LastNorm {
        match &self.transformer.norm {
            Some(norm) => LastNorm { weight: norm.weight().to_vec(), centres: matches!(norm, Norm::Layer { .. }) },
            None => LastNorm { weight: vec![1.0; self.card.width], centres: false },
        }
    }

    fn written(&self, site: SiteId, vectors: &[f32], factors: bool) -> Result<Option<Vec<f32>>> {
        let embeddings = self.positions.as_ref().map(|positions| [positions.tokens_site, positions.positions_site]);
        if embeddings.is_some_and(|sites| sites.contains(&site)) {
            return Ok(Some(vectors.to_vec()));
        }
        written::written(&self.transformer, site, vectors, factors)
    }
}
