//! Options of commands that run a network: what `capture`, `train` and `eval` share, and the settings of a study.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::{ArgAction, Args, FromArgMatches};
use etalon::error::{InputError, Result};
use etalon::network::Processing;
use etalon::store::StoredNumber;
use etalon_models::data::{ContentKind, InputOptions};
use etalon_models::layer::WeightNumber;
use etalon_models::{CaptureRequest, CaptureSettings, RowChoice, Separator};

use crate::console::parse_size;

/// A network, what it is run on, and how.
#[derive(Args)]
#[command(next_help_heading = "Network")]
pub struct NetworkArgs {
    /// Network: a directory, a file, a packaged name, or org/name in the Hugging Face cache; MODEL:text for CLIP's network of texts
    #[arg(long, value_name = "MODEL", requires_all = ["input", "site"])]
    pub model: Option<String>,
    /// Texts or images: a file, a folder, a packaged name, a published data set (NAME:PATH), or first-letters; several, separated
    /// by commas, follow each other
    #[arg(long, value_name = "DATA", requires = "model")]
    pub input: Option<String>,
    /// Sites, separated by commas; `*` matches any characters except a dot
    #[arg(long, value_name = "SITE", requires = "model")]
    pub site: Option<String>,
    /// How the network is run.
    #[command(flatten)]
    pub options: CaptureOptions,
}

/// How the input is read and the network is run. Study files have the same keys.
#[derive(Args)]
pub struct CaptureOptions {
    /// Rows to store of every sample
    #[arg(long, value_name = "ROWS", default_value = "all", value_parser = RowChoice::NAMES)]
    pub rows: String,
    /// Tokens per sequence [default: 128, or the context of the network if that is less]
    #[arg(long, value_name = "N")]
    pub context: Option<usize>,
    /// Put texts one after the other in sequences of the same length
    #[arg(long)]
    pub pack: bool,
    /// Token between packed texts: that of the beginning of a text, that of its end, or none
    #[arg(long, value_name = "TOKEN", default_value = "bos", value_parser = Separator::NAMES, requires = "pack")]
    pub separator: String,
    /// Start sequences with the beginning-of-text token [default: as the tokenizer does]
    #[arg(long, value_name = "WHEN", value_parser = ["yes", "no"])]
    pub bos: Option<String>,
    /// Store the rows of special tokens
    #[arg(long)]
    pub keep_special: bool,
    /// Draw the weights anew, as a baseline: the same architecture that has learned nothing
    #[arg(long, value_name = "WHAT", value_parser = ["weights"])]
    pub randomise: Option<String>,
    /// Random seed of weights that are drawn anew
    #[arg(long, value_name = "N", requires = "randomise")]
    pub weights_seed: Option<u64>,
    /// Weights as TransformerLens changes them: none, transformer-lens, or parts of it such as fold_ln+center_unembed
    /// [default: as the settings of --sae say, else none]
    #[arg(long, value_name = "HOW")]
    pub processing: Option<Processing>,
    /// Number type of the weights of linear maps; bf16 and int8 are faster and less precise
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = WeightNumber::NAMES)]
    pub weights: String,
    /// Number type of the stores; f16 and bf16 take half of the space
    #[arg(long, value_name = "TYPE", default_value = "f32", value_parser = StoredNumber::NAMES)]
    pub dtype: String,
    /// Maximum number of samples, of each input or one number per input
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',')]
    pub limit: Vec<u64>,
    /// Read every N-th sample only, of each input or one number per input
    #[arg(long, value_name = "N[,N..]", value_delimiter = ',', value_parser = clap::value_parser!(u64).range(1..))]
    pub every: Vec<u64>,
    /// Classes of a published data set, by name or number, separated by commas [default: those of SAEBench, or all]
    #[arg(long, value_name = "CLASSES", value_delimiter = ',')]
    pub classes: Vec<String>,
    /// Texts of every class of a published data set [default: 2500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(10..))]
    pub per_class: Option<u64>,
    /// In-context examples of prompts about first letters [default: 10]
    #[arg(long, value_name = "N")]
    pub examples: Option<usize>,
    /// Random seed of inputs that are drawn: published data sets and first-letters
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub input_seed: u64,
    /// What to read of an input with texts and images [default: what it has]
    #[arg(long, value_name = "KIND", value_parser = ContentKind::NAMES)]
    pub kind: Option<String>,
    /// Column of the texts
    #[arg(long, value_name = "NAME")]
    pub text_column: Option<String>,
    /// Column of the images
    #[arg(long, value_name = "NAME")]
    pub image_column: Option<String>,
    /// Column of the ids of samples [default: `id`]
    #[arg(long, value_name = "NAME")]
    pub id_column: Option<String>,
    /// Column of the captions of images [default: `caption`]
    #[arg(long, value_name = "NAME")]
    pub caption_column: Option<String>,
    /// Columns of labels of samples or words, separated by commas [default: all others]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub label_columns: Option<Vec<String>>,
    /// Columns of labels whose cells are tags, separated by `|`
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    pub tag_columns: Vec<String>,
    /// Name concepts COLUMN/CLASS, so that metrics treat columns of labels as groups
    #[arg(long)]
    pub group_labels: bool,
    /// Every line of a .txt file is a text
    #[arg(long)]
    pub lines: bool,
    /// The folder of a file is its class
    #[arg(long)]
    pub folder_classes: bool,
}

/// Where captures are kept.
#[derive(Args)]
pub struct CacheArgs {
    /// Cache directory of packaged models, data sets and captures [default: ETALON_CACHE, XDG_CACHE_HOME/etalon or
    /// ~/.cache/etalon]
    #[arg(long, value_name = "DIR", help_heading = "Network")]
    pub cache: Option<PathBuf>,
    /// Most that cached captures may use; those that were not used for the longest time are removed
    #[arg(long, value_name = "SIZE", default_value = "50GB", help_heading = "Network")]
    pub cache_size: String,
}

impl CacheArgs {
    /// The largest size in bytes.
    pub fn most(&self) -> Result<u64> {
        parse_size("--cache-size", &self.cache_size)
    }
}

impl CaptureOptions {
    /// The capture of a network with these options.
    pub fn request(&self, model: &str, input: &str, sites: &str, cache: Option<PathBuf>) -> CaptureRequest {
        CaptureRequest {
            model: model.into(),
            input: input.into(),
            sites: sites.into(),
            settings: CaptureSettings {
                context: self.context.unwrap_or(CaptureSettings::default().context),
                packed: self.pack,
                separator: Separator::parse(&self.separator).unwrap_or_default(),
                bos: self.bos.as_ref().map(|when| when == "yes"),
                keep_special: self.keep_special,
                rows: RowChoice::parse(&self.rows).unwrap_or_default(),
                randomise: self.randomise.as_ref().map(|_| self.weights_seed.unwrap_or(0)),
                processing: self.processing.unwrap_or_default(),
                weights: self.weights.parse().unwrap_or_default(),
                dtype: StoredNumber::parse(&self.dtype).unwrap_or_default(),
                group_labels: self.group_labels,
            },
            options: InputOptions {
                kind: self.kind.as_deref().and_then(|kind| ContentKind::parse(kind).ok()),
                text_column: self.text_column.clone(),
                image_column: self.image_column.clone(),
                id_column: self.id_column.clone(),
                caption_column: self.caption_column.clone(),
                label_columns: self.label_columns.clone(),
                tag_columns: self.tag_columns.clone(),
                lines: self.lines,
                folder_classes: self.folder_classes,
                limit: self.limit.clone(),
                every: self.every.clone(),
                classes: self.classes.clone(),
                per_class: self.per_class,
                examples: self.examples,
                seed: self.input_seed,
                cache,
                ..InputOptions::default()
            },
        }
    }

    /// Reads the settings of a study, whose keys are the names of the options.
    pub fn of_study(settings: &BTreeMap<String, String>) -> Result<CaptureOptions> {
        let command = CaptureOptions::augment_args(clap::Command::new("capture").no_binary_name(true));
        let flag = |name: &str| {
            let arg = command.get_arguments().find(|arg| arg.get_long() == Some(name))?;
            Some(matches!(arg.get_action(), ArgAction::SetTrue))
        };
        let mut words = Vec::new();
        for (key, value) in settings {
            let name = key.replace('_', "-");
            match (flag(&name), value.as_str()) {
                (None, _) => {
                    let known: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
                    let error = InputError::new(format!("there is no setting `{key}` of captures"));
                    return Err(error.one_of(&name, &known).at("key `capture`").into());
                }
                (Some(true), "true") => words.push(format!("--{name}")),
                (Some(true), "false") => {}
                (Some(true), _) => {
                    let error = InputError::new(format!("the setting `{key}` of a capture is true or false"));
                    return Err(error.found(format!("`{value}`")).at("key `capture`").into());
                }
                // Written without quotes in a study: bos = true.
                (Some(false), "true") if name == "bos" => words.push("--bos=yes".into()),
                (Some(false), "false") if name == "bos" => words.push("--bos=no".into()),
                (Some(false), value) => words.push(format!("--{name}={value}")),
            }
        }
        let parsed = command.try_get_matches_from(words).and_then(|matches| CaptureOptions::from_arg_matches(&matches));
        parsed.map_err(|error| {
            let text = error.to_string();
            let line = text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string();
            InputError::new("a setting of a capture is invalid").found(line).at("key `capture`").into()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(settings: &[(&str, &str)]) -> Result<CaptureOptions> {
        CaptureOptions::of_study(&settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect())
    }

    #[test]
    fn settings_of_a_study_are_those_of_the_command_line() {
        let options = read(&[("context", "32"), ("pack", "true"), ("bos", "false"), ("label-columns", "a,b")]).unwrap();
        let request = options.request("m", "d", "s", None);
        assert_eq!((request.settings.context, request.settings.packed, request.settings.bos), (32, true, Some(false)));
        assert_eq!(request.options.label_columns, Some(vec!["a".to_string(), "b".to_string()]));
        assert!(!read(&[("pack", "false")]).unwrap().pack);
        let packed = read(&[("pack", "true"), ("separator", "eos")]).unwrap().request("m", "d", "s", None);
        assert_eq!((packed.settings.separator, request.settings.separator), (Separator::Eos, Separator::Bos));
        let text = |settings| read(settings).map(|_| ()).unwrap_err().to_string();
        assert!(text(&[("contxt", "3")]).contains("did you mean `context`"), "{}", text(&[("contxt", "3")]));
        assert!(text(&[("pack", "3")]).contains("true or false"));
        assert!(text(&[("context", "many")]).contains("many"), "{}", text(&[("context", "many")]));
        assert!(text(&[("rows", "some")]).contains("some"));
        assert!(read(&[("separator", "eos")]).is_err());
        assert!(text(&[("weights", "int4")]).contains("int4"));
        assert!(text(&[("processing", "centre")]).contains("centre"), "{}", text(&[("processing", "centre")]));
        let settings = read(&[("weights", "int8"), ("processing", "transformer-lens")]).unwrap();
        let settings = settings.request("m", "d", "s", None).settings;
        assert_eq!((settings.weights, settings.processing), (WeightNumber::Int8, Processing::TRANSFORMER_LENS));
    }
}
