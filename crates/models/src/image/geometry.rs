//! The size of the resized image, and the part of it that a centre crop keeps.

use serde::{Deserialize, Serialize};

use super::resize::Axis;

/// The size to which an image is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resize {
    /// The image keeps its size.
    None,
    /// The shorter side gets this length; the other side keeps the ratio and is rounded down.
    ShortSide(usize),
    /// Exactly this size; the ratio of the sides changes.
    Exact {
        /// Pixels per row.
        width: usize,
        /// Number of rows.
        height: usize,
    },
}

impl Resize {
    /// Width and height of the resized image.
    pub fn size(self, width: usize, height: usize) -> (usize, usize) {
        match self {
            Resize::None => (width, height),
            Resize::Exact { width, height } => (width, height),
            Resize::ShortSide(side) => {
                // Python computes int(side * long / short) with floats, which is the same below 2^53.
                let longer = |long: usize, short: usize| (side as u128 * long as u128 / short.max(1) as u128) as usize;
                if width <= height { (side, longer(height, width)) } else { (longer(width, height), side) }
            }
        }
    }
}

/// How a centre crop rounds when the margin is odd, and how it pads an image that is too small. Padding is black.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CropRule {
    /// torchvision, timm, open_clip: half margins are rounded to even, padding on the left is rounded down.
    Torchvision,
    /// transformers: half margins and padding on the left are rounded down.
    Transformers,
    /// transformers with the backend PIL: half margins are rounded down, padding on the left is rounded up.
    TransformersPil,
}

impl CropRule {
    /// The name, as in recipes.
    pub fn name(self) -> &'static str {
        match self {
            CropRule::Torchvision => "torchvision",
            CropRule::Transformers => "transformers",
            CropRule::TransformersPil => "transformers_pil",
        }
    }

    /// Pixels cut off before the crop of length `crop` in a side of length `side`.
    pub fn margin(self, side: usize, crop: usize) -> usize {
        let twice = side.saturating_sub(crop);
        match self {
            // 1.5 becomes 2 and 2.5 becomes 2.
            CropRule::Torchvision if twice % 4 == 3 => twice / 2 + 1,
            _ => twice / 2,
        }
    }

    /// Black pixels before a side that is shorter than the crop.
    pub fn padding(self, side: usize, crop: usize) -> usize {
        let twice = crop.saturating_sub(side);
        if self == CropRule::TransformersPil { twice.div_ceil(2) } else { twice / 2 }
    }
}

/// A crop of fixed size around the centre.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CenterCrop {
    /// Pixels per row.
    pub width: usize,
    /// Number of rows.
    pub height: usize,
    /// Rounding and padding.
    pub rule: CropRule,
}

/// One axis of the output: padding, then the computed part of the resized image, then padding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The length of the output.
    pub length: usize,
    /// Padding before the computed part.
    pub padding: usize,
    /// The computed part.
    pub axis: Axis,
}

impl Frame {
    /// The axis of an image resized to `resized`, with the length of the crop and its rule.
    pub fn new(resized: usize, crop: Option<(usize, CropRule)>) -> Frame {
        let (length, rule) = crop.unwrap_or((resized, CropRule::Torchvision));
        let first = rule.margin(resized, length);
        let kept = first..first + length.min(resized);
        Frame { length, padding: rule.padding(resized, length), axis: Axis { resized, kept } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_other_side_is_rounded_down() {
        // 48 * 84 / 61 = 66.098; 42 * 70 / 57 = 51.58.
        assert_eq!(Resize::ShortSide(48).size(84, 61), (66, 48));
        assert_eq!(Resize::ShortSide(42).size(57, 70), (42, 51));
        assert_eq!(Resize::ShortSide(48).size(30, 30), (48, 48));
        assert_eq!(Resize::Exact { width: 3, height: 4 }.size(84, 61), (3, 4));
        assert_eq!(Resize::None.size(84, 61), (84, 61));
    }

    #[test]
    fn margins_differ_by_one_pixel_at_three_of_four() {
        // Margins of a crop of 42 in 42 to 53, from int(round((h - 42) / 2)) and floor((h - 42) / 2).
        let margins = |rule: CropRule| (42..54).map(|side| rule.margin(side, 42)).collect::<Vec<_>>();
        assert_eq!(margins(CropRule::Torchvision), [0, 0, 1, 2, 2, 2, 3, 4, 4, 4, 5, 6]);
        assert_eq!(margins(CropRule::Transformers), [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5]);
        assert_eq!(margins(CropRule::TransformersPil), margins(CropRule::Transformers));
    }

    #[test]
    fn small_images_are_padded() {
        let frame = |rule| Frame::new(5, Some((8, rule)));
        assert_eq!(frame(CropRule::Torchvision).padding, 1);
        assert_eq!(frame(CropRule::Transformers).padding, 1);
        assert_eq!(frame(CropRule::TransformersPil).padding, 2);
        assert_eq!(frame(CropRule::Torchvision).axis, Axis { resized: 5, kept: 0..5 });
        assert_eq!(Frame::new(5, None), Frame { length: 5, padding: 0, axis: Axis { resized: 5, kept: 0..5 } });
        assert_eq!(Frame::new(9, Some((4, CropRule::Torchvision))).axis.kept, 2..6);
    }
}
