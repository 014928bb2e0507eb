//! Arrays of images: `.npy` files of bytes, read one image at a time.

use std::path::Path;

use super::file::Regular;
use super::npy::Header;
use super::number::Number;
use super::shape::format_shape;
use crate::error::{InFile, InputError, Result};

/// An open array of bytes, [images, height, width] or [images, height, width, channels], with 1 or 3 channels.
#[derive(Debug)]
pub struct PixelArray {
    file: Regular,
    /// The byte of the first pixel.
    data: u64,
    /// Number of images.
    pub images: usize,
    /// Pixels per column.
    pub height: usize,
    /// Pixels per row.
    pub width: usize,
    /// Values per pixel: 1 or 3.
    pub channels: usize,
}

impl PixelArray {
    /// Opens an array and compares its shape with the length of the file.
    pub fn open(path: &Path) -> Result<PixelArray> {
        open(path).in_file(path)
    }

    /// Bytes per image.
    pub fn image_bytes(&self) -> usize {
        self.height * self.width * self.channels
    }

    /// Reads an image, row by row, into a buffer of [`PixelArray::image_bytes`].
    pub fn read(&mut self, image: usize, pixels: &mut [u8]) -> Result<()> {
        let at = self.data + image as u64 * self.image_bytes() as u64;
        self.file.read_at(at, pixels)
    }
}

fn open(path: &Path) -> Result<PixelArray> {
    let mut file = Regular::open(path)?;
    let header = Header::read(&mut file.file, path)?;
    let wrong = |found: String| {
        InputError::new("the array does not contain images")
            .expected("uint8 in C order, [images, height, width] or [images, height, width, 3]")
            .found(found)
            .advice("save it with numpy.save(.., numpy.ascontiguousarray(images.astype(numpy.uint8)))")
    };
    if header.layout()?.number != Number::U8 {
        return Err(wrong(format!("elements of type {}", header.descr)).into());
    }
    if header.is_scattered() {
        return Err(wrong("Fortran order".into()).into());
    }
    header.check_length(file.length, 1)?;
    let (images, height, width, channels) = match *header.dimensions.as_slice() {
        [images, height, width] => (images, height, width, 1),
        [images, height, width, channels @ (1 | 3)] => (images, height, width, channels),
        _ => return Err(wrong(format!("the shape {}", format_shape(&header.dimensions))).into()),
    };
    if height.min(width) == 0 {
        return Err(wrong(format!("the shape {}", format_shape(&header.dimensions))).into());
    }
    Ok(PixelArray { file, data: header.data, images, height, width, channels })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::npy_header;

    fn opened(kind: &str, shape: &str, bytes: &[u8]) -> Result<PixelArray> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("x.npy");
        std::fs::write(&path, [&npy_header(kind, shape)[..], bytes].concat()).unwrap();
        PixelArray::open(&path)
    }

    #[test]
    fn images_are_read_by_index() {
        let bytes: Vec<u8> = (0..24).collect();
        let mut array = opened("|u1", "(2, 2, 2, 3)", &bytes).unwrap();
        assert_eq!((array.images, array.height, array.width, array.channels), (2, 2, 2, 3));
        let mut pixels = vec![0; array.image_bytes()];
        array.read(1, &mut pixels).unwrap();
        assert_eq!(pixels, bytes[12..]);
        assert_eq!(opened("|u1", "(6, 2, 2)", &bytes).unwrap().channels, 1);
    }

    #[test]
    fn other_arrays_are_refused() {
        for (kind, shape, what) in [
            ("<f4", "(1, 2, 3)", "<f4"),
            ("|u1", "(24,)", "24"),
            ("|u1", "(1, 3, 2, 4)", "4"),
            ("|u1", "(1, 0, 2)", "0"),
            ("|u1", "(2, 2, 2)", "152 bytes"),
        ] {
            let error = opened(kind, shape, &[0; 24]).unwrap_err().to_string();
            assert!(error.contains(what) && error.contains("x.npy"), "{error}");
        }
    }
}
