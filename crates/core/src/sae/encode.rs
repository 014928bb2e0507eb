//! Encodes a whole store with a dictionary: on all threads of the caller's pool, in row order, in bounded memory.

use std::path::Path;

use rayon::prelude::*;

use super::dictionary::{Dictionary, SaeCard};
use crate::codes::{Codes, CodesBuilder, CodesWriter};
use crate::context::{Context, Monitor, Reservation};
use crate::error::Result;
use crate::store::{ActivationStore, NpyWriter, Tile, disk};

/// Maximum rows that one thread encodes at a time; a multiple of the tile height of the encoder product.
const MAX_ROWS: usize = 960;

/// Minimum rows per chunk: smaller chunks would read the weights from memory too often.
const MIN_ROWS: usize = 48;

/// Maximum bytes of codes per chunk, if every latent that can fire does.
const CHUNK_BYTES: usize = 16 << 20;

/// Chunks per thread that are encoded together, before any of them reaches the sink.
const CHUNKS_PER_THREAD: usize = 2;

/// The number of rows per chunk. Codes do not depend on it.
fn chunk_rows(card: &SaeCard) -> usize {
    let entries = card.k.unwrap_or(card.latents).max(1);
    let rows = (CHUNK_BYTES / 8 / entries).clamp(MIN_ROWS, MAX_ROWS);
    if rows >= 96 { rows / 96 * 96 } else { rows / 12 * 12 }
}

/// Encodes a store chunk by chunk. `each` maps a chunk and its codes to a result, on any thread; `sink` receives the
/// results in row order while the next chunks are encoded.
fn encode_chunks<T: Send>(
    dictionary: &dyn Dictionary,
    store: &ActivationStore,
    context: &Context,
    each: impl Fn(&Tile<'_>, Codes) -> Result<T> + Sync,
    mut sink: impl FnMut(T) -> Result<()> + Send,
) -> Result<()> {
    let card = dictionary.card();
    let rows = chunk_rows(card);
    let starts: Vec<usize> = (0..store.rows()).step_by(rows).collect();
    let (chunks_at_once, _memory) = reserve_chunks(dictionary, rows.min(store.rows()), starts.len(), context)?;
    let encode = |&first: &usize| {
        context.check()?;
        let tile = store.tile(first..(first + rows).min(store.rows()))?;
        let mut codes = CodesBuilder::within(card.latents, context.budget());
        dictionary.encode(&tile, &mut codes)?;
        let result = each(&tile, codes.finish())?;
        context.advance(tile.rows() as u64);
        Ok(result)
    };
    context.start("encoding", store.rows() as u64, "rows");
    let mut pending: Vec<T> = Vec::new();
    for starts in starts.chunks(chunks_at_once) {
        let previous = std::mem::take(&mut pending);
        let (encoded, sunk) = context.install(|| {
            rayon::join(
                || starts.par_iter().map(encode).collect::<Result<Vec<T>>>(),
                || previous.into_iter().try_for_each(&mut sink),
            )
        });
        sunk?;
        pending = encoded?;
    }
    pending.into_iter().try_for_each(sink)?;
    context.finish();
    Ok(())
}

/// The number of chunks to encode together, and a reservation of the memory that they use besides their codes. Halves
/// the number of threads until the memory suffices.
fn reserve_chunks(
    dictionary: &dyn Dictionary,
    rows: usize,
    chunks: usize,
    context: &Context,
) -> Result<(usize, Reservation)> {
    let bytes = dictionary.encode_memory(rows);
    let max_threads = context.threads().min(chunks).max(1);
    let mut threads = max_threads;
    loop {
        let purpose = format!("encoding {rows} rows on each of {threads} threads");
        match context.budget().reserve(bytes.saturating_mul(threads as u64), purpose) {
            Ok(memory) if threads == max_threads => return Ok((CHUNKS_PER_THREAD * threads, memory)),
            Ok(memory) => return Ok((threads, memory)),
            Err(error) if threads == 1 => return Err(error),
            Err(_) => threads /= 2,
        }
    }
}

/// Encodes every row of a store; the codes stay in memory.
pub fn encode_store(dictionary: &dyn Dictionary, store: &ActivationStore, context: &Context) -> Result<Codes> {
    let mut all = CodesBuilder::within(dictionary.card().latents, context.budget());
    encode_chunks(dictionary, store, context, |_, codes| Ok(codes), |codes| all.append(codes.all()?))?;
    Ok(all.finish())
}

/// The size of codes that [`encode_to_disk`] wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// Number of rows.
    pub rows: usize,
    /// Number of latents.
    pub latents: usize,
    /// Number of nonzero entries.
    pub entries: usize,
}

/// The output of codes: a directory in Etalon's format, a dense array, or a sparse array, which is written at the end.
enum Target {
    Directory(Box<CodesWriter>),
    Array(NpyWriter),
    Sparse(Box<CodesBuilder>),
}

/// Encodes every row of a store to disk: to a directory, to a dense array if `out` ends in `.npy`, or to a sparse array of
/// scipy if it ends in `.npz`; the codes of a sparse array must fit in memory. Also writes reconstructions if `reconstruction` names a file.
pub fn encode_to_disk(
    dictionary: &dyn Dictionary,
    store: &ActivationStore,
    out: &Path,
    reconstruction: Option<&Path>,
    context: &Context,
) -> Result<Encoded> {
    let (latents, width) = (dictionary.card().latents, dictionary.card().output_width());
    let mut target = match out.extension().and_then(|end| end.to_str()) {
        Some("npy") => Target::Array(NpyWriter::create(out, store.rows(), latents)?),
        Some("npz") => {
            disk::check_target(out)?;
            Target::Sparse(Box::new(CodesBuilder::within(latents, context.budget())))
        }
        _ => Target::Directory(Box::new(CodesWriter::create(out, latents)?)),
    };
    let mut reconstructions = reconstruction.map(|file| NpyWriter::create(file, store.rows(), width)).transpose()?;
    let mut encoded = Encoded { rows: store.rows(), latents, entries: 0 };
    let decode = reconstructions.is_some();
    encode_chunks(
        dictionary,
        store,
        context,
        |tile, codes| {
            let mut rows = vec![0.0; if decode { tile.rows() * width } else { 0 }];
            if decode {
                dictionary.decode(&codes.all()?, Some(tile), &mut rows)?;
            }
            Ok((codes, rows))
        },
        |(codes, rows)| {
            encoded.entries += codes.entries();
            match &mut target {
                Target::Directory(writer) => writer.append(codes.all()?)?,
                Target::Array(writer) => append_dense(writer, &codes)?,
                Target::Sparse(builder) => builder.append(codes.all()?)?,
            }
            reconstructions.as_mut().map_or(Ok(()), |writer| writer.append(&rows))
        },
    )?;
    match target {
        Target::Directory(writer) => writer.finish().map(drop)?,
        Target::Array(writer) => writer.finish()?,
        Target::Sparse(builder) => builder.finish().save_npz(out)?,
    }
    reconstructions.map_or(Ok(()), NpyWriter::finish)?;
    Ok(encoded)
}

/// Appends codes as dense rows, one at a time.
fn append_dense(writer: &mut NpyWriter, codes: &Codes) -> Result<()> {
    let mut dense = vec![0.0; codes.latents()];
    for (_, latents, values) in codes.all()?.iter() {
        latents.iter().zip(values).for_each(|(&latent, &value)| dense[latent as usize] = value);
        writer.append(&dense)?;
        latents.iter().for_each(|&latent| dense[latent as usize] = 0.0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Budget;
    use crate::input::{Finite, Source, read_rows, read_sparse};
    use crate::sae::untrained;
    use etalon_kernel::random::{stream, unit};

    fn example(rows: usize, width: usize) -> Vec<f32> {
        let mut random = stream(1, "encode test", 0);
        (0..rows * width).map(|_| unit(&mut random) as f32 - 0.5).collect()
    }

    #[test]
    fn codes_do_not_depend_on_neighbours_or_threads() {
        let (rows, width) = (3000, 24);
        let values = example(rows, width);
        let store = ActivationStore::from_rows(values.clone(), width).unwrap();
        let dictionary = untrained(&store, 100, 5, 0).unwrap();
        let encode = |store: &ActivationStore, threads| {
            encode_store(&dictionary, store, &Context::silent(threads, 1 << 24).unwrap()).unwrap()
        };
        let whole = encode(&store, 1);
        assert_eq!(whole.id().unwrap(), encode(&store, 7).id().unwrap());
        let tail = ActivationStore::from_rows(values[1501 * width..].to_vec(), width).unwrap();
        let rest: Vec<usize> = (1501..rows).collect();
        assert_eq!(encode(&tail, 2).id().unwrap(), whole.select(&rest).unwrap().id().unwrap());
    }

    #[test]
    fn written_codes_equal_codes_in_memory() {
        let (rows, width) = (2100, 8);
        let store = ActivationStore::from_rows(example(rows, width), width).unwrap();
        let dictionary = untrained(&store, 40, 3, 0).unwrap();
        let context = Context::silent(2, 1 << 24).unwrap();
        let codes = encode_store(&dictionary, &store, &context).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (own, dense, reconstruction) = ("own", "codes.npy", "back.npy");
        let path = |name: &str| directory.path().join(name);
        let written = encode_to_disk(&dictionary, &store, &path(own), Some(&path(reconstruction)), &context).unwrap();
        assert_eq!(written, Encoded { rows, latents: 40, entries: codes.entries() });
        assert_eq!(Codes::open(&path(own)).unwrap().id().unwrap(), codes.id().unwrap());
        encode_to_disk(&dictionary, &store, &path(dense), None, &context).unwrap();
        let read = |name: &str| {
            let source = Source { path: path(name), key: None };
            read_rows(&source, Finite::Refuse, &Budget::new(1 << 24)).unwrap()
        };
        encode_to_disk(&dictionary, &store, &path("codes.npz"), None, &context).unwrap();
        let source = Source { path: path("codes.npz"), key: None };
        let sparse = read_sparse(&source, &Budget::new(1 << 24)).unwrap().unwrap();
        assert_eq!((sparse.rows, sparse.columns, sparse.values.len()), (rows, 40, codes.entries()));
        let array = read(dense);
        assert_eq!((array.rows, array.width), (rows, 40));
        assert_eq!(Codes::from_dense(&array.values, 40).unwrap().id().unwrap(), codes.id().unwrap());
        let mut expected = vec![0.0; rows * width];
        dictionary.decode(&codes.all().unwrap(), None, &mut expected).unwrap();
        assert_eq!(read(reconstruction).values, expected);

        // A cancelled run leaves nothing under the final names.
        context.cancel();
        let stopped = encode_to_disk(&dictionary, &store, &path("no"), Some(&path("no.npy")), &context);
        assert!(matches!(stopped, Err(crate::error::Error::Cancelled)));
        assert!(!path("no.npy").exists() && Codes::open(&path("no")).is_err());
    }

    #[test]
    fn chunks_are_bounded_by_what_can_fire() {
        let card = |latents, k| SaeCard::new("test".into(), 8, latents, k);
        assert_eq!(chunk_rows(&card(1 << 20, Some(64))), 960);
        assert_eq!(chunk_rows(&card(1 << 14, None)), 96);
        assert_eq!(chunk_rows(&card(1 << 20, None)), 48);
        assert_eq!(chunk_rows(&card(10, None)), 960);
    }
}
