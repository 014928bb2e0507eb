//! Debian packages: an `ar` archive with `data.tar`, compressed by xz, zstd or gzip.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use etalon::error::{Error, Result};

use super::archive::damaged;

/// The length of the header of a member.
const HEADER: usize = 60;

/// Maximum number of members; a package has three.
const MOST_MEMBERS: usize = 16;

/// The uncompressed `data.tar` of a package.
pub(super) fn open_data(archive: &Path, mut file: File) -> Result<Box<dyn Read>> {
    let failed = Error::io("read a package", archive);
    let mut magic = [0; 8];
    file.read_exact(&mut magic).map_err(failed)?;
    if magic != *b"!<arch>\n" {
        return Err(damaged(archive, "no Debian package"));
    }
    for _ in 0..MOST_MEMBERS {
        let mut header = [0; HEADER];
        file.read_exact(&mut header).map_err(|_| damaged(archive, "no member `data.tar`"))?;
        let (name, size) = member(&header).ok_or_else(|| damaged(archive, "a header that cannot be read"))?;
        let data = |file: File| BufReader::with_capacity(1 << 18, file.take(size));
        match name.as_str() {
            "data.tar" => return Ok(Box::new(data(file))),
            "data.tar.gz" => return Ok(Box::new(flate2::read::GzDecoder::new(data(file)))),
            "data.tar.xz" => return Ok(Box::new(lzma_rust2::XzReader::new(data(file), true))),
            "data.tar.zst" => {
                let reader = zstd::Decoder::with_buffer(data(file)).map_err(|error| damaged(archive, error))?;
                return Ok(Box::new(reader));
            }
            _ => {}
        }
        // Members start at even bytes.
        let next = i64::try_from(size + size % 2).map_err(|_| damaged(archive, "a member that is too long"))?;
        file.seek(SeekFrom::Current(next)).map_err(Error::io("read a package", archive))?;
    }
    Err(damaged(archive, "no member `data.tar`"))
}

/// Name and length of a member.
fn member(header: &[u8; HEADER]) -> Option<(String, u64)> {
    let text = |range: std::ops::Range<usize>| std::str::from_utf8(header.get(range)?).ok().map(str::trim_end);
    let name = text(0..16)?.trim_end_matches('/').to_string();
    let size = text(48..58)?.parse::<u64>().ok().filter(|size| *size < 1 << 40)?;
    (header.get(58..)? == b"`\n").then_some((name, size))
}

#[cfg(test)]
mod tests {
    use super::super::archive::{Unpacked, visit};
    use super::super::testing::{deb, tar_bytes};
    use super::*;

    fn members(file: &Path) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        visit(file, &mut |member| {
            found.push((member.name.to_string(), member.read()?));
            Ok(Unpacked::More)
        })
        .unwrap();
        found
    }

    #[test]
    fn every_compression_is_read() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/fetch/example.deb");
        assert_eq!(members(&golden), [("usr/share/a.txt".to_string(), b"one".to_vec())]);
        let folder = tempfile::tempdir().unwrap();
        let tar = tar_bytes(&[("./usr/share/a.txt", b"one")]);
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        std::io::Write::write_all(&mut gz, &tar).unwrap();
        let packed = [
            ("data.tar", tar.clone()),
            ("data.tar.gz", gz.finish().unwrap()),
            ("data.tar.zst", zstd::encode_all(tar.as_slice(), 1).unwrap()),
        ];
        for (name, bytes) in packed {
            let file = folder.path().join("x.deb");
            std::fs::write(&file, deb(&[("debian-binary", b"2.0\n"), ("control.tar.gz", b"odd"), (name, &bytes)]))
                .unwrap();
            assert_eq!(members(&file), members(&golden), "{name}");
        }
    }

    #[test]
    fn other_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.deb");
        for bytes in [b"!<arch>\n".to_vec(), b"something else".to_vec(), deb(&[("debian-binary", b"2.0\n")])] {
            std::fs::write(&file, bytes).unwrap();
            assert!(open_data(&file, File::open(&file).unwrap()).is_err_and(|error| error.is_input()));
        }
    }
}
