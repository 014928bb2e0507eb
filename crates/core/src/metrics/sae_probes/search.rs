//! The choice of a penalty: every strength is tried on rows that were held back, the best is fitted on all.

use etalon_kernel::bits::Bits;
use etalon_kernel::monitor::{Cancelled, Monitor};
use etalon_kernel::statistics::{area_under_curve, mean};

use crate::probe::design::Design;
use crate::probe::dual::Span;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::newton::{Few, Penalty};
use crate::probe::preconditioner::Spectrum;

/// The strengths, from the strongest penalty to the weakest: 10^−5 to 10^5 in ten steps.
pub fn strengths() -> Vec<f64> {
    (0..10).map(|step| libm::pow(10.0, -5.0 + f64::from(step) * 10.0 / 9.0)).collect()
}

/// What is fitted: a few columns, or whole rows.
pub enum Table<'a> {
    /// Some first columns of a table.
    Few {
        /// The table, row by row.
        values: &'a [f32],
        /// Values per row of the table.
        stride: usize,
        /// How many columns the probe sees.
        width: usize,
        /// What keeps its weights small.
        penalty: Penalty,
    },
    /// All channels.
    Whole {
        /// The values, row by row.
        values: &'a [f32],
        /// Values per row.
        width: usize,
        /// How they spread, as if there were one row.
        spectrum: &'a Spectrum,
    },
}

/// A probe with the strength that was chosen for it.
pub struct Chosen {
    /// The probe, fitted on all rows.
    pub probe: Probe,
    /// Its inverse strength of the penalty.
    pub c: f64,
    /// The AUC that it was chosen for.
    pub held_back: Option<f64>,
}

/// Precise enough that no ranking changes, for weak penalties too.
fn logistic(c: f64) -> Logistic {
    Logistic { c, tolerance: 1e-4 * c.max(1.0), steps: 50, ..Logistic::default() }
}

/// A probe, unless a class is missing.
type Fitted = Result<Option<Probe>, Cancelled>;

impl Table<'_> {
    fn stride(&self) -> usize {
        match self {
            Table::Few { stride, .. } => *stride,
            Table::Whole { width, .. } => *width,
        }
    }

    fn values(&self) -> &[f32] {
        match self {
            Table::Few { values, .. } | Table::Whole { values, .. } => values,
        }
    }

    /// Probes of some strengths on some rows, one after the other, the first from given weights.
    fn path(
        &self,
        rows: &[usize],
        truth: &[bool],
        cs: &[f64],
        start: Option<&Probe>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Probe>>, Cancelled> {
        let mut before = start.cloned();
        let mut follow = |fit: &dyn Fn(Logistic, Option<&Probe>) -> Fitted| {
            let next = |&c: &f64| {
                before = fit(logistic(c), before.as_ref())?;
                Ok(before.clone())
            };
            cs.iter().map(next).collect()
        };
        match self {
            Table::Few { values, stride, width, penalty } => {
                let few = Few { values, stride: *stride, width: *width, positive: truth };
                let ready = few.ready(rows);
                follow(&|logistic, start| logistic.fit_ready(&ready, *penalty, start, monitor))
            }
            Table::Whole { values, width, spectrum } => {
                let picked: Vec<f32> = rows.iter().flat_map(|&row| &values[row * width..][..*width]).copied().collect();
                let design = Design::Dense { values: &picked, width: *width };
                let yes = Bits::of(rows.len(), (0..rows.len()).filter(|&index| truth[rows[index]]));
                let known = Bits::full(rows.len());
                let target = Target { yes: &yes, known: &known };
                if rows.len() >= *width {
                    let spectrum = (*spectrum).clone().scaled(rows.len() as f64);
                    return follow(&|logistic, start| logistic.fit_from(&design, &spectrum, &target, start, monitor));
                }
                let span = Span::of(&picked, *width, monitor)?;
                let spectrum = span.spectrum(monitor)?;
                follow(&|logistic, start| {
                    let start = start.map(|start| span.narrow(start));
                    let found = logistic.fit_from(&span.design(), &spectrum, &target, start.as_ref(), monitor)?;
                    Ok(found.map(|found| span.widen(&found)))
                })
            }
        }
    }

    /// The scores of some rows.
    pub fn scores(&self, rows: &[usize], probe: &Probe) -> Vec<f64> {
        let row = |&row: &usize| {
            let values = &self.values()[row * self.stride()..];
            values.iter().zip(&probe.weights).map(|(&x, w)| f64::from(x) * w).sum::<f64>() + probe.intercept
        };
        rows.iter().map(row).collect()
    }

    /// Tries every strength and fits the best on all rows; among equals the strongest penalty, or the weakest.
    pub fn search(&self, truth: &[bool], weakest: bool, monitor: &dyn Monitor) -> Result<Option<Chosen>, Cancelled> {
        let cs = strengths();
        let folds = folds(truth);
        let mut areas: Vec<Vec<f64>> = vec![Vec::new(); cs.len()];
        let mut last = Vec::new();
        for held in &folds {
            let mut kept = vec![true; truth.len()];
            held.iter().for_each(|&row| kept[row] = false);
            let kept: Vec<usize> = (0..truth.len()).filter(|&row| kept[row]).collect();
            let answers: Vec<bool> = held.iter().map(|&row| truth[row]).collect();
            last = self.path(&kept, truth, &cs, None, monitor)?;
            for (areas, probe) in areas.iter_mut().zip(&last) {
                let probe = probe.as_ref();
                areas.extend(probe.and_then(|probe| area_under_curve(&answers, &self.scores(held, probe))));
            }
        }
        // An undefined mean is below all others.
        let means: Vec<Option<f64>> = areas.iter().map(|areas| mean(areas)).collect();
        let better = |new: Option<f64>, old: Option<f64>| if weakest { new >= old } else { new > old };
        let best = (1..cs.len()).fold(0, |best, index| if better(means[index], means[best]) { index } else { best });
        let all: Vec<usize> = (0..truth.len()).collect();
        let near = last.get(best).and_then(Option::as_ref);
        let probe = self.path(&all, truth, &cs[best..=best], near, monitor)?.pop().flatten();
        Ok(probe.map(|probe| Chosen { probe, c: cs[best], held_back: means[best] }))
    }
}

/// Rows that are held back, fold by fold: the last fifth, at most 100, of 128 rows or more; below that six folds with
/// their share of either class; up to 12 rows every pair of one positive and one negative.
fn folds(truth: &[bool]) -> Vec<Vec<usize>> {
    let of = |class: bool| (0..truth.len()).filter(|&row| truth[row] == class).collect::<Vec<usize>>();
    let (yes, no) = (of(true), of(false));
    match truth.len() {
        0..=12 => yes.iter().flat_map(|&one| no.iter().map(move |&other| vec![one, other])).collect(),
        13..128 => {
            let deal = |rows: &[usize], fold: usize| rows.iter().skip(fold).step_by(6).copied().collect::<Vec<_>>();
            (0..6).map(|fold| [deal(&yes, fold), deal(&no, fold)].concat()).collect()
        }
        rows => vec![(rows - (rows / 5).min(100)..rows).collect()],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::monitor::Silent;

    #[test]
    fn rows_are_held_back_by_size() {
        let truth = |rows: usize| (0..rows).map(|row| row % 2 == 0).collect::<Vec<bool>>();
        assert_eq!(folds(&truth(4)), [[0, 1], [0, 3], [2, 1], [2, 3]]);
        let six = folds(&truth(24));
        assert!(six.len() == 6 && six.iter().all(|fold| fold.len() == 4 && fold[..2].iter().all(|row| row % 2 == 0)));
        assert_eq!(folds(&truth(200)), [(160..200).collect::<Vec<_>>()]);
        assert_eq!(folds(&truth(1000))[0].len(), 100);
        assert!((strengths()[0] - 1e-5).abs() < 1e-12 && (strengths()[9] - 1e5).abs() < 1e-4);
    }

    #[test]
    fn noise_calls_for_a_strong_penalty() {
        // One useful column and eleven of noise, 60 rows: the penalty on absolute weights must keep the useful one.
        let values: Vec<f32> = (0..60 * 12)
            .map(|i| match (i % 12, i / 12) {
                (0, row) => {
                    if row % 2 == 0 {
                        1.0
                    } else {
                        -1.0
                    }
                }
                (column, row) => ((row * row * 31 + column * column * 17 + row * column * 7) % 13) as f32 / 6.5 - 1.0,
            })
            .collect();
        let truth: Vec<bool> = (0..60).map(|row| row % 2 == 0).collect();
        let table = Table::Few { values: &values, stride: 12, width: 12, penalty: Penalty::Absolute };
        let strong = table.search(&truth, false, &Silent).unwrap().unwrap();
        let weak = table.search(&truth, true, &Silent).unwrap().unwrap();
        assert_eq!((strong.held_back, weak.held_back), (Some(1.0), Some(1.0)));
        assert!(strong.c < weak.c && strong.probe.weights[0] > 0.0);
        assert!(table.search(&[true; 60], false, &Silent).unwrap().is_none());
    }
}
