//! Runs blocks.

use std::ops::Range;

use etalon::context::Context;
use etalon::error::Result;
use etalon::network::{Layout, State, Tap};
use rayon::prelude::*;

use super::attention::{HeadRows, Sequence};
use super::cache::Cache;
use super::points::{Point, Visits};
use super::{Attention, Block, Order, Transformer};
use crate::layer::{self, CHUNK, Linear, Norm};

/// Buffers that blocks use again.
pub(super) struct Buffers<'a> {
    pub normed: &'a mut [f32],
    pub part: &'a mut [f32],
    pub qkv: &'a mut [f32],
    pub z: &'a mut [f32],
    pub up: &'a mut [f32],
    pub post: &'a mut [f32],
    /// Gets the stream between attention and perceptron, if there is such a buffer and the gradient can use it.
    pub mid: Option<&'a mut Vec<f32>>,
}

/// Buffers that every block needs.
const BUFFERS: usize = 6;

impl<'a> Buffers<'a> {
    /// Buffers for some rows. They are allocated once per state.
    pub fn of(scratch: &'a mut Vec<Vec<f32>>, rows: usize, transformer: &Transformer) -> Buffers<'a> {
        let config = &transformer.config;
        let widths: [usize; BUFFERS] =
            [config.width, config.width, config.qkv(), config.z(), config.up(), config.hidden];
        scratch.resize_with(BUFFERS.max(scratch.len()), Vec::new);
        let (always, more) = scratch.split_at_mut(BUFFERS);
        let mut buffers = always.iter_mut().zip(widths).map(|(buffer, width)| {
            buffer.resize(rows * width, 0.0);
            buffer.as_mut_slice()
        });
        let mut next = || buffers.next().unwrap_or_default();
        let (normed, part, qkv) = (next(), next(), next());
        Buffers { normed, part, qkv, z: next(), up: next(), post: next(), mid: more.first_mut() }
    }

    /// Adds the buffer for the stream between attention and perceptron, or removes it.
    pub fn keep_mid(scratch: &mut Vec<Vec<f32>>, keep: bool) {
        scratch.resize_with(BUFFERS + usize::from(keep), Vec::new);
    }

    /// Takes what the gradient of the last block needs out of the buffers: queries, keys and values; inputs of the activation
    /// function; and the stream between attention and perceptron, or if there is none, the outputs of the heads.
    pub fn take(scratch: &mut [Vec<f32>]) -> Inside {
        let mut take = |index: usize| scratch.get_mut(index).map(std::mem::take).unwrap_or_default();
        let (qkv, up, mid) = (take(2), take(4), take(BUFFERS));
        let between = if mid.is_empty() { Between::Heads(take(3)) } else { Between::Stream(mid) };
        Inside { qkv, up, between }
    }
}

/// What is kept of the inside of a block.
pub(super) struct Inside {
    pub qkv: Vec<f32>,
    pub up: Vec<f32>,
    pub between: Between,
}

/// What is kept between attention and perceptron.
pub(super) enum Between {
    /// The residual stream.
    Stream(Vec<f32>),
    /// The outputs of the heads.
    Heads(Vec<f32>),
}

impl Transformer {
    /// Runs some stages on a state.
    pub fn run(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<()> {
        let State { values, layout, scratch, .. } = state;
        self.run_rows(stages, values, *layout, scratch, tap, None, context)
    }

    /// Runs one sequence whose earlier tokens are in a cache.
    pub fn run_cached(&self, state: &mut State, cache: &mut Cache, tap: &mut dyn Tap, context: &Context) -> Result<()> {
        let State { values, layout, scratch, .. } = state;
        self.run_rows(0..self.stages(), values, *layout, scratch, tap, Some(&mut *cache), context)?;
        cache.advance(layout.rows);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "the parts of a state, which are borrowed separately")]
    fn run_rows(
        &self,
        stages: Range<usize>,
        values: &mut [f32],
        layout: Layout,
        scratch: &mut Vec<Vec<f32>>,
        tap: &mut dyn Tap,
        mut cache: Option<&mut Cache>,
        context: &Context,
    ) -> Result<()> {
        let rows = layout.samples * layout.rows;
        for stage in stages {
            context.check()?;
            let mut buffers = Buffers::of(scratch, rows, self);
            if stage == self.config.layers {
                self.finish(values, layout, &mut buffers, tap)?;
                continue;
            }
            let mut visits = self.points.of(stage, layout, tap);
            self.blocks.with(stage, |block| {
                self.block(stage, block, values, layout, &mut buffers, &mut visits, cache.as_deref_mut())
            })?;
        }
        Ok(())
    }

    /// The last norm.
    fn finish(&self, values: &mut [f32], layout: Layout, buffers: &mut Buffers<'_>, tap: &mut dyn Tap) -> Result<()> {
        if let Some(norm) = &self.norm {
            let see = match self.points.last_normalised().filter(|id| tap.wants(*id)) {
                Some(id) => {
                    let tap = &mut *tap;
                    Some(move |rows: &mut [f32]| tap.visit(id, layout, rows))
                }
                None => None,
            };
            normalise(norm, values, buffers.normed, see)?;
            values.copy_from_slice(buffers.normed);
        }
        match self.points.last_norm().filter(|id| tap.wants(*id)) {
            Some(id) => tap.visit(id, layout, values),
            None => Ok(()),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "a block needs all of them")]
    fn block(
        &self,
        layer: usize,
        block: &Block,
        x: &mut [f32],
        layout: Layout,
        buffers: &mut Buffers<'_>,
        visits: &mut Visits<'_>,
        cache: Option<&mut Cache>,
    ) -> Result<()> {
        visits.see(Point::ResidualPre, x)?;
        match self.config.order {
            Order::PreNorm => {
                normalise_for(Part::Attention, block, x, buffers.normed, visits)?;
                self.attend(layer, block, layout, buffers, visits, cache)?;
                add_output(Part::Attention, block, x, buffers, visits)?;
                visits.see(Point::ResidualMid, x)?;
                if let Some(mid) = buffers.mid.as_mut().filter(|_| !block.changes_attention()) {
                    mid.clear();
                    mid.extend_from_slice(x);
                }
                normalise_for(Part::Mlp, block, x, buffers.normed, visits)?;
                self.perceive(block, buffers, visits)?;
                add_output(Part::Mlp, block, x, buffers, visits)?;
            }
            Order::Parallel => {
                normalise_for(Part::Attention, block, x, buffers.normed, visits)?;
                self.attend(layer, block, layout, buffers, visits, cache)?;
                // Both parts read the stream before either is added to it.
                normalise_for(Part::Mlp, block, x, buffers.normed, visits)?;
                add_output(Part::Attention, block, x, buffers, visits)?;
                self.perceive(block, buffers, visits)?;
                add_output(Part::Mlp, block, x, buffers, visits)?;
            }
            Order::PostNorm => {
                buffers.normed.copy_from_slice(x);
                self.attend(layer, block, layout, buffers, visits, cache)?;
                add_output(Part::Attention, block, x, buffers, visits)?;
                visits.see(Point::ResidualMid, x)?;
                block.norm1.apply(x, buffers.normed);
                x.copy_from_slice(buffers.normed);
                visits.see(Point::ResidualMidNormed, x)?;
                buffers.normed.copy_from_slice(x);
                self.perceive(block, buffers, visits)?;
                add_output(Part::Mlp, block, x, buffers, visits)?;
                visits.see(Point::ResidualPost, x)?;
                block.norm2.apply(x, buffers.normed);
                x.copy_from_slice(buffers.normed);
                return visits.see(Point::ResidualPostNormed, x);
            }
        }
        visits.see(Point::ResidualPost, x)
    }

    /// From the normalised stream to the outputs of the heads.
    fn attend(
        &self,
        layer: usize,
        block: &Block,
        layout: Layout,
        buffers: &mut Buffers<'_>,
        visits: &mut Visits<'_>,
        cache: Option<&mut Cache>,
    ) -> Result<()> {
        let attention = &self.config.attention[layer];
        let first = cache.as_ref().map_or(0, |cache| cache.length());
        if self.config.order != Order::PostNorm {
            visits.see(Point::AttentionIn, buffers.normed)?;
        }
        block.qkv.apply(buffers.normed, buffers.qkv);
        let (q, kv) = (attention.heads * attention.dim, attention.kv_heads * attention.dim);
        let pitch = self.config.qkv();
        visits.see_columns(Point::Query, buffers.qkv, pitch, 0..q)?;
        visits.see_columns(Point::Key, buffers.qkv, pitch, q..q + kv)?;
        visits.see_columns(Point::Value, buffers.qkv, pitch, q + kv..pitch)?;
        self.position(layer, block, buffers.qkv, layout.rows, first);
        match cache {
            None => attention.batch(buffers.qkv, layout.rows, buffers.z),
            Some(cache) => attend_cached(attention, cache, layer, buffers),
        }
        visits.see(Point::Z, buffers.z)
    }

    /// Norms and rotations of queries and keys.
    pub(super) fn position(&self, layer: usize, block: &Block, qkv: &mut [f32], length: usize, first: usize) {
        let attention = &self.config.attention[layer];
        let pitch = self.config.qkv();
        normalise_heads(block, attention, pitch, qkv);
        if let Some(rope) = attention.rope.and_then(|index| self.config.ropes.get(index)) {
            rope.apply(qkv, pitch, attention.heads + attention.kv_heads, attention.dim, length, first);
        }
    }

    /// From the normalised stream to the units of the perceptron.
    fn perceive(&self, block: &Block, buffers: &mut Buffers<'_>, visits: &mut Visits<'_>) -> Result<()> {
        if self.config.order != Order::PostNorm {
            visits.see(Point::MlpIn, buffers.normed)?;
        }
        block.up.apply(buffers.normed, buffers.up);
        let hidden = self.config.hidden;
        visits.see_columns(Point::MlpPre, buffers.up, self.config.up(), 0..hidden)?;
        self.activate(buffers.up, buffers.post);
        visits.see(Point::MlpPost, buffers.post)
    }

    /// The activation function of the perceptron.
    pub(super) fn activate(&self, up: &[f32], post: &mut [f32]) {
        let (hidden, width, activation) = (self.config.hidden, self.config.up(), self.config.activation);
        let gated = self.config.gated;
        post.par_chunks_mut(CHUNK * hidden).zip(up.par_chunks(CHUNK * width)).for_each(|(post, up)| {
            if gated {
                activation.gated(up, hidden, post);
            } else {
                post.copy_from_slice(up);
                activation.apply(post);
            }
        });
    }
}

/// The two parts of a block that add to the residual stream.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Attention,
    Mlp,
}

/// Normalises the stream for a part of a block.
fn normalise_for(part: Part, block: &Block, x: &[f32], normed: &mut [f32], visits: &mut Visits<'_>) -> Result<()> {
    let (norm, point) = match part {
        Part::Attention => (&block.norm1, Point::AttentionNormalised),
        Part::Mlp => (&block.norm2, Point::MlpNormalised),
    };
    normalise(norm, x, normed, visits.wants(point).then_some(|rows: &mut [f32]| visits.see(point, rows)))
}

/// Normalises rows; `see` may look at them and change them before the norm's factors and summands. Looking alone changes no bit.
fn normalise(
    norm: &Norm,
    x: &[f32],
    normed: &mut [f32],
    see: Option<impl FnOnce(&mut [f32]) -> Result<()>>,
) -> Result<()> {
    if let Some(see) = see {
        norm.plain().apply(x, normed);
        let before = normed.to_vec();
        see(normed)?;
        if *normed != *before {
            norm.scale(normed);
            return Ok(());
        }
    }
    norm.apply(x, normed);
    Ok(())
}

/// Adds the output of a part to the stream. It exists by itself only if something has to happen to it.
fn add_output(
    part: Part,
    block: &Block,
    x: &mut [f32],
    buffers: &mut Buffers<'_>,
    visits: &mut Visits<'_>,
) -> Result<()> {
    let (linear, input, norm, scale, raw, out): (&Linear, &[f32], _, _, _, _) = match part {
        Part::Attention => (
            &block.out,
            buffers.z,
            &block.attention_norm,
            &block.attention_scale,
            Point::AttentionRaw,
            Point::AttentionOut,
        ),
        Part::Mlp => (&block.down, buffers.post, &block.mlp_norm, &block.mlp_scale, Point::MlpRaw, Point::MlpOut),
    };
    if norm.is_none() && scale.is_none() && !visits.wants(out) {
        linear.add(input, x);
        return Ok(());
    }
    linear.apply(input, buffers.part);
    visits.see(raw, buffers.part)?;
    if let Some(norm) = norm {
        // `normed` is free here in pre-norm blocks, the only ones with such norms.
        norm.apply(buffers.part, buffers.normed);
        buffers.part.copy_from_slice(buffers.normed);
    }
    if let Some(scale) = scale {
        layer::multiply_rows(scale, buffers.part);
    }
    visits.see(out, buffers.part)?;
    layer::add(buffers.part, x);
    Ok(())
}

/// Norms of query and key heads.
pub(super) fn normalise_heads(block: &Block, attention: &Attention, pitch: usize, qkv: &mut [f32]) {
    let parts = [(&block.q_norm, 0, attention.heads), (&block.k_norm, attention.heads, attention.kv_heads)];
    for (norm, first, heads) in parts {
        let Some(norm) = norm else { continue };
        qkv.par_chunks_mut(CHUNK * pitch).for_each(|rows| normalise_rows(norm, first, heads, pitch, rows));
    }
}

fn normalise_rows(norm: &Norm, first: usize, heads: usize, pitch: usize, rows: &mut [f32]) {
    let dim = norm.width();
    let mut normed = vec![0.0; heads * dim];
    for row in rows.chunks_exact_mut(pitch) {
        let part = &mut row[first * dim..][..heads * dim];
        norm.apply_chunk(part, &mut normed);
        part.copy_from_slice(&normed);
    }
}

/// Attention of new tokens to all tokens so far, which are added to the cache.
fn attend_cached(attention: &Attention, cache: &mut Cache, layer: usize, buffers: &mut Buffers<'_>) {
    let (q, kv) = (attention.heads * attention.dim, attention.kv_heads * attention.dim);
    let pitch = q + 2 * kv;
    let stored = &mut cache.layers[layer];
    for row in buffers.qkv.chunks_exact(pitch) {
        stored.keys.extend_from_slice(&row[q..q + kv]);
        stored.values.extend_from_slice(&row[q + kv..]);
    }
    let sequence = Sequence {
        q: HeadRows { values: buffers.qkv, pitch },
        k: HeadRows { values: &stored.keys, pitch: kv },
        v: HeadRows { values: &stored.values, pitch: kv },
        queries: buffers.qkv.len() / pitch,
        keys: stored.keys.len() / kv,
    };
    attention.sequence(sequence, buffers.z);
}
