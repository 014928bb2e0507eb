//! How long does a map of 32,000 directions of width 768 take (15 neighbours, 200 epochs), and how trustworthy is it?
//! Peer: umap-learn with all cores and without a seed, its fastest setting, after a warm-up, on the same data.

use etalon::error::Result;
use etalon_bench::{answer, best_seconds};
use etalon_kernel::monitor::Silent;
use etalon_kernel::umap::{UmapParams, layout};
use serde_json::json;

const WIDTH: usize = 768;

/// A pseudo-random number between −0.5 and 0.5 from an index; the peer computes the same.
fn number(index: u64) -> f32 {
    let mut bits = index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((bits ^ (bits >> 31)) >> 40) as f32 / (1u64 << 24) as f32 - 0.5
}

/// The family of a row.
fn family(row: u64, kind: u64, families: u64) -> u64 {
    ((number(row + (kind << 40)) + 0.5) * families as f32) as u64
}

/// Directions that belong to one of 200 wide families and one of 3,000 narrow ones, plus individual noise.
fn directions(rows: usize) -> Vec<f32> {
    let width = WIDTH as u64;
    let row = |row: u64| {
        let (wide, narrow) = (family(row, 1, 200), family(row, 2, 3000));
        let part = move |column: u64| {
            let own = number((10_000 + row) * width + column);
            0.45 * number(wide * width + column) + 0.45 * number((1000 + narrow) * width + column) + own
        };
        (0..width).map(part)
    };
    (0..rows as u64).flat_map(row).collect()
}

fn main() -> Result<()> {
    let count = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(32_000);
    let rows = directions(count);
    let mut map = None;
    let params = UmapParams { epochs: Some(200), ..UmapParams::default() };
    let seconds = best_seconds(2, || {
        map = Some(layout(&rows, WIDTH, &params, &Silent).map_err(etalon::error::Error::from)?);
        Ok(())
    })?;
    let trust = map.as_ref().and_then(|map| map.trustworthiness);
    let start = map.as_ref().map(|map| map.start.name());
    answer(seconds, &[("rows", json!(count)), ("trustworthiness", json!(trust)), ("start", json!(start))]);
    Ok(())
}
