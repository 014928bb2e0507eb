//! `etalon generate`.

use std::process::ExitCode;

use etalon::codes::Latent;
use etalon::error::{InFile, InputError, Result};
use etalon::network::{
    Edit, Generation, LanguageModel, LatentEdit, LatentPatch, Message, Network, Patch, Tap, Untouched, find_sites,
};
use etalon::sae::checkpoint::{self, Loaded};
use etalon_models::data::resolve;
use etalon_models::language::Decoder;
use etalon_models::text::{Special, Tokenizer};
use etalon_models::weights::NetworkOptions;
use etalon_models::{open_language_with, open_tokenizer};
use serde_json::json;

use super::from_network;
use crate::cli;
use crate::console::Console;

/// Continues a prompt.
pub fn run(args: &cli::Generate, console: &Console) -> Result<ExitCode> {
    let path = resolve(&args.model, args.cache.as_deref())?;
    let context = &console.context;
    let options = NetworkOptions {
        processing: from_network::processing(args.processing, args.sae.as_deref(), console)?,
        numbers: args.weights.parse().unwrap_or_default(),
        ..NetworkOptions::default()
    };
    let network = context.install(|| open_language_with(&path, options, context.budget()))?;
    let tokenizer = open_tokenizer(&path, context.budget())?;
    tokenizer.check_vocabulary(network.card().vocabulary)?;
    let prompt = prompt(args, &tokenizer)?;
    let settings = Generation {
        tokens: args.tokens,
        temperature: args.temperature,
        top_k: args.top_k,
        top_p: args.top_p,
        stop: tokenizer.eos().into_iter().collect(),
        seed: args.seed,
    };
    let loaded = args.sae.as_deref().map(|sae| checkpoint::load(sae, console.budget())).transpose()?;
    let mut tap = tap(args, &network, loaded.as_ref(), console)?;
    let tokens = context.install(|| network.generate(&prompt, &settings, &mut *tap, context))?;
    let text = tokenizer.decode(&tokens)?;
    console.print(&text, || json!({ "text": text, "tokens": tokens, "prompt_tokens": prompt.len() }))?;
    Ok(ExitCode::SUCCESS)
}

/// The tokens of the prompt.
fn prompt(args: &cli::Generate, tokenizer: &Tokenizer) -> Result<Vec<u32>> {
    if !args.chat {
        return tokenizer.encode(&args.prompt, Special::Add);
    }
    let template = tokenizer.chat_template().ok_or_else(|| {
        InputError::new("the model has no chat template")
            .advice("leave out `--chat`, or use an instruction-tuned model")
    })?;
    let text = template.render(&[Message::new("user", &args.prompt)], true)?;
    tokenizer.encode(&text, Special::Recognise)
}

/// The patch that the options ask for.
fn tap<'a>(
    args: &cli::Generate,
    network: &Decoder,
    loaded: Option<&'a Loaded>,
    console: &Console,
) -> Result<Box<dyn Tap + Send + 'a>> {
    let (Some(site), Some(sae), Some(loaded), Some(latent)) = (&args.site, &args.sae, loaded, args.latent) else {
        return Ok(Box::new(Untouched));
    };
    let sites = find_sites(network.sites(), site)?;
    let [site] = sites[..] else {
        return Err(InputError::new("a patch needs one site").found(format!("{} sites", sites.len())).into());
    };
    let dictionary = &*loaded.dictionary;
    let (width, expected) = (dictionary.card().output_width(), network.sites()[site.0 as usize].width);
    if width != expected {
        return Err(InputError::new("the dictionary does not fit the site")
            .expected(format!("width {expected}"))
            .found(format!("width {width}"))
            .file(sae)
            .into());
    }
    if latent >= dictionary.card().latents {
        return Err(InputError::new("the dictionary has no such latent")
            .expected(format!("less than {}", dictionary.card().latents))
            .found(latent)
            .file(sae)
            .into());
    }
    let latent = Latent(latent as u32);
    let edit = match args.edit.as_str() {
        "set" => LatentEdit::Set(args.strength),
        "scale" => LatentEdit::Scale(args.strength),
        _ => {
            let direction = dictionary.direction(latent);
            let length = direction.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>().sqrt() as f32;
            let scale = if length > 0.0 { args.strength / length } else { 0.0 };
            return Ok(Box::new(Patch::new(site, Edit::Add(direction.iter().map(|v| v * scale).collect()))));
        }
    };
    Ok(Box::new(LatentPatch::new(site, dictionary, vec![(latent, edit)], console.budget()).in_file(sae)?))
}
