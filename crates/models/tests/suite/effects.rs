//! Effects of directions on logits, against the networks themselves: rows that are set to a direction and to its negative differ
//! in their logits by twice the effect, divided by the size of the direction.

use std::collections::BTreeMap;
use std::sync::Arc;

use etalon::context::Budget;
use etalon::metrics::{evaluate, find, recipe};
use etalon::network::{
    Batch, Capture, Edit, LanguageModel, Network, NumberTokenizer, Pair, Patch, SiteId, TextRun, find_sites,
};
use etalon::results::{Cells, Profile, Scores};
use etalon::run::{DIRECTIONS, Inputs, NETWORK};
use etalon::store::ActivationStore;
use etalon_kernel::random::{stream, unit};
use etalon_models::language::Decoder;
use etalon_models::open_language;

use crate::{LANGUAGE, assert_close, context, golden};

fn open(name: &str) -> Arc<Decoder> {
    open_language(&golden("networks").join(name), &Budget::new(1 << 30)).unwrap()
}

fn site(network: &Decoder, name: &str) -> SiteId {
    find_sites(network.sites(), name).unwrap()[0]
}

fn random(count: usize, name: &str) -> Vec<f32> {
    let mut random = stream(11, name, 0);
    (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect()
}

fn of_length_one(row: &[f32]) -> Vec<f32> {
    let length = row.iter().map(|v| v * v).sum::<f32>().sqrt();
    row.iter().map(|v| v / length).collect()
}

/// The logits of one token if the stream after the last block is this row.
fn logits_of_stream(network: &Decoder, row: Vec<f32>) -> Vec<f32> {
    let context = context(1);
    let last = site(network, &format!("blocks.{}.hook_resid_post", network.card().layers - 1));
    let mut state = network.begin(&Batch::Tokens { tokens: &[3], length: 1 }, &context).unwrap();
    network.run(0..network.stages(), &mut state, &mut Patch::new(last, Edit::Set(row)), &context).unwrap();
    let mut logits = vec![0.0; network.card().vocabulary];
    network.logits(&state, 0..1, &mut logits).unwrap();
    logits
}

fn scores(network: &Arc<Decoder>, site: SiteId, directions: &[f32], width: usize) -> Scores {
    let tokenizer = Arc::new(NumberTokenizer { size: network.card().vocabulary, bos: None });
    let run = TextRun { network: network.clone(), site, tokenizer, tokens: vec![], length: 0, special: vec![] };
    let directions = ActivationStore::from_rows(directions.to_vec(), width).unwrap();
    let inputs = Inputs::default().with(&NETWORK, run).with(&DIRECTIONS, directions);
    let metric = find("logit_effects").unwrap();
    let given = [("mask", "none"), ("shown", "1000"), ("null_directions", "2")];
    let given: BTreeMap<String, String> = given.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
    let recipe = recipe(metric, &inputs, &given, Profile::Paper, 0).unwrap();
    evaluate(metric, &inputs, &recipe, &context(2)).unwrap().scores
}

/// The effects of a latent on all tokens.
fn effects(scores: &Scores, latent: usize, vocabulary: usize) -> Vec<f32> {
    let table = scores.table("latent").unwrap();
    let (Some(Cells::WholeLists(tokens)), Some(Cells::NumberLists(values))) =
        (table.column("top_tokens"), table.column("top_values"))
    else {
        panic!("no lists of tokens");
    };
    let mut effects = vec![f32::NAN; vocabulary];
    for (token, value) in tokens[latent].iter().zip(&values[latent]) {
        effects[*token as usize] = value.unwrap() as f32;
    }
    effects
}

#[test]
fn effects_are_those_of_the_network() {
    for name in LANGUAGE {
        let network = open(name);
        let (width, vocabulary) = (network.card().width, network.card().vocabulary);
        let directions = random(5 * width, name);
        let scores = scores(&network, site(&network, "blocks.0.hook_resid_pre"), &directions, width);
        let cap = (name == "gemma2").then(|| {
            let config = std::fs::read_to_string(golden("networks/gemma2/config.json")).unwrap();
            let config: serde_json::Value = serde_json::from_str(&config).unwrap();
            config["final_logit_softcapping"].as_f64().unwrap()
        });
        let uncapped = |logit: f32| match cap {
            Some(cap) => cap * (f64::from(logit) / cap).atanh(),
            None => f64::from(logit),
        };
        for (latent, direction) in directions.chunks_exact(width).enumerate() {
            let direction = of_length_one(direction);
            // Long rows, next to which the small summand of a norm disappears.
            let row = |by: f32| direction.iter().map(|value| by * value).collect();
            let (plus, minus) = (logits_of_stream(&network, row(1e3)), logits_of_stream(&network, row(-1e3)));
            let size = network.last_norm().size(&direction);
            let expected: Vec<f32> = plus
                .iter()
                .zip(&minus)
                .map(|(plus, minus)| ((uncapped(*plus) - uncapped(*minus)) / 2.0 * size) as f32)
                .collect();
            assert_close(&format!("{name} {latent}"), &effects(&scores, latent, vocabulary), &expected);
        }
    }
}

/// What a site has after another one was set to a row.
fn after(network: &Decoder, set: SiteId, row: &[f32], seen: SiteId) -> Vec<f32> {
    let context = context(1);
    let (mut patch, mut capture) = (Patch::new(set, Edit::Set(row.to_vec())), Capture::new(&[seen]));
    let mut state = network.begin(&Batch::Tokens { tokens: &[3], length: 1 }, &context).unwrap();
    network.run(0..network.stages(), &mut state, &mut Pair(&mut patch, &mut capture), &context).unwrap();
    capture.of(seen).unwrap().1.to_vec()
}

#[test]
fn directions_in_front_of_the_stream_are_mapped_to_it() {
    for name in LANGUAGE {
        let network = open(name);
        let gemma = name.starts_with("gemma");
        for (inside, raw, out) in [
            ("blocks.1.attn.hook_z", "model.layers.1.self_attn", "blocks.1.hook_attn_out"),
            ("blocks.1.mlp.hook_post", "model.layers.1.mlp", "blocks.1.hook_mlp_out"),
        ] {
            let [inside, out] = [inside, out].map(|name| site(&network, name));
            let raw = if gemma { site(&network, raw) } else { out };
            let vector = random(network.sites()[inside.0 as usize].width, name);
            let zero = after(&network, inside, &vec![0.0; vector.len()], raw);
            let mapped: Vec<f32> =
                after(&network, inside, &vector, raw).iter().zip(&zero).map(|(a, b)| a - b).collect();
            let written = |site, vector: &[f32], factors| network.written(site, vector, factors).unwrap().unwrap();
            assert_close(name, &written(inside, &vector, false), &mapped);
            assert_close(name, &written(inside, &vector, true), &written(raw, &mapped, true));
            assert_eq!(written(out, &mapped, true), mapped);
            if gemma {
                let size = (mapped.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / mapped.len() as f64).sqrt();
                let long: Vec<f32> = mapped.iter().map(|value| 1e3 * value).collect();
                let normed: Vec<f32> =
                    after(&network, raw, &long, out).iter().map(|value| (f64::from(*value) * size) as f32).collect();
                assert_close(name, &written(raw, &mapped, true), &normed);
            }
        }
        assert_eq!(network.written(site(&network, "blocks.0.attn.hook_q"), &[0.0; 4], true).unwrap(), None);
        assert_eq!(network.written(site(&network, "ln_final.hook_normalized"), &[0.0; 4], true).unwrap(), None);
    }
}
