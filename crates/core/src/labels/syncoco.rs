//! synCOCO: pairs of scenes from one of which all objects of a category were removed, in the layout of its public export.

use std::path::Path;

use super::dataset::{DataSet, indices, whole};
use super::edited_pairs::{EditedPairs, PairLines};
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::input::{TextTable, read_table};

/// The object categories of COCO by ascending id. The export refers to them by index.
pub const CATEGORIES: [&str; 80] = [
    "person",
    "bicycle",
    "car",
    "motorcycle",
    "airplane",
    "bus",
    "train",
    "truck",
    "boat",
    "traffic light",
    "fire hydrant",
    "stop sign",
    "parking meter",
    "bench",
    "bird",
    "cat",
    "dog",
    "horse",
    "sheep",
    "cow",
    "elephant",
    "bear",
    "zebra",
    "giraffe",
    "backpack",
    "umbrella",
    "handbag",
    "tie",
    "suitcase",
    "frisbee",
    "skis",
    "snowboard",
    "sports ball",
    "kite",
    "baseball bat",
    "baseball glove",
    "skateboard",
    "surfboard",
    "tennis racket",
    "bottle",
    "wine glass",
    "cup",
    "fork",
    "knife",
    "spoon",
    "bowl",
    "banana",
    "apple",
    "sandwich",
    "orange",
    "broccoli",
    "carrot",
    "hot dog",
    "pizza",
    "donut",
    "cake",
    "chair",
    "couch",
    "potted plant",
    "bed",
    "dining table",
    "toilet",
    "tv",
    "laptop",
    "mouse",
    "remote",
    "keyboard",
    "cell phone",
    "microwave",
    "oven",
    "toaster",
    "sink",
    "refrigerator",
    "book",
    "clock",
    "vase",
    "scissors",
    "teddy bear",
    "hair drier",
    "toothbrush",
];

/// Reads the directory that holds `metadata.csv` and `images/`, and checks that its files agree.
///
/// Image 2·i is the original of pair i and image 2·i + 1 the copy without the removed category.
pub fn read_syncoco(root: &Path, budget: &Budget) -> Result<DataSet> {
    let metadata = root.join("metadata.csv");
    let table = read_table(&metadata, budget)?;
    let names = CATEGORIES.map(String::from).to_vec();
    let (images, labels, pairs) = read_pairs(&table).in_file(&metadata)?.finish(names, root, &table, &metadata)?;
    Ok(DataSet { images, labels, classes: None, splits: None, pairs: Some(pairs), notes: Vec::new() })
}

const COLUMNS: [&str; 8] =
    ["pair_id", "orig_image", "syn_image", "coco_idx", "removed_cls_idx", "removed_class", "orig_labels", "syn_labels"];

fn read_pairs(table: &TextTable) -> Result<EditedPairs> {
    let mut lines = PairLines::new(table, COLUMNS)?;
    let mut pairs = EditedPairs::default();
    for row in 0..table.cells.len() {
        let [_, original, edited, source, removed, removed_name, before, after] = lines.cells(row)?;
        let at = |index: usize| lines.at(row, index);
        whole(source, 0, usize::MAX, &at(3))?;
        let removed = whole(removed, 0, CATEGORIES.len() - 1, &at(4))?;
        if CATEGORIES[removed] != removed_name {
            return Err(InputError::new("the name and the number of a category disagree")
                .expected(format!("`{}`, category {removed} counted from 0", CATEGORIES[removed]))
                .found(format!("`{removed_name}`"))
                .at(at(5))
                .advice("download the data set again")
                .into());
        }
        let (before, after) = (indices(before, CATEGORIES.len(), &at(6))?, indices(after, CATEGORIES.len(), &at(7))?);
        let differ: Vec<usize> = before.symmetric_difference(&after).copied().collect();
        if differ != [removed] || !before.contains(&removed) {
            return Err(InputError::new("a pair does not differ in exactly the category it removes")
                .expected(format!("category {removed} only before the edit, everything else on both sides"))
                .found(format!("categories that differ: {differ:?}"))
                .at(at(6))
                .advice("download the data set again")
                .into());
        }
        pairs.push([original, edited], [before, after], [None, Some(removed)]);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Concept, Pair};

    const GOOD: &str = "pair_id,orig_image,syn_image,coco_idx,removed_cls_idx,removed_class,orig_labels,syn_labels\n\
        0,images/000000_orig.jpg,images/000000_syn.jpg,139,16,dog,\"[0, 16]\",[0]\n\
        1,images/000001_orig.jpg,images/000001_syn.jpg,5,79,toothbrush,[79],[]\n";

    fn make(metadata: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("images")).unwrap();
        for image in ["000000_orig.jpg", "000000_syn.jpg", "000001_orig.jpg", "000001_syn.jpg"] {
            std::fs::write(directory.path().join("images").join(image), b"").unwrap();
        }
        std::fs::write(directory.path().join("metadata.csv"), metadata).unwrap();
        directory
    }

    fn read(directory: &tempfile::TempDir) -> Result<DataSet> {
        read_syncoco(directory.path(), &Budget::new(1 << 20))
    }

    #[test]
    fn reads_pairs_in_order() {
        let data = read(&make(GOOD)).unwrap();
        assert_eq!(data.images[3], "images/000001_syn.jpg");
        assert_eq!(data.labels.yes(Concept(0)).rows().collect::<Vec<_>>(), [0, 1]);
        assert_eq!(data.labels.yes(Concept(16)).rows().collect::<Vec<_>>(), [0]);
        let pairs = data.pairs.unwrap();
        assert_eq!(pairs.pairs[1], Pair { before: 2, after: 3, added: None, removed: Some(Concept(79)) });
        pairs.check(data.labels.rows(), data.labels.concepts()).unwrap();
    }

    #[test]
    fn contradictions_are_refused() {
        for (from, to, part) in [
            ("\n1,images", "\n0,images", "same id"),
            ("139,16,dog", "x,16,dog", "out of range"),
            ("139,16,dog", "139,80,dog", "0 to 79"),
            ("139,16,dog", "139,15,dog", "disagree"),
            ("\"[0, 16]\",[0]", "\"[0, 16]\",[1]", "exactly the category"),
            ("\"[0, 16]\",[0]", "\"[0, 16]\",\"[0, 16]\"", "exactly the category"),
            ("\"[0, 16]\",[0]", "[0],\"[0, 16]\"", "exactly the category"),
            ("[79],[]", "[80],[]", "below 80"),
            ("images/000001_syn.jpg", "images/000000_syn.jpg", "used twice"),
            ("images/000001_syn.jpg", "images/000009_syn.jpg", "missing"),
            ("coco_idx", "index", "no column `coco_idx`"),
        ] {
            let error = read(&make(&GOOD.replacen(from, to, 1))).unwrap_err().to_string();
            assert!(error.contains(part), "{from}: {error}");
        }
        let directory = make(GOOD);
        std::fs::write(directory.path().join("images/zzz.jpg"), b"").unwrap();
        assert!(read(&directory).unwrap_err().to_string().contains("images/zzz.jpg"));
    }
}
