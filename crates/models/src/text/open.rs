//! Finds and reads the files of a tokenizer.

use std::path::{Path, PathBuf};

use etalon::error::{InFile, InputError, Result};

use super::byte_level::{self, Split};
use super::engine::Engine;
use super::pipeline::Pipeline;
use super::sentencepiece::{self, Kind, Piece, SentencePiece};
use super::settings::{self, TokenizerSettings};
use super::tokenizer::{SpecialIds, Tokenizer};
use super::{llama2c, utf8, word_piece};

/// The layouts, in the order in which they are looked for in a directory.
const LAYOUTS: [(&str, TokenizerFile); 9] = [
    ("tokenizer.json", TokenizerFile::Json),
    ("tokenizer.model", TokenizerFile::SentencePiece),
    ("spiece.model", TokenizerFile::SentencePiece),
    ("sentencepiece.bpe.model", TokenizerFile::SentencePiece),
    ("spm.model", TokenizerFile::SentencePiece),
    ("vocab.json", TokenizerFile::Gpt2),
    ("merges.txt", TokenizerFile::Gpt2),
    ("vocab.txt", TokenizerFile::WordPiece),
    ("tokenizer.bin", TokenizerFile::Llama2c),
];

/// A layout of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenizerFile {
    Json,
    SentencePiece,
    Gpt2,
    WordPiece,
    Llama2c,
}

impl TokenizerFile {
    /// The layout of a file by its name.
    fn of(path: &Path) -> Option<TokenizerFile> {
        let name = path.file_name()?.to_str()?;
        let known = LAYOUTS.iter().find(|(known, _)| *known == name).map(|(_, layout)| *layout);
        known.or_else(|| match path.extension()?.to_str()? {
            "json" => Some(TokenizerFile::Json),
            "model" => Some(TokenizerFile::SentencePiece),
            "txt" => Some(TokenizerFile::WordPiece),
            "bin" => Some(TokenizerFile::Llama2c),
            _ => None,
        })
    }
}

impl Tokenizer {
    /// Opens the tokenizer of a model: its directory, or one of `tokenizer.json`, `tokenizer.model` (SentencePiece),
    /// `vocab.json` with `merges.txt` (GPT-2), `vocab.txt` (BERT), `tokenizer.bin` (llama2.c). Settings and the chat
    /// template are taken from the files beside it.
    pub fn open(path: &Path) -> Result<Tokenizer> {
        let file = if path.is_dir() { find(path)? } else { path.to_path_buf() };
        let layout = TokenizerFile::of(&file).ok_or_else(|| {
            let advice = match file.extension().is_some_and(|extension| extension == "gguf") {
                true => "the tokenizer of a GGUF file is opened together with its weights; name the file as the model",
                false => "rename the file as the program that wrote it calls it",
            };
            InputError::new("the name does not tell the kind of tokenizer").expected(names()).advice(advice).file(&file)
        })?;
        let directory = file.parent().unwrap_or(Path::new(""));
        let settings = TokenizerSettings::read(directory)?;
        match layout {
            TokenizerFile::Json => from_json(&settings::read(&file)?, &settings),
            TokenizerFile::SentencePiece => from_model(&settings::read(&file)?, &settings),
            TokenizerFile::Gpt2 => from_gpt2(directory, &settings),
            TokenizerFile::WordPiece => from_word_piece(&settings::read(&file)?, &settings),
            TokenizerFile::Llama2c => llama2c::read(&settings::read(&file)?).and_then(Tokenizer::from_vocabulary),
        }
        .in_file(&file)
    }
}

/// The file of a directory with the preferred layout.
fn find(directory: &Path) -> Result<PathBuf> {
    let found = LAYOUTS.iter().map(|(name, _)| directory.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        InputError::new("the directory has no tokenizer")
            .expected(names())
            .advice("download the files of the tokenizer too")
            .file(directory)
            .into()
    })
}

fn names() -> String {
    LAYOUTS.map(|(name, _)| name).join(", ")
}

/// `tokenizer.json`.
fn from_json(bytes: &[u8], settings: &TokenizerSettings) -> Result<Tokenizer> {
    let pipeline = Pipeline::read(bytes)?;
    let (before, after) = pipeline.around()?;
    assemble(Box::new(pipeline), settings, before, after)
}

/// `tokenizer.model`.
fn from_model(bytes: &[u8], settings: &TokenizerSettings) -> Result<Tokenizer> {
    let mut model = sentencepiece::read(bytes)?;
    // Tokens that were added after training, such as padding, follow those of the model.
    for (id, text, special) in &settings.added {
        if *id as usize == model.pieces.len() {
            let kind = if *special { Kind::Control } else { Kind::UserDefined };
            model.pieces.push(Piece { text: text.clone(), score: 0.0, kind });
        }
    }
    let names = [model.bos.clone(), model.eos.clone(), model.pad.clone()];
    let engine = SentencePiece::new(model, None)?;
    let mut ids = settings.ids(|name| engine.id(name));
    let [bos, eos, pad] = names.map(|name| engine.control(&name));
    ids.bos = ids.bos.or(bos);
    ids.eos = ids.eos.or(eos);
    ids.pad = ids.pad.or(pad);
    ids.unk = ids.unk.or(Some(engine.unknown()));
    // The library adds nothing by itself, but the language models that use it expect a beginning-of-text token.
    ids.around(Some(settings.add_bos.unwrap_or(true)), settings.add_eos);
    Tokenizer::new(Box::new(engine), ids, settings.template.clone())
}

/// `vocab.json` and `merges.txt`.
fn from_gpt2(directory: &Path, settings: &TokenizerSettings) -> Result<Tokenizer> {
    let (vocabulary, merges) = (directory.join("vocab.json"), directory.join("merges.txt"));
    let mut vocabulary = settings::json(&settings::read(&vocabulary)?).in_file(&vocabulary)?;
    let bytes = settings::read(&merges)?;
    let lines = utf8(&bytes).in_file(&merges)?.lines().filter(|line| !line.starts_with("#version") && !line.is_empty());
    let lines: Vec<String> = lines.map(str::to_string).collect();
    if lines.first().is_some_and(|merge| merge.ends_with("</w>") || merge.contains("</w> ")) {
        return Err(InputError::new("vocabularies with end-of-word marks (`</w>`) need `tokenizer.json`")
            .expected("a byte-level vocabulary, as that of GPT-2")
            .advice("download `tokenizer.json` of the model, or save it with transformers")
            .file(&merges)
            .into());
    }
    let split = match settings.class.as_deref() {
        Some(class) if class.starts_with("Qwen2") => Split::Qwen2,
        _ => Split::Gpt2,
    };
    let named = [&settings.bos, &settings.eos, &settings.pad, &settings.unk].into_iter().flatten().cloned();
    let mut added = settings.added.clone();
    for name in named.chain(["<|endoftext|>".to_string()]) {
        let id = vocabulary.get(&name).and_then(|id| id.as_u64()).and_then(|id| u32::try_from(id).ok());
        if let Some(id) = id.filter(|id| added.iter().all(|(known, ..)| known != id)) {
            added.push((id, name, true));
        }
    }
    added.sort();
    for (id, text, _) in &added {
        vocabulary.entry(text.clone()).or_insert_with(|| (*id).into());
    }
    let pipeline = Pipeline::new(byte_level::describe(vocabulary, lines, &added, split))?;
    assemble(Box::new(pipeline), settings, Vec::new(), Vec::new())
}

/// `vocab.txt`.
fn from_word_piece(bytes: &[u8], settings: &TokenizerSettings) -> Result<Tokenizer> {
    let tokens: Vec<&str> = utf8(bytes)?.lines().map(str::trim_end).collect();
    let lower_case = settings.lower_case.unwrap_or_else(|| word_piece::is_lower_case(&tokens));
    let pipeline = Pipeline::new(word_piece::describe(&tokens, lower_case)?)?;
    let (before, after) = pipeline.around()?;
    assemble(Box::new(pipeline), settings, before, after)
}

/// A tokenizer with the settings beside it.
fn assemble(
    engine: Box<dyn Engine>,
    settings: &TokenizerSettings,
    before: Vec<u32>,
    after: Vec<u32>,
) -> Result<Tokenizer> {
    let mut ids = SpecialIds { before, after, ..settings.ids(|name| engine.id(name)) };
    if settings.class.is_none() && settings.bos.is_none() && settings.eos.is_none() {
        usual(&mut ids, &*engine);
    }
    // Without this token Gemma's output is garbage, but some converters omit it from the post-processor.
    let gemma = engine.id("<start_of_turn>").is_some() && ids.bos.is_some() && ids.bos == engine.id("<bos>");
    let by_default = (settings.class_adds_bos() || gemma).then_some(true);
    ids.around(settings.add_bos.or(by_default), settings.add_eos);
    Tokenizer::new(engine, ids, settings.template.clone())
}

/// Names of special tokens that published models use, for files without settings.
fn usual(ids: &mut SpecialIds, engine: &dyn Engine) {
    let find = |names: &[&str]| names.iter().find_map(|name| engine.id(name));
    ids.bos = find(&["<s>", "<bos>", "<|begin_of_text|>", "<|endoftext|>"]);
    ids.eos = find(&["</s>", "<eos>", "<|end_of_text|>", "<|endoftext|>"]);
    ids.pad = find(&["<pad>", "[PAD]"]);
    ids.unk = find(&["<unk>", "[UNK]"]);
}
