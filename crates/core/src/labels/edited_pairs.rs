//! Pairs of an original image and its edited copy, one line of a table each: what synCUB and synCOCO have in common.

use std::collections::BTreeSet;
use std::path::Path;

use super::cells::{cell, column, text};
use super::dataset::check_pair_images;
use super::{Annotations, Concept, Label, Pair, PairSet};
use crate::error::{InputError, Result};
use crate::input::TextTable;

/// The lines of a table. The first column is the id of the pair.
pub(super) struct PairLines<'a, const N: usize> {
    table: &'a TextTable,
    names: [&'static str; N],
    columns: [usize; N],
    ids: BTreeSet<&'a str>,
}

impl<'a, const N: usize> PairLines<'a, N> {
    /// Finds the columns.
    pub fn new(table: &'a TextTable, names: [&'static str; N]) -> Result<PairLines<'a, N>> {
        let mut columns = [0; N];
        for (index, name) in columns.iter_mut().zip(names) {
            *index = column(table, name)?;
        }
        Ok(PairLines { table, names, columns, ids: BTreeSet::new() })
    }

    /// The cells of a line. Refuses an id that an earlier line has.
    pub fn cells(&mut self, row: usize) -> Result<[&'a str; N]> {
        let mut cells = [""; N];
        for (cell, column) in cells.iter_mut().zip(self.columns) {
            *cell = text(self.table, row, column)?;
        }
        if let Some(&id) = cells.first()
            && !self.ids.insert(id)
        {
            return Err(InputError::new("two pairs have the same id")
                .expected("unique ids")
                .found(format!("`{id}`"))
                .at(self.at(row, 0))
                .advice("download the data set again")
                .into());
        }
        Ok(cells)
    }

    /// The position of a cell, for messages.
    pub fn at(&self, row: usize, index: usize) -> String {
        cell(self.table, row, self.names[index])
    }
}

/// The images of all pairs: 2·i is the original of pair i, and 2·i + 1 its edited copy.
#[derive(Default)]
pub(super) struct EditedPairs {
    pub images: Vec<String>,
    /// The concepts of every image.
    concepts: Vec<BTreeSet<usize>>,
    pairs: Vec<Pair>,
}

impl EditedPairs {
    /// Adds a pair: its images with their concepts, and the concepts that the edit adds and removes.
    pub fn push(&mut self, images: [&str; 2], concepts: [BTreeSet<usize>; 2], [added, removed]: [Option<usize>; 2]) {
        let concept = |index: usize| Concept(index as u32);
        let before = self.images.len();
        self.pairs.push(Pair { before, after: before + 1, added: added.map(concept), removed: removed.map(concept) });
        self.images.extend(images.map(String::from));
        self.concepts.extend(concepts);
    }

    /// Checks the image files, and returns images, labels and pairs.
    pub fn finish(
        self,
        names: Vec<String>,
        root: &Path,
        table: &TextTable,
        metadata: &Path,
    ) -> Result<(Vec<String>, Annotations, PairSet)> {
        check_pair_images(root, &self.images, table, metadata)?;
        let label = |row: usize, concept| if self.concepts[row].contains(&concept) { Label::Yes } else { Label::No };
        let labels = Annotations::new(names, self.images.len(), label)?;
        Ok((self.images, labels, PairSet { pairs: self.pairs }))
    }
}
