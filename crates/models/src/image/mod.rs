//! Image files: decoding and preprocessing, equal to the libraries that networks were trained with.
//!
//! [`decode`] gives the pixels of Pillow. [`Preprocess`] has the settings of a network: by name
//! ([`Preprocess::torchvision`]), or from its files ([`Preprocess::from_json`]). [`preprocess_batch`] does both for many
//! files in parallel. Values are channels-last, as the networks of this crate expect them.

mod batch;
mod decode;
mod filter;
mod geometry;
mod gif;
mod hugging_face;
mod jpeg;
mod pipelines;
mod pixels;
mod preprocess;
mod resize;
mod settings;
mod timm;

pub use batch::{Batch, preprocess_batch};
pub use decode::{DecodeOptions, decode, decode_reserved, decode_with};
pub use filter::Filter;
pub use geometry::{CenterCrop, CropRule, Resize};
pub use pipelines::{CLIP_MEAN, CLIP_STD, IMAGENET_MEAN, IMAGENET_STD};
pub use pixels::Pixels;
pub use preprocess::{Channels, Preprocess, channels_first};
pub use resize::Kernel;
