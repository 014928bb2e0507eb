//! Networks whose activations can be read and replaced at named sites. Only the interface is here: the crate
//! `etalon-models` has the networks.
//!
//! A network runs in stages, usually one per block. A run can stop after any stage and be continued from a copy of its
//! [`State`]: the part of a network below a site is run once, the part above it once per patch.

mod encoder;
mod generation;
mod interchange;
mod judge;
mod last_norm;
mod latents;
mod patch;
mod processing;
mod site;
mod state;
mod tap;
mod text_run;
mod tokenize;

pub(crate) use encoder::open_encoder;
pub use encoder::{OpenEncoder, SentenceEncoder, provide_encoders};
pub use generation::Generation;
pub use interchange::{
    AdamParameters, EncodedRow, Exchange, Gates, Interchange, LatentMask, ReplaceOnce, RotatedMask, Rotation,
};
pub(crate) use judge::open_judge;
pub use judge::{Judge, LocalJudge, OpenJudge, Question, QuestionCost, RecordedJudge, ReplayJudge, provide_judges};
pub use last_norm::LastNorm;
pub use latents::{LatentEdit, LatentPatch};
pub use patch::{Edit, Patch};
pub use processing::Processing;
pub use site::{LayerType, RowKind, Site, SiteId, find_sites};
pub use state::{Batch, Grid, Layout, Snapshot, State};
pub use tap::{Capture, Pair, Tap, Untouched};
pub(crate) use text_run::open_capture;
pub use text_run::{OpenCapture, TextRun, provide_networks};
pub use tokenize::{Message, NumberTokenizer, Tokenize};

use std::ops::Range;
use std::sync::Arc;

use crate::context::{Context, Reservation};
use crate::error::Result;

/// What is known about a network.
#[derive(Clone, Debug)]
pub struct NetworkCard {
    /// The family, such as `llama`.
    pub family: &'static str,
    /// Number format of the weights as stored, such as `GGUF Q4_1`.
    pub weights: String,
    /// Hash of configuration and weights, for recipes.
    pub id: String,
    /// Number of weights.
    pub parameters: u64,
    /// Blocks.
    pub layers: usize,
    /// Width of the residual stream, or of the last features.
    pub width: usize,
    /// Most rows of a sequence (tokens), or the side of an image in pixels.
    pub context: usize,
    /// Tokens of the vocabulary; 0 for networks of images.
    pub vocabulary: usize,
}

impl NetworkCard {
    /// A card without numbers.
    pub fn new(family: &'static str) -> NetworkCard {
        NetworkCard {
            family,
            weights: String::new(),
            id: String::new(),
            parameters: 0,
            layers: 0,
            width: 0,
            context: 0,
            vocabulary: 0,
        }
    }
}

/// A network with named sites.
pub trait Network: Send + Sync {
    /// What is known about it.
    fn card(&self) -> &NetworkCard;

    /// Its sites; a [`SiteId`] is an index of this list.
    fn sites(&self) -> &[Site];

    /// The number of stages.
    fn stages(&self) -> usize;

    /// Checks a batch and prepares the state before the first stage.
    fn begin(&self, batch: &Batch<'_>, context: &Context) -> Result<State>;

    /// Runs some stages. The state must be the one that the stage before leaves. `tap` visits the sites of these stages.
    fn run(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<()>;

    /// The language model, if it is one.
    fn language(self: Arc<Self>) -> Option<Arc<dyn LanguageModel>> {
        None
    }
}

/// A network that predicts the next token. After the last stage, every row of the state has logits.
pub trait LanguageModel: Network {
    /// The logits of some rows of a finished state: `out` has a row of [`NetworkCard::vocabulary`] values for each. Runs
    /// on the calling thread; callers take a few rows per thread, because all logits would need too much memory.
    fn logits(&self, state: &State, rows: Range<usize>, out: &mut [f32]) -> Result<()>;

    /// Runs stages like [`Network::run`] and keeps what [`LanguageModel::backward`] needs.
    fn run_kept(&self, stages: Range<usize>, state: &mut State, tap: &mut dyn Tap, context: &Context) -> Result<Kept>;

    /// The gradient of the mean cross-entropy at the rows that have a target, with respect to a finished state; returns it
    /// and the cross-entropy of every such row, in order.
    fn loss_gradient(&self, state: &State, targets: &[Option<u32>], context: &Context) -> Result<(Vec<f32>, Vec<f32>)>;

    /// Turns the gradient at the end of the kept stages into the gradient at their start. Weights are constants.
    fn backward(&self, kept: &Kept, gradient: &mut [f32], context: &Context) -> Result<()>;

    /// Continues a prompt. `tap` sees the prompt once and every generated token by itself.
    fn generate(&self, prompt: &[u32], settings: &Generation, tap: &mut dyn Tap, context: &Context)
    -> Result<Vec<u32>>;

    /// The row of the head that belongs to a token: the logit is its product with the normalised stream.
    fn unembedding(&self, token: u32, out: &mut [f32]) -> Result<()>;

    /// The norm before the head.
    fn last_norm(&self) -> LastNorm;

    /// What vectors that are added at a site add to the residual stream: the vectors themselves, or their product with the map
    /// that follows. With `factors`, norms in between multiply by their weights; their divisions are left out. `None` if the
    /// site is not in front of the stream.
    fn written(&self, site: SiteId, vectors: &[f32], factors: bool) -> Result<Option<Vec<f32>>>;
}

/// What a network keeps of a run for its gradient: the states before every stage, and inside it.
#[derive(Debug)]
pub struct Kept {
    /// The stages that were run.
    pub stages: Range<usize>,
    /// The layout of the rows.
    pub layout: Layout,
    /// Values per stage, as the network needs them.
    pub values: Vec<Vec<Vec<f32>>>,
    /// Their memory.
    pub memory: Vec<Reservation>,
}
