//! The preprocessing of well-known networks and libraries.

use super::filter::Filter;
use super::geometry::{CenterCrop, CropRule, Resize};
use super::preprocess::{Channels, Preprocess};
use super::resize::Kernel;

/// The mean of ImageNet.
pub const IMAGENET_MEAN: [f64; 3] = [0.485, 0.456, 0.406];

/// The standard deviation of ImageNet.
pub const IMAGENET_STD: [f64; 3] = [0.229, 0.224, 0.225];

/// The mean of the training data of CLIP.
pub const CLIP_MEAN: [f64; 3] = [0.48145466, 0.4578275, 0.40821073];

/// The standard deviation of the training data of CLIP.
pub const CLIP_STD: [f64; 3] = [0.26862954, 0.26130258, 0.27577711];

/// From values up to 255 to values up to 1.
const UNIT: f64 = 1.0 / 255.0;

impl Preprocess {
    /// Values from 0 to 1; Pillow and bilinear if the image is resized.
    pub fn unit(resize: Resize) -> Preprocess {
        Preprocess {
            resize,
            filter: Filter::Bilinear,
            kernel: Kernel::Pillow,
            crop: None,
            channels: Channels::Rgb,
            scale: UNIT,
            mean: [0.0; 3],
            std: [1.0; 3],
        }
    }

    /// torchvision on PIL images: bilinear, ImageNet statistics. Most networks of torchvision use 256 and 224.
    pub fn torchvision(short_side: usize, crop: usize) -> Preprocess {
        let (mean, std) = (IMAGENET_MEAN, IMAGENET_STD);
        Preprocess { mean, std, ..Preprocess::unit(Resize::ShortSide(short_side)) }.cropped(crop, CropRule::Torchvision)
    }

    /// torchvision v2 on 8-bit tensors, ImageNet statistics.
    pub fn torchvision_tensor(short_side: usize, crop: usize, filter: Filter) -> Preprocess {
        Preprocess { filter, kernel: Kernel::TensorU8, ..Preprocess::torchvision(short_side, crop) }
    }

    /// timm: the shorter side is the size divided by `crop_pct`, rounded down.
    pub fn timm(size: usize, crop_pct: f64, filter: Filter) -> Preprocess {
        Preprocess { filter, ..Preprocess::torchvision((size as f64 / crop_pct) as usize, size) }
    }

    /// The released program of CLIP, and open_clip: bicubic.
    pub fn openai_clip(size: usize) -> Preprocess {
        let (mean, std) = (CLIP_MEAN, CLIP_STD);
        Preprocess { filter: Filter::Bicubic, mean, std, ..Preprocess::torchvision(size, size) }
    }

    /// `CLIPImageProcessor` of transformers 5, which works on tensors.
    pub fn hugging_face_clip(size: usize) -> Preprocess {
        let clip = Preprocess { kernel: Kernel::TensorU8, ..Preprocess::openai_clip(size) };
        clip.cropped(size, CropRule::Transformers)
    }

    /// `CLIPImageProcessorPil` of transformers 5, and `CLIPImageProcessor` of earlier versions.
    pub fn hugging_face_clip_pil(size: usize) -> Preprocess {
        Preprocess::openai_clip(size).cropped(size, CropRule::TransformersPil)
    }

    /// `ViTImageProcessor` of transformers 5: a square, values from -1 to 1.
    pub fn hugging_face_vit(size: usize) -> Preprocess {
        let square = Preprocess::unit(Resize::Exact { width: size, height: size });
        Preprocess { kernel: Kernel::TensorU8, mean: [0.5; 3], std: [0.5; 3], ..square }
    }

    /// DreamSim: a square, bicubic, values from 0 to 1. Its branches have statistics of their own: ImageNet for DINO, CLIP
    /// for both CLIP networks.
    pub fn dreamsim(size: usize) -> Preprocess {
        let square = Preprocess::unit(Resize::Exact { width: size, height: size });
        Preprocess { filter: Filter::Bicubic, ..square }
    }

    /// `torch.nn.functional.interpolate` with antialias on values from 0 to 1.
    pub fn float_tensor(width: usize, height: usize, filter: Filter) -> Preprocess {
        Preprocess { filter, kernel: Kernel::TensorF32, ..Preprocess::unit(Resize::Exact { width, height }) }
    }

    /// Networks trained with caffe, such as ResNet-50 of Keras: blue first, the mean subtracted, values up to 255. The
    /// weights do not determine size and crop; these are those of torchvision.
    pub fn caffe(short_side: usize, crop: usize) -> Preprocess {
        let (channels, mean) = (Channels::Bgr, [103.939, 116.779, 123.68]);
        Preprocess { channels, scale: 1.0, mean, std: [1.0; 3], ..Preprocess::torchvision(short_side, crop) }
    }

    /// EfficientNet-Lite: bicubic, (x - 127) / 128.
    pub fn efficientnet_lite(size: usize) -> Preprocess {
        let sized = Preprocess::timm(size, 0.875, Filter::Bicubic);
        Preprocess { scale: 1.0, mean: [127.0; 3], std: [128.0; 3], ..sized }
    }

    /// GoogLeNet of Lucent: x - 117.
    pub fn lucent_googlenet(short_side: usize, crop: usize) -> Preprocess {
        Preprocess { scale: 1.0, mean: [117.0; 3], std: [1.0; 3], ..Preprocess::torchvision(short_side, crop) }
    }

    /// The scaling of LPIPS 0.1, which is that of values from -1 to 1; the image keeps its size.
    pub fn lpips() -> Preprocess {
        let (mean, std) = ([1.0 - 0.030, 1.0 - 0.088, 1.0 - 0.188], [0.458, 0.448, 0.450]);
        Preprocess { scale: 2.0 * UNIT, mean, std, ..Preprocess::unit(Resize::None) }
    }

    /// The same with a square crop around the centre.
    pub fn cropped(self, size: usize, rule: CropRule) -> Preprocess {
        Preprocess { crop: Some(CenterCrop { width: size, height: size, rule }), ..self }
    }
}
