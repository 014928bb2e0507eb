//! Captures images.

use std::path::Path;

use etalon::context::Monitor;
use etalon::error::{InputError, Result};
use etalon::network::{Batch, Capture, Grid};

use super::parts::Parts;
use super::records::{ImageLine, Records};
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
    let (mut rows, mut part, mut grids) = (0, 0, parts.grids());
    let mut memory = None;
    loop {
        run.context.check()?;
        let (images, lines) = next_images(run, &preprocess, input, records)?;
        if lines.is_empty() {
            break;
        }
        let finished = parts.rows(part).filter(|_| grids.is_some());
        rows += match finished {
            Some(rows) => rows as u64,
            None => {
                let numbers: Vec<u32> = lines.iter().map(|line| line.number).collect();
                let stored = activations(run, &preprocess, &images, &numbers)?;
                // The number of rows per image is not known before.
                if memory.is_none() {
                    memory = Some(run.reserve_part(stored.samples.len())?);
                }
                if grids.is_none() {
                    parts.write_grids(&stored.grids)?;
                    grids = Some(stored.grids);
                }
                parts.write(part, &stored.samples, &stored.sites)?;
                stored.samples.len() as u64
            }
        };
        let grid = shared(grids.as_deref().unwrap_or_default());
        lines.iter().try_for_each(|line| records.image(line, grid))?;
        part += 1;
        run.context.advance(lines.len() as u64);
    }
    let summary = Summary { samples: u64::from(records.count()), rows, grids: grids.unwrap_or_default() };
    if summary.rows == 0 {
        return Err(InputError::new("the input has no images to capture").expected("at least one image").into());
    }
    Ok(summary)
}

/// The grid of all sites, if they have the same.
fn shared(grids: &[Option<Grid>]) -> Option<Grid> {
    let first = *grids.first()?;
    first.filter(|_| grids.iter().all(|grid| *grid == first))
}

/// Preprocesses the next images; those that cannot be decoded are skipped and listed.
fn next_images(
    run: &Run<'_>,
    preprocess: &Preprocess,
    input: &mut Input,
    records: &mut Records,
) -> Result<(Vec<f32>, Vec<ImageLine>)> {
    let (mut values, mut lines) = (Vec::new(), Vec::new());
    while lines.len() < PART {
        run.context.check()?;
        let Some(sample) = input.next()? else { break };
        match decoded(preprocess, &sample) {
            Ok(image) => {
                let number = records.sample(&sample)?;
                values.extend(image);
                lines.push(ImageLine::new(number, sample));
            }
            Err(error) if error.is_input() => {
                input.reject(&sample, error.to_string().lines().next().unwrap_or_default())
            }
            Err(error) => return Err(error),
        }
    }
    Ok((values, lines))
}

pub(super) fn decoded(preprocess: &Preprocess, sample: &Sample) -> Result<Vec<f32>> {
    match &sample.content {
        Content::Image(bytes) => preprocess.apply(&decode_with(bytes, &DecodeOptions::default())?),
        Content::Pixels(pixels) => preprocess.apply(pixels),
        Content::Text(_) => Err(InputError::new("not an image").into()),
    }
}

/// Activations of images.
pub(super) struct Stored {
    /// The sample of every row.
    pub samples: Vec<u32>,
    /// The rows of every site.
    pub sites: Vec<Vec<f32>>,
    /// The grid of the rows of an image at every site.
    grids: Vec<Option<Grid>>,
}

/// Runs the network on images.
pub(super) fn activations(run: &Run<'_>, preprocess: &Preprocess, images: &[f32], numbers: &[u32]) -> Result<Stored> {
    let (width, height) = preprocess.fixed_size().ok_or_else(|| {
        InputError::new("images must have the same size")
            .expected("a crop, or a fixed size")
            .found(preprocess.describe())
    })?;
    let mut sites: Vec<Vec<f32>> = vec![Vec::new(); run.sites.len()];
    let (mut samples, mut grids) = (Vec::new(), vec![None; run.sites.len()]);
    let size = width * height * 3;
    for (values, numbers) in images.chunks(BATCH * size).zip(numbers.chunks(BATCH)) {
        run.context.check()?;
        let mut capture = Capture::new(run.sites);
        run.context.install(|| {
            let mut state = run.network.begin(&Batch::Images { values, height, width }, run.context)?;
            run.network.run(0..run.stages(), &mut state, &mut capture, run.context)
        })?;
        let mut per_site: Vec<Vec<usize>> = Vec::new();
        for ((site, stored), grid) in run.sites.iter().zip(&mut sites).zip(&mut grids) {
            let Some((layout, values)) = capture.of(*site) else { continue };
            *grid = rows::grid(layout, run.settings.rows);
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
    Ok(Stored { samples, sites, grids })
}
