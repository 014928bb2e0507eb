//! The role `units`: model, layer, type, depth and width of every unit of a representation.

use super::artefact::Artefact;
use crate::error::{Error, InputError, Result};
use crate::input::TextTable;

/// A table of units, in the order of the latents.
#[derive(Clone, Debug, PartialEq)]
pub struct Units {
    /// The units.
    pub units: Vec<Unit>,
}

/// A unit: a latent or neuron.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Unit {
    /// The name of the network.
    pub model: String,
    /// The name of the layer.
    pub layer: String,
    /// The type of the layer, such as `conv` or `mlp`.
    pub kind: String,
    /// Depth of the layer in its network, from 0 (input) to 1 (output).
    pub depth: Option<f64>,
    /// Number of units of the layer.
    pub width: Option<u64>,
    /// The number of the unit within its layer.
    pub channel: Option<u64>,
    /// The training epoch or step of the network.
    pub epoch: Option<f64>,
    /// The accuracy of the network.
    pub accuracy: Option<f64>,
    /// The machine interpretability score, if it was computed before.
    pub mis: Option<f64>,
}

impl Units {
    /// Reads a table with the columns `model`, `layer`, `type`, `depth`, `width`, `channel`, `epoch`, `accuracy`, `mis`; all but
    /// `layer` may be missing.
    pub fn from_table(table: &TextTable) -> Result<Units> {
        let column = |name: &str| table.header.iter().position(|other| other == name);
        let layer = column("layer").ok_or_else(|| {
            InputError::new("the table of units has no column `layer`")
                .expected("the columns model, layer, type, depth, width, channel, epoch, accuracy, mis; only layer is required")
                .found(table.header.join(", "))
        })?;
        let (model, kind, depth, width) = (column("model"), column("type"), column("depth"), column("width"));
        let mut units = Vec::with_capacity(table.cells.len());
        for (cells, line) in table.cells.iter().zip(&table.lines) {
            let text = |column: Option<usize>| column.and_then(|index| cells.get(index)).map_or("", |cell| cell.trim());
            let wrong = |name: &str, expected: &str, found: &str| -> Error {
                InputError::new(format!("invalid `{name}` of a unit"))
                    .expected(expected)
                    .found(format!("`{found}`"))
                    .at(format!("line {line}"))
                    .into()
            };
            let number = text(depth);
            let depth = match number {
                "" => None,
                _ => Some(
                    number
                        .parse::<f64>()
                        .ok()
                        .filter(|depth| (0.0..=1.0).contains(depth))
                        .ok_or_else(|| wrong("depth", "a number from 0 to 1, or nothing", number))?,
                ),
            };
            let whole = |name: &str, number: &str| -> Result<Option<u64>> {
                match number {
                    "" => Ok(None),
                    _ => Ok(Some(number.parse().map_err(|_| wrong(name, "an integer, or nothing", number))?)),
                }
            };
            let finite = |name: &'static str| -> Result<Option<f64>> {
                match text(column(name)) {
                    "" => Ok(None),
                    number => match number.parse::<f64>().ok().filter(|number| number.is_finite()) {
                        Some(number) => Ok(Some(number)),
                        None => Err(wrong(name, "a number, or nothing", number)),
                    },
                }
            };
            units.push(Unit {
                model: text(model).into(),
                layer: text(Some(layer)).into(),
                kind: text(kind).into(),
                depth,
                width: whole("width", text(width))?,
                channel: whole("channel", text(column("channel")))?,
                epoch: finite("epoch")?,
                accuracy: finite("accuracy")?,
                mis: finite("mis")?,
            });
        }
        Ok(Units { units })
    }
}

impl Artefact for Units {
    fn sizes(&self) -> Vec<usize> {
        vec![self.units.len()]
    }

    fn id(&self) -> Result<String> {
        let mut hash = blake3::Hasher::new_derive_key("etalon units v1");
        for unit in &self.units {
            let Unit { model, layer, kind, depth, width, channel, epoch, accuracy, mis } = unit;
            for text in [model, layer, kind] {
                hash.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
            }
            hash.update(&depth.unwrap_or(-1.0).to_le_bytes());
            hash.update(&width.unwrap_or(u64::MAX).to_le_bytes()).update(&channel.unwrap_or(u64::MAX).to_le_bytes());
            for number in [epoch, accuracy, mis] {
                hash.update(&[u8::from(number.is_some())]).update(&number.unwrap_or(0.0).to_le_bytes());
            }
        }
        Ok(format!("blake3:{}", hash.finalize().to_hex()))
    }
}
