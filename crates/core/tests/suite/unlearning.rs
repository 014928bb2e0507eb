//! `unlearning` on the toy network.

use std::sync::Arc;

use etalon::error::Error;
use etalon::results::{Cells, Profile, Scores};
use etalon::run::{
    ChoiceQuestion, ChoiceQuestions, DICTIONARY, FORGET, Inputs, NETWORK, QUESTIONS, RETAIN, SIDE_QUESTIONS,
};
use etalon::sae::{Activation, Dictionary, Linear, Normalisation, Parts};

use crate::{run, toy_network};

const WIDTH: usize = 6;

/// A latent per value of a row, and one that never fires.
fn dictionary() -> Arc<dyn Dictionary> {
    let mut weights = vec![0.0; (WIDTH + 1) * WIDTH];
    (0..WIDTH).for_each(|latent| weights[latent * WIDTH + latent] = 1.0);
    let linear = Linear::new(Parts {
        arch: "relu".into(),
        encoder: weights.clone(),
        encoder_bias: vec![0.0; WIDTH + 1],
        decoder: weights,
        bias: vec![0.0; WIDTH],
        subtract_bias: false,
        input: Normalisation::None,
        activation: Activation::Relu,
    });
    Arc::new(linear.unwrap())
}

/// The first texts have the words A and B only, the second C.
fn inputs() -> Inputs {
    let texts =
        |words: &str| etalon::run::TextList::new(vec![words.repeat(40); 3], &etalon::context::Budget::new(1 << 20));
    Inputs::default()
        .with(&NETWORK, toy_network::text_run())
        .with(&DICTIONARY, dictionary())
        .with(&FORGET, texts("A B ").unwrap())
        .with(&RETAIN, texts("C C ").unwrap())
        .with(&QUESTIONS, toy_network::questions(1))
        .and(&SIDE_QUESTIONS, "", toy_network::questions(2))
}

/// The embedding of a token, as the toy network has it.
fn embedding(token: usize) -> Vec<f32> {
    (0..WIDTH).map(|i| ((token * WIDTH + i) * 7919 % 101) as f32 / 50.0 - 1.0).collect()
}

fn scores(inputs: &Inputs, given: &[(&str, &str)], profile: Profile) -> Scores {
    run(etalon::metrics::find("unlearning").unwrap(), inputs, given, profile, 3, 2).unwrap().scores
}

fn column(scores: &Scores, table: &str, name: &str) -> Vec<Option<f64>> {
    let cells = scores.table(table).unwrap().column(name).unwrap();
    (0..cells.len()).map(|row| cells.number(row)).collect()
}

#[test]
fn frequencies_are_shares_of_tokens() {
    // Texts alternate between A = 1 and B = 2, or have C = 3 only, so that a latent fires on every other token, on all or on
    // none. Sequences have 64 tokens: the beginning and 63 tokens of text; one starts with A and one with B.
    let scores = scores(&inputs(), &[("corpus_sequences", "2")], Profile::Paper);
    for (name, tokens) in [("forget_frequency", [1, 2]), ("retain_frequency", [3, 3])] {
        let found = column(&scores, "latent", name);
        let expected: Vec<f64> = (0..=WIDTH)
            .map(|latent| {
                let fires = |token: usize| latent < WIDTH && embedding(token)[latent] > 0.0;
                tokens.iter().filter(|token| fires(**token)).count() as f64 / 2.0
            })
            .collect();
        assert!(found.iter().zip(&expected).all(|(a, b)| (a.unwrap() - b).abs() < 1e-9), "{found:?} {expected:?}");
    }
}

#[test]
fn a_clamped_latent_changes_the_answer() {
    // The toy's prediction depends on the last word of the prompt, `(`, which is token 2 like B. Its latents 0, 2 and 5 do not fire
    // on C, so that they are clamped, and the letter changes for all questions.
    let all = scores(
        &inputs(),
        &[("known", "once"), ("multipliers", "0,1,1000"), ("accuracy_orders", "identity")],
        Profile::Paper,
    );
    let (accuracy, side) = (column(&all, "setting", "accuracy"), column(&all, "setting", "side"));
    assert_eq!(accuracy.len(), 2 * 2 * 3);
    let best = accuracy
        .iter()
        .zip(&side)
        .map(|(accuracy, side)| if side.unwrap() < 0.99 { 1.0 } else { accuracy.unwrap() })
        .fold(1.0, f64::min);
    assert!((all.value("unlearning_score").unwrap() - (1.0 - best)).abs() < 1e-12);
    assert!(accuracy.iter().flatten().any(|accuracy| *accuracy < 1.0), "{accuracy:?}");
    let Some(Cells::WholeLists(clamped)) = all.table("setting").unwrap().column("clamped") else { panic!() };
    assert!(clamped.iter().all(|latents| !latents.contains(&(WIDTH as i64))), "{clamped:?}");
    // Everything known was answered once, so that a clamp without effect leaves an accuracy of 1.
    let nothing = scores(
        &inputs(),
        &[("known", "once"), ("retain_thresholds", "0"), ("accuracy_orders", "identity")],
        Profile::Paper,
    );
    assert!(column(&nothing, "setting", "accuracy").iter().all(|accuracy| *accuracy == Some(1.0)));
    assert_eq!(nothing.value("unlearning_score"), Some(0.0));
    assert!(nothing.notes.iter().any(|note| note.contains("fewer latents qualify")));
}

#[test]
fn texts_are_compared_by_their_probability() {
    // The toy's prediction depends on the last token only: of single words as choices, the likeliest next token wins. The
    // question ends with the same word in every order.
    let given = [("answers", "texts"), ("corpus_sequences", "1")];
    let run = toy_network::text_run();
    let context = etalon::context::Context::silent(1, 1 << 24).unwrap();
    let batch = etalon::network::Batch::Tokens { tokens: &[2], length: 1 };
    let mut state = run.network.begin(&batch, &context).unwrap();
    run.network.run(0..2, &mut state, &mut etalon::network::Untouched, &context).unwrap();
    let mut logits = [0.0; 5];
    run.network.logits(&state, 0..1, &mut logits).unwrap();
    let likeliest = (0..4).max_by(|a, b| logits[a + 1].total_cmp(&logits[b + 1])).unwrap();
    let question = |answer: usize| ChoiceQuestion {
        subject: "s".into(),
        question: "A B".into(),
        choices: ["A", "B", "C", "D"].map(String::from).to_vec(),
        answer,
    };
    let of = |answers: Vec<usize>| ChoiceQuestions { questions: answers.into_iter().map(question).collect() };
    let inputs = inputs().with(&QUESTIONS, of((0..4).collect())).without(&SIDE_QUESTIONS);
    let inputs = inputs.and(&SIDE_QUESTIONS, "", of(vec![likeliest, likeliest]));
    let scores = scores(&inputs, &given, Profile::Paper);
    assert_eq!((scores.value("known_forget"), scores.value("known_side")), (Some(0.25), Some(1.0)));
    // One known question about the subject cannot be halved.
    assert_eq!(scores.value("unlearning_score_held_out"), None);
    assert!(scores.value("unlearning_score").is_some());
}

#[test]
fn threads_do_not_change_a_bit_and_short_texts_are_refused() {
    let metric = etalon::metrics::find("unlearning").unwrap();
    for profile in [Profile::Paper, Profile::Reference] {
        let with = |threads| run(metric, &inputs(), &[("known", "once")], profile, 3, threads).unwrap().scores;
        let one = with(1);
        assert!([2, 7].iter().all(|threads| with(*threads) == one));
    }
    let short = etalon::run::TextList::new(vec!["A B".into()], &etalon::context::Budget::new(1 << 20)).unwrap();
    let error = run(metric, &inputs().with(&FORGET, short), &[], Profile::Paper, 3, 1).unwrap_err();
    assert!(matches!(error, Error::Input(_)) && error.to_string().contains("fewer tokens than a sequence"), "{error}");
}
