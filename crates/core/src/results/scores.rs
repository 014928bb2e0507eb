//! Scores: headline numbers, tables and notes. An undefined number is `None`, never NaN and never a silent zero.

use super::bootstrap::Interval;
use super::cells::Cells;
use crate::error::{Error, Result};

/// The output of a metric.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// The few numbers to quote, in the order of the metric's card.
    pub headline: Vec<Headline>,
    /// Details by latent, concept, pair or strategy.
    pub tables: Vec<Table>,
    /// Undefined cases, corrections and warnings.
    pub notes: Vec<String>,
}

/// A headline number.
#[derive(Clone, Debug, PartialEq)]
pub struct Headline {
    /// The key, as the metric's card lists it.
    pub key: String,
    /// The value, if it is defined.
    pub value: Option<f64>,
    /// The 95 % interval, if it is defined.
    pub interval: Option<Interval>,
    /// Number of units that the value is an average of.
    pub n: usize,
}

/// A table: columns of equal length.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// What a row is: `latent`, `concept`, `pair` or `strategy`.
    pub axis: String,
    /// Named columns.
    pub columns: Vec<(String, Cells)>,
}

impl Table {
    /// A table without columns.
    pub fn new(axis: &str) -> Table {
        Table { axis: axis.into(), columns: Vec::new() }
    }

    /// Adds a column.
    pub fn with(mut self, name: &str, cells: Cells) -> Table {
        self.columns.push((name.into(), cells));
        self
    }

    /// Adds a column of numbers.
    pub fn numbers(self, name: &str, cells: impl IntoIterator<Item = Option<f64>>) -> Table {
        self.with(name, Cells::Number(cells.into_iter().collect()))
    }

    /// Adds a column of counts.
    pub fn counts(self, name: &str, cells: impl IntoIterator<Item = usize>) -> Table {
        self.with(name, Cells::Whole(cells.into_iter().map(|count| Some(count as i64)).collect()))
    }

    /// Adds a column of strings.
    pub fn words(self, name: &str, cells: impl IntoIterator<Item = impl Into<String>>) -> Table {
        self.with(name, Cells::Text(cells.into_iter().map(Into::into).collect()))
    }

    /// A column by name.
    pub fn column(&self, name: &str) -> Option<&Cells> {
        self.columns.iter().find(|(other, _)| other == name).map(|(_, cells)| cells)
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.columns.first().map_or(0, |(_, cells)| cells.len())
    }
}

impl Scores {
    /// Adds a headline number.
    pub fn headline(&mut self, key: &str, value: Option<f64>, interval: Option<Interval>, n: usize) {
        self.headline.push(Headline { key: key.into(), value, interval, n });
    }

    /// Adds the mean of the defined values as a headline number without an interval, and a note if none is defined.
    pub fn headline_mean(&mut self, key: &str, values: &[Option<f64>]) {
        let defined: Vec<f64> = values.iter().copied().flatten().collect();
        let mean = (!defined.is_empty()).then(|| defined.iter().sum::<f64>() / defined.len() as f64);
        self.headline(key, mean, None, defined.len());
        if mean.is_none() {
            self.note(format!("`{key}` is undefined: none of {} values is defined", values.len()));
        }
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// A headline value by key.
    pub fn value(&self, key: &str) -> Option<f64> {
        self.headline.iter().find(|headline| headline.key == key).and_then(|headline| headline.value)
    }

    /// A table by axis.
    pub fn table(&self, axis: &str) -> Option<&Table> {
        self.tables.iter().find(|table| table.axis == axis)
    }

    /// Bytes of memory, approximately.
    pub(super) fn bytes(&self) -> u64 {
        let notes: u64 = self.notes.iter().map(|note| note.len() as u64 + 64).sum();
        let columns = self.tables.iter().flat_map(|table| &table.columns);
        notes
            + 128 * self.headline.len() as u64
            + columns.map(|(name, cells)| 128 + name.len() as u64 + cells.bytes()).sum::<u64>()
    }

    /// Checks that all numbers are finite and that the columns of a table have equal length.
    pub fn check(&self) -> Result<()> {
        for headline in &self.headline {
            let interval = headline.interval.map_or([None; 2], |interval| [Some(interval.low), Some(interval.high)]);
            if [headline.value].iter().chain(&interval).flatten().any(|value| !value.is_finite()) {
                return Err(Error::Bug(format!("headline `{}` is not finite", headline.key)));
            }
        }
        for table in &self.tables {
            for (name, cells) in &table.columns {
                let finite = match cells {
                    Cells::Number(cells) => cells.iter().flatten().all(|value| value.is_finite()),
                    Cells::NumberLists(lists) => lists.iter().flatten().flatten().all(|value| value.is_finite()),
                    _ => true,
                };
                if !finite || cells.len() != table.rows() {
                    return Err(Error::Bug(format!("column `{name}` of table `{}` is malformed", table.axis)));
                }
            }
        }
        Ok(())
    }
}
