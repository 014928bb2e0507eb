//! Models in single files.

use std::path::Path;

use etalon::context::Budget;
use etalon::error::{Error, InFile, InputError, Result};
use etalon::input::open_regular;

use super::opened::{self, Opened};
use super::{configuration, gguf, llama2c, tfjs};

/// Opens a file by its first bytes or, if these say nothing, by the ending of its name.
pub(super) fn open_file(path: &Path, budget: &Budget) -> Result<Opened> {
    let mut start = [0; 4];
    let (mut file, _) = open_regular(path)?;
    let known = std::io::Read::read(&mut file, &mut start).map_err(Error::io("read the file", path))?;
    let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
    let opened = match (&start[..known], ending.as_deref()) {
        (b"GGUF", _) => gguf::open(path, budget),
        (_, Some("gguf")) => Err(InputError::new("the file is not a GGUF file")
            .expected("GGUF at the start")
            .found(format!("\"{}\"", start[..known].escape_ascii()))
            .advice("copy or download it again")
            .into()),
        (_, Some("json")) => tfjs::open(path, budget),
        (b"PK\x03\x04" | [0x80, 2..=5, ..], _) => opened::tensor_file(path, budget),
        (_, Some("bin")) => llama2c::open(path, budget),
        _ => opened::tensor_file(path, budget),
    };
    let mut opened = opened.in_file(path)?;
    if opened.config.is_empty() {
        opened.config = configuration::beside(path, budget)?;
    }
    Ok(opened)
}
