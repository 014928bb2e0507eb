//! From effects to numbers with intervals, tables and notes.

use etalon_kernel::random::{index, stream};
use etalon_kernel::statistics::{mean, quantile};

use super::effects::{DirectionEffects, Effects};
use super::vocabulary::shown;
use crate::error::Result;
use crate::metrics::estimate::Estimate;
use crate::results::{Cells, RESAMPLES, Scores, Table, percentile_interval};
use crate::run::{Job, Work};

/// The level of the null above which a latent is output-like.
const LEVEL: f64 = 0.99;

/// All numbers of latents and of the null.
pub(super) fn scores(
    job: &Job<'_>,
    work: &mut Work<'_>,
    effects: &Effects<'_>,
    tokens: &[u32],
    (latents, null): (&[&DirectionEffects], &[&DirectionEffects]),
) -> Result<Scores> {
    let kurtosis = |of: &[&DirectionEffects]| -> Vec<f64> {
        of.iter().filter_map(|direction| direction.moments.map(|moments| moments.kurtosis)).collect()
    };
    let skewness: Vec<f64> =
        latents.iter().filter_map(|latent| latent.moments.map(|moments| moments.skewness)).collect();
    let (of_latents, of_null) = (kurtosis(latents), kurtosis(null));
    let threshold = quantile(&sorted(of_null.clone()), LEVEL);
    let share = threshold.filter(|_| !of_latents.is_empty()).map(|threshold| above(&of_latents, threshold));
    let replicates = work.once("resamples", || resampled(job, &of_latents, &of_null))?;
    let mut scores = Scores::default();
    let interval = percentile_interval(replicates).filter(|_| share.is_some() && of_latents.len() > 1);
    scores.headline("output_like", share, interval, if share.is_some() { of_latents.len() } else { 0 });
    Estimate::mean(&of_latents, job.seed, "logit_effects/kurtosis").headline("effect_kurtosis", &mut scores);
    Estimate::mean(&skewness, job.seed, "logit_effects/skewness").headline("effect_skewness", &mut scores);
    Estimate::mean(&of_null, job.seed, "logit_effects/null kurtosis").headline("effect_kurtosis_null", &mut scores);
    scores.headline("effect_kurtosis_null_p99", threshold, None, of_null.len());
    let vocabulary = effects.run.network.card().vocabulary;
    if tokens.len() < vocabulary {
        scores.note(format!("{} of {vocabulary} tokens are in no text and were left out", vocabulary - tokens.len()));
    }
    let undefined = latents.len() - of_latents.len();
    if undefined > 0 {
        scores.note(format!("{undefined} of {} latents have a direction of zeros or equal effects", latents.len()));
    }
    if scores.headline.iter().any(|headline| headline.value.is_none()) {
        scores.note("numbers without a direction that has them are undefined");
    }
    scores.tables.push(table(effects, latents, threshold));
    Ok(scores)
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_unstable_by(f64::total_cmp);
    values
}

fn above(values: &[f64], threshold: f64) -> f64 {
    values.iter().filter(|value| **value > threshold).count() as f64 / values.len() as f64
}

/// The share of output-like latents on resamples of latents and of the null.
fn resampled(job: &Job<'_>, latents: &[f64], null: &[f64]) -> Result<Vec<f64>> {
    if latents.is_empty() || null.is_empty() {
        return Ok(Vec::new());
    }
    let mut random = stream(job.seed, "logit_effects/output_like", 0);
    let mut replicates = Vec::with_capacity(RESAMPLES);
    for _ in 0..RESAMPLES {
        job.check()?;
        let drawn: Vec<f64> = (0..null.len()).map(|_| null[index(null.len(), &mut random)]).collect();
        let threshold = quantile(&sorted(drawn), LEVEL).unwrap_or(f64::INFINITY);
        let drawn: Vec<f64> = (0..latents.len())
            .map(|_| f64::from(u8::from(latents[index(latents.len(), &mut random)] > threshold)))
            .collect();
        replicates.extend(mean(&drawn));
    }
    Ok(replicates)
}

/// A row for every latent.
fn table(effects: &Effects<'_>, latents: &[&DirectionEffects], threshold: Option<f64>) -> Table {
    // A head may have rows that the tokenizer does not know.
    let text =
        |token: u32| effects.run.tokenizer.token_text(token).map_or_else(|_| format!("<{token}>"), |text| shown(&text));
    let texts = |of: fn(&DirectionEffects) -> &[(u32, f32)]| {
        latents
            .iter()
            .map(move |latent| of(latent).iter().map(|(token, _)| text(*token)).collect::<Vec<_>>().join(" | "))
    };
    let values = |of: fn(&DirectionEffects) -> &[(u32, f32)]| {
        let list = |latent: &&DirectionEffects| of(latent).iter().map(|(_, value)| Some(f64::from(*value))).collect();
        Cells::NumberLists(latents.iter().map(list).collect())
    };
    let ids = |of: fn(&DirectionEffects) -> &[(u32, f32)]| {
        let list = |latent: &&DirectionEffects| of(latent).iter().map(|(token, _)| i64::from(*token)).collect();
        Cells::WholeLists(latents.iter().map(list).collect())
    };
    let moment = |of: fn(&super::moments::Moments) -> f64| latents.iter().map(move |l| l.moments.as_ref().map(of));
    let is_output = |latent: &&DirectionEffects| match (latent.moments, threshold) {
        (Some(moments), Some(threshold)) => {
            if moments.kurtosis > threshold {
                "yes"
            } else {
                "no"
            }
        }
        _ => "",
    };
    Table::new("latent")
        .numbers("mean", moment(|moments| moments.mean))
        .numbers("sd", moment(|moments| moments.deviation))
        .numbers("skewness", moment(|moments| moments.skewness))
        .numbers("kurtosis", moment(|moments| moments.kurtosis))
        .words("output_like", latents.iter().map(is_output))
        .words("top", texts(|latent| &latent.top))
        .with("top_tokens", ids(|latent| &latent.top))
        .with("top_values", values(|latent| &latent.top))
        .words("bottom", texts(|latent| &latent.bottom))
        .with("bottom_tokens", ids(|latent| &latent.bottom))
        .with("bottom_values", values(|latent| &latent.bottom))
}
