//! How the encoder product is searched for what is kept of it. No choice changes a single bit of a result.

use serde::Serialize;

use crate::error::{InputError, Result};
use etalon_kernel::int8::Arithmetic;

/// Which products say what may be kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// Products of 8-bit integers where the processor has instructions for them (AMX or AVX-512 VNNI), else the exact ones.
    #[default]
    Auto,
    /// The exact products of 32-bit numbers alone.
    F32,
    /// Products of 8-bit integers: they propose, and the exact product decides. A processor that has no instructions for
    /// them is slow.
    Int8,
}

impl Precision {
    /// The names on the command line.
    pub const NAMES: [&'static str; 3] = ["auto", "f32", "int8"];

    /// Finds one by its name.
    pub fn named(name: &str) -> Result<Precision> {
        match name {
            "auto" => Ok(Precision::Auto),
            "f32" => Ok(Precision::F32),
            "int8" => Ok(Precision::Int8),
            _ => Err(InputError::new("there is no such precision").expected("auto, f32 or int8").found(name).into()),
        }
    }

    /// Whether 8-bit integers propose.
    pub fn proposes(self) -> bool {
        match self {
            Precision::Auto => Arithmetic::fastest() != Arithmetic::Loops,
            Precision::F32 => false,
            Precision::Int8 => true,
        }
    }

    /// What was used, in words, by something that keeps few latents per row or does not. The instructions are not named:
    /// what is written down should not tell apart machines that give the same bits.
    pub fn used(self, selects: bool) -> &'static str {
        if selects && self.proposes() { "int8 candidates, f32 values" } else { "f32" }
    }
}
