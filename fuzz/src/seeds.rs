//! Small valid files of every format.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use etalon::codes::Codes;
use etalon::context::{Budget, Context};
use etalon::labels::worlds;
use etalon::load;
use etalon::results::{Archive, Profile, Recipe, ResultFile, Scores, Table};
use etalon::sae::{checkpoint, untrained};
use etalon::store::{ActivationStore, ImportOptions, import};
use zip::CompressionMethod;

use crate::files::{self, floats};
pub use crate::targets::Seeds;

/// Alternatives without names.
fn alternatives(contents: impl IntoIterator<Item = Vec<u8>>) -> Seeds {
    Ok(contents.into_iter().enumerate().map(|(number, bytes)| (number.to_string(), bytes)).collect())
}

fn texts(contents: &[&str]) -> Seeds {
    alternatives(contents.iter().map(|text| text.as_bytes().to_vec()))
}

fn named(contents: &[(&str, &str)]) -> Seeds {
    Ok(contents.iter().map(|(name, text)| (name.to_string(), text.as_bytes().to_vec())).collect())
}

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name)
}

/// The files of a directory, at every depth, by name.
pub fn directory(root: &Path) -> Seeds {
    let mut files = BTreeMap::new();
    let mut pending = vec![root.to_path_buf()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                let name = path.strip_prefix(root)?.to_string_lossy().into_owned();
                files.insert(name, fs::read(path)?);
            }
        }
    }
    Ok(files.into_iter().collect())
}

/// Two files of a golden checkpoint.
fn golden_pair(folder: &str, names: [&str; 2]) -> Seeds {
    let read = |name: &str| Ok((name.to_string(), fs::read(golden("checkpoints").join(folder).join(name))?));
    names.into_iter().map(read).collect()
}

fn array() -> Vec<u8> {
    files::npy("<f4", false, "(2, 2)", &floats(&[1.0, 2.0, 3.0, 4.0]))
}

pub fn npy() -> Seeds {
    alternatives([
        array(),
        files::npy(">f2", true, "(2, 3, 1)", &[0; 12]),
        files::npy("|b1", false, "(3,)", &[0, 1, 1]),
        files::npy("<i8", false, "(1, 1)", &[7, 0, 0, 0, 0, 0, 0, 0]),
    ])
}

pub fn npz() -> Seeds {
    let members = [("k.npy".to_string(), array())];
    let both = [CompressionMethod::Stored, CompressionMethod::Deflated].map(|method| files::zip(&members, method));
    alternatives(both.into_iter().collect::<Result<Vec<_>, _>>()?)
}

pub fn npz_members() -> Seeds {
    Ok(vec![("k.npy".into(), array())])
}

pub fn sparse_npz() -> Seeds {
    Ok(files::scipy())
}

pub fn safetensors() -> Seeds {
    alternatives([files::safetensors()])
}

pub fn parquet_rows() -> Seeds {
    let checked = ["plain", "packed"].map(|name| fs::read(golden("parquet").join(format!("{name}.parquet"))));
    let checked = checked.into_iter().collect::<Result<Vec<_>, _>>()?;
    alternatives([files::parquet_numbers()?, files::parquet_lists()?].into_iter().chain(checked))
}

pub fn parquet_table() -> Seeds {
    alternatives([files::parquet_table()?, fs::read(golden("parquet/words.parquet"))?])
}

pub fn torch() -> Seeds {
    alternatives([files::zip(&files::torch(), CompressionMethod::Stored)?])
}

pub fn pickle() -> Seeds {
    Ok(files::torch())
}

pub fn csv() -> Seeds {
    texts(&["name,n\nwing,-1\n,0\n\"a,\"\"b\"\"\",7\n", "\u{feff}a\r\n1\r\n2\r\n"])
}

pub fn tsv() -> Seeds {
    texts(&["name\tn\nwing\t1\n"])
}

pub fn jsonl() -> Seeds {
    texts(&["{\"name\": \"wing\", \"n\": 1, \"yes\": true}\n{\"name\": null, \"n\": 2.5, \"yes\": false}\n"])
}

pub fn labels() -> Seeds {
    texts(&["sample,wing,tail\na,1,0\nb,,yes\n", "wing,tail\n1,?\n0,true\n"])
}

pub fn pairs() -> Seeds {
    texts(&["before,after,added,removed\n0,1,wing,\n2,3,,1\n4,5,tail,beak\n"])
}

pub fn responses() -> Seeds {
    texts(&[
        "model,layer,channel,mode,correct,is_demo,catch_trial,participant_id,passed_checks\nr,conv1,7,natural,True,False,False,p1,True\n",
        "unit,correct,choice,total_time,instruction_time,demo_attempts\n3,1,left,140.5,20,1\n4,,right,,,\n",
    ])
}

pub fn trials() -> Seeds {
    texts(&[
        "[{\"unit\": 1, \"correct\": true}, {\"unit\": 2, \"data\": {\"correct\": false, \"rt\": 12.5}}]\n[{\"unit\": 3, \"correct\": null}]\n",
    ])
}

pub fn units() -> Seeds {
    texts(&["model,layer,type,depth,width\nvit,blocks.0,mlp,0.25,3072\nvit,head,,,\n", "layer\nconv1\n"])
}

pub fn splits() -> Seeds {
    texts(&["sample,split\na,train\nb,\nc,test\n"])
}

pub fn samples() -> Seeds {
    texts(&[r#"{"id": "a", "text": "<b>", "activations": [{"latent": 3, "value": 1.5, "tokens": [0, 1.5]}]}

{"id": "b", "boxes": [{"name": "b", "x": 0.5, "y": 0, "width": 0.5, "height": 1}]}
"#])
}

pub fn layout() -> Seeds {
    texts(&["x,latent,y,name\n0.5,7,-1,bird\n1,3,2,\n"])
}

pub fn picture() -> Seeds {
    alternatives([b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR".to_vec(), b"\xff\xd8\xff\xe0JFIF".to_vec()])
}

/// Four rows of width 3.
pub fn rows() -> etalon::error::Result<ActivationStore> {
    ActivationStore::from_rows((0..12).map(|value| value as f32).collect(), 3)
}

pub fn store() -> Seeds {
    let scratch = tempfile::tempdir()?;
    let (out, options) = (scratch.path().join("store"), ImportOptions::default());
    import(&mut rows()?.reader(), &out, &options, &Context::silent(1, 1 << 26)?)?;
    directory(&out)
}

pub fn codes() -> Seeds {
    let scratch = tempfile::tempdir()?;
    let out = scratch.path().join("codes");
    Codes::from_dense(&[0.0, 1.0, 0.0, 2.0, 0.0, 3.0], 3)?.save(&out)?;
    directory(&out)
}

pub fn world() -> Seeds {
    let scratch = tempfile::tempdir()?;
    let settings = [("rows", "12"), ("width", "4"), ("features", "6"), ("active", "2"), ("pairs", "3")]
        .map(|(name, value)| (name.to_string(), value.to_string()));
    let (settings, context) = (BTreeMap::from(settings), Context::silent(1, 1 << 26)?);
    let world = worlds::make("superposition", &settings, 0, &context)?;
    let out = scratch.path().join("world");
    load::save_world(&world, &settings, 0, &out, &context)?;
    directory(&out)
}

pub fn study() -> Seeds {
    let text = r#"title = "Two dictionaries"
metrics = ["core", "match"]
seeds = [0, 1]
profile = "paper"

[inputs]
labels = "labels.csv"

[[set]]
name = "a"
codes = "a.npz:codes"
about = { latents = 512, arch = "topk" }

[[set]]
name = "b"
codes = "b.npy"
"#;
    texts(&[text])
}

pub fn result() -> Seeds {
    let scratch = tempfile::tempdir()?;
    let mut scores = Scores::default();
    scores.headline("mean", Some(0.5), None, 3);
    scores.note("one latent never fires");
    scores.tables.push(Table::new("latent").numbers("score", vec![Some(0.5), None]));
    let recipe = Recipe {
        metric: "match".into(),
        version: 1,
        profile: Profile::Paper,
        seed: 0,
        params: BTreeMap::new(),
        inputs: BTreeMap::from([("codes".to_string(), "blake3:00".to_string())]),
    };
    let result = ResultFile { etalon: "0.1.0".into(), recipe, scores, seconds: 0.25 };
    let about = BTreeMap::from([("inputs".to_string(), "a".into())]);
    Archive::open(scratch.path())?.put(&result, &about, &Budget::new(1 << 20))?;
    directory(scratch.path())
}

pub fn saebench() -> Seeds {
    let rest = r#""sae_lens_id": "custom_sae", "sae_lens_release_id": "r", "sae_cfg_dict":
        {"architecture": "topk", "d_sae": 4096, "model_name": "pythia", "training_tokens": 499998720}}"#;
    let core = r#"{"eval_type_id": "core", "eval_config": {"model_name": "pythia", "batch_size_prompts": 16},
        "eval_result_metrics": {"sparsity": {"l0": 40.5, "l1": -1}, "reconstruction_quality":
        {"mse": NaN, "explained_variance": 0.75}}, "eval_result_details": null, "#;
    let tpp = r#"{"eval_type_id": "tpp", "eval_config": {"random_seed": 42, "n_values": [2]}, "eval_result_metrics":
        {"tpp_metrics": {"tpp_threshold_20_total_metric": 0.2}}, "#;
    named(&[
        ("core/r_custom_sae_eval_results.json", &format!("{core}{rest}")),
        ("tpp/r_custom_sae_eval_results.json", &format!("{tpp}{rest}")),
    ])
}

pub fn checkpoint_etalon() -> Seeds {
    let scratch = tempfile::tempdir()?;
    let out = scratch.path().join("sae");
    checkpoint::save(&untrained(&rows()?, 4, 2, 0)?, &serde_json::Map::new(), "etalon", &out)?;
    directory(&out)
}

pub fn checkpoint_saelens() -> Seeds {
    golden_pair("sl_jumprelu", ["cfg.json", "sae_weights.safetensors"])
}

pub fn checkpoint_dictionary_learning() -> Seeds {
    golden_pair("dl_batchtopk", ["config.json", "ae.pt"])
}

pub fn checkpoint_overcomplete() -> Seeds {
    golden_pair("../checkpoints-overcomplete/paper5_like", ["config.json", "RA-SAE.pth"])
}

pub fn checkpoint_sparsify() -> Seeds {
    golden_pair("sparsify/layers.3", ["cfg.json", "sae.safetensors"])
}

pub fn checkpoint_llama_scope() -> Seeds {
    let settings = r#"{"d_model": 3, "d_sae": 2, "act_fn": "jumprelu", "jump_relu_threshold": 3.0,
        "dataset_average_activation_norm": {"in": 4.0, "out": 4.0}, "hook_point_in": "blocks.1.hook_resid_post",
        "hook_point_out": "blocks.1.hook_resid_post"}"#;
    let weights = [
        ("encoder.weight", "[2,3]", vec![1.0, 0.0, 0.0, 0.0, 1.0, 0.0]),
        ("encoder.bias", "[2]", vec![0.0, 1.0]),
        ("decoder.weight", "[3,2]", vec![1.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
        ("decoder.bias", "[3]", vec![0.0, 0.0, 1.0]),
    ];
    Ok(vec![
        ("hyperparams.json".into(), settings.as_bytes().to_vec()),
        ("checkpoints/final.safetensors".into(), files::tensors(&weights)),
    ])
}

pub fn checkpoint_gemma_scope() -> Seeds {
    let matrix = |shape: &str, values: usize| files::npy("<f4", false, shape, &floats(&vec![0.5; values]));
    Ok([
        ("W_enc.npy", matrix("(3, 4)", 12)),
        ("W_dec.npy", matrix("(4, 3)", 12)),
        ("b_enc.npy", matrix("(4,)", 4)),
        ("b_dec.npy", matrix("(3,)", 3)),
        ("threshold.npy", matrix("(4,)", 4)),
    ]
    .map(|(name, bytes)| (name.to_string(), bytes))
    .into())
}

pub fn words() -> Seeds {
    texts(&[
        r#"{"model": {"type": "BPE", "vocab": {"Ġbee": 2, "Ant": 0, "!": 1}}}"#,
        r#"{"model": {"vocab": [["<unk>", 0.0], ["▁zoo", -3.5]]}}"#,
    ])
}

pub fn entities() -> Seeds {
    named(&[
        (
            "ravel_city_entity_attributes.json",
            r#"{"Rome": {"Country": "Italy", "Age": 7}, "Oslo": {"Country": "Norway", "Age": null}}"#,
        ),
        ("ravel_city_attribute_to_prompts.json", r#"{"Country": ["%s is in", "In %s, say"], "Age": ["%s is"]}"#),
        ("ravel_city_entity_to_split.json", r#"{"Rome": "train", "Oslo": "val"}"#),
        ("ravel_city_prompt_to_split.json", r#"{"%s is in": "train", "In %s, say": "test", "%s is": "val"}"#),
    ])
}

pub fn coco() -> Seeds {
    texts(&[r#"{"info": {"year": 2017},
 "images": [{"id": 9, "file_name": "b.jpg", "height": 2}, {"id": 4, "file_name": "a.jpg"}],
 "annotations": [
  {"id": 1, "image_id": 9, "category_id": 18, "bbox": [0, 0, 2.5, 1], "iscrowd": 0, "segmentation": [[1, 2, 3]]},
  {"id": 2, "image_id": 4, "category_id": 3, "bbox": [0, 0, 1, 1], "iscrowd": 1,
   "segmentation": {"counts": [3], "size": [1, 3]}}],
 "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "car", "supercategory": "vehicle"}]}"#])
}

pub fn cub() -> Seeds {
    named(&[
        ("images.txt", "1 001.Gull/a.jpg\n2 001.Gull/b.jpg\n3 002.Wren/c.jpg\n"),
        ("classes.txt", "1 001.Gull\n2 002.Wren\n"),
        ("image_class_labels.txt", "1 1\n2 1\n3 2\n"),
        ("train_test_split.txt", "1 0\n2 1\n3 1\n"),
        ("attributes/attributes.txt", "1 has_bill_shape::hooked\n2 has_wing_color::blue\n"),
        ("attributes/image_attribute_labels.txt", "1 1 1 4 10.5\n1 2 0 3 1\n2 1 0 1 2\n3 1 0 4 1\n3 2 1 3 1.5\n"),
    ])
}

pub fn syncub() -> Seeds {
    named(&[
        (
            "metadata.csv",
            "pair_id,orig_image,syn_image,class_id,class_name,old_attr,new_attr,old_attr_idx,new_attr_idx,\
             orig_attr_idx,syn_attr_idx\n\
             000000,images/0_orig.jpg,images/0_syn.png,14,Bunting,blue,red,0,1,\"[0, 2]\",\"[1, 2]\"\n",
        ),
        ("attributes.txt", "1 blue\n2 red\n3 hooked\n"),
        ("images/0_orig.jpg", ""),
        ("images/0_syn.png", ""),
    ])
}

pub fn syncoco() -> Seeds {
    named(&[
        (
            "metadata.csv",
            "pair_id,orig_image,syn_image,coco_idx,removed_cls_idx,removed_class,orig_labels,syn_labels\n\
             0,images/0_orig.jpg,images/0_syn.jpg,139,16,dog,\"[0, 16]\",[0]\n",
        ),
        ("images/0_orig.jpg", ""),
        ("images/0_syn.jpg", ""),
    ])
}
