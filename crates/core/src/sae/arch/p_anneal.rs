//! P-anneal: a ReLU whose penalty moves from L1 towards L0.

use super::penalty::{PENALTY, Penalty, SPARSITY_WARMUP};
use super::{Arch, ArchCard, Sparsity, refuse, relu, scaled};
use crate::error::{Key, Result};
use crate::sae::activation::Activation;
use crate::sae::param::ArchParam;
use crate::sae::preset::Preset;
use crate::sae::train::{Batch, LatentBackward, Objective, Row, Rules, Selection, Terms, TrainingSettings};

/// P-anneal.
pub struct PAnneal;

/// The first step at which the exponent decreases.
pub static ANNEAL_START: ArchParam<u64> =
    ArchParam::new(["anneal_start", "anneal-start", "N", "Step at which the exponent starts to decrease"], |_| 15_000);

/// The first and the last exponent.
pub static EXPONENTS: ArchParam<(f64, f64)> =
    ArchParam::new(["exponents", "exponents", "START,END", "First and last exponent"], |_| (1.0, 0.0));

/// Number of updates of the exponent.
pub static EXPONENT_UPDATES: ArchParam<usize> =
    ArchParam::of_presets(["exponent_updates", "Number of updates of the exponent"], |_| 10);

/// Number of recent losses that rescale the penalty.
pub static QUEUE: ArchParam<usize> = ArchParam::new(
    ["queue", "queue", "N", "Recent losses used to rescale the penalty when the exponent changes"],
    |_| 10,
);

/// Whether the p-th root of the penalty is taken.
pub static ROOTED: ArchParam<bool> =
    ArchParam::of_presets(["rooted", "Penalise (Σ fᵖ)^(1/p) instead of Σ fᵖ"], |_| false);

static CARD: ArchCard = ArchCard {
    name: "p_anneal",
    summary: "Keeps positive pre-activations, with a penalty Σ fᵖ whose exponent decreases during training.",
    forward: "f = ReLU(W_e (x − b) + b_e)\n\
              x̂ = W_d f + b",
    loss: "Mean over rows of ‖x − x̂‖² + α s Σ fᵖ. The exponent p takes 10 equally spaced values from its start to \
           its end, at equally spaced steps from anneal-start to the last step. Each time, α is rescaled so that \
           the mean penalty over the last 10 steps is unchanged.",
    initialisation: "As relu.",
    constraint: "As relu.",
    defaults: "α 0.1 (`l1`), p from 1 to 0, anneal-start 15,000, or half of the steps if that is less. The rest as relu.",
    params: &[&PENALTY, &SPARSITY_WARMUP, &ANNEAL_START, &EXPONENTS, &EXPONENT_UPDATES, &QUEUE, &ROOTED],
    presets: "dictionary-learning: b_e starts uniform in ±1/√width.",
    source: "Karvonen et al. 2024, Measuring progress in dictionary learning",
};

impl Arch for PAnneal {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn sparsity(&self) -> Sparsity {
        Sparsity::Penalty
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        relu::settings(&CARD, objective, preset, width, latents)
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    let exponents = settings.get(&EXPONENTS)?;
    let (start, end) = exponents;
    let (rooted, updates, queue) = (settings.get(&ROOTED)?, settings.get(&EXPONENT_UPDATES)?, settings.get(&QUEUE)?);
    let valid = |p: f64| (0.0..=2.0).contains(&p);
    if !valid(start) || !valid(end) || (rooted && (start == 0.0 || end == 0.0)) {
        let message = format!("{} is out of range", Key("exponents"));
        refuse(&message, "numbers from 0 to 2", format!("{start} to {end}"))?;
    }
    if updates < 2 || queue == 0 {
        let message = format!("{} or the number of exponent updates is out of range", Key("queue"));
        refuse(&message, "at least 1 loss and 2 updates", format!("{queue} losses and {updates} updates"))?;
    }
    let penalty = Penalty::of(settings)?;
    Ok(Box::new(PAnnealObjective {
        rules: Rules::plain(settings.latents),
        schedule: Schedule { first: settings.get(&ANNEAL_START)?, last: settings.steps, exponents, updates },
        penalty,
        queue,
        rooted,
        weight: penalty.weight,
        exponent: start,
        penalised: start,
        next: None,
        updates: 0,
        losses: Vec::new(),
        penalty_slope: 0.0,
        roots: Vec::new(),
    }))
}

/// The steps and values of the exponent's updates.
struct Schedule {
    first: u64,
    last: u64,
    exponents: (f64, f64),
    updates: usize,
}

impl Schedule {
    fn point(&self, from: f64, to: f64, index: usize) -> f64 {
        from + (to - from) * index as f64 / (self.updates - 1) as f64
    }

    /// The step of an update.
    fn step(&self, index: usize) -> u64 {
        self.point(self.first as f64, self.last as f64, index) as u64
    }

    /// The exponent after an update.
    fn exponent(&self, index: usize) -> f64 {
        let (start, end) = self.exponents;
        if index < self.updates { self.point(start, end, index) } else { end }
    }
}

struct PAnnealObjective {
    rules: Rules,
    schedule: Schedule,
    penalty: Penalty,
    /// Maximum length of `losses`.
    queue: usize,
    rooted: bool,
    /// The current weight of the penalty.
    weight: f64,
    /// The exponent of the next step.
    exponent: f64,
    /// The exponent of the current step.
    penalised: f64,
    /// The exponent after the next update.
    next: Option<f64>,
    /// Updates done.
    updates: usize,
    /// The recent penalties with the current exponent and with the next one.
    losses: Vec<[f64; 2]>,
    /// The derivative of the penalty by f, in the current step, without the factor f^(p − 1).
    penalty_slope: f32,
    /// The factor of that derivative for each row, if the penalty has a root.
    roots: Vec<f32>,
}

impl PAnnealObjective {
    /// The penalty of a row, from its sum of powers.
    fn row_penalty(&self, sum: f64, exponent: f64) -> f64 {
        if self.rooted { sum.powf(1.0 / exponent) } else { sum }
    }

    /// Updates the exponent at the scheduled steps, and rescales the weight so that the penalty keeps its size.
    fn anneal(&mut self, step: u64) {
        if self.updates >= self.schedule.updates || step != self.schedule.step(self.updates) {
            return;
        }
        if self.next.is_some() {
            let sum = |which: usize| self.losses.iter().map(|pair| pair[which]).sum::<f64>();
            if sum(1) > 0.0 {
                self.weight *= sum(0) / sum(1);
            }
        }
        self.exponent = self.schedule.exponent(self.updates);
        self.next = Some(self.schedule.exponent(self.updates + 1));
        self.updates += 1;
    }
}

/// fᵖ; exact for p = 1.
fn power(value: f32, exponent: f64) -> f64 {
    if exponent == 1.0 { f64::from(value) } else { f64::from(value).powf(exponent) }
}

impl Objective for PAnnealObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    /// The sums of powers with the current exponent and with the next one.
    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let sum = |exponent: f64| row.entries.iter().map(|entry| power(entry.0, exponent)).sum::<f64>();
        [sum(self.exponent), self.next.map_or(0.0, sum)]
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, exponent, rows) = (batch.squared_errors[0], self.exponent, batch.rows.len() as f64);
        let mean = |objective: &PAnnealObjective, which: usize, exponent: f64| {
            batch.rows.iter().map(|row| objective.row_penalty(row[which], exponent)).sum::<f64>() / rows
        };
        let sparsity = mean(self, 0, exponent);
        let weight = self.weight * self.penalty.warmup_factor(batch.step);
        self.penalty_slope = (weight * if self.rooted { 1.0 } else { exponent } / rows) as f32;
        self.penalised = exponent;
        self.roots.clear();
        if self.rooted {
            let root = |row: &[f64; 2]| if row[0] > 0.0 { row[0].powf(1.0 / exponent - 1.0) as f32 } else { 0.0 };
            self.roots.extend(batch.rows.iter().map(root));
        }
        if let Some(next) = self.next {
            let pair = [sparsity, mean(self, 1, next)];
            self.losses.push(pair);
            let excess = self.losses.len().saturating_sub(self.queue);
            self.losses.drain(..excess);
        }
        self.anneal(batch.step);
        vec![("loss", error + weight * sparsity), ("squared_error", error), ("sparsity", sparsity)]
    }

    fn backward(&self, column: &mut LatentBackward<'_>) {
        let exponent = self.penalised - 1.0;
        for ((slope, &value), &row) in column.slopes.iter_mut().zip(column.values).zip(column.rows) {
            let root = self.roots.get(row as usize).copied().unwrap_or(1.0);
            let power = if exponent == 0.0 { 1.0 } else { value.powf(exponent as f32) };
            *slope += self.penalty_slope * root * power;
        }
        column.gradient[0] = column.bias_gradient();
    }

    fn save(&self) -> Vec<f64> {
        let mut saved = vec![self.weight, self.exponent, self.updates as f64, self.next.unwrap_or(f64::NAN)];
        saved.extend(self.losses.iter().flatten());
        saved
    }

    fn load(&mut self, saved: &[f64]) {
        if let [weight, exponent, updates, next, losses @ ..] = saved {
            (self.weight, self.exponent, self.updates) = (*weight, *exponent, *updates as usize);
            self.next = (!next.is_nan()).then_some(*next);
            self.losses = losses.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        }
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        (scaled(scalars, 0, 1, unit), Activation::Relu)
    }
}
