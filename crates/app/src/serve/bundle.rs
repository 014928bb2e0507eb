//! The explorer's pages, built by `cargo xtask web` into `web/dist` and embedded in the program.

/// The HTML page.
pub const PAGE: &str = include_str!("../../../../web/dist/index.html");
/// Its script.
pub const SCRIPT: &str = include_str!("../../../../web/dist/app.js");
/// Its style.
pub const STYLE: &str = include_str!("../../../../web/dist/app.css");
/// Hashes of script and style, one line each, for the content security policy of a single file.
pub const HASHES: &str = include_str!("../../../../web/dist/hashes.txt");
