//! `etalon eval`.

use std::collections::BTreeMap;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::process::ExitCode;

use clap::ArgMatches;
use etalon::error::{Error, InputError, Result};
use etalon::load::Given;
use etalon::metrics::{METRICS, Metric, evaluate_together, recipe};
use etalon::report;
use etalon::results::Stored;
use etalon::run::SAE;
use etalon::store::disk;
use etalon::study::Set;
use serde::Serialize;
use serde_json::json;

use super::{find_metric, finite, from_network, load_inputs, profile, write_saebench};
use crate::cli;
use crate::console::Console;
use crate::outputs::Paths;

/// Evaluates one set of inputs with one or more metrics.
pub fn run(args: &cli::Eval, matches: Option<&ArgMatches>, console: &Console) -> Result<ExitCode> {
    let metrics = args.metrics.iter().map(|name| find_metric(name)).collect::<Result<Vec<_>>>()?;
    let given = given_params(&metrics, matches)?;
    let network = from_network::paths(&args.network);
    let paths = network.into_iter().fold(Paths::default(), |paths, (option, path)| paths.input(option, path));
    let paths = paths.inputs(args.inputs.given.paths(Path::new("")));
    paths.output("--out", args.out.as_ref()).output("--saebench", args.saebench.as_ref()).check()?;
    args.out.as_deref().map_or(Ok(()), disk::check_target)?;
    // Locks the cached capture until the end of the evaluation.
    let sae = args.inputs.given.first(SAE.card().key).map(Path::new);
    let captured = from_network::capture(&args.network, sae, &args.cache, console)?;
    let written = args.inputs.given.clone();
    let written = match &captured {
        Some(captured) => written.clone().captured(&from_network::inputs(captured, &written, &metrics, console)?),
        None => written,
    };
    let inputs = load_inputs(&written, finite(&args.nan), console)?;
    // Check all options and inputs before the first long computation.
    let recipes = metrics
        .iter()
        .map(|metric| {
            let mine = given.iter().filter(|(name, _)| declares(*metric, name));
            let mine = mine.map(|(name, value)| (name.clone(), value.clone())).collect();
            recipe(*metric, &inputs, &mine, profile(&args.profile), args.seed)
        })
        .collect::<Result<Vec<_>>>()?;
    let work: Vec<_> = metrics.into_iter().zip(recipes).collect();
    let results = evaluate_together(&work, &inputs, None, &console.context, |_, result| Ok(result));
    let results = results.into_iter().collect::<Result<Vec<_>>>()?;
    let name = name_of(&written);
    let mut about = Set::new(&name, inputs).about;
    about.insert("inputs".into(), json!(name));
    let stored = results.into_iter().map(|result| Stored::new(result, about.clone())).collect::<Result<Vec<_>>>()?;
    let json = if let [one] = &stored[..] { OneOrMore::One(one) } else { OneOrMore::More(&stored) };
    if let Some(out) = &args.out {
        let mut file = disk::NewFile::create(out)?;
        let mut buffer = BufWriter::with_capacity(1 << 16, &mut file);
        let written = serde_json::to_writer_pretty(&mut buffer, &json).map_err(std::io::Error::from);
        written.and_then(|()| writeln!(buffer)).and_then(|()| buffer.flush()).map_err(Error::io("write", out))?;
        drop(buffer);
        file.finish()?;
        console.wrote("results", out);
    }
    if let Some(out) = &args.saebench {
        write_saebench(out, &stored, console)?;
    }
    for stored in &stored {
        let metric = &stored.result.recipe.metric;
        stored.result.scores.notes.iter().for_each(|note| console.status(format!("note: {metric}: {note}")));
    }
    console.print_value(report::text_table(&stored), &json)?;
    Ok(ExitCode::SUCCESS)
}

/// The JSON of the results of one metric, or of several.
#[derive(Serialize)]
#[serde(untagged)]
enum OneOrMore<'a> {
    One(&'a Stored),
    More(&'a [Stored]),
}

/// The name of the inputs in tables: that of the dictionary, or of the file of codes.
fn name_of(given: &Given) -> String {
    let path = ["sae", "codes", "embeddings", "world"].into_iter().find_map(|key| given.first(key)).unwrap_or_default();
    Path::new(path).file_stem().map_or("codes".into(), |name| name.to_string_lossy().into_owned())
}

fn declares(metric: &dyn Metric, param: &str) -> bool {
    metric.card().params.iter().any(|other| other.name == param)
}

/// The metric options on the command line; refuses those that no chosen metric has.
fn given_params(metrics: &[&'static dyn Metric], matches: Option<&ArgMatches>) -> Result<BTreeMap<String, String>> {
    let mut given = BTreeMap::new();
    let Some(matches) = matches else { return Ok(given) };
    for param in METRICS.iter().flat_map(|metric| metric.card().params) {
        let Some(value) = matches.try_get_one::<String>(param.name).ok().flatten() else { continue };
        if !metrics.iter().any(|metric| declares(*metric, param.name)) {
            let owners: Vec<&str> =
                METRICS.iter().filter(|metric| declares(**metric, param.name)).map(|m| m.card().name).collect();
            return Err(InputError::new(format!(
                "none of these metrics has the option `--{}`",
                param.name.replace('_', "-")
            ))
            .expected(format!("this option with {}", owners.join(", ")))
            .advice("`etalon metrics NAME` lists the options of a metric")
            .into());
        }
        given.insert(param.name.to_string(), value.clone());
    }
    Ok(given)
}
