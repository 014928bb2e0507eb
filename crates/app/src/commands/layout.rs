//! `etalon layout`.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::{InputError, Result};
use etalon::load::load_directions;
use etalon::store::{csv_text, disk, write_npy};
use etalon_kernel::neighbours::Distance;
use etalon_kernel::umap::{self, Embedding, UmapParams};
use serde_json::json;

use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Embeds rows in two dimensions.
pub fn run(args: &cli::Layout, console: &Console) -> Result<ExitCode> {
    let extension = args.out.extension().and_then(|extension| extension.to_str()).unwrap_or("").to_lowercase();
    if !["npy", "csv"].contains(&extension.as_str()) {
        return Err(InputError::new("unknown format of a layout")
            .expected("--out FILE.npy or --out FILE.csv")
            .file(&args.out)
            .into());
    }
    Paths::default().input("DIR_OR_ARRAY", &args.rows).output("--out", Some(&args.out)).check()?;
    disk::check_target(&args.out)?;
    let store = load_directions(&args.rows, console.budget())?;
    let (rows, width) = (store.rows(), store.width());
    let bytes = (rows as u64).saturating_mul(8 * width as u64 + 64 * args.neighbours as u64);
    let _memory = console.budget().reserve(bytes, format!("a map of {rows} rows of width {width}"))?;
    let tile = store.tile(0..rows)?;
    let params = UmapParams {
        neighbours: args.neighbours,
        min_dist: args.min_dist,
        epochs: args.epochs,
        seed: args.seed,
        distance: if args.metric == "euclidean" { Distance::Euclidean } else { Distance::Cosine },
    };
    let map = console.context.install(|| umap::layout(&tile.values, width, &params, &console.context))?;
    if extension == "npy" {
        write_npy(&args.out, rows, 2, |row, into| {
            into.copy_from_slice(&map.points[row]);
            Ok(())
        })?;
    } else {
        write_csv(&args.out, &map)?;
    }
    let trust = map.trustworthiness.map_or("undefined".into(), |value| format!("{value:.4}"));
    console.print(format!("layout: {} ({rows} points, trustworthiness {trust})", args.out.display()), || {
        json!({
            "layout": args.out, "method": "umap", "rows": rows, "width": width, "neighbours": args.neighbours,
            "min_dist": args.min_dist, "epochs": map.epochs, "metric": params.distance.name(), "seed": args.seed,
            "start": map.start.name(), "trustworthiness": map.trustworthiness,
            "trustworthiness_error": map.trustworthiness_error,
        })
    })?;
    Ok(ExitCode::SUCCESS)
}

fn write_csv(path: &Path, map: &Embedding) -> Result<()> {
    let header = ["row", "x", "y"].map(String::from);
    let points = map.points.iter().enumerate().map(|(row, [x, y])| [row.to_string(), x.to_string(), y.to_string()]);
    disk::write(path, csv_text([header].into_iter().chain(points))?.as_bytes())
}
