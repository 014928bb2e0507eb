//! Networks with weights drawn anew.

use etalon::context::Budget;
use etalon::network::Batch;
use etalon::store::ActivationStore;
use etalon_models::weights::{Model, NetworkOptions};
use etalon_models::{CaptureRequest, CaptureSettings, RowChoice, Tower, capture, open, open_with};

use crate::{at_site, context, golden};

/// Activations of a network at a site, for a small image.
fn activations(name: &str, site: &str, seed: Option<u64>, threads: usize) -> (Vec<f32>, String) {
    let options = NetworkOptions { randomise: seed, ..NetworkOptions::default() };
    let network = open_with(&golden(name), Tower::Main, options, &Budget::new(1 << 30)).unwrap();
    let side = network.card().context;
    let values: Vec<f32> = (0..side * side * 3).map(|i| ((i * 31) % 17) as f32 / 17.0).collect();
    let batch = Batch::Images { values: &values, height: side, width: side };
    (at_site(&*network, batch, site, threads), network.card().id.clone())
}

#[test]
fn the_seed_decides_the_activations_and_the_identity() {
    for (name, site) in [("networks/vit_timm", "blocks.1"), ("networks/resnet", "layer1.0")] {
        let trained = activations(name, site, None, 2);
        let first = activations(name, site, Some(0), 1);
        assert!(first == activations(name, site, Some(0), 7), "{name}");
        let second = activations(name, site, Some(1), 2);
        for (a, b) in [(&trained, &first), (&trained, &second), (&first, &second)] {
            assert!(a.0 != b.0 && a.1 != b.1, "{name}");
        }
        assert!(first.0.iter().all(|value| value.is_finite()), "{name}");
    }
    let budget = Budget::new(1 << 30);
    let options = NetworkOptions { randomise: Some(4), ..NetworkOptions::default() };
    let card = open_with(&golden("networks/llama"), Tower::Main, options, &budget).unwrap().card().clone();
    assert!(card.weights.ends_with("weights drawn anew with seed 4"), "{}", card.weights);
    assert_ne!(card.id, open(&golden("networks/llama"), Tower::Main, &budget).unwrap().card().id);
}

#[test]
fn matrices_are_drawn_and_norms_are_kept() {
    let budget = Budget::new(1 << 30);
    let [stored, drawn] = [None, Some(9)].map(|seed| {
        let model = Model::open(&golden("networks/gpt2"), &budget).unwrap();
        seed.map_or_else(|| Model::open(&golden("networks/gpt2"), &budget).unwrap(), |seed| model.randomised(seed))
    });
    let mut redrawn = 0;
    for name in stored.weights.names() {
        let shape = stored.weights.shape(name).unwrap();
        let [before, after] = [&stored, &drawn].map(|model| model.weights.tensor(name, shape).unwrap());
        if shape.len() < 2 {
            assert_eq!(before, after, "{name}");
            continue;
        }
        redrawn += 1;
        let moments = |values: &[f32]| {
            let count = values.len() as f64;
            let mean = values.iter().map(|v| f64::from(*v)).sum::<f64>() / count;
            (mean, (values.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / count).sqrt())
        };
        let ((mean, deviation), (new_mean, new_deviation)) = (moments(&before), moments(&after));
        let error = 5.0 * deviation / (before.len() as f64).sqrt();
        assert!(before != after || deviation == 0.0, "{name}");
        assert!((mean - new_mean).abs() <= error && (deviation - new_deviation).abs() <= error, "{name}");
    }
    assert!(redrawn > 4);
}

#[test]
fn a_capture_says_which_weights_it_used() {
    let work = tempfile::tempdir().unwrap();
    let folder = work.path().join("images");
    std::fs::create_dir(&folder).unwrap();
    image::RgbImage::from_pixel(40, 36, image::Rgb([90, 80, 160])).save(folder.join("a.png")).unwrap();
    let captured = |randomise: Option<u64>, out: &str| {
        let request = CaptureRequest {
            model: golden("networks/vit_timm").display().to_string(),
            input: folder.display().to_string(),
            sites: "blocks.1".into(),
            settings: CaptureSettings { rows: RowChoice::Class, randomise, ..CaptureSettings::default() },
            ..CaptureRequest::default()
        };
        let captured = capture(&request, &work.path().join(out), &context(2));
        captured.map(|captured| ActivationStore::open(&captured.stores[0].1).unwrap().id().unwrap())
    };
    let ids = [(None, "a"), (Some(0), "b"), (Some(1), "c")].map(|(seed, out)| captured(seed, out).unwrap());
    assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2]);
    assert_eq!(captured(Some(0), "d").unwrap(), ids[1]);
    assert!(captured(None, "b").unwrap_err().to_string().contains("another capture"));
    let about = std::fs::read_to_string(work.path().join("c/capture.json")).unwrap();
    assert!(about.contains("\"randomise\": 1"), "{about}");
}
