//! synCUB: pairs of birds that differ in one attribute, in the layout of its public export.

use std::collections::BTreeSet;
use std::path::Path;

use super::dataset::{Classes, DataSet, indices, numbered_names, whole};
use super::edited_pairs::{EditedPairs, PairLines};
use crate::context::Budget;
use crate::error::{InFile, InputError, Result};
use crate::input::{TextTable, read_table};

/// Number of classes of birds; pairs refer to them from 1.
const CLASSES: usize = 200;

/// Reads the directory that holds `metadata.csv`, `attributes.txt` and `images/`, and checks that its files agree.
///
/// Image 2·i is the original of pair i and image 2·i + 1 its edited copy, which has the new attribute in place of the
/// old. Classes without pairs are named by their number.
pub fn read_syncub(root: &Path, budget: &Budget) -> Result<DataSet> {
    let metadata = root.join("metadata.csv");
    let attributes_list = root.join("attributes.txt");
    let attributes = numbered_names(&attributes_list)?;
    let table = read_table(&metadata, budget)?;
    let read = read_pairs(&table, &attributes).in_file(&metadata)?;
    // An error of the labels is one of the list of attributes; errors of images name the metadata.
    let (images, labels, pairs) = read.edited.finish(attributes, root, &table, &metadata).in_file(&attributes_list)?;
    let names = read.class_names.into_iter().enumerate();
    let names = names.map(|(index, name)| name.unwrap_or_else(|| format!("class_{}", index + 1))).collect();
    Ok(DataSet {
        images,
        labels,
        classes: Some(Classes { names, of_image: read.classes }),
        splits: None,
        pairs: Some(pairs),
        notes: Vec::new(),
    })
}

/// The pairs, with the class of every image.
struct BirdPairs {
    edited: EditedPairs,
    classes: Vec<u32>,
    class_names: Vec<Option<String>>,
}

const COLUMNS: [&str; 11] = [
    "pair_id",
    "orig_image",
    "syn_image",
    "class_id",
    "class_name",
    "old_attr",
    "new_attr",
    "old_attr_idx",
    "new_attr_idx",
    "orig_attr_idx",
    "syn_attr_idx",
];

fn read_pairs(table: &TextTable, attributes: &[String]) -> Result<BirdPairs> {
    let mut lines = PairLines::new(table, COLUMNS)?;
    let mut read = BirdPairs { edited: EditedPairs::default(), classes: Vec::new(), class_names: vec![None; CLASSES] };
    for row in 0..table.cells.len() {
        let [_, original, edited, class, class_name, old_name, new_name, old, new, before, after] = lines.cells(row)?;
        let at = |index: usize| lines.at(row, index);
        let class = whole(class, 1, CLASSES, &at(3))?;
        let known = read.class_names[class - 1].get_or_insert_with(|| class_name.to_string());
        if known != class_name {
            return Err(InputError::new("a class has two names")
                .expected(format!("`{known}`, as for class {class} before"))
                .found(format!("`{class_name}`"))
                .at(at(4))
                .advice("download the data set again")
                .into());
        }
        let mut changed = [0; 2];
        for (side, (number, name)) in [(old, old_name), (new, new_name)].into_iter().enumerate() {
            changed[side] = whole(number, 0, attributes.len().saturating_sub(1), &at(7 + side))?;
            let expected = attributes.get(changed[side]).map_or("", String::as_str);
            if expected != name {
                return Err(InputError::new("the name and the number of an attribute disagree")
                    .expected(format!("`{expected}`, attribute {} counted from 0", changed[side]))
                    .found(format!("`{name}`"))
                    .at(at(5 + side))
                    .advice("download the data set again")
                    .into());
            }
        }
        let [old, new] = changed;
        let before = indices(before, attributes.len(), &at(9))?;
        let after = indices(after, attributes.len(), &at(10))?;
        let differ: Vec<usize> = before.symmetric_difference(&after).copied().collect();
        let stated = BTreeSet::from([old, new]);
        if old == new || !differ.iter().eq(&stated) || !before.contains(&old) || !after.contains(&new) {
            return Err(InputError::new("a pair does not differ in exactly the two attributes it names")
                .expected(format!("attribute {old} only before the edit, attribute {new} only after it"))
                .found(format!("attributes that differ: {differ:?}"))
                .at(at(9))
                .advice("download the data set again")
                .into());
        }
        read.edited.push([original, edited], [before, after], [Some(new), Some(old)]);
        read.classes.extend([class as u32 - 1; 2]);
    }
    Ok(read)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Concept, Pair};

    const GOOD: &str = "pair_id,orig_image,syn_image,class_id,class_name,old_attr,new_attr,\
        old_attr_idx,new_attr_idx,orig_attr_idx,syn_attr_idx\n\
        000000,images/000000_orig.jpg,images/000000_syn.png,14,Bunting,blue,red,0,1,\"[0, 2]\",\"[1, 2]\"\n\
        000001,images/000001_orig.jpg,images/000001_syn.jpg,14,Bunting,hooked,blue,2,0,\"[1, 2]\",\"[0, 1]\"\n";

    fn make(metadata: &str) -> tempfile::TempDir {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("images")).unwrap();
        for image in ["000000_orig.jpg", "000000_syn.png", "000001_orig.jpg", "000001_syn.jpg"] {
            std::fs::write(directory.path().join("images").join(image), b"").unwrap();
        }
        std::fs::write(directory.path().join("attributes.txt"), "1 blue\n2 red\n3 hooked\n").unwrap();
        std::fs::write(directory.path().join("metadata.csv"), metadata).unwrap();
        directory
    }

    fn read(directory: &tempfile::TempDir) -> Result<DataSet> {
        read_syncub(directory.path(), &Budget::new(1 << 20))
    }

    #[test]
    fn reads_pairs_in_order() {
        let data = read(&make(GOOD)).unwrap();
        assert_eq!(data.images[1], "images/000000_syn.png");
        assert_eq!(data.labels.yes(Concept(0)).rows().collect::<Vec<_>>(), [0, 3]);
        let pairs = data.pairs.unwrap();
        assert_eq!(pairs.pairs[1], Pair { before: 2, after: 3, added: Some(Concept(0)), removed: Some(Concept(2)) });
        pairs.check(data.labels.rows(), data.labels.concepts()).unwrap();
        let classes = data.classes.unwrap();
        assert_eq!((classes.of_image[0], classes.names[13].as_str()), (13, "Bunting"));
        assert_eq!(classes.names[0], "class_1");
    }

    #[test]
    fn contradictions_are_refused() {
        for (from, to, part) in [
            ("000001,images", "000000,images", "same id"),
            (",14,Bunting,hooked", ",201,Bunting,hooked", "1 to 200"),
            (",14,Bunting,hooked", ",14,Wren,hooked", "two names"),
            ("hooked,blue,2,0", "hooked,blue,3,0", "0 to 2"),
            ("hooked,blue,2,0", "hooked,red,2,0", "disagree"),
            ("\"[0, 1]\"", "\"[0, 1, 2]\"", "exactly the two"),
            ("\"[0, 1]\"", "\"[1, 2]\"", "exactly the two"),
            ("\"[1, 2]\",\"[0, 1]\"", "\"[0, 1]\",\"[1, 2]\"", "exactly the two"),
            ("\"[0, 1]\"", "\"[0, 3]\"", "below 3"),
            ("\"[0, 1]\"", "\"[0, 0]\"", "different"),
            ("images/000001_syn.jpg", "images/000001_orig.jpg", "used twice"),
            ("images/000001_syn.jpg", "images/000002_syn.jpg", "missing"),
            ("images/000001_syn.jpg", "../000001_syn.jpg", "leads out"),
            ("syn_attr_idx", "syn_attributes", "no column `syn_attr_idx`"),
        ] {
            let error = read(&make(&GOOD.replacen(from, to, 1))).unwrap_err().to_string();
            assert!(error.contains(part), "{from}: {error}");
        }
        let directory = make(GOOD);
        std::fs::write(directory.path().join("images/zzz.jpg"), b"").unwrap();
        assert!(read(&directory).unwrap_err().to_string().contains("images/zzz.jpg"));
    }
}
