//! Attention of queries to keys and values, forward and backward.

use etalon_kernel::neural;
use etalon_kernel::product::{Shape, Strided, Update, strided};
use rayon::prelude::*;

use crate::layer::CHUNK;

/// The shape of one block's attention.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Query heads.
    pub heads: usize,
    /// Key and value heads; each serves `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Values per head.
    pub dim: usize,
    /// Multiplies scores.
    pub scale: f32,
    /// Scores become `cap · tanh(score / cap)`.
    pub soft_cap: Option<f32>,
    /// A query sees only keys up to its own position.
    pub causal: bool,
    /// A query sees only this many keys, its own included.
    pub window: Option<usize>,
    /// The rotary embedding, by its index in the configuration.
    pub rope: Option<usize>,
}

/// Keys or values: row `i` of the first head starts at `i · pitch`.
#[derive(Clone, Copy)]
pub(super) struct HeadRows<'a> {
    pub values: &'a [f32],
    pub pitch: usize,
}

impl<'a> HeadRows<'a> {
    fn head(&self, first: usize, head: usize, dim: usize) -> &'a [f32] {
        &self.values[first * self.pitch + head * dim..]
    }
}

/// The queries, keys and values of one sequence. The last query is at the last key.
#[derive(Clone, Copy)]
pub(super) struct Sequence<'a> {
    pub q: HeadRows<'a>,
    pub k: HeadRows<'a>,
    pub v: HeadRows<'a>,
    pub queries: usize,
    pub keys: usize,
}

impl<'a> Sequence<'a> {
    /// Queries, keys and values side by side in rows of `pitch` values.
    pub fn fused(qkv: &'a [f32], pitch: usize, attention: &Attention) -> Sequence<'a> {
        let (k, v) = (attention.heads * attention.dim, (attention.heads + attention.kv_heads) * attention.dim);
        let length = qkv.len() / pitch;
        let part = |at: usize| HeadRows { values: &qkv[at..], pitch };
        Sequence { q: part(0), k: part(k), v: part(v), queries: length, keys: length }
    }
}

impl Attention {
    /// The keys that query number `query` of a sequence sees.
    fn visible(&self, sequence: &Sequence<'_>, query: usize) -> std::ops::Range<usize> {
        let position = sequence.keys - sequence.queries + query;
        let end = if self.causal { position + 1 } else { sequence.keys };
        let start = self.window.map_or(0, |window| (position + 1).saturating_sub(window));
        start..end
    }

    /// Attention of a whole batch of sequences of `length` rows with queries, keys and values side by side.
    pub(super) fn batch(&self, qkv: &[f32], length: usize, z: &mut [f32]) {
        let (pitch, width) = ((self.heads + 2 * self.kv_heads) * self.dim, self.heads * self.dim);
        z.par_chunks_mut(length * width).zip(qkv.par_chunks(length * pitch)).for_each(|(z, qkv)| {
            self.sequence(Sequence::fused(qkv, pitch, self), z);
        });
    }

    /// Attention of one sequence; a task takes a chunk of queries.
    pub(super) fn sequence(&self, sequence: Sequence<'_>, z: &mut [f32]) {
        let width = self.heads * self.dim;
        z.par_chunks_mut(CHUNK * width).enumerate().for_each_init(Vec::new, |scores, (chunk, z)| {
            let first = chunk * CHUNK;
            for head in 0..self.heads {
                let (keys, count) = self.probabilities(&sequence, head, first, z.len() / width, scores);
                let shape = Shape { rows: count, columns: self.dim, inner: keys.len() };
                let v = sequence.v.head(keys.start, head / (self.heads / self.kv_heads), self.dim);
                let (p, v) = (Strided::rows(scores, keys.len()), Strided::rows(v, sequence.v.pitch));
                strided(shape, Update::SET, p, v, &mut z[head * self.dim..], width);
            }
        });
    }

    /// Fills `scores` with the probabilities of `count` queries from `first` on over the keys that any of them sees.
    fn probabilities(
        &self,
        sequence: &Sequence<'_>,
        head: usize,
        first: usize,
        count: usize,
        scores: &mut Vec<f32>,
    ) -> (std::ops::Range<usize>, usize) {
        let keys = self.visible(sequence, first).start..self.visible(sequence, first + count - 1).end;
        scores.resize(count * keys.len(), 0.0);
        let q = sequence.q.head(first, head, self.dim);
        let k = sequence.k.head(keys.start, head / (self.heads / self.kv_heads), self.dim);
        let shape = Shape { rows: count, columns: keys.len(), inner: self.dim };
        let update = Update { add: false, scale: self.scale };
        let (q, k) = (Strided::rows(q, sequence.q.pitch), Strided::transposed(k, sequence.k.pitch));
        strided(shape, update, q, k, scores, keys.len());
        for (query, row) in scores.chunks_exact_mut(keys.len()).enumerate() {
            let seen = self.visible(sequence, first + query);
            let seen = seen.start - keys.start..seen.end - keys.start;
            row[..seen.start].fill(0.0);
            row[seen.end..].fill(0.0);
            let row = &mut row[seen];
            if let Some(cap) = self.soft_cap {
                neural::soft_cap(row, cap);
            }
            neural::softmax(row);
        }
        (keys, count)
    }

    /// The gradient of [`Attention::batch`] at queries, keys and values, given that at its result. One task per sequence.
    pub(super) fn back(&self, qkv: &[f32], dz: &[f32], length: usize, dqkv: &mut [f32]) {
        let (pitch, width) = ((self.heads + 2 * self.kv_heads) * self.dim, self.heads * self.dim);
        let sequences = dqkv.par_chunks_mut(length * pitch).zip(qkv.par_chunks(length * pitch));
        sequences.zip(dz.par_chunks(length * width)).for_each(|((dqkv, qkv), dz)| {
            dqkv.fill(0.0);
            let sequence = Sequence::fused(qkv, pitch, self);
            let (mut p, mut dp) = (Vec::new(), Vec::new());
            for head in 0..self.heads {
                for first in (0..length).step_by(CHUNK) {
                    let count = CHUNK.min(length - first);
                    self.back_chunk(&sequence, head, first..first + count, dz, dqkv, (&mut p, &mut dp));
                }
            }
        });
    }

    fn back_chunk(
        &self,
        sequence: &Sequence<'_>,
        head: usize,
        queries: std::ops::Range<usize>,
        dz: &[f32],
        dqkv: &mut [f32],
        (p, dp): (&mut Vec<f32>, &mut Vec<f32>),
    ) {
        let (dim, pitch, width) = (self.dim, sequence.q.pitch, self.heads * self.dim);
        let kv = head / (self.heads / self.kv_heads);
        let (k_at, v_at) = ((self.heads + kv) * dim, (self.heads + self.kv_heads + kv) * dim);
        let (keys, count) = self.probabilities(sequence, head, queries.start, queries.len(), p);
        let seen = keys.len();
        let dz = Strided::rows(&dz[queries.start * width + head * dim..], width);
        let (q, k) = (sequence.q.head(queries.start, head, dim), sequence.k.head(keys.start, kv, dim));
        let v = sequence.v.head(keys.start, kv, dim);
        let by_key = Shape { rows: seen, columns: dim, inner: count };
        let by_query = Shape { rows: count, columns: dim, inner: seen };
        strided(by_key, Update::ADD, Strided::transposed(p, seen), dz, &mut dqkv[keys.start * pitch + v_at..], pitch);
        dp.resize(count * seen, 0.0);
        let shape = Shape { rows: count, columns: seen, inner: dim };
        strided(shape, Update::SET, dz, Strided::transposed(v, pitch), dp, seen);
        for (dp, p) in dp.chunks_exact_mut(seen).zip(p.chunks_exact(seen)) {
            neural::softmax_back(p, dp);
        }
        if let Some(cap) = self.soft_cap {
            // The capped scores are needed again; masked entries have a gradient of 0 already.
            let update = Update { add: false, scale: self.scale };
            strided(shape, update, Strided::rows(q, pitch), Strided::transposed(k, pitch), p, seen);
            neural::soft_cap(p, cap);
            neural::soft_cap_back(p, cap, dp);
        }
        let scaled = Update { add: true, scale: self.scale };
        let d = Strided::rows(dp, seen);
        strided(by_query, scaled, d, Strided::rows(k, pitch), &mut dqkv[queries.start * pitch + head * dim..], pitch);
        let d = Strided::transposed(dp, seen);
        strided(by_key, scaled, d, Strided::rows(q, pitch), &mut dqkv[keys.start * pitch + k_at..], pitch);
    }
}
