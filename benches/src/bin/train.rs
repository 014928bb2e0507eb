//! How long does one training step take for D = 768, K = 32, batch 1,024, on two threads? Beside it the encoder product
//! alone. Argument: the number of latents. Plain Adam without clipping, as the dense PyTorch step of the peer does, and
//! once with clipping, as dictionary-learning does.

use etalon::error::Result;
use etalon_bench::{BATCH, Measure, WIDTH, batches, packed, product, size, trainer, turns};
use etalon_kernel::packed::Panels;

fn main() -> Result<()> {
    let latents = size()?;
    let step = |name: &str, clip: Option<f64>| -> Result<Measure> {
        let (mut trainer, data, mut step) = (trainer(name, latents, clip)?, batches(4), 0);
        Ok(Box::new(move || {
            step += 1;
            trainer.step(&data[step % data.len()]).map(drop)
        }))
    };
    turns(|name| match name {
        "product" => {
            let panels = Panels::pack(&batches(latents.div_ceil(BATCH)).concat()[..latents * WIDTH], WIDTH);
            let rows = packed(&batches(1)[0], WIDTH);
            Ok(Box::new(move || product(&panels, &rows, WIDTH)))
        }
        "topk clipped" => step("topk", Some(1.0)),
        other => step(other, None),
    })
}
