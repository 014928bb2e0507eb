//! The parameters.

use super::answers::Rule;
use crate::error::Result;
use crate::results::Profile;
use crate::run::Job;

pub(super) struct Settings {
    pub attributes: Vec<String>,
    /// Prompts of a kind to ask at most; 0 for all.
    pub most_prompts: usize,
    pub kept_entities: usize,
    /// 0 for all.
    pub kept_templates: usize,
    pub pairs: usize,
    pub train_share: f64,
    /// Train and test pairs are told apart by the splits of the files.
    pub by_files: bool,
    pub batch: usize,
    pub epochs: usize,
    pub rate: f64,
    pub answer_tokens: usize,
    /// Epochs of the skyline; `None` without it.
    pub skyline: Option<usize>,
    pub released: bool,
}

impl Settings {
    pub fn new(job: &Job<'_>) -> Result<Settings> {
        let attributes = job.several("attributes")?;
        Ok(Settings {
            attributes: attributes
                .iter()
                .filter_map(|name| name.as_str())
                .map(|name| name.trim().to_string())
                .collect(),
            most_prompts: job.whole("most_prompts")?,
            kept_entities: job.whole("kept_entities")?,
            kept_templates: job.whole("kept_templates")?,
            pairs: job.whole("pairs_per_attribute")?,
            train_share: job.number("pair_train_share")?,
            by_files: job.word("pair_split")? == "files",
            batch: job.whole("mask_batch")?,
            epochs: job.whole("mask_epochs")?,
            rate: job.number("mask_rate")?,
            answer_tokens: job.whole("answer_tokens")?,
            skyline: if job.word("mdas")? == "yes" { Some(job.whole("mdas_epochs")?) } else { None },
            released: job.profile == Profile::Reference,
        })
    }

    pub fn rule(&self) -> Rule {
        if self.released { Rule::Released } else { Rule::Mended }
    }
}
