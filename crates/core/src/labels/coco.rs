//! COCO: `instances_*.json` as one concept per object category.

use std::collections::BTreeMap;
use std::fmt;
use std::io::BufReader;
use std::path::Path;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::Annotations;
use super::dataset::{DataSet, check_inside};
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::input::open_regular;
use etalon_kernel::bits::Bits;

/// Reads an instances file: images with at least one annotation, by ascending id; categories by ascending id.
///
/// Crowd annotations count. Annotations with a box of no width or height, or with an empty outline, are skipped (an image
/// that has no others stays, without concepts). Outlines, nearly all of the file, are never kept in memory.
pub fn read_coco(instances: &Path, budget: &Budget) -> Result<DataSet> {
    let (file, length) = open_regular(instances)?;
    // An image or annotation takes less memory than its text.
    let _memory = budget.reserve(length.saturating_mul(2).min(2 << 30), "the instances of COCO")?;
    let parsed: Instances = serde_json::from_reader(BufReader::with_capacity(1 << 18, file)).map_err(|error| {
        InputError::new("the file is not an instances file of COCO")
            .expected("JSON with `images`, `annotations` and `categories`")
            .found(error)
            .advice("use a file such as instances_val2017.json")
            .file(instances)
    })?;
    build(parsed).in_file(instances)
}

fn build(parsed: Instances) -> Result<DataSet> {
    let repeated = |what: &str, id: u64| {
        InputError::new(format!("two {what} have the same id"))
            .expected("unique ids")
            .found(id)
            .advice("download the file again")
    };
    let mut categories: BTreeMap<u64, String> = BTreeMap::new();
    for category in parsed.categories {
        if categories.insert(category.id, category.name).is_some() {
            return Err(repeated("categories", category.id).into());
        }
    }
    let mut files: BTreeMap<u64, String> = BTreeMap::new();
    for image in parsed.images {
        check_inside(&image.file_name, &format!("image {}", image.id))?;
        if files.insert(image.id, image.file_name).is_some() {
            return Err(repeated("images", image.id).into());
        }
    }
    let concept_of: BTreeMap<u64, usize> = categories.keys().enumerate().map(|(index, &id)| (id, index)).collect();
    let mut row_of: BTreeMap<u64, usize> = BTreeMap::new();
    for (index, annotation) in parsed.annotations.iter().enumerate() {
        let missing = |what: &str, id: u64| {
            InputError::new(format!("an annotation refers to {what} that is not in the file"))
                .expected(format!("the id of {what} in the file"))
                .found(id)
                .at(format!("annotation {index}, counted from 0"))
                .advice("download the file again")
        };
        if !files.contains_key(&annotation.image_id) {
            return Err(missing("an image", annotation.image_id).into());
        }
        if !concept_of.contains_key(&annotation.category_id) {
            return Err(missing("a category", annotation.category_id).into());
        }
        row_of.insert(annotation.image_id, 0);
    }
    row_of.values_mut().enumerate().for_each(|(row, slot)| *slot = row);
    let mut yes = vec![Bits::empty(row_of.len()); categories.len()];
    let mut skipped = 0usize;
    for annotation in &parsed.annotations {
        match (concept_of.get(&annotation.category_id), row_of.get(&annotation.image_id)) {
            (Some(&concept), Some(&row)) if annotation.is_valid() => yes[concept].insert(row),
            _ => skipped += 1,
        }
    }
    let mut notes = Vec::new();
    if skipped > 0 {
        notes.push(format!("{skipped} annotations have an empty box or outline and were skipped"));
    }
    let bare = files.len() - row_of.len();
    if bare > 0 {
        notes.push(format!("{bare} images have no annotation and were skipped"));
    }
    let labels = Annotations::from_yes(categories.into_values().collect(), row_of.len(), yes)?;
    let images = files.into_iter().filter(|(id, _)| row_of.contains_key(id)).map(|(_, file)| file).collect();
    Ok(DataSet { images, labels, classes: None, splits: None, pairs: None, notes })
}

#[derive(Deserialize)]
struct Instances {
    images: Vec<Image>,
    annotations: Vec<Annotation>,
    categories: Vec<Category>,
}

#[derive(Deserialize)]
struct Image {
    id: u64,
    file_name: String,
}

#[derive(Deserialize)]
struct Category {
    id: u64,
    name: String,
}

#[derive(Deserialize)]
struct Annotation {
    image_id: u64,
    category_id: u64,
    bbox: [f64; 4],
    #[serde(default)]
    segmentation: Outline,
}

impl Annotation {
    fn is_valid(&self) -> bool {
        self.bbox[2] > 0.0 && self.bbox[3] > 0.0 && self.segmentation.0
    }
}

/// True unless the outline is empty. Its points are not kept. In a file without outlines all are true.
struct Outline(bool);

impl Default for Outline {
    fn default() -> Outline {
        Outline(true)
    }
}

impl<'de> Deserialize<'de> for Outline {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Outline, D::Error> {
        deserializer.deserialize_any(OutlineVisitor)
    }
}

struct OutlineVisitor;

impl<'de> Visitor<'de> for OutlineVisitor {
    type Value = Outline;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of polygons or a run-length mask")
    }

    fn visit_unit<E>(self) -> std::result::Result<Outline, E> {
        Ok(Outline(true))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut polygons: A) -> std::result::Result<Outline, A::Error> {
        let mut points = false;
        while let Some(polygon) = polygons.next_element::<Polygon>()? {
            points |= polygon.0;
        }
        Ok(Outline(points))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut mask: A) -> std::result::Result<Outline, A::Error> {
        while mask.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Outline(true))
    }
}

/// True if the polygon has points.
struct Polygon(bool);

impl<'de> Deserialize<'de> for Polygon {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Polygon, D::Error> {
        struct Points;
        impl<'de> Visitor<'de> for Points {
            type Value = Polygon;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "a list of coordinates")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut points: A) -> std::result::Result<Polygon, A::Error> {
                let mut any = false;
                while points.next_element::<IgnoredAny>()?.is_some() {
                    any = true;
                }
                Ok(Polygon(any))
            }
        }
        deserializer.deserialize_seq(Points)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Concept;

    const GOOD: &str = r#"{"info": {"year": 2017}, "licenses": [],
        "images": [{"id": 9, "file_name": "b.jpg", "height": 2}, {"id": 4, "file_name": "a.jpg"},
                   {"id": 7, "file_name": "c.jpg"},
                   {"id": 5, "file_name": "d.jpg"}],
        "annotations": [
            {"id": 1, "image_id": 9, "category_id": 18, "bbox": [0, 0, 2.5, 1], "iscrowd": 0,
             "segmentation": [[1, 2, 3]]},
            {"id": 2, "image_id": 9, "category_id": 3, "bbox": [0, 0, 1, 1], "iscrowd": 1,
             "segmentation": {"counts": [3], "size": [1, 3]}},
            {"id": 3, "image_id": 4, "category_id": 3, "bbox": [0, 0, 1, 1]},
            {"id": 4, "image_id": 4, "category_id": 18, "bbox": [0, 0, 0, 1], "segmentation": [[1]]},
            {"id": 5, "image_id": 5, "category_id": 18, "bbox": [0, 0, 1, 1], "segmentation": [[]]}],
        "categories": [{"id": 18, "name": "dog"}, {"id": 3, "name": "car", "supercategory": "vehicle"}]}"#;

    fn read(text: &str) -> Result<DataSet> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("instances.json");
        std::fs::write(&file, text).unwrap();
        read_coco(&file, &Budget::new(1 << 20))
    }

    #[test]
    fn images_and_categories_are_read() {
        let data = read(GOOD).unwrap();
        // Image 7 has no annotation; image 5 has only an empty outline; the box of annotation 4 has no width.
        assert_eq!(data.images, ["a.jpg", "d.jpg", "b.jpg"]);
        assert_eq!(data.labels.names(), ["car", "dog"]);
        assert_eq!(data.labels.yes(Concept(0)).rows().collect::<Vec<_>>(), [0, 2]);
        assert_eq!(data.labels.yes(Concept(1)).rows().collect::<Vec<_>>(), [2]);
        assert_eq!(data.labels.known(Concept(1)).count(), 3);
        assert_eq!(data.notes.len(), 2);
    }

    #[test]
    fn invalid_files_are_refused() {
        for (from, to, part) in [
            ("\"image_id\": 5", "\"image_id\": 6", "annotation 4"),
            ("\"category_id\": 18, \"bbox\": [0, 0, 2.5", "\"category_id\": 1, \"bbox\": [0, 0, 2.5", "a category"),
            ("\"id\": 7", "\"id\": 9", "same id"),
            ("{\"id\": 18,", "{\"id\": 3,", "same id"),
            ("b.jpg", "../b.jpg", "leads out"),
            ("\"car\"", "\"dog\"", "same name"),
            ("[0, 0, 2.5, 1]", "[0, 0, 2.5]", "line "),
            ("\"categories\"", "\"kinds\"", "categories"),
        ] {
            let error = read(&GOOD.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(part) && error.contains("file:"), "{from}: {error}");
        }
        assert!(read(&GOOD[..200]).is_err());
    }
}
