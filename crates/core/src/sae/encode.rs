//! A whole store through a dictionary, on all threads of the caller's pool, in row order.

use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use super::Dictionary;
use crate::codes::{Codes, CodesBuilder};
use crate::error::{Error, Result};
use crate::progress::Progress;
use crate::store::ActivationStore;

/// Rows that one thread encodes at a time.
const CHUNK: usize = 1024;

/// Chunks in flight: bounds memory, and is where the user can stop.
const WAVE: usize = 64;

/// The codes of every row of a store.
pub fn encode_store(
    dictionary: &dyn Dictionary,
    store: &ActivationStore,
    progress: &dyn Progress,
    cancel: &AtomicBool,
) -> Result<Codes> {
    let latents = dictionary.card().latents;
    let mut all = CodesBuilder::new(latents);
    progress.start("encoding", store.rows() as u64, "rows");
    let starts: Vec<usize> = (0..store.rows()).step_by(CHUNK).collect();
    for wave in starts.chunks(WAVE) {
        if cancel.load(Ordering::Relaxed) {
            return Err(Error::Cancelled);
        }
        let encode = |&first: &usize| {
            let tile = store.tile(first..(first + CHUNK).min(store.rows()))?;
            let mut part = CodesBuilder::new(latents);
            dictionary.encode(&tile, &mut part)?;
            progress.advance(tile.rows() as u64);
            Ok(part.finish())
        };
        let parts = wave.par_iter().map(encode).collect::<Result<Vec<Codes>>>()?;
        for part in &parts {
            for (_, latents, values) in part.all()?.iter() {
                all.push(latents, values)?;
            }
        }
    }
    progress.finish();
    Ok(all.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::random::{stream, unit};
    use crate::progress::Silent;
    use crate::sae::untrained;

    #[test]
    fn codes_do_not_depend_on_neighbours_or_threads() {
        let (rows, width) = (3000, 24);
        let mut random = stream(1, "encode test", 0);
        let values: Vec<f32> = (0..rows * width).map(|_| unit(&mut random) as f32 - 0.5).collect();
        let store = ActivationStore::from_rows(values.clone(), width).unwrap();
        let dictionary = untrained(&store, 100, 5, 0).unwrap();
        let encode = |store: &ActivationStore, threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            pool.install(|| encode_store(&dictionary, store, &Silent, &AtomicBool::new(false))).unwrap()
        };
        let whole = encode(&store, 1);
        assert_eq!(whole.id().unwrap(), encode(&store, 7).id().unwrap());
        let tail = ActivationStore::from_rows(values[1501 * width..].to_vec(), width).unwrap();
        let rest: Vec<usize> = (1501..rows).collect();
        assert_eq!(encode(&tail, 2).id().unwrap(), whole.select(&rest).unwrap().id().unwrap());
    }
}
