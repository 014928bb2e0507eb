//! The numbers over latents, their table and the histogram of densities.

use etalon_kernel::statistics::mean;

use super::cosines::LargestCosines;
use super::sums::Sums;
use super::weights::LatentWeights;
use crate::error::Result;
use crate::metrics::resamples::{Draws, mean_interval, resamples};
use crate::results::{Interval, Profile, Scores, Table, percentile_interval};
use crate::run::{Job, Work};

/// The statistics of all latents.
pub(super) struct Latents<'a> {
    /// The number of rows.
    pub rows: usize,
    /// Sums over rows.
    pub sums: &'a Sums,
    /// The number of samples in which each latent fires, if rows belong to samples.
    pub samples: Option<&'a [u64]>,
    /// The weights, if there is a dictionary.
    pub weights: Option<&'a [LatentWeights]>,
    /// Largest cosines of decoder rows.
    pub decoder: Option<LargestCosines>,
    /// Largest cosines of encoder rows.
    pub encoder: Option<LargestCosines>,
}

/// Bins per power of ten.
const STEPS: i32 = 4;
/// Powers of ten of the histogram.
const DECADES: i32 = 8;

/// The numbers over densities, in the order of the card.
const KEYS: [&str; 5] = [
    "frac_alive",
    "freq_over_1_percent",
    "freq_over_10_percent",
    "normalized_freq_over_1_percent",
    "normalized_freq_over_10_percent",
];

/// Thresholds of frequent latents.
const THRESHOLDS: [f64; 2] = [0.01, 0.1];

impl Latents<'_> {
    /// Adds all numbers and tables over latents.
    pub fn put(&self, job: &Job<'_>, work: &mut Work<'_>, scores: &mut Scores) -> Result<()> {
        let fired = self.sums.fired.iter();
        let densities: Vec<Option<f64>> =
            fired.map(|&fired| (self.rows > 0).then(|| fired as f64 / self.rows as f64)).collect();
        self.put_frequencies(&densities.iter().copied().flatten().collect::<Vec<_>>(), job, work, scores)?;
        for (key, cosines) in
            [("average_max_encoder_cosine_sim", &self.encoder), ("average_max_decoder_cosine_sim", &self.decoder)]
        {
            let defined: Vec<f64> = cosines.iter().flatten().copied().flatten().collect();
            scores.headline(key, mean(&defined), mean_interval(job, work, key, &defined)?, defined.len());
            match cosines.as_ref().map(|all| all.len() - defined.len()) {
                None => scores.note(format!("`{key}` is undefined: it needs the weights of the dictionary")),
                Some(0) if !defined.is_empty() => {}
                Some(missing) => {
                    scores.note(format!(
                        "`{key}`: {missing} latents without length or without another latent are left out"
                    ));
                }
            }
        }
        scores.tables.push(self.by_latent(&densities));
        scores.tables.push(self.histogram());
        Ok(())
    }

    fn put_frequencies(
        &self,
        densities: &[f64],
        job: &Job<'_>,
        work: &mut Work<'_>,
        scores: &mut Scores,
    ) -> Result<()> {
        let numbers = Frequencies::of(densities.iter().copied()).numbers(job.profile);
        let mut intervals: [Option<Interval>; KEYS.len()] = [None; KEYS.len()];
        if densities.len() > 1 {
            let replicate =
                |draws: Draws<'_>| Frequencies::of(draws.map(|latent| densities[latent])).numbers(job.profile);
            let replicates = resamples(job, work, "core/latents", densities.len(), replicate)?;
            let interval =
                |key: usize| percentile_interval(replicates.iter().filter_map(|numbers| numbers[key]).collect());
            intervals = std::array::from_fn(interval);
        }
        for ((key, value), interval) in KEYS.into_iter().zip(numbers).zip(intervals) {
            scores.headline(key, value, interval.filter(|_| value.is_some()), densities.len());
            if value.is_none() && !densities.is_empty() {
                scores.note(format!("`{key}` is undefined: no latent fires"));
            }
        }
        let dead = densities.iter().filter(|&&density| density == 0.0).count();
        if dead > 0 {
            scores.note(format!("{dead} of {} latents never fire", densities.len()));
        }
        if self.sums.fired.is_empty() && self.rows > 0 {
            scores.note("frequencies are undefined: there are no latents");
        }
        Ok(())
    }

    fn by_latent(&self, densities: &[Option<f64>]) -> Table {
        let Sums { fired, values, largest, .. } = self.sums;
        let logarithm = |density: &Option<f64>| density.filter(|&density| density > 0.0).map(libm::log10);
        let all = 0..fired.len();
        let mut table = Table::new("latent")
            .counts("index", all.clone())
            .numbers("feature_density", densities.iter().copied())
            .numbers("log10_density", densities.iter().map(logarithm))
            .numbers("mean_when_active", all.clone().map(|l| (fired[l] > 0).then(|| values[l] / fired[l] as f64)))
            .numbers("max", largest.iter().map(|largest| largest.map(f64::from)));
        if let Some(samples) = self.samples {
            let each = |l: usize| (samples[l] > 0).then(|| fired[l] as f64 / samples[l] as f64);
            table = table.numbers("consistent_activation_heuristic", all.map(each));
        }
        if let Some(weights) = self.weights {
            table = table
                .numbers("encoder_bias", weights.iter().map(|latent| Some(latent.encoder_bias)))
                .numbers("encoder_norm", weights.iter().map(|latent| Some(latent.encoder_norm)))
                .numbers("encoder_decoder_cosine_sim", weights.iter().map(|latent| latent.cosine));
        }
        for (name, cosines) in [("max_decoder_cosine_sim", &self.decoder), ("max_encoder_cosine_sim", &self.encoder)] {
            if let Some(cosines) = cosines {
                table = table.numbers(name, cosines.iter().copied());
            }
        }
        table
    }

    /// Latents by log10 of density: bins of a quarter, without their lower end; the first includes everything below.
    fn histogram(&self) -> Table {
        let bins = (STEPS * DECADES) as usize;
        let mut count = vec![0usize; bins];
        for &fired in self.sums.fired.iter().filter(|&&fired| fired > 0) {
            let position = libm::log10(fired as f64 / self.rows as f64) * f64::from(STEPS);
            let below_top = (-position).floor().clamp(0.0, bins as f64 - 1.0) as usize;
            count[bins - 1 - below_top] += 1;
        }
        let edge = |bin: usize| Some((bin as f64 - bins as f64) / f64::from(STEPS));
        Table::new("density")
            .numbers("log10_from", (0..bins).map(edge))
            .numbers("log10_to", (1..=bins).map(edge))
            .counts("latents", count)
    }
}

/// Statistics of the densities of latents.
#[derive(Default)]
struct Frequencies {
    latents: usize,
    alive: usize,
    /// The sum of all densities.
    total: f64,
    /// Latents with a density above each of [`THRESHOLDS`], and the sum of their densities.
    frequent: [(usize, f64); 2],
}

impl Frequencies {
    fn of(densities: impl Iterator<Item = f64>) -> Frequencies {
        let mut sums = Frequencies::default();
        for density in densities {
            sums.latents += 1;
            sums.alive += usize::from(density > 0.0);
            sums.total += density;
            for (frequent, _) in sums.frequent.iter_mut().zip(THRESHOLDS).filter(|(_, limit)| density > *limit) {
                *frequent = (frequent.0 + 1, frequent.1 + density);
            }
        }
        sums
    }

    /// The values of [`KEYS`].
    fn numbers(&self, profile: Profile) -> [Option<f64>; KEYS.len()] {
        let share = |latents: usize| (self.latents > 0).then(|| latents as f64 / self.latents as f64);
        let normalised = |sum: f64| match profile {
            _ if self.total > 0.0 => Some(sum / self.total),
            Profile::Reference if self.latents > 0 => Some(0.0),
            _ => None,
        };
        let [(over_1, sum_1), (over_10, sum_10)] = self.frequent;
        [share(self.alive), share(over_1), share(over_10), normalised(sum_1), normalised(sum_10)]
    }
}
