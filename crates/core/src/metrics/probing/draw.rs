//! The rows of a task: random training, validation and test parts with as many negatives as positives.

use etalon_kernel::random::{ChaCha8Rng, permutation, stream};
use serde::{Deserialize, Serialize};

use super::tasks::Tasks;
use crate::context::{Budget, Reservation};
use crate::error::Result;
use crate::run::Job;

/// Rows with their classes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawnRows {
    /// The rows.
    pub rows: Vec<usize>,
    /// Which of them are positive.
    pub positive: Vec<bool>,
}

impl DrawnRows {
    /// Positive and negative rows in random order.
    pub fn new(positives: &[usize], negatives: &[usize], random: &mut ChaCha8Rng) -> DrawnRows {
        let all: Vec<(usize, bool)> =
            positives.iter().map(|&row| (row, true)).chain(negatives.iter().map(|&row| (row, false))).collect();
        let (rows, positive) = permutation(all.len(), random).into_iter().map(|index| all[index]).unzip();
        DrawnRows { rows, positive }
    }

    /// Whether there are rows of both classes.
    pub fn has_both(&self) -> bool {
        self.positive.contains(&true) && self.positive.contains(&false)
    }
}

/// A part of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// For fitting.
    Train,
    /// For model selection.
    Validation,
    /// For scoring.
    Test,
}

/// The sizes of the parts.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The share of the test part.
    pub test: f64,
    /// The share of the validation part.
    pub validation: f64,
    /// Maximum number of positives in all parts together.
    pub most: usize,
}

impl Shares {
    /// Reads the parameters of a job.
    pub fn of(job: &Job<'_>) -> Result<Shares> {
        let (test, validation) = (job.number("test_share")?, job.number("validation_share")?);
        Ok(Shares { test, validation: validation.min((1.0 - test) * 0.9), most: job.whole("most_positives")? })
    }

    /// Test rows per training row.
    pub fn ratio(&self) -> f64 {
        self.test / (1.0 - self.test - self.validation)
    }

    /// Shuffles and splits a list: train, validation, test.
    pub fn split(&self, rows: &[usize], random: &mut ChaCha8Rng) -> [Vec<usize>; 3] {
        let order = shuffled(rows, random);
        let share = |share: f64| (share * rows.len() as f64).round() as usize;
        let (test, validation) = (share(self.test), share(self.validation));
        let train = rows.len() - (test + validation).min(rows.len());
        let (first, rest) = order.split_at(train);
        let (second, third) = rest.split_at(validation.min(rest.len()));
        [first.to_vec(), second.to_vec(), third.to_vec()]
    }
}

/// The rows of a task in one repeat, split into parts from which negatives are drawn.
pub struct Pools {
    positives: [Vec<usize>; 3],
    negatives: Vec<[Vec<usize>; 3]>,
    key: (u64, u64),
    /// Of the rows and of one draw.
    _memory: Reservation,
}

/// Bytes per row: the parts, and up to four copies while rows are shuffled.
const BYTES: u64 = 40;

impl Pools {
    /// Splits the rows at random.
    pub fn new(
        tasks: &Tasks<'_>,
        task: usize,
        repeat: usize,
        seed: u64,
        shares: &Shares,
        budget: &Budget,
    ) -> Result<Pools> {
        let memory = budget.reserve(BYTES * tasks.known_count(task) as u64, "the rows of a task")?;
        let block = (repeat * tasks.count() + task) as u64;
        let mut random = stream(seed, "probing/parts", block);
        let mut positives = tasks.positives(task);
        if positives.len() > shares.most {
            positives = shuffled(&positives, &mut random);
            positives.truncate(shares.most);
        }
        let positives = shares.split(&positives, &mut random);
        let negatives = tasks.negatives(task).iter().map(|rows| shares.split(rows, &mut random)).collect();
        Ok(Pools { positives, negatives, key: (seed, block), _memory: memory })
    }

    /// Draws as many negatives as positives, evenly from the other classes; drops positives if negatives are fewer.
    ///
    /// The same `number` gives the same rows.
    pub fn draw(&self, part: Part, number: u64) -> DrawnRows {
        let part = part as usize;
        let lists: Vec<&Vec<usize>> =
            self.negatives.iter().map(|parts| &parts[part]).filter(|list| !list.is_empty()).collect();
        let positives = &self.positives[part];
        let count = positives.len().min(lists.iter().map(|list| list.len()).sum());
        let mut random = stream(self.key.0, "probing/negatives", self.key.1 << 24 | (number << 2 | part as u64));
        let each = count.div_ceil(lists.len().max(1));
        let (mut drawn, mut spare) = (Vec::new(), Vec::new());
        for list in &lists {
            let order = shuffled(list, &mut random);
            let (first, rest) = order.split_at(each.min(list.len()));
            drawn.extend_from_slice(first);
            spare.extend_from_slice(rest);
        }
        let mut negatives = shuffled(&drawn, &mut random);
        // Large classes fill the gap that small ones leave.
        if negatives.len() < count {
            negatives.extend(shuffled(&spare, &mut random));
        }
        negatives.truncate(count);
        DrawnRows::new(&positives[..count], &negatives, &mut random)
    }
}

fn shuffled(rows: &[usize], random: &mut ChaCha8Rng) -> Vec<usize> {
    permutation(rows.len(), random).into_iter().map(|index| rows[index]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::{Annotations, Label};
    use etalon_kernel::bits::Bits;

    fn labels(classes: &[usize]) -> Annotations {
        // Row i has the class of its block: class c has classes[c] rows.
        let of_row: Vec<usize> = classes.iter().enumerate().flat_map(|(c, &rows)| vec![c; rows]).collect();
        let names = (0..classes.len()).map(|c| format!("set/{c}")).collect();
        let label = |row: usize, concept: usize| if of_row[row] == concept { Label::Yes } else { Label::No };
        Annotations::new(names, of_row.len(), label).unwrap()
    }

    const SHARES: Shares = Shares { test: 0.2, validation: 0.2, most: 100 };

    fn pools(tasks: &Tasks<'_>, repeat: usize, seed: u64, shares: &Shares) -> Pools {
        Pools::new(tasks, 0, repeat, seed, shares, &Budget::new(1 << 20)).unwrap()
    }

    #[test]
    fn parts_are_disjoint_and_balanced() {
        let (labels, none) = (labels(&[50, 50, 50, 5]), Bits::empty(155));
        let tasks = Tasks::new(&labels, &none);
        let pools = pools(&tasks, 3, 9, &SHARES);
        let parts = [Part::Train, Part::Validation, Part::Test].map(|part| pools.draw(part, 0));
        assert_eq!(parts.each_ref().map(|drawn| drawn.rows.len()), [60, 20, 20]);
        let mut seen: Vec<usize> = parts.iter().flat_map(|drawn| &drawn.rows).copied().collect();
        seen.sort_unstable();
        assert!(seen.windows(2).all(|pair| pair[0] < pair[1]), "a row is in two parts");
        for drawn in &parts {
            assert!(drawn.rows.iter().zip(&drawn.positive).all(|(&row, &yes)| yes == (row < 50)));
            assert_eq!(drawn.positive.iter().filter(|yes| **yes).count() * 2, drawn.rows.len());
        }
        // 30 negatives from three classes: 10 each, but the small class has 3 training rows; the others fill the gap.
        let small = parts[0].rows.iter().filter(|&&row| row >= 150).count();
        let second = parts[0].rows.iter().filter(|&&row| (50..100).contains(&row)).count();
        assert!(small == 3 && (10..=17).contains(&second), "{small} {second}");
        assert_eq!(pools.draw(Part::Train, 0), parts[0]);
        assert_ne!(pools.draw(Part::Train, 1), parts[0]);
        assert_ne!(self::pools(&tasks, 4, 9, &SHARES).draw(Part::Train, 0), parts[0]);
    }

    #[test]
    fn few_rows() {
        // More positives than negatives: positives are dropped. Without negatives nothing is drawn.
        let (labels, none) = (labels(&[10, 5]), Bits::empty(15));
        let tasks = Tasks::new(&labels, &none);
        let drawn = pools(&tasks, 0, 0, &SHARES).draw(Part::Train, 0);
        assert_eq!((drawn.rows.len(), drawn.has_both()), (6, true));
        let alone = self::labels(&[3]);
        let tasks = Tasks::new(&alone, &none);
        assert_eq!(pools(&tasks, 0, 0, &SHARES).draw(Part::Train, 0), DrawnRows::default());
        let capped = pools(&tasks, 0, 0, &Shares { most: 2, ..SHARES });
        assert_eq!(capped.positives.iter().map(Vec::len).sum::<usize>(), 2);
    }
}
