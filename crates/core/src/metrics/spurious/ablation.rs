//! Scores of rows after the first latents of a list were taken away.

use crate::codes::CodesView;
use crate::context::{Budget, Reservation};
use crate::error::Result;

/// Which latents go first, and how many at a time.
pub struct Ablation<'a> {
    counts: &'a [usize],
    /// By latent, the first of the counts that takes it away.
    step_of: Vec<Option<u32>>,
    _memory: Reservation,
}

impl<'a> Ablation<'a> {
    /// Takes the latents of a list away, in its order; counts are ascending.
    pub fn new(order: &[u32], counts: &'a [usize], latents: usize, budget: &Budget) -> Result<Ablation<'a>> {
        let memory = budget.reserve(8 * latents as u64, "latents to take away")?;
        let mut step_of = vec![None; latents];
        for (rank, &latent) in order.iter().enumerate() {
            let step = counts.partition_point(|&count| count <= rank);
            step_of[latent as usize] = (step < counts.len()).then_some(step as u32);
        }
        Ok(Ablation { counts, step_of, _memory: memory })
    }

    /// `counts × rows`: the scores without the latents, from the scores with them (`w·x + b`) and from what a unit of
    /// every latent adds to a score (`w·d_j`).
    pub fn scores(&self, codes: CodesView<'_>, rows: &[usize], scores: &[f64], along: &[f64]) -> Vec<Vec<f64>> {
        let mut after = vec![scores.to_vec(); self.counts.len()];
        let mut lost = vec![0.0; self.counts.len()];
        for (index, &row) in rows.iter().enumerate() {
            lost.fill(0.0);
            let (latents, values) = codes.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                if let Some(step) = self.step_of[latent as usize] {
                    lost[step as usize] += f64::from(value) * along[latent as usize];
                }
            }
            let mut total = 0.0;
            for (after, lost) in after.iter_mut().zip(&lost) {
                total += lost;
                after[index] -= total;
            }
        }
        after
    }
}
