//! From doses to headline numbers with intervals, and tables.

use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::mean;

use super::KINDS;
use super::dose::Doses;
use crate::error::Result;
use crate::results::{Cells, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Job, Work};

/// Headline numbers, in the order of the card.
const KEYS: [&str; 8] = [
    "steer_score",
    "steer_score_random",
    "steer_score_other",
    "dose_response",
    "readback_response",
    "steer_fluency",
    "steer_kl",
    "steer_kl_random",
];

type Numbers = [Option<f64>; KEYS.len()];

/// The prompts that choose and those that score.
struct Halves {
    choose: Vec<usize>,
    score: Vec<usize>,
}

impl Halves {
    fn of(prompts: usize) -> Halves {
        let (choose, score) = (0..prompts).partition(|prompt| prompt % 2 == 0);
        Halves { choose, score }
    }
}

/// The chosen strengths, by latent and kind.
type Chosen = Vec<Vec<Option<usize>>>;

/// The numbers of some latents on some prompts: those that score, and all.
fn numbers(doses: &Doses<'_>, chosen: &Chosen, latents: &[usize], score: &[usize], all: &[usize]) -> Numbers {
    let average =
        |of: &dyn Fn(usize) -> Option<f64>| mean(&latents.iter().filter_map(|l| of(*l)).collect::<Vec<f64>>());
    let of_kind =
        |kind: usize| average(&|latent| doses.dose(latent, kind, (*chosen.get(latent)?.get(kind)?)?, score).harmonic);
    let divergence = |kind: usize| {
        average(&|latent| {
            *doses.divergences.get(latent * doses.kinds + kind).filter(|_| kind < doses.kinds)?.get(doses.unit())?
        })
    };
    [
        of_kind(0),
        of_kind(1),
        of_kind(2),
        average(&|latent| doses.response(latent, all, |reading| reading.concept)),
        average(&|latent| doses.response(latent, all, |reading| reading.read_back)),
        average(&|latent| doses.dose(latent, 0, doses.unit(), all).fluency),
        divergence(0),
        divergence(1),
    ]
}

/// The numbers on resamples of latents and prompts.
fn resampled(job: &Job<'_>, doses: &Doses<'_>, chosen: &Chosen, halves: &Halves) -> Result<Vec<Numbers>> {
    let mut random = stream(job.seed, "steer/resamples", 0);
    let latents: Vec<usize> = (0..doses.steered.len()).collect();
    let all: Vec<usize> = (0..doses.prompts).collect();
    let mut replicates = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        job.check()?;
        let mut draw =
            |from: &[usize]| -> Vec<usize> { (0..from.len()).map(|_| from[index(from.len(), &mut random)]).collect() };
        let (latents, score, all) = (draw(&latents), draw(&halves.score), draw(&all));
        replicates.push(numbers(doses, chosen, &latents, &score, &all));
    }
    Ok(replicates)
}

/// All numbers.
pub(super) fn scores(job: &Job<'_>, work: &mut Work<'_>, doses: &Doses<'_>, has_encoder: bool) -> Result<Scores> {
    let halves = Halves::of(doses.prompts);
    let (latents, all): (Vec<usize>, Vec<usize>) = ((0..doses.steered.len()).collect(), (0..doses.prompts).collect());
    let chosen: Chosen = latents
        .iter()
        .map(|latent| (0..doses.kinds).map(|kind| doses.best(*latent, kind, &halves.choose)).collect())
        .collect();
    let values = numbers(doses, &chosen, &latents, &halves.score, &all);
    let replicates = work.once("resamples", || {
        if latents.len() > 1 { resampled(job, doses, &chosen, &halves) } else { Ok(Vec::new()) }
    })?;
    let mut scores = Scores::default();
    for (key, name) in KEYS.into_iter().enumerate() {
        let of_key = replicates.iter().filter_map(|numbers| numbers[key]).collect();
        let interval = percentile_interval(of_key).filter(|_| values[key].is_some());
        scores.headline(name, values[key], interval, if values[key].is_some() { latents.len() } else { 0 });
    }
    if latents.is_empty() {
        scores.note("no latent has a positive code");
    } else {
        if !has_encoder {
            scores.note("no sentence encoder was given: presence, relevance and scores are undefined");
        }
        if doses.kinds == 1 {
            scores.note("controls were not run");
        }
        if values.iter().any(Option::is_none) {
            scores.note("numbers without a latent that has them are undefined");
        }
    }
    scores.tables.push(latent_table(doses, &chosen, &halves, &all));
    scores.tables.push(dose_table(doses, &all));
    Ok(scores)
}

/// A row for every steered latent.
fn latent_table(doses: &Doses<'_>, chosen: &Chosen, halves: &Halves, all: &[usize]) -> Table {
    let latents = || 0..doses.steered.len();
    let score = |latent: usize, kind: usize| {
        doses.dose(latent, kind, (*chosen.get(latent)?.get(kind)?)?, &halves.score).harmonic
    };
    let half: Vec<(Option<f64>, Vec<f64>)> = latents().map(|latent| doses.half(latent, all)).collect();
    let best = |latent: usize| chosen[latent].first().copied().flatten().map(|index| doses.strengths[index]);
    Table::new("steered")
        .counts("latent", doses.steered.iter().map(|steered| steered.latent as usize))
        .numbers("largest_code", doses.steered.iter().map(|steered| Some(f64::from(steered.largest))))
        .numbers("best_strength", latents().map(best))
        .numbers("score", latents().map(|latent| score(latent, 0)))
        .numbers("score_random", latents().map(|latent| score(latent, 1)))
        .numbers("score_other", latents().map(|latent| score(latent, 2)))
        .numbers("s50", half.iter().map(|(s50, _)| *s50))
        .with("window", Cells::NumberLists(half.iter().map(|(_, w)| w.iter().map(|s| Some(*s)).collect()).collect()))
        .numbers("dose_response", latents().map(|latent| doses.response(latent, all, |reading| reading.concept)))
        .numbers("readback_response", latents().map(|latent| doses.response(latent, all, |reading| reading.read_back)))
}

/// A row for every latent, kind and strength.
fn dose_table(doses: &Doses<'_>, all: &[usize]) -> Table {
    let rows: Vec<(usize, usize, usize)> = (0..doses.steered.len())
        .flat_map(|latent| (0..doses.kinds).map(move |kind| (latent, kind)))
        .flat_map(|(latent, kind)| (0..doses.strengths.len()).map(move |strength| (latent, kind, strength)))
        .collect();
    let of: Vec<super::dose::Dose> = rows.iter().map(|(l, k, s)| doses.dose(*l, *k, *s, all)).collect();
    let divergence = |(latent, kind, strength): &(usize, usize, usize)| {
        doses.divergences.get(latent * doses.kinds + kind).and_then(|list| list.get(*strength).copied().flatten())
    };
    Table::new("dose")
        .counts("latent", rows.iter().map(|(latent, ..)| doses.steered[*latent].latent as usize))
        .words("shift", rows.iter().map(|(_, kind, _)| KINDS[*kind]))
        .numbers("strength", rows.iter().map(|(.., strength)| Some(doses.strengths[*strength])))
        .numbers("presence", of.iter().map(|dose| dose.presence))
        .numbers("fluency", of.iter().map(|dose| dose.fluency))
        .numbers("relevance", of.iter().map(|dose| dose.relevance))
        .numbers("harmonic", of.iter().map(|dose| dose.harmonic))
        .numbers("loss_above", of.iter().map(|dose| dose.excess))
        .numbers("concept", of.iter().map(|dose| dose.concept))
        .numbers("read_back", of.iter().map(|dose| dose.read_back))
        .numbers("echo", of.iter().map(|dose| dose.echo))
        .numbers("kl", rows.iter().map(divergence))
}
