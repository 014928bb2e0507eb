//! Matching by the F1 of each latent alone: the best latent, or the k best together.

use std::cmp::Ordering;

use super::target::{Cover, Pursuit, Target};
use crate::results::Profile;

/// The released code adds this to every denominator of its one-to-one scores.
const EPSILON: f64 = 1e-8;

/// The latent with the best F1; ties go to the lowest index. `paper`: no latent if every F1 is 0.
pub(super) fn one_to_one(target: &Target<'_>, profile: Profile) -> Pursuit {
    let score = |latent: usize| {
        if profile == Profile::Paper {
            return target.f1(latent);
        }
        let (hits, fired) = (f64::from(target.hits[latent]), f64::from(target.fired[latent]));
        let precision = hits / (fired + EPSILON);
        let recall = hits / (target.positives as f64 + EPSILON);
        2.0 * precision * recall / (precision + recall + EPSILON)
    };
    let mut best: Option<(usize, f64)> = None;
    for latent in 0..target.hits.len() {
        let score = score(latent);
        let enough = profile == Profile::Reference || score > 0.0;
        if enough && best.is_none_or(|(_, highest)| score > highest) {
            best = Some((latent, score));
        }
    }
    match best {
        Some((latent, score)) => Pursuit { latents: vec![latent as u32], f1: vec![score], weights: Vec::new() },
        None => Pursuit::default(),
    }
}

/// The `size` latents with the best F1, and the F1 of the first one, two, three... of them together.
///
/// Ties go to the lowest index in `paper` and to the highest in `reference`. `paper` takes no latent with F1 = 0.
pub(super) fn pursue(target: &Target<'_>, size: usize, profile: Profile) -> Pursuit {
    let mut order: Vec<(f64, u32)> = (0..target.hits.len()).map(|latent| (target.f1(latent), latent as u32)).collect();
    if profile == Profile::Paper {
        order.retain(|&(score, _)| score > 0.0);
    }
    let better = |a: &(f64, u32), b: &(f64, u32)| -> Ordering {
        let by_index = if profile == Profile::Paper { a.1.cmp(&b.1) } else { b.1.cmp(&a.1) };
        b.0.total_cmp(&a.0).then(by_index)
    };
    if size == 0 {
        order.clear();
    } else if order.len() > size {
        order.select_nth_unstable_by(size - 1, better);
        order.truncate(size);
    }
    order.sort_unstable_by(better);
    let (mut cover, mut newly) = (Cover::new(target), Vec::new());
    let mut pursuit = Pursuit::default();
    for (_, latent) in order {
        cover.add(latent as usize, &mut newly);
        pursuit.latents.push(latent);
        pursuit.f1.push(cover.f1());
    }
    pursuit
}
