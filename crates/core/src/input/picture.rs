//! Images: known by their first bytes, never by their name. SVG and HTML, which could carry scripts, are none.

use std::io::Read;
use std::path::Path;

use super::file::{failed, open_regular};
use crate::error::{InputError, Result};

/// The largest image, in bytes.
pub const LARGEST_PICTURE: u64 = 16 << 20;

/// The ending that suits the first bytes (12 are enough); `None` when they are of no image.
pub fn picture_ending(first: &[u8]) -> Option<&'static str> {
    match first {
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Some("png"),
        [0xff, 0xd8, 0xff, ..] => Some("jpg"),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => Some("webp"),
        _ => None,
    }
}

/// The bytes of an image, and the ending that suits them.
pub fn read_picture(path: &Path) -> Result<(Vec<u8>, &'static str)> {
    let (file, length) = open_regular(path)?;
    let wrong = |found: String| {
        InputError::new("this is no image")
            .expected(format!("PNG, JPEG or WebP of at most {} MB", LARGEST_PICTURE >> 20))
            .found(found)
            .file(path)
    };
    if length > LARGEST_PICTURE {
        return Err(wrong(format!("{length} bytes")).into());
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_PICTURE).read_to_end(&mut bytes).map_err(|error| failed(error, path))?;
    let ending = picture_ending(&bytes).ok_or_else(|| wrong("other first bytes".into()))?;
    Ok((bytes, ending))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_bytes_decide() {
        assert_eq!(picture_ending(b"\x89PNG\r\n\x1a\n0000"), Some("png"));
        assert_eq!(picture_ending(b"\xff\xd8\xff\xe0"), Some("jpg"));
        assert_eq!(picture_ending(b"RIFF0000WEBP"), Some("webp"));
        assert_eq!(picture_ending(b"<svg onload="), None);
        assert_eq!(picture_ending(b""), None);
        let room = tempfile::tempdir().unwrap();
        let path = room.path().join("bird.png");
        std::fs::write(&path, "<svg/>").unwrap();
        assert!(read_picture(&path).unwrap_err().is_input());
    }
}
