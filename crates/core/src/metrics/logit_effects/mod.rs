//! `logit_effects`: which tokens a latent makes more and less probable by its direct path to the logits.

mod card;
mod effects;
mod moments;
mod numbers;
mod vocabulary;

use etalon_kernel::product::dot;
use etalon_kernel::random::stream;
use rand_distr::{Distribution, StandardNormal};

use self::effects::{BLOCK, DirectionEffects, Effects};
use super::{Card, Metric};
use crate::error::Result;
use crate::results::Scores;
use crate::run::{DIRECTIONS, Job, Work};

/// The metric.
pub struct LogitEffects;

impl Metric for LogitEffects {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let directions = job.get(&DIRECTIONS)?;
        let effects = Effects::new(job, directions.width())?;
        let tokens = work.once("tokens of the vocabulary", || effects.tokens())?;
        let size = effects.mean_size(work)?;
        let of_latents = work.blocks("blocks of latents", directions.rows().div_ceil(BLOCK), |block| {
            let rows = block * BLOCK..((block + 1) * BLOCK).min(directions.rows());
            let tile = directions.tile(rows)?;
            effects.of(&unit_rows(tile.values.to_vec(), directions.width()), &tokens, size)
        })?;
        let null = job.whole("null_directions")?;
        let of_null = work.blocks("blocks of random directions", null.div_ceil(BLOCK), |block| {
            let mut random = stream(job.seed, "logit_effects/null", block as u64);
            let count = BLOCK.min(null - block * BLOCK) * directions.width();
            let rows = (0..count).map(|_| StandardNormal.sample(&mut random)).collect();
            effects.of(&unit_rows(rows, directions.width()), &tokens, size)
        })?;
        let (latents, null): (Vec<&DirectionEffects>, Vec<&DirectionEffects>) =
            (of_latents.iter().flatten().collect(), of_null.iter().flatten().collect());
        numbers::scores(job, work, &effects, &tokens, (&latents, &null))
    }
}

/// Rows of length 1; rows of zeros stay.
fn unit_rows(mut rows: Vec<f32>, width: usize) -> Vec<f32> {
    for row in rows.chunks_exact_mut(width.max(1)) {
        let length = dot(row, row).sqrt();
        if length > 0.0 {
            row.iter_mut().for_each(|value| *value = (f64::from(*value) / length) as f32);
        }
    }
    rows
}
