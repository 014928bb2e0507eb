//! The pages themselves, as `cargo xtask web` built them into `web/dist`. They are a part of the program.

/// The page.
pub const PAGE: &str = include_str!("../../../../web/dist/index.html");
/// Its script.
pub const SCRIPT: &str = include_str!("../../../../web/dist/app.js");
/// Its style.
pub const STYLE: &str = include_str!("../../../../web/dist/app.css");
/// The hashes by which a single file with both inside allows exactly them: two lines, script and style.
pub const HASHES: &str = include_str!("../../../../web/dist/hashes.txt");
