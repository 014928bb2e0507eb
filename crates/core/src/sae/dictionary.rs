//! The interface of dictionaries, and the card that describes one.

use std::any::Any;
use std::fmt::Debug;

use super::precision::Precision;
use crate::codes::{CodesBuilder, CodesView, Latent};
use crate::context::Reservation;
use crate::error::{Error, InputError, Result};
use crate::store::Tile;

/// A set of directions, with an encoder that expresses an activation as a sparse combination of them.
pub trait Dictionary: Any + Debug + Send + Sync {
    /// Architecture, sizes and sites.
    fn card(&self) -> &SaeCard;
    /// The content hash: equal dictionaries have equal ids, whatever file they come from.
    fn id(&self) -> String;
    /// Appends one sparse row per row of the tile. The codes of a row do not depend on other rows.
    fn encode(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()>;
    /// Writes one row of [`SaeCard::output_width`] values per row of codes. Dictionaries that normalise rows or have a
    /// skip connection need the encoded rows as `source`.
    fn decode(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &mut [f32]) -> Result<()>;
    /// How much a reconstruction changes if the sum of code times direction changes by 1: the factor that undoes the
    /// normalisation of the encoded row.
    fn decoder_scale(&self, _source: &[f32]) -> f64 {
        1.0
    }
    /// The decoder matrix: one row of [`SaeCard::output_width`] values per latent.
    fn directions(&self) -> &[f32];
    /// The decoder direction of a latent.
    fn direction(&self, latent: Latent) -> &[f32] {
        let width = self.card().output_width();
        &self.directions()[latent.0 as usize * width..][..width]
    }
    /// Copies the encoder row of a latent; zeros if the dictionary has no encoder.
    fn encoder_row(&self, latent: Latent, into: &mut [f32]);
    /// The bias added to the value of each latent: that of the magnitude if there are gates, else that of the
    /// pre-activation.
    fn encoder_bias(&self) -> &[f32];
    /// Bytes that a thread needs to encode `rows` rows, besides the codes.
    fn encode_memory(&self, _rows: usize) -> u64 {
        0
    }
    /// Sets the arithmetic of the encoder product. Codes do not depend on it.
    fn set_precision(&mut self, _precision: Precision) {}
    /// The arithmetic of the encoder product, as text.
    fn precision(&self) -> &'static str {
        "f32"
    }
    /// Stores a memory reservation in the dictionary, which releases it when dropped.
    fn hold(&mut self, memory: Reservation);
}

impl dyn Dictionary {
    /// The dictionary as a `T`, if it is one.
    pub fn downcast_ref<T: Dictionary>(&self) -> Option<&T> {
        let any: &dyn Any = self;
        any.downcast_ref()
    }
}

/// The architecture, sizes and sites of a dictionary.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SaeCard {
    /// The name of its architecture.
    pub arch: String,
    /// The width of the activations it reads.
    pub width: usize,
    /// Number of latents.
    pub latents: usize,
    /// Maximum number of active latents per row, if it is fixed.
    pub k: Option<usize>,
    /// The network site that it reads, if its file records one.
    pub site: Option<String>,
    /// What it writes, if it writes another site than it reads (transcoders).
    pub output: Option<OutputSite>,
    /// Whether a linear map of the input is added to the output.
    pub skip: bool,
}

/// The output of a dictionary that does not reconstruct its input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutputSite {
    /// The network site, if its file records one.
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

    /// Checks the width of rows to encode.
    pub(super) fn check_input(&self, width: usize) -> Result<()> {
        if width == self.width {
            return Ok(());
        }
        Err(InputError::new("the width of the activations does not match the dictionary")
            .expected(format!("width {}", self.width))
            .found(format!("width {width}"))
            .into())
    }

    /// Checks the shapes of codes, source rows and reconstructions.
    pub(super) fn check_output(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &[f32]) -> Result<()> {
        let rows = codes.rows();
        if out.len() != rows * self.output_width() || source.is_some_and(|source| source.rows() != rows) {
            return Err(Error::Bug("the shapes of codes, source rows and reconstructions differ".into()));
        }
        source.map_or(Ok(()), |source| self.check_input(source.width))
    }
}

/// Builds the content hash of a dictionary from named lists of numbers.
pub(super) struct ContentHash(blake3::Hasher);

impl ContentHash {
    pub fn new(arch: &str) -> ContentHash {
        let mut hash = ContentHash(blake3::Hasher::new_derive_key("etalon dictionary v1"));
        hash.name(arch);
        hash
    }

    /// A name without numbers.
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
        let zeros = [0u8; 1 << 12];
        let mut bytes = 4 * count;
        while bytes > 0 {
            let chunk = bytes.min(zeros.len());
            self.0.update(&zeros[..chunk]);
            bytes -= chunk;
        }
    }

    pub fn finish(self) -> String {
        format!("blake3:{}", self.0.finalize().to_hex())
    }
}
