//! The explorer: a local web server, and the same pages exported as files.
//!
//! The server handles GET only, and only addresses in a table built from the directory ([`catalog`]). A requested address
//! is compared with that table and never becomes a path. The async runtime exists only inside [`Server::run`]; blocking
//! threads read the catalog.

mod address;
mod bundle;
mod catalog;
mod content;
mod directions;
mod export;
mod guard;
mod json;
mod pictures;
mod response;
mod samples;
mod server;
mod stream;
mod token;

pub use address::Address;
pub use catalog::Catalog;
pub use export::{folder, single};
pub use server::Server;
pub use token::Token;
