//! How long do the trainings of a whole comparison take: four architectures, six sizes, fifty epochs of 118,287 rows? A
//! step of each is measured with default settings. Argument: the number of latents.

use etalon::error::Result;
use etalon_bench::{default_trainer, size, turns, unit_batches};

fn main() -> Result<()> {
    let latents = size()?;
    turns(|name| {
        let (mut trainer, data, mut step) = (default_trainer(name, latents)?, unit_batches(4), 0);
        Ok(Box::new(move || {
            step += 1;
            trainer.step(&data[step % data.len()]).map(drop)
        }))
    })
}
