//! Non-negative orthogonal matching pursuit on the values of the codes: choose the latent that correlates most with
//! what is left of the concept, refit all weights without negative ones, and go on.
//!
//! Nothing here is as tall as the codes: correlations follow from the products of latents with the concept and with
//! each other, and only the products of chosen latents are ever made.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use etalon_kernel::bits::Bits;
use etalon_kernel::nnls;

use super::firing::f1;
use super::prepared::Pursuit;
use super::row_order::RowOrder;
use crate::codes::{Codes, Columns, Latent};
use crate::context::{Context, Reservation};
use crate::error::Result;

/// Latents with a norm below this are not scaled.
const NO_NORM: f64 = 1e-12;

/// The pursuit ends when the best correlation is below this part of the norm of the concept.
const NO_CORRELATION: f64 = 1e-12;

/// A row has the concept where the weighted sum of latents is above this.
const PRESENT: f64 = 0.5;

/// What is known of the latents of some codes as columns of length one.
pub(super) struct Atoms {
    norms: Vec<f64>,
    /// Products of a latent with all others, kept once made.
    products: Vec<OnceLock<Vec<f64>>>,
    /// How many more of them may be kept.
    room: AtomicU64,
    _memory: Reservation,
}

impl Atoms {
    /// Scales the latents of some codes.
    pub fn new(codes: &Codes, context: &Context) -> Result<Atoms> {
        let (columns, latents) = (codes.columns()?, codes.latents());
        let norm = |latent: usize| {
            let (_, values) = columns.latent(Latent(latent as u32));
            let norm = values.iter().map(|&value| f64::from(value) * f64::from(value)).sum::<f64>().sqrt();
            if norm < NO_NORM { 1.0 } else { norm }
        };
        // How many products are kept decides how often they are made again, never what they are.
        let (budget, bytes) = (context.budget(), 8 * latents.max(1) as u64);
        let room = (budget.left() / 4 / bytes).min(latents as u64);
        let (room, memory) = match budget.reserve(room * bytes, "products of latents") {
            Ok(memory) => (room, memory),
            Err(_) => (0, budget.reserve(0, "products of latents")?),
        };
        Ok(Atoms {
            norms: (0..latents).map(norm).collect(),
            products: (0..latents).map(|_| OnceLock::new()).collect(),
            room: AtomicU64::new(room),
            _memory: memory,
        })
    }
}

/// Codes and their latents as columns of length one.
#[derive(Clone, Copy)]
pub(super) struct ScaledCodes<'a> {
    codes: &'a Codes,
    columns: &'a Columns,
    atoms: &'a Atoms,
    context: &'a Context,
}

impl<'a> ScaledCodes<'a> {
    /// Codes with the atoms that were made of them.
    pub fn new(codes: &'a Codes, atoms: &'a Atoms, context: &'a Context) -> Result<ScaledCodes<'a>> {
        Ok(ScaledCodes { codes, columns: codes.columns()?, atoms, context })
    }

    /// Products of every latent with a weighted set of rows.
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
        let kept = &self.atoms.products[latent];
        if let Some(products) = kept.get() {
            return Ok(call(products));
        }
        let (rows, values) = self.columns.latent(Latent(latent as u32));
        let norm = self.atoms.norms[latent];
        let weighted = rows.iter().zip(values).map(|(&row, &value)| (row as usize, f64::from(value) / norm));
        let products = self.against(weighted)?;
        let answer = call(&products);
        let one_less = |room: u64| room.checked_sub(1);
        if self.atoms.room.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok() {
            // Another thread may have been faster; its products are the same.
            let _ = kept.set(products);
        }
        Ok(answer)
    }

    /// A latent as a column of length one.
    fn column(&self, latent: usize) -> Vec<f64> {
        let mut column = vec![0.0; self.codes.rows()];
        let (rows, values) = self.columns.latent(Latent(latent as u32));
        let norm = self.atoms.norms[latent];
        rows.iter().zip(values).for_each(|(&row, &value)| column[row as usize] = f64::from(value) / norm);
        column
    }
}

/// Takes at most `steps` steps for one concept. Rows whose label is unknown do not exist.
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
    let smallest = NO_CORRELATION * (positives as f64).sqrt();
    let mut weights: Vec<f64> = Vec::new();
    // Products of the chosen latents with the concept and, row by row, with each other.
    let (mut chosen, mut gram): (Vec<f64>, Vec<Vec<f64>>) = (Vec::new(), Vec::new());
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
        chosen.push(concept[best]);
        let row = codes.with_products(best, |products| {
            pursuit.latents.iter().map(|&latent| products[latent as usize]).collect::<Vec<f64>>()
        })?;
        gram.iter_mut().zip(&row).for_each(|(earlier, &product)| earlier.push(product));
        gram.push(row);
        weights = match nnls::from_products(&gram.concat(), &chosen) {
            Some(weights) => weights,
            None => {
                let columns: Vec<Vec<f64>> = pursuit.latents.iter().map(|&l| codes.column(l as usize)).collect();
                let mut target = vec![0.0; codes.codes.rows()];
                yes.rows().for_each(|row| target[row] = 1.0);
                nnls::from_columns(&columns, &target)
            }
        };
        let norms = &codes.atoms.norms;
        let plain: Vec<f64> = pursuit.latents.iter().zip(&weights).map(|(&l, w)| w / norms[l as usize]).collect();
        let rows = predicted(codes.columns, &pursuit.latents, &plain);
        pursuit.f1.push(f1(rows.count_and(yes), positives, rows.count()));
        pursuit.weights.push(plain);
    }
    Ok(pursuit)
}

fn first_largest(values: &[f64]) -> Option<usize> {
    let better = |best: usize, index: usize| if values[index] > values[best] { index } else { best };
    (!values.is_empty()).then(|| (0..values.len()).fold(0, better))
}

/// The rows in which the weighted sum of some latents says that the concept is there.
pub(super) fn predicted(columns: &Columns, coalition: &[u32], weights: &[f64]) -> Bits {
    let mut sums = vec![0.0; columns.rows()];
    for (&latent, &weight) in coalition.iter().zip(weights) {
        let (rows, values) = columns.latent(Latent(latent));
        rows.iter().zip(values).for_each(|(&row, &value)| sums[row as usize] += weight * f64::from(value));
    }
    Bits::of(sums.len(), (0..sums.len()).filter(|&row| sums[row] > PRESENT))
}
