//! Decoded images.

use etalon::error::{InputError, Result};

/// An image with 8 bits per channel: RGB interleaved, row by row, at least one pixel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pixels {
    width: usize,
    height: usize,
    rgb: Vec<u8>,
}

impl Pixels {
    /// An image of `width` × `height` pixels; `rgb` has three bytes for each of them.
    pub fn new(width: usize, height: usize, rgb: Vec<u8>) -> Result<Pixels> {
        let bytes = width.checked_mul(height).and_then(|pixels| pixels.checked_mul(3));
        if width == 0 || height == 0 || bytes != Some(rgb.len()) {
            return Err(InputError::new("the size of the image does not match its bytes")
                .expected("width × height × 3 bytes, and at least one pixel")
                .found(format!("{width} × {height} pixels and {} bytes", rgb.len()))
                .into());
        }
        Ok(Pixels { width, height, rgb })
    }

    /// Pixels per row.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The bytes: red, green and blue of the first pixel of the first row, then of the next pixel.
    pub fn rgb(&self) -> &[u8] {
        &self.rgb
    }

    /// The bytes, without a copy.
    pub fn into_rgb(self) -> Vec<u8> {
        self.rgb
    }

    /// The upright image for an EXIF orientation; unchanged for 1 and for unknown values.
    pub fn oriented(self, orientation: u8) -> Pixels {
        let (width, height) = (self.width, self.height);
        let (right, bottom) = (width - 1, height - 1);
        let turned = match orientation {
            2..=4 => (width, height),
            5..=8 => (height, width),
            _ => return self,
        };
        let mut rgb = Vec::with_capacity(self.rgb.len());
        for y in 0..turned.1 {
            for x in 0..turned.0 {
                let (column, row) = match orientation {
                    2 => (right - x, y),
                    3 => (right - x, bottom - y),
                    4 => (x, bottom - y),
                    5 => (y, x),
                    6 => (y, bottom - x),
                    7 => (right - y, bottom - x),
                    _ => (right - y, x),
                };
                let first = (row * width + column) * 3;
                rgb.extend_from_slice(&self.rgb[first..first + 3]);
            }
        }
        Pixels { width: turned.0, height: turned.1, rgb }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Red values of a 3 × 2 image, turned.
    fn turned(orientation: u8) -> (usize, Vec<u8>) {
        let rgb = [1, 2, 3, 4, 5, 6].iter().flat_map(|&red| [red, 0, 0]).collect();
        let image = Pixels::new(3, 2, rgb).unwrap().oriented(orientation);
        (image.width(), image.rgb().iter().step_by(3).copied().collect())
    }

    #[test]
    fn orientations_follow_exif() {
        // 1 2 3
        // 4 5 6
        assert_eq!(turned(1), (3, vec![1, 2, 3, 4, 5, 6]));
        assert_eq!(turned(2), (3, vec![3, 2, 1, 6, 5, 4]));
        assert_eq!(turned(3), (3, vec![6, 5, 4, 3, 2, 1]));
        assert_eq!(turned(4), (3, vec![4, 5, 6, 1, 2, 3]));
        assert_eq!(turned(5), (2, vec![1, 4, 2, 5, 3, 6]));
        assert_eq!(turned(6), (2, vec![4, 1, 5, 2, 6, 3]));
        assert_eq!(turned(7), (2, vec![6, 3, 5, 2, 4, 1]));
        assert_eq!(turned(8), (2, vec![3, 6, 2, 5, 1, 4]));
        assert_eq!(turned(9), turned(1));
    }

    #[test]
    fn sizes_and_bytes_agree() {
        assert!(Pixels::new(2, 1, vec![0; 6]).is_ok());
        for (width, height, bytes) in [(2, 1, 5), (0, 0, 0), (0, 4, 0), (usize::MAX, 2, 6)] {
            assert!(Pixels::new(width, height, vec![0; bytes]).unwrap_err().is_input());
        }
    }
}
