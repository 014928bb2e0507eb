//! The explorer: a small server for one person's browser, and the same pages as files.
//!
//! The server answers GET only, and only addresses of a table made from the directory ([`catalog`]): what a browser
//! sends is compared with the names in that table and never becomes a path. The async runtime exists only inside
//! [`Server::run`]; the catalog is read by plain threads.

mod address;
mod answer;
mod bundle;
mod catalog;
mod content;
mod directions;
mod export;
mod guard;
mod json;
mod pictures;
mod samples;
mod server;
mod stream;
mod token;

pub use address::Address;
pub use catalog::Catalog;
pub use export::{folder, single};
pub use server::Server;
pub use token::Token;
