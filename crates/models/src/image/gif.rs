//! The first frame of GIF files. The `image` crate paints what the frame leaves free black; Pillow gives it the
//! transparent colour or the first one.

use std::num::NonZeroU64;

use etalon::error::Result;
use gif::{ColorOutput, Decoder, MemoryLimit};

use super::decode::{DecodeOptions, allocate, damaged};
use super::pixels::Pixels;

/// A GIF file up to the header of its first frame.
pub(super) struct Gif<'a> {
    decoder: Decoder<&'a [u8]>,
    canvas: (usize, usize),
    /// Columns and rows before the frame.
    offset: (usize, usize),
    frame: (usize, usize),
    /// The colour number of free pixels.
    free: u8,
}

impl<'a> Gif<'a> {
    /// Reads the headers of the file and of its first frame.
    pub fn open(bytes: &'a [u8], options: &DecodeOptions) -> Result<Gif<'a>> {
        let mut settings = gif::DecodeOptions::new();
        settings.set_color_output(ColorOutput::Indexed);
        settings.set_memory_limit(MemoryLimit::Bytes(NonZeroU64::new(options.largest).unwrap_or(NonZeroU64::MIN)));
        let mut decoder = settings.read_info(bytes).map_err(|error| damaged("GIF", error))?;
        let screen = (usize::from(decoder.width()), usize::from(decoder.height()));
        let header = decoder.next_frame_info().map_err(|error| damaged("GIF", error))?;
        let header = header.ok_or_else(|| damaged("GIF", "no frame"))?;
        let offset = (usize::from(header.left), usize::from(header.top));
        let frame = (usize::from(header.width), usize::from(header.height));
        let free = header.transparent.unwrap_or(0);
        // A frame that is larger than the screen enlarges it.
        let canvas = (screen.0.max(offset.0 + frame.0), screen.1.max(offset.1 + frame.1));
        Ok(Gif { decoder, canvas, offset, frame, free })
    }

    /// Width and height.
    pub fn size(&self) -> (u64, u64) {
        (self.canvas.0 as u64, self.canvas.1 as u64)
    }

    /// Decodes the pixels.
    pub fn read(mut self) -> Result<Pixels> {
        let mut numbers = allocate("GIF", self.frame.0 * self.frame.1)?;
        self.decoder.read_into_buffer(&mut numbers).map_err(|error| damaged("GIF", error))?;
        let palette = self.decoder.palette().ok();
        let color = |number: u8| match palette {
            // A file without a palette is grey.
            None => [number; 3],
            Some(palette) => palette.as_chunks().0.get(usize::from(number)).copied().unwrap_or_default(),
        };
        let (width, height) = self.canvas;
        let mut rgb = allocate("GIF", width * height * 3)?;
        rgb.as_chunks_mut().0.fill(color(self.free));
        let rows = rgb.chunks_exact_mut(width * 3).skip(self.offset.1);
        for (numbers, row) in numbers.chunks_exact(self.frame.0.max(1)).zip(rows) {
            let pixels = row.as_chunks_mut().0.iter_mut().skip(self.offset.0);
            numbers.iter().zip(pixels).for_each(|(&number, pixel)| *pixel = color(number));
        }
        Pixels::new(width, height, rgb)
    }
}
