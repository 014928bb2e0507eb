//! The preprocessing that belongs to a network.

use std::path::Path;

use etalon::error::{Error, InFile, Result};
use etalon::network::NetworkCard;

use crate::image::{Filter, Preprocess};

/// What the files of a network say about its preprocessing, or what its family was trained with.
pub fn preprocessing(model: &Path, card: &NetworkCard) -> Result<Preprocess> {
    let directory = if model.is_dir() { model } else { model.parent().unwrap_or(Path::new(".")) };
    for name in ["preprocessor_config.json", "pretrained_cfg.json"] {
        let path = directory.join(name);
        if path.exists() {
            let text =
                std::fs::read_to_string(&path).map_err(Error::io("read the preprocessing of a network", &path))?;
            return Preprocess::from_json(&text).in_file(&path);
        }
    }
    let side = card.context;
    Ok(match card.family {
        "clip" => Preprocess::hugging_face_clip(side),
        "efficientnet-lite" => Preprocess::efficientnet_lite(side),
        "resnet-keras" => Preprocess::caffe(256, 224),
        "resnet" => Preprocess::torchvision(256, 224),
        "dinov2" => Preprocess::timm(side, 0.875, Filter::Bicubic),
        _ => Preprocess::timm(side, 0.9, Filter::Bicubic),
    })
}
