//! The SAEBench result file: one per evaluation of a dictionary, and its required fields.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::error::{InputError, Result};

/// A file `…_eval_results.json`. Fields that are missing in some published files have a default.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Envelope {
    /// The evaluation.
    pub eval_type_id: String,
    /// Its configuration.
    pub eval_config: Map<String, Value>,
    /// A UUID.
    #[serde(default)]
    pub eval_id: String,
    /// The time, in milliseconds since 1970.
    #[serde(default)]
    pub datetime_epoch_millis: u64,
    /// Numbers by category and name.
    pub eval_result_metrics: Map<String, Value>,
    /// Details of parts, such as data sets or latents.
    #[serde(default, deserialize_with = "list_or_null")]
    pub eval_result_details: Vec<Value>,
    /// The version of the program.
    #[serde(default)]
    pub sae_bench_commit_hash: String,
    /// The id of the dictionary in its release.
    pub sae_lens_id: Option<String>,
    /// The release.
    pub sae_lens_release_id: Option<String>,
    /// The version of SAELens.
    #[serde(default)]
    pub sae_lens_version: Option<String>,
    /// The configuration of the dictionary.
    pub sae_cfg_dict: Option<Map<String, Value>>,
    /// Other data.
    #[serde(default)]
    pub eval_result_unstructured: Option<Value>,
}

fn list_or_null<'de, D: serde::Deserializer<'de>>(from: D) -> std::result::Result<Vec<Value>, D::Error> {
    Ok(Option::<Vec<Value>>::deserialize(from)?.unwrap_or_default())
}

/// The required fields of an evaluation's file.
pub struct EvaluationFields {
    /// The evaluation.
    pub id: &'static str,
    /// The folder of its files.
    pub folder: &'static str,
    /// Categories with the numbers that they must have.
    pub categories: &'static [(&'static str, &'static [&'static str])],
    /// The fields of every detail.
    pub details: &'static [&'static str],
    /// The fields of the configuration.
    pub config: &'static [&'static str],
}

/// The evaluations that Etalon writes.
pub const SHAPES: [EvaluationFields; 9] = [
    EvaluationFields {
        id: "core",
        folder: "core",
        categories: &[
            ("model_behavior_preservation", &["kl_div_score", "kl_div_with_ablation", "kl_div_with_sae"]),
            (
                "model_performance_preservation",
                &["ce_loss_score", "ce_loss_with_ablation", "ce_loss_with_sae", "ce_loss_without_sae"],
            ),
            ("reconstruction_quality", &["explained_variance", "explained_variance_legacy", "mse", "cossim"]),
            ("shrinkage", &["l2_norm_in", "l2_norm_out", "l2_ratio", "relative_reconstruction_bias"]),
            ("sparsity", &["l0", "l1"]),
            ("token_stats", &["total_tokens_eval_reconstruction", "total_tokens_eval_sparsity_variance"]),
            (
                "misc_metrics",
                &[
                    "freq_over_1_percent",
                    "freq_over_10_percent",
                    "normalized_freq_over_1_percent",
                    "normalized_freq_over_10_percent",
                    "average_max_encoder_cosine_sim",
                    "average_max_decoder_cosine_sim",
                    "frac_alive",
                ],
            ),
        ],
        details: &[
            "index",
            "feature_density",
            "consistent_activation_heuristic",
            "encoder_bias",
            "encoder_norm",
            "encoder_decoder_cosine_sim",
            "max_decoder_cosine_sim",
            "max_encoder_cosine_sim",
        ],
        config: &["model_name", "llm_dtype", "dataset", "context_size"],
    },
    EvaluationFields {
        id: "absorption_first_letter",
        folder: "absorption",
        categories: &[(
            "mean",
            &[
                "mean_absorption_fraction_score",
                "mean_full_absorption_score",
                "mean_num_split_features",
                "std_dev_absorption_fraction_score",
                "std_dev_full_absorption_score",
                "std_dev_num_split_features",
            ],
        )],
        details: &[
            "first_letter",
            "mean_absorption_fraction",
            "full_absorption_rate",
            "num_full_absorption",
            "num_probe_true_positives",
            "num_split_features",
        ],
        config: &["model_name", "random_seed"],
    },
    EvaluationFields {
        id: "scr",
        folder: "scr",
        categories: &[("scr_metrics", &[])],
        details: &["dataset_name"],
        config: &["model_name", "random_seed", "n_values"],
    },
    EvaluationFields {
        id: "tpp",
        folder: "tpp",
        categories: &[("tpp_metrics", &[])],
        details: &["dataset_name"],
        config: &["model_name", "random_seed", "n_values"],
    },
    EvaluationFields {
        id: "sparse_probing",
        folder: "sparse_probing",
        categories: &[("llm", &["llm_test_accuracy"]), ("sae", &[])],
        details: &["dataset_name", "llm_test_accuracy"],
        config: &["model_name", "random_seed", "k_values"],
    },
    EvaluationFields {
        id: "autointerp",
        folder: "autointerp",
        categories: &[("autointerp", &["autointerp_score", "autointerp_std_dev"])],
        details: &[],
        config: &["model_name", "random_seed", "n_latents"],
    },
    EvaluationFields {
        id: "ravel",
        folder: "ravel",
        categories: &[("ravel", &["disentanglement_score", "cause_score", "isolation_score"])],
        details: &[],
        config: &["model_name", "random_seed", "entity_attribute_selection", "num_pairs_per_attribute"],
    },
    EvaluationFields {
        id: "unlearning",
        folder: "unlearning",
        categories: &[("unlearning", &["unlearning_score"])],
        details: &[],
        config: &["model_name", "random_seed", "retain_thresholds", "n_features_list", "multipliers"],
    },
    EvaluationFields {
        id: "meta_structure_decoder_variance",
        folder: "meta_structure",
        categories: &[(
            "meta_structure",
            &["decoder_fraction_variance_explained", "train_time_seconds", "final_reconstruction_mse"],
        )],
        details: &[],
        config: &[],
    },
];

/// The largest integer that readers of these files accept.
const MAX_INTEGER: u64 = i32::MAX as u64;

impl Envelope {
    /// Checks that a file has what readers require.
    pub fn check(&self) -> Result<()> {
        let wrong =
            |what: String| -> Result<()> { Err(InputError::new(format!("invalid SAEBench file: {what}")).into()) };
        if self.datetime_epoch_millis > 9_999_999_999_999 {
            return wrong("the time is out of range".into());
        }
        for (category, numbers) in &self.eval_result_metrics {
            let Some(numbers) = numbers.as_object() else { return wrong(format!("category `{category}`")) };
            if let Some((name, _)) = numbers.iter().find(|(_, number)| !(number.is_number() || number.is_null())) {
                return wrong(format!("`{category}.{name}` is not a number"));
            }
        }
        for (name, value) in self.sae_cfg_dict.iter().flatten() {
            if value.as_u64().is_some_and(|number| number > MAX_INTEGER) {
                return wrong(format!("`sae_cfg_dict.{name}` needs more than 32 bits"));
            }
        }
        let Some(shape) = SHAPES.iter().find(|shape| shape.id == self.eval_type_id) else { return Ok(()) };
        for (category, names) in shape.categories {
            for name in *names {
                if !self.number(category, name).is_some_and(f64::is_finite) {
                    return wrong(format!("`{category}.{name}` is missing"));
                }
            }
        }
        for (index, detail) in self.eval_result_details.iter().enumerate() {
            if let Some(name) = shape.details.iter().find(|name| detail.get(**name).is_none_or(Value::is_null)) {
                return wrong(format!("detail {index} lacks `{name}`"));
            }
        }
        match shape.config.iter().find(|name| !self.eval_config.contains_key(**name)) {
            Some(name) => wrong(format!("the configuration lacks `{name}`")),
            None => Ok(()),
        }
    }

    /// A number of a category.
    pub fn number(&self, category: &str, name: &str) -> Option<f64> {
        self.eval_result_metrics.get(category)?.get(name)?.as_f64()
    }
}
