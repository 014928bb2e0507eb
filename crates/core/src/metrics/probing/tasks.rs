//! Concepts as binary tasks, grouped by data set.

use std::collections::BTreeMap;

use etalon_kernel::bits::Bits;

use crate::context::Reserved;
use crate::error::Result;
use crate::labels::{Annotations, Concept};
use crate::results::{Scores, Table};
use crate::run::{CODES, EMBEDDINGS, Job, LABELS, List, Over, RowBatch, Work};

/// Every concept is a task; its group is its name up to the last `/`.
pub struct Tasks<'a> {
    /// The labels.
    pub labels: &'a Annotations,
    /// Samples without rows.
    pub absent: &'a Bits,
    groups: Vec<Group>,
    of_task: Vec<usize>,
}

/// The tasks of one data set.
pub struct Group {
    /// Its name; empty for concepts without `/`.
    pub name: String,
    /// Its concepts, ascending.
    pub tasks: Vec<usize>,
}

impl<'a> Tasks<'a> {
    /// Groups the concepts, in the order of their first concept; `absent` rows are left out.
    pub fn new(labels: &'a Annotations, absent: &'a Bits) -> Tasks<'a> {
        let (mut groups, mut of_task): (Vec<Group>, Vec<usize>) = (Vec::new(), Vec::new());
        let mut index_of: BTreeMap<&str, usize> = BTreeMap::new();
        for (task, name) in labels.names().iter().enumerate() {
            let name = name.rsplit_once('/').map_or("", |(group, _)| group);
            let index = *index_of.entry(name).or_insert_with(|| {
                groups.push(Group { name: name.into(), tasks: vec![] });
                groups.len() - 1
            });
            groups[index].tasks.push(task);
            of_task.push(index);
        }
        Tasks { labels, absent, groups, of_task }
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group of a task.
    pub fn group_of(&self, task: usize) -> &Group {
        &self.groups[self.of_task[task]]
    }

    /// The number of tasks.
    pub fn count(&self) -> usize {
        self.of_task.len()
    }

    /// The rows with the concept.
    pub fn positives(&self, task: usize) -> Vec<usize> {
        self.yes(task).rows().filter(|&row| !self.absent.contains(row)).collect()
    }

    /// The number of rows with the concept.
    pub fn positive_count(&self, task: usize) -> usize {
        self.yes(task).count() - self.yes(task).count_and(self.absent)
    }

    /// The number of rows with a known label.
    pub fn known_count(&self, task: usize) -> usize {
        self.labels.known(Concept(task as u32)).count()
    }

    /// The rows without the concept: one list per other class of their group (the lowest, if several), then the rows of no
    /// class. Empty lists are left out.
    pub fn negatives(&self, task: usize) -> Vec<Vec<usize>> {
        let mut remaining = self.labels.known(Concept(task as u32)).clone();
        remaining.subtract(self.yes(task));
        remaining.subtract(self.absent);
        let mut lists = Vec::new();
        for &class in &self.group_of(task).tasks {
            let mut rows = remaining.clone();
            rows.intersect(self.yes(class));
            lists.push(rows.rows().collect());
            remaining.subtract(&rows);
        }
        lists.push(remaining.rows().collect());
        lists.retain(|list: &Vec<usize>| !list.is_empty());
        lists
    }

    /// A table with the name and the group of every task.
    pub fn table(&self) -> Table {
        Table::new("concept")
            .words("name", self.labels.names().iter().map(String::as_str))
            .words("group", (0..self.count()).map(|task| self.group_of(task).name.as_str()))
    }

    fn yes(&self, task: usize) -> &Bits {
        self.labels.yes(Concept(task as u32))
    }
}

/// Samples without rows to pool: no latent fires, and the embedding is zero.
pub fn absent(job: &Job<'_>, work: &mut Work<'_>) -> Result<Reserved<Bits>> {
    let rows = job.get(&LABELS)?.rows();
    let memory = job.budget().reserve(rows as u64 / 8, "samples without rows")?;
    if !job.has(&EMBEDDINGS) {
        return Ok(Reserved::new(Bits::empty(rows), memory));
    }
    let absent = work.pass("samples without rows", Over::ROWS, || List(Vec::new()), add_absent)?;
    Ok(Reserved::new(Bits::of(rows, absent.0.iter().copied()), memory))
}

fn add_absent(absent: &mut List<usize>, rows: &RowBatch<'_>) -> Result<()> {
    let codes = rows.get(&CODES)?;
    let silent: Vec<usize> = (0..codes.rows()).filter(|&index| codes.row(index).0.is_empty()).collect();
    if !silent.is_empty() {
        let tile = rows.get(&EMBEDDINGS)?;
        let blank = |index: &usize| tile.row(*index).iter().all(|&value| value == 0.0);
        absent.0.extend(silent.into_iter().filter(blank).map(|index| rows.range.start + index));
    }
    Ok(())
}

/// Adds a note about samples without rows.
pub fn note_absent(scores: &mut Scores, absent: &Bits) {
    if absent.count() > 0 {
        scores.note(format!("{} of {} samples have no rows and are left out", absent.count(), absent.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Label;

    #[test]
    fn concepts_are_grouped_by_name() {
        // Rows 0-3 are of data set a (classes x x y z), rows 4-5 of data set b/c (class u, no class).
        let names = ["a/x", "a/y", "b/c/u", "a/z"].map(String::from).to_vec();
        let yes = [[0, 1].as_slice(), &[2], &[4], &[3]];
        let labels = Annotations::new(names, 6, |row, concept| match (concept == 2) == (row >= 4) {
            false => Label::Unknown,
            true if yes[concept].contains(&row) => Label::Yes,
            true => Label::No,
        })
        .unwrap();
        let none = Bits::empty(6);
        let tasks = Tasks::new(&labels, &none);
        let groups: Vec<(&str, &[usize])> = tasks.groups().iter().map(|g| (g.name.as_str(), &g.tasks[..])).collect();
        assert_eq!(groups, [("a", &[0, 1, 3][..]), ("b/c", &[2][..])]);
        assert_eq!((tasks.positives(0), tasks.positive_count(0), tasks.known_count(0)), (vec![0, 1], 2, 4));
        assert_eq!(tasks.negatives(0), [[2], [3]]);
        assert_eq!(tasks.negatives(1), [vec![0, 1], vec![3]]);
        assert_eq!(tasks.negatives(2), [[5]]);
        assert_eq!((tasks.count(), tasks.group_of(2).name.as_str()), (4, "b/c"));
        let first = Bits::of(6, [0]);
        let without = Tasks::new(&labels, &first);
        assert_eq!((without.positives(0), without.negatives(1)), (vec![1], vec![vec![1], vec![3]]));
        assert_eq!(without.positive_count(0), 1);
    }

    #[test]
    fn a_row_of_several_classes_belongs_to_the_lowest() {
        // Row 0 has y and z, row 1 has z only, row 2 has none of them: negatives of x.
        let names = ["x", "y", "z"].map(String::from).to_vec();
        let yes = [[3].as_slice(), &[0], &[0, 1]];
        let label = |row, concept: usize| if yes[concept].contains(&row) { Label::Yes } else { Label::No };
        let labels = Annotations::new(names, 4, label).unwrap();
        let none = Bits::empty(4);
        assert_eq!(Tasks::new(&labels, &none).negatives(0), [[0], [1], [2]]);
    }
}
