//! How much does everything around the encoder product cost? Encoding against the bare product of the same rows with
//! the same weights, one thread, best of several rounds.

use std::sync::atomic::AtomicBool;

use etalon::error::Result;
use etalon::kernel::panels::{PANEL, Panels, TILE_ROWS};
use etalon::progress::Silent;
use etalon::sae::{Activation, Linear, encode_store, encode_to_disk, untrained};
use etalon::store::ActivationStore;
use etalon_bench::{answer, embeddings};
use serde_json::json;

const ROUNDS: usize = 5;

/// The best of some runs, in seconds that the processor worked for us: other programs do not count.
fn best_seconds(mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let used = || {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let ticks = stat.rsplit(')').next().map(|rest| rest.split_whitespace().skip(11).take(2)).into_iter().flatten();
        ticks.filter_map(|ticks| ticks.parse::<f64>().ok()).sum::<f64>() / 100.0
    };
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let before = used();
        work()?;
        best = best.min(used() - before);
    }
    Ok(best)
}

/// Every tile of the product, in the order in which a dictionary makes them; nothing is kept.
fn product(panels: &Panels, store: &ActivationStore) -> Result<f32> {
    let (mut sum, mut out) = (0.0, [0.0; TILE_ROWS * PANEL]);
    let group = 8 * TILE_ROWS;
    for first in (0..store.rows()).step_by(group) {
        let tile = store.tile(first..(first + group).min(store.rows()))?;
        for panel in 0..panels.panels() {
            for rows in tile.values.chunks_exact(TILE_ROWS * store.width()) {
                panels.product(rows, panel, &mut out);
                sum += out[0];
            }
        }
    }
    Ok(sum)
}

fn main() -> Result<()> {
    let cancel = AtomicBool::new(false);
    let directory = std::env::temp_dir().join(format!("etalon-bench-{}", std::process::id()));
    let pool = etalon::run::Engine::new(1, etalon::budget::Budget::of_machine(), &Silent, &cancel)?;
    for (rows, width, latents) in [(1920, 768, 16_384), (9600, 384, 4096), (19_200, 128, 2048)] {
        let store = embeddings(rows, width)?;
        let top = untrained(&store, latents, 32, 0)?;
        let panels = Panels::pack(&top.parts().encoder, width);
        let mut checksum = 0.0;
        let alone = best_seconds(|| {
            checksum = product(&panels, &store)?;
            Ok(())
        })?;
        let shape = json!({"rows": rows, "width": width, "latents": latents, "checksum": checksum});
        let mut extra = vec![("shape", shape), ("product", json!(alone))];
        let mut total = 0.0;
        let mut relu = top.parts();
        // A threshold that about one latent in two hundred passes.
        relu.activation = Activation::Threshold(vec![0.85; latents]);
        for (name, dictionary) in [("topk", &top), ("threshold", &Linear::new(relu)?)] {
            let seconds =
                best_seconds(|| pool.install(|| encode_store(dictionary, &store, &Silent, &cancel)).map(drop))?;
            let codes = pool.install(|| encode_store(dictionary, &store, &Silent, &cancel))?;
            let l0 = codes.entries() as f64 / rows as f64;
            let mut round = 0;
            let disk = best_seconds(|| {
                round += 1;
                let out = directory.join(format!("{name}-{latents}-{round}"));
                pool.install(|| encode_to_disk(dictionary, &store, &out, None, &Silent, &cancel)).map(drop)
            })?;
            total += seconds;
            extra.push((name, json!({"speed": alone / seconds, "to disk": alone / disk, "l0": l0})));
        }
        answer(total, &extra);
    }
    std::fs::remove_dir_all(&directory).map_err(etalon::error::Error::io("remove a directory", &directory))
}
