//! A linear support vector machine on a single number, to the exact optimum: scikit-learn's `LinearSVC` with squared hinge
//! loss, where the intercept is penalised too.

/// Settings.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleSvc {
    /// The inverse strength of the penalty.
    pub c: f64,
}

/// The decision `slope · value + intercept`, positive for the class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// The slope.
    pub slope: f64,
    /// The intercept.
    pub intercept: f64,
}

impl SingleSvc {
    /// Minimises ½ (slope² + intercept²) + Σ weight · max(0, 1 − y · decision)², with balanced class weights as liblinear
    /// applies them: with two classes n / (2 · count) to both, otherwise n / (classes · count) to the class and 1 to the rest.
    ///
    /// `classes` are below `count`, and every one occurs. Returns one decision for two classes, otherwise one per class.
    pub fn fit(&self, values: &[f64], classes: &[u32], count: usize) -> Vec<Decision> {
        let rows = values.len() as f64;
        let balanced = |class: usize| {
            let own = classes.iter().filter(|&&c| c as usize == class).count() as f64;
            self.c * rows / (count as f64 * own.max(1.0))
        };
        if count == 2 {
            return vec![newton(values, classes, 1, balanced(1), balanced(0))];
        }
        (0..count).map(|class| newton(values, classes, class as u32, balanced(class), self.c)).collect()
    }
}

/// The class of a value: positive for two classes, otherwise the largest decision, ties to the lower class.
pub fn decide(decisions: &[Decision], value: f64) -> u32 {
    let score = |decision: &Decision| decision.slope * value + decision.intercept;
    match decisions {
        [one] => u32::from(score(one) > 0.0),
        all => (0..all.len()).fold(0, |best, c| if score(&all[c]) > score(&all[best]) { c } else { best }) as u32,
    }
}

/// Newton's method with halved steps: the loss is piecewise quadratic and strictly convex.
fn newton(values: &[f64], classes: &[u32], class: u32, yes: f64, no: f64) -> Decision {
    let loss = |slope: f64, intercept: f64| {
        let hinge = |(&x, &c): (&f64, &u32)| {
            let (sign, weight) = if c == class { (1.0, yes) } else { (-1.0, no) };
            let gap = (1.0 - sign * (slope * x + intercept)).max(0.0);
            weight * gap * gap
        };
        0.5 * (slope * slope + intercept * intercept) + values.iter().zip(classes).map(hinge).sum::<f64>()
    };
    let (mut slope, mut intercept) = (0.0, 0.0);
    let mut current = loss(slope, intercept);
    for _ in 0..200 {
        // Gradient and Hessian of the rows within the margin.
        let (mut gw, mut gb, mut hww, mut hwb, mut hbb) = (slope, intercept, 1.0, 0.0, 1.0);
        for (&x, &c) in values.iter().zip(classes) {
            let (sign, weight) = if c == class { (1.0, yes) } else { (-1.0, no) };
            let gap = 1.0 - sign * (slope * x + intercept);
            if gap > 0.0 {
                gw -= 2.0 * weight * sign * gap * x;
                gb -= 2.0 * weight * sign * gap;
                hww += 2.0 * weight * x * x;
                hwb += 2.0 * weight * x;
                hbb += 2.0 * weight;
            }
        }
        let determinant = hww * hbb - hwb * hwb;
        let (dw, db) = ((hbb * gw - hwb * gb) / determinant, (hww * gb - hwb * gw) / determinant);
        let decrease = gw * dw + gb * db;
        // A decrease that is not a number ends the search, too.
        let decreases = decrease > 1e-22 * current.max(1e-300);
        if !decreases {
            break;
        }
        let mut step = 1.0;
        let mut next = loss(slope - dw, intercept - db);
        while next > current - 1e-4 * step * decrease && step > 1e-10 {
            step *= 0.5;
            next = loss(slope - step * dw, intercept - step * db);
        }
        if next > current {
            break;
        }
        (slope, intercept, current) = (slope - step * dw, intercept - step * db, next);
    }
    Decision { slope, intercept }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        // Values ±1 with classes ±: by symmetry the intercept is 0. ½ w² + 2 c (1 − w)²: w = 4 c / (1 + 4 c) = 2/3 for c = ½.
        let [found] = SingleSvc { c: 0.5 }.fit(&[-1.0, 1.0], &[0, 1], 2)[..] else { panic!("one decision") };
        assert!((found.slope - 2.0 / 3.0).abs() < 1e-12 && found.intercept.abs() < 1e-12, "{found:?}");
        assert_eq!((decide(&[found], 0.1), decide(&[found], -0.1)), (1, 0));
        let three = SingleSvc { c: 1.0 }.fit(&[-2.0, -2.1, 0.0, 0.1, 2.0, 2.1], &[0, 0, 1, 1, 2, 2], 3);
        assert_eq!((three.len(), decide(&three, 3.0), decide(&three, -3.0)), (3, 2, 0));
        // A constant value: only the intercept counts, balanced classes cancel.
        let [flat] = SingleSvc { c: 1.0 }.fit(&[0.0; 4], &[0, 1, 1, 1], 2)[..] else { panic!("one decision") };
        assert!(flat.slope == 0.0 && flat.intercept.abs() < 1e-12);
    }
}
