//! From counts by latent to the numbers over latents, their table and the histogram of densities.

use std::sync::Arc;

use super::neighbours::Neighbours;
use crate::codes::Latent;
use crate::error::Result;
use crate::kernel::product::dot;
use crate::kernel::random::{index, stream};
use crate::kernel::statistics::mean;
use crate::results::{Interval, Profile, RESAMPLES, Scores, Table, bootstrap_mean, percentile_interval};
use crate::run::{Job, Next};
use crate::sae::{Dictionary, Linear};

/// What is known of the latents when all rows were seen.
pub(super) struct Latents {
    /// How many rows there are.
    pub rows: usize,
    /// The rows where each fires.
    pub fired: Vec<u64>,
    /// The sum of its values there.
    pub sums: Vec<f64>,
    /// The largest of them.
    pub largest: Vec<f32>,
    /// The samples in which it fires, where rows know their sample.
    pub samples: Option<Vec<u64>>,
}

/// Everything but the cosines between latents.
pub(super) struct Found {
    latents: Latents,
    scores: Scores,
    weights: Option<Weights>,
}

/// What the weights of one latent say by themselves.
struct Weights {
    bias: Vec<f64>,
    norm: Vec<f64>,
    cosine: Vec<Option<f64>>,
}

impl Weights {
    fn of(dictionary: &Linear) -> Weights {
        let card = dictionary.card();
        let mut row = vec![0.0; card.width];
        let (mut norm, mut cosine) = (Vec::with_capacity(card.latents), Vec::with_capacity(card.latents));
        for latent in (0..card.latents as u32).map(Latent) {
            dictionary.encoder_row(latent, &mut row);
            let direction = dictionary.direction(latent);
            let lengths = dot(&row, &row).sqrt() * dot(direction, direction).sqrt();
            norm.push(dot(&row, &row).sqrt());
            cosine.push((lengths > 0.0).then(|| (dot(&row, direction) / lengths).clamp(-1.0, 1.0)));
        }
        let bias = dictionary.encoder_bias().iter().map(|&bias| f64::from(bias)).collect();
        Weights { bias, norm, cosine }
    }
}

/// The largest cosines, by latent.
#[derive(Clone, Default)]
pub(super) struct Largest {
    /// Of decoder rows.
    pub decoder: Option<Vec<Option<f64>>>,
    /// Of encoder rows.
    pub encoder: Option<Vec<Option<f64>>>,
}

/// Steps of the histogram in one power of ten.
const STEPS: i32 = 4;
/// The powers of ten that it covers.
const DECADES: i32 = 8;

/// The densities that are counted, with the names of their numbers.
const OFTEN: [(f64, &str, &str); 2] = [
    (0.01, "freq_over_1_percent", "normalized_freq_over_1_percent"),
    (0.1, "freq_over_10_percent", "normalized_freq_over_10_percent"),
];

impl Latents {
    /// Asks for the cosines, if there are directions.
    pub fn go_on(self, scores: Scores, job: &Job<'_>) -> Result<Next> {
        let weights = job.inputs.dictionary.as_deref().map(Weights::of);
        Neighbours::first(Arc::new(Found { latents: self, scores, weights }), job)
    }

    fn densities(&self) -> Vec<Option<f64>> {
        self.fired.iter().map(|&fired| (self.rows > 0).then(|| fired as f64 / self.rows as f64)).collect()
    }
}

impl Found {
    /// Everything together.
    pub fn finish(&self, largest: Largest, job: &Job<'_>) -> Scores {
        let mut scores = self.scores.clone();
        let densities = self.latents.densities();
        self.frequencies(&densities.iter().copied().flatten().collect::<Vec<_>>(), job, &mut scores);
        for (key, cosines) in
            [("average_max_encoder_cosine_sim", &largest.encoder), ("average_max_decoder_cosine_sim", &largest.decoder)]
        {
            let defined: Vec<f64> = cosines.iter().flatten().copied().flatten().collect();
            scores.headline(key, mean(&defined), bootstrap_mean(&defined, job.seed, key), defined.len());
            let missing = cosines.as_ref().map(|all| all.len() - defined.len());
            match missing {
                None => scores.note(format!("`{key}` needs the weights of the dictionary: undefined")),
                Some(0) if !defined.is_empty() => {}
                Some(missing) => {
                    scores.note(format!("`{key}`: {missing} latents without length or without company are left out"));
                }
            }
        }
        scores.tables.push(self.by_latent(&densities, &largest));
        scores.tables.push(self.histogram());
        scores
    }

    fn frequencies(&self, densities: &[f64], job: &Job<'_>, scores: &mut Scores) {
        let share = |list: &[f64], above: f64| {
            let over = list.iter().filter(|&&density| density > above).count();
            (!list.is_empty()).then(|| over as f64 / list.len() as f64)
        };
        let normalised = |list: &[f64], above: f64| {
            let total: f64 = list.iter().sum();
            // From 0, because the sum of nothing is −0.
            let over = list.iter().filter(|&&density| density > above).fold(0.0, |sum, density| sum + density);
            match job.profile {
                _ if total > 0.0 => Some(over / total),
                Profile::Reference if !list.is_empty() => Some(0.0),
                _ => None,
            }
        };
        type Number<'a> = &'a dyn Fn(&[f64], f64) -> Option<f64>;
        let numbers: [(&str, Number<'_>, f64); 5] = [
            ("frac_alive", &share, 0.0),
            (OFTEN[0].1, &share, OFTEN[0].0),
            (OFTEN[1].1, &share, OFTEN[1].0),
            (OFTEN[0].2, &normalised, OFTEN[0].0),
            (OFTEN[1].2, &normalised, OFTEN[1].0),
        ];
        let intervals = resampled(densities, job.seed, |list| numbers.map(|(_, number, above)| number(list, above)));
        for ((key, number, above), interval) in numbers.into_iter().zip(intervals) {
            let value = number(densities, above);
            scores.headline(key, value, interval.filter(|_| value.is_some()), densities.len());
            if value.is_none() && !densities.is_empty() {
                scores.note(format!("no latent fires: `{key}` is undefined"));
            }
        }
        let dead = densities.iter().filter(|&&density| density == 0.0).count();
        if dead > 0 {
            scores.note(format!("{dead} of {} latents never fire", densities.len()));
        }
        if self.latents.fired.is_empty() && self.latents.rows > 0 {
            scores.note("there are no latents: frequencies are undefined");
        }
    }

    fn by_latent(&self, densities: &[Option<f64>], largest: &Largest) -> Table {
        let Latents { fired, sums, largest: values, samples, .. } = &self.latents;
        let active = |latent: usize| fired[latent] > 0;
        let logarithm = |density: &Option<f64>| density.filter(|&density| density > 0.0).map(libm::log10);
        let all = 0..fired.len();
        let mut table = Table::new("latent")
            .counts("index", all.clone())
            .numbers("feature_density", densities.iter().copied())
            .numbers("log10_density", densities.iter().map(logarithm))
            .numbers("mean_when_active", all.clone().map(|l| active(l).then(|| sums[l] / fired[l] as f64)))
            .numbers("max", all.clone().map(|l| active(l).then(|| f64::from(values[l]))));
        if let Some(samples) = samples {
            let each = |l: usize| (samples[l] > 0).then(|| fired[l] as f64 / samples[l] as f64);
            table = table.numbers("consistent_activation_heuristic", all.map(each));
        }
        if let Some(weights) = &self.weights {
            table = table
                .numbers("encoder_bias", weights.bias.iter().map(|&bias| Some(bias)))
                .numbers("encoder_norm", weights.norm.iter().map(|&norm| Some(norm)))
                .numbers("encoder_decoder_cosine_sim", weights.cosine.iter().copied());
        }
        for (name, cosines) in
            [("max_decoder_cosine_sim", &largest.decoder), ("max_encoder_cosine_sim", &largest.encoder)]
        {
            if let Some(cosines) = cosines {
                table = table.numbers(name, cosines.iter().copied());
            }
        }
        table
    }

    /// Latents by log10 of density: quarters of a power of ten, each without its lower end; the first takes all below.
    fn histogram(&self) -> Table {
        let bins = (STEPS * DECADES) as usize;
        let mut count = vec![0usize; bins];
        for &fired in self.latents.fired.iter().filter(|&&fired| fired > 0) {
            let place = libm::log10(fired as f64 / self.latents.rows as f64) * f64::from(STEPS);
            let below_top = (-place).floor().clamp(0.0, bins as f64 - 1.0) as usize;
            count[bins - 1 - below_top] += 1;
        }
        let edge = |place: usize| Some((place as f64 - bins as f64) / f64::from(STEPS));
        Table::new("density")
            .numbers("log10_from", (0..bins).map(edge))
            .numbers("log10_to", (1..=bins).map(edge))
            .counts("latents", count)
    }
}

/// Intervals of several numbers from the same resamples of latents.
fn resampled<const N: usize>(
    values: &[f64],
    seed: u64,
    numbers: impl Fn(&[f64]) -> [Option<f64>; N],
) -> [Option<Interval>; N] {
    if values.len() < 2 {
        return [None; N];
    }
    let mut random = stream(seed, "core/latents", 0);
    let mut drawn = vec![0.0; values.len()];
    let replicates: Vec<[Option<f64>; N]> = (0..RESAMPLES)
        .map(|_| {
            drawn.iter_mut().for_each(|place| *place = values[index(values.len(), &mut random)]);
            numbers(&drawn)
        })
        .collect();
    std::array::from_fn(|key| percentile_interval(replicates.iter().filter_map(|numbers| numbers[key]).collect()))
}
