//! Images next to results: `images/HASH.png`, `.jpg` or `.webp`. They are addressed by hash, and their content type follows
//! from their first bytes: never SVG or HTML, which could contain scripts.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Take};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use etalon::error::{Error, Result};
use etalon::input::{LARGEST_PICTURE, picture_ending};
use rustix::fs::{CWD, Dir, Mode, OFlags, openat};

/// The images of a results directory.
#[derive(Default)]
pub struct Pictures {
    /// The opened directory: replacing it by a link later has no effect.
    folder: Option<OwnedFd>,
    /// File names by hash.
    names: BTreeMap<String, String>,
}

/// An open image.
pub struct Picture {
    /// Its content type.
    pub kind: &'static str,
    /// Its length in bytes.
    pub length: u64,
    /// Its content.
    pub file: Take<File>,
}

impl Pictures {
    /// Finds the images. Skips other files, and links, which could point outside the directory.
    pub fn find(directory: &Path) -> Result<Pictures> {
        let path = directory.join("images");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let Ok(folder) = openat(CWD, &path, flags, Mode::empty()) else { return Ok(Pictures::default()) };
        let failed = |error: rustix::io::Errno| Error::io("list the images", &path)(error.into());
        let mut names = BTreeMap::new();
        for entry in Dir::read_from(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let hash = name.rsplit_once('.').map_or(name, |(hash, _)| hash);
            if is_hash(hash) && open(&folder, name).is_some() {
                names.insert(hash.to_string(), name.to_string());
            }
        }
        Ok(Pictures { folder: Some(folder), names })
    }

    /// Number of images.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// The hashes, in order.
    pub fn hashes(&self) -> impl Iterator<Item = &String> {
        self.names.keys()
    }

    /// Whether there is an image with this hash.
    pub fn contains(&self, hash: &str) -> bool {
        self.names.contains_key(hash)
    }

    /// Opens an image, if it still is one.
    pub fn open(&self, hash: &str) -> Option<Picture> {
        open(self.folder.as_ref()?, self.names.get(hash)?)
    }
}

fn is_hash(name: &str) -> bool {
    (16..=128).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Opens a file if it is an image; checked on every call, because the file may have been replaced.
fn open(folder: &OwnedFd, name: &str) -> Option<Picture> {
    // Non-blocking, so that a pipe does not wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(folder, name, flags, Mode::empty()).ok()?);
    let metadata = file.metadata().ok()?;
    let mut first = [0; 12];
    if !metadata.is_file() || metadata.len() > LARGEST_PICTURE || file.read_exact_at(&mut first, 0).is_err() {
        return None;
    }
    let kind = match picture_ending(&first)? {
        "png" => "image/png",
        "jpg" => "image/jpeg",
        _ => "image/webp",
    };
    Some(Picture { kind, length: metadata.len(), file: file.take(metadata.len()) })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const PNG: &[u8] = b"\x89PNG\r\n\x1a\n0000rest";

    #[test]
    fn only_images_named_by_hash_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let images = directory.path().join("images");
        fs::create_dir(&images).unwrap();
        fs::write(images.join("0123456789abcdef.png"), PNG).unwrap();
        fs::write(images.join("bird.png"), PNG).unwrap();
        fs::write(images.join("fedcba9876543210.png"), b"<svg onload=alert(1)>").unwrap();
        let found = Pictures::find(directory.path()).unwrap();
        assert_eq!(found.hashes().collect::<Vec<_>>(), ["0123456789abcdef"]);
        assert_eq!(found.open("0123456789abcdef").unwrap().kind, "image/png");
        assert_eq!(Pictures::find(&images).unwrap().len(), 0);
    }

    #[test]
    fn links_are_never_followed() {
        let directory = tempfile::tempdir().unwrap();
        let (images, outside) = (directory.path().join("images"), directory.path().join("outside"));
        let name = "0123456789abcdef.png";
        for folder in [&images, &outside] {
            fs::create_dir(folder).unwrap();
            fs::write(folder.join(name), PNG).unwrap();
        }
        fs::write(outside.join(name), [PNG, b" of another directory"].concat()).unwrap();
        let found = Pictures::find(directory.path()).unwrap();
        // Replace the opened directory by a link.
        fs::rename(&images, directory.path().join("moved")).unwrap();
        std::os::unix::fs::symlink(&outside, &images).unwrap();
        assert_eq!(found.open("0123456789abcdef").unwrap().length, PNG.len() as u64);
        assert_eq!(Pictures::find(directory.path()).unwrap().len(), 0);
        // Replace the file by a link to an image.
        fs::remove_file(directory.path().join("moved").join(name)).unwrap();
        std::os::unix::fs::symlink(outside.join(name), directory.path().join("moved").join(name)).unwrap();
        assert!(found.open("0123456789abcdef").is_none());
    }
}
