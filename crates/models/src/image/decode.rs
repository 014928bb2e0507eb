//! From the bytes of an image file to RGB, as Pillow's `Image.open(file).convert("RGB")` gives them.
//!
//! Alpha is dropped, not blended. Grey is repeated, palettes are looked up. Of 16-bit colours the high byte counts, but
//! 16-bit grey is clipped at 255, as in Pillow. Of an animation, the first frame is read. Colour profiles are ignored.

use std::io::Cursor;

use etalon::context::{Budget, Reserved};
use etalon::error::{InputError, Result};
use image::{ColorType, ImageDecoder, ImageFormat, ImageReader, Limits};

use super::gif::Gif;
use super::jpeg::Jpeg;
use super::pixels::Pixels;

/// Maximum width or height. Keeps the tables for resizing small.
const LONGEST_SIDE: u64 = 65_535;

/// Memory to decode a pixel, in bytes: at most 8 for a 16-bit image with alpha, 3 for the result, and the buffers of a
/// decoder, up to 9 for a progressive JPEG file.
const BYTES_PER_PIXEL: u64 = 16;

/// Maximum expansion by the compression of PNG files: 258 bytes from two bits.
const DEFLATE_RATIO: u64 = 1032;

/// Settings for decoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DecodeOptions {
    /// Whether to turn the image upright as its EXIF orientation says. torchvision and `Image.open` do not;
    /// `load_image` of transformers does.
    pub orient: bool,
    /// Maximum number of pixels. A small file can claim a huge image.
    pub largest: u64,
}

impl Default for DecodeOptions {
    /// Ignores the orientation; at most as many pixels as Pillow opens.
    fn default() -> DecodeOptions {
        DecodeOptions { orient: false, largest: 178_956_970 }
    }
}

/// Decodes a PNG, JPEG, WebP, GIF or BMP file with the default settings.
///
/// ```
/// let bytes = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\xff\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02D\x01\x00;";
/// let image = etalon_models::image::decode(bytes)?;
/// assert_eq!((image.width(), image.height(), image.rgb()), (1, 1, &[255, 0, 0][..]));
/// # Ok::<(), etalon::error::Error>(())
/// ```
pub fn decode(bytes: &[u8]) -> Result<Pixels> {
    decode_with(bytes, &DecodeOptions::default())
}

/// Decodes an image file.
pub fn decode_with(bytes: &[u8], options: &DecodeOptions) -> Result<Pixels> {
    Opened::new(bytes, options)?.read(options)
}

/// Decodes an image file in memory that is reserved first.
pub fn decode_reserved(bytes: &[u8], options: &DecodeOptions, budget: &Budget) -> Result<Reserved<Pixels>> {
    let opened = Opened::new(bytes, options)?;
    let (width, height) = opened.size();
    let mut memory = budget.reserve(width * height * BYTES_PER_PIXEL, "decoding an image")?;
    let pixels = opened.read(options)?;
    memory.resize(pixels.rgb().len() as u64, "an image")?;
    Ok(Reserved::new(pixels, memory))
}

/// A file whose header was read and whose size was checked.
enum Opened<'a> {
    Jpeg(Box<Jpeg<'a>>),
    Gif(Box<Gif<'a>>),
    Other {
        decoder: Box<dyn ImageDecoder + 'a>,
        name: &'static str,
        /// Whether a PNG file stores 16-bit grey. With a transparent value, the decoder adds alpha.
        grey16: bool,
    },
}

impl<'a> Opened<'a> {
    fn new(bytes: &'a [u8], options: &DecodeOptions) -> Result<Opened<'a>> {
        let format = image::guess_format(bytes).ok();
        let name = match format {
            Some(ImageFormat::Jpeg) => "JPEG",
            Some(ImageFormat::Gif) => "GIF",
            Some(ImageFormat::Png) => "PNG",
            Some(ImageFormat::WebP) => "WebP",
            Some(ImageFormat::Bmp) => "BMP",
            _ => return Err(unknown(bytes).into()),
        };
        let opened = match name {
            "JPEG" => Opened::Jpeg(Box::new(Jpeg::open(bytes, options)?)),
            "GIF" => Opened::Gif(Box::new(Gif::open(bytes, options)?)),
            "WebP" if bytes.get(4..8).is_none_or(|size| shorter(bytes.len(), size)) => {
                return Err(damaged(name, "fewer bytes than its header states").into());
            }
            _ => {
                let mut reader = ImageReader::new(Cursor::new(bytes));
                format.into_iter().for_each(|format| reader.set_format(format));
                let mut limits = Limits::no_limits();
                limits.max_alloc = options.largest.checked_mul(BYTES_PER_PIXEL);
                reader.limits(limits);
                let decoder = reader.into_decoder().map_err(|error| damaged(name, error))?;
                // Depth and colour type are at a fixed position of the header.
                let grey16 = name == "PNG" && bytes.get(24..26) == Some(&[16, 0]);
                Opened::Other { decoder: Box::new(decoder), name, grey16 }
            }
        };
        opened.check(bytes.len() as u64, options)?;
        Ok(opened)
    }

    /// Width and height, as the file states them.
    fn size(&self) -> (u64, u64) {
        match self {
            Opened::Jpeg(jpeg) => jpeg.size(),
            Opened::Gif(gif) => gif.size(),
            Opened::Other { decoder, .. } => {
                let (width, height) = decoder.dimensions();
                (width.into(), height.into())
            }
        }
    }

    /// Compares the size with the limits and with the length of the file.
    fn check(&self, length: u64, options: &DecodeOptions) -> Result<()> {
        let (width, height) = self.size();
        let wrong = |expected: String| {
            InputError::new("the size of the image is out of range")
                .expected(expected)
                .found(format!("{width} × {height} pixels"))
        };
        if width.min(height) == 0 {
            return Err(wrong("at least one pixel".into()).advice("remove the file").into());
        }
        if width.max(height) > LONGEST_SIDE || width * height > options.largest {
            let expected = format!("sides of at most {LONGEST_SIDE} and at most {} pixels", options.largest);
            return Err(wrong(expected).advice("make the image smaller").into());
        }
        if let Opened::Other { decoder, name: "PNG", .. } = self {
            // Expanding palettes and bits makes a byte of the compressed data at most 32 bytes here.
            let packed = decoder.total_bytes() / 32;
            if packed / DEFLATE_RATIO > length {
                return Err(wrong(format!("a size that {length} bytes can contain"))
                    .advice("the file is damaged; save the image again")
                    .into());
            }
        }
        Ok(())
    }

    fn read(self, options: &DecodeOptions) -> Result<Pixels> {
        let (pixels, orientation) = match self {
            Opened::Jpeg(jpeg) => {
                let orientation = jpeg.orientation();
                (jpeg.read()?, orientation)
            }
            Opened::Gif(gif) => (gif.read()?, None),
            Opened::Other { mut decoder, name, grey16 } => {
                let (width, height) = decoder.dimensions();
                let color = decoder.color_type();
                let orientation = decoder.orientation().ok().map(|orientation| orientation.to_exif());
                let length = usize::try_from(decoder.total_bytes()).unwrap_or(usize::MAX);
                let mut raw = allocate(name, length)?;
                decoder.read_image(&mut raw).map_err(|error| damaged(name, error))?;
                (Pixels::new(width as usize, height as usize, rgb(color, grey16, raw)?)?, orientation)
            }
        };
        Ok(if options.orient { pixels.oriented(orientation.unwrap_or(1)) } else { pixels })
    }
}

/// Whether a RIFF file is shorter than its header states. The decoder would read zeros instead of the rest.
fn shorter(length: usize, stated: &[u8]) -> bool {
    stated.try_into().is_ok_and(|bytes| u64::from(u32::from_le_bytes(bytes)) + 8 > length as u64)
}

/// Converts the pixels of a decoder as Pillow does.
fn rgb(color: ColorType, grey16: bool, raw: Vec<u8>) -> Result<Vec<u8>> {
    // Decoders write 16-bit values in the byte order of the machine.
    let wide = |pair: &[u8]| pair.try_into().map_or(0, u16::from_ne_bytes);
    let high = |pair: &[u8]| (wide(pair) >> 8) as u8;
    let clipped = |pair: &[u8]| wide(pair).min(255) as u8;
    Ok(match color {
        ColorType::Rgb8 => raw,
        ColorType::L8 => raw.iter().flat_map(|&grey| [grey; 3]).collect(),
        ColorType::La8 => raw.chunks_exact(2).flat_map(|pixel| [pixel[0]; 3]).collect(),
        ColorType::Rgba8 => raw.chunks_exact(4).flat_map(|pixel| [pixel[0], pixel[1], pixel[2]]).collect(),
        ColorType::L16 => raw.chunks_exact(2).flat_map(|grey| [clipped(grey); 3]).collect(),
        ColorType::La16 if grey16 => raw.chunks_exact(4).flat_map(|pixel| [clipped(&pixel[..2]); 3]).collect(),
        ColorType::La16 => raw.chunks_exact(4).flat_map(|pixel| [high(&pixel[..2]); 3]).collect(),
        ColorType::Rgb16 => raw.chunks_exact(2).map(high).collect(),
        ColorType::Rgba16 => raw.chunks_exact(8).flat_map(|pixel| pixel[..6].chunks_exact(2).map(high)).collect(),
        other => {
            return Err(InputError::new("unsupported kind of pixels")
                .expected("grey or RGB with 8 or 16 bits, with or without alpha")
                .found(format!("{other:?}"))
                .advice("save the image as an 8-bit PNG")
                .into());
        }
    })
}

fn unknown(bytes: &[u8]) -> InputError {
    let start = bytes.get(..12).unwrap_or(bytes).escape_ascii();
    InputError::new("the bytes are not a supported image")
        .expected("PNG, JPEG, WebP, GIF or BMP")
        .found(if bytes.is_empty() { "no bytes".into() } else { format!("\"{start}\" at the start") })
        .advice("convert the image to PNG or JPEG")
}

/// `length` zeros; an error instead of an abort if there is no memory.
pub(super) fn allocate(format: &str, length: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|error| damaged(format, error))?;
    bytes.resize(length, 0);
    Ok(bytes)
}

/// The error for a file that its decoder refuses.
pub(super) fn damaged(format: &str, error: impl std::fmt::Display) -> InputError {
    InputError::new("the image cannot be decoded")
        .expected(format!("a complete {format} file"))
        .found(error)
        .advice("the file is truncated, damaged or of an unusual kind; save the image again")
}
