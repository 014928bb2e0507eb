//! What an architecture says about a training. The engine does everything that costs time: the encoder product, the sparse
//! reconstruction, the gradients per latent, Adam. An [`Objective`] only says what happens to single numbers, so that
//! every architecture is as sparse and as fast as the engine.

use serde::{Deserialize, Serialize};

use crate::sae::activation::Activation;
use crate::sae::matching_pursuit::MatchingPursuit;

/// A number that every latent has beside its two directions. The first one is always added to the pre-activation.
#[derive(Clone, Copy, Debug)]
pub struct Scalar {
    /// Its name in a file of tensors.
    pub name: &'static str,
    /// What it is before training.
    pub initial: f32,
}

/// What the directions of a dictionary are made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Form {
    /// Every direction and every row of the encoder is learnt by itself.
    Free,
    /// Directions are convex mixtures of candidate points, and a little beside them; the encoder is free.
    Archetypal(Mixtures),
    /// The directions are the encoder too.
    Tied,
}

/// How archetypal directions are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mixtures {
    /// Candidate points; 0 for one per latent.
    pub candidates: usize,
    /// Candidates that one direction may mix: those nearest to where it starts.
    pub neighbours: usize,
    /// How far directions may leave the hull of their candidates.
    pub radius: Radius,
    /// All directions are multiplied by one number that is learnt.
    pub multiplier: bool,
}

/// How far archetypal directions may leave the hull of their candidates.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Radius {
    /// In units of the mean length of the candidates, so that it means the same for data of any scale.
    Relative(f64),
    /// In the units of the data, as overcomplete has it.
    Absolute(f64),
}

impl Radius {
    /// The number, whatever its unit.
    pub fn number(self) -> f64 {
        match self {
            Radius::Relative(number) | Radius::Absolute(number) => number,
        }
    }
}

/// What does not change during a training.
#[derive(Clone, Debug)]
pub struct Rules {
    /// What the directions are made of.
    pub form: Form,
    /// Whether the decoder's bias is learnt; else it stays 0.
    pub biased: bool,
    /// Whether the decoder's bias is taken from the input.
    pub centred: bool,
    /// The numbers per latent.
    pub scalars: Vec<Scalar>,
    /// Where each group of latents ends: one group unless reconstructions are nested.
    pub groups: Vec<usize>,
    /// What the error of each nested reconstruction weighs.
    pub group_weights: Vec<f32>,
    /// Whether the gates are decoded too, by a decoder that does not learn from it.
    pub gates: bool,
    /// Whether dead latents are trained to reconstruct the error.
    pub auxiliary: bool,
}

impl Rules {
    /// One group, a bias per latent, input centred.
    pub fn plain(latents: usize) -> Rules {
        Rules {
            form: Form::Free,
            biased: true,
            centred: true,
            scalars: vec![Scalar { name: "encoder_bias", initial: 0.0 }],
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
    /// The `k` largest of every row, if they are above the floor.
    PerRow(usize),
    /// The `k` largest per row on average, over the batch, if they are above the floor.
    PerBatch(usize),
    /// One after the other: the largest product with what the ones before left over.
    Pursuit(MatchingPursuit),
}

/// The kept pre-activations of one row, latents ascending.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Pre-activation and latent.
    pub entries: &'a [(f32, u32)],
    /// The numbers per latent, one latent after the other.
    pub scalars: &'a [f32],
    /// The length of every latent's decoder direction; empty unless [`Objective::wants_norms`].
    pub norms: &'a [f32],
}

/// What a forward pass found.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The step, from 0.
    pub step: u64,
    /// What [`Objective::measure`] said of each row.
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
    pub fn mean(&self, which: usize) -> f64 {
        self.rows.iter().map(|row| row[which]).sum::<f64>() / self.rows.len().max(1) as f64
    }
}

/// Named parts of a loss; the whole one is called `loss`.
pub type Terms = Vec<(&'static str, f64)>;

/// One latent's share of the backward pass.
#[derive(Debug)]
pub struct LatentBackward<'a> {
    /// Rows of the batch.
    pub batch: usize,
    /// The rows in which the latent was kept.
    pub rows: &'a [u32],
    /// Its pre-activations there.
    pub values: &'a [f32],
    /// In: the derivative of the error by the code. Out: of the whole loss by the product of encoder and input.
    pub slopes: &'a mut [f32],
    /// The derivative of the gates' error by the gate; empty unless gates are decoded.
    pub gate_slopes: &'a [f32],
    /// The latent's numbers.
    pub scalars: &'a [f32],
    /// Their gradient, to be written; zero before.
    pub gradient: &'a mut [f32],
    /// The length of the decoder direction.
    pub norm: f32,
    /// The derivative of the loss by that length, to be written; zero before.
    pub norm_gradient: f32,
}

impl LatentBackward<'_> {
    /// The sum of the slopes, which is the gradient of a bias added to the product.
    pub fn bias_gradient(&self) -> f32 {
        self.slopes.iter().map(|&slope| f64::from(slope)).sum::<f64>() as f32
    }
}

/// The live part of one training.
pub trait Objective: Send + Sync {
    /// What does not change.
    fn rules(&self) -> &Rules;
    /// Which pre-activations are kept at a step.
    fn selection(&self, step: u64) -> Selection;
    /// A pre-activation must exceed this to matter.
    fn floor(&self, _scalars: &[f32]) -> f32 {
        0.0
    }
    /// The code of a kept pre-activation.
    fn code(&self, _scalars: &[f32], value: f32) -> f32 {
        value
    }
    /// Whether lengths of decoder directions are needed.
    fn wants_norms(&self) -> bool {
        false
    }
    /// What the loss needs to know of a row.
    fn measure(&self, _row: Row<'_>) -> [f64; 2] {
        [0.0; 2]
    }
    /// The terms of the loss; also the place to prepare the backward pass and to move schedules on.
    fn settle(&mut self, batch: &Batch<'_>) -> Terms;
    /// Turns the slopes of one latent from codes to pre-activations and adds what the penalty asks for.
    fn backward(&self, column: &mut LatentBackward<'_>);
    /// The numbers that a resumed training needs.
    fn save(&self) -> Vec<f64> {
        Vec::new()
    }
    /// Takes them back.
    fn load(&mut self, _saved: &[f64]) {}
    /// The encoder's biases and the activation of the finished dictionary, when inputs were divided by `unit`.
    fn finish(&self, scalars: &[f32], unit: f32) -> (Vec<f32>, Activation);
}
