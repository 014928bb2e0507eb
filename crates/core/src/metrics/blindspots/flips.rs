//! P-values of rare concepts by sign flips, and their intervals. If a generator does not change a concept, a difference is
//! as likely as its negative; the normal approximation fails where only a few rows differ.

use rand::Rng;
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::concept::Concept;
use super::distance::{RowList, each_difference};
use super::measured::Measured;
use super::rare;
use crate::codes::CodesView;
use crate::error::Result;
use crate::results::Interval;
use crate::run::{CODES, GENERATED, Job, Over, Work};
use etalon_kernel::bits::Bits;
use etalon_kernel::random::stream;
use etalon_kernel::statistics::two_sided;

/// Up to this many differences all sign flips are tried.
const EXACT: usize = 12;

/// Rare concepts per block.
const BLOCK: usize = 256;

/// A row where a concept differs between real and generated.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Difference {
    latent: u32,
    row: u32,
    /// Generated minus real.
    value: f64,
}

/// Which concepts get their p-value from sign flips, and from how many.
#[derive(Clone, Copy)]
pub(super) struct Flips {
    /// Number of random flips.
    pub count: usize,
    /// For concepts that fire in fewer rows than this.
    pub below: u64,
}

/// The p-value of every live concept, by side (models, then real against real) and latent. Sets the intervals of concepts
/// that are rare: in fewer rows than `below`, and in at most half of them.
pub(super) fn p_values(
    measured: &mut Measured,
    Flips { count, below }: Flips,
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<Vec<Vec<Option<f64>>>> {
    let mut p: Vec<Vec<Option<f64>>> = measured.sides().map(|side| normal_p(side, measured.rows)).collect();
    let is_rare = |concept: &Option<Concept>| concept.is_some_and(|concept| concept.either_fires < below);
    let mut rare_concepts: Vec<(usize, usize)> = Vec::new();
    for (model, side) in measured.models.iter().enumerate() {
        rare_concepts.extend((0..side.len()).filter(|&latent| is_rare(&side[latent])).map(|latent| (model, latent)));
    }
    if rare_concepts.is_empty() {
        return Ok(p);
    }
    let models = job.all(&GENERATED);
    let rare_of = |model: usize| rare_concepts.iter().filter(move |pair| pair.0 == model).map(|pair| pair.1);
    let chosen: Vec<Bits> = (0..models.len()).map(|model| Bits::of(measured.latents, rare_of(model))).collect();
    let empty = || vec![RowList(Vec::new()); models.len()];
    let mut differences = work.pass("differences of rare concepts", Over::ROWS, empty, |found, rows| {
        let real = rows.get(&CODES)?;
        for ((found, (_, model)), chosen) in found.iter_mut().zip(&models).zip(&chosen) {
            add_differences(&mut found.0, &real, &model.codes.view(rows.range.clone())?, chosen);
        }
        Ok(())
    })?;
    // Stable: the rows of a concept stay in order.
    differences.iter_mut().for_each(|list| list.0.par_sort_by_key(|difference| difference.latent));
    let blocks: Vec<&[(usize, usize)]> = rare_concepts.chunks(BLOCK).collect();
    let found = work.blocks("blocks of rare concepts", blocks.len(), |block| {
        let of_concept = |&(model, latent): &(usize, usize)| {
            let differences = of_latent(&differences[model].0, latent as u32);
            let (real, made) = (measured.sums.real(latent), measured.sums.made(model, latent));
            let size = ((real.squares + made.squares) / (real.fires + made.fires) as f64).sqrt();
            let interval = rare::interval(differences.iter().map(|one| one.value), size, measured.rows);
            (flipped(differences, count, job.seed), interval)
        };
        Ok(blocks[block].iter().map(of_concept).collect::<Vec<(f64, Interval)>>())
    })?;
    for (&(model, latent), &(value, interval)) in rare_concepts.iter().zip(found.iter().flatten()) {
        p[model][latent] = Some(value);
        if let Some(concept) =
            measured.models[model][latent].as_mut().filter(|one| 2 * one.either_fires <= measured.rows)
        {
            concept.rare = Some(interval);
        }
    }
    Ok(p)
}

/// The differences of one latent, from a list sorted by latent.
fn of_latent(differences: &[Difference], latent: u32) -> &[Difference] {
    let until = |latent: u32| differences.partition_point(|difference| difference.latent < latent);
    &differences[until(latent)..until(latent + 1)]
}

/// The p-value of every live concept from the normal distribution.
fn normal_p(side: &[Option<Concept>], rows: u64) -> Vec<Option<f64>> {
    let one = |concept: &Concept| {
        let (gap, error) = (concept.gap(), concept.error?);
        Some(if gap == 0.0 {
            1.0
        } else if error > 0.0 {
            two_sided(gap / error)
        } else {
            // All differences are equal: of all sign flips, two give a sum as large.
            2.0f64.powi(1 - i32::try_from(rows).unwrap_or(i32::MAX).min(1000))
        })
    };
    side.iter().map(|concept| concept.as_ref().and_then(one)).collect()
}

/// Adds the rows where some latents differ between real and generated.
fn add_differences(found: &mut Vec<Difference>, real: &CodesView<'_>, made: &CodesView<'_>, latents: &Bits) {
    for index in 0..real.rows() {
        each_difference(real.row(index), made.row(index), |latent, value| {
            if value != 0.0 && latents.contains(latent as usize) {
                found.push(Difference { latent, row: (real.first_row + index) as u32, value });
            }
        });
    }
}

/// The share of sign flips whose absolute sum is at least the observed one. Signs are drawn by row, the same for all concepts.
fn flipped(differences: &[Difference], flips: usize, seed: u64) -> f64 {
    let sum = |signs: &dyn Fn(usize) -> bool| {
        let signed = |(index, one): (usize, &Difference)| if signs(index) { -one.value } else { one.value };
        differences.iter().enumerate().map(signed).sum::<f64>().abs()
    };
    let size: f64 = differences.iter().map(|one| one.value.abs()).sum();
    // Tolerates rounding: sums that are equal but for the order of addition count as equal.
    let limit = sum(&|_| false) - 1e-9 * size;
    if differences.len() <= EXACT {
        let all = 1usize << differences.len();
        let large = (0..all).filter(|pattern| sum(&|index| pattern >> index & 1 == 1) >= limit).count();
        return large as f64 / all as f64;
    }
    let words = flips.div_ceil(64);
    let signs: Vec<Vec<u64>> = differences
        .iter()
        .map(|one| {
            let mut random = stream(seed, "blindspots/flips", u64::from(one.row));
            (0..words).map(|_| random.next_u64()).collect()
        })
        .collect();
    let large =
        (0..flips).filter(|flip| sum(&|index| signs[index][flip / 64] >> (flip % 64) & 1 == 1) >= limit).count();
    (large + 1) as f64 / (flips + 1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;
    use etalon_kernel::random::unit;

    fn rows(values: &[f64]) -> Vec<Difference> {
        (0..).zip(values).map(|(row, &value)| Difference { latent: 0, row, value }).collect()
    }

    #[test]
    fn up_to_twelve_differences_try_all_sign_flips() {
        // ±1 ±2 ±3: the sum 6 is reached by +++ and −−− only; 1 − 2 − 3 = −4 by itself, its opposite, and the two of 6.
        let of = |values: &[f64]| flipped(&rows(values), 1000, 0);
        assert_eq!(of(&[1.0, 2.0, 3.0]), 0.25);
        assert_eq!(of(&[1.0, -2.0, -3.0]), 0.5);
        assert_eq!((of(&[]), of(&[5.0])), (1.0, 1.0));
        assert_eq!(of(&[0.1; 12]), 2.0 / 4096.0);
    }

    #[test]
    fn more_differences_sample_sign_flips() {
        assert_eq!(flipped(&rows(&[1.0; 25]), 999, 3), 1.0 / 1000.0);
        // Under the null p is uniform: about a tenth of 400 concepts below 0.1.
        let below = (0..400)
            .filter(|&trial| {
                let mut random = stream(trial, "flips/null", 0);
                let values: Vec<f64> = (0..20).map(|_| unit(&mut random) - 0.5).collect();
                flipped(&rows(&values), 500, trial) < 0.1
            })
            .count();
        assert!((22..=60).contains(&below), "{below}");
    }

    #[test]
    fn differences_are_found_for_chosen_latents() {
        let real = Codes::from_dense(&[1.0, 0.0, 2.0, 0.0, 3.0, 0.0], 2).unwrap();
        let made = Codes::from_dense(&[1.0, 0.0, 0.5, 0.0, 0.0, 4.0], 2).unwrap();
        let (real, made) = (real.all().unwrap(), made.all().unwrap());
        let found = |latents: &[usize]| {
            let mut found = Vec::new();
            add_differences(&mut found, &real, &made, &Bits::of(2, latents.iter().copied()));
            found.sort_by_key(|one| one.latent);
            found
        };
        let lists = |found: &[Difference]| {
            [0, 1].map(|latent| of_latent(found, latent).iter().map(|one| (one.row, one.value)).collect::<Vec<_>>())
        };
        assert_eq!(lists(&found(&[0, 1])), [vec![(1, -1.5), (2, -3.0)], vec![(2, 4.0)]]);
        assert_eq!(lists(&found(&[1])), [vec![], vec![(2, 4.0)]]);
    }
}
