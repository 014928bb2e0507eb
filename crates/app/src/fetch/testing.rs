//! Small archives for tests.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

/// The bytes of a tar archive. Names are written as they are, even those that a writer would refuse.
pub(super) fn tar_bytes(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_ustar();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        archive.append(&header, *content).unwrap();
    }
    archive.into_inner().unwrap()
}

/// The bytes of a compressed tar archive.
pub(super) fn tgz(members: &[(&str, &[u8])]) -> Vec<u8> {
    gzip(&tar_bytes(members))
}

/// Compressed bytes.
pub(super) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The bytes of a zip archive.
pub(super) fn zip(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, content) in members {
        archive.start_file(*name, zip::write::SimpleFileOptions::default()).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

/// The bytes of an `ar` archive.
pub(super) fn deb(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = b"!<arch>\n".to_vec();
    for (name, content) in members {
        bytes.extend(format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, "100644", content.len()).bytes());
        bytes.extend(*content);
        bytes.resize(bytes.len().next_multiple_of(2), b'\n');
    }
    bytes
}

/// What a conversion writes for packages with these file names and contents: all files, the parts and the counts.
pub(super) struct Converted {
    pub folder: tempfile::TempDir,
    pub parts: Vec<String>,
    pub counts: Vec<(String, u64)>,
}

impl Converted {
    /// The text of a file.
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join("out").join(name)).unwrap()
    }

    /// The bytes of a file.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join("out").join(name)).unwrap()
    }

    /// The path of a file.
    pub fn path(&self, name: &str) -> String {
        self.folder.path().join("out").join(name).to_str().unwrap().to_string()
    }
}

/// Runs a conversion.
pub(super) fn convert(convert: super::card::Convert, packages: &[(&str, Vec<u8>)]) -> etalon::error::Result<Converted> {
    let folder = tempfile::tempdir().unwrap();
    let mut files = Vec::new();
    for (name, bytes) in packages {
        let file = folder.path().join(name);
        std::fs::write(&file, bytes).unwrap();
        files.push(file);
    }
    let context = etalon::context::Context::silent(1, 1 << 28)?;
    let mut output = super::Output::new(folder.path().join("out"), &context);
    convert(&super::Archives::new(files), &mut output)?;
    let (parts, counts) = output.finish();
    Ok(Converted { folder, parts: parts.into_iter().map(|part| part.name).collect(), counts })
}
