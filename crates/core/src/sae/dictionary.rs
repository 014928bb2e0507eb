//! What a dictionary is: directions, and a way to find which of them an activation uses.

use std::any::Any;
use std::fmt::Debug;

use super::precision::Precision;
use crate::codes::{CodesBuilder, CodesView, Latent};
use crate::context::Reservation;
use crate::error::{Error, InputError, Result};
use crate::store::Tile;

/// A dictionary of directions with a way to find which of them an activation uses.
pub trait Dictionary: Any + Debug + Send + Sync {
    /// What it is.
    fn card(&self) -> &SaeCard;
    /// The content address: equal dictionaries have equal ids, however they were read.
    fn id(&self) -> String;
    /// Appends one sparse row per row of the tile. A row's codes do not depend on the rows around it.
    fn encode(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()>;
    /// Writes one row of [`SaeCard::output_width`] per row of codes. Dictionaries that normalise rows or that have a skip
    /// connection need the rows that were encoded.
    fn decode(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &mut [f32]) -> Result<()>;
    /// What every latent adds to the output: one row of [`SaeCard::output_width`] per latent.
    fn directions(&self) -> &[f32];
    /// What a latent adds to the output.
    fn direction(&self, latent: Latent) -> &[f32] {
        let width = self.card().output_width();
        &self.directions()[latent.0 as usize * width..][..width]
    }
    /// Copies the direction that a latent reads; zeros if it reads nothing.
    fn encoder_row(&self, latent: Latent, into: &mut [f32]);
    /// What is added to every latent's value: with gates the bias of the magnitude, else that of the pre-activation.
    fn encoder_bias(&self) -> &[f32];
    /// Bytes that a thread uses to encode so many rows, beside the codes.
    fn encode_memory(&self, _rows: usize) -> u64 {
        0
    }
    /// Chooses how the encoder product is searched: no code depends on it.
    fn set_precision(&mut self, _precision: Precision) {}
    /// How the encoder product is searched, in words.
    fn precision(&self) -> &'static str {
        "f32"
    }
    /// Keeps a reservation as long as the dictionary.
    fn hold(&mut self, memory: Reservation);
}

impl dyn Dictionary {
    /// The dictionary as what it is, if it is that.
    pub fn downcast_ref<T: Dictionary>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

/// What a dictionary is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SaeCard {
    /// The name of its architecture.
    pub arch: String,
    /// The width of the activations it reads.
    pub width: usize,
    /// How many latents it has.
    pub latents: usize,
    /// How many latents a row can have at most, if that is fixed.
    pub k: Option<usize>,
    /// The site of a network that it reads, if its file says so.
    pub site: Option<String>,
    /// What it writes, if that is not what it reads (transcoders).
    pub output: Option<OutputSite>,
    /// Whether a linear map of the input is added to the output.
    pub skip: bool,
}

/// What a dictionary writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSite {
    /// The site of a network, if its file says so.
    pub site: Option<String>,
    /// The width of the rows.
    pub width: usize,
}

impl SaeCard {
    /// A dictionary that reconstructs what it reads.
    pub fn new(arch: String, width: usize, latents: usize, k: Option<usize>) -> SaeCard {
        SaeCard { arch, width, latents, k, site: None, output: None, skip: false }
    }

    /// The width of the rows that it writes.
    pub fn output_width(&self) -> usize {
        self.output.as_ref().map_or(self.width, |output| output.width)
    }

    /// Refuses rows of another width than it reads.
    pub(super) fn check_input(&self, width: usize) -> Result<()> {
        if width == self.width {
            return Ok(());
        }
        Err(InputError::new("the activations do not fit the dictionary")
            .expected(format!("width {}", self.width))
            .found(format!("width {width}"))
            .into())
    }

    /// Refuses to decode into something of another shape.
    pub(super) fn check_output(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &[f32]) -> Result<()> {
        let rows = codes.rows();
        if out.len() != rows * self.output_width() || source.is_some_and(|source| source.rows() != rows) {
            return Err(Error::Bug("reconstruction of another shape than the codes".into()));
        }
        source.map_or(Ok(()), |source| self.check_input(source.width))
    }
}

/// Builds the content address of a dictionary from named lists of numbers.
pub(super) struct ContentHash(blake3::Hasher);

impl ContentHash {
    pub fn new(arch: &str) -> ContentHash {
        let mut hash = ContentHash(blake3::Hasher::new_derive_key("etalon dictionary v1"));
        hash.name(arch);
        hash
    }

    /// A word.
    pub fn name(&mut self, name: &str) {
        self.list(name, &[]);
    }

    /// Numbers under a name.
    pub fn list(&mut self, name: &str, values: &[f32]) {
        self.0.update(name.as_bytes()).update(&(values.len() as u64).to_le_bytes());
        self.0.update(bytemuck::cast_slice(values));
    }

    /// Zeros under a name.
    pub fn zeros(&mut self, name: &str, count: usize) {
        self.0.update(name.as_bytes()).update(&(count as u64).to_le_bytes());
        let some = [0u8; 1 << 12];
        let mut bytes = 4 * count;
        while bytes > 0 {
            let now = bytes.min(some.len());
            self.0.update(&some[..now]);
            bytes -= now;
        }
    }

    pub fn finish(self) -> String {
        format!("blake3:{}", self.0.finalize().to_hex())
    }
}
