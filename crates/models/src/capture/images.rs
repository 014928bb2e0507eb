//! Captures images.

use std::path::Path;

use etalon::context::Monitor;
use etalon::error::{InputError, Result};
use etalon::network::{Batch, Capture};

use super::parts::Parts;
use super::records::Records;
use super::{Run, Summary, rows};
use crate::data::{Content, Input, Sample};
use crate::image::{DecodeOptions, Preprocess, decode_with};
use crate::preprocessing::preprocessing;

/// Images per part.
const PART: usize = 64;

/// Images that are run at a time.
const BATCH: usize = 8;

pub(super) fn run(
    run: &Run<'_>,
    parts: &Parts,
    model: &Path,
    input: &mut Input,
    records: &mut Records,
) -> Result<Summary> {
    let preprocess = preprocessing(model, run.network.card())?;
    let (mut summary, mut part) = (Summary::default(), 0);
    let mut _memory = run.reserve_part(0)?;
    loop {
        run.context.check()?;
        let (images, numbers) = next_images(run, &preprocess, input, records)?;
        if numbers.is_empty() {
            break;
        }
        summary.rows += match parts.rows(part) {
            Some(rows) => rows as u64,
            None => {
                let (samples, sites) = activations(run, &preprocess, &images, &numbers)?;
                // The number of rows per image is known after the first part only.
                if part == 0 {
                    _memory = run.reserve_part(samples.len())?;
                }
                parts.write(part, &samples, &sites)?;
                samples.len() as u64
            }
        };
        part += 1;
        run.context.advance(numbers.len() as u64);
    }
    summary.samples = u64::from(records.count());
    if summary.rows == 0 {
        return Err(InputError::new("the input has no images to capture").expected("at least one image").into());
    }
    Ok(summary)
}

/// Preprocesses the next images; those that cannot be decoded are skipped and listed.
fn next_images(
    run: &Run<'_>,
    preprocess: &Preprocess,
    input: &mut Input,
    records: &mut Records,
) -> Result<(Vec<f32>, Vec<u32>)> {
    let (mut values, mut numbers) = (Vec::new(), Vec::new());
    while numbers.len() < PART {
        run.context.check()?;
        let Some(sample) = input.next()? else { break };
        match decoded(preprocess, &sample) {
            Ok(image) => {
                let number = records.sample(&sample)?;
                records.line(number, &sample.id, None, None, sample.caption.as_deref())?;
                values.extend(image);
                numbers.push(number);
            }
            Err(error) if error.is_input() => {
                input.reject(&sample, error.to_string().lines().next().unwrap_or_default())
            }
            Err(error) => return Err(error),
        }
    }
    Ok((values, numbers))
}

pub(super) fn decoded(preprocess: &Preprocess, sample: &Sample) -> Result<Vec<f32>> {
    match &sample.content {
        Content::Image(bytes) => preprocess.apply(&decode_with(bytes, &DecodeOptions::default())?),
        Content::Pixels(pixels) => preprocess.apply(pixels),
        Content::Text(_) => Err(InputError::new("not an image").into()),
    }
}

/// The sample of every stored row, and the rows of every site.
type Stored = (Vec<u32>, Vec<Vec<f32>>);

/// Runs the network on images.
pub(super) fn activations(run: &Run<'_>, preprocess: &Preprocess, images: &[f32], numbers: &[u32]) -> Result<Stored> {
    let (width, height) = preprocess.fixed_size().ok_or_else(|| {
        InputError::new("images must have the same size")
            .expected("a crop, or a fixed size")
            .found(preprocess.describe())
    })?;
    let mut sites: Vec<Vec<f32>> = vec![Vec::new(); run.sites.len()];
    let mut samples = Vec::new();
    let size = width * height * 3;
    for (values, numbers) in images.chunks(BATCH * size).zip(numbers.chunks(BATCH)) {
        run.context.check()?;
        let mut capture = Capture::new(run.sites);
        run.context.install(|| {
            let mut state = run.network.begin(&Batch::Images { values, height, width }, run.context)?;
            run.network.run(0..run.stages(), &mut state, &mut capture, run.context)
        })?;
        let mut per_site: Vec<Vec<usize>> = Vec::new();
        for (site, stored) in run.sites.iter().zip(&mut sites) {
            let Some((layout, values)) = capture.of(*site) else { continue };
            let rows = values.chunks_exact(layout.rows * layout.width);
            per_site
                .push(rows.map(|rows| rows::of_sample(rows, layout, run.settings.rows, &|_| true, stored)).collect());
        }
        // All sites of a capture share the list of samples.
        if per_site.iter().any(|counts| Some(counts) != per_site.first()) {
            return Err(InputError::new("the sites have different numbers of rows per image")
                .expected("sites of the same resolution")
                .advice("capture them separately, or store one row per image with `rows` = mean")
                .into());
        }
        let counts = per_site.first().cloned().unwrap_or_default();
        samples.extend(numbers.iter().zip(counts).flat_map(|(number, count)| std::iter::repeat_n(*number, count)));
    }
    Ok((samples, sites))
}
