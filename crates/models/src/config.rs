//! Reading a network's configuration.

use etalon::error::{InputError, Result};
use etalon_kernel::neural::Activation;
use serde_json::{Map, Value};

use crate::layer::RopeScaling;

/// The configuration of a network: `config.json` of Hugging Face, or what another format says in its words.
#[derive(Clone, Copy, Debug)]
pub struct Config<'a>(pub &'a Map<String, Value>);

impl<'a> Config<'a> {
    /// The value of the first of these keys that has one. Older and newer files spell some keys differently.
    pub fn value(&self, keys: &[&str]) -> Option<&'a Value> {
        keys.iter().filter_map(|key| self.0.get(*key)).find(|value| !value.is_null())
    }

    /// A table inside the configuration.
    pub fn table(&self, key: &str) -> Option<Config<'a>> {
        self.0.get(key).and_then(Value::as_object).map(Config)
    }

    /// A size: a positive whole number.
    pub fn size(&self, keys: &[&str]) -> Result<usize> {
        self.optional_size(keys)?.ok_or_else(|| missing(keys).into())
    }

    /// A size that may be missing.
    pub fn optional_size(&self, keys: &[&str]) -> Result<Option<usize>> {
        let Some(value) = self.value(keys) else { return Ok(None) };
        let size = value.as_u64().filter(|size| (1..=LARGEST).contains(size));
        size.map(|size| Some(size as usize)).ok_or_else(|| wrong(keys, "a whole number from 1 to 2^32", value).into())
    }

    /// A number.
    pub fn number(&self, keys: &[&str]) -> Result<f64> {
        self.optional_number(keys)?.ok_or_else(|| missing(keys).into())
    }

    /// A number that may be missing.
    pub fn optional_number(&self, keys: &[&str]) -> Result<Option<f64>> {
        let Some(value) = self.value(keys) else { return Ok(None) };
        let number = value.as_f64().filter(|number| number.is_finite());
        number.map(Some).ok_or_else(|| wrong(keys, "a number", value).into())
    }

    /// A switch, with its value if it is missing.
    pub fn switch(&self, keys: &[&str], missing: bool) -> Result<bool> {
        let Some(value) = self.value(keys) else { return Ok(missing) };
        value.as_bool().ok_or_else(|| wrong(keys, "true or false", value).into())
    }

    /// A text that may be missing.
    pub fn text(&self, keys: &[&str]) -> Option<&'a str> {
        self.value(keys).and_then(Value::as_str)
    }

    /// A list of texts, empty if it is missing.
    pub fn texts(&self, key: &str) -> Vec<&'a str> {
        let values = self.0.get(key).and_then(Value::as_array);
        values.into_iter().flatten().filter_map(Value::as_str).collect()
    }

    /// The activation function.
    pub fn activation(&self, keys: &[&str], missing: &str) -> Result<Activation> {
        let name = self.text(keys).unwrap_or(missing);
        Ok(match name {
            "relu" => Activation::Relu,
            "relu6" => Activation::Relu6,
            "silu" | "swish" => Activation::Silu,
            "gelu" => Activation::Gelu,
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Activation::GeluTanh,
            "quick_gelu" => Activation::QuickGelu,
            other => {
                return Err(InputError::new("unknown activation function of a network")
                    .one_of(other, &["relu", "relu6", "silu", "gelu", "gelu_new", "gelu_pytorch_tanh", "quick_gelu"])
                    .found(format!("`{other}`"))
                    .into());
            }
        })
    }

    /// Base and scaling of rotary embeddings. Newer files have a table `rope_parameters`, with one table per layer type in
    /// some families; older ones have `rope_theta` and `rope_scaling`.
    pub fn rope(&self, layer_type: Option<&str>, base_key: &str, missing: f64) -> Result<(f64, RopeScaling)> {
        let table = self.table("rope_parameters");
        let table = layer_type.and_then(|kind| table.and_then(|table| table.table(kind))).or(table);
        let base = match table {
            Some(table) => table.optional_number(&["rope_theta"])?,
            None => self.optional_number(&[base_key])?,
        };
        let scaling = match table.or_else(|| self.table("rope_scaling")) {
            Some(scaling) => scaling.rope_scaling()?,
            None => RopeScaling::None,
        };
        Ok((base.unwrap_or(missing), scaling))
    }

    fn rope_scaling(&self) -> Result<RopeScaling> {
        match self.text(&["rope_type", "type"]).unwrap_or("default") {
            "default" => Ok(RopeScaling::None),
            "linear" => Ok(RopeScaling::Linear { factor: self.number(&["factor"])? }),
            "llama3" => Ok(RopeScaling::Llama3 {
                factor: self.number(&["factor"])?,
                low: self.number(&["low_freq_factor"])?,
                high: self.number(&["high_freq_factor"])?,
                original: self.number(&["original_max_position_embeddings"])?,
            }),
            other => Err(InputError::new("unsupported scaling of rotary embeddings")
                .expected("default, linear or llama3")
                .found(format!("`{other}`"))
                .into()),
        }
    }
}

/// The largest size that a configuration may state.
const LARGEST: u64 = 1 << 32;

fn missing(keys: &[&str]) -> InputError {
    InputError::new("the configuration of the network lacks a value")
        .expected(keys.iter().map(|key| format!("`{key}`")).collect::<Vec<_>>().join(" or "))
        .advice("use the config.json that belongs to the weights")
}

fn wrong(keys: &[&str], expected: &str, found: &Value) -> InputError {
    InputError::new("the configuration of the network has a wrong value")
        .expected(expected)
        .found(found)
        .at(format!("key `{}`", keys.join("` or `")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_and_newer_keys() {
        let read = |text: &str| serde_json::from_str::<Map<String, Value>>(text).unwrap();
        let new =
            read(r#"{"rope_parameters": {"rope_theta": 5.0, "rope_type": "linear", "factor": 2}, "n": 3, "x": -1}"#);
        let old = read(r#"{"rope_theta": 5.0, "rope_scaling": {"type": "linear", "factor": 2.0}, "other": 3}"#);
        for map in [&new, &old] {
            assert_eq!(Config(map).rope(None, "rope_theta", 1.0).unwrap(), (5.0, RopeScaling::Linear { factor: 2.0 }));
            assert_eq!(Config(map).size(&["n", "other"]).unwrap(), 3);
        }
        let error = |result: Result<usize>| result.unwrap_err().to_string();
        assert!(error(Config(&new).size(&["x"])).contains("key `x`"));
        assert!(error(Config(&new).size(&["y", "z"])).contains("`y` or `z`"));
        assert!(Config(&read(r#"{"rope_scaling": {"type": "yarn"}}"#)).rope(None, "", 1.0).is_err());
        assert!(Config(&new).activation(&["act"], "gel").unwrap_err().to_string().contains("did you mean `gelu`"));
    }
}
