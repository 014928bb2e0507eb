//! The interface between an architecture and the training engine. The engine does all expensive work: encoder product,
//! sparse reconstruction, gradients per latent, Adam. An [`Objective`] only maps single numbers, so every architecture
//! is as sparse and as fast as the engine.

use serde::{Deserialize, Serialize};

use crate::sae::activation::Activation;
use crate::sae::matching_pursuit::MatchingPursuit;

/// A trained number per latent, besides its encoder and decoder rows. The first one is always added to the
/// pre-activation.
#[derive(Clone, Copy, Debug)]
pub struct Scalar {
    /// The name of its tensor.
    pub name: &'static str,
    /// The initial value.
    pub initial: f32,
    /// The trained number is the value divided by this power of two, so that a step of Adam changes the value by as many
    /// times the learning rate. Tensors hold the value.
    pub unit: f32,
}

impl Scalar {
    /// A number that is trained as it is.
    pub const fn new(name: &'static str, initial: f32) -> Scalar {
        Scalar { name, initial, unit: 1.0 }
    }
}

/// How decoder directions are parameterised.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Encoder and decoder are free matrices.
    Free,
    /// Directions are convex combinations of candidate points plus a small relaxation; the encoder is free.
    Archetypal(Mixtures),
    /// The encoder equals the decoder.
    Tied,
}

/// The parameters of archetypal directions.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixtures {
    /// Number of candidate points; 0 for one per latent.
    pub candidates: usize,
    /// Number of candidates that a direction combines: those nearest to its initial candidate.
    pub neighbours: usize,
    /// Maximum distance of directions from the convex hull of their candidates.
    pub radius: Radius,
    /// Whether all directions are multiplied by one learned number.
    pub multiplier: bool,
}

/// Maximum distance of archetypal directions from the convex hull of their candidates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Radius {
    /// In units of the mean norm of the candidates, which makes it independent of the scale of the data.
    Relative(f64),
    /// In units of the data, as in overcomplete.
    Absolute(f64),
}

impl Radius {
    /// The number without its unit.
    pub fn number(self) -> f64 {
        match self {
            Radius::Relative(number) | Radius::Absolute(number) => number,
        }
    }
}

/// Properties of an architecture that are constant during training.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How decoder directions are parameterised.
    pub form: Form,
    /// Whether the decoder bias is trained; else it is 0.
    pub biased: bool,
    /// Whether the decoder bias is subtracted from the input.
    pub centred: bool,
    /// The trained numbers per latent.
    pub scalars: Vec<Scalar>,
    /// The end of each group of latents: one group unless reconstructions are nested.
    pub groups: Vec<usize>,
    /// The weight of the error of each nested reconstruction.
    pub group_weights: Vec<f32>,
    /// Whether the gates are decoded too; the decoder receives no gradient from that.
    pub gates: bool,
    /// Whether dead latents are trained to reconstruct the error.
    pub auxiliary: bool,
}

impl Rules {
    /// Free directions, one group, a bias per latent, centred input.
    pub fn plain(latents: usize) -> Rules {
        Rules {
            form: Form::Free,
            biased: true,
            centred: true,
            scalars: vec![Scalar::new("encoder_bias", 0.0)],
            groups: vec![latents],
            group_weights: vec![1.0],
            gates: false,
            auxiliary: false,
        }
    }
}

/// Which pre-activations of a batch are kept.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Selection {
    /// All above the floor of their latent.
    Above,
    /// The `k` largest of every row, if they are above the floor of their latent.
    PerRow(usize),
    /// The largest of the batch, `k` per row on average, if they are above the floor of their latent.
    PerBatch(usize),
    /// Matching pursuit: one at a time, by the largest product with the residual.
    Pursuit(MatchingPursuit),
}

/// The kept pre-activations of one row, latents ascending.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Pre-activation and latent.
    pub entries: &'a [(f32, u32)],
    /// The scalars of all latents, latent by latent.
    pub scalars: &'a [f32],
    /// The norm of each decoder direction; empty unless [`Objective::needs_norms`].
    pub norms: &'a [f32],
}

/// The results of a forward pass.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The step, from 0.
    pub step: u64,
    /// The results of [`Objective::measure`], by row.
    pub rows: &'a [[f64; 2]],
    /// The mean squared error of each nested reconstruction, unweighted.
    pub squared_errors: &'a [f64],
    /// The mean squared error of the decoded gates.
    pub gate_error: f64,
    /// The auxiliary loss, unweighted.
    pub auxiliary: f64,
}

impl Batch<'_> {
    /// The mean of a measurement over the rows.
    pub fn mean(&self, index: usize) -> f64 {
        self.rows.iter().map(|row| row[index]).sum::<f64>() / self.rows.len().max(1) as f64
    }
}

/// Named terms of a loss; the total is called `loss`.
pub type Terms = Vec<(&'static str, f64)>;

/// The backward pass of one latent.
#[derive(Debug)]
pub struct LatentBackward<'a> {
    /// Number of rows of the batch.
    pub batch: usize,
    /// The rows in which the latent was kept.
    pub rows: &'a [u32],
    /// The kept pre-activations.
    pub values: &'a [f32],
    /// In: the derivative of the error by each code. Out: the derivative of the loss by each product of encoder and
    /// input.
    pub slopes: &'a mut [f32],
    /// The derivative of the error of the decoded gates by each gate; empty unless gates are decoded.
    pub gate_slopes: &'a [f32],
    /// The scalars of the latent.
    pub scalars: &'a [f32],
    /// Out: the gradient of the scalars; initially 0.
    pub gradient: &'a mut [f32],
    /// The norm of the decoder direction.
    pub norm: f32,
    /// Out: the derivative of the loss by that norm; initially 0.
    pub norm_gradient: f32,
}

impl LatentBackward<'_> {
    /// The sum of the slopes, which is the gradient of a bias added to the product.
    pub fn bias_gradient(&self) -> f32 {
        self.slopes.iter().map(|&slope| f64::from(slope)).sum::<f64>() as f32
    }
}

/// The loss and the schedules of one training.
pub trait Objective: Send + Sync {
    /// Constant properties of the architecture.
    fn rules(&self) -> &Rules;
    /// Which pre-activations are kept at a step.
    fn selection(&self, step: u64) -> Selection;
    /// The floor of a latent: lower pre-activations affect neither codes nor gradients.
    fn floor(&self, _scalars: &[f32]) -> f32 {
        0.0
    }
    /// The code of a kept pre-activation.
    fn code(&self, _scalars: &[f32], value: f32) -> f32 {
        value
    }
    /// Whether the norms of decoder directions are needed.
    fn needs_norms(&self) -> bool {
        false
    }
    /// Measurements of a row that the loss needs.
    fn measure(&self, _row: Row<'_>) -> [f64; 2] {
        [0.0; 2]
    }
    /// The terms of the loss. Also prepares the backward pass and advances schedules.
    fn loss(&mut self, batch: &Batch<'_>) -> Terms;
    /// Converts the slopes of one latent from codes to pre-activations, and adds the gradient of the penalty.
    fn backward(&self, column: &mut LatentBackward<'_>);
    /// The state that a resumed training needs.
    fn save(&self) -> Vec<f64> {
        Vec::new()
    }
    /// Restores the state of [`Objective::save`].
    fn load(&mut self, _saved: &[f64]) {}
    /// The mean L0 that the threshold of the finished dictionary keeps, if training selects over whole batches.
    fn calibrated_l0(&self) -> Option<usize> {
        None
    }
    /// Sets that threshold, in the units of the training.
    fn calibrate(&mut self, _threshold: f32) {}
    /// The encoder biases and the activation of the finished dictionary, whose training inputs were divided by `unit`.
    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation);
}
