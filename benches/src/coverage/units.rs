//! Units, latents and people drawn anew on fixed images: for intervals over units instead of rows.

use std::sync::Arc;

use etalon::codes::CodesBuilder;
use etalon::error::{Error, Result};
use etalon::run::{
    CODES, DIRECTIONS, EMBEDDINGS, Inputs, RESPONSES, Response, Responses, SIMILARITY, UNITS, Unit, Units,
};
use etalon::store::ActivationStore;
use etalon_kernel::product::dot;
use etalon_kernel::random::{ChaCha8Rng, stream, unit};

use super::population::{WIDTH, normal, sample};

/// Images, or windows of text, of every data set.
const IMAGES: usize = 2000;

/// Answers per unit, as in the published experiments.
const ANSWERS: usize = 30;

/// Models of the units that people are asked about.
const MODELS: usize = 6;

fn random(rows: usize, number: u64) -> (usize, ChaCha8Rng) {
    (rows / 10, stream(number, "coverage units", rows as u64))
}

/// Rows as images whose similarity is that of their activations; directions, not latents, are the units.
pub(super) fn images(rows: usize, number: u64) -> Result<Inputs> {
    let rows = sample(rows, number)?;
    let embeddings = rows.share(&EMBEDDINGS).ok_or_else(|| Error::Bug("no embeddings".into()))?;
    let inputs = Inputs::default().with(&EMBEDDINGS, embeddings.clone()).with(&SIMILARITY, embeddings);
    Ok(rows.share(&DIRECTIONS).into_iter().fold(inputs, |inputs, directions| inputs.with(&DIRECTIONS, directions)))
}

/// Random directions as units, on fixed images.
pub(super) fn directions(rows: usize, number: u64) -> Result<Inputs> {
    let (count, mut random) = random(rows, number);
    let directions = ActivationStore::from_rows(made_directions(count, &mut random), WIDTH)?;
    Ok(images(IMAGES, u64::MAX)?.with(&DIRECTIONS, directions))
}

fn made_directions(count: usize, random: &mut ChaCha8Rng) -> Vec<f32> {
    (0..count * WIDTH).map(|_| normal(random) as f32).collect()
}

/// Latents that are active where a product is above a threshold, in 15 % to 50 % of the windows.
pub(super) fn windows(rows: usize, number: u64) -> Result<Inputs> {
    let (count, mut random) = random(rows, number);
    let inputs = images(IMAGES, u64::MAX)?;
    let embeddings: Arc<ActivationStore> =
        inputs.share(&SIMILARITY).ok_or_else(|| Error::Bug("no embeddings".into()))?;
    let (rows, directions) = (embeddings.tile(0..IMAGES)?, made_directions(count, &mut random));
    let mut columns = Vec::with_capacity(count);
    for direction in directions.chunks_exact(WIDTH) {
        let products: Vec<f64> = (0..IMAGES).map(|row| dot(rows.row(row), direction)).collect();
        let mut sorted = products.clone();
        sorted.sort_by(f64::total_cmp);
        let threshold = sorted[((0.5 + 0.35 * unit(&mut random)) * IMAGES as f64) as usize];
        columns.push(products.into_iter().map(|product| (product - threshold) as f32).collect::<Vec<_>>());
    }
    let mut codes = CodesBuilder::new(count);
    for row in 0..IMAGES {
        let active = columns.iter().enumerate().filter(|(_, column)| column[row] > 0.0);
        let (latents, values): (Vec<u32>, Vec<f32>) =
            active.map(|(latent, column)| (latent as u32, column[row])).unzip();
        codes.push(&latents, &values)?;
    }
    Ok(Inputs::default().with(&CODES, codes.finish()).with(&EMBEDDINGS, embeddings))
}

/// Units with a machine score and a probability of right answers near it.
pub(super) fn people(rows: usize, number: u64) -> Result<Inputs> {
    let (count, mut random) = random(rows, number);
    let (mut units, mut trials) = (Vec::with_capacity(count), Vec::with_capacity(count * ANSWERS));
    for number in 0..count {
        let mis = 1.0 - 0.5 * unit(&mut random) * unit(&mut random);
        let right = (mis + 0.06 * normal(&mut random)).clamp(0.0, 1.0);
        let model = format!("model {}", number % MODELS);
        units.push(Unit { model, mis: Some(mis), ..Unit::default() });
        let trial =
            |_| Response { unit: Some(number as u64), correct: unit(&mut random) < right, ..Response::default() };
        trials.extend((0..ANSWERS).map(trial));
    }
    Ok(Inputs::default().with(&UNITS, Units { units }).with(&RESPONSES, Responses { trials }))
}
