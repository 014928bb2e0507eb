//! The released program on one latent, and the whole metric with judges that are known.

use std::sync::Arc;

use serde_json::{Value, json};

use super::positions::{LatentValues, Layout};
use super::replies::{accuracy, explanation, numbers_as_released, predictions};
use super::select::{Examples, Origin, Selection, split};
use super::text::Shown;
use super::*;
use crate::codes::Codes;
use crate::context::{Budget, Context};
use crate::input::{Finite, Source, read_rows};
use crate::metrics::testing::{column, scores as run_metric, scores_with_any_threads};
use crate::network::{Judge, Question};
use crate::results::Cells;
use crate::run::{Inputs, TokenSource};

fn golden(name: &str) -> String {
    format!("{}/../../tests/golden/interventions/autointerp/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn array(name: &str) -> (Vec<f32>, usize) {
    let rows = read_rows(&Source::parse(&golden(name)).unwrap(), Finite::Refuse, &Budget::new(1 << 24)).unwrap();
    (rows.values.clone(), rows.width)
}

struct Golden {
    expected: Value,
    layout: Layout,
    values: LatentValues,
    selection: Selection,
    width: usize,
}

fn released() -> Golden {
    let expected: Value = serde_json::from_slice(&std::fs::read(golden("expected.json")).unwrap()).unwrap();
    let (activations, width) = array("activations.npy");
    let buffer = expected["buffer"].as_u64().unwrap() as usize;
    let selection = Selection {
        buffer,
        overlap: false,
        top: (10, 2),
        weighted: (5, 2),
        random: 10,
        marked: 0,
        power: 2,
        share: 0.01,
        positive: false,
    };
    let layout = Layout::new((0..activations.len() / width).map(|_| width), buffer);
    Golden { expected, layout, values: LatentValues::from_dense(&activations), selection, width }
}

impl Golden {
    /// Positions of [row, column] pairs.
    fn positions(&self, key: &str) -> Vec<u32> {
        let pairs = self.expected[key].as_array().unwrap().iter();
        pairs
            .map(|pair| pair[0].as_u64().unwrap() as u32 * self.width as u32 + pair[1].as_u64().unwrap() as u32)
            .collect()
    }

    fn list(&self, key: &str) -> Vec<usize> {
        self.expected[key].as_array().unwrap().iter().map(|value| value.as_u64().unwrap() as usize).collect()
    }

    fn flags(&self, key: &str) -> Vec<bool> {
        self.expected[key].as_array().unwrap().iter().map(|value| value.as_bool().unwrap()).collect()
    }
}

#[test]
fn windows_are_those_of_the_released_program() {
    let golden = released();
    let top = golden.selection.top(&golden.layout, &golden.values).unwrap();
    assert_eq!(top, golden.positions("top_indices"));
    assert_eq!((json!(top.len()), json!(7)), (golden.expected["n_top"].clone(), golden.expected["n_iw"].clone()));
    let overlapping = Selection { overlap: true, ..golden.selection.clone() };
    assert_eq!(
        overlapping.top(&golden.layout, &golden.values).unwrap(),
        golden.positions("top_indices_if_overlap_allowed")
    );
    let threshold = golden.selection.threshold(&golden.layout, &golden.values, &top);
    assert_eq!(threshold, golden.expected["act_threshold"].as_f64().unwrap());
    let cut = top.iter().map(|centre| golden.values.at(*centre)).fold(f32::INFINITY, f32::min);
    assert_eq!(f64::from(cut), golden.expected["cut_for_importance_sampling"].as_f64().unwrap());
    let (draws, width) = array("exponential_draws.npy");
    let draw = |position: u32| {
        let (row, column) = (position as usize / golden.width, position as usize % golden.width);
        f64::from(draws[row * width + column - golden.selection.buffer])
    };
    let weighted = golden.selection.weighted(&golden.layout, &golden.values, cut, 7, draw);
    assert_eq!(weighted, golden.positions("importance_indices"));
    assert_eq!(weighted, golden.positions("importance_indices_bf16_program"));
}

#[test]
fn splits_labels_and_marks_are_those_of_the_released_program() {
    let golden = released();
    let (top, weighted) = (golden.positions("top_indices"), golden.positions("importance_indices"));
    let (top_explaining, top_scored) = split(&top, &golden.list("top_split_permutation"), 10);
    let (weighted_explaining, weighted_scored) = split(&weighted, &golden.list("iw_split_permutation"), 5);
    let explaining = [top_explaining, weighted_explaining].concat();
    let explaining = golden.selection.by_largest(&golden.layout, &golden.values, explaining);
    let of = |entry: &Value| match entry["kind"].as_str().unwrap() {
        "top" => (Origin::Top, top[entry["index"].as_u64().unwrap() as usize]),
        "iw" => (Origin::Weighted, weighted[entry["index"].as_u64().unwrap() as usize]),
        _ => (Origin::Random, golden.positions("random_windows")[entry["index"].as_u64().unwrap() as usize]),
    };
    let entries = |key: &str| golden.expected[key].as_array().unwrap().iter().map(of).collect::<Vec<_>>();
    let expected: Vec<u32> = entries("generation_order").into_iter().map(|(_, centre)| centre).collect();
    assert_eq!(explaining, expected);
    let largest = |centre: &u32| {
        let window = golden.layout.window(*centre, golden.selection.buffer);
        window.map(|position| f64::from(golden.values.at(position))).fold(f64::NEG_INFINITY, f64::max)
    };
    let expected = golden.expected["generation_order"].as_array().unwrap().iter();
    let expected: Vec<f64> = expected.map(|entry| entry["max_activation"].as_f64().unwrap()).collect();
    assert_eq!(explaining.iter().map(largest).collect::<Vec<_>>(), expected);
    let before = entries("scoring_before_shuffle");
    let ours = top_scored.iter().map(|centre| (Origin::Top, *centre));
    let ours = ours.chain(weighted_scored.iter().map(|centre| (Origin::Weighted, *centre)));
    assert_eq!(ours.collect::<Vec<_>>(), before[..4]);
    let scored: Vec<(Origin, u32)> = golden.list("shuffle").into_iter().map(|position| before[position]).collect();
    let threshold = golden.expected["act_threshold"].as_f64().unwrap();
    let examples = Examples { threshold, explaining, scored, sample: vec![], marked: vec![] };
    let tokens: Vec<Vec<String>> =
        (0..26).map(|row| (0..golden.width).map(|column| format!(" {row}-{column}")).collect()).collect();
    let tokens = TokenTexts::new(&tokens, &Budget::new(1 << 20)).unwrap();
    let shown = Shown { tokens: &tokens, buffer: golden.selection.buffer };
    assert_eq!(shown.truth(&examples, &golden.values, true), golden.flags("active_labels_after_shuffle"));
    let fires = golden.flags("random_windows_that_really_fire");
    assert_eq!(shown.active_random(&examples, &golden.values), fires.iter().filter(|fires| **fires).count());
    // In the order before the shuffle: with the labels of the released program, and what really happens in random windows.
    let unshuffled = Examples { scored: before.clone(), ..examples.clone() };
    let entries = golden.expected["scoring_before_shuffle"].as_array().unwrap().iter();
    let labels: Vec<bool> = entries.map(|entry| entry["is_active"].as_bool().unwrap()).collect();
    assert_eq!(shown.truth(&unshuffled, &golden.values, true), labels);
    assert_eq!(shown.truth(&unshuffled, &golden.values, false)[4..], fires);
    let window = golden.layout.window(examples.explaining[0], golden.selection.buffer);
    let marks: Vec<bool> = window.map(|position| golden.values.is_active(position, threshold)).collect();
    assert_eq!(marks, golden.flags("marked_tokens_of_first_generation_example"));
    // Row 19, column 9 is the strongest: its window begins with column 4, which is marked.
    assert!(shown.explaining(&examples, &golden.values)[0].starts_with("<< 19-4>> 19-5"));
}

#[test]
fn answers_are_read_as_the_released_program_does() {
    let golden = released();
    let truth = golden.flags("active_labels_after_shuffle");
    for case in golden.expected["replies"].as_array().unwrap() {
        let reply = case["reply"].as_str().unwrap();
        let parsed = numbers_as_released(reply);
        let expected: Option<Vec<usize>> = serde_json::from_value(case["parsed"].clone()).unwrap();
        assert_eq!(parsed, expected, "{reply}");
        let score = parsed.and_then(|numbers| accuracy(&predictions(&numbers, truth.len()), &truth));
        assert_eq!(score, case["score"].as_f64(), "{reply}");
    }
    for case in golden.expected["explanations"].as_array().unwrap() {
        assert_eq!(explanation(case["raw"].as_str().unwrap()), case["parsed"].as_str().unwrap());
    }
}

/// 80 sequences of 30 tokens. Latent 0 fires on "cat", latent 1 on "dog", latent 2 on random tokens, latent 3 never.
fn world() -> Inputs {
    let mut random = etalon_kernel::random::stream(1, "autointerp world", 0);
    let words = ["the", "a", "sun", "tree", "red", "runs", "slow", "cat", "dog"];
    let (mut sequences, mut values) = (Vec::new(), Vec::new());
    for _ in 0..80 {
        let mut sequence = Vec::new();
        for _ in 0..30 {
            let rare = unit(&mut random) < 0.04;
            let word = if rare {
                words[7 + etalon_kernel::random::index(2, &mut random)]
            } else {
                words[etalon_kernel::random::index(7, &mut random)]
            };
            let strength = 0.5 + unit(&mut random) as f32;
            let noise = unit(&mut random) < 0.03;
            values.extend([word == "cat", word == "dog", noise, false].map(|on| if on { strength } else { 0.0 }));
            sequence.push(format!(" {word}"));
        }
        sequences.push(sequence);
    }
    let texts = TokenTexts::new(&sequences, &Budget::new(1 << 22)).unwrap();
    Inputs::default()
        .with(&CODES, Codes::from_dense(&values, 4).unwrap())
        .with(&TOKENS, TokenSource::Texts(Arc::new(texts)))
}

const SMALL: [(&str, &str); 2] = [("buffer", "3"), ("dead_latent_threshold", "5")];

/// A judge that finds the most frequent marked word and looks for it.
struct WordJudge;

impl Judge for WordJudge {
    fn id(&self) -> String {
        "words".into()
    }

    fn answer(&self, question: &Question, _: &Context) -> Result<String> {
        let words = ["cat", "dog", "the", "a", "sun", "tree", "red", "runs", "slow"];
        if let Some(word) = question.user.strip_prefix("The latent activates on: the word ") {
            let word = word.split_whitespace().next().unwrap();
            let wanted = if question.system.contains("fit the description") {
                format!("<< {word}>>")
            } else {
                format!(" {word}")
            };
            let lines = question.user.lines().filter_map(|line| line.split_once(". "));
            let found: Vec<&str> =
                lines.filter(|(_, text)| format!(" {text} ").contains(&wanted)).map(|(number, _)| number).collect();
            return Ok(if found.is_empty() { "None".into() } else { found.join(", ") });
        }
        let count = |word: &&&str| question.user.matches(&format!("<< {word}>>")).count();
        let word = words.iter().max_by_key(count).unwrap();
        Ok(format!("This latent activates on the word {word}."))
    }
}

/// A judge that never says anything useful.
struct Chatterbox;

impl Judge for Chatterbox {
    fn id(&self) -> String {
        "chatterbox".into()
    }

    fn answer(&self, _: &Question, _: &Context) -> Result<String> {
        Ok("I would say the third, or maybe none".into())
    }
}

#[test]
fn a_judge_that_understands_words_scores_latents_of_words() {
    let inputs = world().and(&JUDGES, "", Arc::new(WordJudge) as Arc<dyn Judge>);
    for profile in [Profile::Paper, Profile::Reference] {
        let scores = scores_with_any_threads(&Autointerp, &inputs, &SMALL, profile);
        let latents = column(&scores, "latent", "score");
        if profile == Profile::Paper {
            assert_eq!(&latents[..2], [Some(1.0), Some(1.0)]);
            assert_eq!(column(&scores, "latent", "tokens_score")[0], Some(1.0));
        } else {
            // Random windows with the word are counted as inactive.
            assert!(latents[0].unwrap() >= 0.5, "{latents:?}");
        }
        assert!(latents[2].unwrap() < 1.0 && latents[3].is_none(), "{latents:?}");
        assert_eq!(column(&scores, "latent", "fuzzing")[..2], [Some(1.0), Some(1.0)]);
        assert_eq!((scores.headline[0].n, scores.value("autointerp_unparsed")), (3, Some(0.0)));
        assert!(scores.notes.iter().any(|note| note.contains("1 of 4 latents have at most 5 positive codes")));
        let table = scores.table("latent").unwrap();
        let Some(Cells::Text(said)) = table.column("explanation") else { panic!("no explanations") };
        assert_eq!(said[..2], ["the word cat", "the word dog"]);
        let Some(Cells::Text(tokens)) = table.column("tokens") else { panic!("no tokens") };
        assert_eq!(tokens[0], "cat");
    }
}

#[test]
fn answers_that_cannot_be_read_are_counted() {
    let judge = |judge: Arc<dyn Judge>| world().and(&JUDGES, "", judge);
    let inputs = judge(Arc::new(Chatterbox));
    let paper = run_metric(&Autointerp, &inputs, &SMALL, Profile::Paper, 2).unwrap();
    assert_eq!((paper.value("autointerp_score"), paper.headline[0].n), (Some(0.0), 3));
    assert!(paper.notes.iter().any(|note| note == "3 of 3 predictions could not be read and were counted as wrong"));
    // Two of three answers per latent: the explanation is any text.
    assert!((paper.value("autointerp_unparsed").unwrap() - 2.0 / 3.0).abs() < 1e-12);
    let reference = run_metric(&Autointerp, &inputs, &SMALL, Profile::Reference, 2).unwrap();
    assert_eq!((reference.value("autointerp_score"), reference.headline[0].n), (None, 0));
    assert!(reference.notes.iter().any(|note| note.contains("left out of the means")));
    // Two judges that agree, and one whose answers cannot be compared.
    let inputs = judge(Arc::new(WordJudge)).and(&JUDGES, "", Arc::new(WordJudge) as Arc<dyn Judge>);
    let two = run_metric(&Autointerp, &inputs, &SMALL, Profile::Paper, 2).unwrap();
    assert_eq!(two.value("judge_agreement"), Some(1.0));
    assert_eq!(two.table("judge").unwrap().rows(), 2);
    let inputs = judge(Arc::new(WordJudge)).and(&JUDGES, "", Arc::new(Chatterbox) as Arc<dyn Judge>);
    let mixed = run_metric(&Autointerp, &inputs, &SMALL, Profile::Paper, 2).unwrap();
    assert_eq!(mixed.value("judge_agreement"), None);
    assert_eq!(column(&mixed, "latent", "score")[0], Some(0.5));
}

#[test]
fn without_a_judge_the_list_of_tokens_is_scored() {
    let scores = run_metric(&Autointerp, &world(), &SMALL, Profile::Paper, 2).unwrap();
    assert!(scores.value("autointerp_score").is_none() && scores.value("autointerp_tokens").unwrap() > 0.7);
    assert!(scores.notes.iter().any(|note| note.starts_with("no judge was given")));
    // Fewer latents are drawn, the same ones whatever the order.
    let fewer =
        run_metric(&Autointerp, &world(), &[&SMALL[..], &[("judged_latents", "2")]].concat(), Profile::Paper, 2);
    assert!(fewer.unwrap().notes.iter().any(|note| note == "2 of 3 live latents were drawn"));
    let error = run_metric(
        &Autointerp,
        &world().with(&CODES, Codes::from_dense(&[1.0; 8], 4).unwrap()),
        &[],
        Profile::Paper,
        1,
    );
    assert!(error.unwrap_err().to_string().contains("the tokens do not fit the codes"));
}

#[test]
fn a_judge_can_refuse_the_cost() {
    struct Miser;

    impl Judge for Miser {
        fn id(&self) -> String {
            "miser".into()
        }

        fn answer(&self, _: &Question, _: &Context) -> Result<String> {
            panic!("asked although the cost was refused")
        }

        fn announce(&self, cost: &QuestionCost) -> Result<()> {
            assert_eq!(cost.questions, 9);
            assert!(cost.characters > 9 * 500 && cost.answer_tokens > 9 * 20, "{cost:?}");
            Err(crate::error::InputError::new("too expensive").into())
        }
    }

    let inputs = world().and(&JUDGES, "", Arc::new(Miser) as Arc<dyn Judge>);
    let error = run_metric(&Autointerp, &inputs, &SMALL, Profile::Paper, 2).unwrap_err();
    assert_eq!(error.to_string(), "too expensive");
}
