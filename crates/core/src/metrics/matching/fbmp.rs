//! Fully-binary matching pursuit: each step selects the latent that best explains the residual, until the F1 of the
//! coalition stops rising.
//!
//! Hits of all latents are counted once over the rows with the concept. Each step subtracts only the rows that it newly
//! covers, so every row is visited at most twice.

use super::target::{Cover, Pursuit, Target};
use crate::context::Context;
use crate::error::Result;
use crate::results::Profile;

/// Takes at most `steps` steps.
pub(super) fn pursue(
    target: &Target<'_>,
    beta: f64,
    steps: usize,
    profile: Profile,
    context: &Context,
) -> Result<Pursuit> {
    let mut pursuit = Pursuit::default();
    let mut hits = target.hits.clone();
    let mut scores = vec![0.0; hits.len()];
    let (mut cover, mut newly) = (Cover::new(target), Vec::new());
    for step in 0..steps {
        context.check()?;
        let residual = target.positives - cover.true_positives;
        let Some(latent) = best(&hits, &target.fired, beta * beta, residual, &mut scores) else {
            // No latent fires in the residual. The released code then takes latent 0, and keeps it in the first step.
            if step == 0 && profile == Profile::Reference && !hits.is_empty() {
                pursuit.latents.push(0);
                pursuit.f1.push(0.0);
            }
            break;
        };
        cover.add(latent, &mut newly);
        let f1 = cover.f1();
        if pursuit.f1.last().is_some_and(|&before| f1 <= before) {
            break;
        }
        pursuit.latents.push(latent as u32);
        pursuit.f1.push(f1);
        target.firing.count(&newly, -1, &mut hits);
    }
    Ok(pursuit)
}

/// The latent with the best F-beta against the residual; ties go to the lowest index; `None` if all are 0.
///
/// A single, correctly rounded division makes equal fractions compare equal.
fn best(hits: &[i32], fired: &[i32], beta_squared: f64, residual: usize, scores: &mut [f64]) -> Option<usize> {
    let base = beta_squared * residual as f64;
    for ((score, &hits), &fired) in scores.iter_mut().zip(hits).zip(fired) {
        // 0 / 0 is NaN, which never wins a comparison.
        *score = (1.0 + beta_squared) * f64::from(hits) / (base + f64::from(fired));
    }
    // Four independent maxima let the processor compare four scores at a time.
    let mut lanes = [0.0f64; 4];
    let (chunks, rest) = scores.as_chunks::<4>();
    for chunk in chunks {
        for (lane, &score) in lanes.iter_mut().zip(chunk) {
            *lane = if score > *lane { score } else { *lane };
        }
    }
    let highest = lanes.iter().chain(rest).fold(0.0, |best, &score| if score > best { score } else { best });
    if highest > 0.0 { scores.iter().position(|&score| score == highest) } else { None }
}
