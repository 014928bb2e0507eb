//! Scores of rows after the first latents of a list were taken away.

use crate::codes::CodesView;

/// Which latents go first, and how many at a time.
pub struct Ablation<'a> {
    counts: &'a [usize],
    /// By latent, the first of the counts that takes it away.
    step_of: Vec<u32>,
}

impl<'a> Ablation<'a> {
    /// Takes the latents of a list away, in its order; counts are ascending.
    pub fn new(order: &[u32], counts: &'a [usize], latents: usize) -> Ablation<'a> {
        let mut step_of = vec![u32::MAX; latents];
        for (place, &latent) in order.iter().enumerate() {
            let step = counts.partition_point(|&count| count <= place);
            if step < counts.len() {
                step_of[latent as usize] = step as u32;
            }
        }
        Ablation { counts, step_of }
    }

    /// `counts × rows`: the scores without the latents, from the scores with them (`w·x + b`) and from what a unit of
    /// every latent adds to a score (`w·d_j`).
    pub fn scores(&self, codes: CodesView<'_>, rows: &[usize], scores: &[f64], along: &[f64]) -> Vec<Vec<f64>> {
        let mut after = vec![scores.to_vec(); self.counts.len()];
        let mut lost = vec![0.0; self.counts.len()];
        for (place, &row) in rows.iter().enumerate() {
            lost.fill(0.0);
            let (latents, values) = codes.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                let step = self.step_of[latent as usize];
                if step != u32::MAX {
                    lost[step as usize] += f64::from(value) * along[latent as usize];
                }
            }
            let mut total = 0.0;
            for (after, lost) in after.iter_mut().zip(&lost) {
                total += lost;
                after[place] -= total;
            }
        }
        after
    }
}
