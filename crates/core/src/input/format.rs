//! The format of a file: by the ending of its name or, if that is unknown, by its first bytes.

use std::path::Path;

use super::archive::Archive;
use super::file::Regular;
use crate::error::{InputError, Result};

/// A file format that can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    Npy,
    Npz,
    Safetensors,
    Parquet,
    Torch,
    Csv { delimiter: u8 },
    Jsonl,
    Arrow,
}

impl Format {
    /// The format of a file. The file must exist.
    pub fn of(path: &Path) -> Result<Format> {
        let mut file = Regular::open(path)?;
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase());
        match ending.as_deref() {
            Some("npy") => return Ok(Format::Npy),
            Some("npz") => return Ok(Format::Npz),
            Some("safetensors") => return Ok(Format::Safetensors),
            Some("parquet" | "pq") => return Ok(Format::Parquet),
            Some("pt" | "pth" | "bin" | "ckpt" | "pkl") => return Ok(Format::Torch),
            Some("csv") => return Ok(Format::Csv { delimiter: b',' }),
            Some("tsv") => return Ok(Format::Csv { delimiter: b'\t' }),
            Some("jsonl" | "ndjson") => return Ok(Format::Jsonl),
            Some("arrow" | "feather" | "ipc") => return Ok(Format::Arrow),
            _ => {}
        }
        let mut start = [0; 9];
        let known = usize::try_from(file.length).unwrap_or(usize::MAX).min(start.len());
        file.read_at(0, &mut start[..known])?;
        if start.starts_with(b"\x93NUMPY") {
            Ok(Format::Npy)
        } else if start.starts_with(b"PAR1") {
            Ok(Format::Parquet)
        } else if start.starts_with(b"ARROW1") {
            Ok(Format::Arrow)
        } else if start.starts_with(b"PK\x03\x04") {
            let archive = Archive::open(path)?;
            Ok(if archive.names().any(super::torch::is_pickle) { Format::Torch } else { Format::Npz })
        } else if matches!(start, [0x80, 2..=5, ..]) {
            Ok(Format::Torch)
        } else if start[8] == b'{' && u64::from_le_bytes(start[..8].try_into().unwrap_or_default()) < file.length {
            Ok(Format::Safetensors)
        } else {
            Err(InputError::new("unknown file format")
                .expected("a name that ends in .npy, .npz, .safetensors, .parquet, .arrow, .pt, .csv, .tsv or .jsonl")
                .found(match ending {
                    Some(ending) => format!("the ending .{ending}"),
                    None => "no ending".to_string(),
                })
                .advice("rename the file so that it has the ending of its format")
                .file(path)
                .into())
        }
    }

    /// The format, for messages.
    pub fn name(self) -> &'static str {
        match self {
            Format::Npy => "a numpy array",
            Format::Npz => "a numpy archive",
            Format::Safetensors => "a safetensors file",
            Format::Parquet => "a parquet file",
            Format::Torch => "a torch checkpoint",
            Format::Csv { .. } => "a CSV table",
            Format::Jsonl => "a JSONL table",
            Format::Arrow => "an Arrow table",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ending_decides_before_the_first_bytes() {
        let directory = tempfile::tempdir().unwrap();
        let of = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            Format::of(&path)
        };
        assert_eq!(of("a.NPZ", b"x").unwrap(), Format::Npz);
        assert_eq!(of("a.tsv", b"x").unwrap(), Format::Csv { delimiter: b'\t' });
        assert_eq!(of("a", b"\x93NUMPY\x01\x00").unwrap(), Format::Npy);
        assert_eq!(of("b.dat", b"\x02\0\0\0\0\0\0\0{}").unwrap(), Format::Safetensors);
        assert_eq!(of("p.dat", b"\x80\x03}.").unwrap(), Format::Torch);
        assert!(of("c.dat", b"hello").unwrap_err().to_string().contains("the ending .dat"));
        assert!(of("d", b"PK\x03\x04").is_err());
    }
}
