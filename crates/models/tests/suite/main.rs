//! Networks against the libraries that they come from. `tests/golden/networks/README.md` says how the values were made.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod capture;
mod effects;
mod golden_core;
mod golden_core_rows;
mod golden_dreamsim;
mod golden_gradients;
mod golden_networks;
mod golden_patches;
mod golden_ravel;
mod golden_vision;
mod numbers;
mod processing;
mod randomised;
mod similarity;
mod unlearning;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use etalon::context::{Budget, Context};
use etalon::input::{Tensor, Tensors, read_tensors};
use etalon::network::{Batch, Capture, LanguageModel, Network, SiteId, Untouched, find_sites};

/// A file of the golden values.
pub fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden").join(name)
}

/// A context with some threads.
pub fn context(threads: usize) -> Context {
    Context::silent(threads, 1 << 30).unwrap()
}

/// Tensors of a file.
pub fn tensors(path: &Path) -> Tensors {
    read_tensors(path, &Budget::new(1 << 30)).unwrap()
}

/// The golden values of a network. A test that ends with [`Expected::finish`] fails if it has not asked for all of them.
pub struct Expected {
    name: String,
    tensors: Tensors,
    asked: RefCell<BTreeSet<String>>,
}

impl Expected {
    /// The values of a folder of `networks`.
    pub fn of(name: &str) -> Expected {
        let tensors = tensors(&golden("networks").join(name).join("expected.safetensors"));
        Expected { name: name.into(), tensors, asked: RefCell::default() }
    }

    /// The names of all values.
    pub fn names(&self) -> Vec<String> {
        self.tensors.keys().cloned().collect()
    }

    /// A value.
    pub fn get(&self, value: &str) -> &Tensor {
        self.asked.borrow_mut().insert(value.into());
        self.tensors.get(value).unwrap_or_else(|| panic!("{}: no golden value `{value}`", self.name))
    }

    /// Fails if a value was not asked for.
    pub fn finish(self) {
        let asked = self.asked.into_inner();
        let left: Vec<&String> = self.tensors.keys().filter(|value| !asked.contains(*value)).collect();
        assert!(left.is_empty(), "{}: golden values that no test compares: {left:?}", self.name);
    }
}

/// Whole numbers of an npy file of version 1, and its dimensions.
pub fn integers(path: &Path) -> (Vec<u32>, Vec<usize>) {
    let bytes = std::fs::read(path).unwrap();
    let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let text = std::str::from_utf8(&bytes[10..10 + header]).unwrap();
    assert!(text.contains("<i8"), "{text}");
    let values =
        bytes[10 + header..].as_chunks::<8>().0.iter().map(|&value| i64::from_le_bytes(value) as u32).collect();
    (values, shape(text))
}

/// Numbers of an npy file of version 1, and its dimensions.
pub fn floats(path: &Path) -> (Vec<f32>, Vec<usize>) {
    let bytes = std::fs::read(path).unwrap();
    let header = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let text = std::str::from_utf8(&bytes[10..10 + header]).unwrap();
    assert!(text.contains("<f4"), "{text}");
    let values = bytes[10 + header..].as_chunks::<4>().0.iter().map(|&value| f32::from_le_bytes(value)).collect();
    (values, shape(text))
}

fn shape(header: &str) -> Vec<usize> {
    let inside = header.split('(').nth(1).unwrap().split(')').next().unwrap();
    inside.split(',').filter_map(|part| part.trim().parse().ok()).collect()
}

/// Images (sample, channel, row, column) as (sample, row, column, channel).
pub fn channels_last(values: &[f32], shape: &[usize]) -> Vec<f32> {
    let (channels, area) = (shape[1], shape[2] * shape[3]);
    let sample = |sample: &[f32]| -> Vec<f32> {
        (0..area).flat_map(|pixel| (0..channels).map(move |channel| sample[channel * area + pixel])).collect()
    };
    values.chunks_exact(channels * area).flat_map(sample).collect()
}

/// Runs a whole network and returns the activations at a site.
pub fn at_site(network: &dyn Network, batch: Batch<'_>, site: &str, threads: usize) -> Vec<f32> {
    let context = context(threads);
    let ids: Vec<SiteId> = find_sites(network.sites(), site).unwrap();
    assert_eq!(ids.len(), 1, "{site}");
    context.install(|| {
        let mut capture = Capture::new(&ids);
        let mut state = network.begin(&batch, &context).unwrap();
        network.run(0..network.stages(), &mut state, &mut capture, &context).unwrap();
        capture.of(ids[0]).unwrap().1.to_vec()
    })
}

/// The logits of all rows.
pub fn logits(network: &dyn LanguageModel, batch: Batch<'_>, threads: usize) -> Vec<f32> {
    let context = context(threads);
    context.install(|| {
        let mut state = network.begin(&batch, &context).unwrap();
        network.run(0..network.stages(), &mut state, &mut Untouched, &context).unwrap();
        let rows = state.layout.samples * state.layout.rows;
        let mut out = vec![0.0; rows * network.card().vocabulary];
        network.logits(&state, 0..rows, &mut out).unwrap();
        out
    })
}

/// The language models among the golden networks.
pub const LANGUAGE: [&str; 8] = ["llama", "llama3_rope", "gpt2", "gpt_neox", "gemma2", "gemma3", "qwen2", "qwen3"];

/// Values agree to 5e-5 absolute or 1e-4 relative.
pub fn assert_close(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}");
    let far = |(a, b): (&f32, &f32)| (a - b).is_nan() || (a - b).abs() > 5e-5 + 1e-4 * b.abs();
    if let Some(at) = found.iter().zip(expected).position(far) {
        let most = found.iter().zip(expected).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        panic!("{what}: value {at} is {}, expected {}; largest difference {most}", found[at], expected[at]);
    }
}
