//! Pairs of rows that differ in known concepts, from tables and back to CSV.

use std::collections::BTreeMap;

use super::Concept;
use super::cells::{cell, column, text};
use crate::error::{InputError, Result};
use crate::input::TextTable;
use crate::store::csv_text;

/// Two rows that differ in the concept that was added and the one that was removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// The row before the change.
    pub before: usize,
    /// The row after it.
    pub after: usize,
    /// The concept that `after` has and `before` has not.
    pub added: Option<Concept>,
    /// The concept that `before` has and `after` has not.
    pub removed: Option<Concept>,
}

/// Pairs in a fixed order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PairSet {
    /// The pairs.
    pub pairs: Vec<Pair>,
}

impl PairSet {
    /// Checks that rows and concepts of every pair exist, and that every pair has a change.
    pub fn check(&self, rows: usize, concepts: usize) -> Result<()> {
        for (index, pair) in self.pairs.iter().enumerate() {
            for (side, row) in [("before", pair.before), ("after", pair.after)] {
                if row >= rows {
                    return Err(InputError::new("a pair names a row that the codes do not have")
                        .expected(format!("a row below {rows}"))
                        .found(row)
                        .at(format!("pair {index}, column `{side}`"))
                        .advice("count rows from 0, in the codes of the pairs")
                        .into());
                }
            }
            for (side, concept) in [("added", pair.added), ("removed", pair.removed)] {
                if let Some(concept) = concept.filter(|concept| concept.0 as usize >= concepts) {
                    return Err(InputError::new("a pair names a concept that the labels do not have")
                        .expected(format!("a concept below {concepts}"))
                        .found(concept.0)
                        .at(format!("pair {index}, column `{side}`"))
                        .advice("use labels and pairs of the same data")
                        .into());
                }
            }
            if pair.added.is_none() && pair.removed.is_none() {
                return Err(InputError::new("a pair changes nothing")
                    .expected("a concept in `added`, in `removed`, or in both")
                    .found("both empty")
                    .at(format!("pair {index}"))
                    .advice("fix or remove the pair")
                    .into());
            }
        }
        Ok(())
    }

    /// The content address.
    pub fn id(&self) -> String {
        let mut hash = blake3::Hasher::new();
        for pair in &self.pairs {
            let concept = |concept: Option<Concept>| concept.map_or(u64::MAX, |concept| u64::from(concept.0));
            for part in [pair.before as u64, pair.after as u64, concept(pair.added), concept(pair.removed)] {
                hash.update(&part.to_le_bytes());
            }
        }
        format!("blake3:{}", hash.finalize().to_hex())
    }

    /// Reads a table with columns `before`, `after`, `added`, `removed`; other columns are ignored.
    ///
    /// Rows are counted from 0. A concept is given by its name, if there are names, or by its index from 0; a name that
    /// looks like a number is matched as a name first. Either of `added` and `removed` may be empty or missing.
    pub fn from_table(table: &TextTable, names: Option<&[String]>) -> Result<PairSet> {
        let sides = [("before", column(table, "before")?), ("after", column(table, "after")?)];
        let changes = [("added", column(table, "added").ok()), ("removed", column(table, "removed").ok())];
        if changes.iter().all(|(_, column)| column.is_none()) {
            column(table, "added")?;
        }
        let by_name: Option<BTreeMap<&str, u32>> =
            names.map(|names| names.iter().enumerate().map(|(index, name)| (name.trim(), index as u32)).collect());
        let row_number = |row: usize, (name, column): (&str, usize)| -> Result<usize> {
            let text = text(table, row, column)?;
            text.parse().map_err(|_| {
                InputError::new("a pair has no valid row number")
                    .expected("a row number, counted from 0")
                    .found(format!("`{text}`"))
                    .at(cell(table, row, name))
                    .advice("give the index of the row in the codes of the pairs")
                    .into()
            })
        };
        let concept = |row: usize, (name, column): (&str, Option<usize>)| -> Result<Option<Concept>> {
            let Some(column) = column else { return Ok(None) };
            let text = text(table, row, column)?;
            if text.is_empty() {
                return Ok(None);
            }
            if let Some(&concept) = by_name.as_ref().and_then(|by_name| by_name.get(text)) {
                return Ok(Some(Concept(concept)));
            }
            let number = text.parse::<u32>().ok();
            if let Some(number) = number.filter(|&number| names.is_none_or(|names| (number as usize) < names.len())) {
                return Ok(Some(Concept(number)));
            }
            let expected = match names {
                None => "the number of a concept, counted from 0".to_string(),
                Some(names) => format!("the name of a concept of the labels, or its number below {}", names.len()),
            };
            Err(InputError::new("a pair names a concept that the labels do not have")
                .expected(expected)
                .found(format!("`{text}`"))
                .at(cell(table, row, name))
                .advice("use labels and pairs of the same data, or give concepts by number")
                .into())
        };
        let mut pairs = Vec::with_capacity(table.cells.len());
        for row in 0..table.cells.len() {
            let (before, after) = (row_number(row, sides[0])?, row_number(row, sides[1])?);
            let (added, removed) = (concept(row, changes[0])?, concept(row, changes[1])?);
            let wrong = match (added, removed) {
                (None, None) => Some("a pair changes nothing"),
                (Some(added), Some(removed)) if added == removed => Some("a pair adds the concept that it removes"),
                _ => None,
            };
            if let Some(wrong) = wrong {
                return Err(InputError::new(wrong)
                    .expected("a concept in `added`, in `removed`, or two different ones in both")
                    .at(cell(table, row, "added"))
                    .advice("fix or remove the pair")
                    .into());
            }
            pairs.push(Pair { before, after, added, removed });
        }
        Ok(PairSet { pairs })
    }

    /// The CSV table that [`PairSet::from_table`] reads.
    pub fn to_csv(&self, names: Option<&[String]>) -> Result<String> {
        csv_text(self.csv_records(names))
    }

    /// The records of that table, one at a time.
    pub fn csv_records<'a>(&'a self, names: Option<&'a [String]>) -> impl Iterator<Item = [String; 4]> + 'a {
        let name = move |concept: Concept| names.and_then(|names| names.get(concept.0 as usize)).cloned();
        let concept = move |concept: Option<Concept>| {
            concept.map_or_else(String::new, |concept| name(concept).unwrap_or_else(|| concept.0.to_string()))
        };
        let line = move |pair: &Pair| {
            [pair.before.to_string(), pair.after.to_string(), concept(pair.added), concept(pair.removed)]
        };
        std::iter::once(["before", "after", "added", "removed"].map(String::from)).chain(self.pairs.iter().map(line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::cells::test_table as table;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| name.to_string()).collect()
    }

    #[test]
    fn concepts_are_given_by_name_or_number() {
        let concepts = names(&["bird", "red", "0"]);
        let text = "note,before,after,added,removed\nx,0,1,red,\ny,2,3,1,bird\nz,4,5,,0\n";
        let pairs = PairSet::from_table(&table(text), Some(&concepts)).unwrap();
        let pair = |index: usize| (pairs.pairs[index].added, pairs.pairs[index].removed);
        assert_eq!(pair(0), (Some(Concept(1)), None));
        assert_eq!(pair(1), (Some(Concept(1)), Some(Concept(0))));
        // `0` is the name of concept 2, which wins over the number.
        assert_eq!(pair(2), (None, Some(Concept(2))));
        let text = pairs.to_csv(Some(&concepts)).unwrap();
        assert_eq!(PairSet::from_table(&table(&text), Some(&concepts)).unwrap(), pairs);
        let only = PairSet::from_table(&table("after,before,removed\n1,0,7\n"), None).unwrap();
        assert_eq!(only.pairs[0], Pair { before: 0, after: 1, added: None, removed: Some(Concept(7)) });
    }

    #[test]
    fn errors_of_pairs_state_the_position() {
        let concepts = names(&["bird", "red"]);
        let error = |text: &str| PairSet::from_table(&table(text), Some(&concepts)).unwrap_err().to_string();
        assert!(error("before,added\n0,bird\n").contains("`after`"));
        assert!(error("before,after\n0,1\n").contains("`added`"));
        for (text, part) in [
            ("before,after,added,removed\n0,1,bird,\n0,-1,bird,\n", "line 3"),
            ("before,after,added,removed\n0,1,fish,\n", "`fish`"),
            ("before,after,added,removed\n0,1,2,\n", "`2`"),
            ("before,after,added,removed\n0,1,,\n", "changes nothing"),
            ("before,after,added,removed\n0,1,red,red\n", "adds the concept"),
            ("before,after,added,removed\n0,1\n", "too short"),
        ] {
            let found = error(text);
            assert!(found.contains(part) && found.contains("line "), "{found}");
        }
    }
}
