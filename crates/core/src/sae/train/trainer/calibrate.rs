//! The threshold that replaces the selection over a batch in the finished dictionary.

use super::Trainer;
use crate::error::Result;
use crate::sae::train::objective::Selection;

impl Trainer {
    /// Whether [`Trainer::calibrate`] has an effect.
    pub fn is_calibrated(&self) -> bool {
        self.objective.calibrated_l0().is_some()
    }

    /// Sets the threshold of the finished dictionary so that, on average over the rows of a sample, as many latents are
    /// active as in training. Does nothing for architectures that do not select over a batch.
    pub fn calibrate(&mut self, sample: &[f32]) -> Result<()> {
        let Some(k) = self.objective.calibrated_l0() else { return Ok(()) };
        let wanted = self.check(sample)? * k;
        let (latents, batch) = (self.settings.latents, self.settings.batch * self.settings.width);
        let mut keep = k;
        loop {
            keep = (2 * keep).min(latents);
            let (mut values, mut floor) = (Vec::new(), 0.0f32);
            for rows in sample.chunks(batch) {
                let kept = self.largest(rows, keep)?;
                // Values below the smallest one kept are unknown, unless every positive value was kept.
                if kept.len() == keep * (rows.len() / self.settings.width) {
                    floor = kept.iter().copied().fold(f32::INFINITY, f32::min).max(floor);
                }
                values.extend(kept);
            }
            // Codes are strictly above the threshold.
            let threshold = match values.len() > wanted {
                true => *values.select_nth_unstable_by(wanted, |a, b| b.total_cmp(a)).1,
                false => 0.0,
            };
            if keep == latents || threshold >= floor {
                self.objective.calibrate(threshold);
                return Ok(());
            }
        }
    }

    /// The largest positive pre-activations of some rows, `keep` per row on average.
    fn largest(&mut self, rows: &[f32], keep: usize) -> Result<Vec<f32>> {
        let count = self.check(rows)?;
        self.forward(rows, count, Selection::PerBatch(keep));
        Ok(self.buffers.active[..count].iter().flatten().map(|entry| entry.0).collect())
    }
}
