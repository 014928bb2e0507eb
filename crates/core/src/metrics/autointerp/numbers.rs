//! From answers to scores.

use etalon_kernel::statistics::{deviation, mean};

use super::answers::Answers;
use super::replies::{accuracy, balanced_accuracy, explanation, numbers, numbers_as_released, predictions};
use super::select::Skipped;
use super::{Chosen, Selected, Settings};
use crate::metrics::estimate::Estimate;
use crate::results::{Cells, Scores, Table};

/// What a judge achieved with a latent.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Judged {
    pub explanation: String,
    /// What it predicts for every tested window, if the answer can be read.
    pub predicted: Option<Vec<bool>>,
    pub score: Option<f64>,
    pub balanced: Option<f64>,
    pub fuzzing: Option<f64>,
    /// Answers, and those of them that cannot be read: explanation, prediction, marks.
    pub asked: usize,
    pub unread: [bool; 3],
}

/// Scores the answers of a judge about a latent.
pub(super) fn judge(answers: &Answers, selected: &Selected, settings: &Settings) -> Judged {
    let read = if settings.released { numbers_as_released } else { numbers };
    let said = explanation(&answers.explanation);
    // The released program asks on with an empty explanation.
    let unexplained = said.is_empty() && !settings.released;
    let detected = |answer: &str, count: usize| read(answer).map(|numbers| predictions(&numbers, count));
    let truth = &selected.truth;
    let right: Vec<bool> = selected.examples.marked.iter().map(|marked| marked.right).collect();
    let predicted = detected(&answers.detection, truth.len());
    let fuzzed = answers.marks.as_ref().map(|answer| detected(answer, right.len()));
    let unread = [unexplained, predicted.is_none(), matches!(fuzzed, Some(None))];
    let usable = |predicted: Option<Vec<bool>>| predicted.filter(|_| !unexplained);
    // Wrong for every window; undefined where a right answer is, too.
    let score = |predicted: &Option<Vec<bool>>, truth: &[bool], of: fn(&[bool], &[bool]) -> Option<f64>| match predicted
    {
        Some(predicted) => of(predicted, truth),
        None if settings.wrong => of(truth, truth).map(|_| 0.0),
        None => None,
    };
    let predicted = usable(predicted);
    Judged {
        score: score(&predicted, truth, accuracy),
        balanced: score(&predicted, truth, balanced_accuracy),
        fuzzing: fuzzed.and_then(|fuzzed| score(&usable(fuzzed), &right, accuracy)),
        asked: 2 + usize::from(answers.marks.is_some()),
        explanation: said,
        predicted,
        unread,
    }
}

/// Headline numbers, tables and notes. `judges` are names and answers.
pub(super) fn scores(
    seed: u64,
    settings: &Settings,
    chosen: &Chosen,
    selected: &[Result<Selected, Skipped>],
    (names, answers): (&[String], &[Vec<Option<Answers>>]),
) -> Scores {
    // By judge and latent.
    let judged: Vec<Vec<Option<Judged>>> = answers
        .iter()
        .map(|answers| {
            let latents = answers.iter().zip(selected);
            latents
                .map(|(answers, selected)| Some(judge(answers.as_ref()?, selected.as_ref().ok()?, settings)))
                .collect()
        })
        .collect();
    let by_latent = |of: &dyn Fn(&Judged) -> Option<f64>| -> Vec<Option<f64>> {
        let latent =
            |index: usize| mean(&judged.iter().filter_map(|judge| of(judge[index].as_ref()?)).collect::<Vec<f64>>());
        (0..selected.len()).map(latent).collect()
    };
    let listed = |of: fn(&[bool], &[bool]) -> Option<f64>| -> Vec<Option<f64>> {
        selected.iter().map(|selected| selected.as_ref().ok().and_then(|s| of(&s.listed, &s.truth))).collect()
    };
    let columns = Columns {
        score: by_latent(&|judged| judged.score),
        balanced: by_latent(&|judged| judged.balanced),
        fuzzing: by_latent(&|judged| judged.fuzzing),
        tokens: listed(accuracy),
        tokens_balanced: listed(balanced_accuracy),
    };
    let unread =
        by_latent(&|judged| Some(judged.unread.iter().filter(|unread| **unread).count() as f64 / judged.asked as f64));
    let agreement: Vec<Option<f64>> = (0..selected.len()).map(|index| agreement(&judged, index)).collect();
    let mut scores = Scores::default();
    let defined = |values: &[Option<f64>]| values.iter().copied().flatten().collect::<Vec<f64>>();
    let mut put = |key: &str, values: &[Option<f64>]| {
        Estimate::mean(&defined(values), seed, &format!("autointerp/{key}")).headline(key, &mut scores);
    };
    put("autointerp_score", &columns.score);
    let values = defined(&columns.score);
    scores.headline("autointerp_std_dev", deviation(&values), None, values.len());
    let mut put = |key: &str, values: &[Option<f64>]| {
        Estimate::mean(&defined(values), seed, &format!("autointerp/{key}")).headline(key, &mut scores);
    };
    put("autointerp_balanced", &columns.balanced);
    put("autointerp_fuzzing", &columns.fuzzing);
    put("autointerp_tokens", &columns.tokens);
    put("autointerp_tokens_balanced", &columns.tokens_balanced);
    put("autointerp_unparsed", &unread);
    put("judge_agreement", &agreement);
    notes(&mut scores, settings, chosen, selected, &judged);
    scores.tables.push(latent_table(chosen, selected, &columns, &judged));
    scores.tables.push(judge_table(names, &judged));
    scores
}

/// Numbers by judged latent.
struct Columns {
    score: Vec<Option<f64>>,
    balanced: Vec<Option<f64>>,
    fuzzing: Vec<Option<f64>>,
    tokens: Vec<Option<f64>>,
    tokens_balanced: Vec<Option<f64>>,
}

/// The share of equal predictions, averaged over pairs of judges whose answers can be read.
fn agreement(judged: &[Vec<Option<Judged>>], latent: usize) -> Option<f64> {
    let readable: Vec<&Vec<bool>> =
        judged.iter().filter_map(|judge| judge[latent].as_ref()?.predicted.as_ref()).collect();
    let pairs = (0..readable.len()).flat_map(|one| (0..one).map(move |other| (one, other)));
    let shares: Vec<f64> = pairs.filter_map(|(one, other)| accuracy(readable[one], readable[other])).collect();
    mean(&shares)
}

fn notes(
    scores: &mut Scores,
    settings: &Settings,
    chosen: &Chosen,
    selected: &[Result<Selected, Skipped>],
    judged: &[Vec<Option<Judged>>],
) {
    let dead = chosen.all - chosen.alive;
    if dead > 0 {
        scores.note(format!("{dead} of {} latents have at most {} positive codes", chosen.all, settings.dead));
    }
    if chosen.latents.len() < chosen.alive {
        scores.note(format!("{} of {} live latents were drawn", chosen.latents.len(), chosen.alive));
    }
    let skipped = |reason: Skipped| selected.iter().filter(|selected| selected.as_ref().err() == Some(&reason)).count();
    for (count, why) in [
        (skipped(Skipped::FewWindows), "too few windows"),
        (skipped(Skipped::NothingWeaker), "too few codes below those of the strongest windows"),
    ] {
        if count > 0 {
            scores.note(format!("{count} of {} drawn latents have {why} and no score", selected.len()));
        }
    }
    let random: usize = selected.iter().flatten().map(|selected| selected.active_random).sum();
    let windows = settings.selection.random * selected.iter().flatten().count();
    if random > 0 && settings.assumed {
        scores.note(format!("{random} of {windows} random windows are active and were counted as inactive"));
    }
    for (index, what) in ["explanations", "predictions", "answers about marks"].into_iter().enumerate() {
        let all: Vec<&Judged> = judged.iter().flatten().flatten().collect();
        let unread = all.iter().filter(|judged| judged.unread[index]).count();
        if unread > 0 {
            let counted = if settings.wrong { "counted as wrong" } else { "left out of the means" };
            scores.note(format!("{unread} of {} {what} could not be read and were {counted}", all.len()));
        }
    }
    match judged.len() {
        0 => scores.note("no judge was given: only the list of tokens is scored"),
        1 => scores.note("`judge_agreement` needs two judges"),
        _ => {}
    }
    if scores.headline.iter().any(|headline| headline.value.is_none()) && scores.notes.is_empty() {
        scores.note("numbers without a latent that has them are undefined");
    }
}

/// A row for every latent of the dictionary.
fn latent_table(
    chosen: &Chosen,
    selected: &[Result<Selected, Skipped>],
    columns: &Columns,
    judged: &[Vec<Option<Judged>>],
) -> Table {
    let index_of = |latent: usize| chosen.latents.binary_search(&(latent as u32)).ok();
    let all = || (0..chosen.all).map(index_of);
    let numbers = |values: &[Option<f64>]| all().map(|index| values[index?]).collect::<Vec<_>>();
    let state = |index: Option<usize>| match index.map(|index| &selected[index]) {
        None => "not drawn",
        Some(Ok(_)) => "judged",
        Some(Err(Skipped::FewWindows)) => "too few windows",
        Some(Err(Skipped::NothingWeaker)) => "too few weaker codes",
    };
    let list = |index: Option<usize>| index.and_then(|index| selected[index].as_ref().ok()).map(|s| s.list.join(" | "));
    let numbered = |flags: &[bool]| {
        flags.iter().enumerate().filter(|(_, flag)| **flag).map(|(index, _)| index as i64 + 1).collect::<Vec<i64>>()
    };
    let truth = |index: Option<usize>| {
        index.and_then(|index| selected[index].as_ref().ok()).map(|s| numbered(&s.truth)).unwrap_or_default()
    };
    let mut table = Table::new("latent")
        .words("state", all().map(state))
        .numbers("score", numbers(&columns.score))
        .numbers("balanced", numbers(&columns.balanced))
        .numbers("fuzzing", numbers(&columns.fuzzing))
        .numbers("tokens_score", numbers(&columns.tokens))
        .numbers("tokens_balanced", numbers(&columns.tokens_balanced))
        .words("tokens", all().map(|index| list(index).unwrap_or_default()))
        .with("active", Cells::WholeLists(all().map(truth).collect()));
    for (number, judge) in judged.iter().enumerate() {
        let name = |column: &str| if number == 0 { column.to_string() } else { format!("{column}_{}", number + 1) };
        let of = |index: Option<usize>| judge.get(index?)?.as_ref();
        let said = |index| of(index).map(|judged| judged.explanation.clone()).unwrap_or_default();
        let predicted =
            |index| of(index).and_then(|judged| judged.predicted.as_deref()).map(numbered).unwrap_or_default();
        let unread = |index| of(index).map_or("", |judged| if judged.unread.contains(&true) { "yes" } else { "no" });
        table = table
            .words(&name("explanation"), all().map(said))
            .with(&name("predicted"), Cells::WholeLists(all().map(predicted).collect()))
            .words(&name("unread"), all().map(unread));
        if judged.len() > 1 {
            let own = all().map(|index| of(index).and_then(|judged| judged.score));
            table = table.numbers(&format!("score_of_judge_{}", number + 1), own);
        }
    }
    table
}

/// A row for every judge.
fn judge_table(names: &[String], judged: &[Vec<Option<Judged>>]) -> Table {
    let means = |of: &dyn Fn(&Judged) -> Option<f64>| -> Vec<Option<f64>> {
        judged.iter().map(|judge| mean(&judge.iter().flatten().filter_map(of).collect::<Vec<f64>>())).collect()
    };
    let count = |index: usize| {
        judged.iter().map(move |judge| judge.iter().flatten().filter(|judged| judged.unread[index]).count())
    };
    Table::new("judge")
        .words("judge", names.iter().cloned())
        .counts("latents", judged.iter().map(|judge| judge.iter().flatten().count()))
        .numbers("score", means(&|judged| judged.score))
        .numbers("balanced", means(&|judged| judged.balanced))
        .numbers("fuzzing", means(&|judged| judged.fuzzing))
        .counts("unread_explanations", count(0))
        .counts("unread_predictions", count(1))
        .counts("unread_marks", count(2))
}
