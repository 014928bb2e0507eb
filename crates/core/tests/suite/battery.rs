//! The common battery: every metric runs on the same small data sets and must satisfy the same laws.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use etalon::codes::Codes;
use etalon::context::{Budget, Context, Progress};
use etalon::error::{Error, Result};
use etalon::labels::{Annotations, Concept, Factors, Label, Pair, PairSet};
use etalon::metrics::{Evaluated, Evaluation, METRICS, Metric};
use etalon::network::{Judge, Question};
use etalon::results::{Profile, Recipe, ResultFile};
use etalon::run::{
    CODES, DICTIONARY, DIRECTIONS, EMBEDDINGS, ENCODER, ENTITIES, FORGET, GENERATED, Generated, Inputs, JUDGES, LABELS,
    Mode, NETWORK, NULLS, OTHERS, PAIRS, QUESTIONS, RESPONSES, RETAIN, Response, Responses, SIDE_QUESTIONS,
    TASK_LABELS, TOKENS, TRAINING, TRUTH, TokenSource, TokenTexts, Truth, UNITS, Unit, Units,
};
use etalon::sae::train::{Point, Record};
use etalon::sae::{Activation, Dictionary, Linear, Normalisation, Parts};
use etalon::store::ActivationStore;
use etalon_kernel::random::{permutation, stream, unit};

use crate::{MEMORY, recipe_of, toy_network};

/// Headline numbers that depend on the order of rows: a random split selects other rows, a block has other rows, and CKNNA
/// breaks ties between neighbours by row, and `mis` ties between activations.
const ROWS_IN_ORDER: &[&str] = &[
    "match_score_held_out",
    "fms",
    "fms_held_out",
    "probe_f1",
    "probe_own_f1",
    "probe_auc",
    "cknna",
    "top_1_accuracy",
    "top_2_accuracy",
    "top_5_accuracy",
    "all_latents_accuracy",
    "top_1_channels_accuracy",
    "top_2_channels_accuracy",
    "top_5_channels_accuracy",
    "all_channels_accuracy",
    "scr_10",
    "scr_20",
    "scr_noise",
    "scr_detectable",
    "tpp_10",
    "tpp_20",
    "tpp_20_intended",
    "tpp_20_unintended",
    "tpp_noise",
    "tpp_detectable",
    "probes_1_auc",
    "probes_5_auc",
    "probes_20_auc",
    "probes_100_auc",
    "probes_20_f1",
    "probes_20_accuracy",
    "probes_channels_auc",
    "absorption_fraction",
    "absorption_fraction_january",
    "absorption_fraction_paper",
    "full_absorption",
    "split_features",
    "null_suppressed",
    "null_exaggerated",
    "null_significant",
    "model_correlation_split_half",
    "divergence_shuffled",
    "null_frequency_gap",
    "null_frequency_relative",
    "outside_funnel",
    "unique_share_half",
    "unique_share_null",
    "missing_share_half",
    "missing_share_null",
    "subspace_alignment_half",
    "subspace_alignment_null",
    "mdl_bits_corrected",
    "fid_features_corrected",
    "fid_features_half",
    "fid_features_floor",
    "fid_reconstructions_corrected",
    "fid_reconstructions_half",
    "fid_reconstructions_floor",
    "fid_codes_corrected",
    "fid_codes_half",
    "fid_codes_floor",
    "ois",
    "ois_noise",
    "ois_corrected",
    "nis",
    "nis_unmasked",
    "sap",
    "r4",
    "disentanglement",
    "completeness",
    "informativeness",
    "explicitness",
    "concept_alignment",
    "concept_alignment_chance",
    "concept_auc",
    "task_auc",
    // The noise that separates equal values is drawn in the order of rows.
    "ctl",
    "icl",
    "mis",
    "mis_hard",
    "mis_p05",
    "mis_p95",
    "intruder",
    "intruder_top",
    "example_embedding",
    "example_embedding_top",
    "example_embedding_hard",
    // Windows are rows that follow each other.
    "autointerp_score",
    "autointerp_std_dev",
    "autointerp_balanced",
    "autointerp_fuzzing",
    "autointerp_tokens",
    "autointerp_tokens_balanced",
    "autointerp_unparsed",
    "judge_agreement",
    "steer_score",
    "steer_score_random",
    "steer_score_other",
    "dose_response",
    "readback_response",
    "steer_fluency",
    "steer_kl",
    "steer_kl_random",
    "his_pearson",
    "his_spearman",
    "his_attenuated",
    "his_model_pearson",
    "his_model_spearman",
    "his_alpha",
];

/// Headline numbers that depend on the order of rows in the profile `reference` only: the first half of the rows counts.
const ROWS_IN_REFERENCE: &[&str] = &["modularity"];

/// Headline numbers that depend on the order of latents: trees break ties between splits by latent; the initial weights
/// of a probe are drawn in order, in a range that depends on their number; a meta-dictionary is trained on directions
/// in order.
const LATENTS_IN_ORDER: &[&str] = &[
    "fms",
    "fms_held_out",
    "all_latents_accuracy",
    "meta_explained",
    "meta_null",
    "meta_error",
    // Of latents that predict the training rows equally well, the first is taken.
    "concept_alignment",
    // The random streams of a probe are those of its latent.
    "ois",
    "ois_noise",
    "ois_corrected",
    "nis",
    "nis_unmasked",
    "concept_auc",
    "task_auc",
    // Ties between splits.
    "disentanglement",
    "completeness",
    "informativeness",
];

/// Headline numbers that count latents, including dead ones, or compare directions, which are duplicated here.
const DEAD_LATENTS: &[&str] = &[
    "all_latents_accuracy",
    "frac_alive",
    "freq_over_1_percent",
    "freq_over_10_percent",
    "average_max_decoder_cosine_sim",
    "meta_explained",
    "meta_null",
    "meta_error",
    "output_like",
    "effect_kurtosis",
    "effect_skewness",
    // Networks have an input per latent, completeness has the number of latents as the base of its logarithm, and the
    // classifier of a constant latent can be the second best.
    "nis",
    "nis_unmasked",
    "concept_auc",
    "task_auc",
    "completeness",
    "sap",
];

/// Headline numbers that count dead latents in the profile `reference` only. There a dead latent may be the representation of a
/// concept that probes predict worse than chance (`ois`), is computed from any concept (`r4`), counts as 0 (`modularity`),
/// enters the base of the logarithm (`disentanglement`), or counts as predicted exactly (`informativeness`).
const DEAD_IN_REFERENCE: &[&str] = &[
    "informativeness",
    "ois",
    "ois_noise",
    "ois_corrected",
    "r4",
    "modularity",
    "disentanglement",
    "suppressed",
    "exaggerated",
    "suppressed_certain",
    "exaggerated_certain",
    "blindspots_significant",
    "null_suppressed",
    "null_exaggerated",
    "null_significant",
    "gap_skewness",
    "delta_skewness",
];

/// Headline numbers of the profile `reference` that depend on latents without effect: the released program ablates
/// them, in order, before those with a negative effect; and one random stream orders the images of all units.
const REFERENCE_LATENTS: &[&str] = &[
    "tpp_10",
    "tpp_20",
    "tpp_20_intended",
    "tpp_20_unintended",
    "tpp_noise",
    "tpp_detectable",
    "mis",
    "mis_hard",
    "mis_p05",
    "mis_p95",
];

/// A small data set as dense arrays, so that rows and latents can be permuted.
#[derive(Clone)]
struct Small {
    latents: usize,
    width: usize,
    codes: Vec<Vec<f32>>,
    embeddings: Vec<Vec<f32>>,
    labels: Vec<Vec<Label>>,
}

impl Small {
    fn random(rows: usize, latents: usize, concepts: usize, seed: u64) -> Small {
        let width = 6;
        let mut random = stream(seed, "battery", 0);
        let mut world = Small { latents, width, codes: vec![], embeddings: vec![], labels: vec![] };
        for _ in 0..rows {
            let labels: Vec<bool> = (0..concepts).map(|_| unit(&mut random) < 0.35).collect();
            let code = |latent: usize, random: &mut _| {
                let follows = labels.get(latent % concepts.max(1)).copied().unwrap_or(false);
                let fires = unit(random) < if follows { 0.8 } else { 0.1 };
                if fires { 0.1 + unit(random) as f32 } else { 0.0 }
            };
            let codes: Vec<f32> = (0..latents).map(|latent| code(latent, &mut random)).collect();
            let embedding = (0..width).map(|d| {
                let shared = if labels.get(d % concepts.max(1)).copied().unwrap_or(false) { 1.0 } else { -0.5 };
                shared + unit(&mut random) as f32
            });
            world.embeddings.push(embedding.collect());
            world.codes.push(codes);
            world.labels.push(labels.iter().map(|&yes| if yes { Label::Yes } else { Label::No }).collect());
        }
        world
    }

    fn concepts(&self) -> usize {
        self.labels.first().map_or(3, Vec::len)
    }

    fn inputs(&self) -> Inputs {
        let rows = self.codes.len();
        let codes = |shift: usize| {
            let rows = (0..rows).flat_map(|row| self.codes[(row + shift) % rows].iter().copied());
            Arc::new(Codes::from_dense(&rows.collect::<Vec<_>>(), self.latents).unwrap())
        };
        let names = (0..self.concepts()).map(|concept| format!("concept {concept}")).collect();
        let labels = Annotations::new(names, rows, |row, concept| self.labels[row][concept]).unwrap();
        let pair = |index: usize| Pair {
            before: index * 2,
            after: index * 2 + 1,
            added: Some(Concept((index % self.concepts()) as u32)),
            removed: (index.is_multiple_of(3) && self.concepts() > 1)
                .then(|| Concept(((index + 1) % self.concepts()) as u32)),
        };
        let mut inputs = Inputs::default()
            .with(&CODES, codes(0))
            .with(&LABELS, labels)
            .with(&PAIRS, PairSet { pairs: (0..rows / 2).map(pair).collect() })
            .with(&DICTIONARY, Arc::new(self.dictionary()) as Arc<dyn Dictionary>)
            .with(&TRUTH, Truth { codes: codes(0), directions: None })
            .with(&TRAINING, training())
            .with(&UNITS, self.units())
            .with(&RESPONSES, self.responses())
            .with(&NETWORK, toy_network::text_run())
            .with(&ENTITIES, toy_network::entities())
            .with(&TOKENS, tokens(rows))
            .with(&FORGET, toy_network::texts(3))
            .with(&RETAIN, toy_network::texts(5))
            .with(&QUESTIONS, toy_network::questions(1))
            .and(&SIDE_QUESTIONS, "", toy_network::questions(2))
            .and(&SIDE_QUESTIONS, "", toy_network::questions(3))
            .with(&ENCODER, toy_network::encoder())
            .and(&JUDGES, "", Arc::new(HashJudge(0)) as Arc<dyn Judge>)
            .and(&JUDGES, "", Arc::new(HashJudge(1)) as Arc<dyn Judge>)
            .with(&TASK_LABELS, self.task());
        if let Some(embeddings) = self.embeddings() {
            inputs.put(&EMBEDDINGS, embeddings);
        }
        let directions = (0..self.latents * self.width).map(|i| ((i * 7919 % 101) as f32 - 50.0) / 50.0).collect();
        inputs.put(&DIRECTIONS, ActivationStore::from_rows(directions, self.width).unwrap());
        if rows > 0 {
            (1..3).for_each(|shift| inputs.add(&NULLS, "", codes(shift)));
        }
        (1..3).for_each(|shift| inputs.add(&OTHERS, "", self.other(shift)));
        for (index, name) in ["one", "two"].into_iter().enumerate() {
            inputs.add(&GENERATED, name, self.generated(index));
        }
        inputs
    }

    /// A task that depends on the labels of a row.
    fn task(&self) -> Factors {
        let class = |row: &Vec<Label>| row.iter().filter(|label| **label == Label::Yes).count() as i32 % 3;
        Factors::new(vec!["task".into()], vec![self.labels.iter().map(class).collect()]).unwrap()
    }

    /// The latents as units of two models.
    fn units(&self) -> Units {
        let unit = |latent: usize| Unit { model: ["a", "b"][latent % 2].into(), layer: "l".into(), ..Unit::default() };
        Units { units: (0..self.latents).map(unit).collect() }
    }

    /// Six answers about every latent.
    fn responses(&self) -> Responses {
        let answer = |index: usize| Response {
            unit: Some((index / 6) as u64),
            correct: index % 6 <= index / 6 % 5,
            ..Response::default()
        };
        Responses { trials: (0..6 * self.latents).map(answer).collect() }
    }

    fn embeddings(&self) -> Option<ActivationStore> {
        ActivationStore::from_rows(self.embeddings.concat(), self.width).ok()
    }

    /// A generator that suppresses some latents of some rows and exaggerates others. Its output depends only on the
    /// row, so that rows can be permuted.
    fn generated(&self, index: usize) -> Generated {
        let output = |row: &Vec<f32>| {
            let largest = row.iter().copied().fold(0.0, f32::max);
            let changed = move |value: &f32| match (largest * 97.0 + value * 31.0 + index as f32) as usize % 3 {
                0 => 0.0,
                1 => value * 1.5,
                _ => *value,
            };
            row.iter().map(changed).collect::<Vec<_>>()
        };
        let codes: Vec<f32> = self.codes.iter().flat_map(output).collect();
        let codes = Arc::new(Codes::from_dense(&codes, self.latents).unwrap());
        Generated { codes, embeddings: self.embeddings().map(Arc::new) }
    }

    /// A dictionary of this size. It did not encode the codes, which is irrelevant for the laws.
    fn dictionary(&self) -> Linear {
        let weights = |shift: usize| {
            let weight = |index: usize| ((index * 7919 + shift) % 103) as f32 / 50.0 - 1.0;
            (0..self.latents * self.width).map(weight).collect()
        };
        Linear::new(Parts {
            arch: "battery".into(),
            encoder: weights(5),
            encoder_bias: vec![0.1; self.latents],
            decoder: weights(40),
            bias: vec![0.2; self.width],
            subtract_bias: true,
            input: Normalisation::None,
            activation: Activation::Relu,
        })
        .unwrap()
    }

    fn other(&self, shift: usize) -> ActivationStore {
        let part = |index: usize| ((index * 6607 + shift) % 97) as f32 - 48.0;
        let values = (0..self.latents * self.width).map(part).collect();
        ActivationStore::from_rows(values, self.width).unwrap()
    }

    fn with_rows(&self, order: &[usize]) -> Small {
        let pick = |rows: &[Vec<f32>]| order.iter().map(|&row| rows[row].clone()).collect();
        let labels = order.iter().map(|&row| self.labels[row].clone()).collect();
        Small { codes: pick(&self.codes), embeddings: pick(&self.embeddings), labels, ..*self }
    }

    fn with_latents(&self, change: impl Fn(&[f32]) -> Vec<f32>) -> Small {
        let codes: Vec<Vec<f32>> = self.codes.iter().map(|row| change(row)).collect();
        let latents = codes.first().map_or(self.latents, Vec::len);
        Small { codes, latents, ..self.clone() }
    }

    fn label_column(mut self, concept: usize, label: Label) -> Small {
        self.labels.iter_mut().for_each(|row| row[concept] = label);
        self
    }
}

/// Texts of thirty tokens behind some rows.
fn tokens(rows: usize) -> TokenSource {
    let words: Vec<String> = (0..rows).map(|row| format!(" word{}", row * 7919 % 13)).collect();
    let sequences: Vec<Vec<String>> = words.chunks(30).map(<[String]>::to_vec).collect();
    TokenSource::Texts(Arc::new(TokenTexts::new(&sequences, &Budget::new(MEMORY)).unwrap()))
}

/// A judge whose answers are arbitrary but depend on the question only; some cannot be read.
struct HashJudge(u8);

impl Judge for HashJudge {
    fn id(&self) -> String {
        format!("hash {}", self.0)
    }

    fn answer(&self, question: &Question, _: &Context) -> Result<String> {
        let key = question.key().into_bytes();
        Ok(match (key[0] + self.0) % 5 {
            0 => "I cannot say".into(),
            1 => "None".into(),
            _ => format!("{}, {}", 1 + key[1] % 14, 1 + key[2] % 14),
        })
    }
}

/// A record of two steps.
fn training() -> Record {
    let point = |step| Point { step, loss: Some(1.0), explained_variance: Some(0.5), l0: 2.0, dead: 0.0 };
    Record { points: vec![point(0), point(1)] }
}

/// The twelve data sets.
fn worlds() -> Vec<(&'static str, Small)> {
    let base = Small::random(60, 9, 3, 1);
    let set = |latent: usize, value: f32| {
        base.with_latents(move |row| {
            let mut row = row.to_vec();
            row[latent] = value;
            row
        })
    };
    vec![
        ("no rows", Small::random(0, 9, 3, 1)),
        ("one row", Small::random(1, 9, 3, 1)),
        ("one latent", Small::random(60, 1, 3, 1)),
        ("one concept", Small::random(60, 9, 1, 1)),
        ("a dead latent", set(4, 0.0)),
        ("a latent that is always on", set(4, 1.0)),
        ("a concept without a positive row", base.clone().label_column(1, Label::No)),
        ("a concept that is everywhere", base.clone().label_column(1, Label::Yes)),
        ("an unlabelled concept", base.clone().label_column(1, Label::Unknown)),
        ("every row twice", base.with_rows(&(0..120).map(|row| row / 2).collect::<Vec<_>>())),
        ("every latent twice", base.with_latents(|row| [row, row].concat())),
        ("ties everywhere", base.with_latents(|row| row.iter().map(|&v| if v > 0.0 { 1.0 } else { 0.0 }).collect())),
    ]
}

/// Parameters for short runs: fewer repeats and training steps.
fn quick(metric: &dyn Metric) -> Vec<(&'static str, &'static str)> {
    let declared = |name: &str| metric.card().params.iter().any(|param| param.name == name);
    // Only metrics with networks have `hidden`.
    let epochs = declared("hidden").then_some(("epochs", "3"));
    let short = [
        ("repeats", "2"),
        ("meta_steps", "20"),
        ("stages", "5"),
        ("splits", "2"),
        ("tasks", "3"),
        ("explanations", "4"),
        ("min_active", "18"),
        ("quantiles", "2"),
        ("buffer", "1"),
        ("dead_latent_threshold", "3"),
        ("top_explaining", "2"),
        ("top_scored", "1"),
        ("weighted_explaining", "2"),
        ("mask_batch", "2"),
        ("mdas", "yes"),
        ("mdas_epochs", "2"),
        ("known", "once"),
        ("corpus_sequences", "2"),
        ("clamped_latents", "1,3"),
        ("steered_latents", "2"),
        ("generated_tokens", "6"),
        ("strengths", "-1,0.5,2"),
    ];
    short.into_iter().filter(|(name, _)| declared(name)).chain(epochs).collect()
}

fn run(metric: &dyn Metric, inputs: &Inputs, profile: Profile, seed: u64, threads: usize) -> Result<ResultFile> {
    crate::run(metric, inputs, &quick(metric), profile, seed, threads)
}

/// The name of a metric in messages.
fn title(metric: &dyn Metric, profile: Profile) -> String {
    format!("`{}` ({})", metric.card().name, profile.name())
}

/// The JSON of a result, without its run time.
fn text(mut result: ResultFile) -> String {
    result.seconds = 0.0;
    result.to_json().unwrap().to_string()
}

fn for_every_metric(law: impl Fn(&'static dyn Metric, Profile)) {
    for metric in METRICS {
        for profile in [Profile::Paper, Profile::Reference] {
            law(*metric, profile);
        }
    }
}

#[test]
fn every_data_set_gives_scores_or_an_input_error() {
    for_every_metric(|metric, profile| {
        let card = metric.card();
        for (name, world) in worlds() {
            let case = format!("{} on the data set with {name}", title(metric, profile));
            let done = catch_unwind(AssertUnwindSafe(|| run(metric, &world.inputs(), profile, 0, 2)));
            let result = match done.unwrap_or_else(|_| panic!("{case} panicked")) {
                Ok(result) => result,
                Err(error @ Error::Input(_)) => {
                    assert!(world.codes.len() <= 1, "{case}: {error}");
                    continue;
                }
                Err(error) => panic!("{case}: {error}"),
            };
            let keys: Vec<&str> = result.scores.headline.iter().map(|headline| headline.key.as_str()).collect();
            assert_eq!(keys, card.headline.iter().map(|output| output.key).collect::<Vec<_>>(), "{case}");
            for (headline, output) in result.scores.headline.iter().zip(card.headline) {
                let Some(value) = headline.value else {
                    assert!(!result.scores.notes.is_empty(), "{case}: `{}` undefined without a note", headline.key);
                    continue;
                };
                let (low, high) = output.range;
                assert!((low - 1e-9..=high + 1e-9).contains(&value), "{case}: `{}` = {value}", headline.key);
                if let Some(interval) = headline.interval {
                    assert!(interval.low <= interval.high, "{case}: `{}`", headline.key);
                }
            }
        }
    });
}

#[test]
fn threads_and_repetition_do_not_change_a_bit() {
    let inputs = Small::random(2500, 20, 5, 3).inputs();
    for_every_metric(|metric, profile| {
        let one = text(run(metric, &inputs, profile, 5, 1).unwrap());
        for threads in [1, 2, 7] {
            let other = text(run(metric, &inputs, profile, 5, threads).unwrap());
            assert!(one == other, "{} with {threads} threads", title(metric, profile));
        }
    });
}

const ROWS: &str = "rows in another order";
const LATENTS: &str = "latents in another order";
const DEAD: &str = "two dead latents more";

fn assert_same_headline(metric: &dyn Metric, profile: Profile, law: &str, one: &ResultFile, other: &ResultFile) {
    for (a, b) in one.scores.headline.iter().zip(&other.scores.headline) {
        let exempt: &[&str] = match law {
            ROWS => ROWS_IN_ORDER,
            LATENTS => LATENTS_IN_ORDER,
            DEAD => DEAD_LATENTS,
            _ => &[],
        };
        let quirk = profile == Profile::Reference && REFERENCE_LATENTS.contains(&a.key.as_str());
        let counted = profile == Profile::Reference
            && match law {
                DEAD => DEAD_IN_REFERENCE.contains(&a.key.as_str()),
                ROWS => ROWS_IN_REFERENCE.contains(&a.key.as_str()),
                _ => false,
            };
        if exempt.contains(&a.key.as_str()) || counted || (quirk && law != ROWS) {
            continue;
        }
        let same = match (a.value, b.value) {
            (Some(a), Some(b)) => (a - b).abs() <= 1e-9 * a.abs().max(1.0),
            (None, None) => true,
            _ => false,
        };
        assert!(same, "{}, {law}: `{}` {:?} and {:?}", title(metric, profile), a.key, a.value, b.value);
    }
}

#[test]
fn the_order_of_rows_does_not_matter() {
    let world = Small::random(200, 12, 4, 7);
    // Pairs are pairs of rows, so whole pairs are moved.
    let order: Vec<usize> =
        permutation(100, &mut stream(2, "battery rows", 0)).iter().flat_map(|&pair| [2 * pair, 2 * pair + 1]).collect();
    let inputs = world.inputs();
    let pairs = &inputs.get(&PAIRS).unwrap().pairs;
    let renumber = |index: usize| Pair { before: 2 * index, after: 2 * index + 1, ..pairs[order[2 * index] / 2] };
    // Nulls are shifted codes: use the same shifted rows for both.
    let null = inputs.share(&NULLS).unwrap();
    let moved = world
        .with_rows(&order)
        .inputs()
        .with(&PAIRS, PairSet { pairs: (0..100).map(renumber).collect() })
        .with(&NULLS, null.select(&order).unwrap());
    let inputs = inputs.with(&NULLS, null);
    for_every_metric(|metric, profile| {
        let (one, other) = (run(metric, &inputs, profile, 0, 2).unwrap(), run(metric, &moved, profile, 0, 2).unwrap());
        assert_same_headline(metric, profile, ROWS, &one, &other);
    });
}

/// The directions of a data set in another order.
fn directions_of(world: &Small, order: &[usize]) -> ActivationStore {
    let directions = world.inputs().share(&DIRECTIONS).unwrap();
    let row = |&latent: &usize| directions.tile(latent..latent + 1).unwrap().row(0).to_vec();
    ActivationStore::from_rows(order.iter().flat_map(row).collect(), world.width).unwrap()
}

#[test]
fn the_order_of_latents_does_not_matter_and_dead_ones_add_nothing() {
    let world = Small::random(200, 12, 4, 11);
    let order = permutation(12, &mut stream(3, "battery latents", 0));
    let permuted = world.with_latents(|row| order.iter().map(|&latent| row[latent]).collect());
    let padded = world.with_latents(|row| [row, &[0.0, 0.0]].concat());
    for_every_metric(|metric, profile| {
        // Answers are about units by number.
        let alone = |world: &Small| world.inputs().without(&DICTIONARY).without(&OTHERS).without(&RESPONSES);
        if metric.card().check_needs(&alone(&world)).is_err() {
            return;
        }
        let one = run(metric, &alone(&world), profile, 0, 2).unwrap();
        let dead = (12..14).map(|latent| latent % 12);
        let padded_order: Vec<usize> = (0..12).chain(dead).collect();
        for (law, other, order) in [(LATENTS, &permuted, &order), (DEAD, &padded, &padded_order)] {
            let other = alone(other)
                .with(&TRUTH, world.inputs().share(&TRUTH).unwrap())
                .with(&DIRECTIONS, directions_of(&world, order));
            let other = run(metric, &other, profile, 0, 2).unwrap();
            assert_same_headline(metric, profile, law, &one, &other);
        }
    });
}

/// Metrics of SAEBench that use directions. `mdl` depends on their lengths in the profile `reference`, as the released code
/// does.
const INVARIANT: &[&str] = &["sparse_probing", "sae_probes", "scr", "tpp", "absorption", "core", "mdl"];

#[test]
fn rescaled_directions_of_the_same_function_do_not_matter() {
    let world = Small::random(200, 12, 4, 17);
    // Powers of two, so that products are exact.
    let scale = |latent: usize| [0.25f32, 1.0, 8.0][latent % 3];
    let rescaled = world.with_latents(|row| row.iter().enumerate().map(|(j, value)| value * scale(j)).collect());
    let directions = world.inputs().share(&DIRECTIONS).unwrap();
    let row = |latent: usize| {
        let tile = directions.tile(latent..latent + 1).unwrap();
        tile.row(0).iter().map(|part| part / scale(latent)).collect::<Vec<_>>()
    };
    let directions = ActivationStore::from_rows((0..12).flat_map(row).collect(), world.width).unwrap();
    let alone = |world: &Small| world.inputs().without(&DICTIONARY).without(&OTHERS);
    let (given, other) = (alone(&world), alone(&rescaled).with(&DIRECTIONS, directions));
    for_every_metric(|metric, profile| {
        let name = metric.card().name;
        if INVARIANT.contains(&name) && (name != "mdl" || profile == Profile::Paper) {
            let (one, other) =
                (run(metric, &given, profile, 0, 2).unwrap(), run(metric, &other, profile, 0, 2).unwrap());
            assert_same_headline(metric, profile, "rescaled directions", &one, &other);
        }
    });
}

#[test]
fn the_size_of_units_does_not_change_a_bit() {
    // Five leaves of rows.
    let inputs = Small::random(5000, 20, 5, 13).inputs();
    let context = Context::silent(2, MEMORY).unwrap();
    for_every_metric(|metric, profile| {
        let recipe = recipe_of(metric, &inputs, &quick(metric), profile, 5).unwrap();
        let with_units_of = |leaves: usize| {
            let evaluation = Evaluation { unit_leaves: Some(leaves), ..Evaluation::default() };
            match evaluation.run(metric, &inputs, &recipe, &context).unwrap() {
                Evaluated::Done(result) => text(*result),
                other => panic!("{}: {other:?}", title(metric, profile)),
            }
        };
        let one = with_units_of(1);
        for leaves in [4, 64] {
            assert!(one == with_units_of(leaves), "{}, units of {leaves} leaves", title(metric, profile));
        }
    });
}

/// An evaluation whose units are run in separate calls, as by other processes.
struct Driver<'a> {
    metric: &'static dyn Metric,
    inputs: &'a Inputs,
    recipe: Recipe,
    directory: tempfile::TempDir,
}

impl Driver<'_> {
    fn call(&self, mode: Mode) -> Result<Evaluated> {
        // Another process has its own threads and memory.
        let context = Context::silent(1, MEMORY)?;
        let evaluation = Evaluation { units: Some(self.directory.path()), mode, unit_leaves: None };
        evaluation.run(self.metric, self.inputs, &self.recipe, &context)
    }

    /// Runs some units one by one, in reverse order.
    fn run_units(&self, stage: &str, units: &[usize]) {
        for &unit in units.iter().rev() {
            let done = self.call(Mode::Units(stage.into(), unit..unit + 1)).unwrap();
            assert!(matches!(done, Evaluated::Stored), "unit {unit} of {stage}: {done:?}");
        }
    }

    /// The stage that lacks units, with those units; `Err` with the result if no stage does.
    fn merge(&self) -> std::result::Result<(String, Vec<usize>), Box<ResultFile>> {
        match self.call(Mode::Merge).unwrap() {
            Evaluated::Waiting { stage, missing } => Ok((stage, missing)),
            Evaluated::Done(result) => Err(result),
            Evaluated::Stored => panic!("merging stored units"),
        }
    }

    /// Damages the file of one unit of a stage and deletes that of another; returns both units.
    fn damage(&self, stage: &str, units: &[usize]) -> Vec<usize> {
        let file = |unit: usize| {
            let entries = std::fs::read_dir(self.directory.path()).unwrap().map(|entry| entry.unwrap().path());
            let is_unit = |path: &std::path::PathBuf| {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                name.contains(stage) && name.ends_with(&format!("x{unit:06}"))
            };
            entries.into_iter().find(is_unit).unwrap_or_else(|| panic!("no file of unit {unit} of {stage}"))
        };
        let (first, last) = (units[0], units[units.len() - 1]);
        let mut bytes = std::fs::read(file(first)).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(file(first), bytes).unwrap();
        if last == first {
            return vec![first];
        }
        std::fs::remove_file(file(last)).unwrap();
        vec![first, last]
    }
}

#[test]
fn units_run_one_by_one_give_the_same_bits() {
    let inputs = Small::random(2500, 20, 5, 3).inputs();
    for_every_metric(|metric, profile| {
        let name = title(metric, profile);
        let recipe = recipe_of(metric, &inputs, &quick(metric), profile, 5).unwrap();
        let driver = Driver { metric, inputs: &inputs, recipe, directory: tempfile::tempdir().unwrap() };
        let mut stages: Vec<String> = Vec::new();
        let result = loop {
            let (stage, missing) = match driver.merge() {
                Ok(waiting) => waiting,
                Err(result) => break result,
            };
            assert!(!missing.is_empty() && !stages.contains(&stage), "{name} waits for {stage} twice: {missing:?}");
            driver.run_units(&stage, &missing);
            let damaged = driver.damage(&stage, &missing);
            assert_eq!(driver.merge().ok(), Some((stage.clone(), damaged.clone())), "{name}");
            driver.run_units(&stage, &damaged);
            stages.push(stage);
        };
        let local = run(metric, &inputs, profile, 5, 2).unwrap();
        assert!(text(*result) == text(local), "{name} unit by unit, in {} stages", stages.len());
        // A worker refuses a stage whose key differs from that of its own replay.
        if let Some(stage) = stages.first() {
            let other = format!("{}0", &stage[..stage.len() - 1]);
            let other = if other == *stage { format!("{}1", &stage[..stage.len() - 1]) } else { other };
            let again = Driver { directory: tempfile::tempdir().unwrap(), ..driver };
            assert!(matches!(again.call(Mode::Units(other, 0..1)), Err(Error::Bug(_))), "{name}");
        }
    });
}

#[test]
fn memory_is_released_and_cancelled_work_stops() {
    let inputs = Small::random(300, 10, 4, 13).inputs();
    for_every_metric(|metric, profile| {
        let name = title(metric, profile);
        let recipe = recipe_of(metric, &inputs, &quick(metric), profile, 0).unwrap();
        let context = Context::silent(2, MEMORY).unwrap();
        let evaluation = Evaluation::default();
        evaluation.run(metric, &inputs, &recipe, &context).unwrap();
        assert_eq!(context.budget().left(), MEMORY, "{name} holds memory");
        context.cancel();
        let stopped = evaluation.run(metric, &inputs, &recipe, &context);
        assert!(matches!(stopped, Err(Error::Cancelled)), "{name}: {stopped:?}");
        assert_eq!(context.budget().left(), MEMORY, "{name} holds memory after cancellation");
    });
}

/// Metrics without work: `training` copies the record of a training into a table.
const WITHOUT_STAGES: &[&str] = &["training"];

/// Records the progress of a metric: the number of calls, the threads that call, and the size of the pool they are in.
#[derive(Default)]
struct Calls {
    starts: usize,
    steps: u64,
    callers: HashSet<ThreadId>,
    pools: BTreeSet<usize>,
}

struct Recorder(Arc<Mutex<Calls>>);

impl Recorder {
    fn record(&self, change: impl FnOnce(&mut Calls)) {
        let mut calls = self.0.lock().unwrap();
        calls.callers.insert(std::thread::current().id());
        calls.pools.insert(rayon::current_num_threads());
        change(&mut calls);
    }
}

impl Progress for Recorder {
    fn start(&self, _: &str, _: u64, _: &str) {
        self.record(|calls| calls.starts += 1);
    }

    fn advance(&self, steps: u64) {
        self.record(|calls| calls.steps += steps);
    }

    fn finish(&self) {
        self.record(|_| ());
    }
}

#[test]
fn metrics_show_progress_and_stay_in_the_thread_pool() {
    let inputs = Small::random(300, 10, 4, 13).inputs();
    // Outside of every pool, rayon counts the threads of its global pool: never as many as one of these pools has.
    let outside = rayon::current_num_threads();
    for_every_metric(|metric, profile| {
        let recipe = recipe_of(metric, &inputs, &quick(metric), profile, 0).unwrap();
        for threads in [outside + 1, outside + 2] {
            let calls = Arc::new(Mutex::new(Calls::default()));
            let context = Context::new(threads, Budget::new(MEMORY), Recorder(calls.clone())).unwrap();
            Evaluation::default().run(metric, &inputs, &recipe, &context).unwrap();
            let (name, calls) = (title(metric, profile), calls.lock().unwrap());
            if WITHOUT_STAGES.contains(&metric.card().name) {
                assert_eq!(calls.starts, 0, "{name} has stages");
                continue;
            }
            assert!(calls.starts > 0 && calls.steps > 0, "{name} shows no progress");
            assert_eq!(calls.pools, BTreeSet::from([threads]), "{name} leaves the pool of {threads} threads");
            assert!(calls.callers.len() <= threads, "{name}: {} threads", calls.callers.len());
        }
    });
}

#[test]
fn results_and_recipes_round_trip_through_json() {
    let inputs = Small::random(120, 10, 4, 19).inputs();
    for_every_metric(|metric, profile| {
        let result = run(metric, &inputs, profile, 0, 2).unwrap();
        let text = result.to_json().unwrap().to_string();
        let again = ResultFile::from_json(&serde_json::from_str(&text).unwrap()).unwrap();
        assert_eq!(again.to_json().unwrap().to_string(), text, "`{}`", metric.card().name);
        let recipe: Recipe = serde_json::from_value(serde_json::to_value(&result.recipe).unwrap()).unwrap();
        assert_eq!(recipe.id().unwrap(), result.recipe.id().unwrap());
    });
}

#[test]
fn cards_are_complete_and_agree_with_each_other() {
    let mut seen: BTreeMap<&str, String> = BTreeMap::new();
    for metric in METRICS {
        let card = metric.card();
        for text in [card.title, card.summary, card.measures, card.definition, card.cost, card.source, card.interval] {
            assert!(text.trim().len() > 3, "`{}` has an empty part", card.name);
        }
        assert!(!card.needs.is_empty() && !card.headline.is_empty(), "`{}`", card.name);
        for param in card.params {
            let kind = param.kind.describe();
            assert_eq!(seen.entry(param.name).or_insert(kind.clone()), &kind, "`{}` means two things", param.name);
            param.parse(param.default).unwrap();
            param.reference.map(|value| param.parse(value).unwrap());
        }
    }
    let mut names: Vec<&str> = METRICS.iter().map(|metric| metric.card().name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), METRICS.len());
}
