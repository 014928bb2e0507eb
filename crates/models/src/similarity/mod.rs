//! Distances of images: LPIPS, DISTS, and the cosine of activations.
//!
//! Every image becomes a vector. LPIPS is the squared Euclidean distance of these vectors, a cosine their product, so
//! they can be stored and compared later; DISTS compares features channel by channel and is written as distances only.

mod distances;
mod images;
mod measure;
mod request;

use std::path::{Path, PathBuf};

use etalon::context::{Context, Reserved};
use etalon::error::{Error, InputError, Key, Result};
use etalon::input::RowReader;
use etalon::store::{ActivationStore, ImportOptions, csv_text, disk, import};

pub use request::{MeasureKind, SimilarityRequest};

use distances::Pairs;
use images::{Listed, Vectors};
use measure::Measure;

/// What was compared.
#[derive(Clone, Debug)]
pub struct Similarities {
    /// Number of images that were read.
    pub images: usize,
    /// Height and width of the prepared images.
    pub size: [usize; 2],
    /// Values per vector.
    pub width: usize,
    /// The table with the id of every row.
    pub ids: Option<PathBuf>,
    /// What to tell the user.
    pub notes: Vec<String>,
}

/// Compares images, and writes what the request asks for.
pub fn similarity(request: &SimilarityRequest, context: &Context) -> Result<Similarities> {
    if request.store.is_none() && request.distances.is_none() && request.pairs.is_none() {
        return Err(InputError::new("nothing to write")
            .expected(format!("{} or {}", Key("out DIR"), Key("distances FILE.npy")))
            .into());
    }
    let files = request.distances.iter().chain(request.pairs.iter().map(|(_, out)| out));
    files.clone().try_for_each(|path| disk::check_target(path))?;
    let (measure, preprocess) = Measure::open(request, context)?;
    let listed = Listed::read(request, &preprocess, context)?;
    if request.distances.is_some() {
        distances::check_count(listed.ids.len())?;
    }
    let size = [listed.height, listed.width];
    let pairs = request.pairs.as_ref().map(|(path, _)| Pairs::read(path, &listed.ids, context)).transpose()?;
    let wanted = match &pairs {
        Some(pairs) if request.store.is_none() && request.distances.is_none() => pairs.used(),
        _ => (0..listed.ids.len()).collect(),
    };
    let mut vectors = Vectors::new(request, (&measure, &preprocess), &listed, &wanted, context)?;
    let width = vectors.shape().width;
    let store = match &request.store {
        Some(out) => import(&mut vectors, out, &ImportOptions::default(), context)?,
        None => in_memory(&mut vectors, context)?,
    };
    drop(vectors);
    let ids = request.store.as_ref().or(request.distances.as_ref()).map(|path| beside(path));
    if let Some(path) = &ids {
        let header = ["row", "id"].map(String::from);
        let rows = listed.ids.iter().enumerate().map(|(row, id)| [row.to_string(), id.clone()]);
        disk::write(path, csv_text(std::iter::once(header).chain(rows))?.as_bytes())?;
    }
    if let Some(path) = &request.distances {
        distances::matrix(&store, &measure, size, path, context)?;
    }
    if let (Some(pairs), Some((_, out))) = (&pairs, &request.pairs) {
        pairs.write(&store, &measure, size, out, context)?;
    }
    Ok(Similarities { images: listed.ids.len(), size, width, ids, notes: listed.notes })
}

/// The vectors in memory.
fn in_memory(vectors: &mut Vectors<'_>, context: &Context) -> Result<ActivationStore> {
    use etalon::context::Monitor;
    let shape = vectors.shape();
    let bytes = (shape.rows as u64).saturating_mul(4 * shape.width as u64);
    if bytes > context.budget().left() {
        return Err(InputError::new("the vectors of all images do not fit into memory")
            .expected(format!("at most {} MB", context.budget().left() >> 20))
            .found(format!("{} images of {} values: {} MB", shape.rows, shape.width, bytes >> 20))
            .advice(format!(
                "make the images smaller with {}, raise {}, or let LPIPS and cosines keep the vectors in a store with {}",
                Key("size 64"),
                Key("memory"),
                Key("out DIR")
            ))
            .into());
    }
    let memory = context.budget().reserve(bytes, "the vectors of all images")?;
    let mut values = vec![0f32; shape.rows * shape.width];
    let mut done = 0;
    context.start("running the network", shape.rows as u64, "images");
    let filled = loop {
        let read = values.get_mut(done * shape.width..).map_or(Ok(0), |left| vectors.read(left));
        match read {
            Ok(0) => break Ok(()),
            Ok(rows) => {
                done += rows;
                context.advance(rows as u64);
            }
            Err(error) => break Err(error),
        }
    };
    context.finish();
    filled?;
    if done < shape.rows {
        return Err(Error::Bug(format!("vectors of {done} of {} images", shape.rows)));
    }
    ActivationStore::from_reserved(Reserved::new(values, memory), shape.width)
}

/// The table of ids of an output.
fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".images.csv");
    path.with_file_name(name)
}
