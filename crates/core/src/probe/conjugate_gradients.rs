//! Preconditioned conjugate gradients for the Newton systems of several logistic regressions on the same rows.

use etalon_kernel::monitor::{Cancelled, Monitor};

use super::design::Design;
use super::preconditioner::Preconditioner;
use etalon_kernel::lanes::dot_f64;

/// Maximum number of products with the rows per Newton step.
const MOST_PRODUCTS: usize = 200;

/// The linear system `Hessian · direction = −gradient` of one target. Vectors hold the weights first, the intercept last.
pub(super) struct NewtonSystem {
    pub gradient: Vec<f64>,
    /// The solution so far.
    pub direction: Vec<f64>,
    /// The second derivatives of the loss by the scores.
    curves: Vec<f64>,
    residual: Vec<f64>,
    /// The next direction of the search.
    along: Vec<f64>,
    /// The sum of the curves, which is the second derivative by the intercept, and their mean.
    curve: (f64, f64),
    /// The product of the residual and the preconditioned residual.
    size: f64,
    /// Solved when the norm of the residual is not above this.
    tolerance: f64,
}

impl NewtonSystem {
    pub fn new(
        gradient: Vec<f64>,
        curves: Vec<f64>,
        tolerance: f64,
        preconditioner: &Preconditioner,
        penalty: f64,
    ) -> NewtonSystem {
        let total: f64 = curves.iter().sum();
        let curve = (total, total / curves.len().max(1) as f64);
        let residual: Vec<f64> = gradient.iter().map(|slope| -slope).collect();
        let direction = vec![0.0; gradient.len()];
        let mut system =
            NewtonSystem { gradient, direction, curves, residual, along: vec![], curve, size: 0.0, tolerance };
        system.along = system.preconditioned(preconditioner, penalty);
        system.size = dot_f64(&system.residual, &system.along);
        system
    }

    fn preconditioned(&self, preconditioner: &Preconditioner, penalty: f64) -> Vec<f64> {
        let width = self.residual.len() - 1;
        let mut divided = preconditioner.divide(&self.residual[..width], self.curve.1, penalty);
        divided.push(self.residual[width] / self.curve.0.max(f64::MIN_POSITIVE));
        divided
    }

    fn is_open(&self) -> bool {
        dot_f64(&self.residual, &self.residual).sqrt() > self.tolerance
    }

    /// One step, given the product of the Hessian with `along`.
    fn step(&mut self, product: &[f64], preconditioner: &Preconditioner, penalty: f64) {
        let curve = dot_f64(&self.along, product);
        if curve <= 0.0 || !curve.is_finite() {
            // Only rounding can cause this, because of the penalty: stop with the direction so far.
            self.tolerance = f64::INFINITY;
            return;
        }
        let length = self.size / curve;
        self.direction.iter_mut().zip(&self.along).for_each(|(value, along)| *value += length * along);
        self.residual.iter_mut().zip(product).for_each(|(value, product)| *value -= length * product);
        let divided = self.preconditioned(preconditioner, penalty);
        let size = dot_f64(&self.residual, &divided);
        let keep = size / self.size;
        self.along.iter_mut().zip(&divided).for_each(|(along, divided)| *along = divided + keep * *along);
        self.size = size;
    }
}

/// Solves all systems; open ones share the products with the rows.
pub(super) fn solve(
    design: &Design<'_>,
    (preconditioner, penalty): (&Preconditioner, f64),
    systems: &mut [NewtonSystem],
    monitor: &dyn Monitor,
) -> Result<(), Cancelled> {
    let width = design.width();
    for _ in 0..MOST_PRODUCTS {
        monitor.check()?;
        let open: Vec<&mut NewtonSystem> = systems.iter_mut().filter(|system| system.is_open()).collect();
        if open.is_empty() {
            return Ok(());
        }
        let directions: Vec<f64> = open.iter().flat_map(|system| &system.along[..width]).copied().collect();
        let shifts: Vec<f64> = open.iter().map(|system| system.along[width]).collect();
        let curves: Vec<f64> = open.iter().flat_map(|system| &system.curves).copied().collect();
        let (sums, totals) = design.hessian_product(&directions, &shifts, &curves);
        for (index, system) in open.into_iter().enumerate() {
            let mut product: Vec<f64> = sums[index * width..][..width].to_vec();
            product.iter_mut().zip(&system.along).for_each(|(product, along)| *product += penalty * along);
            product.push(totals[index]);
            system.step(&product, preconditioner, penalty);
        }
    }
    Ok(())
}
