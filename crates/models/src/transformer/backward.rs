//! The gradient of a loss with respect to the residual stream, through frozen blocks. A block keeps its input; everything
//! else is computed again.

use std::ops::Range;

use etalon::context::Context;
use etalon::error::{Error, Result};
use etalon::network::{Kept, State, Tap};
use rayon::prelude::*;

use super::forward::Buffers;
use super::{Attention, Block, Order, Transformer};
use crate::layer::{self, CHUNK, Norm};

impl Transformer {
    /// Runs stages and keeps the stream before each of them.
    pub fn run_kept(
        &self,
        stages: Range<usize>,
        state: &mut State,
        tap: &mut dyn Tap,
        context: &Context,
    ) -> Result<Kept> {
        let mut values = Vec::with_capacity(stages.len());
        for stage in stages.clone() {
            values.push(vec![state.values.clone()]);
            self.run(stage..stage + 1, state, tap, context)?;
        }
        Ok(Kept { stages, layout: state.layout, values })
    }

    /// Turns the gradient after the kept stages into the gradient before them.
    pub fn backward(&self, kept: &Kept, gradient: &mut [f32], context: &Context) -> Result<()> {
        let rows = kept.layout.samples * kept.layout.rows;
        let mut scratch = Vec::new();
        let mut dqkv = vec![0.0; rows * self.config.qkv()];
        for (stage, values) in kept.stages.clone().zip(&kept.values).rev() {
            context.check()?;
            let Some(x) = values.first() else { return Err(Error::Bug("a stage kept nothing".into())) };
            let mut buffers = Buffers::of(&mut scratch, rows, self);
            if stage == self.config.layers {
                if let Some(norm) = &self.norm {
                    buffers.part.copy_from_slice(gradient);
                    gradient.fill(0.0);
                    norm.back(x, buffers.part, gradient);
                }
                continue;
            }
            self.blocks.with(stage, |block| {
                self.block_back(stage, block, x, kept.layout.rows, gradient, &mut buffers, &mut dqkv)
            })?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "a block needs all of them")]
    fn block_back(
        &self,
        layer: usize,
        block: &Block,
        x: &[f32],
        length: usize,
        gradient: &mut [f32],
        buffers: &mut Buffers<'_>,
        dqkv: &mut [f32],
    ) -> Result<()> {
        let attention = &self.config.attention[layer];
        // Forward again, as far as the gradient needs it.
        block.norm1.apply(x, buffers.normed);
        block.qkv.apply(buffers.normed, buffers.qkv);
        let raw = self.raw_heads(block, buffers.qkv);
        self.position(layer, block, buffers.qkv, length, 0);
        attention.batch(buffers.qkv, length, buffers.z);
        let mut attention_out = vec![0.0; x.len()];
        block.out.apply(buffers.z, &mut attention_out);
        let mid = match self.config.order {
            Order::PreNorm => {
                let mut mid = x.to_vec();
                add_part(&attention_out, block.attention_norm.as_ref(), block.attention_scale.as_deref(), &mut mid);
                mid
            }
            Order::Parallel => x.to_vec(),
            Order::PostNorm => return Err(Error::Bug("no gradient through post-norm blocks".into())),
        };
        // The perceptron. `gradient` stays the gradient at the stream; its part for the perceptron is added to `more`.
        block.norm2.apply(&mid, buffers.normed);
        block.up.apply(buffers.normed, buffers.up);
        self.activate(buffers.up, buffers.post);
        let mut at_input = if self.config.order == Order::Parallel { vec![0.0; x.len()] } else { Vec::new() };
        let mut part = gradient.to_vec();
        if block.mlp_norm.is_some() || block.mlp_scale.is_some() {
            let mut out = vec![0.0; x.len()];
            block.down.apply(buffers.post, &mut out);
            part_back(&out, block.mlp_norm.as_ref(), block.mlp_scale.as_deref(), &mut part);
        }
        self.mlp_back(block, &part, buffers);
        let into: &mut [f32] = if self.config.order == Order::Parallel { &mut at_input } else { gradient };
        block.norm2.back(&mid, buffers.part, into);
        // Attention.
        part.copy_from_slice(gradient);
        part_back(&attention_out, block.attention_norm.as_ref(), block.attention_scale.as_deref(), &mut part);
        block.out.back(&part, buffers.z);
        attention.back(buffers.qkv, buffers.z, length, dqkv);
        if let Some(rope) = attention.rope.and_then(|index| self.config.ropes.get(index)) {
            rope.back(dqkv, self.config.qkv(), attention.heads + attention.kv_heads, attention.dim, length);
        }
        if let Some(raw) = raw {
            heads_back(block, attention, self.config.qkv(), &raw, dqkv);
        }
        block.qkv.back(dqkv, buffers.part);
        block.norm1.back(x, buffers.part, gradient);
        if self.config.order == Order::Parallel {
            layer::add(&at_input, gradient);
        }
        Ok(())
    }

    /// Queries and keys before their norms, if they have norms.
    fn raw_heads(&self, block: &Block, qkv: &[f32]) -> Option<Vec<f32>> {
        (block.q_norm.is_some() || block.k_norm.is_some()).then(|| qkv.to_vec())
    }

    /// From the gradient at the perceptron's output to that at its normalised input, in `buffers.part`.
    fn mlp_back(&self, block: &Block, d: &[f32], buffers: &mut Buffers<'_>) {
        let (hidden, width, activation, gated) =
            (self.config.hidden, self.config.up(), self.config.activation, self.config.gated);
        block.down.back(d, buffers.post);
        let (post, up) = (&mut *buffers.post, &mut *buffers.up);
        up.par_chunks_mut(CHUNK * width).zip(post.par_chunks_mut(CHUNK * hidden)).for_each(|(up, d)| {
            if gated {
                activation.gated_back(d, hidden, up);
            } else {
                activation.back(up, d);
                up.copy_from_slice(d);
            }
        });
        block.up.back(buffers.up, buffers.part);
    }
}

/// Adds a part's output to the stream, as the forward run does.
fn add_part(out: &[f32], norm: Option<&Norm>, scale: Option<&[f32]>, x: &mut [f32]) {
    let mut part = out.to_vec();
    if let Some(norm) = norm {
        norm.apply(out, &mut part);
    }
    if let Some(scale) = scale {
        layer::multiply_rows(scale, &mut part);
    }
    layer::add(&part, x);
}

/// Turns the gradient at what a part adds into the gradient at its output before norm and scale.
fn part_back(out: &[f32], norm: Option<&Norm>, scale: Option<&[f32]>, d: &mut [f32]) {
    if let Some(scale) = scale {
        layer::multiply_rows(scale, d);
    }
    if let Some(norm) = norm {
        let mut after = d.to_vec();
        d.fill(0.0);
        norm.back(out, &mut after, d);
    }
}

/// The gradient of the norms of query and key heads.
fn heads_back(block: &Block, attention: &Attention, pitch: usize, raw: &[f32], d: &mut [f32]) {
    let parts = [(&block.q_norm, 0, attention.heads), (&block.k_norm, attention.heads, attention.kv_heads)];
    for (norm, first, heads) in parts {
        let Some(norm) = norm else { continue };
        let columns = first * attention.dim..(first + heads) * attention.dim;
        d.par_chunks_mut(CHUNK * pitch).zip(raw.par_chunks(CHUNK * pitch)).for_each(|(d, raw)| {
            let mut into = vec![0.0; columns.len()];
            for (d, raw) in d.chunks_exact_mut(pitch).zip(raw.chunks_exact(pitch)) {
                into.fill(0.0);
                norm.back_chunk(&raw[columns.clone()], &mut d[columns.clone()], &mut into);
                d[columns.clone()].copy_from_slice(&into);
            }
        });
    }
}
