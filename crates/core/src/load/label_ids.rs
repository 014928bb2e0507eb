//! Ids of labels: aligns labels with rows that have numbers of their own, refuses what cannot be aligned, and notes what
//! could not be compared.

use std::collections::BTreeMap;

use super::derive::in_file_of;
use crate::error::{InputError, Result};
use crate::labels::Annotations;
use crate::run::{EMBEDDINGS, Inputs, LABELS, PAIR_EMBEDDINGS, PAIR_LABELS, POOLING};
use crate::store::ActivationStore;

/// Aligns labels by id with a store whose rows have distinct sample numbers. Pooling aligns labels itself.
pub fn align(inputs: &mut Inputs, notes: &mut Vec<String>) -> Result<()> {
    for (role, rows) in [(&LABELS, &EMBEDDINGS), (&PAIR_LABELS, &PAIR_EMBEDDINGS)] {
        let (Some(labels), Some(store)) = (inputs.share(role), inputs.find(rows)) else { continue };
        if role.card().key == LABELS.card().key && inputs.has(&POOLING) {
            continue;
        }
        let Some(order) = in_file_of(inputs, role, label_rows(&labels, store))? else { continue };
        let dropped = labels.rows() - order.len();
        if dropped > 0 {
            notes.push(format!("{dropped} of {} rows of the labels belong to no row and were dropped", labels.rows()));
        }
        inputs.replace(role, labels.aligned(&order));
    }
    Ok(())
}

/// The row of the labels of every row of a store; `None` if one of them has no numbers that can be compared.
fn label_rows(labels: &Annotations, store: &ActivationStore) -> Result<Option<Vec<usize>>> {
    let (Some(ids), Some(samples)) = (labels.row_numbers(), store.samples()) else { return Ok(None) };
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    if sorted.windows(2).any(|pair| pair[0] == pair[1]) {
        // Rows are tokens: several belong to one sample, and labels are of rows.
        return Ok(None);
    }
    let rows: BTreeMap<u64, usize> = ids.iter().enumerate().map(|(row, &id)| (id, row)).collect();
    let found: Result<Vec<usize>, u32> =
        samples.iter().map(|&sample| rows.get(&u64::from(sample)).copied().ok_or(sample)).collect();
    match found {
        Ok(rows) => Ok(Some(rows)),
        // Ids that are row numbers, such as an index of pandas.
        Err(_) if !labels.has_unused_ids() => Ok(None),
        Err(missing) => Err(InputError::new("a row has no id in the labels")
            .expected("an id in the labels for the sample number of every row")
            .found(format!("no id {missing}"))
            .advice("give labels and rows the same numbers, or remove the ids of the labels")
            .into()),
    }
}

/// Refuses labels whose ids show that their rows are in disorder; see [`Annotations::check_order`]. Numbers of labels that
/// will be pooled are compared with sample numbers later.
pub fn check_order(inputs: &Inputs) -> Result<()> {
    for role in [&LABELS, &PAIR_LABELS] {
        let pooled = role.card().key == LABELS.card().key && inputs.has(&POOLING);
        let checked = |labels: &Annotations| match pooled && labels.row_numbers().is_some() {
            true => Ok(()),
            false => labels.check_order(),
        };
        in_file_of(inputs, role, inputs.find(role).map_or(Ok(()), checked))?;
    }
    Ok(())
}

/// Notes labels whose ids nothing could be compared with, for every result that uses them.
pub fn note_unused(inputs: &mut Inputs) {
    for role in [&LABELS, &PAIR_LABELS] {
        if inputs.find(role).is_some_and(Annotations::has_unused_ids) {
            let file = inputs.file(role).map_or(String::new(), |file| format!(" in {}", file.display()));
            inputs.note(
                role,
                format!(
                    "the ids of the labels{file} are not compared, because the rows have no ids: line i of the table \
                     belongs to row i"
                ),
            );
        }
    }
}
