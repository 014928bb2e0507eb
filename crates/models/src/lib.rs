//! Pretrained networks for Etalon, with named sites where activations can be read and replaced.

#![forbid(unsafe_code)]

mod capture;
mod complete;
mod config;
pub mod data;
mod generate;
pub mod hub;
pub mod image;
pub mod language;
pub mod layer;
mod open;
mod preprocessing;
pub mod text;
mod tokenizer_of;
pub mod transformer;
pub mod vision;
pub mod weights;

pub use capture::{CaptureRequest, CaptureSettings, Captured, RowChoice, capture, open_network, open_text_run};
pub use generate::{Generation, generate};
pub use open::{Tower, families, open, open_language};
pub use preprocessing::preprocessing;
pub use tokenizer_of::open_tokenizer;
