//! The interval over rows: groups of rows are left out in turn, and latents are selected again on the others.
//!
//! Resamples with fixed coalitions are too wide where the selection decides: the best of many latents varies less than each
//! of them.

use etalon_kernel::random::{permutation, stream};
use etalon_kernel::statistics::{deviation, mean};

use super::MatchedConcept;
use super::prepared::{Choice, PreparedCodes};
use super::row_order::RowOrder;
use super::strategy::{ROW_GROUPS, Strategy};
use crate::error::{InputError, Key, Result};
use crate::results::{Interval, student_quantile};
use crate::run::{CODES, Job, Lazy, Work};

/// The fewest groups: Student's t has one degree of freedom less than there are groups.
const FEWEST: usize = 5;

/// The interval of the mean F1 over concepts, by strategy; `None` without concepts, without groups, and below two rows per
/// group.
pub(super) fn row_intervals(
    job: &Job<'_>,
    work: &mut Work<'_>,
    order: &RowOrder,
    strategies: &[Strategy],
    matched: &[MatchedConcept],
) -> Result<Vec<Option<Interval>>> {
    let (codes, concepts, groups) = (job.get(&CODES)?, matched.len(), job.whole(ROW_GROUPS.name)?);
    if (1..FEWEST).contains(&groups) {
        return Err(InputError::new(format!("too few groups of rows in {}", Key(ROW_GROUPS.name)))
            .expected(format!("0, or at least {FEWEST}"))
            .found(groups)
            .into());
    }
    if groups == 0 || codes.rows() < 2 * groups || concepts == 0 {
        return Ok(vec![None; strategies.len()]);
    }
    let mut without: Vec<Vec<f64>> = vec![Vec::with_capacity(groups); strategies.len()];
    for group in 0..groups {
        let prepared = Lazy::new(|| {
            let random = permutation(codes.rows(), &mut stream(job.seed, "match/groups", 0));
            let others = random.into_iter().enumerate().filter(|(position, _)| position % groups != group);
            let mut others: Vec<usize> = others.map(|(_, row)| row).collect();
            others.sort_unstable();
            PreparedCodes::new(job, codes, order.part(&others), strategies)
        });
        let name = format!("concepts without group {} of rows", group + 1);
        let f1 = work.blocks_with(&prepared, &name, concepts, |prepared, concept| {
            Ok(prepared.choose(&prepared.rows_of(concept))?.iter().map(Choice::f1).collect::<Vec<f64>>())
        })?;
        for (strategy, without) in without.iter_mut().enumerate() {
            without.push(f1.iter().map(|f1| f1[strategy]).sum::<f64>() / concepts as f64);
        }
    }
    let score =
        |strategy: usize| mean(&matched.iter().map(|concept| concept.choices[strategy].f1()).collect::<Vec<_>>());
    Ok(without.iter().enumerate().map(|(strategy, without)| interval(score(strategy)?, without)).collect())
}

/// The value ± Student's t times the jackknife's standard error, within 0 and 1.
fn interval(value: f64, without: &[f64]) -> Option<Interval> {
    let groups = without.len() as f64;
    let half = student_quantile(groups - 1.0)? * deviation(without)? * (groups - 1.0) / groups.sqrt();
    Some(Interval { low: (value - half).max(0.0), high: (value + half).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_matches_the_worked_example() {
        // 0.4 and 0.6 without either of two groups: deviation √0.02 = 0.141421, error 0.141421 · 1/√2 = 0.1. With three groups
        // 0.4, 0.5, 0.6: deviation 0.1, error 0.1 · 2/√3 = 0.115470, times t(2) = 4.302653.
        let three = interval(0.5, &[0.4, 0.5, 0.6]).unwrap();
        assert!((three.low - (0.5 - 0.496828)).abs() < 1e-5 && (three.high - (0.5 + 0.496828)).abs() < 1e-5);
        // One degree of freedom: t = 12.7, clamped.
        assert_eq!(interval(0.5, &[0.4, 0.6]), Some(Interval { low: 0.0, high: 1.0 }));
        assert_eq!(interval(1.0, &[1.0, 1.0, 1.0]), Some(Interval { low: 1.0, high: 1.0 }));
    }
}
