//! Damaged and made-up files.

use etalon::context::Budget;
use etalon::error::Result;

use super::*;

/// Writes GGUF files.
struct Builder {
    bytes: Vec<u8>,
}

impl Builder {
    fn new(tensors: u64, entries: u64) -> Builder {
        let start = [b"GGUF".to_vec(), 3u32.to_le_bytes().to_vec()].concat();
        Builder { bytes: start }.u64(tensors).u64(entries)
    }

    fn raw(mut self, bytes: &[u8]) -> Builder {
        self.bytes.extend(bytes);
        self
    }

    fn u32(self, number: u32) -> Builder {
        self.raw(&number.to_le_bytes())
    }

    fn u64(self, number: u64) -> Builder {
        self.raw(&number.to_le_bytes())
    }

    fn text(self, text: &str) -> Builder {
        self.u64(text.len() as u64).raw(text.as_bytes())
    }

    fn size(self, key: &str, number: u32) -> Builder {
        self.text(key).u32(4).u32(number)
    }

    /// The entries that the smallest Llama needs: 8 of them.
    fn llama(self) -> Builder {
        let named = self.text("general.architecture").u32(8).text("llama");
        let sizes = ["block_count", "context_length", "embedding_length", "feed_forward_length"];
        let sized = sizes.iter().fold(named, |builder, key| builder.size(&format!("llama.{key}"), 4));
        let heads = sized.size("llama.attention.head_count", 2).size("llama.attention.head_count_kv", 1);
        heads.text("llama.attention.layer_norm_rms_epsilon").u32(6).raw(&1e-5f32.to_le_bytes())
    }

    fn tensor(self, name: &str, dimensions: &[u64], kind: u32, offset: u64) -> Builder {
        let named = self.text(name).u32(dimensions.len() as u32);
        dimensions.iter().fold(named, |builder, &size| builder.u64(size)).u32(kind).u64(offset)
    }

    /// Zeros up to the next multiple, then the data.
    fn data(mut self, alignment: usize, data: &[u8]) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
        self.raw(data).bytes
    }
}

fn floats(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// A Llama with an embedding of 2 tokens and the keys of a layer: one head of width 2.
fn valid() -> Vec<u8> {
    let builder = Builder::new(2, 8).llama();
    let builder = builder.tensor("token_embd.weight", &[4, 2], 0, 0).tensor("blk.0.attn_k.weight", &[4, 2], 0, 32);
    builder.data(32, &floats(&(0..16).map(|value| value as f32).collect::<Vec<_>>()))
}

fn open_bytes(bytes: &[u8], memory: u64) -> Result<Opened> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.gguf");
    std::fs::write(&path, bytes).unwrap();
    open(&path, &Budget::new(memory))
}

fn refused(bytes: &[u8]) -> String {
    let error = open_bytes(bytes, 1 << 24).err().unwrap();
    assert!(error.is_input() && error.to_string().contains("x.gguf"), "{error:?}");
    error.to_string()
}

#[test]
fn a_small_file_is_read() {
    let opened = open_bytes(&valid(), 1 << 20).unwrap();
    assert_eq!(opened.recognised, "GGUF float32");
    let names: Vec<&String> = opened.tensors.keys().collect();
    assert_eq!(names, ["model.embed_tokens.weight", "model.layers.0.self_attn.k_proj.weight"]);
    let config = &opened.config;
    assert_eq!((&config["hidden_size"], &config["vocab_size"]), (&4.into(), &2.into()));
    assert_eq!(config["rms_norm_eps"], 1e-5);
    assert_eq!((&config["tie_word_embeddings"], &config["head_dim"]), (&true.into(), &2.into()));
}

#[test]
fn a_cut_file_is_refused_at_every_byte() {
    let bytes = valid();
    for length in 1..bytes.len() {
        refused(&bytes[..length]);
    }
    assert!(refused(&bytes[..bytes.len() - 1]).contains("`blk.0.attn_k.weight` reaches beyond the end of the file"));
    assert!(refused(&bytes[..100]).contains("ends within its header"));
}

#[test]
fn counts_and_lengths_are_compared_with_the_file() {
    for (builder, what) in [
        (Builder::new(u64::MAX, 0), "the number of tensors is too large"),
        (Builder::new(0, u64::MAX), "the number of metadata entries is too large"),
        (Builder::new(0, 1).u64(u64::MAX).raw(&[0; 40]), "bytes of a key of the metadata is too large"),
        (Builder::new(0, 1).text("a").u32(8).u64(1 << 40), "bytes of a text of the metadata is too large"),
        (Builder::new(0, 1).text("a").u32(9).u32(4).u64(1 << 60), "the number of values of a list is too large"),
        (Builder::new(0, 1).text("a").u32(9).u32(8).u64(100), "ends within its header"),
        (Builder::new(0, 1).text("a").u32(13).u32(0), "unknown type of a metadata value"),
        (Builder::new(0, 1).text("a").u32(9).u32(77).u64(0), "unknown type of a metadata value"),
        (Builder::new(0, 1).text("a").u32(10).u64(u64::MAX), "too large"),
    ] {
        let error = refused(&builder.data(1, &[]));
        assert!(error.contains(what) && error.contains("byte "), "{what}: {error}");
    }
    // Lists need memory before they are read: 2^20 bytes become 8 MB.
    let long = Builder::new(0, 1).text("a").u32(9).u32(0).u64(1 << 20).raw(&vec![7; 1 << 20]);
    assert!(open_bytes(&long.data(1, &[]), 1 << 22).err().unwrap().to_string().contains("not enough memory"));
}

#[test]
fn nested_lists_end() {
    // A list of one list of one list ...
    let builder = (0..100).fold(Builder::new(0, 1).text("a").u32(9), |builder, _| builder.u32(9).u64(1));
    assert!(refused(&builder.data(1, &[0; 64])).contains("nested too deeply"));
    let two = Builder::new(0, 1).text("a").u32(9).u32(9).u64(2).u32(0).u64(1).raw(&[5]).u32(7).u64(1).raw(&[1]);
    let mut cursor = cursor::Cursor::new(&two.bytes[24..], &Budget::new(1 << 20)).unwrap();
    let metadata = metadata::read(&mut cursor, 1).unwrap();
    let lists = vec![List::Integers(vec![5]), List::Flags(vec![true])];
    assert_eq!(metadata.get("a"), Some(&Value::List(List::Lists(lists))));
}

#[test]
fn text_has_to_be_utf8_and_keys_and_names_unique() {
    let broken = Builder::new(0, 1).text("key").u32(8).u64(2).raw(&[b'a', 0xff]);
    let error = refused(&broken.data(1, &[]));
    assert!(error.contains("not UTF-8") && error.contains("`key`") && error.contains("byte 48"), "{error}");
    let twice = Builder::new(0, 2).size("a", 1).size("a", 2);
    assert!(refused(&twice.data(1, &[])).contains("appears twice"));
    let tensors = |second: &str, offset: u64| {
        let builder = Builder::new(2, 8).llama().tensor("token_embd.weight", &[4, 2], 0, 0);
        builder.tensor(second, &[4, 2], 0, offset).data(32, &[0; 64])
    };
    assert!(refused(&tensors("token_embd.weight", 32)).contains("the tensor `token_embd.weight` appears twice"));
    assert!(refused(&tensors("other", 0)).contains("`token_embd.weight` and `other` overlap"));
    assert!(refused(&tensors("other", 31)).contains("`other` is not aligned"));
    assert!(refused(&tensors(&"x".repeat(300), 32)).contains("name of a tensor is too long"));
    assert!(refused(&tensors("other", u64::MAX - 31)).contains("reaches beyond the end"));
}

#[test]
fn shapes_types_and_alignment_are_checked() {
    let tensor = |dimensions: &[u64], kind: u32| {
        Builder::new(1, 8).llama().tensor("token_embd.weight", dimensions, kind, 0).data(32, &[0; 64])
    };
    for (bytes, what) in [
        (tensor(&[], 0), "wrong number of dimensions"),
        (tensor(&[1, 1, 1, 1, 1], 0), "wrong number of dimensions"),
        (tensor(&[1 << 40, 1 << 40], 0), "reaches beyond the end"),
        (tensor(&[u64::MAX], 0), "reaches beyond the end"),
        (tensor(&[33, 2], 2), "do not fill blocks"),
        (tensor(&[256], 20), "IQ4_NL"),
        (tensor(&[256], 99), "type 99"),
        (tensor(&[4], 0), "expected: a matrix"),
    ] {
        let error = refused(&bytes);
        assert!(error.contains(what) && error.contains("`token_embd.weight`"), "{what}: {error}");
    }
    for alignment in [0, 3, 1 << 30] {
        let builder = Builder::new(0, 9).llama().size("general.alignment", alignment);
        assert!(refused(&builder.data(1, &[])).contains("invalid alignment"), "{alignment}");
    }
    let wide = Builder::new(1, 9).llama().size("general.alignment", 64).tensor("token_embd.weight", &[4, 2], 0, 0);
    assert!(open_bytes(&wide.data(64, &[0; 32]), 1 << 20).is_ok());
}

#[test]
fn other_files_are_refused_by_name() {
    let version = |version: u32| [b"GGUF".to_vec(), version.to_le_bytes().to_vec(), vec![0; 16]].concat();
    assert!(refused(&version(1)).contains("found: 1"));
    assert!(refused(&version(3u32.swap_bytes())).contains("big-endian"));
    let named = |name: &str| Builder::new(0, 1).text("general.architecture").u32(8).text(name).data(1, &[]);
    assert!(refused(&named("mamba")).contains("unsupported architecture of the GGUF file: `mamba`"));
    assert!(refused(&named("lama")).contains("did you mean `llama`?"));
    assert!(refused(&Builder::new(0, 0).data(1, &[])).contains("`general.architecture`"));
    let split = Builder::new(0, 9).llama().text("split.count").u32(2).raw(&3u16.to_le_bytes());
    assert!(refused(&split.data(1, &[])).contains("3 parts"));
    let few = Builder::new(1, 1).text("general.architecture").u32(8).text("llama");
    let error = refused(&few.tensor("token_embd.weight", &[4, 2], 0, 0).data(32, &[0; 32]));
    assert!(error.contains("the metadata `llama.embedding_length` is missing or wrong"), "{error}");
}

#[test]
fn sizes_that_contradict_each_other_are_refused() {
    // Keys of 3 rows cannot be cut into pairs.
    let builder = Builder::new(2, 8).llama().tensor("token_embd.weight", &[4, 2], 0, 0);
    let bytes = builder.tensor("blk.0.attn_k.weight", &[4, 3], 0, 32).data(32, &[0; 80]);
    assert!(refused(&bytes).contains("`blk.0.attn_k.weight` has the wrong shape"));
    let builder = Builder::new(1, 9).llama().size("llama.attention.key_length", 6);
    let bytes = builder.tensor("token_embd.weight", &[4, 2], 0, 0).data(32, &[0; 32]);
    assert!(refused(&bytes).contains("different widths"));
}
