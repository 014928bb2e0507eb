//! Images beside results: `images/HASH.png`, `.jpg` or `.webp`. They are known by their hash alone, and served as what
//! their first bytes say: never as SVG or HTML, which could carry scripts.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use etalon::error::{Error, Result};
use etalon::input::{LARGEST_PICTURE, open_regular, picture_ending};

/// Images by hash: where they lie, and their type.
pub type Pictures = BTreeMap<String, (PathBuf, &'static str)>;

/// The images of a results directory. What is none is passed over.
pub fn find(directory: &Path) -> Result<Pictures> {
    let folder = directory.join("images");
    let mut found = Pictures::new();
    let entries = match fs::read_dir(&folder) {
        Ok(entries) => entries,
        Err(_) => return Ok(found),
    };
    for entry in entries {
        let path = entry.map_err(Error::io("list the images", &folder))?.path();
        // A link could point out of the directory.
        if path.is_symlink() {
            continue;
        }
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if is_hash(&name)
            && let Some(kind) = kind_of(&path)
        {
            found.insert(name, (path, kind));
        }
    }
    Ok(found)
}

/// The bytes of an image.
pub fn read(path: &Path) -> Result<Vec<u8>> {
    let (file, _) = open_regular(path)?;
    let mut bytes = Vec::new();
    file.take(LARGEST_PICTURE).read_to_end(&mut bytes).map_err(Error::io("read an image", path))?;
    Ok(bytes)
}

fn is_hash(name: &str) -> bool {
    (16..=128).contains(&name.len()) && name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn kind_of(path: &Path) -> Option<&'static str> {
    let (mut file, length) = open_regular(path).ok()?;
    let mut first = [0; 12];
    file.read_exact(&mut first).ok()?;
    match picture_ending(&first).filter(|_| length <= LARGEST_PICTURE)? {
        "png" => Some("image/png"),
        "jpg" => Some("image/jpeg"),
        _ => Some("image/webp"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_pictures_under_their_hash() {
        let room = tempfile::tempdir().unwrap();
        let images = room.path().join("images");
        fs::create_dir(&images).unwrap();
        let png = b"\x89PNG\r\n\x1a\n0000rest";
        fs::write(images.join("0123456789abcdef.png"), png).unwrap();
        fs::write(images.join("bird.png"), png).unwrap();
        fs::write(images.join("fedcba9876543210.png"), b"<svg onload=alert(1)>").unwrap();
        let found = find(room.path()).unwrap();
        assert_eq!(found.keys().collect::<Vec<_>>(), ["0123456789abcdef"]);
        assert_eq!(found["0123456789abcdef"].1, "image/png");
        assert!(find(&images).unwrap().is_empty());
    }
}
