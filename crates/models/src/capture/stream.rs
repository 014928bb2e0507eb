//! Activations for a training that needs no store: the network runs while dictionaries train.

use std::sync::Arc;

use etalon::context::{Context, Reservation};
use etalon::error::{Error, InputError, Key, Result};
use etalon::sae::train::{RowStream, StreamPosition, StreamWork};
use serde_json::{Map, Value, json};

use super::letter_words::completed;
use super::request::{CaptureRequest, RowChoice};
use super::{Prepared, images, texts};
use crate::data::{Content, ContentKind, Input, Skipped};
use crate::image::Preprocess;
use crate::preprocessing::preprocessing;
use crate::text::{Pack, Packing, Row, Tokenizer};
use crate::tokenizer_of::open_tokenizer;

/// Images of a chunk.
const IMAGES: usize = 16;

/// Copies of the rows of a chunk that exist at a time.
const COPIES: u64 = 3;

/// The activations of one site, in the order of the input.
pub struct NetworkStream {
    prepared: Prepared,
    request: CaptureRequest,
    about: Map<String, Value>,
    source: Source,
    /// Tokens or images that were run.
    done: u64,
    context: Context,
    /// The memory of a chunk.
    memory: Reservation,
}

/// What the network is run on.
enum Source {
    Texts { tokenizer: Arc<Tokenizer>, packing: Packing, sequences: Box<Pack<Arc<Tokenizer>, Texts>> },
    Images { preprocess: Preprocess, input: Input },
}

impl NetworkStream {
    /// Opens the network and reads the input once, to recognise it.
    pub fn open(request: &CaptureRequest, context: &Context) -> Result<NetworkStream> {
        let request = &completed(request, context)?;
        if request.settings.rows == RowChoice::Word {
            return Err(InputError::new("texts with a marked word cannot be streamed")
                .found(Key("rows word"))
                .advice(format!("leave out {}: the rows of words are few", Key("stream")))
                .into());
        }
        let prepared = Prepared::new(request, true, context)?;
        let input = Input::open(&request.input, &request.options, context.budget())?;
        let source = match input.kind() {
            ContentKind::Text => {
                let tokenizer = Arc::new(open_tokenizer(&prepared.path, context.budget())?);
                tokenizer.check_vocabulary(prepared.network.card().vocabulary)?;
                let packing = texts::packing(&prepared.network_run(request, context), &tokenizer)?;
                let sequences = Box::new(Pack::new(tokenizer.clone(), packing.clone(), Texts(input))?);
                Source::Texts { tokenizer, packing, sequences }
            }
            ContentKind::Image => {
                Source::Images { preprocess: preprocessing(&prepared.path, prepared.network.card())?, input }
            }
        };
        let (about, memory) = (describe(&prepared, request)?, context.budget().reserve(0, "")?);
        let (request, context) = (request.clone(), context.clone());
        Ok(NetworkStream { prepared, request, about, source, done: 0, context, memory })
    }

    fn input(&self) -> &Input {
        match &self.source {
            Source::Texts { sequences, .. } => &sequences.texts().0,
            Source::Images { input, .. } => input,
        }
    }

    /// Items of the current pass that could not be read.
    pub fn skipped(&self) -> &[Skipped] {
        self.input().skipped()
    }

    /// What to tell the user about the input.
    pub fn notes(&self) -> Vec<String> {
        self.input().notes()
    }
}

impl RowStream for NetworkStream {
    fn width(&self) -> usize {
        self.prepared.sites.first().map_or(0, |site| self.prepared.network.sites()[site.0 as usize].width)
    }

    fn id(&self) -> &str {
        &self.prepared.id
    }

    fn about(&self) -> Map<String, Value> {
        self.about.clone()
    }

    fn read(&mut self, rows: &mut Vec<f32>) -> Result<bool> {
        let width = self.width() as u64;
        let run = self.prepared.network_run(&self.request, &self.context);
        let mut reserve =
            |rows: usize| self.memory.resize(COPIES * 4 * width * rows as u64, "activations of the network");
        let (sites, done) = match &mut self.source {
            Source::Texts { packing, sequences, .. } => {
                // The size of a chunk depends on nothing else, so that chunks are the same after an interruption.
                let count = (texts::BATCH / packing.context).clamp(4, 256);
                let sequences = sequences.by_ref().take(count).collect::<Result<Vec<Row>>>()?;
                if sequences.is_empty() {
                    return Ok(false);
                }
                let tokens = sequences.iter().map(|sequence| sequence.ids.len()).sum::<usize>();
                reserve(tokens)?;
                (texts::activations(&run, &sequences, &[], &|_| ())?, tokens)
            }
            Source::Images { preprocess, input } => {
                let images = next_images(preprocess, input, &self.context)?;
                let count = images.len();
                if count == 0 {
                    return Ok(false);
                }
                let numbers: Vec<u32> = (0..count as u32).collect();
                let stored = images::activations(&run, preprocess, &images.concat(), &numbers)?;
                reserve(stored.samples.len())?;
                (stored.sites, count)
            }
        };
        self.done += done as u64;
        sites.first().into_iter().for_each(|values| rows.extend_from_slice(values));
        Ok(true)
    }

    fn position(&self) -> StreamPosition {
        match &self.source {
            Source::Texts { sequences, .. } => match sequences.inside() {
                Some((item, token)) => StreamPosition { item, token: Some(token as u64) },
                None => StreamPosition { item: sequences.texts().0.position(), token: None },
            },
            Source::Images { input, .. } => StreamPosition { item: input.position(), token: None },
        }
    }

    fn seek(&mut self, position: StreamPosition) -> Result<()> {
        let mut opened = Input::open(&self.request.input, &self.request.options, self.context.budget())?;
        if position.item > 0 {
            opened.seek(position.item)?;
        }
        match &mut self.source {
            Source::Texts { tokenizer, packing, sequences } => {
                **sequences = Pack::new(tokenizer.clone(), packing.clone(), Texts(opened))?;
                if let Some(token) = position.token {
                    sequences.continue_at(usize::try_from(token).unwrap_or(usize::MAX))?;
                }
            }
            Source::Images { input, .. } => *input = opened,
        }
        Ok(())
    }

    fn work(&self) -> StreamWork {
        let unit = match &self.source {
            Source::Texts { .. } => "tokens",
            Source::Images { .. } => "images",
        };
        StreamWork { done: self.done, unit }
    }
}

/// Model, input, site and settings, as a dictionary records them.
fn describe(prepared: &Prepared, request: &CaptureRequest) -> Result<Map<String, Value>> {
    let card = prepared.network.card();
    let sites = prepared.sites.iter().map(|site| prepared.network.sites()[site.0 as usize].name.as_str());
    let settings = serde_json::to_value(&request.settings).map_err(|error| Error::Bug(error.to_string()))?;
    let about = json!({
        "id": prepared.id,
        "model": {"name": request.model, "family": card.family, "weights": card.weights, "id": card.id},
        "input": request.input,
        "site": sites.collect::<Vec<_>>().join(","),
        "settings": settings,
    });
    Ok(about.as_object().cloned().unwrap_or_default())
}

/// The texts of an input, each with its position.
struct Texts(Input);

impl Iterator for Texts {
    type Item = Result<(u64, String)>;

    fn next(&mut self) -> Option<Result<(u64, String)>> {
        loop {
            let sample = match self.0.next() {
                Ok(sample) => sample?,
                Err(error) => return Some(Err(error)),
            };
            match &sample.content {
                Content::Text(text) => return Some(Ok((sample.position, text.clone()))),
                _ => self.0.reject(&sample, "not a text"),
            }
        }
    }
}

/// Preprocesses the next images; those that cannot be decoded are skipped.
fn next_images(preprocess: &Preprocess, input: &mut Input, context: &Context) -> Result<Vec<Vec<f32>>> {
    let mut images = Vec::new();
    while images.len() < IMAGES {
        context.check()?;
        let Some(sample) = input.next()? else { break };
        match images::decoded(preprocess, &sample) {
            Ok(image) => images.push(image),
            Err(error) if error.is_input() => {
                input.reject(&sample, error.to_string().lines().next().unwrap_or_default());
            }
            Err(error) => return Err(error),
        }
    }
    Ok(images)
}
