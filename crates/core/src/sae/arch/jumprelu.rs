//! JumpReLU: a learnt threshold per latent, with pseudo-derivatives in a window around it.

use serde::{Deserialize, Serialize};

use super::l1::{Penalty, SPARSITY_WARMUP};
use super::{Arch, ArchCard, follow, refuse, scaled};
use crate::error::Result;
use crate::sae::activation::Activation;
use crate::sae::param::{Param, ParamValue};
use crate::sae::preset::Preset;
use crate::sae::train::{
    Batch, LatentBackward, NewObjective, Objective, Row, Rules, Scalar, Selection, Terms, TrainingSettings,
};

/// JumpReLU.
pub struct JumpRelu;

/// What the penalty weighs here.
pub(super) static PENALTY: Param<f64> =
    Param::new(["penalty", "l1", "WEIGHT", "Weight of the sparsity penalty"], |preset| match preset {
        Preset::SaeConceptEval | Preset::Saelens => 0.001,
        _ => 1.0,
    });

/// What the penalty aims at.
pub static TARGET_L0: Param<f64> =
    Param::new(["target_l0", "target-l0", "N", "Active latents per row to aim at"], |_| 20.0);

/// Where thresholds learn.
pub static BANDWIDTH: Param<f32> =
    Param::new(["bandwidth", "bandwidth", "WIDTH", "Width of the window around thresholds"], |preset| match preset {
        Preset::Saelens => 0.05,
        _ => 0.001,
    });

/// How thresholds learn.
pub static JUMP: Param<Jump> =
    Param::of_presets(["jump", "How thresholds learn, and what is penalised"], |preset| match preset {
        Preset::SaeConceptEval => Jump::Logarithm,
        Preset::Saelens => Jump::Step,
        _ => Jump::Target,
    });

/// Where thresholds start.
pub static INITIAL_THRESHOLD: Param<f32> =
    Param::of_presets(["initial_threshold", "Threshold before training"], |preset| match preset {
        Preset::SaeConceptEval => 1.0,
        Preset::Saelens => 0.01,
        _ => 0.001,
    });

/// How JumpReLU learns its thresholds, and what it penalises.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Jump {
    /// The threshold itself; the squared relative distance of L0 from its target.
    Target,
    /// The logarithm of the threshold, by the pseudo-derivatives of the threshold; the mean L0.
    Logarithm,
    /// The threshold itself; the mean L0, whose pseudo-derivative looks at pre-activations instead of codes.
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
    summary: "pre-activations above a threshold that every latent learns",
    forward: "p = W_e x + b_e; f = p · [p > θ]; x̂ = W_d f + b",
    loss: "mean over rows of ‖x − x̂‖² + λ s (L0 / L0* − 1)². θ learns by pseudo-derivatives: ∂f/∂θ = −(θ/ε) [|p − θ| < ε/2], \
           ∂L0/∂θ = −(1/ε) [|f − θ| < ε/2], where f is the code after the jump, so that silent rows count while θ < ε/2",
    initialisation: "random unit directions, encoder their copy, biases 0, θ = 0.001",
    constraint: "unit directions: gradient projected, gradients cut to global length 1, directions renormalised",
    defaults: "target-l0 20, λ 1, bandwidth ε 0.001, lr 0.00007, Adam's first decay 0, warmup 1000, sparsity warmup 2000",
    params: &[&PENALTY, &SPARSITY_WARMUP, &TARGET_L0, &BANDWIDTH, &JUMP, &INITIAL_THRESHOLD],
    presets: "sae-concept-eval: θ = e^τ with τ = 0 at the start; τ learns by the pseudo-derivatives of θ, without the factor θ that \
              the chain rule would add, as there; the penalty is λ = 0.001 times the mean L0, at once; rows are standardised, \
              b_e is used; start, lr 0.0005, ε 6.25e-10 and unit directions before the step as topk\n\
              saelens: θ = 0.01 at the start, learnt directly (its newest form; older ones learn log θ), ε 0.05, λ times the mean \
              L0 whose pseudo-derivative looks at p; directions start with length 0.1, not constrained. Not reproduced: the \
              tanh penalty and the loss on dead latents, which are options there\n\
              blindspots: AdamW, cosine and reanimation as ra_topk",
    source: "Rajamanoharan et al. 2024, Jumping ahead; dictionary_learning for the target L0",
};

impl Arch for JumpRelu {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> TrainingSettings {
        settings(&CARD, objective, preset, width, latents)
    }
}

fn objective(settings: &TrainingSettings) -> Result<Box<dyn Objective>> {
    Ok(Box::new(JumpReluObjective::new(rules(settings)?, settings)?))
}

/// Settings of architectures with a learnt threshold.
pub(super) fn settings(
    card: &ArchCard,
    new_objective: NewObjective,
    preset: Preset,
    width: usize,
    latents: usize,
) -> TrainingSettings {
    let settings = follow(TrainingSettings::top_family(card.name, new_objective, width, latents), preset, card);
    let settings = TrainingSettings { median: false, ..settings };
    match preset {
        Preset::Etalon | Preset::DictionaryLearning => TrainingSettings { rate: 7e-5, betas: (0.0, 0.999), ..settings },
        Preset::Saelens => TrainingSettings { rate: 3e-4, ..settings },
        Preset::SaeConceptEval | Preset::Blindspots => settings,
    }
}

pub(super) fn rules(settings: &TrainingSettings) -> Result<Rules> {
    let initial = settings.get(&INITIAL_THRESHOLD)?;
    if initial.is_nan() || initial <= 0.0 {
        refuse("the first threshold of JumpReLU is out of range", "a number above 0", initial)?;
    }
    let threshold = match settings.get(&JUMP)? {
        Jump::Logarithm => Scalar { name: "log_threshold", initial: initial.ln() },
        Jump::Target | Jump::Step => Scalar { name: "threshold", initial },
    };
    let scalars = vec![Scalar { name: "encoder_bias", initial: 0.0 }, threshold];
    Ok(Rules { centred: false, scalars, ..Rules::plain(settings.latents) })
}

/// Also the objective of archetypal dictionaries, which differ in their directions only.
pub(super) struct JumpReluObjective {
    rules: Rules,
    penalty: Penalty,
    target: f64,
    bandwidth: f32,
    jump: Jump,
    /// The penalty's derivative by whether one latent fires in one row, in this step.
    pull: f64,
}

impl JumpReluObjective {
    pub fn new(rules: Rules, settings: &TrainingSettings) -> Result<JumpReluObjective> {
        let (bandwidth, target) = (settings.get(&BANDWIDTH)?, settings.get(&TARGET_L0)?);
        if bandwidth.is_nan() || bandwidth <= 0.0 {
            refuse("the bandwidth of JumpReLU is out of range", "a number above 0", bandwidth)?;
        }
        if target.is_nan() || target <= 0.0 {
            refuse("the target L0 is out of range", "a number above 0", target)?;
        }
        let (penalty, jump) = (Penalty::of(settings)?, settings.get(&JUMP)?);
        Ok(JumpReluObjective { rules, penalty, target, bandwidth, jump, pull: 0.0 })
    }

    /// The threshold of a latent.
    fn threshold(&self, scalars: &[f32]) -> f32 {
        if self.jump == Jump::Logarithm { scalars[1].exp() } else { scalars[1] }
    }

    /// Whether something lies in the window around a threshold.
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

    fn settle(&mut self, batch: &Batch<'_>) -> Terms {
        let (error, l0) = (batch.squared_errors[0], batch.mean(0));
        let (weight, target) = (self.penalty.at(batch.step), self.target);
        if self.jump != Jump::Target {
            self.pull = weight / batch.rows.len() as f64;
            return vec![("loss", error + weight * l0), ("squared_error", error), ("sparsity", l0)];
        }
        let miss = l0 / target - 1.0;
        self.pull = 2.0 * weight * miss / target / batch.rows.len() as f64;
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
        // The step sees codes after the jump: silent rows have the code 0.
        if codes_only && self.near(0.0, threshold) {
            near += column.batch - fires;
        }
        column.gradient[0] = column.bias_gradient();
        let gradient = -f64::from(threshold) * jump - self.pull * near as f64;
        column.gradient[1] = (gradient / bandwidth) as f32;
    }

    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation) {
        let thresholds = scalars.chunks_exact(2).map(|scalars| self.threshold(scalars) * unit).collect();
        (scaled(scalars, 0, 2, unit), Activation::Threshold(thresholds))
    }
}
