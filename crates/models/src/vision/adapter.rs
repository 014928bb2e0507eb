//! Low-rank changes of linear layers (LoRA), as PEFT stores them: W + (alpha / r) · B · A.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Mutex;
use std::sync::PoisonError;

use etalon::context::Budget;
use etalon::error::{InFile, InputError, Result};
use etalon::input::{TensorFile, format_shape};
use serde_json::Value;

/// The files of the changes, of which one exists.
const FILES: [&str; 2] = ["adapter_model.safetensors", "adapter_model.bin"];

/// Changes of the layers of several networks.
pub(super) struct Adapter {
    file: TensorFile,
    scale: f64,
    /// The names of A and B, by network and module.
    parts: BTreeMap<(usize, String), [Option<String>; 2]>,
    used: Mutex<Vec<(usize, String)>>,
}

impl Adapter {
    /// Opens the directory of an adapter.
    pub fn open(directory: &Path, budget: &Budget) -> Result<Adapter> {
        let config = directory.join("adapter_config.json");
        let text = std::fs::read_to_string(&config).map_err(|error| {
            InputError::new("the settings of the adapter cannot be read")
                .expected("adapter_config.json of PEFT")
                .found(error)
                .file(&config)
        })?;
        let scale = scale(&text).in_file(&config)?;
        let path = FILES.iter().map(|name| directory.join(name)).find(|path| path.is_file()).ok_or_else(|| {
            InputError::new("the weights of the adapter are missing").expected(FILES.join(" or ")).file(directory)
        })?;
        let file = TensorFile::open(&path, budget)?;
        let mut parts: BTreeMap<(usize, String), [Option<String>; 2]> = BTreeMap::new();
        for name in file.names() {
            let (index, module, part) = split(name).ok_or_else(|| {
                InputError::new(format!("unexpected tensor `{name}`"))
                    .expected("…extractor_list.N.model.MODULE.lora_A.weight or …lora_B.weight")
                    .file(&path)
            })?;
            parts.entry((index, module)).or_default()[part] = Some(name.to_string());
        }
        Ok(Adapter { file, scale, parts, used: Mutex::default() })
    }

    /// Adds the change of a layer to its weight, if there is one. `network` counts the networks of the ensemble.
    pub fn add_to(&self, network: usize, module: &str, shape: &[usize], weight: &mut [f32]) -> Result<()> {
        let key = (network, module.to_string());
        let Some(parts) = self.parts.get(&key) else { return Ok(()) };
        let [Some(a), Some(b)] = parts else {
            return Err(InputError::new(format!("half of the change of `{module}` is missing"))
                .expected("lora_A and lora_B")
                .file(self.file.path())
                .into());
        };
        let (a_shape, b_shape) = (self.file.shape(a).unwrap_or_default(), self.file.shape(b).unwrap_or_default());
        let (&[to, from], &[rank, a_from], &[b_to, b_rank]) = (shape, a_shape, b_shape) else {
            return Err(self.misfit(module, shape, a_shape, b_shape));
        };
        if (a_from, b_to, b_rank) != (from, to, rank) {
            return Err(self.misfit(module, shape, a_shape, b_shape));
        }
        let (a, b) = (self.file.read(a)?, self.file.read(b)?);
        let mut change = vec![0f64; from];
        for (row, weight) in weight.chunks_exact_mut(from.max(1)).enumerate() {
            change.fill(0.0);
            for (factor, line) in b[row * rank..(row + 1) * rank].iter().zip(a.chunks_exact(from.max(1))) {
                change.iter_mut().zip(line).for_each(|(sum, value)| *sum += f64::from(*factor) * f64::from(*value));
            }
            let changed = weight.iter_mut().zip(&change);
            changed.for_each(|(weight, change)| *weight = (f64::from(*weight) + self.scale * change) as f32);
        }
        self.used.lock().unwrap_or_else(PoisonError::into_inner).push(key);
        Ok(())
    }

    /// Refuses changes of layers that do not exist.
    pub fn refuse_unused(&self) -> Result<()> {
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        match self.parts.keys().find(|key| !used.contains(key)) {
            None => Ok(()),
            Some((network, module)) => Err(InputError::new(format!(
                "the adapter changes `{module}` of network {network}, which has no such layer"
            ))
            .advice("check that adapter and networks belong together")
            .file(self.file.path())
            .into()),
        }
    }

    fn misfit(&self, module: &str, weight: &[usize], a: &[usize], b: &[usize]) -> etalon::error::Error {
        InputError::new(format!("the change of `{module}` does not fit its weight"))
            .expected(format!("A and B whose product has the shape {}", format_shape(weight)))
            .found(format!("A {} and B {}", format_shape(a), format_shape(b)))
            .file(self.file.path())
            .into()
    }
}

/// `alpha / r`, or `alpha / √r` for rank-stabilised changes.
fn scale(text: &str) -> Result<f64> {
    let value: Value = serde_json::from_str(text)
        .map_err(|error| InputError::new("the settings of the adapter are not JSON").found(error))?;
    let number = |key: &str| -> Result<f64> {
        let number = value[key].as_f64().filter(|number| number.is_finite() && *number > 0.0).ok_or_else(|| {
            InputError::new(format!("the settings of the adapter have no valid `{key}`"))
                .expected("a positive number")
                .found(&value[key])
        })?;
        Ok(number)
    };
    let bias = value["bias"].as_str().unwrap_or("none");
    if bias != "none" || value["fan_in_fan_out"].as_bool() == Some(true) || value["use_dora"].as_bool() == Some(true) {
        return Err(InputError::new("the adapter changes more than weights by products of two matrices")
            .expected("bias \"none\", fan_in_fan_out false and use_dora false")
            .into());
    }
    let (alpha, rank) = (number("lora_alpha")?, number("r")?);
    Ok(alpha / if value["use_rslora"].as_bool() == Some(true) { rank.sqrt() } else { rank })
}

/// The network, the module, and 0 for A or 1 for B, of the name of a tensor.
fn split(name: &str) -> Option<(usize, String, usize)> {
    let (_, rest) = name.split_once("extractor_list.")?;
    let (index, rest) = rest.split_once('.')?;
    let rest = rest.strip_prefix("model.")?;
    let rest = rest.strip_suffix(".weight")?;
    let rest = rest.strip_suffix(".default").unwrap_or(rest);
    let (module, part) = match (rest.strip_suffix(".lora_A"), rest.strip_suffix(".lora_B")) {
        (Some(module), _) => (module, 0),
        (_, Some(module)) => (module, 1),
        _ => return None,
    };
    Some((index.parse().ok()?, module.to_string(), part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_peft() {
        let name = "base_model.model.extractor_list.2.model.blocks.11.attn.qkv.lora_B.weight";
        assert_eq!(split(name), Some((2, "blocks.11.attn.qkv".into(), 1)));
        let name = "base_model.model.extractor_list.0.model.blocks.0.attn.qkv.lora_A.default.weight";
        assert_eq!(split(name), Some((0, "blocks.0.attn.qkv".into(), 0)));
        assert_eq!(split("base_model.model.extractor_list.0.model.blocks.0.attn.qkv.bias"), None);
    }

    #[test]
    fn scales_by_hand() {
        assert_eq!(scale(r#"{"r": 16, "lora_alpha": 8, "bias": "none"}"#).unwrap(), 0.5);
        assert_eq!(scale(r#"{"r": 16, "lora_alpha": 8, "use_rslora": true}"#).unwrap(), 2.0);
        assert!(scale(r#"{"r": 0, "lora_alpha": 8}"#).is_err() && scale("[").is_err());
        assert!(scale(r#"{"r": 16, "lora_alpha": 8, "bias": "all"}"#).is_err());
    }
}
