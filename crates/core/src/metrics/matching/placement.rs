//! The rows as the released program places them.
//!
//! It fills an array batch by batch and computes the place of a batch from the size of *that* batch. The last, short
//! one therefore lands among earlier rows, and the end of the array stays zero in codes and labels alike.

use super::strategy::REFERENCE_BATCH;
use crate::codes::{Codes, CodesBuilder};
use crate::error::Result;
use crate::labels::{Annotations, Concept, Label};
use crate::run::Job;

/// Codes and labels of the rows that are matched: those of the job, or rearranged ones.
pub(super) struct Placed<'a> {
    codes: &'a Codes,
    labels: &'a Annotations,
    rearranged: Option<(Codes, Annotations)>,
    /// Which row stands in each place; `None` for every row in its own.
    source: Option<Vec<Option<usize>>>,
}

impl<'a> Placed<'a> {
    /// The rows of a job, rearranged if it has the parameter `reference_batch` and it is not 0.
    pub fn of_job(job: &Job<'a>) -> Result<Placed<'a>> {
        let name = REFERENCE_BATCH.name;
        let batch = if job.params.contains_key(name) { job.whole(name)? } else { 0 };
        Placed::new(job.codes()?, job.labels()?, batch)
    }

    /// Rows placed by batches of a size; 0 leaves them where they are.
    pub fn new(codes: &'a Codes, labels: &'a Annotations, batch: usize) -> Result<Placed<'a>> {
        let Some(source) = placement(codes.rows(), batch) else {
            return Ok(Placed { codes, labels, rearranged: None, source: None });
        };
        let cell = |row: usize, concept: usize| match source[row] {
            Some(row) => labels.label(row, Concept(concept as u32)),
            None => Label::No,
        };
        let placed_labels = Annotations::new(labels.names().to_vec(), source.len(), cell)?;
        let rearranged = Some((place(codes, &source)?, placed_labels));
        Ok(Placed { codes, labels, rearranged, source: Some(source) })
    }

    /// The codes.
    pub fn codes(&self) -> &Codes {
        self.rearranged.as_ref().map_or(self.codes, |(codes, _)| codes)
    }

    /// The labels.
    pub fn labels(&self) -> &Annotations {
        self.rearranged.as_ref().map_or(self.labels, |(_, labels)| labels)
    }

    /// Other codes of the same rows, placed alike; `None` when they can be used as they are.
    pub fn alike(&self, codes: &Codes) -> Result<Option<Codes>> {
        self.source.as_ref().map(|source| place(codes, source)).transpose()
    }

    /// How many rows are lost.
    pub fn lost(&self) -> usize {
        let Some(source) = &self.source else { return 0 };
        source.len() - source.iter().flatten().count()
    }
}

fn place(codes: &Codes, source: &[Option<usize>]) -> Result<Codes> {
    let all = codes.all()?;
    let mut builder = CodesBuilder::new(codes.latents());
    for &row in source {
        let (latents, values) = row.map_or((&[][..], &[][..]), |row| all.row(row));
        builder.push(latents, values)?;
    }
    Ok(builder.finish())
}

/// Which row stands in each place, or `None` if all stand in their own.
fn placement(rows: usize, batch: usize) -> Option<Vec<Option<usize>>> {
    if batch == 0 || rows <= batch || rows.is_multiple_of(batch) {
        return None;
    }
    let (batches, rest) = (rows / batch, rows % batch);
    let whole = batches * batch;
    let mut source: Vec<Option<usize>> = (0..rows).map(|row| (row < whole).then_some(row)).collect();
    for place in 0..rest {
        source[batches * rest + place] = Some(whole + place);
    }
    Some(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_short_batch_lands_among_earlier_rows() {
        // 7 rows in batches of 3: the third batch has one row, number 6, and goes to place 2 · 1 = 2.
        let source = placement(7, 3).unwrap();
        assert_eq!(source, [Some(0), Some(1), Some(6), Some(3), Some(4), Some(5), None]);
        // 5 rows in batches of 3: rows 3 and 4 go to places 1 · 2 and 1 · 2 + 1, the second of which is their own region.
        assert_eq!(placement(5, 3).unwrap(), [Some(0), Some(1), Some(3), Some(4), None]);
        for (rows, batch) in [(6, 3), (2, 3), (3, 3), (0, 3), (7, 0)] {
            assert_eq!(placement(rows, batch), None);
        }
    }

    #[test]
    fn the_published_data_sets_lose_what_was_counted() {
        // 5794 = 5 · 1024 + 674 and 2476 = 2 · 1024 + 428.
        for (rows, lost) in [(5794, 674), (2476, 428)] {
            let source = placement(rows, 1024).unwrap();
            assert_eq!(source.iter().filter(|row| row.is_none()).count(), lost);
        }
    }

    #[test]
    fn codes_and_labels_move_together() {
        let codes = Codes::from_dense(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 1).unwrap();
        let labels = Annotations::new(vec!["late".into()], 7, |row, _| match row {
            6 => Label::Yes,
            5 => Label::Unknown,
            _ => Label::No,
        })
        .unwrap();
        let placed = Placed::new(&codes, &labels, 3).unwrap();
        assert_eq!(placed.lost(), 1);
        assert_eq!(placed.codes().all().unwrap().row(2).1, [7.0]);
        assert!(placed.codes().all().unwrap().row(6).1.is_empty());
        assert_eq!(placed.labels().yes(Concept(0)).rows().collect::<Vec<_>>(), [2]);
        assert_eq!(placed.labels().label(5, Concept(0)), Label::Unknown);
        assert_eq!(placed.labels().label(6, Concept(0)), Label::No);
    }
}
