//! Resampling: reinitialises inactive latents from rows with large errors. Off by default.

use super::Trainer;
use etalon_kernel::packed::PANEL;
use etalon_kernel::random::{stream, unit};

impl Trainer {
    /// Every `resample` steps, reinitialises the latents that have not fired for half of them. Each gets a row, drawn
    /// with probability proportional to the norm of its error: as unit direction, and as encoder with a fifth of the
    /// mean norm of the other encoder rows.
    pub(super) fn resample(&mut self, batch: &[f32]) {
        let Some(every) = self.settings.resample.filter(|&every| every > 0 && self.step > 0) else { return };
        if !self.step.is_multiple_of(every) {
            return;
        }
        let (size, groups) = (self.weights.size, self.objective.rules().groups.len());
        let limit = every as f64 / 2.0 * self.settings.batch as f64;
        let (dead, alive): (Vec<usize>, Vec<usize>) =
            (0..size.latents).partition(|&latent| self.inactive_rows[latent] as f64 > limit);
        let mut row = vec![0.0; size.stride];
        let mut norm = |latent: usize| {
            self.weights.encoder.column(latent, &mut row);
            row.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
        };
        let mean = alive.iter().map(|&latent| norm(latent)).sum::<f64>() / alive.len().max(1) as f64;
        // A weighted sample without replacement: the rows with the largest ln(u) / weight.
        let mut random = stream(self.settings.seed, "resample", self.step);
        let mut keys: Vec<(f64, usize)> = (0..batch.len() / size.width)
            .map(|row| {
                let weight = self.buffers.errors.of_row(row, groups).sqrt();
                (unit(&mut random).max(f64::MIN_POSITIVE).ln() / weight.max(f64::MIN_POSITIVE), row)
            })
            .collect();
        keys.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        for (&latent, &(_, from)) in dead.iter().zip(&keys) {
            let from = &batch[from * size.width..][..size.width];
            let norm = from.iter().map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt().max(1e-12);
            let mut direction = vec![0.0; size.stride];
            direction.iter_mut().zip(from).for_each(|(into, &value)| *into = (f64::from(value) / norm) as f32);
            self.weights.decoder[latent * size.stride..][..size.stride].copy_from_slice(&direction);
            direction.iter_mut().zip(from).for_each(|(into, &value)| *into = (0.2 * mean * f64::from(value)) as f32);
            self.weights.encoder.set_column(latent, &direction);
            self.weights.scalars[latent * size.scalars] = 0.0;
            self.inactive_rows[latent] = 0;
            for moment in &mut self.moments {
                moment.decoder[latent * size.stride..][..size.stride].fill(0.0);
                moment.scalars[latent * size.scalars] = 0.0;
                let panel = &mut moment.encoder[latent / PANEL * size.panel()..][..size.panel()];
                panel.chunks_exact_mut(PANEL).for_each(|lanes| lanes[latent % PANEL] = 0.0);
            }
        }
    }
}
