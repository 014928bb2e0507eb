//! Many images at once.

use etalon::context::{Context, Reserved};
use etalon::error::{Error, InputError, Result};
use rayon::prelude::*;

use super::decode::{DecodeOptions, decode_reserved};
use super::preprocess::Preprocess;

/// Preprocessed images, in the order of the files.
#[derive(Debug)]
#[non_exhaustive]
pub struct Batch {
    /// Height × width × 3 values for each image of `kept`.
    pub values: Reserved<Vec<f32>>,
    /// Pixels per row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// The numbers of the files that were read, in ascending order.
    pub kept: Vec<usize>,
    /// The numbers of the files that could not be read, and why, in ascending order.
    pub failed: Vec<(usize, Error)>,
}

/// Decodes and preprocesses files in parallel; `files` are their bytes. A damaged file is listed and left out. The
/// result does not depend on the number of threads.
pub fn preprocess_batch<B: AsRef<[u8]> + Sync>(
    files: &[B],
    preprocess: &Preprocess,
    options: &DecodeOptions,
    context: &Context,
) -> Result<Batch> {
    preprocess.check()?;
    let (width, height) = preprocess.fixed_size().ok_or_else(|| {
        InputError::new("images of a batch must have the same size")
            .expected("a crop, or a fixed size to resize to")
            .found(preprocess.describe())
            .advice("add a crop to the preprocessing")
    })?;
    let length = width * height * 3;
    let bytes = (length as u64).saturating_mul(files.len() as u64).saturating_mul(4);
    let memory = context.budget().reserve(bytes, "preprocessed images")?;
    let mut values = vec![0.0; length * files.len()];
    let one = |file: &B, out: &mut [f32]| -> Result<()> {
        context.check()?;
        let pixels = decode_reserved(file.as_ref(), options, context.budget())?;
        preprocess.apply_into(&pixels, out)
    };
    let mut results: Vec<Result<()>> =
        context.install(|| values.par_chunks_exact_mut(length).zip(files).map(|(out, file)| one(file, out)).collect());
    // Images that found no memory beside others may find it alone.
    for ((result, out), file) in results.iter_mut().zip(values.chunks_exact_mut(length)).zip(files) {
        if matches!(result, Err(Error::Memory { .. })) {
            *result = one(file, out);
        }
    }
    let (mut kept, mut failed) = (Vec::new(), Vec::new());
    for (number, result) in results.into_iter().enumerate() {
        match result {
            Ok(()) => {
                values.copy_within(number * length..(number + 1) * length, kept.len() * length);
                kept.push(number);
            }
            Err(error @ Error::Input(_)) => failed.push((number, error)),
            Err(other) => return Err(other),
        }
    }
    values.truncate(kept.len() * length);
    Ok(Batch { values: Reserved::new(values, memory), width, height, kept, failed })
}
