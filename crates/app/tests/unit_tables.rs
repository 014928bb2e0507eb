//! Units of networks of images: which layers are captured, and the tables that describe them.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod common;

use common::Sandbox;
use common::files::{npy, shape};

fn golden(name: &str) -> String {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name).display().to_string()
}

/// A directory with eight images of 32 × 32 pixels.
fn with_images() -> Sandbox {
    let sandbox = Sandbox::new();
    let pixel = |index: usize| (index * 37 % 251 + index / 3072 * 11) as u8;
    let bytes = npy("|u1", false, &shape(&[8, 32, 32, 3]), &(0..8 * 3072).map(pixel).collect::<Vec<u8>>());
    sandbox.write("images.npy", bytes);
    sandbox
}

#[test]
fn units_of_golden_networks() {
    let sandbox = with_images();
    // By the shapes of their weights: 19 convolutions and their norms; two blocks of 24 + 72 + 24 + 24 + 48 + 24 units.
    for (network, choice, layers, units) in [
        ("resnet", "units", 38, 632),
        ("vit_timm", "units", 16, 432),
        ("vit_timm", "units:attention_linear", 8, 192),
        ("vit_timm", "units:imi", 10, 288),
    ] {
        let out = format!("{network}-{}", choice.replace(':', "-"));
        let model = golden(&format!("networks/{network}"));
        let command = format!("capture --model {model} --input images.npy --site {choice} --rows mean --out {out}");
        let said = sandbox.done(&command);
        let choice = choice.split_once(':').map_or("all", |(_, choice)| choice);
        let note = format!("{units} units of {layers} layers (`units:{choice}`)");
        assert!(said.err.contains(&note), "{network} {choice}: {}", said.err);
        let tables = sandbox.files(&format!("{out}/units"));
        assert_eq!(tables.len(), layers, "{network} {choice}: {tables:?}");
        let lines: usize =
            tables.iter().map(|name| sandbox.read(&format!("{out}/units/{name}")).lines().count() - 1).sum();
        assert_eq!(lines, units, "{network} {choice}");
    }
    let table = sandbox.read("resnet-units/units/layer4.0.downsample.1.csv");
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[0], "id,model,layer,type,depth,width,channel");
    assert!(lines[40].starts_with("layer4.0.downsample.1:39,"), "{}", lines[40]);
    assert!(lines[40].ends_with(",layer4.0.downsample.1,BatchNorm,1,40,39"), "{}", lines[40]);
    // The table is what `mis` reads.
    let store = |layer: &str| format!("resnet-units/sites/{layer}");
    let said = sandbox.done(&format!(
        "eval mis --embeddings {} --units resnet-units/units/layer1.0.conv1.csv --similarity {} --tasks 1 --explanations 1 --json",
        store("layer1.0.conv1"),
        store("layer4.0.conv3"),
    ));
    assert!(said.out.contains("layer1.0.conv1"), "{}", said.out);
}

#[test]
fn wrong_choices_are_refused() {
    let sandbox = with_images();
    sandbox.write("t.jsonl", "{\"text\": \"a\"}\n");
    for (network, options, says) in [
        ("resnet", "--input images.npy --site units", "`--rows mean`"),
        ("resnet", "--input images.npy --site units:some --rows mean", "attention_linear"),
        ("resnet", "--input images.npy --site units:imi --rows mean", "no such units"),
        ("llama", "--input t.jsonl --site units --rows mean", "no such units"),
    ] {
        let model = golden(&format!("networks/{network}"));
        let said = sandbox.run(&format!("capture --model {model} {options} --out x"));
        assert!(said.code == Some(2) && said.err.contains(says), "{options}: {:?} {}", said.code, said.err);
    }
}
