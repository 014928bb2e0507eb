//! CUB-200-2011: birds with 312 attributes, 200 classes and one official split.

use std::path::{Path, PathBuf};

use super::dataset::{Classes, DataSet, check_inside, each_line, numbered_names};
use super::{Annotations, Label, Partition};
use crate::context::Budget;
use crate::error::{Error, InFile, InputError, Result};

/// Reads the directory that holds `images.txt` and `attributes/`.
///
/// `image_attribute_labels.txt` has lines "image attribute present certainty time". Lines of another length are skipped,
/// the last of several lines for one cell counts, and cells without a line are *no*; the notes give the numbers. With `certainty` above 1, cells whose annotator was less certain (1 not visible, 2 guessing, 3 probably,
/// 4 definitely) are *unknown*. Images keep their official order; their files need not exist.
pub fn read_cub(root: &Path, certainty: u8, budget: &Budget) -> Result<DataSet> {
    let list = root.join("images.txt");
    let images = numbered_names(&list)?;
    let images: Vec<String> = images.into_iter().map(|name| format!("images/{name}")).collect();
    for (index, image) in images.iter().enumerate() {
        check_inside(image, &format!("image {}", index + 1)).in_file(&list)?;
    }
    let attributes_list = find_attributes(root)?;
    let attributes = numbered_names(&attributes_list)?;
    let class_names = numbered_names(&root.join("classes.txt"))?;
    let of_image = one_per_image(&root.join("image_class_labels.txt"), images.len(), 1, class_names.len())?;
    let split = one_per_image(&root.join("train_test_split.txt"), images.len(), 0, 1)?;
    let mut notes = Vec::new();
    let labels =
        read_labels(root, attributes, images.len(), certainty, budget, &mut notes).in_file(&attributes_list)?;
    let splits = Partition::new(
        vec!["test".into(), "train".into()],
        split.into_iter().map(|is_training| Some(is_training as u32)).collect(),
    )?;
    let of_image = of_image.into_iter().map(|class| class as u32 - 1).collect();
    let classes = Some(Classes { names: class_names, of_image });
    Ok(DataSet { images, labels, classes, splits: Some(splits), pairs: None, notes })
}

/// The file with the names of the attributes, whose location differs between releases.
fn find_attributes(root: &Path) -> Result<PathBuf> {
    let inside = root.join("attributes/attributes.txt");
    let beside = root.parent().map(|parent| parent.join("attributes.txt"));
    let candidates = [Some(inside.clone()), Some(root.join("attributes.txt")), beside];
    candidates.into_iter().flatten().find(|path| path.is_file()).ok_or_else(|| {
        InputError::new("the names of the attributes are missing")
            .expected("attributes/attributes.txt, or attributes.txt in the data set or its parent directory")
            .advice("copy the file from the download of CUB-200-2011")
            .file(&inside)
            .into()
    })
}

/// Reads lines "image value", every image once, values from `low` to `high`.
fn one_per_image(path: &Path, images: usize, low: usize, high: usize) -> Result<Vec<usize>> {
    let mut values: Vec<Option<usize>> = vec![None; images];
    each_line(path, |line, text| {
        if text.is_empty() {
            return Ok(());
        }
        let wrong = |what: &str| {
            InputError::new(what.to_string())
                .expected(format!("an image from 1 to {images} and a number from {low} to {high}"))
                .found(format!("`{text}`"))
                .at(format!("line {line}"))
                .advice("download the data set again")
                .file(path)
        };
        let numbers: Vec<usize> = text.split_whitespace().filter_map(|part| part.parse().ok()).collect();
        match (&numbers[..], text.split_whitespace().count()) {
            (&[image, value], 2) if (1..=images).contains(&image) && (low..=high).contains(&value) => {
                match values[image - 1].replace(value) {
                    None => Ok(()),
                    Some(_) => Err(wrong("an image is listed twice").into()),
                }
            }
            _ => Err(wrong("a line of the list is invalid").into()),
        }
    })?;
    let missing = |index: usize| {
        InputError::new("an image is not in the list")
            .expected(format!("a line for image {}", index + 1))
            .advice("download the data set again")
            .file(path)
    };
    values.into_iter().enumerate().map(|(index, value)| value.ok_or_else(|| missing(index).into())).collect()
}

fn read_labels(
    root: &Path,
    attributes: Vec<String>,
    images: usize,
    certainty: u8,
    budget: &Budget,
    notes: &mut Vec<String>,
) -> Result<Annotations> {
    let path = root.join("attributes/image_attribute_labels.txt");
    let width = attributes.len();
    let cells =
        images.checked_mul(width).ok_or_else(|| Error::Bug(format!("{images} images of {width} attributes")))?;
    let _memory = budget.reserve(cells as u64, "the attributes of the images")?;
    let mut read: Vec<Option<Label>> = vec![None; cells];
    let (mut skipped, mut repeated) = (0usize, 0usize);
    each_line(&path, |line, text| {
        let mut words = text.split_ascii_whitespace();
        let fields = [(); 5].map(|()| words.next());
        let ([Some(image), Some(attribute), Some(present), Some(certain), Some(_)], None) = (fields, words.next())
        else {
            skipped += usize::from(!text.is_empty());
            return Ok(());
        };
        let number = |text: &str, low: usize, high: usize| {
            text.parse::<usize>().ok().filter(|number| (low..=high).contains(number))
        };
        let parsed =
            (number(image, 1, images), number(attribute, 1, width), number(present, 0, 1), number(certain, 1, 4));
        let (Some(image), Some(attribute), Some(present), Some(certain)) = parsed else {
            return Err(InputError::new("an attribute label is invalid")
                .expected(format!(
                    "image 1 to {images}, attribute 1 to {width}, present 0 or 1, certainty 1 to 4, and a time"
                ))
                .found(format!("`{text}`"))
                .at(format!("line {line}"))
                .advice("download the data set again")
                .file(&path)
                .into());
        };
        let label = match present {
            _ if certain < usize::from(certainty) => Label::Unknown,
            1 => Label::Yes,
            _ => Label::No,
        };
        repeated += usize::from(read[(image - 1) * width + attribute - 1].replace(label).is_some());
        Ok(())
    })?;
    let missing = read.iter().filter(|cell| cell.is_none()).count();
    for (count, what) in [
        (skipped, "lines of attribute labels do not have five fields and were skipped"),
        (repeated, "attribute labels are given more than once; the last counts"),
        (missing, "attribute labels are not given and count as absent"),
    ] {
        if count > 0 {
            notes.push(format!("{count} {what}"));
        }
    }
    Annotations::new(attributes, images, |row, concept| read[row * width + concept].unwrap_or(Label::No))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Concept;

    /// Three images, two attributes, two classes.
    fn make() -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        std::fs::create_dir(directory.path().join("attributes")).unwrap();
        write("images.txt", "1 001.Gull/a.jpg\n2 001.Gull/b.jpg\n3 002.Wren/c.jpg\n");
        write("classes.txt", "1 001.Gull\n2 002.Wren\n");
        write("image_class_labels.txt", "1 1\n2 1\n3 2\n");
        write("train_test_split.txt", "1 0\n2 1\n3 1\n");
        write("attributes/attributes.txt", "1 has_bill_shape::hooked\n2 has_wing_color::blue\n");
        write(
            "attributes/image_attribute_labels.txt",
            "1 1 1 4 10.5\n1 2 0 3 1\n2 1 0 1 2\n2 2 1 4 2 9 9\n3 1 0 4 1\n3 1 1 2 1\n3 2 1 3 1.5\n",
        );
        directory
    }

    fn read(directory: &tempfile::TempDir, certainty: u8) -> Result<DataSet> {
        read_cub(directory.path(), certainty, &Budget::new(1 << 20))
    }

    #[test]
    fn images_attributes_and_splits_are_read() {
        let data = read(&make(), 1).unwrap();
        assert_eq!(data.images[2], "images/002.Wren/c.jpg");
        assert_eq!(data.labels.name(Concept(1)), "has_wing_color::blue");
        // Image 3 has two lines for attribute 1: the last one is yes.
        assert_eq!(data.labels.yes(Concept(0)).rows().collect::<Vec<_>>(), [0, 2]);
        // The only line of image 2 and attribute 2 has seven fields: it is skipped, so the attribute is absent.
        assert_eq!(data.labels.yes(Concept(1)).rows().collect::<Vec<_>>(), [2]);
        assert_eq!(data.labels.known(Concept(1)).count(), 3);
        assert_eq!(data.notes.len(), 3);
        assert_eq!(data.classes.unwrap().of_image, [0, 0, 1]);
        assert_eq!(data.splits.unwrap().part("train").unwrap(), [1, 2]);
    }

    #[test]
    fn uncertain_labels_can_be_unknown() {
        let labels = read(&make(), 3).unwrap().labels;
        assert_eq!(labels.label(1, Concept(0)), Label::Unknown);
        assert_eq!(labels.label(2, Concept(0)), Label::Unknown);
        assert_eq!(labels.label(0, Concept(1)), Label::No);
    }

    #[test]
    fn errors_state_the_position() {
        for (name, text, part) in [
            ("images.txt", "1 a.jpg\n3 c.jpg\n", "number 2"),
            ("images.txt", "1 ../a.jpg\n2 b.jpg\n3 c.jpg\n", "leads out"),
            ("image_class_labels.txt", "1 1\n2 1\n3 3\n", "line 3"),
            ("image_class_labels.txt", "1 1\n2 1\n", "image 3"),
            ("image_class_labels.txt", "1 1\n2 1\n2 1\n", "twice"),
            ("train_test_split.txt", "1 0\n2 1\n3 2\n", "line 3"),
            ("train_test_split.txt", "1 0\n2 1 1\n3 2\n", "line 2"),
            ("attributes/image_attribute_labels.txt", "1 1 1 4 1\n1 3 1 4 1\n", "line 2"),
            ("attributes/image_attribute_labels.txt", "4 1 1 4 1\n", "line 1"),
            ("attributes/image_attribute_labels.txt", "1 1 2 4 1\n", "line 1"),
            ("attributes/image_attribute_labels.txt", "1 1 1 5 1\n", "line 1"),
        ] {
            let directory = make();
            std::fs::write(directory.path().join(name), text).unwrap();
            let error = read(&directory, 1).unwrap_err().to_string();
            assert!(error.contains(part), "{name}: {error}");
        }
        let directory = make();
        std::fs::remove_file(directory.path().join("attributes/attributes.txt")).unwrap();
        assert!(read(&directory, 1).unwrap_err().to_string().contains("attributes"));
        std::fs::write(directory.path().join("attributes.txt"), "1 a\n2 b\n").unwrap();
        assert_eq!(read(&directory, 1).unwrap().labels.names(), ["a", "b"]);
        assert!(matches!(read_cub(directory.path(), 1, &Budget::new(3)), Err(Error::Memory { .. })));
    }
}
