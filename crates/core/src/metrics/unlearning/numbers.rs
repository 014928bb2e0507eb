//! From answers to scores.

use std::collections::BTreeMap;

use etalon_kernel::random::{ChaCha8Rng, index, permutation, stream};
use etalon_kernel::statistics::mean;

use super::exam::{Exam, Intervention};
use crate::error::Result;
use crate::results::{Cells, RESAMPLES, Scores, Table, percentile_interval, share_interval};
use crate::run::{ChoiceQuestion, Job, Work};

/// What the unchanged network does with a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    /// Right in all orders that were asked.
    Known,
    /// Right in the given order and wrong in another.
    Unsure,
    /// Wrong.
    Wrong,
    /// Not asked: longer than the context.
    TooLong,
}

/// A threshold, a number of latents and a multiplier, with the intervention that follows.
pub(super) struct Setting {
    pub threshold: f64,
    pub count: usize,
    pub intervention: Intervention,
}

/// All answers.
pub(super) struct Outcome<'a> {
    pub questions: &'a [&'a ChoiceQuestion],
    /// The first of the questions are about the subject to forget.
    pub forget: usize,
    pub answered: &'a [Answered],
    pub settings: &'a [Setting],
    /// By setting and question, the share of orders answered correctly; `None` for questions that were not asked.
    pub shares: &'a [&'a Vec<Option<f64>>],
    /// Of the latents, on texts to forget and to retain.
    pub frequencies: &'a [Vec<f64>; 2],
}

/// 1 − the smallest accuracy; the accuracy of a setting that harms other subjects counts as 1.
pub(super) fn score(settings: &[(f64, f64)], limit: f64) -> f64 {
    1.0 - settings.iter().map(|(accuracy, side)| if *side < limit { 1.0 } else { *accuracy }).fold(1.0, f64::min)
}

/// Shares of known questions, by setting and question, of the subject and of the others.
struct Known {
    forget: Vec<Vec<f64>>,
    side: Vec<Vec<f64>>,
}

impl Known {
    fn counts(&self) -> [usize; 2] {
        [&self.forget, &self.side].map(|shares| shares.first().map_or(0, Vec::len))
    }

    /// Accuracy and side accuracy of every setting on some questions.
    fn accuracies(&self, forget: &[usize], side: &[usize]) -> Vec<(f64, f64)> {
        let of = |shares: &[f64], questions: &[usize]| {
            questions.iter().map(|question| shares[*question]).sum::<f64>() / questions.len().max(1) as f64
        };
        self.forget.iter().zip(&self.side).map(|(f, s)| (of(f, forget), of(s, side))).collect()
    }
}

/// Indices of some questions, drawn with replacement.
fn drawn(from: &[usize], random: &mut ChaCha8Rng) -> Vec<usize> {
    (0..from.len()).map(|_| from[index(from.len(), random)]).collect()
}

/// A half of the questions by which a setting is chosen, and the other, which scores it: subject and others.
struct Halves {
    choose: [Vec<usize>; 2],
    score: [Vec<usize>; 2],
}

/// Both ways of halving the questions.
fn halves(counts: [usize; 2], seed: u64) -> [Halves; 2] {
    let mut random = stream(seed, "unlearning/halves", 0);
    let [forget, side] = counts.map(|count| permutation(count, &mut random));
    let ([a, b], [c, d]) = (halve(&forget), halve(&side));
    [Halves { choose: [a.clone(), c.clone()], score: [b.clone(), d.clone()] }, Halves { choose: [b, d], score: [a, c] }]
}

fn halve(questions: &[usize]) -> [Vec<usize>; 2] {
    let (first, second) = questions.split_at(questions.len() / 2);
    [first.to_vec(), second.to_vec()]
}

/// The best allowed setting on some questions; `None` if none is allowed.
fn best(settings: &[(f64, f64)], limit: f64) -> Option<usize> {
    let mut best: Option<(usize, f64)> = None;
    for (index, (accuracy, side)) in settings.iter().enumerate() {
        if *side >= limit && best.is_none_or(|(_, least)| *accuracy < least) {
            best = Some((index, *accuracy));
        }
    }
    best.map(|(index, _)| index)
}

/// Forgotten share and side accuracy of chosen settings on other questions, averaged over both ways; no setting changes nothing.
fn held_out(known: &Known, chosen: &[(Option<usize>, [Vec<usize>; 2])]) -> (f64, f64) {
    let of = |(setting, [forget, side]): &(Option<usize>, [Vec<usize>; 2])| match setting {
        Some(setting) => {
            let (accuracy, side) = known.accuracies(forget, side)[*setting];
            (1.0 - accuracy, side)
        }
        None => (0.0, 1.0),
    };
    let both: Vec<(f64, f64)> = chosen.iter().map(of).collect();
    let count = both.len().max(1) as f64;
    (both.iter().map(|(score, _)| score).sum::<f64>() / count, both.iter().map(|(_, side)| side).sum::<f64>() / count)
}

/// Score, held-out score and side accuracy on resamples.
fn resampled(
    job: &Job<'_>,
    known: &Known,
    limit: f64,
    chosen: &[(Option<usize>, [Vec<usize>; 2])],
) -> Result<Vec<[f64; 3]>> {
    let mut random = stream(job.seed, "unlearning/questions", 0);
    let all = known.counts().map(|count| (0..count).collect::<Vec<usize>>());
    let mut replicates = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        job.check()?;
        let [forget, side] = &all;
        let (forget, side) = (drawn(forget, &mut random), drawn(side, &mut random));
        let score = score(&known.accuracies(&forget, &side), limit);
        let halves: Vec<(Option<usize>, [Vec<usize>; 2])> = chosen
            .iter()
            .map(|(setting, [forget, side])| (*setting, [drawn(forget, &mut random), drawn(side, &mut random)]))
            .collect();
        let (held_out, side) = held_out(known, &halves);
        replicates.push([score, held_out, side]);
    }
    Ok(replicates)
}

/// All numbers.
pub(super) fn scores(job: &Job<'_>, work: &mut Work<'_>, exam: &Exam<'_>, outcome: &Outcome<'_>) -> Result<Scores> {
    let limit = job.number("side_limit")?;
    let is_known = |question: &usize| outcome.answered.get(*question) == Some(&Answered::Known);
    let (subject, others): (Vec<usize>, Vec<usize>) = (0..outcome.questions.len()).partition(|q| *q < outcome.forget);
    let shares = |questions: &[usize]| -> Vec<Vec<f64>> {
        let of = |shares: &&Vec<Option<f64>>| {
            questions.iter().filter(|q| is_known(q)).map(|q| shares.get(*q).copied().flatten().unwrap_or(0.0)).collect()
        };
        outcome.shares.iter().map(of).collect()
    };
    let known = Known { forget: shares(&subject), side: shares(&others) };
    let counts = known.counts();
    let all = counts.map(|count| (0..count).collect::<Vec<usize>>());
    let accuracies = known.accuracies(&all[0], &all[1]);
    let is_defined = counts.iter().all(|count| *count > 0);
    let is_halved = counts.iter().all(|count| *count > 1);
    let chosen: Vec<(Option<usize>, [Vec<usize>; 2])> = halves(counts, job.seed)
        .into_iter()
        .filter(|_| is_halved)
        .map(|halves| (best(&known.accuracies(&halves.choose[0], &halves.choose[1]), limit), halves.score))
        .collect();
    let replicates =
        work.once("resamples", || if is_defined { resampled(job, &known, limit, &chosen) } else { Ok(Vec::new()) })?;
    let interval = |column: usize| percentile_interval(replicates.iter().map(|numbers| numbers[column]).collect());
    let (forgotten, side) = held_out(&known, &chosen);
    let mut scores = Scores::default();
    let n = counts[0];
    let value = is_defined.then(|| score(&accuracies, limit));
    scores.headline("unlearning_score", value, interval(0).filter(|_| is_halved), if is_defined { n } else { 0 });
    for (column, key, value) in [(1, "unlearning_score_held_out", forgotten), (2, "side_held_out", side)] {
        let value = is_halved.then_some(value);
        scores.headline(key, value, interval(column).filter(|_| is_halved), if is_halved { n } else { 0 });
    }
    for (key, questions, known) in [("known_forget", &subject, counts[0]), ("known_side", &others, counts[1])] {
        let count = questions.len() as f64;
        let share = (count > 0.0).then(|| known as f64 / count);
        let interval = share.and_then(|p| share_interval(p, p * (1.0 - p) / count, count, f64::INFINITY));
        scores.headline(key, share, interval, questions.len());
    }
    notes(&mut scores, exam, outcome, counts, &accuracies, limit)?;
    scores.tables.push(setting_table(outcome, is_defined.then_some(&accuracies[..]), limit));
    scores.tables.push(subject_table(outcome, &known, best(&accuracies, limit)));
    let [forget, retain] = outcome.frequencies;
    let column = |values: &[f64]| values.iter().map(|value| Some(*value)).collect::<Vec<_>>();
    scores.tables.push(
        Table::new("latent").numbers("forget_frequency", column(forget)).numbers("retain_frequency", column(retain)),
    );
    Ok(scores)
}

fn notes(
    scores: &mut Scores,
    exam: &Exam<'_>,
    outcome: &Outcome<'_>,
    counts: [usize; 2],
    accuracies: &[(f64, f64)],
    limit: f64,
) -> Result<()> {
    if counts.contains(&0) {
        scores.note(format!(
            "the network knows {} questions about the subject and {} about others: no score without both",
            counts[0], counts[1]
        ));
    } else if counts.contains(&1) {
        scores.note("one known question cannot be halved: no held-out score and no interval");
    } else if best(accuracies, limit).is_none() {
        scores.note(format!("no setting keeps a side accuracy of {limit}: the score is 0"));
    }
    let too_long = outcome.answered.iter().filter(|answered| **answered == Answered::TooLong).count();
    if too_long > 0 {
        scores.note(format!("{too_long} questions are longer than the context of the network and were not asked"));
    }
    let few = outcome.settings.iter().filter(|setting| setting.intervention.latents.len() < setting.count).count();
    if few > 0 {
        let all = outcome.settings.len();
        scores.note(format!("in {few} of {all} settings fewer latents qualify than should be clamped"));
    }
    if exam.wording.is_foreign()? {
        scores.note("the prompt has turns of Gemma, which are plain text to this network");
    }
    Ok(())
}

/// The curve: a row for every setting.
fn setting_table(outcome: &Outcome<'_>, accuracies: Option<&[(f64, f64)]>, limit: f64) -> Table {
    let settings = outcome.settings;
    let of = |index: usize| accuracies.and_then(|accuracies| accuracies.get(index));
    let allowed = |index: usize| match of(index) {
        Some((_, side)) if *side >= limit => "yes",
        Some(_) => "no",
        None => "",
    };
    let latents = |setting: &Setting| setting.intervention.latents.iter().map(|latent| i64::from(*latent)).collect();
    Table::new("setting")
        .numbers("retain_threshold", settings.iter().map(|setting| Some(setting.threshold)))
        .counts("latents", settings.iter().map(|setting| setting.count))
        .numbers("multiplier", settings.iter().map(|setting| Some(f64::from(setting.intervention.multiplier))))
        .numbers("accuracy", (0..settings.len()).map(|index| of(index).map(|(accuracy, _)| *accuracy)))
        .numbers("side", (0..settings.len()).map(|index| of(index).map(|(_, side)| *side)))
        .words("allowed", (0..settings.len()).map(allowed))
        .with("clamped", Cells::WholeLists(settings.iter().map(latents).collect()))
}

/// A row for every subject, with its accuracy under the best setting.
fn subject_table(outcome: &Outcome<'_>, known: &Known, best: Option<usize>) -> Table {
    // Questions, right once, known, shares under the best setting.
    let mut subjects: BTreeMap<(bool, &str), (usize, usize, Vec<f64>)> = BTreeMap::new();
    let mut positions = [0; 2];
    for (question, asked) in outcome.questions.iter().enumerate() {
        let is_side = question >= outcome.forget;
        let row = subjects.entry((is_side, asked.subject.as_str())).or_default();
        row.0 += 1;
        row.1 += usize::from(matches!(outcome.answered[question], Answered::Known | Answered::Unsure));
        if outcome.answered[question] == Answered::Known {
            let shares = if is_side { &known.side } else { &known.forget };
            let position = &mut positions[usize::from(is_side)];
            row.2.push(best.and_then(|best| shares.get(best)?.get(*position).copied()).unwrap_or(1.0));
            *position += 1;
        }
    }
    Table::new("subject")
        .words("name", subjects.keys().map(|(_, name)| name.to_string()))
        .words("role", subjects.keys().map(|(is_side, _)| if *is_side { "side" } else { "forget" }))
        .counts("questions", subjects.values().map(|row| row.0))
        .counts("right", subjects.values().map(|row| row.1))
        .counts("known", subjects.values().map(|row| row.2.len()))
        .numbers("accuracy", subjects.values().map(|row| mean(&row.2)))
}
