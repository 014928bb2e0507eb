//! `unlearning`: can latents be used to make a language model forget one subject and nothing else?

mod card;
mod corpus;
mod exam;
mod numbers;
mod orders;
mod select;
#[cfg(test)]
mod tests;
mod wording;

use self::corpus::Corpus;
use self::exam::{Exam, Intervention, Task};
use self::numbers::{Answered, Setting};
use self::wording::Wording;
use super::{Card, Metric};
use crate::error::{Error, Result};
use crate::results::{Profile, Scores};
use crate::run::{ChoiceQuestion, ChoiceQuestions, FORGET, Job, QUESTIONS, RETAIN, SIDE_QUESTIONS, Work};

/// The metric.
pub struct Unlearning;

/// Tasks of a block.
const BLOCK: usize = 8;

impl Metric for Unlearning {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let most = match job.whole("asked_questions")? {
            0 => usize::MAX,
            most => most,
        };
        let first = |of: &ChoiceQuestions| of.questions.len().min(most);
        let forget = job.get(&QUESTIONS)?;
        let forget = &forget.questions[..first(forget)];
        let side = job.all(&SIDE_QUESTIONS).into_iter().flat_map(|(_, of)| &of.questions[..first(of)]);
        let questions: Vec<&ChoiceQuestion> = forget.iter().chain(side).collect();
        let exam = Exam::new(job, Wording::new(job, &questions)?)?;
        let corpus = Corpus::new(job)?;
        let frequencies = [
            corpus.frequencies(job, work, ["forget tokens", "sequences to forget"], job.get(&FORGET)?)?,
            corpus.frequencies(job, work, ["retain tokens", "sequences to retain"], job.get(&RETAIN)?)?,
        ];
        let answered = known(job, work, &exam, &questions)?;
        let settings = settings(job, &frequencies)?;
        let (interventions, index_of) = distinct(&settings);
        let rotate = job.word("accuracy_orders")? == "rotations" && !exam.wording.texts;
        let tasks: Vec<Task> = (0..questions.len())
            .filter(|question| answered[*question] == Answered::Known)
            .flat_map(|question| {
                let choices = questions[question].choices.len();
                let count = if rotate { choices } else { 1 };
                (0..count).map(move |by| Task { question, order: orders::rotation(choices, by) })
            })
            .collect();
        let clamped: Vec<Option<&Intervention>> =
            interventions.iter().map(|intervention| Some(*intervention)).collect();
        let right = ask(work, "clamped questions", &exam, &questions, &tasks, &clamped)?;
        let shares: Vec<Vec<Option<f64>>> = right.iter().map(|right| shares(questions.len(), &tasks, right)).collect();
        let shares: Vec<&Vec<Option<f64>>> = index_of.iter().map(|index| &shares[*index]).collect();
        numbers::scores(
            job,
            work,
            &exam,
            &numbers::Outcome {
                questions: &questions,
                forget: forget.len(),
                answered: &answered,
                settings: &settings,
                shares: &shares,
                frequencies: &frequencies,
            },
        )
    }
}

/// The share of its tasks that are solved, by question; `None` without any.
fn shares(questions: usize, tasks: &[Task], solved: &[Option<bool>]) -> Vec<Option<f64>> {
    let mut counts = vec![(0usize, 0usize); questions];
    for (task, solved) in tasks.iter().zip(solved) {
        if let (Some((right, all)), Some(solved)) = (counts.get_mut(task.question), solved) {
            *right += usize::from(*solved);
            *all += 1;
        }
    }
    counts.into_iter().map(|(right, all)| (all > 0).then(|| right as f64 / all as f64)).collect()
}

/// Runs tasks under some interventions; returns whether they are solved, by intervention and task. Tasks whose questions have a
/// similar length share a block.
fn ask(
    work: &mut Work<'_>,
    name: &str,
    exam: &Exam<'_>,
    questions: &[&ChoiceQuestion],
    tasks: &[Task],
    interventions: &[Option<&Intervention>],
) -> Result<Vec<Vec<Option<bool>>>> {
    let length = |task: &Task| {
        let question = questions[task.question];
        question.question.len() + question.choices.iter().map(String::len).sum::<usize>()
    };
    let mut order: Vec<usize> = (0..tasks.len()).collect();
    order.sort_by_key(|index| (length(&tasks[*index]), *index));
    let blocks: Vec<&[usize]> = order.chunks(BLOCK).collect();
    let done = work.blocks(name, blocks.len(), |block| {
        let tasks: Vec<&Task> = blocks[block].iter().map(|index| &tasks[*index]).collect();
        exam.run(questions, &tasks, interventions)
    })?;
    let mut right = vec![vec![None; tasks.len()]; interventions.len()];
    for (block, results) in blocks.iter().zip(done.iter()) {
        for (of_all, of_block) in right.iter_mut().zip(results) {
            for (index, result) in block.iter().zip(of_block) {
                *of_all.get_mut(*index).ok_or_else(|| Error::Bug("a task out of range".into()))? = *result;
            }
        }
    }
    Ok(right)
}

/// Which questions the unchanged network answers, in the given order and then in all orders.
fn known(job: &Job<'_>, work: &mut Work<'_>, exam: &Exam<'_>, questions: &[&ChoiceQuestion]) -> Result<Vec<Answered>> {
    let choices = |question: usize| questions[question].choices.len();
    let once: Vec<Task> =
        (0..questions.len()).map(|question| Task { question, order: orders::rotation(choices(question), 0) }).collect();
    let first = ask(work, "questions", exam, questions, &once, &[None])?;
    let mut answered: Vec<Answered> = first
        .into_iter()
        .flatten()
        .map(|right| match right {
            None => Answered::TooLong,
            Some(false) => Answered::Wrong,
            Some(true) => Answered::Known,
        })
        .collect();
    if job.word("known")? == "once" || exam.wording.texts {
        return Ok(answered);
    }
    let others: Vec<Task> = (0..questions.len())
        .filter(|question| answered[*question] == Answered::Known)
        .flat_map(|question| {
            orders::all(choices(question)).into_iter().skip(1).map(move |order| Task { question, order })
        })
        .collect();
    let right = ask(work, "questions in other orders", exam, questions, &others, &[None])?;
    for (task, right) in others.iter().zip(right.into_iter().flatten()) {
        if right != Some(true) {
            answered[task.question] = Answered::Unsure;
        }
    }
    Ok(answered)
}

/// All settings: thresholds × numbers of latents × multipliers.
fn settings(job: &Job<'_>, [forget, retain]: &[Vec<f64>; 2]) -> Result<Vec<Setting>> {
    let numbers = |name: &str| -> Result<Vec<f64>> {
        Ok(job.several(name)?.iter().filter_map(serde_json::Value::as_f64).collect())
    };
    let mut settings = Vec::new();
    for threshold in numbers("retain_thresholds")? {
        for count in numbers("clamped_latents")? {
            for multiplier in numbers("multipliers")? {
                let latents = select::select(forget, retain, threshold, count as usize);
                let intervention = Intervention { latents, multiplier: multiplier as f32 };
                settings.push(Setting { threshold, count: count as usize, intervention });
            }
        }
    }
    Ok(settings)
}

/// The different interventions, and the index of that of every setting.
fn distinct(settings: &[Setting]) -> (Vec<&Intervention>, Vec<usize>) {
    let mut distinct: Vec<&Intervention> = Vec::new();
    let mut index_of = Vec::new();
    for setting in settings {
        let index = distinct.iter().position(|other| **other == setting.intervention);
        index_of.push(index.unwrap_or(distinct.len()));
        if index.is_none() {
            distinct.push(&setting.intervention);
        }
    }
    (distinct, index_of)
}

/// Whether the released program is reproduced.
fn is_released(job: &Job<'_>) -> bool {
    job.profile == Profile::Reference
}
