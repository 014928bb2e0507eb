//! JPEG files, with the pixels of libjpeg-turbo, which Pillow uses.
//!
//! The decoder of the `image` crate differs from libjpeg-turbo by up to 25 of 255 levels, because it interpolates
//! reduced colour channels in another way. `libjpeg-turbo-rs` gives the same bytes.

use etalon::error::{InputError, Result};
use libjpeg_turbo_rs::{DecodeLimits, Decoder, JpegError, PixelFormat};

use super::decode::{DecodeOptions, damaged};
use super::pixels::Pixels;

/// Maximum number of scans. Progressive files of usual programs have ten; every scan costs a pass over the image.
const MOST_SCANS: usize = 256;

/// The header of a JPEG file.
pub(super) struct Jpeg<'a>(Decoder<'a>);

impl<'a> Jpeg<'a> {
    /// Reads the header.
    pub fn open(bytes: &'a [u8], options: &DecodeOptions) -> Result<Jpeg<'a>> {
        let limits = DecodeLimits { max_pixels: options.largest, max_scans: MOST_SCANS, ..DecodeLimits::default() };
        let decoder = Decoder::new_with_limits(bytes, limits).map_err(failed)?;
        let header = decoder.header();
        let sampling =
            |component: usize| header.components.get(component).map(|c| (c.horizontal_sampling, c.vertical_sampling));
        // The decoder panics on four channels with other sampling factors.
        let known = match (sampling(0), sampling(1), sampling(2), header.components.len()) {
            (Some(_), None, None, 1) => true,
            (Some(full), Some(reduced), Some(same), 3 | 4) => {
                let divides = |full: u8, reduced: u8| reduced != 0 && full.is_multiple_of(reduced);
                reduced == same
                    && divides(full.0, reduced.0)
                    && divides(full.1, reduced.1)
                    && sampling(3).is_none_or(|black| black == full)
            }
            _ => false,
        };
        if !known || header.precision != 8 || header.is_lossless {
            return Err(InputError::new("unsupported kind of JPEG file")
                .expected("8 bits; grey, colour with equally reduced colour channels, or CMYK")
                .found(format!(
                    "{} bits, sampling factors {:?}",
                    header.precision,
                    (0..header.components.len()).filter_map(sampling).collect::<Vec<_>>()
                ))
                .advice("save the image as PNG")
                .into());
        }
        Ok(Jpeg(decoder))
    }

    /// Width and height.
    pub fn size(&self) -> (u64, u64) {
        (self.0.header().width.into(), self.0.header().height.into())
    }

    /// The EXIF orientation, 1 to 8.
    pub fn orientation(&self) -> Option<u8> {
        self.0.exif_orientation()
    }

    /// Decodes the pixels.
    pub fn read(mut self) -> Result<Pixels> {
        self.0.set_output_format(PixelFormat::Rgb);
        let image = self.0.decode_image().map_err(failed)?;
        Pixels::new(image.width, image.height, image.data)
    }
}

fn failed(error: JpegError) -> InputError {
    damaged("JPEG", error)
}
