//! `pretrained_cfg` of timm, with the rules of `resolve_data_config` and `create_transform` for evaluation.

use etalon::error::Result;

use super::filter::Filter;
use super::geometry::{CenterCrop, CropRule, Resize};
use super::pipelines::{IMAGENET_MEAN, IMAGENET_STD};
use super::preprocess::Preprocess;
use super::settings::{Object, channels, get, number, pixels, text, wrong};

pub(super) fn read(settings: &Object) -> Result<Preprocess> {
    let (width, height) = match get(settings, "input_size") {
        None => (224, 224),
        Some(value) => match value.as_array().map(Vec::as_slice) {
            Some([channels, height, width]) if channels.as_u64() == Some(3) => {
                (pixels("input_size", width)?, pixels("input_size", height)?)
            }
            _ => return Err(wrong("input_size", "[3, height, width]", value).into()),
        },
    };
    let filter = match text(settings, "interpolation")? {
        None | Some("bicubic") => Filter::Bicubic,
        Some("bilinear") => Filter::Bilinear,
        Some("nearest") => Filter::Nearest,
        Some("box") => Filter::Box,
        Some("hamming") => Filter::Hamming,
        Some("lanczos") => Filter::Lanczos,
        Some(other) => {
            let expected = "nearest, bilinear, bicubic, box, hamming or lanczos";
            return Err(wrong("interpolation", expected, &other.into()).into());
        }
    };
    // timm treats 0 as missing.
    let share = number(settings, "crop_pct")?.filter(|share| *share != 0.0).unwrap_or(0.875);
    if !(0.01..=10.0).contains(&share) {
        return Err(wrong("crop_pct", "a share such as 0.875", &share.into()).into());
    }
    let before = |side: usize| (side as f64 / share) as usize;
    let resize = match text(settings, "crop_mode")? {
        None | Some("center") if width == height => Resize::ShortSide(before(width)),
        None | Some("center") => {
            let found = format!("[3, {height}, {width}]").into();
            return Err(wrong("input_size", "a square, if `crop_mode` is center", &found).into());
        }
        Some("squash") => Resize::Exact { width: before(width), height: before(height) },
        Some(other) => return Err(wrong("crop_mode", "center or squash", &other.into()).into()),
    };
    Ok(Preprocess {
        filter,
        crop: Some(CenterCrop { width, height, rule: CropRule::Torchvision }),
        mean: channels(settings, "mean")?.unwrap_or(IMAGENET_MEAN),
        std: channels(settings, "std")?.unwrap_or(IMAGENET_STD),
        ..Preprocess::unit(resize)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_hub() {
        let text = r#"{"architecture": "vit_base_patch16_224", "num_classes": 1000, "pretrained_cfg": {"tag": "augreg",
            "input_size": [3, 224, 224], "fixed_input_size": true, "interpolation": "bicubic", "crop_pct": 0.9,
            "crop_mode": "center", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5], "classifier": "head"}}"#;
        // 224 / 0.9 = 248.9.
        let expected = Preprocess { mean: [0.5; 3], std: [0.5; 3], ..Preprocess::timm(224, 0.9, Filter::Bicubic) };
        let read = Preprocess::from_json(text).unwrap();
        assert_eq!(read, expected);
        assert_eq!(read.resize, Resize::ShortSide(248));
    }

    #[test]
    fn missing_settings_are_those_of_imagenet() {
        let read = Preprocess::from_json(r#"{"input_size": [3, 42, 42], "crop_pct": null}"#).unwrap();
        assert_eq!(read, Preprocess::timm(42, 0.875, Filter::Bicubic));
        let squashed = r#"{"input_size": [3, 20, 40], "crop_mode": "squash", "crop_pct": 1.0}"#;
        assert_eq!(Preprocess::from_json(squashed).unwrap().resize, Resize::Exact { width: 40, height: 20 });
    }

    #[test]
    fn what_is_not_supported_is_refused() {
        for text in [
            r#"{"input_size": [1, 224, 224]}"#,
            r#"{"input_size": [3, 224]}"#,
            r#"{"input_size": [3, 224, 256]}"#,
            r#"{"input_size": [3, 0, 0]}"#,
            r#"{"interpolation": "random"}"#,
            r#"{"crop_pct": -1}"#,
            r#"{"crop_pct": 1e-300}"#,
            r#"{"crop_mode": "border", "input_size": [3, 224, 224]}"#,
            r#"{"input_size": [3, 224, 224], "std": [0, 1, 1]}"#,
            r#"{"input_size": [3, 224, 224], "mean": [0, 1]}"#,
        ] {
            assert!(Preprocess::from_json(text).unwrap_err().is_input(), "{text}");
        }
    }
}
