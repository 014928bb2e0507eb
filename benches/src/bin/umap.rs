//! How long does a map of 32,000 directions of width 768 take (15 neighbours, 200 epochs), and how trustworthy is it?
//! Peer: umap-learn with all cores and without a seed, its fastest setting, warmed up, on the very same numbers.

use std::sync::atomic::AtomicBool;

use etalon::error::Result;
use etalon::kernel::umap::{Options, layout};
use etalon::progress::Silent;
use etalon_bench::{answer, best_seconds};
use serde_json::json;

const WIDTH: usize = 768;

/// A number between −0.5 and 0.5 that depends on nothing but its place; the peer makes the same.
fn number(place: u64) -> f32 {
    let mut bits = place.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

/// Directions in families of families: 40 wide ones, 1,000 narrow ones, and noise of their own.
fn directions(rows: usize) -> Vec<f32> {
    let part = |row: u64, column: u64| {
        let wide = number((row % 40) * WIDTH as u64 + column);
        let narrow = number((1000 + row % 1000) * WIDTH as u64 + column);
        0.5 * wide + 0.7 * narrow + number((10_000 + row) * WIDTH as u64 + column)
    };
    (0..rows as u64).flat_map(|row| (0..WIDTH as u64).map(move |column| part(row, column))).collect()
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(32_000);
    let rows = directions(count);
    let mut map = None;
    let options = Options { epochs: Some(200), ..Options::default() };
    let seconds = best_seconds(2, || {
        map = Some(layout(&rows, WIDTH, &options, &Silent, &AtomicBool::new(false))?);
        Ok(())
    })?;
    let trust = map.as_ref().and_then(|map| map.trustworthiness);
    let start = map.as_ref().map(|map| map.start.name());
    answer(seconds, &[("rows", json!(count)), ("trustworthiness", json!(trust)), ("start", json!(start))]);
    Ok(())
}
