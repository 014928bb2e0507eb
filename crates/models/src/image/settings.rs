//! Preprocessing from the settings files of models.

use etalon::error::{InputError, Result};
use serde_json::{Map, Value};

use super::preprocess::Preprocess;
use super::{hugging_face, timm};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// Maximum length of a settings file in bytes.
const LONGEST_SETTINGS: usize = 1 << 20;

impl Preprocess {
    /// The preprocessing that `preprocessor_config.json` of transformers or `config.json` of timm describes.
    ///
    /// Settings of transformers give the tensor kernels that transformers 5 uses by default; a class whose name ends in
    /// `Pil` gives those of Pillow. Settings with an effect that Etalon does not know are refused.
    pub fn from_json(text: &str) -> Result<Preprocess> {
        if text.len() > LONGEST_SETTINGS {
            return Err(InputError::new("the image settings are too long")
                .expected(format!("at most {LONGEST_SETTINGS} bytes"))
                .found(text.len())
                .advice("pass preprocessor_config.json of transformers, or config.json of timm")
                .into());
        }
        let value: Value = serde_json::from_str(text).map_err(|error| {
            InputError::new("the image settings are not valid JSON")
                .found(&error)
                .at(format!("line {}, column {}", error.line(), error.column()))
                .advice("download the file again")
        })?;
        let settings = value.as_object().ok_or_else(|| unknown("another JSON value"))?;
        let has = |keys: &[&str]| keys.iter().any(|key| settings.contains_key(*key));
        let preprocess = if let Some(inner) = settings.get("pretrained_cfg").and_then(Value::as_object) {
            timm::read(inner)?
        } else if has(&["image_processor_type", "feature_extractor_type", "image_mean", "do_resize"]) {
            hugging_face::read(settings)?
        } else if has(&["crop_pct", "interpolation", "input_size"]) {
            timm::read(settings)?
        } else {
            let keys: Vec<&str> = settings.keys().map(String::as_str).take(8).collect();
            return Err(unknown(&format!("the keys {}", keys.join(", "))).into());
        };
        preprocess.check()?;
        Ok(preprocess)
    }
}

fn unknown(found: &str) -> InputError {
    InputError::new("unknown image settings")
        .expected("an object with `image_processor_type`, `image_mean`, `pretrained_cfg` or `input_size`")
        .found(found)
        .advice("pass preprocessor_config.json of transformers, or config.json of timm")
}

/// The error for a key whose value is not understood.
pub(super) fn wrong(key: &str, expected: &str, found: &Value) -> InputError {
    let mut text = found.to_string();
    if text.len() > 100 {
        text = format!("{}…", text.chars().take(100).collect::<String>());
    }
    InputError::new(format!("unsupported image setting `{key}`"))
        .expected(expected)
        .found(text)
        .at(format!("key `{key}`"))
        .advice("set the preprocessing explicitly")
}

/// The value of a key; null counts as missing.
pub(super) fn get<'a>(settings: &'a Object, key: &str) -> Option<&'a Value> {
    settings.get(key).filter(|value| !value.is_null())
}

/// A truth value.
pub(super) fn flag(settings: &Object, key: &str) -> Result<Option<bool>> {
    let read = |value: &Value| value.as_bool().ok_or_else(|| wrong(key, "true or false", value).into());
    get(settings, key).map(read).transpose()
}

/// A number.
pub(super) fn number(settings: &Object, key: &str) -> Result<Option<f64>> {
    let read = |value: &Value| value.as_f64().ok_or_else(|| wrong(key, "a number", value).into());
    get(settings, key).map(read).transpose()
}

/// A text.
pub(super) fn text<'a>(settings: &'a Object, key: &str) -> Result<Option<&'a str>> {
    let read = |value: &'a Value| value.as_str().ok_or_else(|| wrong(key, "a text", value).into());
    get(settings, key).map(read).transpose()
}

/// One number per channel, or one for all.
pub(super) fn channels(settings: &Object, key: &str) -> Result<Option<[f64; 3]>> {
    let Some(value) = get(settings, key) else { return Ok(None) };
    let read = || match value {
        Value::Array(list) => match list.as_slice() {
            [one] => Some([one.as_f64()?; 3]),
            [red, green, blue] => Some([red.as_f64()?, green.as_f64()?, blue.as_f64()?]),
            _ => None,
        },
        one => Some([one.as_f64()?; 3]),
    };
    Ok(Some(read().ok_or_else(|| wrong(key, "three numbers", value))?))
}

/// A length in pixels.
pub(super) fn pixels(key: &str, value: &Value) -> Result<usize> {
    let length = value.as_u64().filter(|length| (1..=65_535).contains(length));
    Ok(length.ok_or_else(|| wrong(key, "1 to 65535 pixels", value))? as usize)
}
