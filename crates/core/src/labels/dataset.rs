//! The type of a data set, and the checks that its readers share.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::{Component, Path};

use super::cells::cell;
use super::{Annotations, PairSet, Partition};
use crate::error::{Error, InFile, InputError, Result};
use crate::input::{TextTable, open_regular};

/// Images with their annotations, all in the same order.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct DataSet {
    /// The files, relative to the root of the data set.
    pub images: Vec<String>,
    /// Concepts × images.
    pub labels: Annotations,
    /// One class per image, if the data set has classes.
    pub classes: Option<Classes>,
    /// The official splits, if there are any.
    pub splits: Option<Partition>,
    /// Pairs of images that differ in one concept, if it consists of pairs.
    pub pairs: Option<PairSet>,
    /// Remarks for the user: lines that were skipped, cells that were filled in.
    pub notes: Vec<String>,
}

/// One class per image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Classes {
    /// The names of the classes.
    pub names: Vec<String>,
    /// The class of every image, as an index of `names`.
    pub of_image: Vec<u32>,
}

/// Calls a function with every line of a text file and its number, from 1. Does not load the whole file.
pub(super) fn each_line(path: &Path, mut line: impl FnMut(usize, &str) -> Result<()>) -> Result<()> {
    let mut reader = BufReader::with_capacity(1 << 18, open_regular(path)?.0);
    let mut bytes = Vec::new();
    for number in 1.. {
        bytes.clear();
        if reader.read_until(b'\n', &mut bytes).map_err(Error::io("read a list", path))? == 0 {
            break;
        }
        let text = std::str::from_utf8(&bytes).map_err(|_| {
            InputError::new("a line is not text")
                .expected("UTF-8")
                .at(format!("line {number}"))
                .advice("save the file as UTF-8, or download it again")
                .file(path)
        })?;
        line(number, text.trim_end())?;
    }
    Ok(())
}

/// Reads lines of a number and a name. The numbers must be 1, 2, 3 and so on, each once, in any order.
pub(super) fn numbered_names(path: &Path) -> Result<Vec<String>> {
    let mut names: Vec<(usize, String, usize)> = Vec::new();
    each_line(path, |line, text| {
        if text.is_empty() {
            return Ok(());
        }
        let wrong = || {
            InputError::new("a line of the list of names is invalid")
                .expected("a number from 1, a space, a name")
                .found(format!("`{text}`"))
                .at(format!("line {line}"))
                .advice("download the data set again")
                .file(path)
        };
        let (number, name) = text.split_once(char::is_whitespace).ok_or_else(wrong)?;
        let number = number.parse::<usize>().ok().filter(|&number| number > 0).ok_or_else(wrong)?;
        names.push((number, name.trim().to_string(), line));
        Ok(())
    })?;
    names.sort();
    for (index, (number, _, line)) in names.iter().enumerate() {
        if *number != index + 1 {
            return Err(InputError::new("a list of names skips or repeats a number")
                .expected(format!("number {}", index + 1))
                .found(format!("number {number}"))
                .at(format!("line {line}"))
                .advice("download the data set again")
                .file(path)
                .into());
        }
    }
    Ok(names.into_iter().map(|(_, name, _)| name).collect())
}

/// Refuses a file name that leads out of its directory.
pub(super) fn check_inside(name: &str, position: &str) -> Result<()> {
    let inside = !name.is_empty() && Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    if inside {
        return Ok(());
    }
    Err(InputError::new("a file name leads out of the data set")
        .expected("a path relative to the data set")
        .found(format!("`{name}`"))
        .at(position)
        .advice("do not use this data set: it may be malicious")
        .into())
}

/// Checks that the images of the pairs exist, each used once, and that `images/` contains no other files. Images 2·i and
/// 2·i + 1 belong to row i of the metadata.
pub(super) fn check_pair_images(root: &Path, images: &[String], table: &TextTable, metadata: &Path) -> Result<()> {
    let mut named = BTreeSet::new();
    for (index, image) in images.iter().enumerate() {
        let at = cell(table, index / 2, if index % 2 == 0 { "orig_image" } else { "syn_image" });
        check_inside(image, &at).in_file(metadata)?;
        if !named.insert(image.as_str()) {
            return Err(InputError::new("an image is used twice")
                .expected("every image in one pair")
                .found(format!("`{image}`"))
                .at(at)
                .advice("download the data set again")
                .file(metadata)
                .into());
        }
        if !root.join(image).is_file() {
            return Err(InputError::new("an image is missing")
                .expected(format!("a file `{image}`"))
                .at(at)
                .advice("download the data set again")
                .file(metadata)
                .into());
        }
    }
    let folder = root.join("images");
    let mut files: Vec<String> = Vec::new();
    for entry in std::fs::read_dir(&folder).map_err(Error::io("list the images", &folder))? {
        let entry = entry.map_err(Error::io("list the images", &folder))?;
        if entry.path().is_file() {
            files.push(format!("images/{}", entry.file_name().to_string_lossy()));
        }
    }
    files.sort();
    if let Some(extra) = files.iter().find(|file| !named.contains(file.as_str())) {
        return Err(InputError::new("a file is in no pair")
            .expected("only images that the metadata list")
            .found(format!("`{extra}`"))
            .advice("remove it, or use the metadata that belong to these images")
            .file(metadata)
            .into());
    }
    Ok(())
}

/// Reads a list such as `[7, 17]` of different indices below `limit`.
pub(super) fn indices(text: &str, limit: usize, at: &str) -> Result<BTreeSet<usize>> {
    let wrong = |found: &str| {
        InputError::new("a list of concepts is invalid")
            .expected(format!("different whole numbers below {limit}, as in `[7, 17]`"))
            .found(format!("`{found}`"))
            .at(at)
            .advice("fix the cell")
    };
    let inner = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']')).ok_or_else(|| wrong(text))?;
    let mut set = BTreeSet::new();
    for part in inner.split(',').map(str::trim).filter(|_| !inner.trim().is_empty()) {
        let index = part.parse::<usize>().ok().filter(|&index| index < limit).ok_or_else(|| wrong(part))?;
        if !set.insert(index) {
            return Err(wrong(part).into());
        }
    }
    Ok(set)
}

/// Reads a whole number from `low` to `high`.
pub(super) fn whole(text: &str, low: usize, high: usize, at: &str) -> Result<usize> {
    text.parse::<usize>().ok().filter(|number| (low..=high).contains(number)).ok_or_else(|| {
        InputError::new("a number is out of range")
            .expected(format!("a whole number from {low} to {high}"))
            .found(format!("`{text}`"))
            .at(at)
            .advice("fix the cell")
            .into()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_refused() {
        assert!(check_inside("images/a.jpg", "").is_ok());
        for name in ["", "../a.jpg", "/etc/passwd", "images/../../a"] {
            assert!(check_inside(name, "line 1").is_err(), "{name}");
        }
    }

    #[test]
    fn lists_of_indices() {
        assert_eq!(indices("[7, 2]", 8, "").unwrap().into_iter().collect::<Vec<_>>(), [2, 7]);
        assert!(indices("[]", 8, "").unwrap().is_empty());
        for text in ["7", "[7", "[8]", "[1, 1]", "[1,,2]", "[-1]", "[a]"] {
            assert!(indices(text, 8, "row 0").is_err(), "{text}");
        }
    }

    #[test]
    fn numbered_names_are_complete() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("names.txt");
        std::fs::write(&file, "2 b c\r\n1 a\n\n").unwrap();
        assert_eq!(numbered_names(&file).unwrap(), ["a", "b c"]);
        for text in ["1 a\n3 c\n", "1 a\n1 b\n", "0 a\n", "a\n", "x a\n"] {
            std::fs::write(&file, text).unwrap();
            assert!(numbered_names(&file).unwrap_err().to_string().contains("line "), "{text}");
        }
        std::fs::write(&file, b"1 \xff\n").unwrap();
        assert!(numbered_names(&file).unwrap_err().to_string().contains("UTF-8"));
    }
}
