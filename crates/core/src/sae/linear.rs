//! Dictionaries with one encoder matrix: everything between the product and the codes is an [`Activation`].

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

use super::baseline;
use super::pursuit;
use super::sieve::{Kept, Sieve};
use super::{Dictionary, Normalisation, Precision, Pursuit, SaeCard};
use crate::codes::{CodesBuilder, CodesView, Latent};
use crate::error::{Complaint, Error, Result};
use crate::kernel::aligned::Aligned;
use crate::kernel::candidates::{Found, Search};
use crate::kernel::eight::{Arithmetic, Columns};
use crate::kernel::panels::{PANEL, Panels, TILE_ROWS, blocks_at_once, fill_block};
use crate::kernel::vector::Rows;
use crate::store::Tile;

/// What becomes of the pre-activations of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Activation {
    /// Positive values stay.
    Relu,
    /// The k largest stay, if they are positive; among equals the lower latent.
    TopK(usize),
    /// Positive values above the threshold of their latent stay (JumpReLU, and BatchTopK when it is not training).
    Threshold(Vec<f32>),
    /// A latent fires where `p + gate_bias` is positive, with the value `p · magnitude_scale + magnitude_bias` if that
    /// is positive.
    Gated {
        /// Added before the gate.
        gate_bias: Vec<f32>,
        /// Multiplies the pre-activation.
        magnitude_scale: Vec<f32>,
        /// Added after that.
        magnitude_bias: Vec<f32>,
    },
    /// The k largest by absolute value stay, with their sign; among equals the lower latent (PCA).
    Largest(usize),
    /// Only the largest fires, whatever its sign, with the value 1; among equals the lower latent (k-means).
    Nearest,
    /// `k` latents drawn by the number of the row, whatever it holds.
    Random {
        /// How many fire.
        k: usize,
        /// The seed of the draws.
        seed: u64,
    },
    /// Everything stays, negative values too (PCA, neurons).
    Signed,
    /// Latents are chosen one after the other by their products with what is left over; what each choice takes away is its
    /// direction in the decoder. Biases of the encoder are not used.
    Pursuit(Pursuit),
}

/// What a [`Linear`] is made of. All matrices have one row per latent.
#[derive(Clone, Debug, PartialEq)]
pub struct Parts {
    /// The name of the architecture.
    pub arch: String,
    /// Latents × width.
    pub encoder: Vec<f32>,
    /// One value per latent.
    pub encoder_bias: Vec<f32>,
    /// Latents × width.
    pub decoder: Vec<f32>,
    /// One value per input: added to the reconstruction.
    pub bias: Vec<f32>,
    /// Is the bias subtracted before encoding?
    pub subtract_bias: bool,
    /// What is done to a row before everything else.
    pub input: Normalisation,
    /// What becomes of the pre-activations.
    pub activation: Activation,
}

/// `codes = activation((n(x) − bias) · Wᵀ + encoder_bias)`, `x̂ = n⁻¹(codes · D + bias)`, where `n` is the
/// normalisation and `bias` is subtracted only by some architectures.
#[derive(Debug)]
pub struct Linear {
    card: SaeCard,
    encoder: Panels,
    encoder_bias: Vec<f32>,
    decoder: Vec<f32>,
    bias: Vec<f32>,
    subtract_bias: bool,
    input: Normalisation,
    activation: Activation,
    /// Where the last rows were cut, as bits: it saves time and changes nothing else.
    guess: AtomicU32,
    /// Whether they kept little, and what saves time then.
    few: AtomicBool,
    rounded: OnceLock<Columns>,
    spare: Mutex<Vec<(Found, Vec<Kept>)>>,
    precision: Precision,
}

/// Of how many latents at least one must be kept for candidates to be few.
const SPARSE: usize = 48;

/// A row with more candidates than one in so many latents gets all its products.
const MANY: usize = 8;

/// Rows that a pursuit looks at together.
const GROUP: usize = 8 * TILE_ROWS;

impl Linear {
    /// Checks that the parts fit together.
    pub fn new(parts: Parts) -> Result<Linear> {
        let Parts { arch, encoder, encoder_bias, decoder, bias, subtract_bias, input, activation } = parts;
        let (latents, width) = (encoder_bias.len(), bias.len());
        let weights = latents.checked_mul(width).ok_or_else(|| Error::Bug("a dictionary larger than memory".into()))?;
        if width == 0 || latents == 0 || u32::try_from(latents).is_err() {
            return Err(Complaint::new("a dictionary of this size cannot be used")
                .expected(format!("a width of at least 1, and 1 to {} latents", u32::MAX))
                .found(format!("width {width}, {latents} latents"))
                .into());
        }
        let (mut lengths, mut k) =
            (vec![("encoder", encoder.len(), weights), ("decoder", decoder.len(), weights)], None);
        match &activation {
            Activation::Relu | Activation::Signed => {}
            Activation::TopK(keep) | Activation::Pursuit(Pursuit { k: keep, .. }) if (1..=latents).contains(keep) => {
                k = Some(*keep);
            }
            Activation::TopK(keep) | Activation::Pursuit(Pursuit { k: keep, .. }) => {
                return Err(Complaint::new("a dictionary cannot keep that many latents per row")
                    .expected(format!("k from 1 to {latents}"))
                    .found(keep)
                    .into());
            }
            Activation::Threshold(thresholds) => lengths.push(("threshold", thresholds.len(), latents)),
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
                lengths.push(("bias of the gate", gate_bias.len(), latents));
                lengths.push(("scale of the magnitude", magnitude_scale.len(), latents));
                lengths.push(("bias of the magnitude", magnitude_bias.len(), latents));
            }
            Activation::Nearest => k = Some(1),
            Activation::Largest(keep) | Activation::Random { k: keep, .. } => {
                baseline::check_size(latents, *keep)?;
                k = Some(*keep);
            }
        }
        for (what, length, expected) in lengths {
            if length != expected {
                return Err(Complaint::new(format!("the {what} does not fit the biases of this dictionary"))
                    .expected(format!("{expected} values, for {latents} latents and width {width}"))
                    .found(length)
                    .into());
            }
        }
        let card = SaeCard { arch, width, latents, k };
        let encoder = Panels::pack(&encoder, width);
        Ok(Linear {
            card,
            encoder,
            encoder_bias,
            decoder,
            bias,
            subtract_bias,
            input,
            activation,
            guess: AtomicU32::new(0),
            few: AtomicBool::new(false),
            rounded: OnceLock::new(),
            spare: Mutex::default(),
            precision: Precision::default(),
        })
    }

    /// What it is made of, to be changed or written.
    pub fn parts(&self) -> Parts {
        Parts {
            arch: self.card.arch.clone(),
            encoder: self.encoder.unpack(),
            encoder_bias: self.encoder_bias.clone(),
            decoder: self.decoder.clone(),
            bias: self.bias.clone(),
            subtract_bias: self.subtract_bias,
            input: self.input,
            activation: self.activation.clone(),
        }
    }

    /// The decoder: one direction per latent.
    pub fn directions(&self) -> &[f32] {
        &self.decoder
    }

    /// Copies the direction that a latent reads.
    pub fn encoder_row(&self, latent: Latent, into: &mut [f32]) {
        self.encoder.column(latent.0 as usize, into);
    }

    /// What is added to every latent's value: with gates the bias of the magnitude, else that of the pre-activation.
    pub fn encoder_bias(&self) -> &[f32] {
        match &self.activation {
            Activation::Gated { magnitude_bias, .. } => magnitude_bias,
            _ => &self.encoder_bias,
        }
    }

    /// What becomes of the pre-activations.
    pub fn activation(&self) -> &Activation {
        &self.activation
    }

    /// What is done to a row before everything else.
    pub fn input(&self) -> Normalisation {
        self.input
    }

    /// Chooses how the encoder product is searched: no code depends on it.
    pub fn set_precision(&mut self, precision: Precision) {
        self.precision = precision;
    }

    /// How the encoder product is searched, in words.
    pub fn precision(&self) -> &'static str {
        self.precision.used(matches!(self.activation, Activation::TopK(_) | Activation::Threshold(_)))
    }

    /// The content address: equal dictionaries have equal ids, however they were read.
    pub fn id(&self) -> String {
        let mut hash = blake3::Hasher::new_derive_key("etalon dictionary v1");
        let mut list = |name: &str, values: &[f32]| {
            hash.update(name.as_bytes()).update(&(values.len() as u64).to_le_bytes());
            hash.update(bytemuck::cast_slice(values));
        };
        list(&self.card.arch, &[]);
        list("encoder", &self.encoder.unpack());
        list("encoder bias", &self.encoder_bias);
        list("decoder", &self.decoder);
        list("bias", &self.bias);
        list(if self.subtract_bias { "centred" } else { "as it is" }, &[]);
        list(self.input.name(), &[]);
        match &self.activation {
            Activation::Relu => list("relu", &[]),
            Activation::Signed => list("signed", &[]),
            Activation::TopK(k) => list(&format!("top {k}"), &[]),
            Activation::Pursuit(Pursuit { k, signed }) => {
                let rule = if *signed { "signed pursuit" } else { "pursuit" };
                list(&format!("{rule} {k}"), &[]);
            }
            Activation::Threshold(thresholds) => list("threshold", thresholds),
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => {
                list("gate bias", gate_bias);
                list("magnitude scale", magnitude_scale);
                list("magnitude bias", magnitude_bias);
            }
            Activation::Nearest => list("nearest", &[]),
            Activation::Largest(k) => list(&format!("largest {k}"), &[]),
            Activation::Random { k, seed } => list(&format!("random {k} seed {seed}"), &[]),
        }
        format!("blake3:{}", hash.finalize().to_hex())
    }

    /// A row as the encoder wants it.
    fn prepare(&self, row: &[f32], into: &mut [f32]) {
        self.input.of(row).apply(row, into);
        if self.subtract_bias {
            into.iter_mut().zip(&self.bias).for_each(|(value, bias)| *value -= bias);
        }
    }

    /// Encodes by pursuit, a group of rows after the other.
    fn pursue(&self, pursuit: Pursuit, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()> {
        let width = self.card.width;
        let mut input = vec![0.0; GROUP.min(tile.rows().next_multiple_of(TILE_ROWS)) * width];
        let mut choices = vec![Vec::new(); input.len() / width];
        let (mut latents, mut values) = (Vec::new(), Vec::new());
        for first in (0..tile.rows()).step_by(GROUP) {
            let rows = GROUP.min(tile.rows() - first);
            for (place, into) in input.chunks_exact_mut(width).take(rows).enumerate() {
                self.prepare(tile.row(first + place), into);
            }
            pursuit.run(
                self.card.latents,
                &self.encoder,
                Rows::new(&self.decoder, width),
                &mut input,
                &mut choices[..rows],
            );
            for row in &mut choices[..rows] {
                pursuit::sum(row);
                latents.clear();
                values.clear();
                latents.extend(row.iter().map(|entry| entry.1));
                values.extend(row.iter().map(|entry| entry.0));
                out.push(&latents, &values)?;
            }
        }
        Ok(())
    }

    /// The rounded encoder, if it should propose what the next rows keep: once the first rows have said what to expect,
    /// and that it is little.
    fn rounded(&self) -> Option<&Columns> {
        let few = match &self.activation {
            Activation::TopK(k) => {
                self.guess.load(Ordering::Relaxed) > 0 && k.saturating_mul(SPARSE) <= self.card.latents
            }
            Activation::Threshold(_) => self.few.load(Ordering::Relaxed),
            _ => false,
        };
        // Rounded on one thread: others that wait for it must not be given parts of it.
        (few && self.precision.proposes())
            .then(|| self.rounded.get_or_init(|| Columns::new(self.encoder.values(), self.card.width)))
    }

    /// Encodes by candidates that the rounded encoder proposes. The codes are those of the whole product.
    fn search(&self, rounded: &Columns, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()> {
        let (width, rows) = (self.card.width, tile.rows());
        let padded = |values: &[f32], rest: f32| {
            let mut padded = values.to_vec();
            padded.resize(values.len().next_multiple_of(PANEL), rest);
            padded
        };
        let bias = padded(&self.encoder_bias, 0.0);
        let floors = match &self.activation {
            // Nothing below 0 fires, whatever the threshold.
            Activation::Threshold(thresholds) => {
                padded(&thresholds.iter().map(|threshold| threshold.max(0.0)).collect::<Vec<f32>>(), f32::INFINITY)
            }
            _ => padded(&vec![0.0; self.card.latents], f32::INFINITY),
        };
        let search = Search {
            panels: &self.encoder,
            columns: rounded,
            bias: &bias,
            floors: &floors,
            arithmetic: Arithmetic::fastest(),
        };
        let mut input = vec![0.0; rows * width];
        for (row, into) in input.chunks_exact_mut(width).enumerate() {
            self.prepare(tile.row(row), into);
        }
        let spare = self.spare.lock().ok().and_then(|mut spare| spare.pop());
        let (mut found, memory) = spare.unwrap_or_default();
        let mut sieve = Sieve::new(&self.activation, &self.encoder_bias, rows, memory);
        let guess = f32::from_bits(self.guess.load(Ordering::Relaxed));
        let lengths: Vec<f32> = input.chunks_exact(width).map(length).collect();
        sieve.start_from(guess, lengths.iter().copied());
        let starts: Option<Vec<f32>> = matches!(self.activation, Activation::TopK(_))
            .then(|| lengths.iter().map(|length| guess * length).collect());
        let mut again: Vec<usize> = (0..rows).collect();
        if search.usable() {
            search.run(&input, width, rows, starts.as_deref(), self.card.latents / MANY + PANEL, &mut found);
            (0..rows).for_each(|row| sieve.put(row, found.row(row)));
            again.clone_from(&found.left);
            again.append(&mut sieve.poor(rows));
            again.sort_unstable();
            again.dedup();
        }
        self.again(&again, tile, 0, &mut sieve);
        let before = out.entries();
        sieve.empty(rows, tile.first_row, out)?;
        self.learn(&sieve, rows, out.entries() - before);
        if let Ok(mut spare) = self.spare.lock() {
            spare.push((found, sieve.into_memory()));
        }
        Ok(())
    }

    /// Does some rows of a sieve again, whose first is this row of a tile, by all their products and without a start.
    fn again(&self, places: &[usize], tile: &Tile<'_>, first: usize, sieve: &mut Sieve<'_>) {
        let width = self.card.width;
        for places in places.chunks(TILE_ROWS) {
            let mut input = vec![0.0; places.len() * width];
            let (mut packed, mut product) = (Aligned::zeros(TILE_ROWS * width), [0.0; TILE_ROWS * PANEL]);
            for (&place, into) in places.iter().zip(input.chunks_exact_mut(width)) {
                self.prepare(tile.row(first + place), into);
            }
            fill_block(&input, width, &mut packed);
            let mut again = Sieve::new(&self.activation, &self.encoder_bias, places.len(), Vec::new());
            for panel in 0..self.encoder.panels() {
                self.encoder.products(&packed, panel, std::slice::from_mut(&mut product));
                again.pass(&mut product, panel, 0..places.len());
            }
            places.iter().enumerate().for_each(|(from, &to)| sieve.take_from(&mut again, from, to));
        }
    }

    /// Remembers what rows kept.
    fn learn(&self, sieve: &Sieve<'_>, rows: usize, entries: usize) {
        self.guess.store(sieve.usual_start().to_bits(), Ordering::Relaxed);
        self.few.store(entries.saturating_mul(SPARSE) <= rows.saturating_mul(self.card.latents), Ordering::Relaxed);
    }

    fn check_width(&self, found: usize) -> Result<()> {
        if found == self.card.width {
            return Ok(());
        }
        Err(Complaint::new("the activations do not fit the dictionary")
            .expected(format!("width {}", self.card.width))
            .found(format!("width {found}"))
            .into())
    }
}

/// The length of a row, near enough for a guess.
fn length(row: &[f32]) -> f32 {
    let (lines, rest) = row.as_chunks::<16>();
    let mut lanes = [0.0f32; 16];
    lines.iter().for_each(|line| (0..16).for_each(|lane| lanes[lane] += line[lane] * line[lane]));
    (lanes.iter().sum::<f32>() + rest.iter().map(|value| value * value).sum::<f32>()).sqrt()
}

impl Dictionary for Linear {
    fn card(&self) -> &SaeCard {
        &self.card
    }

    fn encode(&self, tile: &Tile<'_>, out: &mut CodesBuilder) -> Result<()> {
        self.check_width(tile.width)?;
        if let Activation::Random { k, seed } = self.activation {
            return baseline::draw(tile.first_row..tile.first_row + tile.rows(), self.card.latents, k, seed, out);
        }
        let width = self.card.width;
        if let Activation::Pursuit(pursuit) = &self.activation {
            return self.pursue(*pursuit, tile, out);
        }
        if let Some(rounded) = self.rounded() {
            return self.search(rounded, tile, out);
        }
        let blocks = blocks_at_once(tile.rows().div_ceil(TILE_ROWS), width, 1);
        let (group, size) = (blocks * TILE_ROWS, TILE_ROWS * width);
        let (mut input, mut packed) = (vec![0.0; size], Aligned::zeros(blocks * size));
        let mut products = Aligned::zeros(blocks * TILE_ROWS * PANEL);
        let (products, _) = products.as_chunks_mut::<{ TILE_ROWS * PANEL }>();
        let mut sieve = Sieve::new(&self.activation, &self.encoder_bias, group, Vec::new());
        let mut lengths = vec![0.0; group];
        for first in (0..tile.rows()).step_by(group) {
            let rows = group.min(tile.rows() - first);
            let products = &mut products[..rows.div_ceil(TILE_ROWS)];
            for (start, block) in (0..rows).step_by(TILE_ROWS).zip(packed.chunks_exact_mut(size)) {
                let count = TILE_ROWS.min(rows - start);
                for (place, into) in (start..).zip(input.chunks_exact_mut(width)).take(count) {
                    self.prepare(tile.row(first + place), into);
                    lengths[place] = length(into);
                }
                fill_block(&input[..count * width], width, block);
            }
            let guess = f32::from_bits(self.guess.load(Ordering::Relaxed));
            sieve.start_from(guess, lengths[..rows].iter().copied());
            for panel in 0..self.encoder.panels() {
                self.encoder.products(&packed, panel, products);
                for (start, product) in (0..rows).step_by(TILE_ROWS).zip(&mut *products) {
                    sieve.pass(product, panel, start..rows.min(start + TILE_ROWS));
                }
            }
            self.again(&sieve.poor(rows), tile, first, &mut sieve);
            let before = out.entries();
            sieve.empty(rows, tile.first_row + first, out)?;
            self.learn(&sieve, rows, out.entries() - before);
        }
        Ok(())
    }

    fn decode(&self, codes: &CodesView<'_>, source: Option<&Tile<'_>>, out: &mut [f32]) -> Result<()> {
        let width = self.card.width;
        if out.len() != codes.rows() * width || source.is_some_and(|source| source.rows() != codes.rows()) {
            return Err(Error::Bug("reconstruction of another shape than the codes".into()));
        }
        if let Some(source) = source {
            self.check_width(source.width)?;
        }
        for (row, into) in out.chunks_exact_mut(width).enumerate() {
            into.copy_from_slice(&self.bias);
            let (latents, values) = codes.row(row);
            for (&latent, &value) in latents.iter().zip(values) {
                let direction = self.direction(Latent(latent));
                into.iter_mut().zip(direction).for_each(|(into, part)| *into += value * part);
            }
            if self.input != Normalisation::None {
                let source = source.ok_or_else(|| {
                    Complaint::new("codes of this dictionary cannot be decoded without the activations")
                        .expected("the rows that were encoded, whose mean and scale are put back")
                })?;
                self.input.of(source.row(row)).undo(into);
            }
        }
        Ok(())
    }

    fn direction(&self, latent: Latent) -> &[f32] {
        &self.decoder[latent.0 as usize * self.card.width..][..self.card.width]
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;
    use crate::codes::Codes;
    use crate::kernel::random::{stream, unit};
    use crate::kernel::top::largest;

    /// Two latents read the two coordinates; x − bias = (2, 1).
    fn example(activation: Activation) -> Linear {
        Linear::new(Parts {
            arch: "test".into(),
            encoder: vec![1.0, 0.0, 0.0, 1.0],
            encoder_bias: vec![0.0, 0.5],
            decoder: vec![1.0, 0.0, 0.0, 2.0],
            bias: vec![1.0, 1.0],
            subtract_bias: true,
            input: Normalisation::None,
            activation,
        })
        .unwrap()
    }

    fn encode(dictionary: &Linear, values: &[f32]) -> Codes {
        let tile = Tile { first_row: 0, width: dictionary.card().width, values: Cow::Borrowed(values) };
        let mut out = CodesBuilder::new(dictionary.card().latents);
        dictionary.encode(&tile, &mut out).unwrap();
        out.finish()
    }

    #[test]
    fn encode_and_decode_by_hand() {
        let dictionary = example(Activation::Relu);
        let codes = encode(&dictionary, &[3.0, 2.0, 0.0, 0.0]);
        let view = codes.all().unwrap();
        // (2, 1 + 0.5); the second row gives (−1, −0.5), so nothing fires.
        assert_eq!(view.row(0), (&[0u32, 1][..], &[2.0f32, 1.5][..]));
        assert_eq!(view.row(1).0.len(), 0);
        let mut back = vec![0.0; 4];
        dictionary.decode(&view, None, &mut back).unwrap();
        assert_eq!(back, [3.0, 4.0, 1.0, 1.0]);
    }

    #[test]
    fn every_activation_by_hand() {
        let row = |activation| {
            let codes = encode(&example(activation), &[3.0, 2.0, -1.0, 1.0]);
            let all = codes.all().unwrap();
            (0..2)
                .map(|row| all.row(row).0.iter().copied().zip(all.row(row).1.to_vec()).collect())
                .collect::<Vec<Vec<_>>>()
        };
        // Pre-activations: (2, 1.5) and (−2, 0.5).
        assert_eq!(row(Activation::TopK(1)), [vec![(0, 2.0)], vec![(1, 0.5)]]);
        assert_eq!(row(Activation::Threshold(vec![2.0, 1.0])), [vec![(1, 1.5)], vec![]]);
        assert_eq!(row(Activation::Threshold(vec![-3.0, -3.0])), [vec![(0, 2.0), (1, 1.5)], vec![(1, 0.5)]]);
        assert_eq!(row(Activation::Signed), [vec![(0, 2.0), (1, 1.5)], vec![(0, -2.0), (1, 0.5)]]);
        let gated = Activation::Gated {
            gate_bias: vec![0.0, -1.0],
            magnitude_scale: vec![2.0, 2.0],
            magnitude_bias: vec![-5.0, 1.0],
        };
        // Gates open at (2, 0.5 above 0) and (−2, −0.5): 2 · 2 − 5 < 0 is nothing, 2 · 1.5 + 1 = 4.
        assert_eq!(row(gated), [vec![(1, 4.0)], vec![]]);
    }

    #[test]
    fn a_guess_changes_no_code() {
        let (rows, width, latents) = (40, 6, 70);
        let mut random = stream(9, "guess", 0);
        let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
        let parts = Parts {
            arch: "test".into(),
            encoder: draw(latents * width),
            encoder_bias: draw(latents),
            decoder: draw(latents * width),
            bias: vec![0.0; width],
            subtract_bias: false,
            input: Normalisation::None,
            activation: Activation::TopK(8),
        };
        let (used, values) = (Linear::new(parts.clone()).unwrap(), draw(rows * width));
        // Guesses that are too high for none, some and all of the rows; rows of zeros have no length.
        for guess in [0.0f32, 1e-3, 0.3, 0.5, 0.7, 1e9, f32::MAX] {
            used.guess.store(guess.to_bits(), Ordering::Relaxed);
            let mut values = values.clone();
            values[5 * width..7 * width].fill(0.0);
            let fresh = Linear::new(parts.clone()).unwrap();
            assert_eq!(encode(&used, &values).id().unwrap(), encode(&fresh, &values).id().unwrap());
        }
    }

    #[test]
    fn no_precision_changes_a_code() {
        let (rows, width, latents) = (150, 21, 500);
        let mut random = stream(4, "precision", 0);
        let mut draw = |count: usize| -> Vec<f32> { (0..count).map(|_| unit(&mut random) as f32 - 0.5).collect() };
        let (mut values, threshold) = (draw(rows * width), vec![1.6; latents]);
        values[..width].fill(0.0);
        values[3 * width] = 1e5;
        for activation in [Activation::TopK(7), Activation::Threshold(threshold)] {
            let parts = Parts {
                arch: "test".into(),
                encoder: draw(latents * width),
                encoder_bias: draw(latents).iter().map(|bias| bias / 9.0).collect(),
                decoder: draw(latents * width),
                bias: draw(width),
                subtract_bias: true,
                input: Normalisation::None,
                activation,
            };
            let mut exact = Linear::new(parts.clone()).unwrap();
            exact.set_precision(Precision::F32);
            let expected = encode(&exact, &values).id().unwrap();
            let mut proposed = Linear::new(parts).unwrap();
            proposed.set_precision(Precision::Int8);
            // The first rows say what to expect; from then on candidates are proposed.
            for round in 0..3 {
                assert_eq!(proposed.rounded().is_some(), round > 0);
                assert_eq!(encode(&proposed, &values).id().unwrap(), expected);
            }
            assert!(exact.rounded().is_none() && exact.precision() == "f32");
            assert_eq!(proposed.precision(), "int8 candidates, f32 values");
            // What overflows is refused as ever.
            values[40 * width..][..width].fill(3e38);
            let refused = |dictionary: &Linear| {
                let tile = Tile { first_row: 0, width, values: Cow::Borrowed(&values) };
                dictionary.encode(&tile, &mut CodesBuilder::new(latents)).unwrap_err().to_string()
            };
            assert!(refused(&proposed).contains("row 40") && refused(&exact) == refused(&proposed));
            values[40 * width..][..width].fill(0.1);
        }
    }

    #[test]
    fn parts_must_fit() {
        let parts = example(Activation::Relu).parts();
        let why = |change: fn(&mut Parts)| {
            let mut parts = parts.clone();
            change(&mut parts);
            Linear::new(parts).unwrap_err().to_string()
        };
        assert!(why(|parts| parts.encoder.truncate(3)).contains("encoder"));
        assert!(why(|parts| parts.activation = Activation::TopK(3)).contains("k from 1 to 2"));
        assert!(why(|parts| parts.activation = Activation::TopK(0)).contains("k from 1 to 2"));
        assert!(why(|parts| parts.activation = Activation::Threshold(vec![1.0])).contains("threshold"));
        assert!(why(|parts| parts.bias.clear()).contains("width 0"));
    }

    #[test]
    fn a_normalised_row_comes_back_to_its_own_scale() {
        let mut parts = example(Activation::Signed).parts();
        parts.input = Normalisation::ConstantNorm;
        let dictionary = Linear::new(parts).unwrap();
        // Norm 5 becomes √2, so that nothing of the first row is left but its direction.
        let codes = encode(&dictionary, &[3.0, 4.0]);
        let tile = Tile { first_row: 0, width: 2, values: Cow::Borrowed(&[3.0, 4.0][..]) };
        let mut back = vec![0.0; 2];
        let view = codes.all().unwrap();
        dictionary.decode(&view, Some(&tile), &mut back).unwrap();
        // (x − 1 + (0, 0.5)) · (1, 2) + 1 with x = (3, 4) · √2 / 5, then · 5 / √2.
        let scale = 5.0 / 2f32.sqrt();
        let expected = [3.0, ((4.0 / scale - 0.5) * 2.0 + 1.0) * scale];
        assert!(back.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-5), "{back:?} {expected:?}");
        assert!(dictionary.decode(&view, None, &mut back).unwrap_err().to_string().contains("without the activations"));
    }

    #[test]
    fn overflow_is_refused_with_its_row() {
        let tile = Tile { first_row: 40, width: 2, values: Cow::Borrowed(&[1.0, 1.0, f32::MAX, 0.0]) };
        let mut parts = example(Activation::Relu).parts();
        parts.encoder = vec![f32::MAX, 0.0, 0.0, 1.0];
        let error = Linear::new(parts).unwrap().encode(&tile, &mut CodesBuilder::new(2)).unwrap_err().to_string();
        assert!(error.contains("row 41, latent 0"), "{error}");
    }

    /// The whole row at once, written down as the definition says.
    fn plain(parts: &Parts, row: &[f32]) -> Vec<f32> {
        let chain = |weights: &[f32]| {
            let centred = row.iter().zip(&parts.bias).map(|(value, bias)| value - bias);
            centred.zip(weights).fold(0.0f32, |sum, (value, weight)| value.mul_add(*weight, sum))
        };
        let pre: Vec<f32> =
            parts.encoder.chunks_exact(row.len()).zip(&parts.encoder_bias).map(|(w, b)| chain(w) + b).collect();
        let each = |value: &dyn Fn(usize) -> f32| (0..pre.len()).map(value).collect::<Vec<f32>>();
        match &parts.activation {
            Activation::Relu => each(&|l| pre[l].max(0.0)),
            Activation::Threshold(t) => each(&|l| if pre[l] > t[l] { pre[l].max(0.0) } else { 0.0 }),
            Activation::Signed => pre,
            Activation::Gated { gate_bias, magnitude_scale, magnitude_bias } => each(&|l| {
                let open = pre[l] + gate_bias[l] > 0.0;
                if open { (pre[l] * magnitude_scale[l] + magnitude_bias[l]).max(0.0) } else { 0.0 }
            }),
            Activation::TopK(k) => {
                let (mut top, mut kept) = (Vec::new(), vec![0.0; pre.len()]);
                largest(&pre, *k, &mut top);
                top.iter().filter(|(value, _)| *value > 0.0).for_each(|&(value, l)| kept[l as usize] = value);
                kept
            }
            Activation::Pursuit(pursuit) => {
                let mut left: Vec<f32> = row.iter().zip(&parts.bias).map(|(value, bias)| value - bias).collect();
                let mut codes = vec![0.0f32; pre.len()];
                for _ in 0..pursuit.k {
                    let chain = |w: &[f32]| left.iter().zip(w).fold(0.0f32, |sum, (a, b)| a.mul_add(*b, sum));
                    let products: Vec<f32> = parts.encoder.chunks_exact(row.len()).map(chain).collect();
                    let size = |l: usize| if pursuit.signed { products[l] } else { products[l].abs() };
                    let best = (1..pre.len()).fold(0, |best, l| if size(l) > size(best) { l } else { best });
                    if products[best] == 0.0 {
                        break;
                    }
                    codes[best] += products[best];
                    let direction = &parts.decoder[best * row.len()..][..row.len()];
                    left.iter_mut().zip(direction).for_each(|(left, d)| *left = (-products[best]).mul_add(*d, *left));
                }
                codes
            }
            Activation::Largest(k) => {
                let sizes: Vec<f32> = pre.iter().map(|value| value.abs()).collect();
                let (mut top, mut kept) = (Vec::new(), vec![0.0; pre.len()]);
                largest(&sizes, *k, &mut top);
                top.iter().for_each(|&(_, l)| kept[l as usize] = pre[l as usize]);
                kept
            }
            Activation::Nearest => {
                let best = (1..pre.len()).fold(0, |best, l| if pre[l] > pre[best] { l } else { best });
                each(&|l| if l == best { 1.0 } else { 0.0 })
            }
            Activation::Random { .. } => Vec::new(),
        }
    }

    #[test]
    fn sifted_tiles_are_the_plain_definition_bit_for_bit() {
        for (rows, width, latents) in [(1, 5, 3), (12, 8, 32), (13, 7, 33), (100, 16, 257)] {
            let mut random = stream(rows as u64, "sieve test", 0);
            // A few levels only, so that there are ties.
            let mut draw = |count: usize| -> Vec<f32> {
                (0..count).map(|_| (unit(&mut random) * 9.0).floor() as f32 / 4.0 - 1.0).collect()
            };
            let gated = Activation::Gated {
                gate_bias: draw(latents),
                magnitude_scale: draw(latents),
                magnitude_bias: draw(latents),
            };
            let keeps = [1, 2, 5, 40].map(|k: usize| Activation::TopK(k.min(latents)));
            let others = [Activation::Relu, Activation::Signed, Activation::Threshold(draw(latents)), gated];
            let pursuits =
                [(1, false), (3, true), (3, false)].map(|(k, signed)| Activation::Pursuit(Pursuit { k, signed }));
            let signed = [Activation::Nearest, Activation::Largest(1), Activation::Largest(latents.min(40))];
            let values = draw(rows * width);
            for activation in keeps.into_iter().chain(others).chain(pursuits).chain(signed) {
                let parts = Parts {
                    arch: "test".into(),
                    encoder: draw(latents * width),
                    encoder_bias: draw(latents),
                    decoder: draw(latents * width),
                    bias: draw(width),
                    subtract_bias: true,
                    input: Normalisation::None,
                    activation,
                };
                let dense: Vec<f32> = values.chunks_exact(width).flat_map(|row| plain(&parts, row)).collect();
                let expected = Codes::from_dense(&dense, latents).unwrap().id().unwrap();
                let dictionary = Linear::new(parts.clone()).unwrap();
                assert_eq!(encode(&dictionary, &values).id().unwrap(), expected, "{:?}", parts.activation);
                assert_eq!(dictionary.parts(), parts);
            }
        }
    }
}
