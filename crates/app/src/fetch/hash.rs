//! SHA-256 of files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use etalon::context::Context;
use etalon::error::{Error, Result};
use sha2::{Digest, Sha256};

/// Bytes that are read at a time.
const BLOCK: usize = 1 << 20;

/// The SHA-256 of a file, in hexadecimal.
pub(super) fn of_file(path: &Path, context: &Context) -> Result<String> {
    let mut file = File::open(path).map_err(Error::io("open a package", path))?;
    let (mut hash, mut block) = (Sha256::new(), vec![0; BLOCK]);
    loop {
        context.check()?;
        match file.read(&mut block).map_err(Error::io("read a package", path))? {
            0 => return Ok(hex(hash)),
            count => hash.update(&block[..count]),
        }
    }
}

/// The SHA-256 of bytes, in hexadecimal.
pub(super) fn of_bytes(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

/// The SHA-256 of everything that was added, in hexadecimal.
pub(super) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_hash_of_the_standard() {
        // FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(super::of_bytes(b"abc"), expected);
    }
}
