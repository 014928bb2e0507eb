//! How long does a step of a large relaxed archetypal dictionary take, and how much memory? 32,000 latents of width 768 as
//! convex combinations of 4,000 candidates, top 32, batches of 1,024 rows, two threads.

use std::time::Instant;

use etalon::error::Result;
use etalon::sae::arch;
use etalon::sae::arch::params::CANDIDATES as CANDIDATE_POINTS;
use etalon::sae::train::{Preset, Trainer, TrainingSettings};
use etalon_bench::{BATCH, WIDTH, answer, batches, context};

const LATENTS: usize = 32_000;
const CANDIDATES: usize = 4_000;
const STEPS: usize = 5;

fn main() -> Result<()> {
    let preset = arch::find("ra_topk")?.settings(Preset::Blindspots, WIDTH, LATENTS);
    let settings = TrainingSettings { k: 32, batch: BATCH, warmup: 0, ..preset }.with(&CANDIDATE_POINTS, CANDIDATES);
    let pool = context(2)?;
    let mut best = f64::INFINITY;
    pool.install(|| -> Result<()> {
        let mut trainer = Trainer::new(settings)?;
        let data = batches(CANDIDATES.div_ceil(BATCH)).concat();
        trainer.give_candidates(&data[..CANDIDATES * WIDTH])?;
        for step in 0..STEPS {
            let batch = &data[step % 3 * BATCH * WIDTH..][..BATCH * WIDTH];
            let began = Instant::now();
            trainer.step(batch)?;
            best = best.min(began.elapsed().as_secs_f64());
        }
        Ok(())
    })?;
    answer(best, &[]);
    Ok(())
}
