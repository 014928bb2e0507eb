//! How far a generated row is from the real row of its prompt.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::concept::delta;
use crate::codes::CodesView;
use crate::context::Reserved;
use crate::error::Result;
use crate::run::{CODES, GENERATED, Job, Over, State, Work};

/// One pair of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Distance {
    /// The length of the difference.
    pub length: f64,
    /// The length of the real row.
    pub real: f64,
    /// The length of the generated row.
    pub generated: f64,
    /// The mean of |2δ − 1| over latents that fire in either row.
    pub sigmoid: Option<f64>,
}

impl Distance {
    /// The length as a share of both lengths: 0 for equal rows, 1 for opposite rows.
    pub fn normalised(&self) -> Option<f64> {
        let both = self.real + self.generated;
        (both > 0.0).then(|| (self.length / both).min(1.0))
    }
}

/// Calls `each` with every latent that fires in either row, and its value in the generated row minus that in the real one.
pub(super) fn each_difference(real: (&[u32], &[f32]), made: (&[u32], &[f32]), mut each: impl FnMut(u32, f64)) {
    let (mut a, mut b) = (0, 0);
    while a < real.0.len() || b < made.0.len() {
        let (left, right) = (real.0.get(a).copied(), made.0.get(b).copied());
        let latent = left.unwrap_or(u32::MAX).min(right.unwrap_or(u32::MAX));
        let mut difference = 0.0;
        if left == Some(latent) {
            difference -= f64::from(real.1[a]);
            a += 1;
        }
        if right == Some(latent) {
            difference += f64::from(made.1[b]);
            b += 1;
        }
        each(latent, difference);
    }
}

/// Values in the order of their rows. They own no heap memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct RowList<T>(pub Vec<T>);

impl<T: Serialize + DeserializeOwned + Send + 'static> State for RowList<T> {
    fn merge(&mut self, later: Self) -> Result<()> {
        self.0.extend(later.0);
        Ok(())
    }

    fn bytes(&self) -> u64 {
        size_of_val(&self.0[..]) as u64
    }
}

impl RowList<Distance> {
    fn add(&mut self, real: &CodesView<'_>, made: &CodesView<'_>, temperature: f64) {
        let length = |values: &[f32]| values.iter().map(|&v| f64::from(v) * f64::from(v)).sum::<f64>().sqrt();
        for index in 0..real.rows() {
            let (mut square, mut sigmoid, mut either) = (0.0, 0.0, 0usize);
            each_difference(real.row(index), made.row(index), |_, difference| {
                square += difference * difference;
                sigmoid += (2.0 * delta(difference, temperature) - 1.0).abs();
                either += 1;
            });
            self.0.push(Distance {
                length: square.sqrt(),
                real: length(real.row(index).1),
                generated: length(made.row(index).1),
                sigmoid: (either > 0).then(|| sigmoid / either as f64),
            });
        }
    }
}

/// The distance of every pair of rows, by model.
pub(super) fn distances(
    temperature: f64,
    job: &Job<'_>,
    work: &mut Work<'_>,
) -> Result<Reserved<Vec<RowList<Distance>>>> {
    let models = job.all(&GENERATED);
    let empty = || vec![RowList::default(); models.len()];
    work.pass("distances of pairs of rows", Over::ROWS, empty, |found, rows| {
        let real = rows.get(&CODES)?;
        for (found, (_, model)) in found.iter_mut().zip(&models) {
            found.add(&real, &model.codes.view(rows.range.clone())?, temperature);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codes::Codes;

    #[test]
    fn distances_are_those_of_a_worked_example() {
        // Row 0: (3, 0, 4) and (0, 0, 4): length 3, lengths 5 and 4, either 2: |2σ(−3) − 1|/2 = 0.905148/2.
        // Row 1: nothing and nothing.
        let real = Codes::from_dense(&[3.0, 0.0, 4.0, 0.0, 0.0, 0.0], 3).unwrap();
        let made = Codes::from_dense(&[0.0, 0.0, 4.0, 0.0, 0.0, 0.0], 3).unwrap();
        let mut found = RowList::default();
        found.add(&real.all().unwrap(), &made.all().unwrap(), 1.0);
        let found = found.0;
        assert_eq!((found[0].length, found[0].real, found[0].generated), (3.0, 5.0, 4.0));
        assert!((found[0].sigmoid.unwrap() - 0.452_574).abs() < 1e-6);
        assert_eq!(found[0].normalised(), Some(3.0 / 9.0));
        assert_eq!((found[1].length, found[1].sigmoid, found[1].normalised()), (0.0, None, None));
    }
}
