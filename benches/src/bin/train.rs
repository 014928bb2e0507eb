//! How long does one training step take for D = 768, K = 32, batch 1,024, with 4,096 and 16,384 latents, on two threads?
//! Plain Adam without clipping, as the dense PyTorch step of the peer does. Arguments: an architecture and a number of
//! latents, to measure one.

use std::time::Instant;

use etalon::error::Result;
use etalon::kernel::random::{index, stream, unit};
use etalon::sae::arch;
use etalon::sae::train::{Preset, Settings, Trainer};
use etalon_bench::answer;
use serde_json::json;

const WIDTH: usize = 768;
const BATCH: usize = 1024;
const STEPS: usize = 12;

/// Sums of twenty of 2,048 directions, and a little noise.
fn batches(count: usize) -> Vec<Vec<f32>> {
    let mut random = stream(0, "bench train", 0);
    let directions: Vec<f32> =
        (0..2048 * WIDTH).map(|_| (unit(&mut random) as f32 - 0.5) * (12.0 / WIDTH as f32).sqrt()).collect();
    (0..count)
        .map(|_| {
            let mut rows = vec![0.0; BATCH * WIDTH];
            for row in rows.chunks_exact_mut(WIDTH) {
                for _ in 0..20 {
                    let (which, weight) = (index(2048, &mut random), 1.0 + unit(&mut random) as f32);
                    let direction = &directions[which * WIDTH..][..WIDTH];
                    row.iter_mut().zip(direction).for_each(|(into, value)| *into += weight * value);
                }
                row.iter_mut().for_each(|value| *value += 0.02 * (unit(&mut random) as f32 - 0.5));
            }
            rows
        })
        .collect()
}

/// Median and best seconds of a step, after two that warm up.
fn measure(name: &str, latents: usize, clip: Option<f64>, data: &[Vec<f32>]) -> Result<(f64, f64)> {
    let settings = Settings {
        k: 32,
        batch: BATCH,
        rate: 1e-3,
        warmup: 0,
        clip,
        ..arch::find(name)?.settings(Preset::Etalon, WIDTH, latents)
    };
    let mut trainer = Trainer::new(settings)?;
    let mut seconds = Vec::new();
    for step in 0..STEPS + 2 {
        let began = Instant::now();
        trainer.step(&data[step % data.len()])?;
        seconds.push(began.elapsed().as_secs_f64());
    }
    let mut seconds = seconds.split_off(2);
    seconds.sort_by(f64::total_cmp);
    Ok((seconds[seconds.len() / 2], seconds[0]))
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let name = arguments.first().map_or("topk", String::as_str);
    let sizes = arguments.get(1).and_then(|text| text.parse().ok()).map_or(vec![4096, 16_384], |size| vec![size]);
    let clip = arguments.get(2).and_then(|text| text.parse().ok());
    let data = batches(4);
    let (mut extra, mut last) = (Vec::new(), 0.0);
    for latents in sizes {
        let (median, best) = measure(name, latents, clip, &data)?;
        extra.push((latents.to_string(), json!({"median_ms": median * 1e3, "best_ms": best * 1e3})));
        last = median;
    }
    let extra: Vec<(&str, serde_json::Value)> =
        extra.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
    answer(last, &extra);
    Ok(())
}
