//! Hidden states and logits of tiny models.

use std::collections::BTreeSet;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::network::{Batch, Capture, Edit, Network, Pair, Patch, Site, SiteId, Tap, Untouched, find_sites};
use etalon_models::{Tower, families, family_cards, open};

use crate::{
    Expected, LANGUAGE, assert_close, at_site, channels_last, context, floats, golden, integers, logits, tensors,
};

fn network(name: &str) -> Arc<dyn Network> {
    open(&golden("networks").join(name), Tower::Main, &Budget::new(1 << 30)).unwrap()
}

/// The site of a golden value of a language model.
fn site(value: &str, network: &dyn Network, has_raw: bool) -> String {
    let layers = network.card().layers;
    if let Some(index) = value.strip_prefix("hidden.") {
        let index: usize = index.parse().unwrap();
        return if index == layers {
            format!("blocks.{}.hook_resid_post", layers - 1)
        } else {
            format!("blocks.{index}.hook_resid_pre")
        };
    }
    if value == "final_norm" {
        let last = |site: &&Site| site.stage == layers && site.name != "ln_final.hook_normalized";
        return network.sites().iter().find(last).unwrap().name.clone();
    }
    let (block, point) = value.strip_prefix("block.").and_then(|value| value.split_once('.')).unwrap();
    let model = |path: &str| format!("model.layers.{block}.{path}");
    match point {
        "attn_z" => format!("blocks.{block}.attn.hook_z"),
        "attn_out" if has_raw => model("self_attn"),
        "attn_out" | "attn_out_post_norm" => format!("blocks.{block}.hook_attn_out"),
        "mlp_in" => mlp_in(network, block),
        "mlp_out" if has_raw => model("mlp"),
        "mlp_out" | "mlp_out_post_norm" => format!("blocks.{block}.hook_mlp_out"),
        other => panic!("no site for the golden value `{other}`"),
    }
}

/// The site behind the norm in front of the perceptron, by the name of its module in the family.
fn mlp_in(network: &dyn Network, block: &str) -> String {
    let names = ["ln_2", "pre_feedforward_layernorm", "post_attention_layernorm"];
    let of_block = |site: &&Site| site.name.contains(&format!(".{block}."));
    let found = names
        .iter()
        .find_map(|name| network.sites().iter().filter(of_block).find(|site| site.name.ends_with(&format!(".{name}"))));
    found.unwrap().name.clone()
}

#[test]
fn language_models() {
    for name in LANGUAGE {
        let network = network(name);
        let (tokens, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let expected = Expected::of(name);
        for value in expected.names().iter().filter(|value| *value != "logits") {
            let site = site(value, &*network, name.starts_with("gemma"));
            assert_close(&format!("{name} {value}"), &at_site(&*network, batch, &site, 2), &expected.get(value).values);
        }
        let language = network.clone().language().unwrap();
        assert_close(&format!("{name} logits"), &logits(&*language, batch, 2), &expected.get("logits").values);
        expected.finish();
    }
}

/// The mean and the root mean square around it, in double precision.
fn moments(row: &[f32], centre: bool, eps: f64) -> (f64, f64) {
    let mean = if centre { row.iter().map(|value| f64::from(*value)).sum::<f64>() / row.len() as f64 } else { 0.0 };
    let square = row.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>() / row.len() as f64;
    (mean, (square + eps).sqrt())
}

/// The hooks of TransformerLens in front of a norm's factors, by their definition: (x − mean) / scale; RMS norms have no mean.
#[test]
fn normalised_streams_are_before_the_factors_of_norms() {
    for name in LANGUAGE {
        let network = network(name);
        let (tokens, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let config = std::fs::read_to_string(golden("networks").join(name).join("config.json")).unwrap();
        let config: serde_json::Value = serde_json::from_str(&config).unwrap();
        let eps = ["rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps"].iter().find_map(|key| config[*key].as_f64());
        let (width, last) = (network.card().width, network.card().layers - 1);
        // A parallel block has no stream between attention and perceptron: both norms read its input.
        let mid = if name == "gpt_neox" { "blocks.1.hook_resid_pre" } else { "blocks.1.hook_resid_mid" };
        let last = format!("blocks.{last}.hook_resid_post");
        for (site, stream) in [
            ("blocks.1.ln1.hook_normalized", "blocks.1.hook_resid_pre"),
            ("blocks.1.ln2.hook_normalized", mid),
            ("ln_final.hook_normalized", last.as_str()),
        ] {
            let stream = at_site(&*network, batch, stream, 2);
            let normalised = stream.chunks_exact(width).flat_map(|row| {
                let (mean, scale) = moments(row, name.starts_with("gpt"), eps.unwrap());
                row.iter().map(move |value| ((f64::from(*value) - mean) / scale) as f32)
            });
            let found = at_site(&*network, batch, site, 2);
            assert_close(&format!("{name} {site}"), &found, &normalised.collect::<Vec<f32>>());
            // A look changes nothing, and replacing the values by themselves does not either.
            let id = find_sites(network.sites(), site).unwrap()[0];
            let plain = end(&*network, batch, &mut Untouched);
            assert_eq!(end(&*network, batch, &mut Patch::new(id, Edit::Replace(found))), plain, "{name} {site}");
            // Twice the values: what follows is the norm's factor times them, which is not what it was.
            assert_ne!(end(&*network, batch, &mut Patch::new(id, Edit::Scale(2.0))), plain, "{name} {site}");
        }
    }
}

/// The last stream of a run with a tap.
fn end(network: &dyn Network, batch: Batch<'_>, tap: &mut dyn Tap) -> Vec<f32> {
    let context = context(2);
    let mut state = network.begin(&batch, &context).unwrap();
    network.run(0..network.stages(), &mut state, tap, &context).unwrap();
    state.values
}

#[test]
fn changed_normalised_streams_are_multiplied_by_the_factors() {
    for (name, module) in [("gpt2", "transformer.h.1.ln_1"), ("llama", "model.layers.1.input_layernorm")] {
        let network = network(name);
        let (tokens, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let weights = tensors(&golden("networks").join(name).join("model.safetensors"));
        let norm = module.rsplit('.').next().unwrap();
        let factor = |kind: &str| weights.iter().find(|(key, _)| key.ends_with(&format!("1.{norm}.{kind}")));
        let (weight, bias) = (&factor("weight").unwrap().1.values, factor("bias").map(|(_, tensor)| &tensor.values));
        let ids = ["blocks.1.ln1.hook_normalized", module].map(|site| find_sites(network.sites(), site).unwrap()[0]);
        let rows = at_site(&*network, batch, "blocks.1.ln1.hook_normalized", 2);
        let changed: Vec<f32> = rows.iter().map(|value| value + 0.5).collect();
        let expected: Vec<f32> = changed
            .iter()
            .enumerate()
            .map(|(i, value)| value * weight[i % weight.len()] + bias.map_or(0.0, |bias| bias[i % bias.len()]))
            .collect();
        let (mut patch, mut capture) = (Patch::new(ids[0], Edit::Replace(changed)), Capture::new(&ids[1..]));
        end(&*network, batch, &mut Pair(&mut patch, &mut capture));
        assert_close(name, capture.of(ids[1]).unwrap().1, &expected);
    }
}

/// GPT-2 adds positions to tokens; other networks begin with the embeddings of tokens, multiplied in Gemma.
#[test]
fn embeddings() {
    for name in LANGUAGE {
        let network = network(name);
        let (tokens, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let stream = at_site(&*network, batch, "blocks.0.hook_resid_pre", 2);
        let embedded = at_site(&*network, batch, "hook_embed", 2);
        if name != "gpt2" {
            assert_eq!(embedded, stream, "{name}");
            let error = find_sites(network.sites(), "hook_pos_embed").unwrap_err().to_string();
            assert!(error.contains("only networks that add embeddings of positions"), "{error}");
            continue;
        }
        let weights = tensors(&golden("networks/gpt2/model.safetensors"));
        let table = |end: &str| &weights.iter().find(|(key, _)| key.ends_with(end)).unwrap().1.values;
        let width = network.card().width;
        let rows = |table: &[f32], index: &dyn Fn(usize) -> usize| -> Vec<f32> {
            (0..tokens.len()).flat_map(|row| table[index(row) * width..][..width].to_vec()).collect()
        };
        assert_eq!(embedded, rows(table("wte.weight"), &|row| tokens[row] as usize));
        let positions = at_site(&*network, batch, "hook_pos_embed", 2);
        assert_eq!(positions, rows(table("wpe.weight"), &|row| row % shape[1]));
        assert!(embedded.iter().zip(&positions).map(|(a, b)| a + b).eq(stream.iter().copied()));
        // A change of one summand changes the stream by as much.
        let ids =
            ["hook_pos_embed", "blocks.0.hook_resid_pre"].map(|site| find_sites(network.sites(), site).unwrap()[0]);
        let (mut patch, mut capture) = (Patch::new(ids[0], Edit::Scale(0.0)), Capture::new(&ids[1..]));
        end(&*network, batch, &mut Pair(&mut patch, &mut capture));
        assert_eq!(capture.of(ids[1]).unwrap().1, embedded);
    }
}

#[test]
fn older_configuration_keys_give_the_same_network() {
    for name in LANGUAGE {
        let directory = golden("networks").join(name);
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
        }
        std::fs::copy(directory.join("config_legacy_keys.json"), copy.path().join("config.json")).unwrap();
        let (tokens, shape) = integers(&directory.join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let old = open(copy.path(), Tower::Main, &Budget::new(1 << 30)).unwrap().language().unwrap();
        let new = network(name).language().unwrap();
        assert_eq!(logits(&*old, batch, 1), logits(&*new, batch, 1), "{name}");
    }
}

/// Networks of tokens that are not language models, and of images.
const OTHERS: [(&str, Tower); 6] = [
    ("bert", Tower::Main),
    ("clip", Tower::Text),
    ("clip", Tower::Main),
    ("vit_timm", Tower::Main),
    ("vit_clip_timm", Tower::Main),
    ("dinov2_registers", Tower::Main),
];

/// All sites and the result; `golden_vision.rs` has the networks of convolutions.
#[test]
fn threads_do_not_change_bits() {
    let all = LANGUAGE.map(|name| (name, Tower::Main)).into_iter().chain(OTHERS);
    for (name, tower) in all {
        let network = open(&golden("networks").join(name), tower, &Budget::new(1 << 30)).unwrap();
        let card = network.card();
        let (mut tokens, mut values) = (Vec::new(), Vec::new());
        let batch = match card.vocabulary {
            0 => {
                let (pixels, shape) = floats(&golden("networks").join(name).join("pixel_values.npy"));
                let image = channels_last(&pixels, &shape);
                // More rows than one task processes.
                (0..12).for_each(|i| values.extend(image.iter().map(|value| value + i as f32 / 50.0)));
                Batch::Images { values: &values, height: shape[2], width: shape[3] }
            }
            _ => {
                let (ids, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
                (0..12).for_each(|by| {
                    tokens.extend(
                        (0..ids.len()).map(|i| ids[(i / shape[1] * shape[1] + (i + by) % shape[1]) % ids.len()]),
                    )
                });
                Batch::Tokens { tokens: &tokens, length: shape[1] }
            }
        };
        let sites: Vec<SiteId> = (0..network.sites().len() as u32).map(SiteId).collect();
        let run = |threads: usize| {
            let context = context(threads);
            let mut capture = Capture::new(&sites);
            let state = context.install(|| {
                let mut state = network.begin(&batch, &context).unwrap();
                network.run(0..network.stages(), &mut state, &mut capture, &context).map(|()| state)
            });
            let seen: Vec<Vec<f32>> = capture.seen.into_iter().map(|(_, _, rows)| rows).collect();
            assert_eq!(seen.len(), sites.len(), "{name}: sites that are not visited");
            (state.unwrap().values, seen)
        };
        let one = run(1);
        assert!([2, 7].iter().all(|threads| run(*threads) == one), "{name} {tower:?}");
        if let Some(language) = network.clone().language() {
            let one = logits(&*language, batch, 1);
            assert!([2, 7].iter().all(|threads| logits(&*language, batch, *threads) == one), "{name}");
        }
    }
}

#[test]
fn bert_and_minilm() {
    let network = network("bert");
    let directory = golden("networks/bert");
    let (tokens, shape) = integers(&directory.join("input_ids.npy"));
    let (mask, _) = integers(&directory.join("attention_mask.npy"));
    let expected = Expected::of("bert");
    let weights = tensors(&directory.join("model.safetensors"));
    let weight = |end: &str| &weights.iter().find(|(name, _)| name.ends_with(end)).unwrap().1.values;
    for (row, (tokens, mask)) in tokens.chunks(shape[1]).zip(mask.chunks(shape[1])).enumerate() {
        // Without padding: a text by itself.
        let length = mask.iter().sum::<u32>() as usize;
        let tokens: Vec<u32> =
            tokens.iter().zip(mask).filter(|(_, mask)| **mask == 1).map(|(token, _)| *token).collect();
        assert!(mask[..length].iter().all(|mask| *mask == 1));
        let batch = Batch::Tokens { tokens: &tokens, length };
        let sites = [
            ("hidden.0", "blocks.0.hook_resid_pre"),
            ("hidden.1", "encoder.layer.0"),
            ("hidden.2", "encoder.layer.1"),
            ("hidden.3", "blocks.2.hook_normalized_resid_post"),
            ("block.1.attn_z", "blocks.1.attn.hook_z"),
            ("block.1.attn_out_after_norm", "encoder.layer.1.attention"),
            ("block.1.mlp_act", "encoder.layer.1.intermediate"),
            ("mean_pooled", "pooled"),
            ("sentence_embedding", "sentence_embedding"),
        ];
        for (value, site) in sites {
            let tensor = expected.get(value);
            let per_row = tensor.values.len() / shape[0];
            let width = *tensor.shape.last().unwrap();
            let wanted =
                &tensor.values[row * per_row..][..if tensor.shape.len() == 3 { length * width } else { width }];
            assert_close(&format!("bert {value}, text {row}"), &at_site(&*network, batch, site, 2), wanted);
        }
        // The pooler is not a part of the network; it reads the class token of the last site.
        let class = at_site(&*network, batch, "encoder.layer.2", 2);
        let lines = weight("pooler.dense.weight").chunks_exact(18).zip(weight("pooler.dense.bias"));
        let unit =
            |(line, bias): (&[f32], &f32)| (line.iter().zip(&class).map(|(a, b)| a * b).sum::<f32>() + bias).tanh();
        let pooler = &expected.get("cls_pooler").values[18 * row..][..18];
        assert_close("bert cls_pooler", &lines.map(unit).collect::<Vec<f32>>(), pooler);
    }
    expected.finish();
}

/// Runs a network on the images of a file and compares sites.
fn images(name: &str, file: &str, expected: &Expected, sites: &[(&str, &str)]) {
    let network = network(name);
    let directory = golden("networks").join(name);
    let (values, shape) = floats(&directory.join(file));
    let values = channels_last(&values, &shape);
    let batch = Batch::Images { values: &values, height: shape[2], width: shape[3] };
    for (value, site) in sites {
        assert_close(&format!("{name} {value}"), &at_site(&*network, batch, site, 2), &expected.get(value).values);
    }
}

#[test]
fn vision_transformers() {
    let common = [
        ("hidden.0", "blocks.0.hook_resid_pre"),
        ("hidden.1", "blocks.0"),
        ("hidden.2", "blocks.1"),
        ("final_norm", "norm"),
        ("logits", "head"),
    ];
    let expected = Expected::of("vit_timm");
    images("vit_timm", "pixel_values.npy", &expected, &common);
    images(
        "vit_timm",
        "pixel_values.npy",
        &expected,
        &[
            ("block.1.attn_z", "blocks.1.attn.hook_z"),
            ("block.1.attn_out", "blocks.1.attn"),
            ("block.1.mlp_fc1", "blocks.1.mlp.fc1"),
            ("block.1.mlp_out", "blocks.1.mlp"),
        ],
    );
    expected.finish();
    let expected = Expected::of("vit_clip_timm");
    images("vit_clip_timm", "pixel_values.npy", &expected, &common);
    expected.finish();
    let expected = Expected::of("dinov2_registers");
    images(
        "dinov2_registers",
        "pixel_values.npy",
        &expected,
        &[
            ("hidden.0", "blocks.0.hook_resid_pre"),
            ("hidden.1", "encoder.layer.0"),
            ("block.1.attn_out_before_layer_scale", "encoder.layer.1.attention"),
            ("block.1.mlp_out_before_layer_scale", "encoder.layer.1.mlp"),
            ("hidden.2", "encoder.layer.1"),
            ("hidden.3", "encoder.layer.2"),
            ("final_norm", "layernorm"),
            ("cls", "pooled"),
        ],
    );
    let larger = [("larger.hidden.0", "blocks.0.hook_resid_pre"), ("larger.final_norm", "layernorm")];
    images("dinov2_registers", "pixel_values_larger.npy", &expected, &larger);
    expected.finish();
}

#[test]
fn clip_towers() {
    let expected = Expected::of("clip");
    images(
        "clip",
        "pixel_values.npy",
        &expected,
        &[
            ("vision.hidden.0", "blocks.0.hook_resid_pre"),
            ("vision.hidden.1", "vision_model.encoder.layers.0"),
            ("vision.block.1.attn_out", "vision_model.encoder.layers.1.self_attn"),
            ("vision.block.1.mlp_out", "vision_model.encoder.layers.1.mlp"),
            ("vision.hidden.2", "blocks.1.hook_resid_post"),
            ("vision.pooled", "pooled"),
            ("image_projected", "visual_projection"),
        ],
    );
    let directory = golden("networks/clip");
    let network = open(&directory, Tower::Text, &Budget::new(1 << 30)).unwrap();
    let (tokens, shape) = integers(&directory.join("input_ids.npy"));
    let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
    let sites = [
        ("text.hidden.0", "blocks.0.hook_resid_pre"),
        ("text.hidden.1", "text_model.encoder.layers.0"),
        ("text.hidden.2", "blocks.1.hook_resid_post"),
        ("text_projected", "text_projection"),
    ];
    let (mask, _) = integers(&directory.join("attention_mask.npy"));
    for (value, site) in sites {
        // Rows of padding are not compared: the mask changes them, and nothing reads them.
        let (found, wanted) = (at_site(&*network, batch, site, 2), &expected.get(value).values);
        let width = wanted.len() / if value == "text_projected" { shape[0] } else { mask.len() };
        let kept = |row: usize| value == "text_projected" || mask[row] == 1;
        let rows = |values: &[f32]| -> Vec<f32> {
            values.chunks(width).enumerate().filter(|(row, _)| kept(*row)).flat_map(|(_, row)| row).copied().collect()
        };
        assert_close(&format!("clip {value}"), &rows(&found), &rows(wanted));
    }
    // What CLIP does with the two projections: rows of length 1, and their products times a learned factor.
    let texts = unit_rows(&at_site(&*network, batch, "text_projection", 2), 14);
    assert_close("clip texts", &texts, &expected.get("text_embeds_normalised").values);
    let (pixels, shape) = floats(&directory.join("pixel_values.npy"));
    let pixels = channels_last(&pixels, &shape);
    let batch = Batch::Images { values: &pixels, height: shape[2], width: shape[3] };
    let pictures = open(&directory, Tower::Main, &Budget::new(1 << 30)).unwrap();
    let pictures = unit_rows(&at_site(&*pictures, batch, "visual_projection", 2), 14);
    assert_close("clip images", &pictures, &expected.get("image_embeds_normalised").values);
    let scale = tensors(&directory.join("model.safetensors"))["logit_scale"].values[0].exp();
    let product = |a: &[f32], b: &[f32]| scale * a.iter().zip(b).map(|(a, b)| a * b).sum::<f32>();
    let logits: Vec<f32> =
        pictures.chunks(14).flat_map(|image| texts.chunks(14).map(move |text| product(image, text))).collect();
    assert_close("clip logits", &logits, &expected.get("logits_per_image").values);
    expected.finish();
}

/// Rows divided by their lengths.
fn unit_rows(rows: &[f32], width: usize) -> Vec<f32> {
    let unit = |row: &[f32]| -> Vec<f32> {
        let length = row.iter().map(|value| value * value).sum::<f32>().sqrt();
        row.iter().map(|value| value / length).collect()
    };
    rows.chunks_exact(width).flat_map(unit).collect()
}

#[test]
fn images_that_do_not_fit_and_texts_for_images_are_refused() {
    let vit = network("vit_timm");
    let context = context(1);
    let refused = |network: &dyn Network, batch: Batch<'_>| network.begin(&batch, &context).unwrap_err().to_string();
    let image = vec![0.0; 30 * 32 * 3];
    assert!(refused(&*vit, Batch::Images { values: &image, height: 30, width: 32 }).contains("multiples of 8"));
    assert!(refused(&*vit, Batch::Tokens { tokens: &[1], length: 1 }).contains("expected: images"));
    let llama = network("llama");
    assert!(refused(&*llama, Batch::Images { values: &image, height: 30, width: 32 }).contains("expected: texts"));
    assert!(refused(&*llama, Batch::Tokens { tokens: &[1, 96], length: 2 }).contains("numbers below 96"));
    assert!(refused(&*llama, Batch::Tokens { tokens: &[1; 65], length: 65 }).contains("at most 64 tokens"));
}

/// A name with N for numbers.
fn general(name: &str) -> String {
    let part = |part: &str| match part {
        _ if part.parse::<usize>().is_ok() => "N".to_string(),
        _ if part.strip_prefix("layer").is_some_and(|number| number.parse::<usize>().is_ok()) => "layerN".to_string(),
        _ => part.to_string(),
    };
    name.split('.').map(part).collect::<Vec<_>>().join(".")
}

#[test]
fn the_list_of_families_has_the_sites_of_their_networks() {
    let cards = family_cards();
    let named: Vec<&str> =
        cards.iter().flat_map(|card| card.names).copied().filter(|name| *name != "clip:text").collect();
    let (mut listed, mut all) = (named.clone(), families().collect::<Vec<_>>());
    listed.sort_unstable();
    all.sort_unstable();
    assert_eq!(listed, all);
    let others = [
        ("vit_timm", "vit (timm)", Tower::Main),
        ("dinov2_registers", "dinov2_with_registers", Tower::Main),
        ("clip", "clip", Tower::Main),
        ("clip", "clip:text", Tower::Text),
        ("bert", "bert", Tower::Main),
        ("resnet", "resnet", Tower::Main),
        ("efficientnet_lite", "efficientnet_lite", Tower::Main),
        ("alexnet_features", "alexnet", Tower::Main),
        ("vgg16_features", "vgg16", Tower::Main),
    ];
    let decoders = LANGUAGE.map(|name| (name, if name == "llama3_rope" { "llama" } else { name }, Tower::Main));
    for (folder, family, tower) in decoders.into_iter().chain(others) {
        let network = open(&golden("networks").join(folder), tower, &Budget::new(1 << 30)).unwrap();
        let card = cards.iter().find(|card| card.names.contains(&family)).unwrap();
        let features = family == "alexnet" || family == "vgg16";
        let describe = |site: &Site| (general(&site.name), site.rows.name(), site.before_activation && !features);
        let found: BTreeSet<_> = network.sites().iter().map(describe).collect();
        let mut wanted: BTreeSet<_> = card.sites.iter().map(describe).collect();
        // Elsewhere it is another name of the first stream.
        if family != "gpt2" && wanted.iter().any(|(name, ..)| name == "hook_embed") {
            assert_eq!(find_sites(network.sites(), "hook_embed").unwrap(), [SiteId(0)]);
            wanted.retain(|(name, ..)| name != "hook_embed");
        }
        // The last rows of networks of convolutions are of samples.
        let named = |sites: &BTreeSet<(String, &'static str, bool)>| -> BTreeSet<(String, bool)> {
            sites.iter().map(|(name, _, before)| (name.clone(), *before)).collect()
        };
        assert_eq!(named(&found), named(&wanted), "{folder}");
    }
}
