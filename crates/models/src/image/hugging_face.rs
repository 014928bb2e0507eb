//! `preprocessor_config.json` of transformers.

use etalon::error::{InputError, Result};
use serde_json::Value;

use super::filter::Filter;
use super::geometry::{CenterCrop, CropRule, Resize};
use super::pipelines::{CLIP_MEAN, CLIP_STD};
use super::preprocess::{Channels, Preprocess};
use super::resize::Kernel;
use super::settings::{Object, channels, flag, get, number, pixels, text, wrong};

/// The defaults of a class of image processors.
struct Family {
    /// The name of the class without its ending.
    name: &'static str,
    /// Whether a size that is one number means the shorter side. Otherwise it means a square.
    short_side: bool,
    size: usize,
    filter: Filter,
    crop: Option<usize>,
    mean: [f64; 3],
    std: [f64; 3],
}

const HALF: [f64; 3] = [0.5; 3];

const FAMILIES: &[Family] = &[
    Family::new("CLIP", true, 224, Filter::Bicubic, Some(224), CLIP_MEAN, CLIP_STD),
    // DINOv2 uses this one.
    Family::new("Bit", true, 224, Filter::Bicubic, Some(224), CLIP_MEAN, CLIP_STD),
    Family::new("ViT", false, 224, Filter::Bilinear, None, HALF, HALF),
    Family::new("DeiT", false, 256, Filter::Bicubic, Some(224), HALF, HALF),
    Family::new("Siglip", false, 224, Filter::Bicubic, None, HALF, HALF),
    Family::new("ConvNext", true, 384, Filter::Bicubic, None, HALF, HALF),
];

impl Family {
    const fn new(
        name: &'static str,
        short_side: bool,
        size: usize,
        filter: Filter,
        crop: Option<usize>,
        mean: [f64; 3],
        std: [f64; 3],
    ) -> Family {
        Family { name, short_side, size, filter, crop, mean, std }
    }
}

/// Settings that change the result in ways that are not implemented.
const REFUSED: &[&str] = &[
    "do_pad",
    "do_thumbnail",
    "do_align_long_axis",
    "do_image_splitting",
    "do_crop_margin",
    "do_color_quantize",
    "rescale_offset",
    "include_top",
    "size_divisor",
    "min_pixels",
    "max_pixels",
];

pub(super) fn read(settings: &Object) -> Result<Preprocess> {
    for key in REFUSED {
        if let Some(value) = get(settings, key).filter(|value| **value != Value::Bool(false)) {
            return Err(wrong(key, "false, or no such key", value).into());
        }
    }
    let class = text(settings, "image_processor_type")?.or(text(settings, "feature_extractor_type")?).unwrap_or("");
    let pillow = class.ends_with("Pil");
    let name = ["ImageProcessorPil", "ImageProcessorFast", "ImageProcessor", "FeatureExtractor"]
        .iter()
        .find_map(|ending| class.strip_suffix(ending))
        .unwrap_or(class);
    if name == "Levit" {
        let expected = "a class that resizes to the size of its settings";
        return Err(wrong("image_processor_type", expected, &class.into()).into());
    }
    let family = FAMILIES.iter().find(|family| family.name == name);
    let reader = Reader { settings, class, family };
    let filter = reader.filter()?;
    let (resize, own_crop) = reader.resize()?;
    // transformers falls back to Pillow's backend for filters that torch does not have.
    let pillow = pillow || !Kernel::TensorU8.supports(filter);
    let (kernel, rule) =
        if pillow { (Kernel::Pillow, CropRule::TransformersPil) } else { (Kernel::TensorU8, CropRule::Transformers) };
    let crop = reader.crop()?.or(own_crop).map(|(width, height)| CenterCrop { width, height, rule });
    let scale = match flag(settings, "do_rescale")? {
        Some(false) => 1.0,
        _ => number(settings, "rescale_factor")?.unwrap_or(1.0 / 255.0),
    };
    let (mean, std) = match flag(settings, "do_normalize")? {
        Some(false) => ([0.0; 3], [1.0; 3]),
        _ => (
            reader.or_default("image_mean", channels(settings, "image_mean")?, |family| family.mean)?,
            reader.or_default("image_std", channels(settings, "image_std")?, |family| family.std)?,
        ),
    };
    let flipped = flag(settings, "do_flip_channel_order")?.unwrap_or(false);
    if flipped && (mean, std) != ([0.0; 3], [1.0; 3]) {
        let expected = "false, or `do_normalize` false";
        return Err(wrong("do_flip_channel_order", expected, &flipped.into()).into());
    }
    let channels = if flipped { Channels::Bgr } else { Channels::Rgb };
    Ok(Preprocess { resize, filter, kernel, crop, channels, scale, mean, std })
}

struct Reader<'a> {
    settings: &'a Object,
    class: &'a str,
    family: Option<&'a Family>,
}

impl Reader<'_> {
    /// A value, or the default of the class.
    fn or_default<T>(&self, key: &str, value: Option<T>, default: impl Fn(&Family) -> T) -> Result<T> {
        Ok(value.or_else(|| self.family.map(default)).ok_or_else(|| {
            let names = FAMILIES.iter().map(|family| family.name).collect::<Vec<_>>().join(", ");
            InputError::new(format!("missing image setting `{key}`"))
                .expected(format!("the key, or a class with known defaults ({names})"))
                .found(format!("the class `{}`", self.class))
                .advice(format!("add `{key}` to the file"))
        })?)
    }

    fn filter(&self) -> Result<Filter> {
        let Some(value) = get(self.settings, "resample") else {
            return self.or_default("resample", None, |family| family.filter);
        };
        // The numbers of `PIL.Image.Resampling`.
        Ok(match value.as_u64() {
            Some(0) => Filter::Nearest,
            Some(1) => Filter::Lanczos,
            Some(2) => Filter::Bilinear,
            Some(3) => Filter::Bicubic,
            Some(4) => Filter::Box,
            Some(5) => Filter::Hamming,
            _ => return Err(wrong("resample", "0 to 5", value).into()),
        })
    }

    /// The size before the crop, and the crop of classes that derive it from the size.
    fn resize(&self) -> Result<(Resize, Option<(usize, usize)>)> {
        if flag(self.settings, "do_resize")? == Some(false) {
            return Ok((Resize::None, None));
        }
        let square = |side: usize| Resize::Exact { width: side, height: side };
        let alone = |side, short| if short { Resize::ShortSide(side) } else { square(side) };
        let resize = match get(self.settings, "size") {
            None => self.or_default("size", None, |family| alone(family.size, family.short_side))?,
            Some(Value::Object(size)) => match (get(size, "shortest_edge"), get(size, "height"), get(size, "width")) {
                (Some(side), None, None) if size.len() == 1 => Resize::ShortSide(pixels("size", side)?),
                (None, Some(height), Some(width)) if size.len() == 2 => {
                    Resize::Exact { width: pixels("size", width)?, height: pixels("size", height)? }
                }
                _ => {
                    let expected = "{\"shortest_edge\": n} or {\"height\": n, \"width\": n}";
                    return Err(wrong("size", expected, &Value::Object(size.clone())).into());
                }
            },
            Some(value) => {
                let short = self.or_default("size", None, |family| family.short_side).map_err(|_| {
                    wrong("size", "{\"shortest_edge\": n} or {\"height\": n, \"width\": n}, for this class", value)
                })?;
                alone(pixels("size", value)?, short)
            }
        };
        let share = number(self.settings, "crop_pct")?;
        match (self.family.map(|family| family.name), resize) {
            // Small sizes are cropped from a larger image; others are squares.
            (Some("ConvNext"), Resize::ShortSide(side)) if side < 384 => {
                let share = share.unwrap_or(224.0 / 256.0);
                if !(0.01..=10.0).contains(&share) {
                    return Err(wrong("crop_pct", "a share such as 0.875", &share.into()).into());
                }
                Ok((Resize::ShortSide((side as f64 / share) as usize), Some((side, side))))
            }
            (Some("ConvNext"), Resize::ShortSide(side)) => Ok((square(side), None)),
            (_, resize) => match share {
                Some(share) => Err(wrong("crop_pct", "no such key, for this class", &share.into()).into()),
                None => Ok((resize, None)),
            },
        }
    }

    /// Width and height of the crop.
    fn crop(&self) -> Result<Option<(usize, usize)>> {
        let size = get(self.settings, "crop_size");
        let wanted = match (flag(self.settings, "do_center_crop")?, size, self.family) {
            (Some(wanted), _, _) => wanted,
            (None, _, Some(family)) => family.crop.is_some(),
            (None, None, None) => false,
            (None, Some(_), None) => self.or_default("do_center_crop", None, |_| false)?,
        };
        if !wanted {
            return Ok(None);
        }
        let expected = "a number or {\"height\": n, \"width\": n}";
        Ok(Some(match size {
            None => {
                let side = self.family.and_then(|family| family.crop);
                let side = side.ok_or_else(|| wrong("crop_size", expected, &Value::Null))?;
                (side, side)
            }
            Some(Value::Object(size)) => match (get(size, "width"), get(size, "height")) {
                (Some(width), Some(height)) => (pixels("crop_size", width)?, pixels("crop_size", height)?),
                _ => return Err(wrong("crop_size", expected, &Value::Object(size.clone())).into()),
            },
            Some(side) => (pixels("crop_size", side)?, pixels("crop_size", side)?),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Preprocess {
        Preprocess::from_json(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn clip_old_and_new() {
        let old = r#"{"crop_size": 224, "do_center_crop": true, "do_normalize": true, "do_resize": true,
            "feature_extractor_type": "CLIPFeatureExtractor", "image_mean": [0.48145466, 0.4578275, 0.40821073],
            "image_std": [0.26862954, 0.26130258, 0.27577711], "resample": 3, "size": 224}"#;
        assert_eq!(read(old), Preprocess::hugging_face_clip(224));
        let new = r#"{"image_processor_type": "CLIPImageProcessor", "crop_size": {"height": 224, "width": 224},
            "size": {"shortest_edge": 224}, "do_convert_rgb": true, "rescale_factor": 0.00392156862745098}"#;
        assert_eq!(read(new), Preprocess::hugging_face_clip(224));
        let pillow = r#"{"image_processor_type": "CLIPImageProcessorPil"}"#;
        assert_eq!(read(pillow), Preprocess::hugging_face_clip_pil(224));
    }

    #[test]
    fn vit_is_a_square() {
        let old = r#"{"do_normalize": true, "do_resize": true, "image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5],
            "resample": 2, "size": 224, "feature_extractor_type": "ViTFeatureExtractor"}"#;
        assert_eq!(read(old), Preprocess::hugging_face_vit(224));
        assert_eq!(read(r#"{"image_processor_type": "ViTImageProcessorFast"}"#), Preprocess::hugging_face_vit(224));
    }

    #[test]
    fn dinov2_and_convnext() {
        let dino = r#"{"crop_size": {"height": 224, "width": 224}, "do_center_crop": true, "do_convert_rgb": true,
            "do_normalize": true, "do_rescale": true, "do_resize": true, "image_mean": [0.485, 0.456, 0.406],
            "image_processor_type": "BitImageProcessor", "image_std": [0.229, 0.224, 0.225], "resample": 3,
            "rescale_factor": 0.00392156862745098, "size": {"shortest_edge": 256}}"#;
        let expected = Preprocess::torchvision_tensor(256, 224, Filter::Bicubic).cropped(224, CropRule::Transformers);
        assert_eq!(read(dino), expected);
        let convnext = r#"{"feature_extractor_type": "ConvNextFeatureExtractor", "crop_pct": 0.875, "size": 224,
            "image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225], "resample": 3}"#;
        assert_eq!(read(convnext), expected);
        let large = read(r#"{"image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}}"#);
        assert_eq!((large.resize, large.crop), (Resize::Exact { width: 384, height: 384 }, None));
    }

    #[test]
    fn steps_can_be_off() {
        let read = read(
            r#"{"image_processor_type": "MobileViTImageProcessor", "do_resize": false, "do_center_crop": false,
            "do_normalize": false, "do_flip_channel_order": true, "resample": 4}"#,
        );
        assert_eq!((read.resize, read.crop, read.channels), (Resize::None, None, Channels::Bgr));
        assert_eq!((read.kernel, read.filter, read.mean, read.std), (Kernel::Pillow, Filter::Box, [0.0; 3], [1.0; 3]));
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for text in [
            r#"{"image_processor_type": "DetrImageProcessor", "size": {"shortest_edge": 800, "longest_edge": 1333}}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "size": {"shortest_edge": 8, "longest_edge": 9}}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "do_pad": true}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "resample": 9}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "crop_pct": 0.9}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "size": 0}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "size": "large"}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "do_resize": 1}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "image_std": [0, 0, 0]}"#,
            r#"{"image_processor_type": "CLIPImageProcessor", "do_flip_channel_order": true}"#,
            r#"{"image_processor_type": "LevitImageProcessor", "size": {"shortest_edge": 224}}"#,
            r#"{"image_processor_type": "Unheard", "size": 224, "resample": 2}"#,
            r#"{"image_processor_type": "Unheard", "size": {"height": 2, "width": 2}, "resample": 2, "crop_size": 2}"#,
            r#"{"image_processor_type": 3}"#,
            r#"{"do_resize": true}"#,
            r#"{"vocab_size": 3}"#,
            "[]",
            "{",
            "",
        ] {
            assert!(Preprocess::from_json(text).unwrap_err().is_input(), "{text}");
        }
    }
}
