//! The architectures of GGUF files: the names of their tensors, and what llama.cpp changes in them.

use etalon::error::{Command, InputError, Result};
use etalon::input::format_shape;

use super::metadata::Metadata;
use crate::weights::change::Change;

/// A family of networks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Architecture {
    Llama,
    Qwen2,
    Qwen3,
    Gemma2,
    Gemma3,
    Gpt2,
    GptNeoX,
}

/// The architectures by their names in GGUF.
const KNOWN: [(&str, Architecture); 7] = [
    ("llama", Architecture::Llama),
    ("qwen2", Architecture::Qwen2),
    ("qwen3", Architecture::Qwen3),
    ("gemma2", Architecture::Gemma2),
    ("gemma3", Architecture::Gemma3),
    ("gpt2", Architecture::Gpt2),
    ("gptneox", Architecture::GptNeoX),
];

/// Parts of a layer: names in GGUF, and in Hugging Face.
type Names = &'static [(&'static str, &'static str)];

const LLAMA: Names = &[
    ("attn_norm", "input_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("attn_q_norm", "self_attn.q_norm"),
    ("attn_k_norm", "self_attn.k_norm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];

/// Gemma has norms before and after both parts of a layer; its names are looked up before those of Llama.
const GEMMA: Names = &[
    ("post_attention_norm", "post_attention_layernorm"),
    ("ffn_norm", "pre_feedforward_layernorm"),
    ("post_ffw_norm", "post_feedforward_layernorm"),
];

const GPT2: Names = &[
    ("attn_norm", "ln_1"),
    ("attn_qkv", "attn.c_attn"),
    ("attn_output", "attn.c_proj"),
    ("ffn_norm", "ln_2"),
    ("ffn_up", "mlp.c_fc"),
    ("ffn_down", "mlp.c_proj"),
];

const GPT_NEOX: Names = &[
    ("attn_norm", "input_layernorm"),
    ("attn_qkv", "attention.query_key_value"),
    ("attn_output", "attention.dense"),
    ("ffn_norm", "post_attention_layernorm"),
    ("ffn_up", "mlp.dense_h_to_4h"),
    ("ffn_down", "mlp.dense_4h_to_h"),
];

impl Architecture {
    /// The architecture of a file.
    pub fn of(metadata: &Metadata) -> Result<Architecture> {
        let name = metadata.text("general.architecture").ok_or_else(|| {
            InputError::new("the GGUF file does not name its architecture")
                .expected("a text `general.architecture`")
                .advice("use a file that llama.cpp can run")
        })?;
        let known = KNOWN.iter().find(|(known, _)| *known == name).map(|(_, architecture)| *architecture);
        known.ok_or_else(|| {
            InputError::new(format!("unsupported architecture of the GGUF file: `{name}`"))
                .advice(format!("use a supported model; {} lists them", Command("models")))
                .one_of(name, &KNOWN.map(|(name, _)| name))
                .into()
        })
    }

    /// Its name in GGUF, which is the prefix of its metadata.
    pub fn key(self) -> &'static str {
        KNOWN.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }

    /// True if the scaling of positions can be stored as factors.
    pub fn scales_by_factors(self) -> bool {
        matches!(self, Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3)
    }

    /// The name of a tensor in Hugging Face; `None` for an unknown tensor.
    pub fn name(self, name: &str) -> Option<String> {
        let (part, kind) = name.rsplit_once('.')?;
        let (prefix, layers, head) = match self {
            Architecture::Gpt2 => ("transformer", "h", "lm_head"),
            Architecture::GptNeoX => ("gpt_neox", "layers", "embed_out"),
            _ => ("model", "layers", "lm_head"),
        };
        let Some(block) = part.strip_prefix("blk.") else {
            let outer = match (part, self) {
                ("output", _) => return Some(format!("{head}.{kind}")),
                ("token_embd", Architecture::Gpt2) => "wte",
                ("position_embd", Architecture::Gpt2) => "wpe",
                ("output_norm", Architecture::Gpt2) => "ln_f",
                ("token_embd", Architecture::GptNeoX) => "embed_in",
                ("output_norm", Architecture::GptNeoX) => "final_layer_norm",
                ("token_embd", _) => "embed_tokens",
                ("output_norm", _) => "norm",
                _ => return None,
            };
            return Some(format!("{prefix}.{outer}.{kind}"));
        };
        let (layer, part) = block.split_once('.')?;
        let layer: usize = layer.parse().ok()?;
        let tables: &[Names] = match self {
            Architecture::Gpt2 => &[GPT2],
            Architecture::GptNeoX => &[GPT_NEOX],
            Architecture::Gemma2 | Architecture::Gemma3 => &[GEMMA, LLAMA],
            Architecture::Llama | Architecture::Qwen2 | Architecture::Qwen3 => &[LLAMA],
        };
        let (_, name) = tables.iter().flat_map(|table| table.iter()).find(|(known, _)| *known == part)?;
        Some(format!("{prefix}.{layers}.{layer}.{name}.{kind}"))
    }

    /// What undoes llama.cpp's change of a tensor, by its name in GGUF:
    ///
    /// - Llama: the rows of queries and keys are stored for a rotation of neighbours. Qwen and Gemma are not changed.
    /// - Gemma: the weights of norms are stored with 1 added.
    /// - GPT-2: the matrices of layers are stored transposed.
    /// - GPT-NeoX: the fused rows are stored as all queries, all keys, all values.
    pub fn change(self, name: &str, shape: &[usize], heads: usize, key_value_heads: usize) -> Result<Change> {
        let (part, kind) = name.rsplit_once('.').unwrap_or((name, ""));
        let part = part.rsplit('.').next().unwrap_or(part);
        let change = match (self, part, kind) {
            (Architecture::Llama, "attn_q", _) => Change::pairs_to_halves(shape, heads),
            (Architecture::Llama, "attn_k", _) => Change::pairs_to_halves(shape, key_value_heads),
            (Architecture::Gemma2 | Architecture::Gemma3, _, "weight") if part.ends_with("norm") => {
                Some(Change::Add(-1.0))
            }
            (Architecture::Gpt2, "attn_qkv" | "attn_output" | "ffn_up" | "ffn_down", "weight") => {
                Change::transpose(shape)
            }
            (Architecture::GptNeoX, "attn_qkv", _) => Change::heads_first(shape, heads),
            _ => Some(Change::None),
        };
        change.ok_or_else(|| {
            InputError::new(format!("the tensor `{name}` has the wrong shape"))
                .expected(format!("rows of {heads} heads, {key_value_heads} of them with keys and values"))
                .found(format_shape(shape))
                .advice("the file is damaged; copy or download it again")
                .into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_every_family() {
        use Architecture::*;
        for (architecture, gguf, name) in [
            (Llama, "token_embd.weight", "model.embed_tokens.weight"),
            (Llama, "output_norm.weight", "model.norm.weight"),
            (Llama, "output.weight", "lm_head.weight"),
            (Llama, "blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"),
            (Llama, "blk.12.attn_q.weight", "model.layers.12.self_attn.q_proj.weight"),
            (Llama, "blk.0.attn_output.weight", "model.layers.0.self_attn.o_proj.weight"),
            (Llama, "blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
            (Llama, "blk.0.ffn_gate.weight", "model.layers.0.mlp.gate_proj.weight"),
            (Qwen2, "blk.3.attn_k.bias", "model.layers.3.self_attn.k_proj.bias"),
            (Qwen3, "blk.3.attn_q_norm.weight", "model.layers.3.self_attn.q_norm.weight"),
            (Gemma2, "blk.1.post_attention_norm.weight", "model.layers.1.post_attention_layernorm.weight"),
            (Gemma2, "blk.1.ffn_norm.weight", "model.layers.1.pre_feedforward_layernorm.weight"),
            (Gemma3, "blk.1.post_ffw_norm.weight", "model.layers.1.post_feedforward_layernorm.weight"),
            (Gemma3, "blk.1.attn_v.weight", "model.layers.1.self_attn.v_proj.weight"),
            (Gpt2, "token_embd.weight", "transformer.wte.weight"),
            (Gpt2, "position_embd.weight", "transformer.wpe.weight"),
            (Gpt2, "output_norm.bias", "transformer.ln_f.bias"),
            (Gpt2, "blk.2.attn_qkv.bias", "transformer.h.2.attn.c_attn.bias"),
            (Gpt2, "blk.2.ffn_down.weight", "transformer.h.2.mlp.c_proj.weight"),
            (GptNeoX, "token_embd.weight", "gpt_neox.embed_in.weight"),
            (GptNeoX, "output.weight", "embed_out.weight"),
            (GptNeoX, "output_norm.bias", "gpt_neox.final_layer_norm.bias"),
            (GptNeoX, "blk.5.attn_qkv.weight", "gpt_neox.layers.5.attention.query_key_value.weight"),
            (GptNeoX, "blk.5.ffn_up.bias", "gpt_neox.layers.5.mlp.dense_h_to_4h.bias"),
        ] {
            assert_eq!(architecture.name(gguf).as_deref(), Some(name), "{gguf}");
        }
        for unknown in ["blk.0.ffn_gate_exps.weight", "blk.x.attn_q.weight", "position_embd.weight", "output", "blk.0"]
        {
            assert_eq!(Llama.name(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn only_what_llama_cpp_changes_is_changed_back() {
        use Architecture::*;
        let change = |architecture: Architecture, name: &str| architecture.change(name, &[12, 12], 2, 1).unwrap();
        let pairs = |heads| Change::pairs_to_halves(&[12, 12], heads).unwrap();
        assert_eq!(change(Llama, "blk.0.attn_q.weight"), pairs(2));
        assert_eq!(change(Llama, "blk.0.attn_q.bias"), pairs(2));
        assert_eq!(change(Llama, "blk.0.attn_k.weight"), pairs(1));
        for (architecture, name) in [
            (Llama, "blk.0.attn_v.weight"),
            (Llama, "blk.0.attn_norm.weight"),
            (Qwen2, "blk.0.attn_q.weight"),
            (Qwen3, "blk.0.attn_k.weight"),
            (Qwen3, "blk.0.attn_q_norm.weight"),
            (Gemma3, "blk.0.attn_q.weight"),
            (Gpt2, "blk.0.attn_norm.weight"),
            (Gpt2, "blk.0.attn_qkv.bias"),
            (Gpt2, "token_embd.weight"),
            (GptNeoX, "blk.0.ffn_up.weight"),
        ] {
            assert_eq!(change(architecture, name), Change::None, "{name}");
        }
        for name in ["attn_norm", "ffn_norm", "post_attention_norm", "post_ffw_norm", "attn_q_norm", "attn_k_norm"] {
            for architecture in [Gemma2, Gemma3] {
                assert_eq!(change(architecture, &format!("blk.7.{name}.weight")), Change::Add(-1.0));
            }
        }
        assert_eq!(change(Gemma3, "output_norm.weight"), Change::Add(-1.0));
        for name in ["attn_qkv", "attn_output", "ffn_up", "ffn_down"] {
            assert_eq!(change(Gpt2, &format!("blk.0.{name}.weight")), Change::transpose(&[12, 12]).unwrap());
        }
        assert_eq!(change(GptNeoX, "blk.0.attn_qkv.bias"), Change::heads_first(&[12, 12], 2).unwrap());
        let error = Llama.change("blk.0.attn_q.weight", &[12, 12], 5, 5).unwrap_err().to_string();
        assert!(error.contains("`blk.0.attn_q.weight`") && error.contains("12 × 12"), "{error}");
    }
}
