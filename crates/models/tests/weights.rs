//! Weights as other programs write them: networks of `tests/golden/networks`, and GGUF files that llama.cpp's own
//! converter made from them (`tests/golden/gguf`).
#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use std::io::Write;
use std::path::{Path, PathBuf};

use etalon::context::{Budget, Context};
use etalon::input::TensorFile;
use etalon::network::{Batch, LanguageModel, Network, Untouched};
use etalon_models::weights::Model;
use etalon_models::weights::gguf::{List, Value};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

fn open(path: &Path) -> Model {
    Model::open(path, &Budget::new(1 << 26)).unwrap()
}

fn refused(path: &Path) -> String {
    let error = Model::open(path, &Budget::new(1 << 26)).unwrap_err();
    assert!(error.is_input(), "{error:?}");
    error.to_string()
}

/// Every value of a tensor.
fn values(model: &Model, name: &str) -> Vec<f32> {
    model.weights.tensor(name, model.weights.shape(name).unwrap()).unwrap()
}

#[test]
fn every_number_type_of_gguf() {
    let (model, budget) = (open(&golden("gguf/types.gguf")), Budget::new(1 << 24));
    let expected = TensorFile::open(&golden("gguf/types.safetensors"), &budget).unwrap();
    let mut count = 0;
    for name in expected.names() {
        let ours = if name == "token_embd.weight" { "model.embed_tokens.weight" } else { name };
        assert_eq!(model.weights.shape(ours), expected.shape(name), "{name}");
        let difference =
            values(&model, ours).iter().zip(expected.read(name).unwrap()).any(|(a, b)| a.to_bits() != b.to_bits());
        assert!(!difference, "{name}");
        count += 1;
    }
    assert_eq!((count, model.weights.unread()), (14, Vec::<String>::new()));
    assert_eq!(model.weights.number("test.Q5_K.weight"), Some("Q5_K"));
}

#[test]
fn every_value_type_of_gguf() {
    let model = open(&golden("gguf/types.gguf"));
    let metadata = model.gguf.unwrap();
    for (key, expected) in [
        ("uint8", 200),
        ("int8", -100),
        ("uint16", 60_000),
        ("int16", -30_000),
        ("uint32", 4_000_000_000),
        ("int32", -2_000_000_000),
        ("uint64", 1 << 60),
        ("int64", -(1 << 60)),
    ] {
        assert_eq!(metadata.integer(&format!("test.{key}")), Some(expected), "{key}");
    }
    assert_eq!((metadata.number("test.float32"), metadata.number("test.float64")), (Some(0.25), Some(0.1)));
    assert_eq!((metadata.flag("test.bool"), metadata.text("test.text")), (Some(true), Some("zwölf")));
    assert_eq!(metadata.texts("test.texts").unwrap(), ["a", "", "Ġb"]);
    assert_eq!(metadata.integers("test.integers").unwrap(), [1, -2, 3]);
    assert_eq!(metadata.numbers("test.numbers").unwrap(), [0.5, -1.5]);
    assert_eq!(metadata.get("test.flags"), Some(&Value::List(List::Flags(vec![true, false]))));
}

/// Keys that GGUF does not have, or that no network needs.
const OTHER_KEYS: [&str; 4] = ["query_pre_attn_scalar", "transformers_version", "torch_dtype", "use_cache"];

#[test]
fn converted_networks_are_the_networks_that_were_converted() {
    for name in ["llama", "llama3_rope", "qwen2", "qwen3", "gemma2", "gemma3", "gpt2", "gpt_neox"] {
        let (original, converted) = (open(&golden("networks").join(name)), open(&golden(&format!("gguf/{name}.gguf"))));
        assert_eq!(converted.recognised, "GGUF float32");
        let names: Vec<&str> = original.weights.names().collect();
        assert_eq!(converted.weights.names().collect::<Vec<_>>(), names, "{name}");
        // Adding 1 to the norms of Gemma rounds them.
        let tolerance = if name.starts_with("gemma") { 1.2e-7 } else { 0.0 };
        for tensor in names {
            assert_eq!(converted.weights.shape(tensor), original.weights.shape(tensor), "{name} {tensor}");
            let (converted, original) = (values(&converted, tensor), values(&original, tensor));
            let worst = converted.iter().zip(&original).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(worst <= tolerance, "{name} {tensor}: {worst}");
        }
        let text = std::fs::read(golden("networks").join(name).join("config_legacy_keys.json")).unwrap();
        let expected: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&text).unwrap();
        let mut compared = 0;
        for (key, value) in &converted.config {
            let Some(expected) = expected.get(key).filter(|_| !OTHER_KEYS.contains(&key.as_str())) else { continue };
            compared += 1;
            // Any original context from 26 to 38 gives the factors of `llama3_rope`.
            let equal = match (key.as_str(), name) {
                ("rope_scaling", "llama3_rope") => value["factor"] == expected["factor"],
                // Without a separate value, the pattern of published models is assumed.
                ("sliding_window_pattern", _) => *value == 6,
                _ => value == expected || value.as_f64().is_some_and(|value| Some(value) == expected.as_f64()),
            };
            assert!(equal, "{name}: `{key}` is {value}, not {expected}");
        }
        assert!(compared >= 10, "{name}: {compared} keys");
    }
}

#[test]
fn directories_of_hugging_face_and_timm() {
    let sharded = open(&golden("networks/gpt_neox"));
    assert_eq!(
        (sharded.recognised.as_str(), &sharded.config["model_type"]),
        ("safetensors, 2 shards", &"gpt_neox".into())
    );
    let whole = open(&golden("networks/llama"));
    assert_eq!(
        (whole.recognised.as_str(), whole.directory.as_deref()),
        ("safetensors", Some(&*golden("networks/llama")))
    );
    // The file of a directory has the same configuration, and the same content hash.
    let file = open(&golden("networks/llama/model.safetensors"));
    assert_eq!((file.config.get("model_type"), file.id().unwrap()), (Some(&"llama".into()), whole.id().unwrap()));
    assert_ne!(sharded.id().unwrap(), whole.id().unwrap());
    let timm = open(&golden("networks/vit_timm"));
    assert_eq!(timm.config["class"], "timm VisionTransformer");
    let bare = open(&golden("pickles/old.pth"));
    assert_eq!((bare.recognised.as_str(), bare.config.len()), ("torch", 0));
    assert_eq!(bare.weights.tensor("single", &[]).unwrap(), [2.5]);
    assert!(bare.weights.unread().contains(&"shared.first".to_string()));
}

/// A file as `torch.save` writes a state dict: an archive of a pickle and one storage per tensor.
fn torch_file(model: &Model, names: &[&str]) -> Vec<u8> {
    let text = |text: &str| [&b"X"[..], &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat();
    let number = |number: usize| [&b"J"[..], &(number as u32).to_le_bytes()[..]].concat();
    let tuple =
        |numbers: &[usize]| [b"(".to_vec(), numbers.iter().flat_map(|n| number(*n)).collect(), b"t".to_vec()].concat();
    let mut pickle = b"\x80\x02ccollections\nOrderedDict\n)R(".to_vec();
    let mut storages = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let (values, shape) = (values(model, name), model.weights.shape(name).unwrap());
        let strides: Vec<usize> = (0..shape.len()).map(|axis| shape[axis + 1..].iter().product()).collect();
        pickle.extend(text(name));
        pickle.extend(b"ctorch._utils\n_rebuild_tensor_v2\n((");
        pickle.extend(
            [text("storage"), b"ctorch\nFloatStorage\n".to_vec(), text(&index.to_string()), text("cpu")].concat(),
        );
        pickle.extend([number(values.len()), b"tQ".to_vec(), number(0), tuple(shape), tuple(&strides)].concat());
        pickle.extend(b"\x89ccollections\nOrderedDict\n)RtR");
        storages.push(values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>());
    }
    pickle.extend(b"u.");
    let mut writer = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let numbered = storages.iter().enumerate().map(|(index, bytes)| (format!("m/data/{index}"), &bytes[..]));
    for (name, bytes) in [("m/data.pkl".to_string(), &pickle[..])].into_iter().chain(numbered) {
        writer.start_file(name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

/// The same network as one torch file and as shards with their index.
#[test]
fn torch_files_of_hugging_face() {
    for name in ["llama", "gpt_neox"] {
        let source = golden("networks").join(name);
        let original = open(&source);
        let names: Vec<&str> = original.weights.names().collect();
        let copy = |files: &[(&str, Vec<u8>)]| {
            let directory = tempfile::tempdir().unwrap();
            std::fs::copy(source.join("config.json"), directory.path().join("config.json")).unwrap();
            files.iter().for_each(|(name, bytes)| std::fs::write(directory.path().join(name), bytes).unwrap());
            directory
        };
        let whole = copy(&[("pytorch_model.bin", torch_file(&original, &names))]);
        let shards = ["pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"];
        let (first, second) = names.split_at(names.len() / 2);
        let files = first.iter().map(|name| (name, shards[0])).chain(second.iter().map(|name| (name, shards[1])));
        let files: serde_json::Map<String, serde_json::Value> =
            files.map(|(name, shard)| (name.to_string(), shard.into())).collect();
        let index = serde_json::json!({"metadata": {"total_size": 0}, "weight_map": files}).to_string();
        let sharded = copy(&[
            (shards[0], torch_file(&original, first)),
            (shards[1], torch_file(&original, second)),
            ("pytorch_model.bin.index.json", index.into_bytes()),
        ]);
        for (directory, recognised) in [(&whole, "torch"), (&sharded, "torch, 2 shards")] {
            let model = open(directory.path());
            assert_eq!(model.recognised, recognised);
            assert_eq!(model.config.get("model_type"), original.config.get("model_type"));
            assert_eq!(model.weights.names().collect::<Vec<_>>(), names);
            for tensor in &names {
                assert_eq!(model.weights.shape(tensor), original.weights.shape(tensor), "{name} {tensor}");
                assert_eq!(values(&model, tensor), values(&original, tensor), "{name} {tensor}");
            }
            // And it runs: every tensor has its place in the network.
            let budget = Budget::new(1 << 26);
            let networks =
                [directory.path(), source.as_path()].map(|path| etalon_models::open_language(path, &budget).unwrap());
            let [found, expected] = networks.map(|network| logits(&network));
            assert_eq!(found, expected, "{name}");
        }
        // A shard that is not there, and one that ends.
        std::fs::remove_file(sharded.path().join(shards[1])).unwrap();
        assert!(refused(sharded.path()).contains(shards[1]));
        let bytes = std::fs::read(whole.path().join("pytorch_model.bin")).unwrap();
        std::fs::write(whole.path().join("pytorch_model.bin"), &bytes[..bytes.len() / 2]).unwrap();
        assert!(refused(whole.path()).contains("pytorch_model.bin"));
    }
}

/// The logits of a few tokens.
fn logits(network: &etalon_models::language::Decoder) -> Vec<f32> {
    let context = Context::silent(2, 1 << 26).unwrap();
    let mut state = network.begin(&Batch::Tokens { tokens: &[1, 5, 9, 3], length: 4 }, &context).unwrap();
    network.run(0..network.stages(), &mut state, &mut Untouched, &context).unwrap();
    let mut out = vec![0.0; 4 * network.card().vocabulary];
    network.logits(&state, 0..4, &mut out).unwrap();
    out
}

/// A copy of the sharded network.
fn copy() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for entry in std::fs::read_dir(golden("networks/gpt_neox")).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, directory.path().join(path.file_name().unwrap())).unwrap();
    }
    directory
}

const INDEX: &str = "model.safetensors.index.json";

fn change_index(directory: &Path, change: impl Fn(&str) -> String) {
    let text = std::fs::read_to_string(directory.join(INDEX)).unwrap();
    std::fs::write(directory.join(INDEX), change(&text)).unwrap();
}

#[test]
fn a_wrong_index_is_refused() {
    let directory = copy();
    let path = directory.path();
    std::fs::remove_file(path.join("model-00002-of-00002.safetensors")).unwrap();
    let error = refused(path);
    assert!(error.contains("a shard is missing") && error.contains("`model-00002-of-00002.safetensors`"), "{error}");

    let directory = copy();
    change_index(directory.path(), |text| text.replace("model-00002", "../model-00002"));
    assert!(refused(directory.path()).contains("outside of its directory"));

    let directory = copy();
    change_index(directory.path(), |text| text.replace("gpt_neox.final_layer_norm.bias", "gpt_neox.other.bias"));
    let error = refused(directory.path());
    assert!(error.contains("the tensor `gpt_neox.other.bias` is not in the file that the index names"), "{error}");

    for text in ["", "[]", "{}", "{\"weight_map\": {}}", "{\"weight_map\": {\"a\": 1}}"] {
        let directory = copy();
        change_index(directory.path(), |_| text.to_string());
        assert!(refused(directory.path()).contains(INDEX), "{text}");
    }

    // Both shards are the same file.
    let directory = copy();
    let shard = |number: u8| directory.path().join(format!("model-0000{number}-of-00002.safetensors"));
    std::fs::copy(shard(1), shard(2)).unwrap();
    assert!(refused(directory.path()).contains("two tensors have the name"));
}

#[test]
fn a_cut_shard_is_refused() {
    let directory = copy();
    let path = directory.path().join("model-00001-of-00002.safetensors");
    let bytes = std::fs::read(&path).unwrap();
    for length in [0, 7, 100, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).unwrap();
        assert!(refused(directory.path()).contains("model-00001-of-00002.safetensors"), "{length}");
    }
}

#[test]
fn a_file_that_changes_after_opening_is_refused() {
    let directory = copy();
    let model = open(directory.path());
    let path = directory.path().join("model-00001-of-00002.safetensors");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes.push(0);
    std::fs::write(&path, bytes).unwrap();
    let read: Result<Vec<_>, _> =
        model.weights.names().map(|name| model.weights.tensor(name, model.weights.shape(name).unwrap())).collect();
    assert!(read.unwrap_err().to_string().contains("changed while it was read"));
    assert!(model.id().unwrap_err().to_string().contains("changed while it was read"));
}

#[test]
fn directories_without_a_model_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    assert!(refused(path).contains("contains no weights"));
    assert!(refused(&path.join("absent")).contains("no such file or directory"));
    std::fs::write(path.join("config.json"), "{\"model_type\": \"llama\"}").unwrap();
    std::fs::write(path.join("tokenizer.bin"), "x").unwrap();
    assert!(refused(path).contains("model.safetensors"));
    std::fs::copy(golden("gguf/llama.gguf"), path.join("a.gguf")).unwrap();
    assert_eq!(open(path).recognised, "GGUF float32");
    std::fs::copy(golden("gguf/llama.gguf"), path.join("b.gguf")).unwrap();
    let error = refused(path);
    assert!(error.contains("several files") && error.contains("a.gguf, b.gguf"), "{error}");
    std::fs::write(path.join("c.gguf"), "GGML").unwrap();
    assert!(refused(&path.join("c.gguf")).contains("not a GGUF file"));
    std::fs::write(path.join("d.xyz"), "hello hello").unwrap();
    assert!(refused(&path.join("d.xyz")).contains("unknown file format"));
}

#[test]
fn tensors_larger_than_the_memory_are_refused_one_by_one() {
    // The header of a file needs memory for its metadata, its tensors only while they are read.
    let path = golden("gguf/llama.gguf");
    let budget = Budget::new(1 << 14);
    let model = Model::open(&path, &budget).unwrap();
    assert!(model.weights.size() > 1 << 14);
    let error = model.weights.tensor("model.embed_tokens.weight", &[96, 24]);
    assert_eq!(error.is_ok(), budget.left() >= 96 * 24 * 4);
    for layer in 0..3 {
        model.weights.tensor(&format!("model.layers.{layer}.self_attn.k_proj.weight"), &[8, 24]).unwrap();
    }
}
