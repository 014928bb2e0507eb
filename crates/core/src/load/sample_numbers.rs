//! The samples that rows belong to, where rows are tokens: any distinct numbers, such as image ids of COCO.

use std::collections::BTreeMap;

use crate::error::{Error, InputError, Result};
use crate::labels::Annotations;

/// The distinct numbers of samples, ascending. Sample i of the pooled inputs is the i-th of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SampleNumbers(Vec<u32>);

impl SampleNumbers {
    /// The numbers that occur in a list with one entry per row.
    pub fn of(samples: &[u32]) -> SampleNumbers {
        let mut numbers = samples.to_vec();
        // Tokens of a sample are usually neighbours.
        numbers.dedup();
        numbers.sort_unstable();
        numbers.dedup();
        SampleNumbers(numbers)
    }

    /// How many samples there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether the numbers are 0 to N − 1.
    fn is_counted(&self) -> bool {
        self.0.last().is_none_or(|&last| last as usize == self.0.len() - 1)
    }

    /// The index of the sample of every row.
    pub fn indices(&self, samples: &[u32]) -> Result<Vec<u32>> {
        if self.is_counted() {
            return Ok(samples.to_vec());
        }
        let index = |sample: &u32| {
            let found = self.0.binary_search(sample).map(|index| index as u32);
            found.map_err(|_| Error::Bug(format!("sample {sample} is not among the samples")))
        };
        samples.iter().map(index).collect()
    }

    /// Whether the first rows of the samples are in the order of their numbers.
    fn appear_in_order(&self, samples: &[u32]) -> Result<bool> {
        let mut seen = 0;
        for index in self.indices(samples)? {
            if index > seen {
                return Ok(false);
            }
            seen += u32::from(index == seen);
        }
        Ok(true)
    }

    /// The error for a generator whose rows belong to other samples.
    pub fn different(&self, own: &[u32], generator: &str) -> InputError {
        let own = SampleNumbers::of(own);
        let lacks = |some: &SampleNumbers, all: &SampleNumbers| {
            all.0.iter().find(|number| some.0.binary_search(number).is_err()).copied()
        };
        let found = match (lacks(&own, self), lacks(self, &own)) {
            (Some(missing), _) => format!("no row of sample {missing}"),
            (None, Some(other)) => format!("rows of sample {other}"),
            (None, None) => String::new(),
        };
        InputError::new(format!("the tokens of the generator `{generator}` belong to other samples"))
            .expected(format!("the {} samples of the real rows", self.count()))
            .found(found)
            .advice("generate every sample, and number the samples as those of the real rows")
    }

    /// The rows of the labels that belong to the samples, in their order; `None` if those are all rows as they are, by id
    /// or, where ids cannot be compared, by position.
    /// `samples` has one entry per row of tokens.
    pub fn label_rows(&self, samples: &[u32], labels: &Annotations) -> Result<Option<Vec<usize>>> {
        let one_each = labels.rows() == self.count();
        if let Some(ids) = labels.row_numbers() {
            let rows: BTreeMap<u64, usize> = ids.iter().enumerate().map(|(row, &id)| (id, row)).collect();
            let found: Result<Vec<usize>, u32> =
                self.0.iter().map(|&number| rows.get(&u64::from(number)).copied().ok_or(number)).collect();
            match found {
                Ok(rows) => {
                    let aligned = !labels.has_unused_ids() && rows.iter().copied().eq(0..labels.rows());
                    return Ok((!aligned).then_some(rows));
                }
                // Samples that are only counted and other ascending ids, such as those of images: the same order.
                Err(_) if one_each && self.is_counted() && ids.is_sorted() => return Ok(None),
                Err(missing) => {
                    return Err(InputError::new("a sample has no row in the labels")
                        .expected("an id in the labels for every sample")
                        .found(format!("no id {missing}, the number of sample {missing}"))
                        .advice("give labels and samples the same numbers, or remove the ids of the labels")
                        .into());
                }
            }
        }
        let by_id = "add a first column `id` with the sample numbers to the labels";
        if !one_each {
            return Err(InputError::new("labels and samples differ in number")
                .expected(format!("{} rows, one per sample", self.count()))
                .found(format!("{} rows", labels.rows()))
                .advice(by_id)
                .into());
        }
        if self.is_counted() || self.appear_in_order(samples)? {
            return Ok(None);
        }
        Err(InputError::new("it is unknown in which order the labels list the samples")
            .expected("samples numbered from 0, or with ascending numbers")
            .found(format!("{} samples with numbers up to {}", self.count(), self.0.last().copied().unwrap_or(0)))
            .advice(by_id)
            .into())
    }
}
