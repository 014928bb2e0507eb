//! `etalon generate`.

use std::path::Path;
use std::process::ExitCode;

use etalon::error::{InputError, Result};
use etalon::network::{Edit, Network, Patch, Tap, Untouched, find_sites};
use etalon::sae::checkpoint;
use etalon_models::data::resolve;
use etalon_models::language::Decoder;
use etalon_models::text::{Message, Special, Tokenizer};
use etalon_models::{Generation, generate, open_language, open_tokenizer};
use serde_json::json;

use crate::cli;
use crate::console::Console;

/// Continues a prompt.
pub fn run(args: &cli::Generate, console: &Console) -> Result<ExitCode> {
    let path = resolve(&args.model, args.cache.as_deref())?;
    let context = &console.context;
    let network = context.install(|| open_language(&path, context.budget()))?;
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
    let mut tap = tap(args, &network, console)?;
    let tokens = context.install(|| generate(&network, &prompt, &settings, &mut *tap, context, |_| {}))?;
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
fn tap(args: &cli::Generate, network: &Decoder, console: &Console) -> Result<Box<dyn Tap + Send>> {
    let (Some(site), Some(sae), Some(latent)) = (&args.site, &args.sae, args.latent) else {
        return Ok(Box::new(Untouched));
    };
    let sites = find_sites(network.sites(), site)?;
    let [site] = sites[..] else {
        return Err(InputError::new("a patch needs one site").found(format!("{} sites", sites.len())).into());
    };
    let loaded = checkpoint::load(Path::new(sae), console.budget())?;
    let directions = loaded.dictionary.directions();
    let width = loaded.dictionary.card().output_width();
    let expected = network.sites()[site.0 as usize].width;
    if width != expected {
        return Err(InputError::new("the dictionary does not fit the site")
            .expected(format!("width {expected}"))
            .found(format!("width {width}"))
            .file(sae)
            .into());
    }
    let direction = directions.chunks_exact(width).nth(latent).ok_or_else(|| {
        InputError::new("the dictionary has no such latent")
            .expected(format!("less than {}", directions.len() / width))
            .found(latent)
            .file(sae)
    })?;
    let length = direction.iter().map(|v| f64::from(*v) * f64::from(*v)).sum::<f64>().sqrt() as f32;
    let scale = if length > 0.0 { args.strength / length } else { 0.0 };
    Ok(Box::new(Patch::new(site, Edit::Add(direction.iter().map(|v| v * scale).collect()))))
}
