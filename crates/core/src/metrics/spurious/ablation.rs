//! The scores of rows after the ablation of the first latents of a list.

use crate::codes::CodesView;
use crate::context::{Budget, Reservation};
use crate::error::Result;

/// The latents to ablate, for several numbers of them.
pub struct Ablation<'a> {
    counts: &'a [usize],
    /// By latent, the index of the first count that includes it.
    step_of: Vec<Option<u32>>,
    _memory: Reservation,
}

impl<'a> Ablation<'a> {
    /// Ablates the latents of a list in its order; counts are ascending.
    pub fn new(order: &[u32], counts: &'a [usize], latents: usize, budget: &Budget) -> Result<Ablation<'a>> {
        let memory = budget.reserve(8 * latents as u64, "the latents to ablate")?;
        let mut step_of = vec![None; latents];
        for (rank, &latent) in order.iter().enumerate() {
            let step = counts.partition_point(|&count| count <= rank);
            step_of[latent as usize] = (step < counts.len()).then_some(step as u32);
        }
        Ok(Ablation { counts, step_of, _memory: memory })
    }

    /// `counts × rows`: the scores after the ablation, from the scores before (`w·x + b`) and the change of the score per
    /// unit of every latent (`w·d_j`).
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
