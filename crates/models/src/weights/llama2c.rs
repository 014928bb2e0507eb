//! The `.bin` files of llama2.c: seven numbers, then all tensors as `f32`, presented as a Hugging Face model.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::error::{InFile, InputError, Result};
use etalon::input::Map;
use serde_json::{Map as Object, Value, json};

use super::change::Change;
use super::encoding::Encoding;
use super::opened::{Opened, insert};
use super::source::{Part, Source};
use super::tensors::Stored;

/// Bytes of the header.
const HEADER: usize = 28;

/// The largest number in a header.
const LARGEST: i32 = 1 << 24;

/// Most layers.
const MOST_LAYERS: usize = 1 << 12;

/// The start of the later versions, which quantise weights.
const LATER: &[u8] = b"24ka";

/// The sizes of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Sizes {
    hidden: usize,
    feed_forward: usize,
    layers: usize,
    heads: usize,
    key_value_heads: usize,
    vocabulary: usize,
    context: usize,
    /// The embedding is also the output matrix.
    tied: bool,
}

/// Opens a file.
pub(super) fn open(path: &Path, budget: &Budget) -> Result<Opened> {
    let map = Arc::new(Map::open_input(path)?);
    present(&map, budget).in_file(path)
}

fn present(map: &Arc<Map>, budget: &Budget) -> Result<Opened> {
    let sizes = Sizes::read(map.bytes(0..map.length().min(HEADER))?)?;
    let _memory = budget.reserve(sizes.layers as u64 * 9 * 512, "the names of the tensors")?;
    let mut file = File { map: map.clone(), offset: HEADER, tensors: BTreeMap::new() };
    file.tensors(&sizes)?;
    if file.offset != map.length() {
        return Err(InputError::new("the length of the llama2.c file does not agree with its header")
            .expected(format!("{} bytes for {sizes}", file.offset))
            .found(format!("{} bytes", map.length()))
            .advice("it is incomplete, or not a file of llama2.c; copy or download it again")
            .into());
    }
    let (config, files) = (sizes.config(), vec![map.clone()]);
    Ok(Opened { config, tensors: file.tensors, recognised: "llama2.c float32".to_string(), gguf: None, files })
}

impl std::fmt::Display for Sizes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Sizes { hidden, layers, heads, vocabulary, .. } = self;
        write!(f, "{layers} layers of width {hidden} with {heads} heads, and {vocabulary} tokens")
    }
}

impl Sizes {
    fn read(bytes: &[u8]) -> Result<Sizes> {
        let wrong = || {
            InputError::new("the file is not a llama2.c file")
                .advice("files that end in .bin are torch checkpoints or models of llama2.c; copy or download it again")
        };
        if bytes.starts_with(LATER) {
            return Err(InputError::new("unsupported version of a llama2.c file")
                .expected("the first version, without a magic number")
                .advice("export the model with `python export.py --version 0`")
                .into());
        }
        let numbers: &[[u8; 4]] = bytes.as_chunks().0;
        let numbers: Vec<i32> = numbers.iter().map(|number| i32::from_le_bytes(*number)).collect();
        let Ok([hidden, feed_forward, layers, heads, key_value_heads, vocabulary, context]) =
            <[i32; 7]>::try_from(numbers)
        else {
            return Err(wrong().expected("at least 28 bytes").found(format!("{} bytes", bytes.len())).into());
        };
        // A negative size of the vocabulary marks a separate output matrix.
        let tied = vocabulary > 0;
        let numbers = [hidden, feed_forward, layers, heads, key_value_heads, vocabulary.saturating_abs(), context];
        let sensible = numbers.iter().all(|number| (1..=LARGEST).contains(number));
        let [hidden, feed_forward, layers, heads, key_value_heads, vocabulary, context] =
            numbers.map(|number| usize::try_from(number).unwrap_or(0));
        let even =
            || layers <= MOST_LAYERS && hidden.is_multiple_of(heads * 2) && heads.is_multiple_of(key_value_heads);
        if !sensible || !even() {
            return Err(wrong()
                .expected("seven sizes: width, feed-forward width, layers, heads, key and value heads, tokens, context")
                .found(format!("{numbers:?}"))
                .at("byte 0")
                .into());
        }
        Ok(Sizes { hidden, feed_forward, layers, heads, key_value_heads, vocabulary, context, tied })
    }

    /// Width of a head.
    fn head(&self) -> usize {
        self.hidden / self.heads
    }

    fn config(&self) -> Object<String, Value> {
        let config = json!({
            "model_type": "llama",
            "architectures": ["LlamaForCausalLM"],
            "vocab_size": self.vocabulary,
            "tie_word_embeddings": self.tied,
            "hidden_size": self.hidden,
            "intermediate_size": self.feed_forward,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.key_value_heads,
            "head_dim": self.head(),
            "max_position_embeddings": self.context,
            "rms_norm_eps": 1e-5,
            "rope_theta": 10_000.0,
            "rope_scaling": null,
            "hidden_act": "silu",
            "attention_bias": false,
            "mlp_bias": false,
            "bos_token_id": 1,
            "eos_token_id": 2,
        });
        match config {
            Value::Object(config) => config,
            _ => Object::new(),
        }
    }
}

/// The tensors follow each other; those of all layers are together.
struct File {
    map: Arc<Map>,
    offset: usize,
    tensors: BTreeMap<String, Stored>,
}

impl File {
    fn tensors(&mut self, sizes: &Sizes) -> Result<()> {
        let Sizes { hidden, feed_forward, layers, heads, key_value_heads, vocabulary, context, tied } = *sizes;
        let keys = key_value_heads * sizes.head();
        let pairs = |shape: &[usize], heads: usize| Change::pairs_to_halves(shape, heads).unwrap_or(Change::None);
        let (query, key) = (pairs(&[hidden, hidden], heads), pairs(&[keys, hidden], key_value_heads));
        let same = Change::None;
        self.next("model.embed_tokens.weight", &[vocabulary, hidden])?;
        self.layers(layers, "input_layernorm", &[hidden], &same)?;
        self.layers(layers, "self_attn.q_proj", &[hidden, hidden], &query)?;
        self.layers(layers, "self_attn.k_proj", &[keys, hidden], &key)?;
        self.layers(layers, "self_attn.v_proj", &[keys, hidden], &same)?;
        self.layers(layers, "self_attn.o_proj", &[hidden, hidden], &same)?;
        self.layers(layers, "post_attention_layernorm", &[hidden], &same)?;
        self.layers(layers, "mlp.gate_proj", &[feed_forward, hidden], &same)?;
        self.layers(layers, "mlp.down_proj", &[hidden, feed_forward], &same)?;
        self.layers(layers, "mlp.up_proj", &[feed_forward, hidden], &same)?;
        self.next("model.norm.weight", &[hidden])?;
        // Cosines and sines of the positions, which networks compute themselves.
        self.take("freq_cis", &[2, context, sizes.head() / 2])?;
        if !tied {
            self.next("lm_head.weight", &[vocabulary, hidden])?;
        }
        Ok(())
    }

    fn layers(&mut self, layers: usize, name: &str, shape: &[usize], change: &Change) -> Result<()> {
        (0..layers).try_for_each(|layer| self.add(format!("model.layers.{layer}.{name}.weight"), shape, change))
    }

    fn next(&mut self, name: &str, shape: &[usize]) -> Result<()> {
        self.add(name.to_string(), shape, &Change::None)
    }

    fn add(&mut self, name: String, shape: &[usize], change: &Change) -> Result<()> {
        let range = self.take(&name, shape)?;
        let part = Part { map: self.map.clone(), range };
        let stored = Stored::new(Source::Bytes(vec![part], Encoding::F32), shape, Encoding::F32.name());
        insert(&mut self.tensors, name, stored.changed(change.clone()))
    }

    /// The bytes of the next tensor.
    fn take(&mut self, name: &str, shape: &[usize]) -> Result<std::ops::Range<usize>> {
        let length = shape.iter().try_fold(4usize, |length, &size| length.checked_mul(size));
        let end = length.and_then(|length| self.offset.checked_add(length));
        let end = end.filter(|&end| end <= self.map.length()).ok_or_else(|| {
            InputError::new("the llama2.c file ends too early")
                .expected(end.map_or("a possible size".to_string(), |end| format!("at least {end} bytes")))
                .found(format!("{} bytes", self.map.length()))
                .at(format!("tensor `{name}`"))
                .advice("it is incomplete, or not a file of llama2.c; copy or download it again")
        })?;
        let range = self.offset..end;
        self.offset = end;
        Ok(range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::weights::tensors::Weights;

    /// Two layers of width 4 with two heads, one of keys and values; 6 feed-forward units, 3 tokens, a context of 5.
    fn file(vocabulary: i32) -> Vec<u8> {
        let header = [4, 6, 2, 2, 1, vocabulary, 5];
        let separate = if vocabulary < 0 { 12 } else { 0 };
        let values = 12 + 2 * (4 + 16 + 8 + 8 + 16 + 4 + 3 * 24) + 4 + 2 * 5 + separate;
        let values = (0..values).map(|value| value as f32);
        header.map(i32::to_le_bytes).into_iter().chain(values.map(f32::to_le_bytes)).flatten().collect()
    }

    /// The model and the directory of its file.
    fn open_bytes(bytes: &[u8]) -> Result<(Opened, tempfile::TempDir)> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.bin");
        std::fs::write(&path, bytes).unwrap();
        open(&path, &Budget::new(1 << 20)).map(|opened| (opened, directory))
    }

    fn refused(bytes: &[u8]) -> String {
        let error = open_bytes(bytes).err().unwrap();
        assert!(error.is_input() && error.to_string().contains("x.bin"), "{error:?}");
        error.to_string()
    }

    #[test]
    fn tensors_are_in_the_order_of_llama2c() {
        let (opened, _directory) = open_bytes(&file(3)).unwrap();
        assert_eq!(opened.config["tie_word_embeddings"], true);
        assert_eq!((&opened.config["head_dim"], &opened.config["vocab_size"]), (&2.into(), &3.into()));
        let weights = Weights::new(opened.tensors, &Budget::new(1 << 16));
        assert_eq!(weights.tensor("model.embed_tokens.weight", &[3, 4]).unwrap()[..2], [0.0, 1.0]);
        assert_eq!(weights.tensor("model.layers.1.input_layernorm.weight", &[4]).unwrap(), [16.0, 17.0, 18.0, 19.0]);
        // Heads of width 2 have one pair each, so that their rows stay where they are.
        assert_eq!(weights.tensor("model.layers.0.self_attn.q_proj.weight", &[4, 4]).unwrap()[0], 20.0);
        assert_eq!(weights.tensor("model.layers.0.self_attn.k_proj.weight", &[2, 4]).unwrap()[0], 52.0);
        // After both: 20 + 32 + 16 + 16 + 32 = 116, then 8 of the norm.
        assert_eq!(weights.tensor("model.layers.0.mlp.gate_proj.weight", &[6, 4]).unwrap()[0], 124.0);
        assert_eq!(weights.tensor("model.layers.0.mlp.down_proj.weight", &[4, 6]).unwrap()[0], 172.0);
        assert_eq!(weights.tensor("model.layers.1.mlp.up_proj.weight", &[6, 4]).unwrap()[0], 244.0);
        assert_eq!(weights.tensor("model.norm.weight", &[4]).unwrap(), [268.0, 269.0, 270.0, 271.0]);
        assert!(!weights.has("lm_head.weight"));
    }

    #[test]
    fn neighbours_become_halves() {
        // One head of width 4.
        let values = (0..2 * 4 + 4 + 4 * 16 + 4 + 3 * 4 + 4 + 4).map(|value| value as f32).map(f32::to_le_bytes);
        let bytes: Vec<u8> = [4, 1, 1, 1, 1, 2, 1].map(i32::to_le_bytes).into_iter().chain(values).flatten().collect();
        let (opened, _directory) = open_bytes(&bytes).unwrap();
        let weights = Weights::new(opened.tensors, &Budget::new(1 << 16));
        let rows = weights.tensor("model.layers.0.self_attn.q_proj.weight", &[4, 4]).unwrap();
        assert_eq!(rows.iter().step_by(4).copied().collect::<Vec<_>>(), [12.0, 20.0, 16.0, 24.0]);
        let rows = weights.tensor("model.layers.0.self_attn.v_proj.weight", &[4, 4]).unwrap();
        assert_eq!(rows.iter().step_by(4).copied().collect::<Vec<_>>(), [44.0, 48.0, 52.0, 56.0]);
    }

    #[test]
    fn a_negative_vocabulary_marks_an_output_matrix() {
        let (opened, _directory) = open_bytes(&file(-3)).unwrap();
        assert_eq!((&opened.config["tie_word_embeddings"], &opened.config["vocab_size"]), (&false.into(), &3.into()));
        let weights = Weights::new(opened.tensors, &Budget::new(1 << 16));
        assert_eq!(weights.tensor("lm_head.weight", &[3, 4]).unwrap()[0], 282.0);
    }

    #[test]
    fn damaged_files_are_refused() {
        let bytes = file(3);
        for length in 1..bytes.len() {
            refused(&bytes[..length]);
        }
        assert!(refused(&bytes[..400]).contains("tensor `model.layers.0.self_attn.o_proj.weight`"));
        assert!(refused(&[&bytes[..], &[0]].concat()).contains("does not agree with its header"));
        assert!(refused(&[b"24ka".to_vec(), vec![0; 300]].concat()).contains("unsupported version"));
        let changed = |index: usize, number: i32| {
            let mut bytes = bytes.clone();
            bytes[index * 4..index * 4 + 4].copy_from_slice(&number.to_le_bytes());
            refused(&bytes)
        };
        for (index, number) in [(0, 0), (0, -4), (0, 5), (1, i32::MAX), (2, 1 << 20), (4, 3), (5, i32::MIN), (6, 0)] {
            assert!(changed(index, number).contains("not a llama2.c file"), "{index} {number}");
        }
        assert!(changed(5, 1 << 24).contains("ends too early"));
    }
}
