//! Couples of concepts and their quadrants: rows with both, one, the other or neither.

use etalon_kernel::bits::Bits;
use etalon_kernel::random::stream;
use serde::{Deserialize, Serialize};

use crate::error::{InputError, Result};
use crate::labels::{Annotations, Concept};
use crate::metrics::probing::draw::{DrawnRows, Shares};
use crate::run::{Job, LABELS, Work};

/// A task and an attribute that is correlated with it in biased data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Couple {
    /// The concept that the probe should learn.
    pub task: Concept,
    /// The concept that it also learns from biased data.
    pub attribute: Concept,
}

/// The rows for which both labels are known.
fn known_rows(labels: &Annotations, couple: Couple, absent: &Bits) -> Bits {
    let mut known = labels.known(couple.task).clone();
    known.intersect(labels.known(couple.attribute));
    known.subtract(absent);
    known
}

/// The rows with both, with only the task, with only the attribute, and with neither.
pub fn quadrants(labels: &Annotations, couple: Couple, absent: &Bits) -> [Vec<usize>; 4] {
    let mut lists: [Vec<usize>; 4] = Default::default();
    let (task, attribute) = (labels.yes(couple.task), labels.yes(couple.attribute));
    for row in known_rows(labels, couple, absent).rows() {
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

/// The couples of the parameter `couples`, or the fullest of all couples with enough rows in every quadrant.
pub fn couples(job: &Job<'_>, work: &mut Work<'_>, absent: &Bits) -> Result<Vec<Couple>> {
    let labels = job.get(&LABELS)?;
    let given = job.several("couples")?;
    let texts: Vec<&str> = given.iter().filter_map(serde_json::Value::as_str).collect();
    if texts != ["all"] {
        return texts.iter().map(|text| named(labels, text)).collect();
    }
    let (least, most) = (job.whole("quadrant_rows")?, job.whole("most_couples")?);
    let candidates = work.blocks("concepts", labels.concepts(), |task| {
        let mut of_task = Vec::new();
        for attribute in task + 1..labels.concepts() {
            job.check()?;
            let couple = Couple { task: Concept(task as u32), attribute: Concept(attribute as u32) };
            let smallest = smallest(labels, couple, absent);
            if smallest >= least {
                of_task.push(Candidate { smallest, task: task as u32, attribute: attribute as u32 });
            }
        }
        Ok(fullest(of_task, most))
    })?;
    let mut kept = fullest(candidates.iter().flatten().copied().collect(), most);
    kept.sort_unstable_by_key(|candidate| (candidate.task, candidate.attribute));
    let couple = |kept: Candidate| Couple { task: Concept(kept.task), attribute: Concept(kept.attribute) };
    Ok(kept.into_iter().map(couple).collect())
}

/// The candidates with the fullest smallest quadrant; ties to lower concepts.
fn fullest(mut candidates: Vec<Candidate>, most: usize) -> Vec<Candidate> {
    candidates.sort_unstable_by_key(|one| (std::cmp::Reverse(one.smallest), one.task, one.attribute));
    candidates.truncate(most);
    candidates
}

/// The number of rows of the smallest quadrant.
fn smallest(labels: &Annotations, couple: Couple, absent: &Bits) -> usize {
    let known = known_rows(labels, couple, absent);
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
            InputError::new("unknown concept in a couple")
                .expected("the name or the number of a concept")
                .found(format!("`{part}`"))
                .at(format!("couple `{text}`"))
                .into()
        })
    };
    let parts = text.split_once(':').ok_or_else(|| {
        InputError::new("invalid couple of concepts")
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

/// The three questions about a couple, each with training and test rows.
pub struct Questions {
    /// Task or not, balanced over the attribute.
    pub task: [DrawnRows; 2],
    /// Attribute or not, balanced over the task.
    pub attribute: [DrawnRows; 2],
    /// Both or neither: task and attribute are the same here.
    pub biased: [DrawnRows; 2],
    /// Training and test rows per quadrant.
    pub rows: [usize; 2],
}

impl Questions {
    /// Draws rows at random; `None` if a quadrant has no training or no test row.
    pub fn draw(lists: &[Vec<usize>; 4], shares: &Shares, seed: u64, block: u64) -> Option<Questions> {
        let mut random = stream(seed, "scr/quadrants", block);
        let most = shares.most / 2;
        let [both, task, attribute, none] = lists.each_ref().map(|rows| {
            let [train, _, test] = shares.split(rows, &mut random);
            [train, test]
        });
        let part = |part: usize, random: &mut _| {
            let cap = if part == 0 { 1.0 - shares.test } else { shares.test };
            let cap = ((most as f64 * cap).round() as usize).max(1);
            let lists = [&both[part], &task[part], &attribute[part], &none[part]];
            let q = lists.iter().map(|rows| rows.len()).min().unwrap_or(0).min(cap);
            let [both, task, attribute, none] = lists.map(|rows| &rows[..q]);
            // Up to twice as many biased rows, if there are enough.
            let twice = lists[0].len().min(lists[3].len()).min(2 * q);
            let drawn = [
                DrawnRows::new(&[both, task].concat(), &[attribute, none].concat(), random),
                DrawnRows::new(&[both, attribute].concat(), &[task, none].concat(), random),
                DrawnRows::new(&lists[0][..twice], &lists[3][..twice], random),
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
