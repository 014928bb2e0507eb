//! The configuration of a GGUF file, in the keys of Hugging Face.

use etalon::error::{Command, InputError, Result};
use etalon::input::{Map, format_shape};
use serde_json::{Map as Object, Value, json};

use super::architecture::Architecture;
use super::header::Info;
use super::metadata::Metadata;
use super::rope;

/// Most frequencies of a head.
const MOST_FREQUENCIES: usize = 1 << 12;

/// What is known about a network.
pub(super) struct Facts<'a> {
    metadata: &'a Metadata,
    infos: &'a [Info],
    architecture: Architecture,
}

/// A number in its shortest decimal form: 0.00001, not 0.000009999999747378752.
fn shortest(number: f64) -> f64 {
    let single = number as f32;
    let exact = f64::from(single) == number;
    if exact { single.to_string().parse().unwrap_or(number) } else { number }
}

impl<'a> Facts<'a> {
    /// The facts of a file.
    pub fn new(metadata: &'a Metadata, infos: &'a [Info], architecture: Architecture) -> Facts<'a> {
        Facts { metadata, infos, architecture }
    }

    fn key(&self, name: &str) -> String {
        format!("{}.{name}", self.architecture.key())
    }

    fn missing(&self, name: &str, expected: &str) -> InputError {
        let key = self.key(name);
        let found = self.metadata.get(&key).map_or("nothing".to_string(), |value| {
            let mut text = format!("{value:?}");
            text.truncate(text.char_indices().nth(60).map_or(text.len(), |(end, _)| end));
            text
        });
        InputError::new(format!("the metadata `{key}` is missing or wrong"))
            .expected(expected)
            .found(found)
            .advice("use a file that llama.cpp can run, or download it again")
    }

    /// A size that may be missing.
    fn optional_size(&self, name: &str) -> Result<Option<usize>> {
        match self.metadata.get(&self.key(name)) {
            None => Ok(None),
            Some(_) => self.size(name).map(Some),
        }
    }

    fn size(&self, name: &str) -> Result<usize> {
        let size = self.metadata.integer(&self.key(name)).and_then(|size| usize::try_from(size).ok());
        size.filter(|&size| size > 0).ok_or_else(|| self.missing(name, "a whole number from 1").into())
    }

    /// A positive number that may be missing.
    fn number(&self, name: &str) -> Option<f64> {
        self.metadata.number(&self.key(name)).filter(|number| number.is_finite()).map(shortest)
    }

    fn needed_number(&self, name: &str) -> Result<f64> {
        self.number(name).ok_or_else(|| self.missing(name, "a number").into())
    }

    fn info(&self, name: &str) -> Option<&Info> {
        self.infos.iter().find(|info| info.name == name)
    }

    fn has(&self, name: &str) -> bool {
        self.info(name).is_some()
    }

    /// Number of attention heads.
    pub fn heads(&self) -> Result<usize> {
        self.size("attention.head_count")
    }

    /// Number of heads with keys and values.
    pub fn key_value_heads(&self) -> Result<usize> {
        match self.optional_size("attention.head_count_kv")? {
            Some(heads) => Ok(heads),
            None => self.heads(),
        }
    }

    /// Width of a head.
    fn head_width(&self) -> Result<usize> {
        let (keys, values) =
            (self.optional_size("attention.key_length")?, self.optional_size("attention.value_length")?);
        let width = self.size("embedding_length")? / self.heads()?;
        let (keys, values) = (keys.unwrap_or(width), values.unwrap_or(width));
        if keys != values {
            return Err(InputError::new("keys and values have different widths, which is not supported")
                .expected(format!("values of {keys}"))
                .found(values)
                .advice(format!("use a supported model; {} lists them", Command("models")))
                .into());
        }
        Ok(keys)
    }

    /// Number of tokens: rows of the embedding.
    fn vocabulary(&self) -> Result<usize> {
        let info = self.info("token_embd.weight").ok_or_else(|| {
            InputError::new("the tensor `token_embd.weight` is missing").advice("download the complete file")
        })?;
        match info.shape[..] {
            [rows, _] => Ok(rows),
            _ => Err(InputError::new("the tensor `token_embd.weight` has the wrong shape")
                .expected("a matrix")
                .found(format_shape(&info.shape))
                .into()),
        }
    }

    /// The configuration.
    pub fn config(&self, map: &Map) -> Result<Object<String, Value>> {
        let mut config = self.common()?;
        config.extend(match self.architecture {
            Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3 => self.llama(map)?,
            Architecture::Gemma2 | Architecture::Gemma3 => self.gemma()?,
            Architecture::Gpt2 => self.gpt2()?,
            Architecture::GptNeoX => self.gpt_neox()?,
        });
        Ok(config)
    }

    fn common(&self) -> Result<Object<String, Value>> {
        let (model_type, class) = match self.architecture {
            Architecture::Llama => ("llama", "LlamaForCausalLM"),
            Architecture::Qwen2 => ("qwen2", "Qwen2ForCausalLM"),
            Architecture::Qwen3 => ("qwen3", "Qwen3ForCausalLM"),
            Architecture::Gemma2 => ("gemma2", "Gemma2ForCausalLM"),
            Architecture::Gemma3 => ("gemma3_text", "Gemma3ForCausalLM"),
            Architecture::Gpt2 => ("gpt2", "GPT2LMHeadModel"),
            Architecture::GptNeoX => ("gpt_neox", "GPTNeoXForCausalLM"),
        };
        let mut config = object(json!({
            "model_type": model_type,
            "architectures": [class],
            "vocab_size": self.vocabulary()?,
            "tie_word_embeddings": !self.has("output.weight"),
        }));
        for (key, token) in [("bos_token_id", "bos"), ("eos_token_id", "eos"), ("pad_token_id", "padding")] {
            if let Some(id) = self.metadata.integer(&format!("tokenizer.ggml.{token}_token_id")) {
                config.insert(key.to_string(), id.into());
            }
        }
        Ok(config)
    }

    /// The sizes that all but GPT-2 name alike.
    fn sizes(&self) -> Result<Object<String, Value>> {
        Ok(object(json!({
            "hidden_size": self.size("embedding_length")?,
            "intermediate_size": self.size("feed_forward_length")?,
            "num_hidden_layers": self.size("block_count")?,
            "num_attention_heads": self.heads()?,
            "max_position_embeddings": self.size("context_length")?,
        })))
    }

    fn theta(&self) -> f64 {
        self.number("rope.freq_base").unwrap_or(10_000.0)
    }

    /// The scaling that the metadata describe.
    fn rope_scaling(&self) -> Result<Value> {
        let factor = || self.needed_number("rope.scaling.factor");
        match self.metadata.text(&self.key("rope.scaling.type")) {
            None | Some("none") => Ok(Value::Null),
            Some("linear") => Ok(json!({ "rope_type": "linear", "factor": factor()? })),
            Some("yarn") => Ok(json!({
                "rope_type": "yarn",
                "factor": factor()?,
                "original_max_position_embeddings": self.size("rope.scaling.original_context_length")?,
            })),
            Some(other) => Err(InputError::new("unsupported scaling of rotary positions")
                .expected("none, linear or yarn")
                .found(other)
                .at(format!("`{}`", self.key("rope.scaling.type")))
                .advice(format!("use a supported model; {} lists them", Command("models")))
                .into()),
        }
    }

    fn llama(&self, map: &Map) -> Result<Object<String, Value>> {
        let mut config = self.sizes()?;
        let stored = match self.info(rope::TENSOR) {
            None => self.rope_scaling()?,
            Some(info) => {
                // A head has at most some hundred frequencies.
                let count = info.shape.iter().product::<usize>().min(MOST_FREQUENCIES);
                let mut factors = vec![0f32; count];
                info.encoding.decode(map.bytes(info.range.clone())?, &mut factors);
                rope::llama3(&factors, self.theta()).ok_or_else(|| {
                    InputError::new(format!("the factors in `{}` are not those of Llama 3", rope::TENSOR))
                        .expected("factors for an original context of 8192 tokens")
                        .advice("use the safetensors files of the model, which have a config.json")
                })?
            }
        };
        config.extend(object(json!({
            "num_key_value_heads": self.key_value_heads()?,
            "head_dim": self.head_width()?,
            "rms_norm_eps": self.needed_number("attention.layer_norm_rms_epsilon")?,
            "rope_theta": self.theta(),
            "rope_scaling": stored,
            "hidden_act": "silu",
            "attention_bias": self.has("blk.0.attn_q.bias"),
            "mlp_bias": self.has("blk.0.ffn_up.bias"),
        })));
        Ok(config)
    }

    fn gemma(&self) -> Result<Object<String, Value>> {
        let mut config = self.sizes()?;
        let (hidden, width) = (self.size("embedding_length")?, self.head_width()?);
        // The file does not state it: only the models with 27 billion parameters scale by another number.
        let largest = match self.architecture {
            Architecture::Gemma2 => 46,
            _ => 62,
        };
        let scale = if self.size("block_count")? == largest { hidden / self.heads()? } else { width };
        config.extend(object(json!({
            "num_key_value_heads": self.key_value_heads()?,
            "head_dim": width,
            "query_pre_attn_scalar": scale,
            "rms_norm_eps": self.needed_number("attention.layer_norm_rms_epsilon")?,
            "hidden_activation": "gelu_pytorch_tanh",
            "attention_bias": false,
        })));
        let soft_cap = self.number("final_logit_softcapping");
        config.extend(object(match self.architecture {
            Architecture::Gemma2 => json!({
                "attn_logit_softcapping": self.number("attn_logit_softcapping").unwrap_or(50.0),
                "final_logit_softcapping": soft_cap.unwrap_or(30.0),
                "sliding_window": self.optional_size("attention.sliding_window")?.unwrap_or(4096),
                "rope_theta": self.theta(),
                "rope_scaling": self.rope_scaling()?,
            }),
            _ => json!({
                "attn_logit_softcapping": null,
                "final_logit_softcapping": soft_cap,
                "sliding_window": self.optional_size("attention.sliding_window")?,
                "sliding_window_pattern": self.optional_size("attention.sliding_window_pattern")?.unwrap_or(6),
                "rope_theta": self.number("rope.freq_base").unwrap_or(1_000_000.0),
                "rope_local_base_freq": self.number("rope.freq_base_swa").unwrap_or(10_000.0),
                "rope_scaling": self.rope_scaling()?,
            }),
        }));
        Ok(config)
    }

    fn gpt2(&self) -> Result<Object<String, Value>> {
        let context = self.size("context_length")?;
        // llama.cpp always writes four times the width.
        let stated = self.size("feed_forward_length")?;
        let inner = self.info("blk.0.ffn_up.weight").and_then(|info| info.shape.first().copied()).unwrap_or(stated);
        Ok(object(json!({
            "n_embd": self.size("embedding_length")?,
            "n_layer": self.size("block_count")?,
            "n_head": self.heads()?,
            "n_inner": inner,
            "n_positions": context,
            "n_ctx": context,
            "layer_norm_epsilon": self.needed_number("attention.layer_norm_epsilon")?,
            "activation_function": "gelu_new",
        })))
    }

    fn gpt_neox(&self) -> Result<Object<String, Value>> {
        let mut config = self.sizes()?;
        let width = self.head_width()?;
        let rotated = self.optional_size("rope.dimension_count")?.unwrap_or(width);
        config.extend(object(json!({
            "layer_norm_eps": self.needed_number("attention.layer_norm_epsilon")?,
            "rotary_pct": rotated as f64 / width as f64,
            "rotary_emb_base": self.theta(),
            "use_parallel_residual": self.metadata.flag(&self.key("use_parallel_residual")).unwrap_or(true),
            "hidden_act": "gelu",
            "attention_bias": true,
        })));
        Ok(config)
    }
}

/// The entries of a JSON object.
fn object(value: Value) -> Object<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Object::new(),
    }
}
