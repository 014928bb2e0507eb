//! Concepts as yes-or-no tasks, in groups that are data sets.

use crate::error::Result;
use crate::kernel::bits::Bits;
use crate::labels::{Annotations, Concept};
use crate::results::Scores;
use crate::run::Job;

/// Every concept is a task; what stands before the last `/` of its name is its group.
pub struct Tasks<'a> {
    labels: &'a Annotations,
    absent: &'a Bits,
    groups: Vec<Group>,
    of_task: Vec<usize>,
}

/// Tasks of one data set.
pub struct Group {
    /// Its name; empty for concepts without one.
    pub name: String,
    /// Its concepts, ascending.
    pub tasks: Vec<usize>,
    /// The lowest concept of the group that each row has, if it has one: negatives are drawn evenly from these.
    class_of_row: Vec<Option<u32>>,
}

impl<'a> Tasks<'a> {
    /// Groups in the order of their first concept; some rows do not count.
    pub fn new(labels: &'a Annotations, absent: &'a Bits) -> Tasks<'a> {
        let mut groups: Vec<Group> = Vec::new();
        let mut of_task = Vec::new();
        for (task, name) in labels.names().iter().enumerate() {
            let name = name.rsplit_once('/').map_or("", |(group, _)| group);
            let place = groups.iter().position(|group| group.name == name).unwrap_or_else(|| {
                groups.push(Group { name: name.into(), tasks: vec![], class_of_row: vec![None; labels.rows()] });
                groups.len() - 1
            });
            groups[place].tasks.push(task);
            of_task.push(place);
            for row in labels.yes(Concept(task as u32)).rows() {
                groups[place].class_of_row[row].get_or_insert(task as u32);
            }
        }
        Tasks { labels, absent, groups, of_task }
    }

    /// The groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The group of a task.
    pub fn group_of(&self, task: usize) -> usize {
        self.of_task[task]
    }

    /// How many tasks there are.
    pub fn count(&self) -> usize {
        self.of_task.len()
    }

    /// The rows with the concept.
    pub fn positives(&self, task: usize) -> Vec<usize> {
        self.yes(task).rows().filter(|&row| !self.absent.contains(row)).collect()
    }

    /// The rows without the concept, one list per other class of the group that they have, then those that have none.
    pub fn negatives(&self, task: usize) -> Vec<Vec<usize>> {
        let group = &self.groups[self.of_task[task]];
        let mut lists = vec![Vec::new(); group.tasks.len() + 1];
        let counts = |row: &usize| !self.yes(task).contains(*row) && !self.absent.contains(*row);
        for row in self.labels.known(Concept(task as u32)).rows().filter(counts) {
            let class = group.class_of_row[row].and_then(|class| group.tasks.binary_search(&(class as usize)).ok());
            lists[class.unwrap_or(group.tasks.len())].push(row);
        }
        lists.retain(|list| !list.is_empty());
        lists
    }

    fn yes(&self, task: usize) -> &Bits {
        self.labels.yes(Concept(task as u32))
    }
}

/// Samples that had no rows to pool: nothing fires there, and the embedding is zero.
pub fn absent(job: &Job<'_>) -> Result<Bits> {
    let (labels, all) = (job.labels()?, job.codes()?.all()?);
    let mut absent = Bits::empty(labels.rows());
    let Some(store) = job.inputs.embeddings.as_deref() else { return Ok(absent) };
    for row in (0..labels.rows()).filter(|&row| all.row(row).0.is_empty()) {
        if store.tile(row..row + 1)?.row(0).iter().all(|&value| value == 0.0) {
            absent.insert(row);
        }
    }
    Ok(absent)
}

/// Says how many there are.
pub fn note_absent(scores: &mut Scores, absent: &Bits) {
    if absent.count() > 0 {
        scores.note(format!("{} of {} samples have no rows: left out", absent.count(), absent.len()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Label;

    #[test]
    fn groups_and_their_negatives() {
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
        assert_eq!(tasks.positives(0), [0, 1]);
        assert_eq!(tasks.negatives(0), [[2], [3]]);
        assert_eq!(tasks.negatives(1), [vec![0, 1], vec![3]]);
        assert_eq!(tasks.negatives(2), [[5]]);
        assert_eq!((tasks.count(), tasks.group_of(2)), (4, 1));
        let first = Bits::of(6, [0]);
        let without = Tasks::new(&labels, &first);
        assert_eq!((without.positives(0), without.negatives(1)), (vec![1], vec![vec![1], vec![3]]));
    }
}
