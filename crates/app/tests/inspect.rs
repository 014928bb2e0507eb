//! `etalon inspect`, and edits of latents in `etalon generate`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::everything::{SITE, make_model};
use common::files::npy_f32;
use common::{Sandbox, TIME_LIMIT, etalon, finish};

fn captured() -> Sandbox {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 40);
    sandbox.done(&format!("capture --model model --input texts.jsonl --site {SITE} --context 16 --pack --out own"));
    let store = format!("--store own/sites/{SITE}");
    sandbox.done(&format!("train {store} --arch topk --latents 32 --k 4 --steps 20 --batch 64 --out sae"));
    sandbox.done(&format!("encode --sae sae {store} --out z"));
    sandbox
}

#[test]
fn everything_that_is_written_or_read_is_described() {
    let sandbox = captured();
    let store = format!("own/sites/{SITE}");
    for (name, kind, parts) in [
        ("own", "capture", &["model: model", "context 16", SITE][..]),
        (store.as_str(), "activations", &["rows per sample", "lengths: median"]),
        ("sae", "dictionary", &["latents: 32", "active latents per row: 4"]),
        ("z", "codes", &["latents: 32", "active latents per row"]),
        ("model", "network", &["family: llama", "chat template: no", "beginning of text: <s>"]),
    ] {
        let output = sandbox.done(&format!("inspect {name}"));
        assert!(output.out.starts_with(&format!("{kind}: {name}\n")), "{output:#?}");
        parts.iter().for_each(|part| assert!(output.out.contains(part), "{part}: {output:#?}"));
        let json = sandbox.done(&format!("inspect {name} --json")).json();
        assert_eq!((json["kind"].as_str(), json["warnings"].is_array()), (Some(kind), true));
    }
    // The same rows twice, one of them fifty times as long.
    let mut values: Vec<f32> = (0..40).map(|i| ((i * 7) % 11) as f32 - 5.0).collect();
    values[36..].iter_mut().for_each(|value| *value *= 50.0);
    sandbox.write("x.npy", npy_f32(&[10, 4], &values));
    let output = sandbox.done("inspect x.npy");
    assert!(output.out.contains("1 of 10 rows are more than 10 times as long"), "{output:#?}");
    values[3] = f32::NAN;
    sandbox.write("x.npy", npy_f32(&[10, 4], &values));
    let output = sandbox.run("inspect x.npy");
    assert!(output.out.contains("warning: ") || output.code == Some(2), "{output:#?}");
}

#[test]
fn what_is_nothing_is_refused() {
    let sandbox = Sandbox::with_inputs();
    for name in ["labels.csv", ".", "nowhere", "no/where"] {
        let output = sandbox.run(&format!("inspect {name}"));
        assert!(
            output.code == Some(2) && output.out.is_empty() && output.err.contains("help: "),
            "{name}: {output:#?}"
        );
    }
}

#[test]
fn latents_are_edited_while_a_text_is_generated() {
    let sandbox = captured();
    let generate = |options: &str| {
        let mut arguments = vec!["generate", "--model", "model", "w5 w6 w7", "--tokens", "8"];
        arguments.extend(options.split_whitespace());
        finish(etalon(&sandbox.path("."), &arguments), TIME_LIMIT)
    };
    let plain = generate("");
    let patch = format!("--sae sae --site {SITE} --latent 3");
    // A factor of 1 changes nothing, a large code does.
    assert_eq!(generate(&format!("{patch} --edit scale --strength 1")).out, plain.out);
    let set = generate(&format!("{patch} --edit set --strength 100"));
    assert!(set.code == Some(0) && set.out != plain.out, "{set:#?} {plain:#?}");
    assert_eq!(generate(&format!("{patch} --edit scale --strength 0")).code, Some(0));
    assert_eq!(generate(&patch).code, Some(0));
    let output = generate(&format!("--sae sae --site {SITE} --latent 32 --edit set"));
    assert!(
        output.code == Some(2) && output.err.contains("no such latent") && output.err.contains("less than 32"),
        "{output:#?}"
    );
    assert_eq!(generate("--edit set").code, Some(2));
}

#[test]
fn models_lists_families_with_their_sites_and_distances() {
    let sandbox = Sandbox::new();
    make_model(&sandbox, 1);
    let text = sandbox.done("models").out;
    for part in [
        "llama, mistral, qwen2, qwen3: language models",
        "  blocks.N.ln1.hook_normalized ",
        "model.layers.N.mlp",
        "resnet: network of convolutions",
        "lpips",
        "dists",
        "dreamsim",
        "GGUF",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let pre = |text: &str, site: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{site} "))).unwrap();
        line.contains("pre-activation")
    };
    assert!(pre(&text, "blocks.N.mlp.hook_pre") && pre(&text, "layerN.N.sum") && !pre(&text, "blocks.N.mlp.hook_post"));
    let json = sandbox.done("models --json").json();
    let groups = json["groups"].as_array().unwrap();
    let resnet = groups.iter().find(|group| group["families"][0] == "resnet").unwrap();
    let site = resnet["sites"].as_array().unwrap().iter().find(|site| site["name"] == "layerN.N.bn1").unwrap();
    assert_eq!((site["before_activation"].as_bool(), site.get("width")), (Some(true), None));
    assert!(json["families"].as_array().unwrap().iter().any(|name| name == "efficientnet_lite"));
    assert_eq!(json["measures"].as_array().unwrap().len(), 4);
    // Of a network.
    let text = sandbox.done("models model").out;
    assert!(pre(&text, "blocks.1.mlp.hook_pre") && !pre(&text, "blocks.1.hook_resid_post"), "{text}");
    let refused = sandbox.run("models model --site hook_pos_embed");
    assert!(refused.code == Some(2) && refused.err.contains("embeddings of positions"), "{refused:#?}");
}
