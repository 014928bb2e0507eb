//! Non-negative orthogonal matching pursuit on the values of the codes: choose the latent that correlates most with
//! what is left of the concept, refit all weights without negative ones, and go on.
//!
//! Nothing here is as tall as the codes: correlations follow from the products of latents with the concept and with
//! each other, and only the products of chosen latents are ever made.

use std::sync::OnceLock;

use super::concepts::Pursuit;
use super::firing::f1;
use crate::budget::{Budget, Taken};
use crate::codes::{Codes, Columns, Latent};
use crate::error::Result;
use crate::kernel::bits::Bits;
use crate::kernel::nnls;

/// Latents with a norm below this are not scaled.
const NO_NORM: f64 = 1e-12;

/// The pursuit ends when the best correlation is below this part of the norm of the concept.
const NO_CORRELATION: f64 = 1e-12;

/// A row has the concept where the weighted sum of latents is above this.
const PRESENT: f64 = 0.5;

/// The latents as columns of length one.
pub(super) struct Atoms<'a> {
    codes: &'a Codes,
    columns: &'a Columns,
    norms: Vec<f64>,
    /// Products of a latent with all others, kept once made, as far as memory allows.
    products: Vec<OnceLock<(Vec<f64>, Taken)>>,
    budget: &'a Budget,
}

impl<'a> Atoms<'a> {
    /// Scales the latents of some codes.
    pub fn new(codes: &'a Codes, budget: &'a Budget) -> Result<Atoms<'a>> {
        let columns = codes.columns()?;
        let norm = |latent: usize| {
            let (_, values) = columns.latent(Latent(latent as u32));
            let norm = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
            if norm < NO_NORM { 1.0 } else { norm }
        };
        let norms = (0..codes.latents()).map(norm).collect();
        let products = (0..codes.latents()).map(|_| OnceLock::new()).collect();
        Ok(Atoms { codes, columns, norms, products, budget })
    }

    /// Products of every latent with a weighted set of rows.
    fn against(&self, rows: impl Iterator<Item = (usize, f64)>) -> Result<Vec<f64>> {
        let all = self.codes.all()?;
        let mut products = vec![0.0; self.norms.len()];
        for (row, weight) in rows {
            let (latents, values) = all.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                products[latent as usize] += weight * f64::from(value);
            }
        }
        products.iter_mut().zip(&self.norms).for_each(|(product, norm)| *product /= norm);
        Ok(products)
    }

    /// Calls a function with the products of a latent with all latents.
    fn with_products<T>(&self, latent: usize, call: impl FnOnce(&[f64]) -> T) -> Result<T> {
        if let Some((products, _)) = self.products[latent].get() {
            return Ok(call(products));
        }
        let (rows, values) = self.columns.latent(Latent(latent as u32));
        let norm = self.norms[latent];
        let weighted = rows.iter().zip(values).map(|(&row, &value)| (row as usize, f64::from(value) / norm));
        let products = self.against(weighted)?;
        let answer = call(&products);
        if let Ok(memory) = self.budget.take(8 * products.len() as u64, "products of latents") {
            // Another thread may have been faster; its products are the same.
            let _ = self.products[latent].set((products, memory));
        }
        Ok(answer)
    }

    /// A latent as a column of length one.
    fn column(&self, latent: usize) -> Vec<f64> {
        let mut column = vec![0.0; self.codes.rows()];
        let (rows, values) = self.columns.latent(Latent(latent as u32));
        rows.iter().zip(values).for_each(|(&row, &value)| column[row as usize] = f64::from(value) / self.norms[latent]);
        column
    }
}

/// Runs at most so many steps for one concept. Rows whose label is unknown do not exist.
pub(super) fn pursue(atoms: &Atoms<'_>, yes: &Bits, known: &Bits, steps: usize) -> Result<Pursuit> {
    if known.count() == atoms.codes.rows() {
        return pursue_known(atoms, yes, steps);
    }
    let rows: Vec<usize> = known.rows().collect();
    let codes = atoms.codes.select(&rows)?;
    let yes =
        Bits::of(rows.len(), rows.iter().enumerate().filter(|&(_, &row)| yes.contains(row)).map(|(place, _)| place));
    pursue_known(&Atoms::new(&codes, atoms.budget)?, &yes, steps)
}

fn pursue_known(atoms: &Atoms<'_>, yes: &Bits, steps: usize) -> Result<Pursuit> {
    let mut pursuit = Pursuit::default();
    let positives = yes.count();
    if positives == 0 {
        return Ok(pursuit);
    }
    let concept = atoms.against(yes.rows().map(|row| (row, 1.0)))?;
    let smallest = NO_CORRELATION * (positives as f64).sqrt();
    let mut weights: Vec<f64> = Vec::new();
    // Products of the chosen latents with the concept and, row by row, with each other.
    let (mut chosen, mut gram): (Vec<f64>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        let mut correlations = concept.clone();
        for (&latent, &weight) in pursuit.latents.iter().zip(&weights).filter(|&(_, &weight)| weight != 0.0) {
            atoms.with_products(latent as usize, |products| {
                correlations.iter_mut().zip(products).for_each(|(c, product)| *c -= weight * product);
            })?;
        }
        let Some(best) = first_largest(&correlations) else { break };
        if correlations[best] < smallest || pursuit.latents.contains(&(best as u32)) {
            break;
        }
        pursuit.latents.push(best as u32);
        chosen.push(concept[best]);
        let row = atoms.with_products(best, |products| {
            pursuit.latents.iter().map(|&latent| products[latent as usize]).collect::<Vec<f64>>()
        })?;
        gram.iter_mut().zip(&row).for_each(|(earlier, &product)| earlier.push(product));
        gram.push(row);
        weights = match nnls::from_products(&gram.concat(), &chosen) {
            Some(weights) => weights,
            None => {
                let columns: Vec<Vec<f64>> = pursuit.latents.iter().map(|&l| atoms.column(l as usize)).collect();
                let mut target = vec![0.0; atoms.codes.rows()];
                yes.rows().for_each(|row| target[row] = 1.0);
                nnls::from_columns(&columns, &target)
            }
        };
        let coalition: Vec<Latent> = pursuit.latents.iter().map(|&latent| Latent(latent)).collect();
        let plain: Vec<f64> = coalition.iter().zip(&weights).map(|(l, w)| w / atoms.norms[l.0 as usize]).collect();
        let rows = predicted(atoms.columns, &coalition, &plain);
        pursuit.f1.push(f1(rows.count_and(yes), positives, rows.count()));
        pursuit.weights.push(plain);
    }
    Ok(pursuit)
}

fn first_largest(values: &[f64]) -> Option<usize> {
    let better = |best: usize, place: usize| if values[place] > values[best] { place } else { best };
    (!values.is_empty()).then(|| (0..values.len()).fold(0, better))
}

/// The rows in which the weighted sum of some latents says that the concept is there.
pub(super) fn predicted(columns: &Columns, coalition: &[Latent], weights: &[f64]) -> Bits {
    let mut sums = vec![0.0; columns.rows()];
    for (&latent, &weight) in coalition.iter().zip(weights) {
        let (rows, values) = columns.latent(latent);
        rows.iter().zip(values).for_each(|(&row, &value)| sums[row as usize] += weight * f64::from(value));
    }
    Bits::of(sums.len(), (0..sums.len()).filter(|&row| sums[row] > PRESENT))
}
