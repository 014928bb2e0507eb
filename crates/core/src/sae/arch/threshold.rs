//! A running mean of the smallest code that a batch keeps: the threshold that replaces the selection after training.

use serde::{Deserialize, Serialize};

use crate::sae::param::{ArchParam, ParamValue};
use crate::sae::preset::Preset;

/// How the threshold is tracked.
pub static THRESHOLD: ArchParam<ThresholdRule> = ArchParam::of_presets(
    ["threshold", "How the threshold that replaces the selection of a batch is tracked"],
    |preset| match preset {
        Preset::Etalon | Preset::Blindspots => {
            ThresholdRule { start: 0, decay: 0.999, initial: None, assign_first: false }
        }
        Preset::DictionaryLearning => ThresholdRule { start: 1001, decay: 0.999, initial: None, assign_first: true },
        Preset::SaeConceptEval | Preset::Saelens => {
            ThresholdRule { start: 0, decay: 0.99, initial: Some(0.0), assign_first: false }
        }
    },
);

/// How the threshold that replaces the selection of a batch is tracked: a running mean of the smallest code kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ThresholdRule {
    /// The first step that counts.
    pub start: u64,
    /// Weight of the old mean.
    pub decay: f64,
    /// Initial value, which biases the mean; without it, the mean is bias-corrected.
    pub initial: Option<f64>,
    /// Whether the first value is assigned to the mean.
    pub assign_first: bool,
}

impl ParamValue for ThresholdRule {
    fn describe() -> &'static str {
        "a rule as JSON"
    }

    fn parse(text: &str) -> Option<ThresholdRule> {
        serde_json::from_str(text).ok()
    }

    fn to_text(&self) -> String {
        let start = self.initial.map_or("start corrected".into(), |initial| format!("starts at {initial}"));
        let start = if self.assign_first { "first value assigned".into() } else { start };
        format!("running mean, decay {}, from step {}, {start}", self.decay, self.start)
    }
}

/// The running mean, as a weighted sum and the sum of its weights, which corrects the bias of the start.
#[derive(Clone, Debug)]
pub(super) struct RunningThreshold {
    rule: ThresholdRule,
    sum: f64,
    weight: f64,
}

impl RunningThreshold {
    pub fn new(rule: ThresholdRule) -> RunningThreshold {
        match rule.initial {
            Some(initial) => RunningThreshold { rule, sum: initial, weight: 1.0 },
            None => RunningThreshold { rule, sum: 0.0, weight: 0.0 },
        }
    }

    /// Adds the smallest code of a batch, if it has a code.
    pub fn add(&mut self, step: u64, smallest: Option<f64>) {
        let Some(smallest) = smallest.filter(|_| step >= self.rule.start) else { return };
        if self.rule.assign_first && self.weight == 0.0 {
            (self.sum, self.weight) = (smallest, 1.0);
            return;
        }
        let decay = self.rule.decay;
        self.sum = decay * self.sum + (1.0 - decay) * smallest;
        self.weight = decay * self.weight + (1.0 - decay);
    }

    /// The threshold, once a value was added.
    pub fn value(&self) -> Option<f32> {
        (self.weight > 0.0).then(|| (self.sum / self.weight) as f32)
    }

    pub fn save(&self) -> Vec<f64> {
        vec![self.sum, self.weight]
    }

    pub fn load(&mut self, saved: &[f64]) {
        if let [sum, weight] = saved {
            (self.sum, self.weight) = (*sum, *weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_bias_corrected() {
        let rule = ThresholdRule { start: 1, decay: 0.9, initial: None, assign_first: false };
        let mut running = RunningThreshold::new(rule);
        running.add(0, Some(100.0));
        assert_eq!(running.value(), None);
        running.add(1, Some(2.0));
        running.add(2, None);
        assert!((running.value().unwrap() - 2.0).abs() < 1e-6);
        // (0.9 · 0.2 + 0.1 · 4) / (0.09 + 0.1) = 0.58 / 0.19
        running.add(3, Some(4.0));
        assert!((running.value().unwrap() - 0.58 / 0.19).abs() < 1e-6);
        let mut biased = RunningThreshold::new(ThresholdRule { initial: Some(0.0), ..rule });
        biased.add(1, Some(2.0));
        assert!((biased.value().unwrap() - 0.2).abs() < 1e-6);
        let mut assigned = RunningThreshold::new(ThresholdRule { assign_first: true, ..rule });
        assigned.add(1, Some(2.0));
        assigned.add(2, Some(4.0));
        assert!((assigned.value().unwrap() - 2.2).abs() < 1e-6);
    }
}
