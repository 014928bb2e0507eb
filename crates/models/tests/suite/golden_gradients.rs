//! Gradients through frozen blocks, against finite differences of the loss.

use etalon::context::Budget;
use etalon::network::{Batch, LanguageModel, Network, State, Untouched};
use etalon_models::open_language;

use crate::{LANGUAGE, context, golden};

/// The mean loss of the next token, in double precision.
fn loss(network: &dyn LanguageModel, state: &State, targets: &[Option<u32>]) -> f64 {
    let vocabulary = network.card().vocabulary;
    let rows = targets.len();
    let mut out = vec![0.0; rows * vocabulary];
    network.logits(state, 0..rows, &mut out).unwrap();
    let losses = out.chunks(vocabulary).zip(targets).filter_map(|(logits, target)| {
        let most = logits.iter().copied().fold(f32::MIN, f32::max);
        let total: f64 = logits.iter().map(|value| f64::from(value - most).exp()).sum();
        target.map(|target| total.ln() + f64::from(most) - f64::from(logits[target as usize]))
    });
    let losses: Vec<f64> = losses.collect();
    losses.iter().sum::<f64>() / losses.len() as f64
}

#[test]
fn gradients_agree_with_differences() {
    for name in ["llama", "gpt2", "gpt_neox", "gemma2", "gemma3", "qwen2", "qwen3"] {
        let network = open_language(&golden("networks").join(name), &Budget::new(1 << 30)).unwrap();
        let context = context(2);
        let (length, vocabulary) = (9, network.card().vocabulary as u32);
        let tokens: Vec<u32> = (0..2 * length as u32).map(|i| (i * 7919 + 3) % vocabulary).collect();
        let targets: Vec<Option<u32>> = (0..tokens.len())
            .map(|row| (row % length != length - 1).then(|| tokens[(row + 1) % tokens.len()]))
            .collect();
        let from = 1;
        let mut start = network.begin(&Batch::Tokens { tokens: &tokens, length }, &context).unwrap();
        network.run(0..from, &mut start, &mut Untouched, &context).unwrap();
        let mut state = start.fork(&context).unwrap();
        let kept = network.run_kept(from..network.stages(), &mut state, &mut Untouched, &context).unwrap();
        let (mut gradient, losses) = network.loss_gradient(&state, &targets, &context).unwrap();
        let mean = losses.iter().map(|loss| f64::from(*loss)).sum::<f64>() / losses.len() as f64;
        assert!((mean - loss(&*network, &state, &targets)).abs() < 1e-5, "{name}");
        network.backward(&kept, &mut gradient, &context).unwrap();
        // Along a few directions: the slope of the loss is the product of gradient and direction.
        for seed in 1..5 {
            let direction: Vec<f32> =
                (0..start.values.len()).map(|i| ((i * 7919 * seed + seed * 31) % 1013) as f32 / 506.0 - 1.0).collect();
            let at = |by: f32| {
                let mut state = start.fork(&context).unwrap();
                state.values.iter_mut().zip(&direction).for_each(|(value, d)| *value += by * d);
                network.run(from..network.stages(), &mut state, &mut Untouched, &context).unwrap();
                loss(&*network, &state, &targets)
            };
            let h = 2e-3;
            let difference = (at(h) - at(-h)) / (2.0 * f64::from(h));
            let product: f64 = gradient.iter().zip(&direction).map(|(g, d)| f64::from(*g) * f64::from(*d)).sum();
            let size: f64 = gradient.iter().map(|g| f64::from(*g).powi(2)).sum::<f64>().sqrt();
            assert!(
                (product - difference).abs() < 1e-2 * size + 2e-3 * difference.abs(),
                "{name}: {product} {difference}"
            );
        }
    }
}

/// What was kept of the blocks depends on the memory; neither that nor the number of threads changes a bit.
#[test]
fn threads_do_not_change_bits() {
    for name in LANGUAGE {
        let network = open_language(&golden("networks").join(name), &Budget::new(1 << 30)).unwrap();
        let (length, vocabulary) = (network.card().context.min(31), network.card().vocabulary as u32);
        // More rows than one task processes.
        let tokens: Vec<u32> = (0..14 * length as u32).map(|i| (i * 7919 + 3) % vocabulary).collect();
        let targets: Vec<Option<u32>> = (0..tokens.len())
            .map(|row| (row % length != length - 1).then(|| tokens[(row + 1) % tokens.len()]))
            .collect();
        let gradient = |threads: usize| {
            let context = context(threads);
            context.install(|| {
                let mut state = network.begin(&Batch::Tokens { tokens: &tokens, length }, &context).unwrap();
                let kept = network.run_kept(0..network.stages(), &mut state, &mut Untouched, &context).unwrap();
                let (mut gradient, losses) = network.loss_gradient(&state, &targets, &context).unwrap();
                network.backward(&kept, &mut gradient, &context).unwrap();
                (gradient, losses)
            })
        };
        let one = gradient(1);
        assert!([2, 7].iter().all(|threads| gradient(*threads) == one), "{name}");
    }
}
