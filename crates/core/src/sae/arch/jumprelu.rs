//! JumpReLU: a learned threshold per latent, with pseudo-derivatives in a window around it.

use serde::{Deserialize, Serialize};

use super::control::{self, Controller};
use super::penalty::{Penalty, SPARSITY_WARMUP};
use super::{Arch, ArchCard, Sparsity, follow, refuse, scaled};
use crate::error::{Key, Result};
use crate::sae::activation::Activation;
use crate::sae::param::{ArchParam, ParamValue};
use crate::sae::preset::Preset;
use crate::sae::train::{
    Batch, LatentBackward, NewObjective, Objective, Row, Rules, Scalar, Selection, Terms, TrainingSettings,
};

/// JumpReLU.
pub struct JumpRelu;

/// How far the thresholds of a controlled training can move, in standard deviations of the pre-activations.
const REACH: f32 = 16.0;

/// The bandwidth of a controlled training, in standard deviations of the pre-activations.
const WINDOW: f32 = 0.1;

/// Weight of the penalty; other defaults than those of [`super::penalty::PENALTY`].
pub(super) static PENALTY: ArchParam<f64> =
    ArchParam::new(["penalty", "l1", "WEIGHT", "Weight of the sparsity penalty"], |preset| match preset {
        Preset::SaeConceptEval | Preset::Saelens => 0.001,
        _ => 1.0,
    });

/// Target L0 of the penalty.
pub static TARGET_L0: ArchParam<f64> =
    ArchParam::new(["target_l0", "target-l0", "N", "Target number of active latents per row"], |_| 20.0);

/// Bandwidth of the pseudo-derivatives.
pub static BANDWIDTH: ArchParam<f32> = ArchParam::new(
    ["bandwidth", "bandwidth", "WIDTH", "Width of the window around thresholds"],
    |preset| match preset {
        Preset::Saelens => 0.05,
        _ => 0.001,
    },
);

/// How thresholds are trained.
pub static JUMP: ArchParam<Jump> =
    ArchParam::of_presets(["jump", "How thresholds are trained, and what is penalised"], |preset| match preset {
        Preset::SaeConceptEval => Jump::Logarithm,
        Preset::Saelens => Jump::Step,
        _ => Jump::Target,
    });

/// Initial threshold.
pub static INITIAL_THRESHOLD: ArchParam<f32> =
    ArchParam::of_presets(["initial_threshold", "Threshold before training"], |preset| match preset {
        Preset::SaeConceptEval => 1.0,
        Preset::Saelens => 0.01,
        _ => 0.001,
    });

/// How JumpReLU trains its thresholds, and what it penalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jump {
    /// Trains the threshold; penalises the squared relative distance of L0 from its target.
    Target,
    /// Trains the logarithm of the threshold with the pseudo-derivatives of the threshold; penalises the mean L0.
    Logarithm,
    /// Trains the threshold; penalises the mean L0, whose pseudo-derivative depends on pre-activations instead of
    /// codes.
    Step,
}

impl ParamValue for Jump {
    fn describe() -> &'static str {
        "target, logarithm or step"
    }

    fn parse(text: &str) -> Option<Jump> {
        [Jump::Target, Jump::Logarithm, Jump::Step].into_iter().find(|jump| jump.to_text() == text)
    }

    fn to_text(&self) -> String {
        match self {
            Jump::Target => "target",
            Jump::Logarithm => "logarithm",
            Jump::Step => "step",
        }
        .into()
    }
}

static CARD: ArchCard = ArchCard {
    name: "jumprelu",
    summary: "Keeps pre-activations above a threshold that is learned per latent.",
    forward: "p = W_e x + b_e\n\
              f = p · [p > θ]\n\
              x̂ = W_d f + b",
    loss: "With a controller (the default; off with `l1` or the preset dictionary-learning): mean over rows of ‖x − x̂‖² + \
           λ L0. λ is adjusted to reach the target L0, as in relu. Centred rows are divided by their root mean squared \
           norm (`normalise`). ∂f/∂θ as below, and ∂L0/∂θ = −(1/ε) [|p − θ| < ε/2]. θ starts at σ = 1/√width, the \
           standard deviation of p, and ε = 0.1 σ. The trained numbers are θ / c, where c is the smallest power of \
           two from 1 on that lets Adam move θ by 16 σ during the training.\n\
           Published training, with a fixed λ: mean over rows of ‖x − x̂‖² + λ s (L0 / L0* − 1)². θ is trained with \
           pseudo-derivatives: ∂f/∂θ = −(θ/ε) \
           [|p − θ| < ε/2] and ∂L0/∂θ = −(1/ε) [|f − θ| < ε/2], where f is the code after the jump, so inactive \
           rows count while θ < ε/2.",
    initialisation: "Decoder directions are random unit vectors, the encoder is a copy of them, and θ = 0.001 (with a \
                     controller 1/√width). b is the mean m of the rows, as in relu, and b_e = −W_e m.",
    constraint: "Decoder directions have unit norm: the gradient is projected, and directions are renormalised \
                 after each step. The global gradient norm is clipped to 1.",
    defaults: "target-l0 20, Adam β₁ 0, warmup 1000. With a controller, lr is at least 0.001 / √(latents / 16384) and \
               decays in the last fifth of the steps. Without: λ 1, ε 0.001, lr 0.00007, sparsity warmup 2000.",
    params: &[&PENALTY, &SPARSITY_WARMUP, &TARGET_L0, &BANDWIDTH, &JUMP, &INITIAL_THRESHOLD],
    presets: "sae-concept-eval: θ = e^τ with initial τ = 0. τ is trained with the pseudo-derivatives of θ, without \
              the factor θ of the chain rule, as in that program. The penalty is λ = 0.001 times the mean L0, \
              without a warm-up. Rows are standardised, and b_e is used. Initialisation, lr 0.0005, ε 6.25e-10 and \
              normalisation before the step as topk.\n\
              saelens: initial θ = 0.01, learned directly (as in its newest version; older ones learn log θ), ε \
              0.05, penalty λ times the mean L0, whose pseudo-derivative depends on p. Directions start with norm \
              0.1 and are not constrained. Not reproduced: the tanh penalty and the loss on dead latents, which are \
              options of SAELens.\n\
              blindspots: AdamW, cosine schedule and reanimation as ra_topk.",
    source: "Rajamanoharan et al. 2024, Jumping ahead; dictionary_learning for the target L0",
};

impl Arch for JumpRelu {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn sparsity(&self) -> Sparsity {
        Sparsity::Target { default: Some(&TARGET_L0) }
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        settings(&CARD, objective, preset, width, latents)
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(JumpReluObjective::new(rules(settings)?, settings)?))
}

/// Settings of architectures with a learned threshold.
pub(super) fn settings(
    card: &ArchCard,
    new_objective: NewObjective,
    preset: Preset,
    width: usize,
    latents: usize,
) -> TrainingSettings {
    let settings = follow(TrainingSettings::top_family(card.name, new_objective, width, latents), preset, card);
    let settings = TrainingSettings { median: false, centre: preset == Preset::Etalon, ..settings };
    match preset {
        Preset::Etalon | Preset::DictionaryLearning => TrainingSettings { rate: 7e-5, betas: (0.0, 0.999), ..settings },
        Preset::Saelens => TrainingSettings { rate: 3e-4, ..settings },
        Preset::SaeConceptEval | Preset::Blindspots => settings,
    }
}

pub(super) fn rules(settings: &TrainingSettings) -> Result<Rules> {
    let initial = settings.get(&INITIAL_THRESHOLD)?;
    if initial.is_nan() || initial <= 0.0 {
        refuse("the initial threshold of JumpReLU is out of range", "a number above 0", initial)?;
    }
    let threshold = match settings.get(&JUMP)? {
        Jump::Logarithm => Scalar::new("log_threshold", initial.ln()),
        Jump::Target | Jump::Step => Scalar { unit: threshold_unit(settings)?, ..Scalar::new("threshold", initial) },
    };
    let scalars = vec![Scalar::new("encoder_bias", 0.0), threshold];
    Ok(Rules { centred: false, scalars, ..Rules::plain(settings.latents) })
}

/// The standard deviation of pre-activations at the start, whose directions are random unit vectors: rows are divided by
/// their root mean squared norm, or standardised.
fn spread(settings: &TrainingSettings) -> f32 {
    if settings.normalise { 1.0 / (settings.width as f32).sqrt() } else { 1.0 }
}

/// The unit of the thresholds of a controlled training. Adam changes a trained number by at most the learning rate per
/// step: the unit allows thresholds to move by `REACH` standard deviations of the pre-activations, also in short runs.
fn threshold_unit(settings: &TrainingSettings) -> Result<f32> {
    if settings.control.is_none() || settings.get(&JUMP)? == Jump::Logarithm {
        return Ok(1.0);
    }
    let reach = REACH * spread(settings);
    Ok((reach / (settings.rate * settings.steps.max(1) as f64) as f32).clamp(1.0, 1e9).log2().ceil().exp2())
}

/// The settings of a controlled training that the scale of pre-activations determines. `given` ones are kept.
pub(super) fn control(settings: &mut TrainingSettings, given: &dyn Fn(&str) -> bool) {
    let spread = spread(settings);
    settings.params.set(&INITIAL_THRESHOLD, spread);
    if !given("bandwidth") {
        settings.params.set(&BANDWIDTH, WINDOW * spread);
    }
}

/// Also the objective of ra_jumprelu, which differs only in its directions.
pub(super) struct JumpReluObjective {
    rules: Rules,
    penalty: Penalty,
    controller: Option<Controller>,
    target: f64,
    bandwidth: f32,
    jump: Jump,
    /// The unit of the trained thresholds.
    threshold_unit: f32,
    /// The derivative of the penalty by the firing of one latent in one row, in the current step.
    penalty_slope: f64,
}

impl JumpReluObjective {
    pub fn new(rules: Rules, settings: &TrainingSettings) -> Result<JumpReluObjective> {
        let (bandwidth, target) = (settings.get(&BANDWIDTH)?, settings.get(&TARGET_L0)?);
        if bandwidth.is_nan() || bandwidth <= 0.0 {
            refuse(&format!("{} is out of range", Key("bandwidth")), "a number above 0", bandwidth)?;
        }
        if target.is_nan() || target <= 0.0 {
            refuse(&format!("{} is out of range", Key("target-l0")), "a number above 0", target)?;
        }
        let (penalty, controller) = (Penalty::of(settings)?, Controller::of(settings)?);
        // A controlled training has no use for the target in the loss.
        let jump = match settings.get(&JUMP)? {
            Jump::Target if controller.is_some() => Jump::Step,
            jump => jump,
        };
        let threshold_unit = threshold_unit(settings)?;
        let penalty_slope = 0.0;
        Ok(JumpReluObjective { rules, penalty, controller, target, bandwidth, jump, threshold_unit, penalty_slope })
    }

    /// The threshold of a latent.
    fn threshold(&self, scalars: &[f32]) -> f32 {
        if self.jump == Jump::Logarithm { scalars[1].exp() } else { scalars[1] * self.threshold_unit }
    }

    /// Whether a value is in the window around a threshold.
    fn near(&self, value: f32, threshold: f32) -> bool {
        ((value - threshold) / self.bandwidth).abs() < 0.5
    }
}

impl Objective for JumpReluObjective {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    fn floor(&self, scalars: &[f32]) -> f32 {
        self.threshold(scalars) - self.bandwidth / 2.0
    }

    fn code(&self, scalars: &[f32], value: f32) -> f32 {
        if value > self.threshold(scalars) { value } else { 0.0 }
    }

    fn measure(&self, row: Row<'_>) -> [f64; 2] {
        let fires = |&&(value, latent): &&(f32, u32)| value > self.threshold(&row.scalars[latent as usize * 2..]);
        [row.entries.iter().filter(fires).count() as f64, 0.0]
    }

    fn loss(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, l0) = (batch.squared_errors[0], batch.mean(0));
        let weight = control::weight(&mut self.controller, &self.penalty, batch.step, [l0, error, l0]);
        if self.jump != Jump::Target {
            self.penalty_slope = weight / batch.rows.len() as f64;
            let mut terms = vec![("loss", error + weight * l0), ("squared_error", error), ("sparsity", l0)];
            terms.extend(self.controller.is_some().then_some(("weight", weight)));
            return terms;
        }
        let miss = l0 / self.target - 1.0;
        self.penalty_slope = 2.0 * weight * miss / self.target / batch.rows.len() as f64;
        vec![("loss", error + weight * miss * miss), ("squared_error", error), ("sparsity", miss * miss)]
    }

    fn backward(&self, column: &mut LatentBackward<'_>) {
        let (threshold, bandwidth) = (self.threshold(column.scalars), f64::from(self.bandwidth));
        let codes_only = self.jump != Jump::Step;
        let (mut jump, mut fires, mut near) = (0.0f64, 0, 0);
        for (slope, &value) in column.slopes.iter_mut().zip(column.values) {
            let inside = self.near(value, threshold);
            if inside {
                jump += f64::from(*slope);
            }
            near += usize::from(inside && (value > threshold || !codes_only));
            if value > threshold {
                fires += 1;
            } else {
                *slope = 0.0;
            }
        }
        // The pseudo-derivative of L0 depends on codes after the jump, which are 0 in inactive rows.
        if codes_only && self.near(0.0, threshold) {
            near += column.batch - fires;
        }
        column.gradient[0] = column.bias_gradient();
        let gradient = -f64::from(threshold) * jump - self.penalty_slope * near as f64;
        column.gradient[1] = (gradient / bandwidth) as f32 * self.threshold_unit;
    }

    fn save(&self) -> Vec<f64> {
        self.controller.as_ref().map(Controller::save).unwrap_or_default()
    }

    fn load(&mut self, saved: &[f64]) {
        self.controller.iter_mut().for_each(|controller| controller.load(saved));
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        let thresholds = scalars.chunks_exact(2).map(|scalars| self.threshold(scalars) * unit).collect();
        (scaled(scalars, 0, 2, unit), Activation::Threshold(thresholds))
    }
}
