//! `steer`: how much of a latent's meaning a network writes when its direction is added.

mod card;
mod concept;
mod continuation;
mod dose;
mod numbers;

use self::concept::Steered;
use self::continuation::{Reading, Steering};
use super::{Card, Metric};
use crate::error::{InputError, Key, Result};
use crate::results::Scores;
use crate::run::{CODES, Job, Lazy, PROMPTS, Prompts, TOKENS, Work};

/// The metric.
pub struct Steer;

/// The packaged prompts.
const PACKAGED: &str = include_str!("prompts.txt");

/// The section of a file of prompts.
const SECTION: &str = "steer";

/// What the shift is: of the latent, of a random direction, of another latent.
const KINDS: [&str; 3] = ["latent", "random", "other"];

impl Metric for Steer {
    fn card(&self) -> &'static Card {
        &card::CARD
    }

    fn run(&self, job: &Job<'_>, work: &mut Work<'_>) -> Result<Scores> {
        let steering = Steering::new(job)?;
        let prompts = prompts(job.find(&PROMPTS))?;
        let tokens = prompts.iter().map(|text| steering.prompt(text)).collect::<Result<Vec<_>>>()?;
        let strengths = strengths(job)?;
        let kinds = if job.word("controls")? == "yes" { KINDS.len() } else { 1 };
        let codes = job.get(&CODES)?;
        let columns = Lazy::new(|| codes.columns());
        let count = job.whole("steered_latents")?;
        let drawn = work.once("choice of latents", || concept::draw(job, columns.get()?, count))?;
        let texts = job.get(&TOKENS)?.texts(codes.rows(), job.budget())?;
        let steered = work.blocks_with(&columns, "latents", drawn.len(), |columns, block| {
            let network = (steering.run, steering.dictionary);
            concept::prepare(job, network, (columns, &texts), drawn[block], steering.encoder)
        })?;
        let plain =
            work.blocks("prompts", prompts.len(), |prompt| steering.continued(&tokens[prompt], prompt, None))?;
        let read = |steered: &Steered, prompt: usize, continuation: &[u32]| {
            steering.read((&prompts[prompt], &tokens[prompt]), continuation, steered)
        };
        let base = work.blocks("continuations read", steered.len() * prompts.len(), |block| {
            let (latent, prompt) = (block / prompts.len(), block % prompts.len());
            read(&steered[latent], prompt, &plain[prompt])
        })?;
        let shifted = work.blocks("prompts steered", steered.len() * kinds * prompts.len(), |block| {
            let (latent, kind, prompt) =
                (block / prompts.len() / kinds, block / prompts.len() % kinds, block % prompts.len());
            let one = |strength: &f64| -> Result<Reading> {
                job.check()?;
                let shift = shift(&steered[latent].shifts[kind], *strength);
                let continuation = steering.continued(&tokens[prompt], prompt, Some(shift))?;
                read(&steered[latent], prompt, &continuation)
            };
            strengths.iter().map(one).collect::<Result<Vec<Reading>>>()
        })?;
        let sequences = job.whole("kl_sequences")?.min(steering.run.sequences());
        let divergences = work.blocks("divergences", steered.len() * kinds, |block| {
            let (latent, kind) = (block / kinds, block % kinds);
            let shifts: Vec<Vec<f32>> =
                strengths.iter().map(|strength| shift(&steered[latent].shifts[kind], *strength)).collect();
            let (mut sums, mut rows) = (vec![0.0; strengths.len()], 0);
            for sequence in 0..sequences {
                let (own, count) = steering.divergences(sequence, &shifts)?;
                sums.iter_mut().zip(own).for_each(|(sum, own)| *sum += own);
                rows += count;
            }
            // Rounding can leave a divergence of 0 slightly below it.
            let mean = |sum: &f64| (rows > 0).then(|| (sum / rows as f64).max(0.0));
            Ok(sums.iter().map(mean).collect::<Vec<Option<f64>>>())
        })?;
        let doses = dose::Doses {
            strengths: &strengths,
            prompts: prompts.len(),
            kinds,
            steered: &steered,
            base: &base,
            shifted: &shifted,
            divergences: &divergences,
        };
        numbers::scores(job, work, &doses, steering.encoder.is_some())
    }
}

fn shift(vector: &[f32], strength: f64) -> Vec<f32> {
    vector.iter().map(|value| (f64::from(*value) * strength) as f32).collect()
}

/// The prompts of the user's file, or the packaged ones.
fn prompts(own: Option<&Prompts>) -> Result<Vec<String>> {
    let packaged = Prompts::parse(PACKAGED)?;
    let text = own.unwrap_or(&packaged).get(SECTION).unwrap_or_default();
    let prompts: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(String::from).collect();
    if prompts.len() < 4 {
        return Err(InputError::new(format!("{} has too few beginnings of texts", Key("prompt")))
            .expected(format!("a section `[{SECTION}]` with at least 4 lines"))
            .found(format!("{} lines", prompts.len()))
            .into());
    }
    Ok(prompts)
}

/// The strengths besides 0, ascending.
fn strengths(job: &Job<'_>) -> Result<Vec<f64>> {
    let mut strengths: Vec<f64> = job.several("strengths")?.iter().filter_map(serde_json::Value::as_f64).collect();
    strengths.retain(|strength| *strength != 0.0);
    strengths.sort_unstable_by(f64::total_cmp);
    strengths.dedup();
    if !strengths.iter().any(|strength| *strength > 0.0) {
        return Err(InputError::new(format!("{} needs a positive number", Key("strengths")))
            .found(strengths.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))
            .into());
    }
    Ok(strengths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_twenty_prompts() {
        assert_eq!(prompts(None).unwrap().len(), 20);
        let own = Prompts::parse("[steer]\na\n\nb\nc\nd\n").unwrap();
        assert_eq!(prompts(Some(&own)).unwrap(), ["a", "b", "c", "d"]);
        let error = prompts(Some(&Prompts::parse("[explain]\na\n").unwrap())).unwrap_err().to_string();
        assert!(error.contains("[steer]"), "{error}");
    }
}
