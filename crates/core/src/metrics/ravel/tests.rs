use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use super::numbers::{MethodResults, Outcome};
use super::pairs::{Asked, Pair, Plan, known, plans};
use super::prompts::{Prompts, Tokens};
use super::settings::Settings;
use super::train::Trained;
use super::*;
use crate::context::{Budget, Context};
use crate::error::Error;
use crate::labels::EntitySet;
use crate::metrics::testing::{column, scores, scores_with_any_threads, with_work};
use crate::network::{
    AdamParameters, Batch, Generation, Kept, LanguageModel, LastNorm, Layout, Network, NetworkCard, NumberTokenizer,
    RowKind, Site, SiteId, State, Tap, TextRun,
};
use crate::results::Profile;
use crate::run::{DICTIONARY, Inputs, NETWORK};
use crate::sae::{Activation, Dictionary, Linear, Normalisation, Parts};

const WIDTH: usize = 4;
const VOCABULARY: usize = 25;
/// The token of the first entity.
const ENTITY: u32 = 9;
const ENTITIES_COUNT: u32 = 16;

/// The two attributes of an entity, and how strongly it has them.
fn signs(entity: u32) -> [f32; 2] {
    let strength = 1.0 + 0.05 * entity as f32;
    [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]][entity as usize % 4].map(|sign: f32| sign * strength)
}

/// The embedding of a token: two attributes, and which of them is asked for (tokens 3 and 4).
fn embedding(token: u32) -> [f32; WIDTH] {
    match token {
        3 => [0.0, 0.0, 1.0, 0.0],
        4 => [0.0, 0.0, 0.0, 1.0],
        _ if token >= ENTITY => {
            let [a, b] = signs(token - ENTITY);
            [a, b, 0.0, 0.0]
        }
        _ => [0.0; WIDTH],
    }
}

/// The row of the head of a token: 5 and 6 answer the first question, 7 and 8 the second.
fn head(token: usize) -> [f32; WIDTH] {
    match token {
        5 => [1.0, 0.0, 10.0, 0.0],
        6 => [-1.0, 0.0, 10.0, 0.0],
        7 => [0.0, 1.0, 0.0, 10.0],
        8 => [0.0, -1.0, 0.0, 10.0],
        _ => [0.0; WIDTH],
    }
}

/// Embeddings, a stage with the site, a stage that sums all rows so far, a linear head.
struct Lookup {
    card: NetworkCard,
    sites: Vec<Site>,
}

impl Network for Lookup {
    fn card(&self) -> &NetworkCard {
        &self.card
    }

    fn sites(&self) -> &[Site] {
        &self.sites
    }

    fn stages(&self) -> usize {
        2
    }

    fn begin(&self, batch: &Batch<'_>, context: &Context) -> Result<State> {
        let Batch::Tokens { tokens, length } = *batch else { return Err(Error::Bug("images".into())) };
        let layout = Layout { samples: tokens.len() / length, rows: length, width: WIDTH, grid: None };
        State::new(tokens.iter().flat_map(|token| embedding(*token)).collect(), layout, 0, context)
    }

    fn run(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<()> {
        for stage in stages {
            context.check()?;
            if stage == 0 && tap.wants(SiteId(0)) {
                tap.visit(SiteId(0), state.layout, &mut state.values)?;
            }
            for index in WIDTH..if stage == 0 { 0 } else { state.values.len() } {
                state.values[index] += state.values[index - WIDTH];
            }
        }
        Ok(())
    }
}

impl LanguageModel for Lookup {
    fn logits(&self, state: &State, rows: Range<usize>, out: &mut [f32]) -> Result<()> {
        for (row, out) in rows.zip(out.chunks_exact_mut(VOCABULARY)) {
            let values = &state.values[row * WIDTH..][..WIDTH];
            let logit = |token: usize| values.iter().zip(head(token)).map(|(a, b)| a * b).sum();
            out.iter_mut().enumerate().for_each(|(token, out)| *out = logit(token));
        }
        Ok(())
    }

    fn run_kept(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<Kept> {
        self.run(stages.clone(), state, tap, context)?;
        Ok(Kept { stages, layout: state.layout, values: Vec::new(), memory: Vec::new() })
    }

    fn loss_gradient(&self, state: &State, targets: &[Option<u32>], _: &Context) -> Result<(Vec<f32>, Vec<f32>)> {
        let (mut gradient, mut losses) = (vec![0.0; state.values.len()], Vec::new());
        for (row, target) in targets.iter().enumerate() {
            let Some(target) = target else { continue };
            let mut logits = vec![0.0; VOCABULARY];
            self.logits(state, row..row + 1, &mut logits)?;
            let sum: f32 = logits.iter().map(|logit| logit.exp()).sum();
            losses.push(sum.ln() - logits[*target as usize]);
            for (token, logit) in logits.iter().enumerate() {
                let slope = logit.exp() / sum - f32::from(u8::from(token == *target as usize));
                let into = gradient[row * WIDTH..][..WIDTH].iter_mut();
                into.zip(head(token)).for_each(|(into, weight)| *into += slope * weight);
            }
        }
        Ok((gradient, losses))
    }

    fn backward(&self, kept: &Kept, gradient: &mut [f32], _: &Context) -> Result<()> {
        assert_eq!(kept.stages, 1..2);
        for index in (WIDTH..gradient.len()).rev() {
            gradient[index - WIDTH] += gradient[index];
        }
        Ok(())
    }

    fn generate(
        &self,
        prompt: &[u32],
        settings: &Generation,
        tap: &mut dyn Tap,
        context: &Context,
    ) -> Result<Vec<u32>> {
        // Answers have embeddings of zeros: the sum stays, and so does the answer.
        let mut state = self.begin(&Batch::Tokens { tokens: prompt, length: prompt.len() }, context)?;
        self.run(0..2, &mut state, tap, context)?;
        let mut logits = vec![0.0; VOCABULARY];
        self.logits(&state, prompt.len() - 1..prompt.len(), &mut logits)?;
        let best = (0..VOCABULARY as u32).min_by(|a, b| logits[*b as usize].total_cmp(&logits[*a as usize]));
        Ok(vec![best.unwrap(); settings.tokens])
    }

    fn unembedding(&self, token: u32, out: &mut [f32]) -> Result<()> {
        out.copy_from_slice(&head(token as usize));
        Ok(())
    }

    fn last_norm(&self) -> LastNorm {
        LastNorm { weight: vec![1.0; WIDTH], centres: false }
    }

    fn written(&self, _: SiteId, vectors: &[f32], _: bool) -> Result<Option<Vec<f32>>> {
        Ok(Some(vectors.to_vec()))
    }
}

fn text_run(site: &str) -> TextRun {
    let card =
        NetworkCard { width: WIDTH, layers: 1, context: 32, vocabulary: VOCABULARY, ..NetworkCard::new("lookup") };
    let sites = vec![Site::new(site, WIDTH, RowKind::Token, 0)];
    TextRun {
        network: Arc::new(Lookup { card, sites }),
        site: SiteId(0),
        tokenizer: Arc::new(NumberTokenizer { size: VOCABULARY, bos: Some(0) }),
        tokens: Vec::new(),
        length: 1,
        special: vec![0],
    }
}

/// Four signed latents with these directions, which are orthonormal.
fn dictionary(directions: [[f32; WIDTH]; WIDTH]) -> Arc<dyn Dictionary> {
    let parts = Parts {
        arch: "identity".into(),
        encoder: directions.concat(),
        encoder_bias: vec![0.0; WIDTH],
        decoder: directions.concat(),
        bias: vec![0.0; WIDTH],
        subtract_bias: false,
        input: Normalisation::None,
        activation: Activation::Signed,
    };
    Arc::new(Linear::new(parts).unwrap())
}

const NEURONS: [[f32; WIDTH]; WIDTH] =
    [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];
const HALF: f32 = std::f32::consts::FRAC_1_SQRT_2;
const TURNED: [[f32; WIDTH]; WIDTH] =
    [[HALF, HALF, 0.0, 0.0], [-HALF, HALF, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]];

fn write(directory: &Path, kind: &str, entities: Range<u32>, templates: [&str; 2]) {
    let label = |index: usize, entity: u32| 5 + 2 * index + usize::from(signs(entity)[index] < 0.0);
    let object = |entries: Vec<String>| format!("{{{}}}", entries.join(", "));
    let all = || entities.clone();
    let labels = all().map(|entity| {
        format!("\"{}\": {{\"A\": \"{}\", \"B\": \"{}\"}}", ENTITY + entity, label(0, entity), label(1, entity))
    });
    let splits =
        all().map(|entity| format!("\"{}\": \"{}\"", ENTITY + entity, if entity % 8 < 4 { "train" } else { "val" }));
    let [a, b] = templates;
    let files = [
        ("entity_attributes", object(labels.collect())),
        ("attribute_to_prompts", format!("{{\"A\": [\"{a}\", \"1 {a}\"], \"B\": [\"{b}\", \"1 {b}\"]}}")),
        ("entity_to_split", object(splits.collect())),
        (
            "prompt_to_split",
            format!("{{\"{a}\": \"train\", \"1 {a}\": \"test\", \"{b}\": \"train\", \"1 {b}\": \"test\"}}"),
        ),
    ];
    for (part, text) in files {
        std::fs::write(directory.join(format!("ravel_{kind}_{part}.json")), text).unwrap();
    }
}

fn entities(templates: [&str; 2]) -> EntitySet {
    let directory = tempfile::tempdir().unwrap();
    write(directory.path(), "thing", 0..ENTITIES_COUNT, templates);
    EntitySet::read(directory.path(), &Budget::new(1 << 20)).unwrap()
}

fn inputs(directions: [[f32; WIDTH]; WIDTH]) -> Inputs {
    Inputs::default()
        .with(&NETWORK, text_run("blocks.0.hook_resid_post"))
        .with(&DICTIONARY, dictionary(directions))
        .with(&ENTITIES, entities(["%s 3", "%s 4"]))
}

#[test]
fn attributes_of_their_own_latents_are_disentangled_completely() {
    // Every latent has one attribute: copying it changes the answer to its question only. 16 entities and 2 templates give 32
    // cause and 32 isolation pairs of an attribute: 44 train and 20 test, of which 16 are in whole batches.
    for (profile, test) in [(Profile::Paper, 20.0), (Profile::Reference, 16.0)] {
        let scores =
            scores_with_any_threads(&Ravel, &inputs(NEURONS), &[("mdas", "yes"), ("mdas_epochs", "3")], profile);
        for key in numbers::KEYS.concat() {
            assert_eq!(scores.value(key), Some(1.0), "{key}, {profile:?}");
        }
        assert_eq!(column(&scores, "attribute", "test_pairs"), [Some(test); 2]);
        assert_eq!(column(&scores, "attribute", "used_prompts"), [Some(32.0); 2]);
        assert_eq!(column(&scores, "attribute", "exchanged_latents"), [Some(1.0); 2]);
        assert!(scores.notes.iter().any(|note| note.starts_with("64 of 64 prompts")), "{:?}", scores.notes);
        let interval = scores.headline[0].interval.unwrap();
        assert_eq!((interval.low, interval.high), (1.0, 1.0));
    }
}

#[test]
fn attributes_that_share_latents_are_not() {
    // Latents are sum and difference of the attributes: no choice of them exchanges one attribute alone. The skyline turns them.
    let scores = scores_with_any_threads(&Ravel, &inputs(TURNED), &[("mdas", "yes")], Profile::Paper);
    let value = |key: &str| scores.value(key).unwrap();
    assert!(value("disentanglement_score") < 0.9, "{}", value("disentanglement_score"));
    assert_eq!(value("mdas_disentanglement_score"), 1.0);
    let without = crate::metrics::testing::scores(&Ravel, &inputs(TURNED), &[], Profile::Paper, 2).unwrap();
    assert_eq!(without.value("cause_score"), scores.value("cause_score"));
    assert_eq!(without.value("mdas_cause_score"), None);
    assert!(without.notes.iter().any(|note| note.contains("skyline was not trained")));
}

#[test]
fn the_splits_of_files_separate_entities_and_templates() {
    let scores = scores(&Ravel, &inputs(NEURONS), &[("pair_split", "files")], Profile::Paper, 2).unwrap();
    assert_eq!(scores.value("disentanglement_score"), Some(1.0));
    // Eight entities and one template on each side: 8 cause and 8 isolation pairs.
    assert_eq!(column(&scores, "attribute", "train_pairs"), [Some(16.0); 2]);
    assert_eq!(column(&scores, "attribute", "test_pairs"), [Some(16.0); 2]);
}

#[test]
fn undefined_scores_have_notes_and_wrong_inputs_errors() {
    // Nothing asks for the second attribute: its prompts are answered wrongly, so that it has no pairs.
    let inputs = || inputs(NEURONS);
    let half = inputs().with(&ENTITIES, entities(["%s 3", "%s 2"]));
    let scores = scores(&Ravel, &half, &[], Profile::Paper, 2).unwrap();
    assert_eq!((scores.value("disentanglement_score"), scores.value("isolation_score")), (None, None));
    assert_eq!(scores.value("cause_score"), Some(1.0));
    assert!(
        scores.notes.iter().any(|note| note.contains("`thing_B` has 0 cause and 0 isolation")),
        "{:?}",
        scores.notes
    );
    let error = |inputs: &Inputs, given: &[(&str, &str)]| {
        crate::metrics::testing::scores(&Ravel, inputs, given, Profile::Paper, 1).unwrap_err().to_string()
    };
    let found = error(&inputs(), &[("attributes", "A,Bb")]);
    assert!(found.contains("no attribute `Bb`") && found.contains("thing:A, thing:B"), "{found}");
    let found = error(&inputs().with(&NETWORK, text_run("blocks.0.hook_mlp_out")), &[]);
    assert!(found.contains("residual stream between blocks only"), "{found}");
    let one =
        crate::metrics::testing::scores(&Ravel, &inputs(), &[("attributes", "thing:A")], Profile::Paper, 1).unwrap();
    assert_eq!(one.value("cause_score"), Some(1.0));
    assert_eq!(one.value("isolation_score"), None);
}

fn settings(released: bool) -> Settings {
    Settings {
        attributes: vec!["default".into()],
        most_prompts: 0,
        kept_entities: 3,
        kept_templates: 2,
        pairs: 100,
        train_share: 0.5,
        by_files: false,
        batch: 3,
        epochs: 1,
        rate: 0.1,
        answer_tokens: 1,
        skyline: None,
        released,
    }
}

#[test]
fn entities_and_templates_with_most_right_answers_are_kept() {
    let set = entities(["%s 3", "%s 4"]);
    let prompts = Prompts::new(&set, &settings(false), 0).unwrap();
    assert_eq!((prompts.prompts.len(), prompts.entities), (64, 16));
    // Right: all four prompts of entity 5, three of entity 2 (not the first), one of entities 0 and 1.
    let right = |index: usize| match (index / 4, index % 4) {
        (5, _) | (0 | 1, 3) => true,
        (2, template) => template > 0,
        _ => false,
    };
    let asked: Vec<Asked> = (0..64)
        .map(|index| Asked { tokens: Tokens::default(), first: Some(index as u32), is_correct: right(index) })
        .collect();
    // Entities 5, 2 and, of two with one, the first. Templates 3 (three prompts) and, of two with two, the first.
    let kept = known(&prompts, &asked, &settings(false));
    assert_eq!(kept, [3, 9, 11, 21, 23]);
    let all = Settings { kept_templates: 0, ..settings(true) };
    assert_eq!(known(&prompts, &asked, &all), [3, 9, 10, 11, 20, 21, 22, 23]);
    let few = Prompts::new(&set, &Settings { most_prompts: 10, ..settings(false) }, 0).unwrap();
    assert_eq!(few.prompts.len(), 10);
}

#[test]
fn pairs_differ_in_the_attribute_and_expect_the_right_answers() {
    let set = entities(["%s 3", "%s 4"]);
    let prompts = Prompts::new(&set, &settings(false), 0).unwrap();
    let asked: Vec<Asked> =
        (0..64).map(|index| Asked { tokens: Tokens::default(), first: Some(1000 + index), is_correct: true }).collect();
    let all: Vec<usize> = (0..64).collect();
    for released in [false, true] {
        let plans = plans(&prompts, &asked, &all, &settings(released), 7);
        // 32 cause and 32 isolation pairs; half of them train, in whole batches of three in the released program.
        let sizes: Vec<[usize; 2]> = plans.iter().map(|plan| [plan.train.len(), plan.test.len()]).collect();
        assert_eq!(sizes, if released { [[30; 2]; 2] } else { [[32; 2]; 2] });
        for (attribute, plan) in plans.iter().enumerate() {
            let mut bases: Vec<usize> = Vec::new();
            for pair in plan.train.iter().chain(&plan.test) {
                let [base, source] = [pair.base, pair.source].map(|index| &prompts.prompts[index]);
                assert_eq!((base.attribute, base.attribute == attribute), (source.attribute, pair.is_cause));
                assert_ne!(base.label, source.label);
                let expected = if pair.is_cause { pair.source } else { pair.base };
                assert_eq!(pair.target, 1000 + expected as u32);
                bases.push(pair.base);
            }
            bases.sort_unstable();
            bases.dedup();
            assert_eq!(bases.len(), if released { 60 } else { 64 }, "bases are drawn without replacement");
        }
    }
}

#[test]
fn the_released_program_takes_pairs_with_equal_first_tokens_for_isolation() {
    let set = entities(["%s 3", "%s 4"]);
    let prompts = Prompts::new(&set, &settings(false), 0).unwrap();
    let asked: Vec<Asked> =
        (0..64).map(|index| Asked { tokens: Tokens::default(), first: Some(index % 5), is_correct: true }).collect();
    // Attribute A, bases 0 and 4 (entities 0 and 1). Cause pairs: target 3 against first tokens 0 and 4, right and wrong; target 0 against 0,
    // right. Isolation: target 4, right and wrong.
    let pair = |base: usize, target: u32, is_cause: bool| Pair { base, source: 8, target, is_cause };
    let test = vec![pair(0, 3, true), pair(4, 3, true), pair(0, 0, true), pair(4, 4, false), pair(4, 4, false)];
    let plans = [Plan { train: Vec::new(), test }, Plan::default()];
    let trained = || Trained { parameters: AdamParameters::new(vec![0.0]), losses: Vec::new() };
    let value = |released: bool| {
        let outcome = Outcome {
            prompts: &prompts,
            asked: &asked,
            known: &[0, 4],
            plans: &plans,
            latents: MethodResults {
                trained: vec![trained(), trained()],
                results: vec![vec![true, false, true, true, false], Vec::new()],
            },
            basis: None,
        };
        let context = Context::silent(1, 1 << 20).unwrap();
        let scores = with_work(&Ravel, &inputs(NEURONS), &context, |job, work| {
            numbers::scores(job, work, &settings(released), &outcome)
        });
        let scores = scores.unwrap();
        assert!(scores.notes.iter().any(|note| note.contains("`thing_B` has 0 cause")), "{:?}", scores.notes);
        ["cause_score", "isolation_score", "disentanglement_score"].map(|key| scores.value(key).unwrap())
    };
    // Cause 2 of 3, isolation 1 of 2: mean 7/12. In the released program cause 1 of 2, isolation 2 of 3.
    let close = |found: [f64; 3], expected: [f64; 3]| {
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
    };
    close(value(false), [2.0 / 3.0, 0.5, 7.0 / 12.0]);
    close(value(true), [0.5, 2.0 / 3.0, 7.0 / 12.0]);
}
