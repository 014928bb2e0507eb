//! The settings of a checkpoint: a JSON object whose values are checked when they are read.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::error::{Error, InputError, Result};

/// Maximum size of the settings, far above that of any program.
const MAX_BYTES: u64 = 16 << 20;

/// Settings, and the file that contains them.
#[derive(Clone, Debug, Default)]
pub(super) struct Config {
    file: PathBuf,
    fields: Map<String, Value>,
}

impl Config {
    /// Reads a JSON object.
    pub fn read(file: &Path) -> Result<Config> {
        let wrong = |what: &str| InputError::new(what).file(file);
        let metadata = match fs::metadata(file) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(wrong("the settings of the checkpoint are missing").into());
            }
            metadata => metadata.map_err(Error::io("open the settings of a checkpoint", file))?,
        };
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(wrong("the settings of the checkpoint are not a file of reasonable size")
                .expected(format!("a file of at most {MAX_BYTES} bytes"))
                .found(metadata.len())
                .into());
        }
        let bytes = fs::read(file).map_err(Error::io("read the settings of a checkpoint", file))?;
        match serde_json::from_slice::<Value>(&bytes) {
            Ok(Value::Object(fields)) => Ok(Config { file: file.to_path_buf(), fields }),
            Ok(_) => Err(wrong("the settings of the checkpoint are not a JSON object").into()),
            Err(error) => Err(wrong("the settings of the checkpoint are not JSON")
                .found(error)
                .advice("the file is damaged; copy it again")
                .into()),
        }
    }

    /// Reads a JSON object; without a file the settings are empty.
    pub fn read_optional(file: Option<&Path>) -> Result<Config> {
        file.map_or_else(|| Ok(Config::default()), Config::read)
    }

    /// All settings.
    pub fn fields(&self) -> &Map<String, Value> {
        &self.fields
    }

    /// The object under a key; empty if it is missing.
    pub fn section(&self, key: &str) -> Config {
        let fields = self.fields.get(key).and_then(Value::as_object).cloned().unwrap_or_default();
        Config { file: self.file.clone(), fields }
    }

    /// A setting that is present and not null.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.fields.get(key).filter(|value| !value.is_null())
    }

    /// An error about a setting.
    pub fn wrong(&self, key: &str, what: &str, expected: &str) -> InputError {
        let found = self.get(key).map_or("nothing".to_string(), |value| value.to_string().chars().take(80).collect());
        InputError::new(what).expected(expected).found(found).at(format!("key `{key}`")).file(&self.file)
    }

    fn checked<'a, T>(&'a self, key: &str, expected: &str, read: impl Fn(&'a Value) -> Option<T>) -> Result<Option<T>> {
        let Some(value) = self.get(key) else { return Ok(None) };
        let wrong = || self.wrong(key, "a setting of the checkpoint is invalid", expected);
        Ok(Some(read(value).ok_or_else(wrong)?))
    }

    /// A string.
    pub fn text(&self, key: &str) -> Result<Option<&str>> {
        self.checked(key, "a string", Value::as_str)
    }

    /// A non-negative integer.
    pub fn count(&self, key: &str) -> Result<Option<usize>> {
        self.checked(key, "a whole number", |value| usize::try_from(value.as_u64()?).ok())
    }

    /// A non-negative integer that must be present.
    pub fn required_count(&self, key: &str) -> Result<usize> {
        let wrong = || self.wrong(key, "a setting of the checkpoint is missing", "a whole number");
        self.count(key)?.ok_or_else(|| wrong().into())
    }

    /// A boolean.
    pub fn flag(&self, key: &str) -> Result<Option<bool>> {
        self.checked(key, "true or false", Value::as_bool)
    }

    /// Refuses a size that differs from that of a tensor; a missing size is accepted.
    pub fn check_size(&self, key: &str, actual: usize, tensor: &str) -> Result<()> {
        if self.count(key)?.is_none_or(|count| count == actual) {
            return Ok(());
        }
        let what = format!("the settings do not match the tensor `{tensor}`");
        Err(self.wrong(key, &what, &actual.to_string()).into())
    }

    /// A positive number.
    pub fn positive(&self, key: &str) -> Result<Option<f64>> {
        self.checked(key, "a positive number", |value| {
            value.as_f64().filter(|number| number.is_finite() && *number > 0.0)
        })
    }
}
