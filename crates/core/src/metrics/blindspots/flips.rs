//! P of rare concepts by changes of sign. If a generator does nothing to a concept, a difference is as likely as its
//! opposite; the normal distribution is no help where only a few rows differ.

use rand::Rng;
use rayon::prelude::*;

use super::measured::Measured;
use super::scores::{Judged, Resampling};
use crate::codes::Codes;
use crate::error::{Error, Result};
use crate::kernel::random::stream;
use crate::kernel::statistics::{false_discovery, two_sided};
use crate::run::{Blocks, Column, Job, Next, Tally};

/// Up to so many differences all changes of sign are tried.
const EXACT: usize = 12;

/// One block per model.
pub(super) struct Flips {
    pub measured: Measured,
    pub flips: usize,
    /// Concepts that fire in fewer rows are rare.
    pub below: u64,
}

impl Flips {
    /// The rare concepts of a model, ascending.
    fn rare(&self, model: usize) -> Vec<usize> {
        let rare = |latent: &usize| {
            self.measured.models[model][*latent].is_some_and(|concept| concept.either_fires < self.below)
        };
        (0..self.measured.latents).filter(rare).collect()
    }
}

impl Blocks for Flips {
    fn count(&self) -> usize {
        self.measured.models.len()
    }

    fn unit(&self) -> &'static str {
        "models"
    }

    fn run(&self, block: usize, job: &Job<'_>) -> Result<Tally> {
        let model = job.models()?.get(block).ok_or_else(|| Error::Bug(format!("there is no model {block}")))?;
        let rare = self.rare(block);
        let differences = differences(job.codes()?, &model.codes, &rare)?;
        let p = differences.par_iter().map(|differences| flipped(differences, self.flips, job.seed)).collect();
        Ok(Tally { columns: vec![Column::Lists(vec![(block as u64, p)])] })
    }

    fn finish(&self, tally: Tally, job: &Job<'_>) -> Result<Next> {
        let mut p: Vec<Vec<Option<f64>>> =
            self.measured.sides().map(|side| normal_p(side, self.measured.rows)).collect();
        for (model, list) in tally.lists(0)? {
            for (latent, value) in self.rare(*model as usize).into_iter().zip(list) {
                p[*model as usize][latent] = Some(*value);
            }
        }
        let q = p.iter().map(|p| false_discovery(p)).collect();
        Ok(Next::Blocks(Box::new(Resampling::new(Judged { measured: self.measured.clone(), p, q }, job))))
    }
}

/// P of every live concept from the normal distribution.
fn normal_p(side: &[Option<super::concept::Concept>], rows: u64) -> Vec<Option<f64>> {
    let one = |concept: &super::concept::Concept| {
        let (gap, error) = (concept.gap(), concept.error?);
        Some(match () {
            () if gap == 0.0 => 1.0,
            () if error > 0.0 => two_sided(gap / error),
            // All differences are the same: of all changes of sign, two sums are as large.
            () => 2.0f64.powi(1 - i32::try_from(rows).unwrap_or(i32::MAX).min(1000)),
        })
    };
    side.iter().map(|concept| concept.as_ref().and_then(one)).collect()
}

/// The rows where each of some latents (ascending) differs between real and generated, and by how much.
fn differences(real: &Codes, made: &Codes, latents: &[usize]) -> Result<Vec<Vec<(u32, f64)>>> {
    let mut place = vec![u32::MAX; real.latents()];
    latents.iter().enumerate().for_each(|(at, &latent)| place[latent] = at as u32);
    let mut found: Vec<Vec<(u32, f64)>> = vec![Vec::new(); latents.len()];
    for first in (0..real.rows()).step_by(4096) {
        let rows = first..(first + 4096).min(real.rows());
        let (real, made) = (real.view(rows.clone())?, made.view(rows.clone())?);
        for row in rows {
            for (sign, view) in [(-1.0, &real), (1.0, &made)] {
                let (fired, values) = view.row(row - first);
                for (&latent, &value) in fired.iter().zip(values) {
                    let Some(list) = found.get_mut(place[latent as usize] as usize) else { continue };
                    match list.last_mut() {
                        Some(last) if last.0 == row as u32 => last.1 += sign * f64::from(value),
                        _ => list.push((row as u32, sign * f64::from(value))),
                    }
                }
            }
        }
    }
    found.iter_mut().for_each(|list| list.retain(|(_, difference)| *difference != 0.0));
    Ok(found)
}

/// How often a change of sign makes the sum as large as it is. Signs belong to rows, the same for all concepts.
fn flipped(differences: &[(u32, f64)], flips: usize, seed: u64) -> f64 {
    let sum = |signs: &dyn Fn(usize) -> bool| {
        let signed = |(place, (_, value)): (usize, &(u32, f64))| if signs(place) { -value } else { *value };
        differences.iter().enumerate().map(signed).sum::<f64>().abs()
    };
    let size: f64 = differences.iter().map(|(_, value)| value.abs()).sum();
    // A sum in another order may differ in its last places and is as large all the same.
    let limit = sum(&|_| false) - 1e-9 * size;
    if differences.len() <= EXACT {
        let all = 1usize << differences.len();
        let large = (0..all).filter(|pattern| sum(&|place| pattern >> place & 1 == 1) >= limit).count();
        return large as f64 / all as f64;
    }
    let words = flips.div_ceil(64);
    let signs: Vec<Vec<u64>> = differences
        .iter()
        .map(|(row, _)| {
            let mut random = stream(seed, "blindspots/flips", u64::from(*row));
            (0..words).map(|_| random.next_u64()).collect()
        })
        .collect();
    let large =
        (0..flips).filter(|flip| sum(&|place| signs[place][flip / 64] >> (flip % 64) & 1 == 1) >= limit).count();
    (large + 1) as f64 / (flips + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::unit;

    #[test]
    fn few_differences_are_counted_out() {
        // ±1 ±2 ±3: the sum 6 is reached by +++ and −−− only; 1 − 2 − 3 = −4 by itself, its opposite, and the two of 6.
        let of = |values: &[f64]| flipped(&values.iter().map(|&value| (0, value)).collect::<Vec<_>>(), 1000, 0);
        assert_eq!(of(&[1.0, 2.0, 3.0]), 0.25);
        assert_eq!(of(&[1.0, -2.0, -3.0]), 0.5);
        assert_eq!((of(&[]), of(&[5.0])), (1.0, 1.0));
        assert_eq!(of(&[0.1; 12]), 2.0 / 4096.0);
    }

    #[test]
    fn many_differences_are_sampled() {
        let rows = |values: Vec<f64>| values.into_iter().enumerate().map(|(r, v)| (r as u32, v)).collect::<Vec<_>>();
        assert_eq!(flipped(&rows(vec![1.0; 25]), 999, 3), 1.0 / 1000.0);
        // Under the null p is uniform: about a tenth of 400 concepts below 0.1.
        let below = (0..400)
            .filter(|&trial| {
                let mut random = stream(trial, "flips/null", 0);
                let values = (0..20).map(|_| unit(&mut random) - 0.5).collect();
                flipped(&rows(values), 500, trial) < 0.1
            })
            .count();
        assert!((22..=60).contains(&below), "{below}");
    }

    #[test]
    fn differences_of_pairs() {
        let real = Codes::from_dense(&[1.0, 0.0, 2.0, 0.0, 3.0, 0.0], 2).unwrap();
        let made = Codes::from_dense(&[1.0, 0.0, 0.5, 0.0, 0.0, 4.0], 2).unwrap();
        let found = differences(&real, &made, &[0, 1]).unwrap();
        assert_eq!(found, [vec![(1, -1.5), (2, -3.0)], vec![(2, 4.0)]]);
        assert_eq!(differences(&real, &made, &[1]).unwrap(), [vec![(2, 4.0)]]);
    }
}
