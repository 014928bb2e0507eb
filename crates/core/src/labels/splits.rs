//! Partitions of the rows, such as training and test.

use std::collections::BTreeMap;

use super::cells::{cell, column, text};
use crate::error::{Error, InputError, Result};
use crate::input::TextTable;
use crate::store::csv_text;
use etalon_kernel::random::{permutation, stream};

/// Rows in named parts; a row may be in none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partition {
    names: Vec<String>,
    of_row: Vec<Option<u32>>,
}

impl Partition {
    /// Parts by name, and the part of every row.
    pub fn new(names: Vec<String>, of_row: Vec<Option<u32>>) -> Result<Partition> {
        if of_row.iter().flatten().any(|&part| part as usize >= names.len()) {
            return Err(Error::Bug(format!("a row is in a split beyond the {} named", names.len())));
        }
        Ok(Partition { names, of_row })
    }

    /// Random parts of the given shares. With `classes`, every part has its share of every class.
    ///
    /// Rows are shuffled within each class and then assigned one by one, each to the part that is furthest below its
    /// share. So sizes are exact to one row overall and to two rows within a class.
    pub fn random(rows: usize, parts: &[(&str, f64)], classes: Option<&[u32]>, seed: u64) -> Result<Partition> {
        let total: f64 = parts.iter().map(|(_, share)| share).sum();
        if parts.iter().any(|(_, share)| share.is_nan() || *share < 0.0) || !total.is_finite() || total <= 0.0 {
            let shares: Vec<String> = parts.iter().map(|(name, share)| format!("{name} {share}")).collect();
            return Err(InputError::new("invalid shares of a split")
                .expected("numbers from 0, not all of them 0")
                .found(shares.join(", "))
                .advice("use shares such as 0.8 and 0.2")
                .into());
        }
        if let Some(classes) = classes.filter(|classes| classes.len() != rows) {
            return Err(InputError::new("there is not one class label per row")
                .expected(format!("{rows} labels, one per row"))
                .found(format!("{} labels", classes.len()))
                .advice("use labels and rows of the same data")
                .into());
        }
        let mut strata: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        (0..rows).for_each(|row| strata.entry(classes.map_or(0, |classes| classes[row])).or_default().push(row));
        let mut of_row = vec![None; rows];
        let (mut assigned, mut sizes) = (0usize, vec![0usize; parts.len()]);
        for (&class, members) in &strata {
            for member in permutation(members.len(), &mut stream(seed, "labels/splits", u64::from(class))) {
                assigned += 1;
                let behind = |part: usize| parts[part].1 / total * assigned as f64 - sizes[part] as f64;
                let mut next = 0;
                for part in 1..parts.len() {
                    if behind(part) > behind(next) {
                        next = part;
                    }
                }
                sizes[next] += 1;
                of_row[members[member]] = Some(next as u32);
            }
        }
        Ok(Partition { names: parts.iter().map(|(name, _)| name.to_string()).collect(), of_row })
    }

    /// Random folds of equal size: `fold_0`, `fold_1` and so on.
    pub fn folds(rows: usize, folds: usize, classes: Option<&[u32]>, seed: u64) -> Result<Partition> {
        let names: Vec<String> = (0..folds).map(|fold| format!("fold_{fold}")).collect();
        let parts: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
        Partition::random(rows, &parts, classes, seed)
    }

    /// Two random halves: `train` and `test`.
    pub fn halves(rows: usize, classes: Option<&[u32]>, seed: u64) -> Result<Partition> {
        Partition::random(rows, &[("train", 0.5), ("test", 0.5)], classes, seed)
    }

    /// Reads a table with columns `sample` and `split`.
    ///
    /// With ids, every sample of the table must be one of them, and samples that are not in the table are in no split.
    /// Without ids, the rows of the table are the rows of the data in order. Parts are numbered by their first row.
    pub fn from_table(table: &TextTable, ids: Option<&[String]>) -> Result<Partition> {
        let (sample, split) = (column(table, "sample")?, column(table, "split")?);
        let row_of: Option<BTreeMap<&str, usize>> =
            ids.map(|ids| ids.iter().enumerate().map(|(row, id)| (id.as_str(), row)).collect());
        let mut names: Vec<String> = Vec::new();
        let mut of_row = vec![None; ids.map_or(table.cells.len(), <[String]>::len)];
        let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
        for line in 0..table.cells.len() {
            let (id, name) = (text(table, line, sample)?, text(table, line, split)?);
            if let Some(earlier) = seen.insert(id, line) {
                return Err(InputError::new("a sample is listed twice")
                    .expected("every sample once")
                    .found(format!("`{id}`, as in row {earlier}"))
                    .at(cell(table, line, "sample"))
                    .advice("remove one of the two rows")
                    .into());
            }
            let row = match &row_of {
                None => line,
                Some(row_of) => *row_of.get(id).ok_or_else(|| {
                    InputError::new("a split contains a sample that the data do not have")
                        .expected(format!("one of the {} samples", of_row.len()))
                        .found(format!("`{id}`"))
                        .at(cell(table, line, "sample"))
                        .advice("use splits and labels of the same data")
                })?,
            };
            if !name.is_empty() {
                let part = names.iter().position(|other| other == name).unwrap_or_else(|| {
                    names.push(name.to_string());
                    names.len() - 1
                });
                of_row[row] = Some(part as u32);
            }
        }
        Ok(Partition { names, of_row })
    }

    /// The CSV table that [`Partition::from_table`] reads.
    pub fn to_csv(&self, ids: &[String]) -> Result<String> {
        if ids.len() != self.of_row.len() {
            return Err(Error::Bug(format!("{} ids for {} rows of splits", ids.len(), self.of_row.len())));
        }
        let mut lines = vec![vec!["sample".to_string(), "split".to_string()]];
        for (row, id) in ids.iter().enumerate() {
            lines.push(vec![id.clone(), self.name_of(row).unwrap_or_default().to_string()]);
        }
        csv_text(lines)
    }

    /// Number of rows, in a part or not.
    pub fn rows(&self) -> usize {
        self.of_row.len()
    }

    /// The names of the parts.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The name of the part of a row.
    pub fn name_of(&self, row: usize) -> Option<&str> {
        let part = self.of_row.get(row).copied().flatten()?;
        self.names.get(part as usize).map(String::as_str)
    }

    /// The rows of a part, ascending.
    pub fn part(&self, name: &str) -> Result<Vec<usize>> {
        let part = self.names.iter().position(|other| other == name).ok_or_else(|| {
            let known = if self.names.is_empty() { "data with splits".into() } else { self.names.join(", ") };
            InputError::new(format!("there is no split `{name}`"))
                .expected(known)
                .found(format!("`{name}`"))
                .advice("check the name of the split")
        })?;
        Ok((0..self.of_row.len()).filter(|&row| self.of_row[row] == Some(part as u32)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(lines: &[(&str, &str)]) -> TextTable {
        let cells = lines.iter().map(|(id, split)| vec![id.to_string(), split.to_string()]).collect();
        TextTable { header: vec!["sample".into(), "split".into()], cells, ..TextTable::default() }
    }

    #[test]
    fn folds_cover_every_row_once_and_have_equal_sizes() {
        for (rows, folds) in [(0, 3), (1, 3), (10, 3), (1000, 7)] {
            let splits = Partition::folds(rows, folds, None, 4).unwrap();
            let sizes: Vec<usize> = splits.names().iter().map(|name| splits.part(name).unwrap().len()).collect();
            assert_eq!(sizes.iter().sum::<usize>(), rows);
            assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{sizes:?}");
        }
    }

    #[test]
    fn every_part_has_its_share_of_every_class() {
        // 40 classes of 25 rows, 85 % : 15 % leaves 21.25 and 3.75 of each.
        let classes: Vec<u32> = (0..1000).map(|row| row % 40).collect();
        let splits = Partition::random(1000, &[("train", 0.85), ("val", 0.15)], Some(&classes), 1).unwrap();
        let train = splits.part("train").unwrap();
        assert_eq!(train.len(), 850);
        for class in 0..40 {
            let count = train.iter().filter(|&&row| classes[row] == class).count();
            assert!((20..=23).contains(&count), "class {class}: {count}");
        }
    }

    #[test]
    fn partitions_depend_on_the_seed() {
        let halves = |seed| Partition::halves(100, None, seed).unwrap();
        assert_eq!(halves(1), halves(1));
        assert_ne!(halves(1), halves(2));
        assert_eq!(halves(1).part("train").unwrap().len(), 50);
    }

    #[test]
    fn invalid_shares_are_refused() {
        assert!(Partition::folds(3, 0, None, 0).is_err());
        assert!(Partition::random(3, &[("a", -1.0), ("b", 2.0)], None, 0).is_err());
        assert!(Partition::random(3, &[("a", f64::NAN)], None, 0).is_err());
        assert!(Partition::halves(3, Some(&[0, 1]), 0).is_err());
        assert!(Partition::halves(3, None, 0).unwrap().part("valid").unwrap_err().to_string().contains("train, test"));
    }

    #[test]
    fn tables_are_read_and_written() {
        let ids: Vec<String> = ["a", "b", "c"].map(String::from).to_vec();
        let splits = Partition::from_table(&table(&[("c", "test"), ("a", "train")]), Some(&ids)).unwrap();
        assert_eq!(splits.name_of(0), Some("train"));
        assert_eq!(splits.name_of(1), None);
        assert_eq!(splits.part("test").unwrap(), [2]);
        assert_eq!(splits.to_csv(&ids).unwrap(), "sample,split\na,train\nb,\nc,test\n");
        assert!(Partition::from_table(&table(&[("d", "test")]), Some(&ids)).unwrap_err().to_string().contains("`d`"));
        assert!(
            Partition::from_table(&table(&[("a", "x"), ("a", "y")]), None).unwrap_err().to_string().contains("twice")
        );
        assert_eq!(Partition::from_table(&table(&[("p", "x"), ("q", "y")]), None).unwrap().part("y").unwrap(), [1]);
    }
}
