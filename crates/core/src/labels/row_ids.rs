//! Ids of label rows. Whole numbers align a table with the rows under test, or with samples. Other rows have no names, so
//! names cannot be compared; they can only show that a table is not in its natural order.

use std::cmp::Ordering;

use super::Annotations;
use super::ids::{Ids, RowIds};
use crate::error::{InputError, Result};

impl Annotations {
    /// Attaches the ids of the rows. If they are the row numbers 0 to N − 1, the rows are sorted by them.
    #[must_use]
    pub fn with_ids(mut self, ids: Vec<String>) -> Annotations {
        if ids.is_empty() || ids.len() != self.rows() {
            self.row_ids = None;
            return self;
        }
        let numbers: Option<Vec<u64>> = ids.iter().map(|id| id.parse().ok()).collect();
        let Some(numbers) = numbers else {
            self.row_ids = Some(RowIds { ids: Ids::Names(ids), compared: false });
            return self;
        };
        let order = permutation(&numbers);
        self.row_ids = Some(RowIds { ids: Ids::Numbers(numbers), compared: false });
        match order {
            Some(order) => self.aligned(&order),
            None => self,
        }
    }

    /// The ids of the rows, if all of them are whole numbers.
    pub fn row_numbers(&self) -> Option<&[u64]> {
        match &self.row_ids.as_ref()?.ids {
            Ids::Numbers(numbers) => Some(numbers),
            Ids::Names(_) => None,
        }
    }

    /// The annotations of the rows that ids identify, in the order given. Compare [`Annotations::select`].
    #[must_use]
    pub fn aligned(&self, rows: &[usize]) -> Annotations {
        let mut aligned = self.select(rows);
        aligned.row_ids = aligned.row_ids.map(|ids| RowIds { compared: true, ..ids });
        aligned
    }

    /// Whether the rows have ids that nothing was compared with, so that they are rows only by their position.
    pub fn has_unused_ids(&self) -> bool {
        self.row_ids.as_ref().is_some_and(|ids| !ids.compared)
    }

    /// Refuses ids that were not compared and are in disorder: numbers that do not ascend, and names that differ in
    /// their numbers only (`img00012.jpg`) and are in neither numerical nor alphabetical order. Such a table was
    /// shuffled, and the rows that its lines belong to are unknown.
    pub fn check_order(&self) -> Result<()> {
        let Some(RowIds { ids, compared: false }) = &self.row_ids else { return Ok(()) };
        let (row, pair, expected) = match ids {
            Ids::Numbers(numbers) => match numbers.windows(2).position(|pair| pair[0] >= pair[1]) {
                Some(row) => (row, [numbers[row], numbers[row + 1]].map(|number| number.to_string()), "ascending ids"),
                None => return Ok(()),
            },
            Ids::Names(names) => match first_in_disorder(names) {
                Some(row) => (row, [names[row].clone(), names[row + 1].clone()], "names in ascending order"),
                None => return Ok(()),
            },
        };
        Err(InputError::new("the ids of the labels do not identify rows")
            .expected(format!("the row numbers 0 to {} in any order, or {expected}", self.rows().saturating_sub(1)))
            .found(format!("{} before {}", pair[0], pair[1]))
            .at(format!("row {row}"))
            .advice("number the rows from 0; or, if the lines have the order of the rows, remove the column of ids")
            .into())
    }
}

/// The row of each number, if the numbers are 0 to N − 1.
fn permutation(numbers: &[u64]) -> Option<Vec<usize>> {
    let mut rows = vec![None; numbers.len()];
    for (row, &number) in numbers.iter().enumerate() {
        let slot = rows.get_mut(usize::try_from(number).ok()?)?;
        if slot.replace(row).is_some() {
            return None;
        }
    }
    rows.into_iter().collect()
}

/// The first name that is larger than the next one, if the names differ in numbers only and are in disorder.
fn first_in_disorder(names: &[String]) -> Option<usize> {
    let alike = names.windows(2).all(|pair| words(&pair[0]).eq(words(&pair[1])));
    let disorder = names.windows(2).position(|pair| by_numbers(&pair[0], &pair[1]) == Ordering::Greater)?;
    (alike && !names.is_sorted()).then_some(disorder)
}

/// The parts of a name between its numbers.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(|c: char| c.is_ascii_digit()).filter(|part| !part.is_empty())
}

/// Compares the numbers of two names, from left to right: shorter ones are smaller, apart from leading zeros.
fn by_numbers(one: &str, two: &str) -> Ordering {
    let numbers = |name: &'_ str| -> Vec<String> {
        let parts = name.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
        parts.map(|part| part.trim_start_matches('0').to_string()).collect()
    };
    let (one, two) = (numbers(one), numbers(two));
    let mut pairs = one.iter().zip(&two).map(|(one, two)| one.len().cmp(&two.len()).then_with(|| one.cmp(two)));
    pairs.find(|order| order.is_ne()).unwrap_or_else(|| one.len().cmp(&two.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Concept, Label};

    fn labels(ids: &[&str]) -> Annotations {
        let yes = |row, _| if row == 0 { Label::Yes } else { Label::No };
        let labels = Annotations::new(vec!["a".into()], ids.len(), yes).unwrap();
        labels.with_ids(ids.iter().map(|id| id.to_string()).collect())
    }

    #[test]
    fn row_numbers_in_another_order_sort_the_rows() {
        // The first line has id 2, and is the only one with the concept.
        let sorted = labels(&["2", "0", "1"]);
        assert_eq!(
            (0..3).map(|row| sorted.label(row, Concept(0))).collect::<Vec<_>>(),
            [Label::No, Label::No, Label::Yes]
        );
        assert_eq!(sorted.row_numbers(), Some(&[0, 1, 2][..]));
        assert!(sorted.check_order().is_ok() && !sorted.has_unused_ids());
        // They stay compared when rows are dropped.
        assert!(!sorted.select(&[0, 2]).has_unused_ids() && !labels(&["0", "1"]).has_unused_ids());
    }

    #[test]
    fn other_numbers_must_ascend() {
        let ascending = labels(&["139", "285", "632"]);
        assert!(ascending.check_order().is_ok() && ascending.has_unused_ids());
        assert!(!ascending.aligned(&[2, 0]).has_unused_ids());
        let error = labels(&["139", "632", "285"]).check_order().unwrap_err().to_string();
        assert!(error.contains("632 before 285") && error.contains("row 1"), "{error}");
        assert!(labels(&["3", "1", "2"]).check_order().is_err());
    }

    #[test]
    fn numbered_names_must_have_an_order_and_other_names_are_unused() {
        let error = labels(&["img00012.jpg", "img00003.jpg", "img00005.jpg"]).check_order().unwrap_err().to_string();
        assert!(error.contains("img00012.jpg before img00003.jpg") && error.contains("row 0"), "{error}");
        assert!(labels(&["a1/b2.mp4", "a1/b1.mp4"]).check_order().is_err());
        // Numbers written as floating-point numbers.
        assert!(labels(&["2.0", "0.0", "1.0"]).check_order().is_err());
        // In numerical order, in alphabetical order, and without a number that could tell.
        for names in
            [["img2.png", "img10.png"], ["img10.png", "img2.png"], ["gull.png", "auk.png"], ["b1.png", "a2.png"]]
        {
            let labels = labels(&names);
            assert!(labels.row_numbers().is_none() && labels.check_order().is_ok() && labels.has_unused_ids());
            assert_eq!(labels.label(0, Concept(0)), Label::Yes);
        }
    }
}
