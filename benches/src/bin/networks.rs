//! How long do networks run? SmolLM2-135M on sequences of 128 tokens, its head with a cross-entropy, the gradient through its
//! upper half, ResNet-50 and EfficientNet-Lite0 on images of 224 pixels, on two threads. Argument: the number of samples of
//! a batch. The peer makes the weights, and results that ours are compared with.

use std::path::PathBuf;
use std::sync::Arc;

use etalon::context::{Budget, Context};
use etalon::error::{Error, Result};
use etalon::input::{Finite, Source, read_rows};
use etalon::network::{Batch, LanguageModel, Network, Untouched};
use etalon_bench::{Measure, context, size, turns};
use etalon_models::language::Decoder;
use etalon_models::layer::WeightNumber;
use etalon_models::weights::NetworkOptions;
use etalon_models::{Tower, open, open_language_with};
use serde_json::Value;

/// Tokens of a sequence.
const LENGTH: usize = 128;

/// Pixels of a side of an image.
const SIDE: usize = 224;

/// The first block of the upper half.
const MIDDLE: usize = 15;

fn main() -> Result<()> {
    let bench = Arc::new(Bench { samples: size()?, context: context(2)?, folder: "target/bench-data/networks".into() });
    turns(|name| {
        let (base, numbers) = match name.rsplit_once(' ') {
            Some((base, "bf16")) => (base, WeightNumber::Bf16),
            Some((base, "int8")) => (base, WeightNumber::Int8),
            _ => (name, WeightNumber::F32),
        };
        let run = bench.clone().run(base, numbers)?;
        // Rounded weights have other results; `docs/networks.md` says how far.
        if numbers.is_f32() {
            bench.compare(base, &bench.context.install(&*run)?)?;
        }
        Ok(Box::new(move || {
            std::hint::black_box(run()?);
            Ok(())
        }) as Measure<'_>)
    })
}

/// A computation with its result.
type Run = Box<dyn Fn() -> Result<Vec<f32>> + Send + Sync>;

struct Bench {
    samples: usize,
    context: Context,
    folder: PathBuf,
}

impl Bench {
    fn run(self: Arc<Self>, name: &str, numbers: WeightNumber) -> Result<Run> {
        match name {
            "resnet" | "efficientnet" => self.images(name),
            _ => self.language(name, numbers),
        }
    }

    fn images(self: Arc<Self>, name: &str) -> Result<Run> {
        let network = open(&self.folder.join(name), Tower::Main, &Budget::of_machine())?;
        let values: Vec<f32> =
            (0..self.samples * SIDE * SIDE * 3).map(|i| ((i * 7919) % 1013) as f32 / 317.0 - 1.5).collect();
        Ok(Box::new(move || {
            let batch = Batch::Images { values: &values, height: SIDE, width: SIDE };
            let mut state = network.begin(&batch, &self.context)?;
            network.run(0..network.stages(), &mut state, &mut Untouched, &self.context)?;
            Ok(state.values)
        }))
    }

    fn language(self: Arc<Self>, name: &str, numbers: WeightNumber) -> Result<Run> {
        let options = NetworkOptions { numbers, ..NetworkOptions::default() };
        let network = open_language_with(&self.folder.join("smollm2"), options, &Budget::of_machine())?;
        let vocabulary = network.card().vocabulary;
        let tokens: Vec<u32> = (0..self.samples * LENGTH).map(|i| (i * 7919 % vocabulary) as u32).collect();
        let targets: Vec<Option<u32>> = (0..tokens.len()).map(|i| Some(tokens[(i + 1) % tokens.len()])).collect();
        match name {
            "llama" => Ok(Box::new(move || {
                let mut state = network.begin(&Batch::Tokens { tokens: &tokens, length: LENGTH }, &self.context)?;
                network.run(0..network.stages(), &mut state, &mut Untouched, &self.context)?;
                Ok(state.values)
            })),
            "head" => {
                let mut state = network.begin(&Batch::Tokens { tokens: &tokens, length: LENGTH }, &self.context)?;
                let run = || network.run(0..network.stages(), &mut state, &mut Untouched, &self.context);
                self.context.install(run)?;
                Ok(Box::new(move || network.losses(&state, &targets, &self.context)))
            }
            "gradient" | "loss gradient" => {
                let middle = read_rows(
                    &Source::parse(&self.folder.join("middle.npy").to_string_lossy())?,
                    Finite::Refuse,
                    &Budget::of_machine(),
                )?;
                let from_loss = name == "loss gradient";
                Ok(Box::new(move || self.gradient(&network, &tokens, &middle.values, from_loss.then_some(&targets))))
            }
            other => Err(Error::Bug(format!("no measurement `{other}`"))),
        }
    }

    /// The gradient at the middle of the network: of the loss, or of the sum of the last values.
    fn gradient(
        &self,
        network: &Decoder,
        tokens: &[u32],
        middle: &[f32],
        targets: Option<&Vec<Option<u32>>>,
    ) -> Result<Vec<f32>> {
        let context = &self.context;
        let mut state = network.begin(&Batch::Tokens { tokens, length: LENGTH }, context)?;
        state.values.copy_from_slice(middle);
        let kept = network.run_kept(MIDDLE..network.stages(), &mut state, &mut Untouched, context)?;
        let mut gradient = match targets {
            Some(targets) => network.loss_gradient(&state, targets, context)?.0,
            None => vec![1.0; state.values.len()],
        };
        network.backward(&kept, &mut gradient, context)?;
        Ok(gradient)
    }

    /// Refuses a result whose root mean square is not that of the peer.
    fn compare(&self, name: &str, values: &[f32]) -> Result<()> {
        let path = self.folder.join("expected.json");
        let text = std::fs::read(&path).map_err(Error::io("read the results of the peer", &path))?;
        let expected: Value = serde_json::from_slice(&text).map_err(|error| Error::Bug(error.to_string()))?;
        let expected = expected[name].as_f64().ok_or_else(|| Error::Bug(format!("the peer has no result `{name}`")))?;
        let squares: f64 = values.iter().map(|value| f64::from(*value).powi(2)).sum();
        let found = (squares / values.len() as f64).sqrt();
        match (found / expected - 1.0).abs() < 1e-4 {
            true => Ok(()),
            false => Err(Error::Bug(format!("{name}: the root mean square is {found}, of the peer {expected}"))),
        }
    }
}
