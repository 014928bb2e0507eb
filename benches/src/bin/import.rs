//! How fast is a 4 GB array imported into a checked store and scanned, within a budget of 200 MB?
//! Peer: NumPy copying the same file through a memory map and summing it, without any check.

use std::path::PathBuf;
use std::time::Instant;

use etalon::context::Context;
use etalon::error::{InputError, Result};
use etalon::input::{Source, open_rows};
use etalon::store::{ImportOptions, import};
use etalon_bench::answer;
use serde_json::json;

fn main() -> Result<()> {
    let file = std::env::args().nth(1).ok_or_else(|| InputError::new("name an .npy file"))?;
    let out = PathBuf::from(std::env::args().nth(2).ok_or_else(|| InputError::new("name a directory"))?);
    let context = Context::silent(0, 200_000_000)?;
    let began = Instant::now();
    let mut reader = open_rows(&Source::parse(&file)?, context.budget())?;
    let store = import(reader.as_mut(), &out, &ImportOptions::default(), &context)?;
    let imported = began.elapsed().as_secs_f64();
    let mut sum = 0.0f64;
    for first in (0..store.rows()).step_by(4096) {
        let tile = store.tile(first..(first + 4096).min(store.rows()))?;
        sum += tile.values.iter().map(|&value| f64::from(value)).sum::<f64>();
    }
    answer(began.elapsed().as_secs_f64(), &[("import_seconds", json!(imported)), ("sum", json!(sum))]);
    Ok(())
}
