//! A model: its configuration and its weights.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use etalon::context::Budget;
use etalon::error::{Error, InputError, Result};
use etalon::input::{Map, Tensors};
use etalon::network::Processing;
use serde_json::{Map as Object, Value};

use super::file::open_file;
use super::opened::Opened;
use super::tensors::Weights;
use super::{directory, gguf};
use crate::layer::WeightNumber;

/// Bytes that are hashed before their memory is released.
const HASHED: usize = 1 << 26;

/// How the network of a model is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetworkOptions {
    /// Draw the weights anew with this seed: [`Model::randomised`].
    pub randomise: Option<u64>,
    /// Changes of the weights of a language model.
    pub processing: Processing,
    /// The number type of the weights of linear maps.
    pub numbers: WeightNumber,
}

/// A model in a file or a directory.
#[derive(Debug)]
pub struct Model {
    /// The configuration in the keys of Hugging Face; empty for a single file of tensors.
    pub config: Object<String, Value>,
    /// The tensors.
    pub weights: Weights,
    /// The directory of the files, where the tokenizer is; `None` for a model in memory.
    pub directory: Option<PathBuf>,
    /// The format, for people: `safetensors, 2 shards` or `GGUF Q4_1`.
    pub recognised: String,
    /// The metadata of a GGUF file.
    pub gguf: Option<gguf::Metadata>,
    /// How its network is used.
    pub options: NetworkOptions,
    files: Vec<Arc<Map>>,
    id: OnceLock<String>,
}

impl Model {
    /// Opens a directory or a file. Reads the configuration and the names of the tensors, not their values.
    pub fn open(path: &Path, budget: &Budget) -> Result<Model> {
        let metadata = fs::metadata(path).map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory => {
                InputError::new("there is no such file or directory").advice("check the path").file(path).into()
            }
            _ => Error::io("check the path of a model", path)(error),
        })?;
        let (opened, directory) = if metadata.is_dir() {
            (directory::open(path, budget)?, path)
        } else {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            (open_file(path, budget)?, parent.unwrap_or(Path::new(".")))
        };
        let Opened { config, tensors, recognised, gguf, files } = opened;
        let weights = Weights::new(tensors, budget);
        let (directory, id) = (Some(directory.to_path_buf()), OnceLock::new());
        Ok(Model { config, weights, directory, recognised, gguf, options: NetworkOptions::default(), files, id })
    }

    /// A model in memory.
    pub fn in_memory(config: Object<String, Value>, tensors: Tensors, budget: &Budget) -> Model {
        Model {
            config,
            weights: Weights::in_memory(tensors, budget),
            directory: None,
            recognised: "in memory".to_string(),
            gguf: None,
            options: NetworkOptions::default(),
            files: Vec::new(),
            id: OnceLock::new(),
        }
    }

    /// The same model with weights drawn anew: every tensor of two or more axes (matrices, convolutions, embeddings) gets
    /// normal values with its own mean and standard deviation, which depend on the seed and its name only. Biases and the
    /// parameters of norms are kept.
    #[must_use]
    pub fn randomised(self, seed: u64) -> Model {
        self.with_options(NetworkOptions { randomise: Some(seed), ..NetworkOptions::default() })
    }

    /// The same model, used in another way.
    #[must_use]
    pub fn with_options(self, options: NetworkOptions) -> Model {
        let (mut weights, mut recognised) = (self.weights, self.recognised);
        if let Some(seed) = options.randomise {
            weights = weights.randomised(seed);
            recognised += &format!(", weights drawn anew with seed {seed}");
        }
        if !options.processing.is_none() {
            recognised += &format!(", processed ({})", options.processing);
        }
        if !options.numbers.is_f32() {
            recognised += &format!(", used as {}", options.numbers.name());
        }
        Model { weights, recognised, options, id: OnceLock::new(), ..self }
    }

    /// The content hash: of the configuration, of names, shapes and number types, and of the bytes of all files. It is
    /// computed once. A model has the same hash wherever its files are.
    pub fn id(&self) -> Result<String> {
        if let Some(id) = self.id.get() {
            return Ok(id.clone());
        }
        let mut hash = blake3::Hasher::new_derive_key("etalon model v1");
        let mut text = |text: &str| {
            hash.update(&(text.len() as u64).to_le_bytes());
            hash.update(text.as_bytes());
        };
        text(&Value::Object(self.config.clone()).to_string());
        for (name, shape, number) in self.weights.describe() {
            text(name);
            text(&format!("{shape:?}"));
            text(number);
        }
        if self.files.is_empty() {
            self.weights.hash_values(&mut hash)?;
        }
        for map in &self.files {
            map.check_unchanged()?;
            hash.update(&(map.length() as u64).to_le_bytes());
            for start in (0..map.length()).step_by(HASHED) {
                hash.update_rayon(map.bytes(start..map.length().min(start + HASHED))?);
                map.release();
            }
        }
        if let Some(seed) = self.options.randomise {
            hash.update(b"weights drawn anew").update(&seed.to_le_bytes());
        }
        if !self.options.processing.is_none() {
            hash.update(b"processed").update(self.options.processing.to_string().as_bytes());
        }
        if !self.options.numbers.is_f32() {
            hash.update(b"used as").update(self.options.numbers.name().as_bytes());
            // The arithmetic of version 2 keeps outliers of rows.
            if self.options.numbers == WeightNumber::Int8 {
                hash.update(b"version 2");
            }
        }
        Ok(self.id.get_or_init(|| format!("blake3:{}", hash.finalize().to_hex())).clone())
    }
}
