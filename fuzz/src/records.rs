//! Tables that are read record by record, and arrays of images.

use std::fs;
use std::path::Path;

use etalon::context::Budget;
use etalon::error::Result;
use etalon::input::{PixelArray, open_records};

use crate::files;
use crate::targets::Seeds;

/// Records that are read at most: a few bytes can state any number of empty ones.
const MOST: usize = 10_000;

fn golden(name: &str) -> std::io::Result<Vec<u8>> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/records").join(name))
}

pub fn arrow() -> Seeds {
    ["lz4.feather", "zstd.feather", "stream.arrow"].iter().map(|name| Ok((name.to_string(), golden(name)?))).collect()
}

pub fn parquet() -> Seeds {
    Ok(vec![("table.parquet".to_string(), golden("table.parquet")?)])
}

pub fn csv() -> Seeds {
    Ok(vec![("0".to_string(), b"id,text\na,one\nb\n\"c\",\"x,\"\"y\"\"\nz\"\n".to_vec())])
}

pub fn jsonl() -> Seeds {
    let text = b"{\"id\": 1, \"text\": \"one\", \"tags\": [\"x\", 2]}\n\n{\"text\": null}\n".to_vec();
    Ok(vec![("0".to_string(), text)])
}

pub fn pixels() -> Seeds {
    Ok(vec![("0".to_string(), files::npy("|u1", false, "(2, 1, 2, 3)", &[7; 12]))])
}

/// Reads every record, then some after a jump.
pub fn read(path: &Path) -> Result<()> {
    let budget = Budget::new(1 << 26);
    let mut reader = open_records(path, &budget)?;
    for _ in 0..MOST {
        if reader.read()?.is_none() {
            break;
        }
    }
    let mut reader = open_records(path, &budget)?;
    let columns: Vec<usize> = (0..reader.columns().len().min(2)).rev().collect();
    reader.select(&columns);
    reader.skip(2)?;
    reader.read().map(drop)
}

/// Reads the first and the last image.
pub fn read_pixels(path: &Path) -> Result<()> {
    let mut array = PixelArray::open(path)?;
    let mut pixels = vec![0; array.image_bytes()];
    for image in [0, array.images.saturating_sub(1)] {
        if image < array.images {
            array.read(image, &mut pixels)?;
        }
    }
    Ok(())
}
