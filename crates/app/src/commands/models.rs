//! `etalon models`.

use std::process::ExitCode;

use etalon::error::Result;
use etalon::network::{Site, find_sites};
use etalon_models::weights::NetworkOptions;
use etalon_models::{FamilyCard, MEASURES, MeasureCard, families, family_cards, open_network};
use serde_json::{Value, json};

use crate::cli;
use crate::console::Console;

/// Lists families, or describes a network and its sites.
pub fn run(args: &cli::Models, console: &Console) -> Result<ExitCode> {
    let Some(model) = &args.model else {
        list(console)?;
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
        let (before, aliases) = (before(site), site.aliases.join(", "));
        format!("{:<40} {:>6}  {:<8}  {before:<14}  {aliases}", site.name, site.width, site.rows.name())
            .trim_end()
            .to_string()
    };
    let size = match card.vocabulary {
        0 => format!("images of {0} × {0} pixels", card.context),
        vocabulary => format!("{} tokens of context, vocabulary of {vocabulary}", card.context),
    };
    let text = format!(
        "{}: {} parameters, {} layers, width {}, {size} ({})\n\n{:<40} {:>6}  {:<8}  {:<14}  equivalent names\n{}",
        card.family,
        card.parameters,
        card.layers,
        card.width,
        card.weights,
        "site",
        "width",
        "rows",
        "",
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

/// The formats of weights.
const FORMATS: &str = "a directory of Hugging Face (safetensors or torch files, in one piece or in shards), a file of timm or \
                       torchvision (.safetensors, .pth), GGUF, TensorFlow.js, llama2.c";

/// Lists families with their sites, and distances of images.
fn list(console: &Console) -> Result<()> {
    let cards = family_cards();
    let mut text = String::from("Families and their sites; N is a number:\n");
    for FamilyCard { names, kind, sites } in &cards {
        text += &format!("\n{}: {kind}\n", names.join(", "));
        for site in sites {
            let (before, aliases) = (before(site), site.aliases.join(", "));
            let line = format!("  {:<42} {:<8}  {before:<14}  {aliases}", site.name, site.rows.name());
            text += &format!("{}\n", line.trim_end());
        }
    }
    text += "\nDistances of images (`etalon similarity --measure`):\n\n";
    for measure in MEASURES {
        text += &format!("  {:<9} {}: {}\n", measure.name, measure.network, measure.sites);
    }
    text += &format!(
        "\nFormats: {FORMATS}.\n\n\
         `etalon models MODEL` describes a network and its sites. `etalon fetch --list` lists packaged models."
    );
    console.print(text, || {
        let group = |card: &FamilyCard| {
            json!({"families": card.names, "kind": card.kind, "sites": card.sites.iter().map(general).collect::<Vec<_>>()})
        };
        let measure = |card: &MeasureCard| json!({"name": card.name, "network": card.network, "sites": card.sites});
        json!({
            "families": families().collect::<Vec<_>>(), "groups": cards.iter().map(group).collect::<Vec<_>>(),
            "measures": MEASURES.iter().map(measure).collect::<Vec<_>>(), "formats": FORMATS,
        })
    })
}

/// A site of a family: its width depends on the network.
fn general(site: &Site) -> Value {
    let mut value = describe(site);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("width");
    }
    value
}

/// A mark of inputs of activation functions.
fn before(site: &Site) -> &'static str {
    if site.before_activation { "pre-activation" } else { "" }
}

fn describe(site: &Site) -> Value {
    json!({
        "name": site.name, "aliases": site.aliases, "width": site.width, "rows": site.rows.name(),
        "before_activation": site.before_activation,
    })
}
