//! JumpReLU: a learnt threshold per latent, with pseudo-derivatives in a window around it.

use super::{Arch, ArchCard, Batch, Column, Objective, Row, Rules, Scalar, Selection, Terms, refuse, scaled};
use crate::error::Result;
use crate::sae::Activation;
use crate::sae::train::{Jump, Preset, Settings};

/// JumpReLU.
pub struct JumpRelu;

static CARD: ArchCard = ArchCard {
    name: "jumprelu",
    summary: "pre-activations above a threshold that every latent learns",
    forward: "p = W_e x + b_e; f = p · [p > θ]; x̂ = W_d f + b",
    loss: "mean over rows of ‖x − x̂‖² + λ s (L0 / L0* − 1)². θ learns by pseudo-derivatives: ∂f/∂θ = −(θ/ε) [|p − θ| < ε/2], \
           ∂L0/∂θ = −(1/ε) [|f − θ| < ε/2], where f is the code after the jump, so that silent rows count while θ < ε/2",
    initialisation: "random unit directions, encoder their copy, biases 0, θ = 0.001",
    constraint: "unit directions: gradient projected, gradients cut to global length 1, directions renormalised",
    defaults: "target-l0 20, λ 1, bandwidth ε 0.001, lr 0.00007, Adam's first decay 0, warmup 1000, sparsity warmup 2000",
    presets: "sae-concept-eval: θ = e^τ with τ = 0 at the start; τ learns by the pseudo-derivatives of θ, without the factor θ that \
              the chain rule would add, as there; the penalty is λ = 0.001 times the mean L0, at once; rows are standardised, \
              b_e is used; start, lr 0.0005, ε 6.25e-10 and unit directions before the step as topk\n\
              saelens: θ = 0.01 at the start, learnt directly (its newest form; older ones learn log θ), ε 0.05, λ times the mean \
              L0 whose pseudo-derivative looks at p; directions start with length 0.1, not constrained. Not reproduced: the \
              tanh penalty and the loss on dead latents, which are options there\n\
              blindspots: AdamW, cosine and reanimation as ra_topk",
    source: "Rajamanoharan et al. 2024, Jumping ahead; dictionary_learning for the target L0",
};

/// The number before training is a setting.
const SCALARS: [Scalar; 2] =
    [Scalar { name: "encoder_bias", initial: 0.0 }, Scalar { name: "threshold", initial: 0.0 }];

const LOGARITHMS: [Scalar; 2] =
    [Scalar { name: "encoder_bias", initial: 0.0 }, Scalar { name: "log_threshold", initial: 0.0 }];

impl Arch for JumpRelu {
    fn card(&self) -> &'static ArchCard {
        &CARD
    }

    fn settings(&self, preset: Preset, width: usize, latents: usize) -> Settings {
        settings(CARD.name, preset, width, latents)
    }

    fn objective(&self, settings: &Settings) -> Result<Box<dyn Objective>> {
        check(settings)?;
        Ok(Box::new(Live::new(rules(settings), settings)))
    }
}

/// Settings of architectures with a learnt threshold.
pub(super) fn settings(arch: &str, preset: Preset, width: usize, latents: usize) -> Settings {
    let settings = Settings::top_family(arch, width, latents).follow(preset);
    let penalty = if settings.jump == Jump::Target { 1.0 } else { 0.001 };
    let settings = Settings { penalty, median: false, ..settings };
    match preset {
        Preset::Etalon | Preset::DictionaryLearning => Settings { rate: 7e-5, betas: (0.0, 0.999), ..settings },
        Preset::Saelens => Settings { rate: 3e-4, ..settings },
        Preset::SaeConceptEval | Preset::Blindspots => settings,
    }
}

pub(super) fn check(settings: &Settings) -> Result<()> {
    if settings.bandwidth.is_nan() || settings.bandwidth <= 0.0 {
        refuse("the bandwidth of JumpReLU makes no sense", "a number above 0", settings.bandwidth)?;
    }
    if settings.target_l0.is_nan() || settings.target_l0 <= 0.0 {
        refuse("the target L0 makes no sense", "a number above 0", settings.target_l0)?;
    }
    if settings.initial_threshold.is_nan() || settings.initial_threshold <= 0.0 {
        refuse("the first threshold of JumpReLU makes no sense", "a number above 0", settings.initial_threshold)?;
    }
    Ok(())
}

pub(super) fn rules(settings: &Settings) -> Rules {
    let scalars = if settings.jump == Jump::Logarithm { &LOGARITHMS } else { &SCALARS };
    Rules { centred: false, scalars, ..Rules::plain(settings.latents) }
}

/// Also the live part of archetypal dictionaries, which differ in their directions only.
pub(super) struct Live {
    rules: Rules,
    settings: Settings,
    /// The penalty's derivative by whether one latent fires in one row, in this step.
    pull: f64,
}

impl Live {
    pub fn new(rules: Rules, settings: &Settings) -> Live {
        Live { rules, settings: settings.clone(), pull: 0.0 }
    }

    /// The threshold of a latent.
    fn threshold(&self, scalars: &[f32]) -> f32 {
        if self.settings.jump == Jump::Logarithm { scalars[1].exp() } else { scalars[1] }
    }

    /// Whether something lies in the window around a threshold.
    fn near(&self, value: f32, threshold: f32) -> bool {
        ((value - threshold) / self.settings.bandwidth).abs() < 0.5
    }
}

impl Objective for Live {
    fn rules(&self) -> &Rules {
        &self.rules
    }

    fn selection(&self, _: u64) -> Selection {
        Selection::Above
    }

    fn floor(&self, scalars: &[f32]) -> f32 {
        self.threshold(scalars) - self.settings.bandwidth / 2.0
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
        let (weight, target) = (self.settings.penalty * batch.sparsity, self.settings.target_l0);
        if self.settings.jump != Jump::Target {
            self.pull = weight / batch.rows.len() as f64;
            return vec![("loss", error + weight * l0), ("squared_error", error), ("sparsity", l0)];
        }
        let miss = l0 / target - 1.0;
        self.pull = 2.0 * weight * miss / target / batch.rows.len() as f64;
        vec![("loss", error + weight * miss * miss), ("squared_error", error), ("sparsity", miss * miss)]
    }

    fn backward(&self, column: &mut Column<'_>) {
        let (threshold, bandwidth) = (self.threshold(column.scalars), f64::from(self.settings.bandwidth));
        let codes_only = self.settings.jump != Jump::Step;
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
