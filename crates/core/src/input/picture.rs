//! Image files, recognised by their first bytes, never by their name. SVG and HTML are refused: they can contain scripts.

use std::io::Read;
use std::path::Path;

use super::file::{open_regular, read_error};
use crate::error::{InputError, Result};

/// Maximum size of an image in bytes.
pub const LARGEST_PICTURE: u64 = 16 << 20;

/// The file ending for the first bytes of an image (12 are enough); `None` for anything else.
pub fn picture_ending(first: &[u8]) -> Option<&'static str> {
    match first {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("png"),
        [0xff, 0xd8, 0xff, ..] => Some("jpg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("webp"),
        _ => None,
    }
}

/// The bytes of an image and its file ending.
pub fn read_picture(path: &Path) -> Result<(Vec<u8>, &'static str)> {
    let (file, length) = open_regular(path)?;
    let wrong = |found: String| {
        InputError::new("the file is not a supported image")
            .expected(format!("PNG, JPEG or WebP of at most {} MB", LARGEST_PICTURE >> 20))
            .found(found)
            .advice("convert it to PNG, JPEG or WebP, or make it smaller")
            .file(path)
    };
    if length > LARGEST_PICTURE {
        return Err(wrong(format!("{length} bytes")).into());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_PICTURE).read_to_end(&mut bytes).map_err(|error| read_error(error, path))?;
    let ending = picture_ending(&bytes)
        .ok_or_else(|| wrong(format!("\"{}\" at the start", bytes[..bytes.len().min(12)].escape_ascii())))?;
    Ok((bytes, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_recognised_by_their_first_bytes() {
        assert_eq!(picture_ending(b"\x89PNG\r\n\x1a\n0000"), Some("png"));
        assert_eq!(picture_ending(b"\xff\xd8\xff\xe0"), Some("jpg"));
        assert_eq!(picture_ending(b"RIFF0000WEBP"), Some("webp"));
        assert_eq!(picture_ending(b"<svg onload="), None);
        assert_eq!(picture_ending(b""), None);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("bird.png");
        std::fs::write(&path, "<svg/>").unwrap();
        assert!(read_picture(&path).unwrap_err().is_input());
    }
}
