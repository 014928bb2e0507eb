//! The gradient of a loss with respect to the residual stream, through frozen blocks. A block keeps its input, and what is
//! expensive to compute again if there is memory for it; the bits are the same either way.

use std::borrow::Cow;
use std::ops::Range;

use etalon::context::Context;
use etalon::error::{Error, Result};
use etalon::network::{Kept, State, Tap};
use rayon::prelude::*;

use super::forward::{Between, Buffers, Inside};
use super::{Attention, Block, Order, Transformer};
use crate::layer::{self, CHUNK, Norm};

/// What was kept of the inside of a block. Either the stream between attention and perceptron or the outputs of the heads is empty.
#[derive(Clone, Copy)]
struct KeptInside<'a> {
    qkv: &'a [f32],
    up: &'a [f32],
    mid: &'a [f32],
    z: &'a [f32],
}

impl Transformer {
    /// Runs stages and keeps the stream before each of them.
    pub fn run_kept(
        &self,
        stages: Range<usize>,
        state: &mut State,
        tap: &mut dyn Tap,
        context: &Context,
    ) -> Result<Kept> {
        let (mut values, mut memory) = (Vec::with_capacity(stages.len()), Vec::new());
        let rows = state.layout.samples * state.layout.rows;
        let between = self.config.z().max(self.config.width);
        let kept = 4 * (rows * (self.config.qkv() + between + self.config.up())) as u64;
        for stage in stages.clone() {
            memory.push(context.budget().reserve(4 * state.values.len() as u64, "the input of a block")?);
            let mut of_stage = vec![state.values.clone()];
            // A tap may change what is inside: then the block as it is has to be computed again. Half of the memory that is left must
            // remain for others.
            let wanted = stage < self.config.layers && !self.points.is_watched(stage, &*tap);
            let fits = wanted && kept < context.budget().left() / 2;
            let reserved = fits.then(|| context.budget().reserve(kept, "the inside of a block").ok()).flatten();
            Buffers::keep_mid(&mut state.scratch, reserved.is_some());
            self.run(stage..stage + 1, state, tap, context)?;
            if let Some(reserved) = reserved {
                memory.push(reserved);
                let Inside { qkv, up, between } = Buffers::take(&mut state.scratch);
                let (mid, z) = match between {
                    Between::Stream(mid) => (mid, Vec::new()),
                    Between::Heads(z) => (Vec::new(), z),
                };
                of_stage.extend([qkv, up, mid, z]);
            }
            values.push(of_stage);
        }
        Buffers::keep_mid(&mut state.scratch, false);
        Ok(Kept { stages, layout: state.layout, values, memory })
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
            let inside = match &values[1..] {
                [qkv, up, mid, z] => Some(KeptInside { qkv, up, mid, z }),
                _ => None,
            };
            self.blocks.with(stage, |block| {
                self.block_back(stage, block, (x, inside), kept.layout.rows, gradient, &mut buffers, &mut dqkv)
            })?;
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "a block needs all of them")]
    fn block_back(
        &self,
        layer: usize,
        block: &Block,
        (x, inside): (&[f32], Option<KeptInside<'_>>),
        length: usize,
        gradient: &mut [f32],
        buffers: &mut Buffers<'_>,
        dqkv: &mut [f32],
    ) -> Result<()> {
        let attention = &self.config.attention[layer];
        // Forward again, as far as the gradient needs it and it was not kept.
        let has_head_norms = block.q_norm.is_some() || block.k_norm.is_some();
        let mut raw = None;
        if inside.is_none() || has_head_norms {
            block.norm1.apply(x, buffers.normed);
            block.qkv.apply(buffers.normed, buffers.qkv);
            raw = has_head_norms.then(|| buffers.qkv.to_vec());
        }
        let (qkv, z): (&[f32], &[f32]) = match inside {
            Some(inside) => (inside.qkv, inside.z),
            None => {
                self.position(layer, block, buffers.qkv, length, 0);
                attention.batch(buffers.qkv, length, buffers.z);
                (&*buffers.qkv, &*buffers.z)
            }
        };
        let kept_mid = inside.map(|inside| inside.mid).filter(|mid| !mid.is_empty());
        let needs_out = block.changes_attention() || (self.config.order == Order::PreNorm && kept_mid.is_none());
        let mut attention_out = vec![0.0; if needs_out { x.len() } else { 0 }];
        if needs_out {
            block.out.apply(z, &mut attention_out);
        }
        let mid = match (self.config.order, kept_mid) {
            (Order::PostNorm, _) => return Err(Error::Bug("no gradient through post-norm blocks".into())),
            (Order::Parallel, _) => Cow::Borrowed(x),
            (Order::PreNorm, Some(mid)) => Cow::Borrowed(mid),
            (Order::PreNorm, None) => {
                let mut mid = x.to_vec();
                add_part(&attention_out, block.attention_norm.as_ref(), block.attention_scale.as_deref(), &mut mid);
                Cow::Owned(mid)
            }
        };
        // The perceptron. `gradient` stays the gradient at the stream.
        match inside {
            Some(inside) => buffers.up.copy_from_slice(inside.up),
            None => {
                block.norm2.apply(&mid, buffers.normed);
                block.up.apply(buffers.normed, buffers.up);
            }
        }
        let mut at_input = if self.config.order == Order::Parallel { vec![0.0; x.len()] } else { Vec::new() };
        let mut part = Cow::Borrowed(&*gradient);
        if block.mlp_norm.is_some() || block.mlp_scale.is_some() {
            let mut out = vec![0.0; x.len()];
            self.activate(buffers.up, buffers.post);
            block.down.apply(buffers.post, &mut out);
            part_back(&out, block.mlp_norm.as_ref(), block.mlp_scale.as_deref(), part.to_mut());
        }
        self.mlp_back(block, &part, (&mut *buffers.up, &mut *buffers.post, &mut *buffers.part));
        drop(part);
        let into: &mut [f32] = if self.config.order == Order::Parallel { &mut at_input } else { gradient };
        block.norm2.back(&mid, buffers.part, into);
        // Attention.
        let mut part = Cow::Borrowed(&*gradient);
        if block.changes_attention() {
            part_back(&attention_out, block.attention_norm.as_ref(), block.attention_scale.as_deref(), part.to_mut());
        }
        let dz = &mut *buffers.z;
        block.out.back(&part, dz);
        drop(part);
        attention.back(qkv, dz, length, dqkv);
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

    /// From the gradient at the perceptron's output to that at its normalised input, in `out`. `up` has what the first linear
    /// map of the perceptron gave; `post` is a buffer.
    fn mlp_back(&self, block: &Block, d: &[f32], (up, post, out): (&mut [f32], &mut [f32], &mut [f32])) {
        let (hidden, width, activation, gated) =
            (self.config.hidden, self.config.up(), self.config.activation, self.config.gated);
        block.down.back(d, post);
        up.par_chunks_mut(CHUNK * width).zip(post.par_chunks_mut(CHUNK * hidden)).for_each(|(up, d)| {
            if gated {
                activation.gated_back(d, hidden, up);
            } else {
                activation.back(up, d);
                up.copy_from_slice(d);
            }
        });
        block.up.back(up, out);
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
