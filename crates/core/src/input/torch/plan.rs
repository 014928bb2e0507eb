//! How the values of a tensor are read.

use std::ops::Range;

use super::super::number::NumberFormat;
use super::super::strided::View;
use crate::context::Budget;
use crate::error::{InputError, Result};

/// Where the numbers of a tensor are.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) enum Place {
    /// In the storage with this key.
    Storage(String),
    /// In these bytes of the pickle.
    Pickle { start: usize, end: usize },
    /// In these bytes of the pickle, which are text: every character is one byte.
    Text { start: usize, end: usize },
}

/// Where a tensor's values are.
#[derive(Debug)]
pub(in super::super) struct ReadPlan {
    place: Place,
    format: NumberFormat,
    /// Numbers in the storage.
    available: usize,
    view: View,
}

impl ReadPlan {
    /// A tensor that is a view of `available` numbers.
    pub fn new(place: Place, format: NumberFormat, available: usize, view: View) -> Result<ReadPlan> {
        view.check(available)?;
        Ok(ReadPlan { place, format, available, view })
    }

    /// Where the numbers are.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// True if they are outside of the pickle.
    pub fn is_storage(&self) -> bool {
        matches!(self.place, Place::Storage(_))
    }

    /// The dimensions.
    pub fn shape(&self) -> &[usize] {
        &self.view.dimensions
    }

    /// Number of values.
    pub fn length(&self) -> usize {
        self.view.length().unwrap_or(usize::MAX)
    }

    /// The number type.
    pub fn number(&self) -> &'static str {
        self.format.number.name()
    }

    /// The values in C order, from the bytes of the storage. The caller reserves memory for them.
    pub fn decode(&self, name: &str, bytes: &[u8], big_endian: bool, budget: &Budget) -> Result<Vec<f32>> {
        let format = NumberFormat { big_endian: self.format.big_endian || big_endian, ..self.format };
        if self.available.checked_mul(format.size()) != Some(bytes.len()) {
            return Err(InputError::new("the size of a storage does not agree with its tensor")
                .expected(format!("{} numbers of {} bytes", self.available, format.size()))
                .found(format!("{} bytes", bytes.len()))
                .at(format!("tensor `{name}`"))
                .advice("the file is damaged; write it again")
                .into());
        }
        let Range { start, end } = self.view.span();
        let bytes = bytes.get(start * format.size()..end * format.size()).unwrap_or_default();
        let _decoded = budget.reserve((end - start) as u64 * 4, format!("the storage of the tensor `{name}`"))?;
        let mut values = vec![0f32; end - start];
        format.decode(bytes, &mut values);
        Ok(View { offset: 0, ..self.view.clone() }.arrange(values))
    }
}
