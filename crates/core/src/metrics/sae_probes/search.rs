//! The search for a penalty: every strength is tried on held-out rows, and the best is fitted on all rows.

use etalon_kernel::bits::Bits;
use etalon_kernel::monitor::{Cancelled, Monitor};
use etalon_kernel::statistics::{area_under_curve, mean};

use crate::probe::design::Design;
use crate::probe::dual::DualForm;
use crate::probe::logistic::{Logistic, Probe, Target};
use crate::probe::newton::{LabelledTable, Penalty};
use crate::probe::preconditioner::Preconditioner;

/// The inverse strengths, from the strongest penalty to the weakest: 10^−5 to 10^5 in ten steps.
pub fn strengths() -> Vec<f64> {
    (0..10).map(|step| libm::pow(10.0, -5.0 + f64::from(step) * 10.0 / 9.0)).collect()
}

/// The values that a probe is fitted on.
pub enum ProbeInput<'a> {
    /// The first columns of a table.
    Columns {
        /// The table, row by row.
        values: &'a [f32],
        /// Values per row of the table.
        stride: usize,
        /// Number of columns that the probe uses.
        width: usize,
        /// The penalty.
        penalty: Penalty,
    },
    /// All channels.
    Whole {
        /// The values, row by row.
        values: &'a [f32],
        /// Values per row.
        width: usize,
        /// The preconditioner, scaled to one row.
        preconditioner: &'a Preconditioner,
    },
}

/// A probe with its searched penalty.
pub struct SearchedProbe {
    /// The probe, fitted on all rows.
    pub probe: Probe,
    /// The inverse strength of the penalty.
    pub c: f64,
    /// The AUC on held-out rows.
    pub held_out_auc: Option<f64>,
}

/// The tolerance is small enough to keep rankings, also with weak penalties, and that the rounding of other vector
/// instructions does not change which penalty wins.
fn logistic(c: f64) -> Logistic {
    Logistic { c, tolerance: 1e-7 * c.max(1.0), steps: 100, ..Logistic::default() }
}

/// A probe; `None` where a class is missing.
type Fitted = Result<Option<Probe>, Cancelled>;

impl ProbeInput<'_> {
    fn stride(&self) -> usize {
        match self {
            ProbeInput::Columns { stride, .. } => *stride,
            ProbeInput::Whole { width, .. } => *width,
        }
    }

    fn values(&self) -> &[f32] {
        match self {
            ProbeInput::Columns { values, .. } | ProbeInput::Whole { values, .. } => values,
        }
    }

    /// Fits probes of several strengths on some rows, each from the weights of the last, the first from `start`.
    fn path(
        &self,
        rows: &[usize],
        truth: &[bool],
        cs: &[f64],
        start: Option<&Probe>,
        monitor: &dyn Monitor,
    ) -> Result<Vec<Option<Probe>>, Cancelled> {
        let mut last = start.cloned();
        let mut fit_all = |fit: &dyn Fn(Logistic, Option<&Probe>) -> Fitted| {
            let next = |&c: &f64| {
                last = fit(logistic(c), last.as_ref())?;
                Ok(last.clone())
            };
            cs.iter().map(next).collect()
        };
        match self {
            ProbeInput::Columns { values, stride, width, penalty } => {
                let table = LabelledTable { values, stride: *stride, width: *width, positive: truth };
                let rows = table.prepare(rows.iter().copied());
                fit_all(&|logistic, start| logistic.fit_prepared(&rows, *penalty, start, monitor))
            }
            ProbeInput::Whole { values, width, preconditioner } => {
                let picked: Vec<f32> = rows.iter().flat_map(|&row| &values[row * width..][..*width]).copied().collect();
                let design = Design::Dense { values: &picked, width: *width };
                let yes = Bits::of(rows.len(), (0..rows.len()).filter(|&index| truth[rows[index]]));
                let known = Bits::full(rows.len());
                let target = Target { yes: &yes, known: &known };
                if rows.len() >= *width {
                    let preconditioner = (*preconditioner).clone().scaled(rows.len() as f64);
                    return fit_all(&|logistic, start| {
                        logistic.fit_from(&design, &preconditioner, &target, start, monitor)
                    });
                }
                let dual = DualForm::of(&picked, *width, monitor)?;
                let preconditioner = dual.preconditioner(monitor)?;
                fit_all(&|logistic, start| {
                    let start = start.map(|start| dual.to_dual(start));
                    let probe = logistic.fit_from(&dual.design(), &preconditioner, &target, start.as_ref(), monitor)?;
                    Ok(probe.map(|probe| dual.to_primal(&probe)))
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

    /// Tries every strength and fits the best on all rows; ties go to the strongest penalty, or to the weakest.
    pub fn search(
        &self,
        truth: &[bool],
        weakest: bool,
        monitor: &dyn Monitor,
    ) -> Result<Option<SearchedProbe>, Cancelled> {
        let cs = strengths();
        let folds = folds(truth);
        let mut aucs: Vec<Vec<f64>> = vec![Vec::new(); cs.len()];
        let mut last = Vec::new();
        for held in &folds {
            let mut kept = vec![true; truth.len()];
            held.iter().for_each(|&row| kept[row] = false);
            let kept: Vec<usize> = (0..truth.len()).filter(|&row| kept[row]).collect();
            let held_truth: Vec<bool> = held.iter().map(|&row| truth[row]).collect();
            last = self.path(&kept, truth, &cs, None, monitor)?;
            for (aucs, probe) in aucs.iter_mut().zip(&last) {
                let probe = probe.as_ref();
                aucs.extend(probe.and_then(|probe| area_under_curve(&held_truth, &self.scores(held, probe))));
            }
        }
        // `None` is below all numbers.
        let means: Vec<Option<f64>> = aucs.iter().map(|aucs| mean(aucs)).collect();
        let better = |new: Option<f64>, old: Option<f64>| if weakest { new >= old } else { new > old };
        let best = (1..cs.len()).fold(0, |best, index| if better(means[index], means[best]) { index } else { best });
        let all: Vec<usize> = (0..truth.len()).collect();
        let start = last.get(best).and_then(Option::as_ref);
        let probe = self.path(&all, truth, &cs[best..=best], start, monitor)?.pop().flatten();
        Ok(probe.map(|probe| SearchedProbe { probe, c: cs[best], held_out_auc: means[best] }))
    }
}

/// The held-out rows of every fold: the last fifth, at most 100, of 128 rows or more; six stratified folds with fewer; every
/// pair of a positive and a negative with at most 12.
fn folds(truth: &[bool]) -> Vec<Vec<usize>> {
    let rows_of = |class: bool| (0..truth.len()).filter(|&row| truth[row] == class).collect::<Vec<usize>>();
    let (yes, no) = (rows_of(true), rows_of(false));
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
    fn folds_depend_on_the_number_of_rows() {
        let truth = |rows: usize| (0..rows).map(|row| row % 2 == 0).collect::<Vec<bool>>();
        assert_eq!(folds(&truth(4)), [[0, 1], [0, 3], [2, 1], [2, 3]]);
        let six = folds(&truth(24));
        assert!(six.len() == 6 && six.iter().all(|fold| fold.len() == 4 && fold[..2].iter().all(|row| row % 2 == 0)));
        assert_eq!(folds(&truth(200)), [(160..200).collect::<Vec<_>>()]);
        assert_eq!(folds(&truth(1000))[0].len(), 100);
        assert!((strengths()[0] - 1e-5).abs() < 1e-12 && (strengths()[9] - 1e5).abs() < 1e-4);
    }

    #[test]
    fn ties_go_to_the_strongest_or_the_weakest_penalty() {
        // 60 rows, one informative column and eleven of noise: the L1 penalty must keep the informative one.
        let values: Vec<f32> = (0..60 * 12)
            .map(|i| match (i % 12, i / 12) {
                (0, row) => 1.0 - 2.0 * (row % 2) as f32,
                (column, row) => ((row * row * 31 + column * column * 17 + row * column * 7) % 13) as f32 / 6.5 - 1.0,
            })
            .collect();
        let truth: Vec<bool> = (0..60).map(|row| row % 2 == 0).collect();
        let input = ProbeInput::Columns { values: &values, stride: 12, width: 12, penalty: Penalty::Absolute };
        let strong = input.search(&truth, false, &Silent).unwrap().unwrap();
        let weak = input.search(&truth, true, &Silent).unwrap().unwrap();
        assert_eq!((strong.held_out_auc, weak.held_out_auc), (Some(1.0), Some(1.0)));
        assert!(strong.c < weak.c && strong.probe.weights[0] > 0.0);
        assert!(input.search(&[true; 60], false, &Silent).unwrap().is_none());
    }
}
