//! Non-negative orthogonal matching pursuit on the values of the codes: each step selects the latent that correlates most
//! with the residual of the concept, then refits all weights by non-negative least squares.
//!
//! Works on the Gram matrix instead of the columns: correlations follow from the products of latents with the concept and
//! with each other, and only the products of selected latents are computed.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use etalon_kernel::bits::Bits;
use etalon_kernel::nnls;

use super::row_order::RowOrder;
use super::target::{Pursuit, f1};
use crate::codes::{Codes, Columns, Latent};
use crate::context::{Context, Reservation};
use crate::error::Result;

/// Latents with a smaller norm are not scaled.
const SMALLEST_NORM: f64 = 1e-12;

/// The pursuit ends when the best correlation, divided by the norm of the concept, is smaller.
const SMALLEST_CORRELATION: f64 = 1e-12;

/// A row is predicted if the weighted sum of latents is above this.
const THRESHOLD: f64 = 0.5;

/// The latents as columns of length 1.
pub(super) struct Atoms {
    norms: Vec<f64>,
    /// By latent, its products with all latents: a cache.
    products: Vec<OnceLock<Vec<f64>>>,
    /// How many more latents the cache may hold.
    free: AtomicU64,
    _memory: Reservation,
}

impl Atoms {
    /// Computes the norms and reserves memory for the cache.
    pub fn new(codes: &Codes, context: &Context) -> Result<Atoms> {
        let (columns, latents) = (codes.columns()?, codes.latents());
        let norm = |latent: usize| {
            let (_, values) = columns.latent(Latent(latent as u32));
            let norm = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
            if norm < SMALLEST_NORM { 1.0 } else { norm }
        };
        // The size of the cache changes how often products are computed, never their values.
        let (budget, bytes) = (context.budget(), 8 * latents.max(1) as u64);
        let free = (budget.left() / 4 / bytes).min(latents as u64);
        let (free, memory) = match budget.reserve(free * bytes, "products of latents") {
            Ok(memory) => (free, memory),
            Err(_) => (0, budget.reserve(0, "products of latents")?),
        };
        Ok(Atoms {
            norms: (0..latents).map(norm).collect(),
            products: (0..latents).map(|_| OnceLock::new()).collect(),
            free: AtomicU64::new(free),
            _memory: memory,
        })
    }
}

/// Codes with their scaled latents.
#[derive(Clone, Copy)]
pub(super) struct ScaledCodes<'a> {
    codes: &'a Codes,
    columns: &'a Columns,
    atoms: &'a Atoms,
    context: &'a Context,
}

impl<'a> ScaledCodes<'a> {
    pub fn new(codes: &'a Codes, atoms: &'a Atoms, context: &'a Context) -> Result<ScaledCodes<'a>> {
        Ok(ScaledCodes { codes, columns: codes.columns()?, atoms, context })
    }

    /// The products of every latent with a weighted set of rows.
    fn against(&self, rows: impl Iterator<Item = (usize, f64)>) -> Result<Vec<f64>> {
        let all = self.codes.all()?;
        let mut products = vec![0.0; self.atoms.norms.len()];
        for (row, weight) in rows {
            let (latents, values) = all.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                products[latent as usize] += weight * f64::from(value);
            }
        }
        products.iter_mut().zip(&self.atoms.norms).for_each(|(product, norm)| *product /= norm);
        Ok(products)
    }

    /// Calls a function with the products of a latent with all latents.
    fn with_products<T>(&self, latent: usize, call: impl FnOnce(&[f64]) -> T) -> Result<T> {
        let cached = &self.atoms.products[latent];
        if let Some(products) = cached.get() {
            return Ok(call(products));
        }
        let (rows, values) = self.columns.latent(Latent(latent as u32));
        let norm = self.atoms.norms[latent];
        let weighted = rows.iter().zip(values).map(|(&row, &value)| (row as usize, f64::from(value) / norm));
        let products = self.against(weighted)?;
        let result = call(&products);
        let one_less = |free: u64| free.checked_sub(1);
        if self.atoms.free.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            // Another thread may have been faster; its products are the same.
            let _ = cached.set(products);
        }
        Ok(result)
    }

    /// A latent as a dense column of length 1.
    fn column(&self, latent: usize) -> Vec<f64> {
        let mut column = vec![0.0; self.codes.rows()];
        let (rows, values) = self.columns.latent(Latent(latent as u32));
        let norm = self.atoms.norms[latent];
        rows.iter().zip(values).for_each(|(&row, &value)| column[row as usize] = f64::from(value) / norm);
        column
    }
}

/// Takes at most `steps` steps for one concept. Rows with an unknown label are ignored.
pub(super) fn pursue(codes: ScaledCodes<'_>, yes: &Bits, known: &Bits, steps: usize) -> Result<Pursuit> {
    if known.count() == codes.codes.rows() {
        return pursue_known(codes, yes, steps);
    }
    let context = codes.context;
    let rows = RowOrder::of_rows(known.rows());
    let part = rows.codes(codes.codes, true, context)?;
    pursue_known(ScaledCodes::new(&part, &Atoms::new(&part, context)?, context)?, &rows.bits(yes, false), steps)
}

fn pursue_known(codes: ScaledCodes<'_>, yes: &Bits, steps: usize) -> Result<Pursuit> {
    let mut pursuit = Pursuit::default();
    let positives = yes.count();
    if positives == 0 {
        return Ok(pursuit);
    }
    let concept = codes.against(yes.rows().map(|row| (row, 1.0)))?;
    let smallest = SMALLEST_CORRELATION * (positives as f64).sqrt();
    let mut weights: Vec<f64> = Vec::new();
    // Products of the selected latents with the concept and, row by row, with each other.
    let (mut selected, mut gram): (Vec<f64>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        codes.context.check()?;
        let mut correlations = concept.clone();
        for (&latent, &weight) in pursuit.latents.iter().zip(&weights).filter(|&(_, &weight)| weight != 0.0) {
            codes.with_products(latent as usize, |products| {
                correlations.iter_mut().zip(products).for_each(|(c, product)| *c -= weight * product);
            })?;
        }
        let Some(best) = first_largest(&correlations) else { break };
        if correlations[best] < smallest || pursuit.latents.contains(&(best as u32)) {
            break;
        }
        pursuit.latents.push(best as u32);
        selected.push(concept[best]);
        let row = codes.with_products(best, |products| {
            pursuit.latents.iter().map(|&latent| products[latent as usize]).collect::<Vec<f64>>()
        })?;
        gram.iter_mut().zip(&row).for_each(|(earlier, &product)| earlier.push(product));
        gram.push(row);
        weights = match nnls::from_products(&gram.concat(), &selected) {
            Some(weights) => weights,
            None => {
                let columns: Vec<Vec<f64>> = pursuit.latents.iter().map(|&l| codes.column(l as usize)).collect();
                let mut target = vec![0.0; codes.codes.rows()];
                yes.rows().for_each(|row| target[row] = 1.0);
                nnls::from_columns(&columns, &target)
            }
        };
        let norms = &codes.atoms.norms;
        let unscaled: Vec<f64> = pursuit.latents.iter().zip(&weights).map(|(&l, w)| w / norms[l as usize]).collect();
        let rows = predicted(codes.columns, &pursuit.latents, &unscaled);
        pursuit.f1.push(f1(rows.count_and(yes), positives, rows.count()));
        pursuit.weights.push(unscaled);
    }
    Ok(pursuit)
}

fn first_largest(values: &[f64]) -> Option<usize> {
    let better = |best: usize, index: usize| if values[index] > values[best] { index } else { best };
    (!values.is_empty()).then(|| (0..values.len()).fold(0, better))
}

/// The rows that the weighted sum of some latents predicts.
pub(super) fn predicted(columns: &Columns, coalition: &[u32], weights: &[f64]) -> Bits {
    let mut sums = vec![0.0; columns.rows()];
    for (&latent, &weight) in coalition.iter().zip(weights) {
        let (rows, values) = columns.latent(Latent(latent));
        rows.iter().zip(values).for_each(|(&row, &value)| sums[row as usize] += weight * f64::from(value));
    }
    Bits::of(sums.len(), (0..sums.len()).filter(|&row| sums[row] > THRESHOLD))
}
