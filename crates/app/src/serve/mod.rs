//! The explorer: a small server for one person's browser, and the same pages as files.
//!
//! The server answers GET only, and only addresses that stand in a table made at its start ([`shelf`]): what a browser
//! sends is compared with the names in that table and never becomes a path. HTTP is spoken by a hundred lines over the
//! standard library, because a list of exact addresses needs no router, and every limit can be seen here.

mod address;
mod answer;
mod bundle;
mod directions;
mod export;
mod guard;
mod listen;
mod pictures;
mod request;
mod samples;
mod shelf;
mod token;

pub use address::Address;
pub use export::{folder, single};
pub use listen::Server;
pub use shelf::Shelf;
pub use token::Token;
