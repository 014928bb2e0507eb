//! Rows drawn from a distribution with classes, properties, background features and rare features.

use std::sync::Arc;

use etalon::codes::{Codes, CodesBuilder};
use etalon::error::Result;
use etalon::labels::{Annotations, Label};
use etalon::run::{CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, GENERATED, Generated, Inputs, LABELS};
use etalon::sae::{Activation, Dictionary, Linear, Normalisation, Parts};
use etalon::store::ActivationStore;
use etalon_kernel::random::{ChaCha8Rng, stream, unit};

/// Width of the activations.
pub(super) const WIDTH: usize = 24;
/// Mutually exclusive classes; class `c` has latents `2 c` and `2 c + 1`.
const CLASSES: usize = 5;
/// Independent properties, with one latent each after those of the classes.
const PROPERTIES: usize = 2;
/// Concepts that no latent represents; a latent of the background is slightly more frequent with each.
const WEAK: usize = 6;
/// The first latent of the background.
const BACKGROUND: usize = 2 * CLASSES + PROPERTIES;
/// The first rare latent.
const RARE: usize = BACKGROUND + 24;
/// Number of latents.
const LATENTS: usize = RARE + 24;

/// Probabilities of the classes: unequal, so that means over classes differ from means over rows.
const SHARES: [f64; CLASSES] = [0.3, 0.25, 0.2, 0.15, 0.1];

/// How often a latent of the background or a rare latent fires: 3 % to 26 %, and 0.1 % to 1.25 %.
fn rate(latent: usize) -> f64 {
    match latent {
        RARE.. => 0.001 + 0.0005 * (latent - RARE) as f64,
        _ => 0.03 + 0.01 * (latent - BACKGROUND) as f64,
    }
}

/// The line of the table that an item of a number belongs to. Gaps are grouped by how often their latent fires.
pub(super) fn group(number: &str, item: usize, rows: usize) -> String {
    if number != "gap" {
        return number.into();
    }
    let expected = if item < BACKGROUND { f64::INFINITY } else { rate(item) * rows as f64 };
    let often = match expected {
        ..5.0 => "fewer than 5 rows",
        ..10.0 => "5 to 10 rows",
        ..30.0 => "10 to 30 rows",
        _ => "30 rows or more",
    };
    format!("gap of concepts in {often}")
}

/// A standard normal number, nearly: the sum of twelve uniform ones.
pub(super) fn normal(random: &mut ChaCha8Rng) -> f64 {
    (0..12).map(|_| unit(random)).sum::<f64>() - 6.0
}

/// The features that are active in a row, with their values.
type Features = Vec<(u32, f32)>;

struct Row {
    class: usize,
    properties: [bool; PROPERTIES],
    weak: [bool; WEAK],
    real: Features,
    generated: Features,
}

fn draw(random: &mut ChaCha8Rng) -> Row {
    let mut left = unit(random);
    let class = SHARES.iter().position(|share| {
        left -= share;
        left < 0.0
    });
    let class = class.unwrap_or(CLASSES - 1);
    let properties = [(); PROPERTIES].map(|()| unit(random) < 0.5);
    let (main, narrow) = (unit(random) < 0.85, unit(random) < 0.7);
    let mut row = Row { class, properties, weak: [false; WEAK], real: Features::new(), generated: Features::new() };
    for latent in 0..LATENTS {
        let chance = match latent {
            // The narrow latent of a class replaces its main latent in some rows.
            _ if latent == 2 * class => f64::from(u8::from(main)),
            _ if latent == 2 * class + 1 => f64::from(u8::from(!main && narrow)),
            ..BACKGROUND if latent < 2 * CLASSES => 0.03,
            ..BACKGROUND if properties[latent - 2 * CLASSES] => 0.8,
            ..BACKGROUND => 0.1,
            _ => rate(latent),
        };
        let fires = unit(random) < chance;
        let value = 0.5 + 1.5 * unit(random);
        if fires {
            row.real.push((latent as u32, value as f32));
        }
        // Generated rows lose some latents often, others rarely, and have some that the real rows do not have.
        let kept = if latent.is_multiple_of(5) { 0.5 } else { 0.85 };
        let added = if latent.is_multiple_of(7) { 0.02 } else { 0.002 } * if latent >= RARE { 0.1 } else { 1.0 };
        let (keep, change) = (unit(random), unit(random));
        if fires && keep < kept {
            row.generated.push((latent as u32, (value * (0.7 + 0.6 * change)) as f32));
        } else if !fires && keep < added {
            row.generated.push((latent as u32, (0.5 + change) as f32));
        }
    }
    for (number, weak) in row.weak.iter_mut().enumerate() {
        let fires = row.real.iter().any(|&(latent, _)| latent as usize == BACKGROUND + 3 * number);
        *weak = unit(random) < if fires { 0.25 } else { 0.1 };
    }
    row
}

/// The direction of every latent: random, of length 1.
fn directions() -> Vec<f32> {
    let mut random = stream(0, "coverage directions", 0);
    let mut values = Vec::with_capacity(LATENTS * WIDTH);
    for _ in 0..LATENTS {
        let direction: Vec<f64> = (0..WIDTH).map(|_| normal(&mut random)).collect();
        let length = direction.iter().map(|value| value * value).sum::<f64>().sqrt();
        values.extend(direction.iter().map(|value| (value / length) as f32));
    }
    values
}

/// The sum of the directions of active features, plus noise.
fn activation(features: &Features, directions: &[f32], random: &mut ChaCha8Rng, into: &mut Vec<f32>) {
    let mut row: Vec<f32> = (0..WIDTH).map(|_| (0.25 * normal(random)) as f32).collect();
    for &(latent, value) in features {
        let direction = &directions[latent as usize * WIDTH..][..WIDTH];
        row.iter_mut().zip(direction).for_each(|(into, part)| *into += value * part);
    }
    into.extend(row);
}

/// A data set of `rows` independent rows; every `number` gives others.
pub fn sample(rows: usize, number: u64) -> Result<Inputs> {
    let mut random = stream(number, "coverage rows", rows as u64);
    let directions = directions();
    let drawn: Vec<Row> = (0..rows).map(|_| draw(&mut random)).collect();
    let mut set = |features: fn(&Row) -> &Features| -> Result<(Arc<Codes>, Arc<ActivationStore>)> {
        let (mut codes, mut values) = (CodesBuilder::new(LATENTS), Vec::with_capacity(rows * WIDTH));
        for row in &drawn {
            let (latents, numbers): (Vec<u32>, Vec<f32>) = features(row).iter().copied().unzip();
            codes.push(&latents, &numbers)?;
            activation(features(row), &directions, &mut random, &mut values);
        }
        Ok((Arc::new(codes.finish()), Arc::new(ActivationStore::from_rows(values, WIDTH)?)))
    };
    let (codes, embeddings) = set(|row| &row.real)?;
    let (made, made_embeddings) = set(|row| &row.generated)?;
    let class_names = (0..CLASSES).map(|class| format!("class/{class}"));
    let names = class_names.chain((0..PROPERTIES).map(|one| format!("property/{one}")));
    let names: Vec<String> = names.chain((0..WEAK).map(|one| format!("weak/{one}"))).collect();
    let has = |row: usize, concept: usize| match concept {
        ..CLASSES => drawn[row].class == concept,
        _ if concept < CLASSES + PROPERTIES => drawn[row].properties[concept - CLASSES],
        _ => drawn[row].weak[concept - CLASSES - PROPERTIES],
    };
    let label = |row: usize, concept: usize| if has(row, concept) { Label::Yes } else { Label::No };
    let dictionary = Linear::new(Parts {
        arch: "relu".into(),
        encoder: directions.clone(),
        encoder_bias: vec![0.0; LATENTS],
        decoder: directions.clone(),
        bias: vec![0.0; WIDTH],
        subtract_bias: false,
        input: Normalisation::None,
        activation: Activation::Relu,
    })?;
    Ok(Inputs::default()
        .with(&DICTIONARY, Arc::new(dictionary) as Arc<dyn Dictionary>)
        .with(&CODES, codes)
        .with(&EMBEDDINGS, embeddings)
        .with(&LABELS, Annotations::new(names, rows, label)?)
        .with(&DIRECTIONS, ActivationStore::from_rows(directions, WIDTH)?)
        .and(&GENERATED, "model", Generated { codes: made, embeddings: Some(made_embeddings) }))
}
