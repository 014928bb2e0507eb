//! Ids of label rows that are whole numbers. They align a table with the rows under test, or with samples.

use super::Annotations;
use crate::error::{InputError, Result};

impl Annotations {
    /// Attaches the ids of the rows. If they are the row numbers 0 to N − 1, the rows are sorted by them. Ids that are
    /// not whole numbers, such as file names, are dropped: other inputs have no names to compare them with.
    #[must_use]
    pub fn with_ids(mut self, ids: &[String]) -> Annotations {
        let numbers: Option<Vec<u64>> = ids.iter().map(|id| id.parse().ok()).collect();
        self.row_numbers = numbers.filter(|numbers| !numbers.is_empty() && numbers.len() == self.rows());
        match self.row_numbers.as_deref().filter(|numbers| !numbers.is_sorted()).and_then(permutation) {
            Some(order) => self.select(&order),
            None => self,
        }
    }

    /// The ids of the rows, if all of them are whole numbers.
    pub fn row_numbers(&self) -> Option<&[u64]> {
        self.row_numbers.as_deref()
    }

    /// Refuses ids that are neither the row numbers nor ascending: the rows that they belong to are unknown.
    pub fn check_order(&self) -> Result<()> {
        let Some(numbers) = self.row_numbers() else { return Ok(()) };
        let Some(row) = numbers.windows(2).position(|pair| pair[0] >= pair[1]) else { return Ok(()) };
        Err(InputError::new("the ids of the labels do not identify rows")
            .expected(format!("the row numbers 0 to {} in any order, or ascending ids", self.rows().saturating_sub(1)))
            .found(format!("{} before {}", numbers[row], numbers[row + 1]))
            .at(format!("row {row}"))
            .advice("number the rows from 0, or sort the table in the order of the rows and remove the ids")
            .into())
    }
}

/// The row of each number, if the numbers are 0 to N − 1.
fn permutation(numbers: &[u64]) -> Option<Vec<usize>> {
    let mut rows = vec![None; numbers.len()];
    for (row, &number) in numbers.iter().enumerate() {
        let place = rows.get_mut(usize::try_from(number).ok()?)?;
        if place.replace(row).is_some() {
            return None;
        }
    }
    rows.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Concept, Label};

    fn labels(ids: &[&str]) -> Annotations {
        let yes = |row, _| if row == 0 { Label::Yes } else { Label::No };
        let labels = Annotations::new(vec!["a".into()], ids.len(), yes).unwrap();
        labels.with_ids(&ids.iter().map(|id| id.to_string()).collect::<Vec<_>>())
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
        assert!(sorted.check_order().is_ok());
    }

    #[test]
    fn other_numbers_must_ascend_and_names_are_not_compared() {
        assert!(labels(&["139", "285", "632"]).check_order().is_ok());
        let error = labels(&["139", "632", "285"]).check_order().unwrap_err().to_string();
        assert!(error.contains("632 before 285") && error.contains("row 1"), "{error}");
        assert!(labels(&["3", "1", "2"]).check_order().is_err());
        let names = labels(&["b.png", "a.png"]);
        assert!(names.row_numbers().is_none() && names.check_order().is_ok());
        assert_eq!(names.label(0, Concept(0)), Label::Yes);
    }
}
