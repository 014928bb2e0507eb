//! Pairs of concepts, and rows by whether they have one, the other, both or none.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::stream;
use serde::{Deserialize, Serialize};

use crate::error::{InputError, Result};
use crate::labels::{Annotations, Concept};
use crate::metrics::probing::draw::{Drawn, Shares};
use crate::run::{Job, LABELS, Work};

/// A task and an attribute that goes along with it in biased data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Couple {
    /// What the probe should learn.
    pub task: Concept,
    /// What it learns too, if both go together.
    pub attribute: Concept,
}

/// Rows with both, with the task's concept only, with the attribute only, with none.
pub fn quadrants(labels: &Annotations, couple: Couple, absent: &Bits) -> [Vec<usize>; 4] {
    let mut lists: [Vec<usize>; 4] = Default::default();
    let mut known = labels.known(couple.task).clone();
    known.intersect(labels.known(couple.attribute));
    known.subtract(absent);
    let (task, attribute) = (labels.yes(couple.task), labels.yes(couple.attribute));
    for row in known.rows() {
        lists[usize::from(!attribute.contains(row)) + 2 * usize::from(!task.contains(row))].push(row);
    }
    lists
}

/// A couple with enough rows in every quadrant.
#[derive(Clone, Copy, Serialize, Deserialize)]
struct Candidate {
    /// Rows of the smallest quadrant.
    smallest: usize,
    task: u32,
    attribute: u32,
}

/// The couples that were named, or the fullest of all couples with enough rows in every quadrant.
pub fn couples(job: &Job<'_>, work: &mut Work<'_>, absent: &Bits) -> Result<Vec<Couple>> {
    let labels = job.get(&LABELS)?;
    let given = job.several("couples")?;
    let texts: Vec<&str> = given.iter().filter_map(serde_json::Value::as_str).collect();
    if texts != ["all"] {
        return texts.iter().map(|text| named(labels, text)).collect();
    }
    let (least, most) = (job.whole("quadrant_rows")?, job.whole("most_couples")?);
    let found = work.blocks("concepts", labels.concepts(), |task| {
        let mut found = Vec::new();
        for attribute in task + 1..labels.concepts() {
            job.check()?;
            let couple = Couple { task: Concept(task as u32), attribute: Concept(attribute as u32) };
            let smallest = smallest(labels, couple, absent);
            if smallest >= least {
                found.push(Candidate { smallest, task: task as u32, attribute: attribute as u32 });
            }
        }
        Ok(fullest(found, most))
    })?;
    let mut found = fullest(found.iter().flatten().copied().collect(), most);
    found.sort_unstable_by_key(|candidate| (candidate.task, candidate.attribute));
    let couple = |found: Candidate| Couple { task: Concept(found.task), attribute: Concept(found.attribute) };
    Ok(found.into_iter().map(couple).collect())
}

/// The candidates with the fullest smallest quadrant; among equals those of lower concepts.
fn fullest(mut candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    candidates.sort_unstable_by_key(|one| (std::cmp::Reverse(one.smallest), one.task, one.attribute));
    candidates.truncate(most);
    candidates
}

/// The rows of the smallest quadrant, counted without listing them.
fn smallest(labels: &Annotations, couple: Couple, absent: &Bits) -> usize {
    let mut known = labels.known(couple.task).clone();
    known.intersect(labels.known(couple.attribute));
    known.subtract(absent);
    let (mut task, mut attribute) = (labels.yes(couple.task).clone(), labels.yes(couple.attribute).clone());
    task.intersect(&known);
    attribute.intersect(&known);
    let both = task.count_and(&attribute);
    let (one, other) = (task.count() - both, attribute.count() - both);
    both.min(one).min(other).min(known.count() - both - one - other)
}

fn named(labels: &Annotations, text: &str) -> Result<Couple> {
    let find = |part: &str| -> Result<Concept> {
        let number = part.parse::<u32>().ok().filter(|&number| (number as usize) < labels.concepts());
        labels.find(part).or(number.map(Concept)).ok_or_else(|| {
            InputError::new("a couple names a concept that the labels do not have")
                .expected("the name or the number of a concept")
                .found(format!("`{part}`"))
                .at(format!("couple `{text}`"))
                .into()
        })
    };
    let parts = text.split_once(':').ok_or_else(|| {
        InputError::new("this is not a couple of concepts")
            .expected("task:attribute, such as nurse:female, or all")
            .found(format!("`{text}`"))
    })?;
    let (task, attribute) = (find(parts.0.trim())?, find(parts.1.trim())?);
    if task == attribute {
        let same = InputError::new("a couple names the same concept twice").found(format!("`{text}`"));
        return Err(same.expected("two different concepts").into());
    }
    Ok(Couple { task, attribute })
}

/// The three questions about a couple, each with rows to train on and to test on.
pub struct Questions {
    /// Has it the task's concept? Balanced over the attribute.
    pub task: [Drawn; 2],
    /// Has it the attribute? Balanced over the task.
    pub attribute: [Drawn; 2],
    /// Has it both or none? Task and attribute cannot be told apart here.
    pub biased: [Drawn; 2],
    /// Rows per quadrant, in training and test.
    pub rows: [usize; 2],
}

impl Questions {
    /// Draws with the seed; `None` if a quadrant has no row to train or to test on.
    pub fn draw(lists: &[Vec<usize>; 4], shares: &Shares, seed: u64, block: u64) -> Option<Questions> {
        let mut random = stream(seed, "scr/quadrants", block);
        let most = shares.most / 2;
        let [both, task, attribute, none] = lists.each_ref().map(|rows| {
            let [train, _, test] = shares.cut(rows, &mut random);
            [train, test]
        });
        let part = |part: usize, random: &mut _| {
            let cap = if part == 0 { 1.0 - shares.test } else { shares.test };
            let cap = ((most as f64 * cap).round() as usize).max(1);
            let lists = [&both[part], &task[part], &attribute[part], &none[part]];
            let q = lists.iter().map(|rows| rows.len()).min().unwrap_or(0).min(cap);
            let [both, task, attribute, none] = lists.map(|rows| &rows[..q]);
            // The biased rows may be twice as many, where there are that many.
            let twice = lists[0].len().min(lists[3].len()).min(2 * q);
            let drawn = [
                Drawn::new(&[both, task].concat(), &[attribute, none].concat(), random),
                Drawn::new(&[both, attribute].concat(), &[task, none].concat(), random),
                Drawn::new(&lists[0][..twice], &lists[3][..twice], random),
            ];
            (q, drawn)
        };
        let (train_rows, [task_train, attribute_train, biased_train]) = part(0, &mut random);
        let (test_rows, [task_test, attribute_test, biased_test]) = part(1, &mut random);
        (train_rows > 0 && test_rows > 0).then_some(Questions {
            task: [task_train, task_test],
            attribute: [attribute_train, attribute_test],
            biased: [biased_train, biased_test],
            rows: [train_rows, test_rows],
        })
    }
}
