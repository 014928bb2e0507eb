//! The arithmetic of the encoder product. It changes the speed, never a bit of a result.

use serde::Serialize;

use crate::error::{InputError, Key, Result};
use etalon_kernel::int8::Arithmetic;

/// The arithmetic that finds the latents which a row keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Precision {
    /// `Int8` where the processor has AMX or AVX-512 VNNI instructions, else `F32`.
    #[default]
    Auto,
    /// The f32 product of every row and latent.
    F32,
    /// An int8 pre-filter with an error bound, and f32 products of the candidates that pass it. Slow on processors
    /// without int8 instructions.
    Int8,
}

impl Precision {
    /// The names on the command line.
    pub const NAMES: [&'static str; 3] = ["auto", "f32", "int8"];

    /// The precision of a name.
    pub fn named(name: &str) -> Result<Precision> {
        match name {
            "auto" => Ok(Precision::Auto),
            "f32" => Ok(Precision::F32),
            "int8" => Ok(Precision::Int8),
            _ => Err(InputError::new(format!("invalid value for {}", Key("precision")))
                .expected(Precision::NAMES.join(", "))
                .found(name)
                .into()),
        }
    }

    /// Whether an int8 pre-filter is used.
    pub fn prefilters(self) -> bool {
        match self {
            Precision::Auto => Arithmetic::fastest() != Arithmetic::Scalar,
            Precision::F32 => false,
            Precision::Int8 => true,
        }
    }

    /// The arithmetic as text, for an encoder that selects few latents per row or not. Instruction sets are not named,
    /// so that machines which compute the same bits also write the same files.
    pub fn used(self, selects: bool) -> &'static str {
        if selects && self.prefilters() { "int8 candidates, f32 values" } else { "f32" }
    }
}
