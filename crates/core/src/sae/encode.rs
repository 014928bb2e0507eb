//! A whole store through a dictionary, on all threads of the caller's pool, in row order and in bounded memory.

use std::path::Path;

use rayon::prelude::*;

use super::dictionary::{Dictionary, SaeCard};
use crate::codes::{Codes, CodesBuilder, CodesWriter};
use crate::context::{Context, Monitor, Reservation};
use crate::error::Result;
use crate::store::{ActivationStore, NpyWriter, Tile};

/// Rows that one thread encodes at a time, at most; a multiple of what passes through a dictionary together.
const MOST_ROWS: usize = 960;

/// Fewer rows than this would fetch the weights too often.
const FEWEST_ROWS: usize = 48;

/// Bytes of codes that a chunk may have if every latent that can fire does.
const CHUNK_BYTES: usize = 16 << 20;

/// Chunks per thread that are encoded before any of them is passed on.
const CHUNKS_PER_THREAD: usize = 2;

/// How many rows a chunk has. Codes do not depend on it.
fn chunk_rows(card: &SaeCard) -> usize {
    let entries = card.k.unwrap_or(card.latents).max(1);
    let rows = (CHUNK_BYTES / 8 / entries).clamp(FEWEST_ROWS, MOST_ROWS);
    if rows >= 96 { rows / 96 * 96 } else { rows / 12 * 12 }
}

/// Encodes chunk after chunk. `each` sees a chunk with its codes on some thread; `sink` gets what it made, in row order,
/// while the next chunks are encoded.
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
    let (wave, _memory) = wave(dictionary, rows.min(store.rows()), starts.len(), context)?;
    let encode = |&first: &usize| {
        context.check()?;
        let tile = store.tile(first..(first + rows).min(store.rows()))?;
        let mut codes = CodesBuilder::within(card.latents, context.budget());
        dictionary.encode(&tile, &mut codes)?;
        let made = each(&tile, codes.finish())?;
        context.advance(tile.rows() as u64);
        Ok(made)
    };
    context.start("encoding", store.rows() as u64, "rows");
    let mut waiting: Vec<T> = Vec::new();
    for wave in starts.chunks(wave) {
        let before = std::mem::take(&mut waiting);
        let (made, passed) = context.install(|| {
            rayon::join(
                || wave.par_iter().map(encode).collect::<Result<Vec<T>>>(),
                || before.into_iter().try_for_each(&mut sink),
            )
        });
        passed?;
        waiting = made?;
    }
    waiting.into_iter().try_for_each(sink)?;
    context.finish();
    Ok(())
}

/// How many chunks are encoded together, and the memory that they use beside their codes. Little memory means fewer
/// threads.
fn wave(dictionary: &dyn Dictionary, rows: usize, chunks: usize, context: &Context) -> Result<(usize, Reservation)> {
    let bytes = dictionary.encode_memory(rows);
    let most = context.threads().min(chunks).max(1);
    let mut threads = most;
    loop {
        let what = || format!("{threads} times {rows} rows on their way through a dictionary");
        match context.budget().reserve(bytes.saturating_mul(threads as u64), what()) {
            Ok(memory) if threads == most => return Ok((CHUNKS_PER_THREAD * threads, memory)),
            Ok(memory) => return Ok((threads, memory)),
            Err(error) if threads == 1 => return Err(error),
            Err(_) => threads /= 2,
        }
    }
}

/// The codes of every row of a store, in memory.
pub fn encode_store(dictionary: &dyn Dictionary, store: &ActivationStore, context: &Context) -> Result<Codes> {
    let mut all = CodesBuilder::within(dictionary.card().latents, context.budget());
    encode_chunks(dictionary, store, context, |_, codes| Ok(codes), |codes| all.append(codes.all()?))?;
    Ok(all.finish())
}

/// What was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// How many rows there are.
    pub rows: usize,
    /// How many latents there are.
    pub latents: usize,
    /// How many entries are not zero.
    pub entries: usize,
}

/// Where codes go: a directory of ours or a dense array.
enum Target {
    Directory(Box<CodesWriter>),
    Array(NpyWriter),
}

/// Writes the codes of every row while they are made: to a directory, or to a dense array if `out` ends in `.npy`. Wants
/// reconstructions too if they have a file to go to.
pub fn encode_to_disk(
    dictionary: &dyn Dictionary,
    store: &ActivationStore,
    out: &Path,
    reconstruction: Option<&Path>,
    context: &Context,
) -> Result<Encoded> {
    let (latents, width) = (dictionary.card().latents, dictionary.card().output_width());
    let mut target = match out.extension().is_some_and(|end| end == "npy") {
        true => Target::Array(NpyWriter::create(out, store.rows(), latents)?),
        false => Target::Directory(Box::new(CodesWriter::create(out, latents)?)),
    };
    let mut back = reconstruction.map(|file| NpyWriter::create(file, store.rows(), width)).transpose()?;
    let mut encoded = Encoded { rows: store.rows(), latents, entries: 0 };
    let wanted = back.is_some();
    encode_chunks(
        dictionary,
        store,
        context,
        |tile, codes| {
            let mut rows = vec![0.0; if wanted { tile.rows() * width } else { 0 }];
            if wanted {
                dictionary.decode(&codes.all()?, Some(tile), &mut rows)?;
            }
            Ok((codes, rows))
        },
        |(codes, rows)| {
            encoded.entries += codes.entries();
            match &mut target {
                Target::Directory(writer) => writer.append(codes.all()?)?,
                Target::Array(writer) => append_dense(writer, &codes)?,
            }
            back.as_mut().map_or(Ok(()), |back| back.append(&rows))
        },
    )?;
    match target {
        Target::Directory(writer) => writer.finish().map(drop)?,
        Target::Array(writer) => writer.finish()?,
    }
    back.map_or(Ok(()), NpyWriter::finish)?;
    Ok(encoded)
}

/// One row of the width of the dictionary at a time.
fn append_dense(writer: &mut NpyWriter, codes: &Codes) -> Result<()> {
    let mut line = vec![0.0; codes.latents()];
    for (_, latents, values) in codes.all()?.iter() {
        latents.iter().zip(values).for_each(|(&latent, &value)| line[latent as usize] = value);
        writer.append(&line)?;
        latents.iter().for_each(|&latent| line[latent as usize] = 0.0);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::Budget;
    use crate::input::{Finite, Source, read_rows};
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
    fn what_is_written_is_what_is_in_memory() {
        let (rows, width) = (2100, 8);
        let store = ActivationStore::from_rows(example(rows, width), width).unwrap();
        let dictionary = untrained(&store, 40, 3, 0).unwrap();
        let context = Context::silent(2, 1 << 24).unwrap();
        let codes = encode_store(&dictionary, &store, &context).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let (own, dense, back) = ("own", "codes.npy", "back.npy");
        let at = |name: &str| directory.path().join(name);
        let written = encode_to_disk(&dictionary, &store, &at(own), Some(&at(back)), &context).unwrap();
        assert_eq!(written, Encoded { rows, latents: 40, entries: codes.entries() });
        assert_eq!(Codes::open(&at(own)).unwrap().id().unwrap(), codes.id().unwrap());
        encode_to_disk(&dictionary, &store, &at(dense), None, &context).unwrap();
        let read = |name: &str| {
            let source = Source { path: at(name), key: None };
            read_rows(&source, Finite::Refuse, &Budget::new(1 << 24)).unwrap()
        };
        let array = read(dense);
        assert_eq!((array.rows, array.width), (rows, 40));
        assert_eq!(Codes::from_dense(&array.values, 40).unwrap().id().unwrap(), codes.id().unwrap());
        let mut expected = vec![0.0; rows * width];
        dictionary.decode(&codes.all().unwrap(), None, &mut expected).unwrap();
        assert_eq!(read(back).values, expected);

        // Stopped half-way, nothing is left under the final names.
        context.cancel();
        let stopped = encode_to_disk(&dictionary, &store, &at("no"), Some(&at("no.npy")), &context);
        assert!(matches!(stopped, Err(crate::error::Error::Cancelled)));
        assert!(!at("no.npy").exists() && Codes::open(&at("no")).is_err());
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
