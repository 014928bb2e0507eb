//! Makes a GGUF file of a Llama with random weights in four bits.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Sizes of the network.
pub struct Llama {
    /// Values of the residual stream.
    pub width: usize,
    /// Units of a perceptron.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
}

/// Types of values of the format.
const U32: u32 = 4;
const F32: u32 = 6;
const TEXT: u32 = 8;
const LIST: u32 = 9;
const I32: u32 = 5;

/// Number types of tensors.
const PLAIN: u32 = 0;
const Q4_0: u32 = 2;

const ALIGNMENT: usize = 32;

/// Entries of the metadata.
const ENTRIES: usize = 15;

/// Bytes before the data.
#[derive(Default)]
struct Header(Vec<u8>);

impl Header {
    fn number(&mut self, number: u32) -> &mut Header {
        self.0.extend(number.to_le_bytes());
        self
    }

    fn long(&mut self, number: usize) -> &mut Header {
        self.0.extend((number as u64).to_le_bytes());
        self
    }

    fn text(&mut self, text: &str) -> &mut Header {
        self.long(text.len()).0.extend(text.as_bytes());
        self
    }

    fn list(&mut self, key: &str, kind: u32, length: usize) -> &mut Header {
        self.text(key).number(LIST).number(kind).long(length)
    }
}

/// Special tokens, a space, letters, and all bytes: the text of a token, and its kind.
fn vocabulary() -> Vec<(String, u32)> {
    let special = [("<unk>", 2), ("<s>", 3), ("</s>", 3), ("\u{2581}", 1)].map(|(text, kind)| (text.to_string(), kind));
    let letters = ('a'..='z').map(|letter| (letter.to_string(), 1));
    let bytes = (0..256).map(|byte| (format!("<0x{byte:02X}>"), 6));
    special.into_iter().chain(letters).chain(bytes).collect()
}

impl Llama {
    /// Name, dimensions (the innermost first) and number type of every tensor.
    fn tensors(&self, tokens: usize) -> Vec<(String, Vec<usize>, u32)> {
        let Llama { width, hidden, .. } = *self;
        let mut tensors = vec![
            ("token_embd.weight".to_string(), vec![width, tokens], Q4_0),
            ("output_norm.weight".to_string(), vec![width], PLAIN),
        ];
        for layer in 0..self.layers {
            let mut add = |name: &str, dimensions: &[usize], kind| {
                tensors.push((format!("blk.{layer}.{name}.weight"), dimensions.to_vec(), kind));
            };
            ["attn_norm", "ffn_norm"].iter().for_each(|name| add(name, &[width], PLAIN));
            ["attn_q", "attn_k", "attn_v", "attn_output"].iter().for_each(|name| add(name, &[width, width], Q4_0));
            ["ffn_gate", "ffn_up"].iter().for_each(|name| add(name, &[width, hidden], Q4_0));
            add("ffn_down", &[hidden, width], Q4_0);
        }
        tensors
    }

    /// Writes the file; returns its size.
    pub fn write(&self, path: &Path) -> u64 {
        self.write_with(path, None)
    }

    /// Writes the file with a chat template.
    pub fn write_with(&self, path: &Path, template: Option<&str>) -> u64 {
        let (tokens, heads) = (vocabulary(), 8);
        let tensors = self.tensors(tokens.len());
        let mut header = Header(b"GGUF".to_vec());
        header.number(3).long(tensors.len()).long(ENTRIES + usize::from(template.is_some()));
        header.text("general.architecture").number(TEXT).text("llama");
        for (key, size) in [
            ("llama.block_count", self.layers),
            ("llama.context_length", 64),
            ("llama.embedding_length", self.width),
            ("llama.feed_forward_length", self.hidden),
            ("llama.attention.head_count", heads),
            ("llama.attention.head_count_kv", heads),
            ("tokenizer.ggml.bos_token_id", 1),
            ("tokenizer.ggml.eos_token_id", 2),
            ("tokenizer.ggml.unknown_token_id", 0),
        ] {
            header.text(key).number(U32).number(size as u32);
        }
        header.text("llama.attention.layer_norm_rms_epsilon").number(F32).0.extend(1e-5f32.to_le_bytes());
        header.text("tokenizer.ggml.model").number(TEXT).text("llama");
        if let Some(template) = template {
            header.text("tokenizer.chat_template").number(TEXT).text(template);
        }
        header.list("tokenizer.ggml.tokens", TEXT, tokens.len());
        for (text, _) in &tokens {
            header.text(text);
        }
        header.list("tokenizer.ggml.token_type", I32, tokens.len());
        for (_, kind) in &tokens {
            header.number(*kind);
        }
        header.list("tokenizer.ggml.scores", F32, tokens.len());
        (0..tokens.len()).for_each(|token| header.0.extend((-(token as f32)).to_le_bytes()));
        let mut offset = 0;
        for (name, dimensions, kind) in &tensors {
            header.text(name).number(dimensions.len() as u32);
            for size in dimensions {
                header.long(*size);
            }
            header.number(*kind).long(offset);
            offset = (offset + bytes(dimensions, *kind)).next_multiple_of(ALIGNMENT);
        }
        header.0.resize(header.0.len().next_multiple_of(ALIGNMENT), 0);
        let mut file = BufWriter::new(File::create(path).unwrap());
        file.write_all(&header.0).unwrap();
        let mut state = 1u64;
        for (_, dimensions, kind) in &tensors {
            let mut data = Vec::new();
            match *kind {
                PLAIN => dimensions.iter().for_each(|size| (0..*size).for_each(|_| data.extend(1f32.to_le_bytes()))),
                _ => data.extend((0..bytes(dimensions, *kind) / 18).flat_map(|_| block(&mut state))),
            }
            data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
            file.write_all(&data).unwrap();
        }
        file.flush().unwrap();
        std::fs::metadata(path).unwrap().len()
    }
}

/// The size of a tensor: 32 values of four bits have 18 bytes.
fn bytes(dimensions: &[usize], kind: u32) -> usize {
    let values: usize = dimensions.iter().product();
    if kind == PLAIN { 4 * values } else { values / 32 * 18 }
}

/// Random values of four bits with the scale 2^-7.
fn block(state: &mut u64) -> [u8; 18] {
    let mut block = [0; 18];
    // 2^-7 as a 16-bit float: exponent 15 - 7, no fraction.
    block[..2].copy_from_slice(&(8u16 << 10).to_le_bytes());
    for byte in &mut block[2..] {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (*state >> 56) as u8;
    }
    block
}
