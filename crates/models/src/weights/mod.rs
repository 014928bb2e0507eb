//! The weights of a network, whatever the file format, read tensor by tensor.
//!
//! [`Model::open`] recognises the format and presents every file as a Hugging Face model: a configuration and tensors
//! under the names of the `transformers` or `torchvision` library. What other programs change when they convert a model
//! is undone while a tensor is read.
//!
//! | format | names and configuration |
//! |---|---|
//! | directory with `config.json`, and safetensors or torch files, in one piece or in shards | as they are |
//! | directory with `architecture.json` and one file of tensors; a file of tensors | as they are |
//! | GGUF | of `transformers` |
//! | TensorFlow.js `model.json` | of `torchvision` for ResNets, else as they are |
//! | llama2.c `.bin` | of `transformers` |
//!
//! Nothing in a file is executed. Sizes are compared with the length of the file before memory is allocated.

mod change;
mod configuration;
mod directory;
mod encoding;
mod file;
pub mod gguf;
mod llama2c;
mod model;
mod names;
mod opened;
mod quantised;
mod quantised_k;
mod randomised;
mod source;
mod tensors;
mod tfjs;

pub use model::{Model, NetworkOptions};
pub use tensors::Weights;
