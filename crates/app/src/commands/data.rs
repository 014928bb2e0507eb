//! `etalon data`: generates worlds and converts data sets.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use etalon::error::{InFile, InputError, Result};
use etalon::input::{self, Source};
use etalon::labels::worlds::{self, WORLDS};
use etalon::load;
use etalon::store::{self, ImportOptions};
use serde_json::json;

use super::finite;
use crate::cli;
use crate::console::Console;

/// Data sets that are converted from files.
const DATA_SETS: [(&str, &str); 8] = [
    ("array", "Array file of any size, to a store: --from X.npy"),
    ("cub", "Attributes and splits of CUB-200-2011: --from DIRECTORY"),
    ("coco", "Object classes of COCO: --from instances_val2017.json"),
    ("syncub", "Pairs and attributes of synCUB: --from DIRECTORY"),
    ("syncoco", "Pairs and classes of synCOCO: --from DIRECTORY"),
    (
        "dsprites-file",
        "Images, factors, concepts and task of dSprites: --from dsprites_ndarray_....npz [--variant code]",
    ),
    ("3dshapes-file", "The same of 3dshapes, after a conversion to .npz (docs/purity.md): --from 3dshapes.npz"),
    ("words", "Words of a vocabulary, their first letters, and prompts: --from tokenizer.json"),
];

/// Generates a world or converts a data set.
pub fn run(args: &cli::Data, matches: Option<&ArgMatches>, console: &Console) -> Result<ExitCode> {
    let (Some(name), Some(out)) = (&args.name, &args.out) else {
        list(console)?;
        return Ok(ExitCode::SUCCESS);
    };
    let given = given_settings(matches);
    if let Some(maker) = worlds::find(name) {
        if args.from.is_some() {
            return Err(InputError::new(format!("the world `{name}` is generated, not converted from files"))
                .advice("remove --from")
                .into());
        }
        let world = worlds::make(maker.card().name, &given, args.seed, &console.context)?;
        load::save_world(&world, &given, args.seed, out, &console.context)?;
        console.print(
            format!("world: {} ({} rows)", out.display(), world.activations.rows()),
            || json!({"world": out, "rows": world.activations.rows(), "width": world.activations.width()}),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    if !DATA_SETS.iter().any(|(other, _)| other == name) {
        let names: Vec<&str> =
            WORLDS.iter().map(|world| world.card().name).chain(DATA_SETS.map(|(name, _)| name)).collect();
        return Err(InputError::new(format!("there is no world or data set `{name}`"))
            .advice("`etalon data --list` describes all")
            .one_of(name, &names)
            .into());
    }
    let mut given = given;
    let written = if load::is_factor_file(name) { given.remove("variant") } else { None };
    let variant = match written {
        Some(written) => load::TaskVariant::find(&written).ok_or_else(|| {
            InputError::new("invalid value for `--variant`")
                .expected(load::TaskVariant::NAMES.join(" | "))
                .found(format!("`{written}`"))
                .advice("task labels of the paper, or of the released program")
        })?,
        None => load::TaskVariant::default(),
    };
    if let Some(setting) = given.keys().next() {
        return Err(InputError::new(format!("the data set `{name}` has no setting `{setting}`"))
            .advice("settings belong to worlds; `etalon data --list` shows which")
            .into());
    }
    let from = args.from.as_deref().ok_or_else(|| {
        InputError::new(format!("`--from` is required for `{name}`"))
            .advice("pass the directory or file of the data set")
    })?;
    match name.as_str() {
        "array" => import_array(from, out, &args.nan, console),
        _ => convert(name, from, out, (args.seed, variant), console),
    }
}

/// The world settings on the command line.
fn given_settings(matches: Option<&ArgMatches>) -> BTreeMap<String, String> {
    let mut given = BTreeMap::new();
    for setting in WORLDS.iter().flat_map(|world| world.card().settings) {
        let value = matches.and_then(|matches| matches.try_get_one::<String>(setting.name).ok().flatten());
        if let Some(value) = value {
            given.insert(setting.name.to_string(), value.clone());
        }
    }
    given
}

fn list(console: &Console) -> Result<()> {
    let mut text = String::from("Worlds (generated, with known truth):\n");
    for world in WORLDS {
        text += &format!("  {:<15} {}\n", world.card().name, world.card().summary);
        for setting in world.card().settings {
            text += &format!("    --{:<13} {} [default: {}]\n", setting.name, setting.doc, setting.default);
        }
    }
    text += "Data sets (converted from downloaded files):\n";
    DATA_SETS.iter().for_each(|(name, summary)| text += &format!("  {name:<15} {summary}\n"));
    let names: Vec<&str> = WORLDS.iter().map(|world| world.card().name).collect();
    console.print(text.trim_end(), || json!({"worlds": names, "data_sets": DATA_SETS.map(|(name, _)| name)}))
}

fn import_array(from: &Path, out: &Path, nan: &str, console: &Console) -> Result<ExitCode> {
    let source = Source::parse(&from.to_string_lossy())?;
    let mut reader = input::open_rows(&source, console.budget())?;
    let rows = reader.shape().rows;
    console.status(format!("reading {}", reader.kind()));
    let options = ImportOptions { finite: finite(nan), ..ImportOptions::default() };
    let store = store::import(reader.as_mut(), out, &options, &console.context).in_file(&source.path)?;
    let dropped = rows - store.rows();
    if dropped > 0 {
        console.status(format!("note: {dropped} of {rows} rows with NaN or infinity were dropped"));
    }
    console.print(
        format!("store: {} ({} rows of {})", out.display(), store.rows(), store.width()),
        || json!({"store": out, "rows": store.rows(), "width": store.width(), "dropped_rows": dropped}),
    )?;
    Ok(ExitCode::SUCCESS)
}

fn convert(
    name: &str,
    from: &Path,
    out: &Path,
    (seed, variant): (u64, load::TaskVariant),
    console: &Console,
) -> Result<ExitCode> {
    let written = match load::is_factor_file(name) {
        true => load::convert_factor_file(name, from, out, variant, &console.context)?,
        false => load::convert_data_set(name, from, out, seed, console.budget())?,
    };
    let what = if name == "words" { "words" } else { "images" };
    console.print(
        format!("{}: {} {what}, {} concepts", out.display(), written.images, written.concepts),
        || json!({"directory": out, "images": written.images, "concepts": written.concepts}),
    )?;
    Ok(ExitCode::SUCCESS)
}
