//! Numbers at one strength, from the readings of some prompts.

use etalon_kernel::statistics::{area_under_curve, mean, spearman};

use super::concept::Steered;
use super::continuation::Reading;

/// The smallest cosine of a prompt and its continuation without steering that can be a divisor.
const LEAST_COSINE: f64 = 0.05;

/// Everything that was measured.
pub(super) struct Doses<'a> {
    /// Strengths besides 0, ascending.
    pub strengths: &'a [f64],
    pub prompts: usize,
    pub kinds: usize,
    pub steered: &'a [Steered],
    /// Without a shift, by latent and prompt.
    pub base: &'a [Reading],
    /// By latent, kind and prompt; every list by strength.
    pub shifted: &'a [Vec<Reading>],
    /// By latent and kind; every list by strength.
    pub divergences: &'a [Vec<Option<f64>>],
}

/// Presence, fluency, relevance and what they are made of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Dose {
    pub presence: Option<f64>,
    pub fluency: Option<f64>,
    pub relevance: Option<f64>,
    pub harmonic: Option<f64>,
    /// Mean loss above that without steering.
    pub excess: Option<f64>,
    pub concept: Option<f64>,
    pub read_back: Option<f64>,
    pub echo: Option<f64>,
}

impl Dose {
    /// The numbers of readings with a shift and of those of the same prompts without one.
    pub fn of(shifted: &[&Reading], base: &[&Reading]) -> Dose {
        let mean_of = |readings: &[&Reading], of: fn(&Reading) -> Option<f64>| {
            mean(&readings.iter().filter_map(|reading| of(reading)).collect::<Vec<f64>>())
        };
        let both = |of: fn(&Reading) -> Option<f64>| Some((mean_of(shifted, of)?, mean_of(base, of)?));
        let excess = both(|reading| reading.loss).map(|(loss, without)| loss - without);
        let repeated = both(|reading| reading.distinct)
            .map(|(distinct, without)| if without > 0.0 { (distinct / without).min(1.0) } else { 1.0 });
        let fluency = excess.zip(repeated).map(|(excess, repeated)| (-excess.max(0.0)).exp().min(repeated));
        let (presence, relevance) = (presence(shifted, base), relevance(shifted, base));
        Dose {
            presence,
            fluency,
            relevance,
            harmonic: harmonic([presence, fluency, relevance]),
            excess,
            concept: mean_of(shifted, |reading| reading.concept),
            read_back: mean_of(shifted, |reading| reading.read_back),
            echo: mean_of(shifted, |reading| reading.echo),
        }
    }
}

/// How well the direction of the concept tells continuations with a shift from those without.
fn presence(shifted: &[&Reading], base: &[&Reading]) -> Option<f64> {
    let with: Vec<f64> = shifted.iter().filter_map(|reading| reading.concept).collect();
    let without: Vec<f64> = base.iter().filter_map(|reading| reading.concept).collect();
    let positive: Vec<bool> = with.iter().map(|_| true).chain(without.iter().map(|_| false)).collect();
    let area = area_under_curve(&positive, &[with, without].concat())?;
    Some((2.0 * area - 1.0).max(0.0))
}

fn relevance(shifted: &[&Reading], base: &[&Reading]) -> Option<f64> {
    let share = |(shifted, base): (&&Reading, &&Reading)| {
        let without = base.prompt.filter(|cosine| *cosine > LEAST_COSINE)?;
        Some((shifted.prompt? / without).clamp(0.0, 1.0))
    };
    mean(&shifted.iter().zip(base).filter_map(share).collect::<Vec<f64>>())
}

/// The harmonic mean; 0 if a part is 0, `None` if one is undefined.
fn harmonic(parts: [Option<f64>; 3]) -> Option<f64> {
    let [a, b, c] = parts;
    let parts = [a?, b?, c?];
    if parts.iter().any(|part| *part <= 0.0) {
        return Some(0.0);
    }
    Some(3.0 / parts.iter().map(|part| 1.0 / part).sum::<f64>())
}

impl Doses<'_> {
    fn reading(&self, latent: usize, kind: usize, prompt: usize, strength: usize) -> &Reading {
        &self.shifted[(latent * self.kinds + kind) * self.prompts + prompt][strength]
    }

    /// The numbers of a latent at a strength on some prompts.
    pub fn dose(&self, latent: usize, kind: usize, strength: usize, prompts: &[usize]) -> Dose {
        let shifted: Vec<&Reading> =
            prompts.iter().map(|prompt| self.reading(latent, kind, *prompt, strength)).collect();
        Dose::of(&shifted, &self.bases(latent, prompts))
    }

    fn bases(&self, latent: usize, prompts: &[usize]) -> Vec<&Reading> {
        prompts.iter().map(|prompt| &self.base[latent * self.prompts + prompt]).collect()
    }

    /// The positive strength with the largest harmonic mean on some prompts, of equal ones the first; `None` if it is undefined.
    pub fn best(&self, latent: usize, kind: usize, prompts: &[usize]) -> Option<usize> {
        let mut best: Option<(usize, f64)> = None;
        for (index, _) in self.strengths.iter().enumerate().filter(|(_, strength)| **strength > 0.0) {
            let harmonic = self.dose(latent, kind, index, prompts).harmonic?;
            if best.is_none_or(|(_, most)| harmonic > most) {
                best = Some((index, harmonic));
            }
        }
        best.map(|(index, _)| index)
    }

    /// The rank correlation of all strengths, 0 included, with the mean of a number.
    pub fn response(&self, latent: usize, prompts: &[usize], of: fn(&Reading) -> Option<f64>) -> Option<f64> {
        let level = |readings: Vec<&Reading>| mean(&readings.into_iter().filter_map(of).collect::<Vec<f64>>());
        let (mut strengths, mut levels) = (vec![0.0], vec![level(self.bases(latent, prompts))?]);
        for (index, strength) in self.strengths.iter().enumerate() {
            strengths.push(*strength);
            let readings = prompts.iter().map(|prompt| self.reading(latent, 0, *prompt, index)).collect();
            levels.push(level(readings)?);
        }
        spearman(&strengths, &levels)
    }

    /// The index of the positive strength closest to 1, of equally close ones the smaller.
    pub fn unit(&self) -> usize {
        let far = |strength: f64| (strength - 1.0).abs();
        let mut best: Option<usize> = None;
        for (index, strength) in self.strengths.iter().enumerate().filter(|(_, strength)| **strength > 0.0) {
            if best.is_none_or(|best| far(*strength) < far(self.strengths[best])) {
                best = Some(index);
            }
        }
        best.unwrap_or(0)
    }

    /// The smallest positive strength with at least half of the largest presence, and the strengths that have it and cost at most
    /// 1 nat.
    pub fn half(&self, latent: usize, prompts: &[usize]) -> (Option<f64>, Vec<f64>) {
        let doses: Vec<(f64, Dose)> = self
            .strengths
            .iter()
            .enumerate()
            .filter(|(_, strength)| **strength > 0.0)
            .map(|(index, strength)| (*strength, self.dose(latent, 0, index, prompts)))
            .collect();
        let most = doses.iter().filter_map(|(_, dose)| dose.presence).fold(0.0, f64::max);
        let enough = |dose: &Dose| most > 0.0 && dose.presence.is_some_and(|presence| presence >= most / 2.0);
        let first = doses.iter().find(|(_, dose)| enough(dose)).map(|(strength, _)| *strength);
        let window = doses.iter().filter(|(_, dose)| enough(dose) && dose.excess.is_some_and(|excess| excess <= 1.0));
        (first, window.map(|(strength, _)| *strength).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reading(loss: f64, distinct: f64, concept: f64, prompt: f64) -> Reading {
        Reading {
            loss: Some(loss),
            distinct: Some(distinct),
            concept: Some(concept),
            prompt: Some(prompt),
            read_back: Some(concept),
            echo: None,
        }
    }

    #[test]
    fn a_dose_by_hand() {
        let base = [reading(2.0, 1.0, 0.1, 0.5), reading(3.0, 0.8, 0.3, 0.04)];
        let shifted = [reading(2.5, 0.6, 0.2, 0.25), reading(3.3, 0.9, 0.4, 0.9)];
        let (shifted, base): (Vec<&Reading>, Vec<&Reading>) = (shifted.iter().collect(), base.iter().collect());
        let dose = Dose::of(&shifted, &base);
        // Of four pairs, 0.2 > 0.1, 0.4 > 0.1 and 0.4 > 0.3: AUROC 3/4, presence 1/2. Losses: 2.9 − 2.5 = 0.4, exp(−0.4) = 0.670; triples:
        // 0.75 / 0.9 = 0.833. Relevance: 0.25 / 0.5; the second divisor is too small.
        let fluency = (-0.4f64).exp();
        let harmonic = 3.0 / (2.0 + 1.0 / fluency + 2.0);
        let close = |found: Option<f64>, expected: f64| (found.unwrap() - expected).abs() < 1e-12;
        assert!(close(dose.presence, 0.5) && close(dose.fluency, fluency) && close(dose.relevance, 0.5), "{dose:?}");
        assert!(close(dose.harmonic, harmonic) && close(dose.excess, 0.4), "{dose:?}");
        // Fewer distinct triples than fluency by loss: loops are not fluent.
        let loops = reading(1.0, 0.2, 0.2, 0.25);
        assert!(close(Dose::of(&[&loops, &loops], &base).fluency, 0.2 / 0.9));
        assert_eq!(Dose::of(&[], &[]).harmonic, None);
        assert_eq!(harmonic_of_zero(), Some(0.0));
    }

    fn harmonic_of_zero() -> Option<f64> {
        harmonic([Some(0.0), Some(1.0), Some(1.0)])
    }

    #[test]
    fn strengths_are_chosen_by_the_harmonic_mean() {
        let steered = Steered { latent: 0, largest: 1.0, concept: None, shifts: vec![], promoted: vec![] };
        // Two prompts; presence grows with the strength, fluency falls.
        let base = [reading(1.0, 1.0, 0.0, 0.5), reading(1.0, 1.0, 0.1, 0.5)];
        let at = |concept: f64, loss: f64| reading(loss, 1.0, concept, 0.5);
        let shifted = vec![vec![at(-1.0, 1.0), at(0.05, 1.1), at(0.5, 1.2), at(0.9, 9.0)]; 2];
        let doses = Doses {
            strengths: &[-1.0, 0.5, 1.0, 4.0],
            prompts: 2,
            kinds: 1,
            steered: &[steered],
            base: &base,
            shifted: &shifted,
            divergences: &[vec![None; 4]],
        };
        assert_eq!((doses.best(0, 0, &[0, 1]), doses.unit()), (Some(2), 2));
        // Presence 0, 1 and 1: half of the largest is first reached at 1, and 4 costs 8 nats.
        assert_eq!(doses.half(0, &[0, 1]), (Some(1.0), vec![1.0]));
        // Ranks of −1, 0, 0.5, 1, 4 against those of −1, 0.05, 0.05, 0.5, 0.9: covariance 9.5, variances 10 and 9.5.
        let response = doses.response(0, &[0, 1], |reading| reading.concept).unwrap();
        assert!((response - 9.5 / 95.0f64.sqrt()).abs() < 1e-12, "{response}");
    }
}
