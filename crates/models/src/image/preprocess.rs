//! Preprocessing: resize, crop, and bring values into the range that a network expects.

use etalon::error::{InputError, Result};
use serde::{Deserialize, Serialize};

use super::filter::Filter;
use super::geometry::{CenterCrop, Frame, Resize};
use super::pixels::Pixels;
use super::resize::{Kernel, resize_f32, resize_u8};

/// Maximum length of a resized or cropped side in the settings.
const LONGEST_SIDE: usize = 65_535;

/// Maximum number of pixels of an output. Without a crop, a thin image would become huge.
const LARGEST_OUTPUT: usize = 1 << 26;

/// The order of the channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Channels {
    /// Red, green, blue.
    Rgb,
    /// Blue, green, red, as in networks that were trained with caffe.
    Bgr,
}

impl Channels {
    /// The name, as in recipes.
    pub fn name(self) -> &'static str {
        match self {
            Channels::Rgb => "rgb",
            Channels::Bgr => "bgr",
        }
    }
}

/// How an image becomes the input of a network.
///
/// A value `x` from 0 to 255 becomes `(x * scale - mean) / std`, computed in double precision and rounded once.
///
/// ```
/// use etalon_models::image::{Pixels, Preprocess};
///
/// let grey = Pixels::new(300, 200, vec![128; 300 * 200 * 3])?;
/// let values = Preprocess::torchvision(256, 224).apply(&grey)?;
/// assert_eq!(values.len(), 224 * 224 * 3);
/// assert!((values[0] - (128.0 / 255.0 - 0.485) / 0.229).abs() < 1e-6);
/// # Ok::<(), etalon::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Preprocess {
    /// The size before the crop.
    pub resize: Resize,
    /// The filter for resizing.
    pub filter: Filter,
    /// The arithmetic of resizing.
    pub kernel: Kernel,
    /// The crop around the centre.
    pub crop: Option<CenterCrop>,
    /// The order of the channels in the output.
    pub channels: Channels,
    /// The factor for values from 0 to 255.
    pub scale: f64,
    /// What is subtracted from scaled values, in the order of `channels`.
    pub mean: [f64; 3],
    /// What differences are divided by, in the order of `channels`.
    pub std: [f64; 3],
}

impl Preprocess {
    /// Checks the settings.
    pub fn check(&self) -> Result<()> {
        let wrong = |what: &str, expected: &str, found: String| {
            let advice = "correct the settings of the image preprocessing";
            Err(InputError::new(what).expected(expected).found(found).advice(advice).into())
        };
        let sides = match self.resize {
            Resize::None => vec![],
            Resize::ShortSide(side) => vec![side],
            Resize::Exact { width, height } => vec![width, height],
        };
        let cropped = self.crop.iter().flat_map(|crop| [crop.width, crop.height]);
        if let Some(side) = sides.into_iter().chain(cropped).find(|side| !(1..=LONGEST_SIDE).contains(side)) {
            return wrong("the size of an image is out of range", "1 to 65535 pixels", side.to_string());
        }
        if !self.kernel.supports(self.filter) {
            let found = format!("{} with {}", self.filter.name(), self.kernel.name());
            return wrong("torch has no such filter", "nearest, bilinear, bicubic or lanczos", found);
        }
        let finite = [self.scale].iter().chain(&self.mean).chain(&self.std).all(|value| value.is_finite());
        if !finite || self.std.contains(&0.0) {
            let found = format!("scale {}, mean {:?}, std {:?}", self.scale, self.mean, self.std);
            return wrong("scale, mean or std is out of range", "finite numbers, and no std of 0", found);
        }
        Ok(())
    }

    /// Width and height of the output if it is the same for all images.
    pub fn fixed_size(&self) -> Option<(usize, usize)> {
        match (self.crop, self.resize) {
            (Some(crop), _) => Some((crop.width, crop.height)),
            (None, Resize::Exact { width, height }) => Some((width, height)),
            (None, Resize::None | Resize::ShortSide(_)) => None,
        }
    }

    /// Width and height of the output for an image of a size.
    pub fn output_size(&self, width: usize, height: usize) -> (usize, usize) {
        self.fixed_size().unwrap_or_else(|| self.resize.size(width, height))
    }

    /// Preprocesses an image: height × width × channels values.
    pub fn apply(&self, pixels: &Pixels) -> Result<Vec<f32>> {
        let (x, y) = self.frames(pixels)?;
        let mut values = vec![0.0; x.length * y.length * 3];
        self.fill(pixels, &x, &y, &mut values);
        Ok(values)
    }

    /// Preprocesses an image into `values`, whose length must be that of the output.
    pub fn apply_into(&self, pixels: &Pixels, values: &mut [f32]) -> Result<()> {
        let (x, y) = self.frames(pixels)?;
        if values.len() != x.length * y.length * 3 {
            return Err(InputError::new("the size of the output does not fit")
                .expected(format!("{} × {} × 3 values", y.length, x.length))
                .found(values.len())
                .into());
        }
        self.fill(pixels, &x, &y, values);
        Ok(())
    }

    /// Resizes and crops only. Values of [`Kernel::TensorF32`] are rounded.
    pub fn resize_and_crop(&self, pixels: &Pixels) -> Result<Pixels> {
        let (x, y) = self.frames(pixels)?;
        let part = resize_u8(pixels, self.filter, self.kernel, &x.axis, &y.axis);
        let mut rgb = vec![0; x.length * y.length * 3];
        place(&part, &x, &y, &mut rgb, |pixel, out: &mut [u8]| out.copy_from_slice(pixel));
        Pixels::new(x.length, y.length, rgb)
    }

    /// The settings in one line, for recipes: equal settings give equal text in every version.
    pub fn describe(&self) -> String {
        let resize = match self.resize {
            Resize::None => "none".to_string(),
            Resize::ShortSide(side) => format!("short_side:{side}"),
            Resize::Exact { width, height } => format!("{width}x{height}"),
        };
        let crop =
            self.crop.map_or("none".to_string(), |crop| format!("{}x{}:{}", crop.width, crop.height, crop.rule.name()));
        let numbers = |values: [f64; 3]| values.map(|value| value.to_string()).join(",");
        format!(
            "image/1 resize={resize} filter={} kernel={} crop={crop} channels={} scale={} mean={} std={}",
            self.filter.name(),
            self.kernel.name(),
            self.channels.name(),
            self.scale,
            numbers(self.mean),
            numbers(self.std)
        )
    }

    /// Both axes of the output, after all checks.
    fn frames(&self, pixels: &Pixels) -> Result<(Frame, Frame)> {
        self.check()?;
        let (width, height) = self.resize.size(pixels.width(), pixels.height());
        let x = Frame::new(width, self.crop.map(|crop| (crop.width, crop.rule)));
        let y = Frame::new(height, self.crop.map(|crop| (crop.height, crop.rule)));
        if x.length.checked_mul(y.length).is_none_or(|pixels| pixels > LARGEST_OUTPUT) {
            return Err(InputError::new("the preprocessed image is too large")
                .expected(format!("at most {LARGEST_OUTPUT} pixels"))
                .found(format!("{} × {} pixels", x.length, y.length))
                .advice("crop the image, or resize it to a fixed size")
                .into());
        }
        Ok((x, y))
    }

    fn fill(&self, pixels: &Pixels, x: &Frame, y: &Frame, values: &mut [f32]) {
        let order = match self.channels {
            Channels::Rgb => [0, 1, 2],
            Channels::Bgr => [2, 1, 0],
        };
        let normalised =
            |channel: usize, value: f64| ((value * self.scale - self.mean[channel]) / self.std[channel]) as f32;
        let black = [0, 1, 2].map(|channel| normalised(channel, 0.0));
        if x.axis.kept.len() < x.length || y.axis.kept.len() < y.length {
            values.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&black));
        }
        if self.kernel == Kernel::TensorF32 {
            let part = resize_f32(pixels, self.filter, &x.axis, &y.axis);
            place(&part, x, y, values, |pixel, out| {
                out.iter_mut().zip(order).enumerate().for_each(|(channel, (value, from))| {
                    *value = normalised(channel, pixel[from].into());
                });
            });
        } else {
            // An 8-bit value has 256 results.
            let tables: [[f32; 256]; 3] =
                std::array::from_fn(|channel| std::array::from_fn(|value| normalised(channel, value as f64)));
            let part = resize_u8(pixels, self.filter, self.kernel, &x.axis, &y.axis);
            place(&part, x, y, values, |pixel, out| {
                out.iter_mut().zip(order).zip(&tables).for_each(|((value, from), table)| {
                    *value = table[usize::from(pixel[from])];
                });
            });
        }
    }
}

/// Writes the pixels of the computed part to their positions in the output.
fn place<V, O>(part: &[V], x: &Frame, y: &Frame, output: &mut [O], write: impl Fn(&[V], &mut [O])) {
    let length = x.axis.kept.len() * 3;
    let rows = output.chunks_exact_mut(x.length * 3).skip(y.padding);
    for (row, out) in part.chunks_exact(length).zip(rows) {
        let pixels = out.chunks_exact_mut(3).skip(x.padding);
        row.chunks_exact(3).zip(pixels).for_each(|(pixel, out)| write(pixel, out));
    }
}

/// Moves channels to the front: from height × width × 3 values to 3 × height × width.
pub fn channels_first(values: &[f32]) -> Vec<f32> {
    (0..3).flat_map(|channel| values.iter().skip(channel).step_by(3).copied()).collect()
}
