//! What is captured, and how.

use etalon::network::Processing;
use etalon::store::StoredNumber;
use serde::Serialize;

use crate::data::InputOptions;
use crate::layer::WeightNumber;
use crate::weights::NetworkOptions;

/// Which rows of a sample are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RowChoice {
    /// Every token, patch or position.
    #[default]
    All,
    /// The first token: the class token of a vision transformer.
    Class,
    /// Patches without class token and registers.
    Patches,
    /// The mean of all tokens or positions, as one row per sample.
    Mean,
    /// The last token.
    Last,
    /// The last token of the word that a text is about.
    Word,
}

impl RowChoice {
    /// The names, for options.
    pub const NAMES: [&'static str; 6] = ["all", "class", "patches", "mean", "last", "word"];

    /// The choice of a name.
    pub fn parse(name: &str) -> Option<RowChoice> {
        Some(match name {
            "all" => RowChoice::All,
            "class" => RowChoice::Class,
            "patches" => RowChoice::Patches,
            "mean" => RowChoice::Mean,
            "last" => RowChoice::Last,
            "word" => RowChoice::Word,
            _ => return None,
        })
    }
}

/// The token between two packed texts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Separator {
    /// The beginning-of-text token, as SAELens does.
    #[default]
    Bos,
    /// The end-of-text token.
    Eos,
    /// None.
    None,
}

impl Separator {
    /// The names, for options.
    pub const NAMES: [&'static str; 3] = ["bos", "eos", "none"];

    /// The separator of a name.
    pub fn parse(name: &str) -> Option<Separator> {
        let all = [Separator::Bos, Separator::Eos, Separator::None];
        Separator::NAMES.iter().position(|known| *known == name).map(|index| all[index])
    }

    fn is_bos(&self) -> bool {
        *self == Separator::Bos
    }
}

/// How the network is run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CaptureSettings {
    /// Tokens per sequence.
    pub context: usize,
    /// Texts one after the other in sequences of the same length, instead of one text per sequence.
    pub packed: bool,
    /// The token between two packed texts.
    #[serde(skip_serializing_if = "Separator::is_bos")]
    pub separator: Separator,
    /// Start every sequence with the beginning-of-text token; `None` as the tokenizer does.
    pub bos: Option<bool>,
    /// Store the rows of special tokens too.
    pub keep_special: bool,
    /// Which rows are stored.
    pub rows: RowChoice,
    /// Draw the weights anew with this seed, as a baseline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub randomise: Option<u64>,
    /// Changes of the weights of a language model.
    #[serde(skip_serializing_if = "Processing::is_none")]
    pub processing: Processing,
    /// The number type of the weights of linear maps.
    #[serde(skip_serializing_if = "WeightNumber::is_f32")]
    pub weights: WeightNumber,
    /// The number type of the stores.
    #[serde(skip_serializing_if = "StoredNumber::is_f32")]
    pub dtype: StoredNumber,
    /// Put the name of the column in front of a class or tag: `genre/news`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub group_labels: bool,
}

impl CaptureSettings {
    /// How the network is used.
    pub fn network(&self) -> NetworkOptions {
        NetworkOptions { randomise: self.randomise, processing: self.processing, numbers: self.weights }
    }
}

impl Default for CaptureSettings {
    fn default() -> CaptureSettings {
        CaptureSettings {
            context: 128,
            packed: false,
            separator: Separator::Bos,
            bos: None,
            keep_special: false,
            rows: RowChoice::All,
            randomise: None,
            processing: Processing::NONE,
            weights: WeightNumber::F32,
            dtype: StoredNumber::F32,
            group_labels: false,
        }
    }
}

/// A capture.
#[derive(Clone, Debug, Default)]
pub struct CaptureRequest {
    /// The network: a path, a packaged name, or a name of the hub; `:text` behind it means CLIP's network of texts.
    pub model: String,
    /// The input: a path or a packaged name, or several, separated by commas.
    pub input: String,
    /// Names or patterns of sites, separated by commas.
    pub sites: String,
    /// How the network is run.
    pub settings: CaptureSettings,
    /// How the input is read.
    pub options: InputOptions,
}
