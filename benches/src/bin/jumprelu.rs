//! How long does a training step of JumpReLU take on average over a whole training, in which L0 falls to its target? Argument: the
//! number of latents. Once with default settings, in which a controller aims at 32 active latents, and once with the published loss,
//! in which about half of the latents are active at first.

use etalon::error::Result;
use etalon::sae::arch;
use etalon::sae::train::{Preset, Trainer, TrainingSettings};
use etalon_bench::{BATCH, WIDTH, size, turns, unit_batches};

/// Steps of a training, as in `benches/peers/jumprelu.py`.
const STEPS: u64 = 100;

fn main() -> Result<()> {
    let latents = size()?;
    turns(|name| {
        let (data, controlled) = (unit_batches(4), name == "controlled");
        let preset = if controlled { Preset::Etalon } else { Preset::DictionaryLearning };
        let mut settings = arch::find("jumprelu")?.settings(preset, WIDTH, latents);
        settings = TrainingSettings { batch: BATCH, steps: STEPS, ..settings };
        if controlled {
            arch::aim_at(&mut settings, 32.0, &|_| false)?;
        }
        arch::fit_schedules(&mut settings, &|_| false)?;
        Ok(Box::new(move || {
            let mut trainer = Trainer::new(settings.clone())?;
            (0..STEPS as usize).try_for_each(|step| trainer.step(&data[step % data.len()]).map(drop))
        }))
    })
}
