use serde_json::Map;

use super::*;
use crate::codes::{Codes, Latent};
use crate::context::Budget;
use crate::sae::activation::Activation;
use crate::sae::checkpoint;
use crate::sae::encode_store;
use crate::sae::linear::Parts;

fn budget() -> Budget {
    Budget::new(1 << 28)
}

fn make(name: &str, store: &ActivationStore, params: &BaselineParams<'_>) -> Result<Box<dyn Dictionary>> {
    find(name).unwrap().make(store, params, &Context::silent(2, 1 << 28)?)
}

fn encode(dictionary: &dyn Dictionary, store: &ActivationStore) -> Codes {
    encode_store(dictionary, store, &Context::silent(2, 1 << 28).unwrap()).unwrap()
}

fn linear(dictionary: &dyn Dictionary) -> &Linear {
    dictionary.downcast_ref().unwrap()
}

fn noise(rows: usize, width: usize) -> ActivationStore {
    let mut random = stream(5, "baseline test", 0);
    let value = |_| (etalon_kernel::random::unit(&mut random) as f32 - 0.5) * 4.0 + 1.0;
    ActivationStore::from_rows((0..rows * width).map(value).collect(), width).unwrap()
}

#[test]
fn random_codes_have_k_latents_in_every_row() {
    let codes = random_codes(50, 20, 4, 3).unwrap();
    assert!(codes.all().unwrap().iter().all(|(_, latents, _)| latents.len() == 4));
    assert_eq!(codes.id().unwrap(), random_codes(50, 20, 4, 3).unwrap().id().unwrap());
    assert_ne!(codes.id().unwrap(), random_codes(50, 20, 4, 4).unwrap().id().unwrap());
    assert_eq!(random_codes(2, 3, 3, 0).unwrap().entries(), 6);
    // The dictionary gives the same codes, whatever the rows contain and however they are chunked.
    let params = BaselineParams { latents: Some(20), k: Some(4), seed: 3, like: None };
    let dictionary = make("random", &noise(7, 5), &params).unwrap();
    assert_eq!(encode(&*dictionary, &noise(50, 5)).id().unwrap(), codes.id().unwrap());
    let other = make("random", &noise(7, 5), &BaselineParams { seed: 4, ..params }).unwrap();
    assert_ne!(other.id(), dictionary.id());
}

#[test]
fn identity_of_a_small_example() {
    let store = ActivationStore::from_rows(vec![1.0, -2.0, 0.0, 3.0], 2).unwrap();
    let dictionary = make("identity", &store, &BaselineParams::default()).unwrap();
    let codes = encode(&*dictionary, &store);
    assert_eq!(codes.all().unwrap().row(0), (&[0u32, 1][..], &[1.0f32, -2.0][..]));
    assert_eq!(codes.all().unwrap().row(1), (&[1u32][..], &[3.0f32][..]));
    let mut back = vec![0.0; 4];
    dictionary.decode(&codes.all().unwrap(), None, &mut back).unwrap();
    assert_eq!(back, [1.0, -2.0, 0.0, 3.0]);
}

#[test]
fn principal_components_of_a_small_example() {
    // Around (1, 2): ±(2, 2), ±(1, −1) / 2. Covariance of the four: (8.5, 7.5; 7.5, 8.5) / 4, so 4 along (1, 1)/√2 and
    // 1/4 along (1, −1)/√2.
    let rows = vec![3.0, 4.0, -1.0, 0.0, 1.5, 1.5, 0.5, 2.5];
    let store = ActivationStore::from_rows(rows.clone(), 2).unwrap();
    let dictionary = make("pca", &store, &BaselineParams::default()).unwrap();
    let half = 0.5f32.sqrt();
    let near = |found: &[f32], expected: &[f32]| found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(near(dictionary.direction(Latent(0)), &[half, half]));
    assert!(near(&linear(&*dictionary).parts().bias, &[1.0, 2.0]));
    let codes = encode(&*dictionary, &store);
    // (2, 2)·(1, 1)/√2 = 2√2, and −2√2 for the other.
    assert!((codes.all().unwrap().row(0).1[0] - 8f32.sqrt()).abs() < 1e-5);
    assert!((codes.all().unwrap().row(1).1[0] + 8f32.sqrt()).abs() < 1e-5);
    let mut back = vec![0.0; 8];
    dictionary.decode(&codes.all().unwrap(), None, &mut back).unwrap();
    assert!(near(&back, &rows), "{back:?}");
    // With k = 1 each row keeps the component of larger magnitude.
    let one = make("pca", &store, &BaselineParams { k: Some(1), ..BaselineParams::default() }).unwrap();
    let codes = encode(&*one, &store);
    let latents: Vec<u32> = codes.all().unwrap().iter().map(|(_, latents, _)| latents[0]).collect();
    assert_eq!((codes.entries(), latents), (4, vec![0, 0, 1, 1]));
}

#[test]
fn components_are_uncorrelated_with_descending_variance() {
    let (rows, width) = (2500, 20);
    let store = noise(rows, width);
    let whole = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| make("pca", &store, &BaselineParams { latents: Some(7), ..BaselineParams::default() })).unwrap()
    };
    let dictionary = whole(1);
    assert_eq!(dictionary.id(), whole(7).id());
    let codes = encode(&*dictionary, &store);
    // Components are uncorrelated and of descending variance.
    let mut products = [[0.0f64; 7]; 7];
    for (_, latents, values) in codes.all().unwrap().iter() {
        for (&a, &x) in latents.iter().zip(values) {
            for (&b, &y) in latents.iter().zip(values) {
                products[a as usize][b as usize] += f64::from(x) * f64::from(y) / rows as f64;
            }
        }
    }
    for a in 0..7 {
        assert!(a == 0 || products[a][a] <= products[a - 1][a - 1]);
        assert!((0..7).all(|b| a == b || products[a][b].abs() < 1e-4), "{products:?}");
    }
}

#[test]
fn nearest_centres_of_a_small_example() {
    // Two clusters, at (0, 0) and (100, 0); the centres are their means.
    let rows = vec![0.0, 1.0, 0.0, -1.0, 100.0, 2.0, 100.0, -2.0];
    let store = ActivationStore::from_rows(rows, 2).unwrap();
    let dictionary =
        make("kmeans", &store, &BaselineParams { latents: Some(2), seed: 1, ..BaselineParams::default() }).unwrap();
    let codes = encode(&*dictionary, &store);
    let all = codes.all().unwrap();
    assert!(all.iter().all(|(_, latents, values)| latents.len() == 1 && values == [1.0]));
    let mut back = vec![0.0; 8];
    dictionary.decode(&all, None, &mut back).unwrap();
    assert_eq!(back, [0.0, 0.0, 0.0, 0.0, 100.0, 0.0, 100.0, 0.0]);
    assert!(all.row(0).0 == all.row(1).0 && all.row(2).0 == all.row(3).0 && all.row(0).0 != all.row(2).0);
    // Rows far from both centres, where all scores are negative, and on both sides of the middle.
    let far = ActivationStore::from_rows(vec![50.5, 3000.0, 49.0, 0.0, 51.0, 0.0], 2).unwrap();
    let found = encode(&*dictionary, &far);
    assert_eq!(found.all().unwrap().row(0).0, all.row(2).0);
    assert_eq!(found.all().unwrap().row(1).0, all.row(0).0);
    assert_eq!(found.all().unwrap().row(2).0, all.row(2).0);
}

#[test]
fn untrained_has_the_sparsity_of_the_given_dictionary() {
    let store = noise(700, 12);
    let base = untrained(&store, 50, 5, 9).unwrap().parts();
    let like = |activation: Activation, bias: f32| {
        Linear::new(Parts { activation, encoder_bias: vec![bias; 50], ..base.clone() }).unwrap()
    };
    let gated =
        Activation::Gated { gate_bias: vec![-2.0; 50], magnitude_scale: vec![2.0; 50], magnitude_bias: vec![0.5; 50] };
    let trained = [
        like(Activation::Relu, -1.7),
        like(Activation::Threshold(vec![1.9; 50]), 0.0),
        like(gated, 0.0),
        like(Activation::TopK(6), 0.0),
        like(Activation::Signed, 0.0),
    ];
    for trained in &trained {
        let params = BaselineParams { seed: 1, like: Some(trained), ..BaselineParams::default() };
        let made = make("untrained", &store, &params).unwrap();
        let (expected, found) = (encode(trained, &store).entries(), encode(&*made, &store).entries());
        assert_eq!(expected, found, "{:?}", trained.activation());
        assert!(expected > 500, "the example has too few codes");
        assert_ne!(made.directions(), trained.directions());
        let kind = |dictionary: &Linear| std::mem::discriminant(dictionary.activation());
        assert_eq!(kind(linear(&*made)), kind(trained));
        let again = make("untrained", &store, &params).unwrap();
        assert_eq!(made.id(), again.id());
        assert_ne!(made.id(), make("untrained", &store, &BaselineParams { seed: 2, ..params }).unwrap().id());
    }
}

#[test]
fn baselines_can_be_saved_and_loaded() {
    let store = noise(40, 6);
    let directory = tempfile::tempdir().unwrap();
    for baseline in BASELINES {
        let name = baseline.card().name;
        let sized = ["untrained", "random", "kmeans"].contains(&name);
        let params =
            BaselineParams { latents: sized.then_some(9), k: (name == "untrained").then_some(2), seed: 7, like: None };
        let params = if name == "random" || name == "pca" { BaselineParams { k: Some(3), ..params } } else { params };
        let made = make(name, &store, &params).unwrap();
        let path = directory.path().join(name);
        checkpoint::save(&*made, &Map::new(), "etalon", &path).unwrap();
        let loaded = checkpoint::load(&path, &budget()).unwrap().dictionary;
        assert_eq!((loaded.id(), loaded.card()), (made.id(), made.card()), "{name}");
        assert_eq!(encode(&*loaded, &store).id().unwrap(), encode(&*made, &store).id().unwrap(), "{name}");
        let other = checkpoint::save(&*made, &Map::new(), "saelens", &directory.path().join(format!("{name}-saelens")));
        assert_eq!(other.is_ok(), name == "untrained", "{name}");
        assert!(!baseline.card().to_text().is_empty());
    }
}

#[test]
fn invalid_parameters_are_refused() {
    let store = noise(10, 4);
    let empty = ActivationStore::from_rows(Vec::new(), 4).unwrap();
    let constant = ActivationStore::from_rows([0.1, 0.2, 0.3, 0.4].repeat(5), 4).unwrap();
    let params = |latents: usize| BaselineParams { latents: Some(latents), ..BaselineParams::default() };
    let why = |name: &str, store: &ActivationStore, params: &BaselineParams<'_>| match make(name, store, params) {
        Ok(_) => panic!("`{name}` was made with {params:?}"),
        Err(error) => error.to_string(),
    };
    assert!(why("pca", &store, &params(5)).contains("from 1 to 4"));
    assert!(why("pca", &store, &params(0)).contains("from 1 to 4"));
    assert!(why("pca", &store, &BaselineParams { k: Some(5), ..BaselineParams::default() }).contains("active"));
    assert!(why("pca", &empty, &BaselineParams::default()).contains("no rows"));
    assert!(why("pca", &constant, &BaselineParams::default()).contains("all rows are the same"));
    assert!(why("kmeans", &store, &params(11)).contains("more centres than rows"));
    assert!(why("kmeans", &empty, &params(2)).contains("no rows"));
    assert!(why("kmeans", &store, &BaselineParams::default()).contains("`latents`"));
    assert!(why("kmeans", &store, &BaselineParams { k: Some(2), ..params(3) }).contains("`k`"));
    for name in ["untrained", "random"] {
        assert!(why(name, &store, &BaselineParams { k: Some(9), ..params(8) }).contains("k from 1 to 8"));
        assert!(why(name, &store, &BaselineParams { k: Some(0), ..params(8) }).contains("k from 1 to 8"));
        assert!(why(name, &store, &BaselineParams { k: Some(1), ..params(1 << 40) }).contains("latents"));
        assert!(why(name, &store, &BaselineParams::default()).contains("`latents`"));
    }
    assert!(why("untrained", &empty, &params(8)).contains("no rows"));
    assert!(why("identity", &store, &params(5)).contains("`latents`"));
    let narrow = untrained(&noise(5, 3), 8, 2, 0).unwrap();
    let like = BaselineParams { like: Some(&narrow), ..BaselineParams::default() };
    assert!(why("untrained", &store, &like).contains("another width"));
    assert!(why("untrained", &store, &BaselineParams { latents: Some(3), ..like }).contains("`latents`"));
    let drawn = make("random", &store, &BaselineParams { k: Some(2), ..params(8) }).unwrap();
    assert!(
        why("untrained", &store, &BaselineParams { like: Some(&*drawn), ..BaselineParams::default() })
            .contains("random codes")
    );
    // Constant rows have a centre, and an untrained dictionary.
    let centre = make("kmeans", &constant, &params(2)).unwrap();
    assert_eq!(encode(&*centre, &constant).entries(), 5);
    assert!(make("untrained", &constant, &BaselineParams { k: Some(2), ..params(6) }).is_ok());
}
