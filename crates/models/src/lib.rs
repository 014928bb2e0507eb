//! Pretrained networks for Etalon, with named sites where activations can be read and replaced.

#![forbid(unsafe_code)]

mod capture;
mod complete;
mod config;
pub mod data;
mod encoder;
mod families;
mod generate;
pub mod image;
mod judge;
pub mod language;
pub mod layer;
mod open;
mod preprocessing;
mod similarity;
pub mod text;
mod tokenizer_of;
pub mod transformer;
pub mod vision;
pub mod weights;

pub use etalon::input::hub;

pub use capture::{
    Cached, CachedCapture, CaptureRequest, CaptureSettings, Captured, NetworkStream, RowChoice, Separator, cached,
    capture, capture_cached, clear_cached, open_network, open_text_run,
};
pub use encoder::open_encoder;
pub use families::{FamilyCard, MEASURES, MeasureCard, family_cards};
pub use judge::open_judge;
pub use open::{Tower, families, open, open_language, open_language_with, open_with};
pub use preprocessing::preprocessing;
pub use similarity::{MeasureKind, Similarities, SimilarityRequest, similarity};
pub use tokenizer_of::open_tokenizer;
