//! Judgements of people about images of several generators: success rates, comparisons of generators, agreement of reviewers.

use super::scores::{Scores, Table};
use super::share_interval;

/// An image that people judged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReviewedImage {
    /// The number of the generator that made it.
    pub generator: usize,
    /// The number of its prompt.
    pub prompt: usize,
    /// Whether it shows the concept, by reviewer; `None` where a reviewer did not answer.
    pub marks: Vec<Option<bool>>,
}

/// How many of some images show the concept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Shown {
    yes: usize,
    images: usize,
}

impl Shown {
    fn rate(self) -> Option<f64> {
        (self.images > 0).then(|| self.yes as f64 / self.images as f64)
    }
}

/// The answers of two reviewers to the same images.
type AnswerPairs = Vec<(bool, bool)>;

/// The judgement of a reviewer, or with `None` that of the majority; a tie is no judgement.
fn judgement(image: &ReviewedImage, reviewer: Option<usize>) -> Option<bool> {
    match reviewer {
        Some(reviewer) => image.marks.get(reviewer).copied().flatten(),
        None => {
            let count = |mark: bool| image.marks.iter().filter(|other| **other == Some(mark)).count();
            let (yes, no) = (count(true), count(false));
            (yes != no).then_some(yes > no)
        }
    }
}

/// Success rates with Wilson's intervals, Fisher's exact test for every two generators, and Cohen's kappa for every two
/// reviewers. With several reviewers, the rows `majority` count images that more of them mark as depicted than not.
pub fn review(generators: &[String], reviewers: usize, images: &[ReviewedImage]) -> Scores {
    let mut judges: Vec<(String, Option<usize>)> =
        (0..reviewers).map(|reviewer| ((reviewer + 1).to_string(), Some(reviewer))).collect();
    if reviewers > 1 {
        judges.push(("majority".into(), None));
    }
    let shown = |generator: usize, reviewer: Option<usize>| {
        let of_generator = images.iter().filter(|image| image.generator == generator);
        of_generator
            .filter_map(|image| judgement(image, reviewer))
            .fold(Shown::default(), |shown, yes| Shown { yes: shown.yes + usize::from(yes), images: shown.images + 1 })
    };
    let mut scores = Scores::default();
    let rows: Vec<(&str, &str, Shown)> = judges
        .iter()
        .flat_map(|(name, reviewer)| {
            generators
                .iter()
                .enumerate()
                .map(move |(index, generator)| (generator.as_str(), name.as_str(), shown(index, *reviewer)))
        })
        .collect();
    let interval = |shown: &Shown| share_interval(shown.rate()?, 0.0, shown.images as f64, f64::INFINITY);
    scores.tables.push(
        Table::new("generator")
            .words("name", rows.iter().map(|(generator, ..)| *generator))
            .words("reviewer", rows.iter().map(|(_, reviewer, _)| *reviewer))
            .counts("depicted", rows.iter().map(|(.., shown)| shown.yes))
            .counts("images", rows.iter().map(|(.., shown)| shown.images))
            .numbers("rate", rows.iter().map(|(.., shown)| shown.rate()))
            .numbers("low", rows.iter().map(|(.., shown)| Some(interval(shown)?.low)))
            .numbers("high", rows.iter().map(|(.., shown)| Some(interval(shown)?.high))),
    );
    let couples = |count: usize| (0..count).flat_map(move |one| (one + 1..count).map(move |other| (one, other)));
    let compared: Vec<(usize, usize, &str, Shown, Shown)> = judges
        .iter()
        .flat_map(|(name, reviewer)| {
            couples(generators.len())
                .map(move |(one, other)| (one, other, name.as_str(), shown(one, *reviewer), shown(other, *reviewer)))
        })
        .collect();
    let difference = |one: Shown, other: Shown| Some(one.rate()? - other.rate()?);
    let p =
        |one: Shown, other: Shown| fisher_exact([one.yes, one.images - one.yes], [other.yes, other.images - other.yes]);
    scores.tables.push(
        Table::new("comparison")
            .words("generator", compared.iter().map(|(one, ..)| generators[*one].clone()))
            .words("other", compared.iter().map(|(_, other, ..)| generators[*other].clone()))
            .words("reviewer", compared.iter().map(|(_, _, name, ..)| *name))
            .numbers("difference", compared.iter().map(|(.., one, other)| difference(*one, *other)))
            .numbers("p", compared.iter().map(|(.., one, other)| p(*one, *other))),
    );
    let agreements: Vec<(usize, usize, AnswerPairs)> = couples(reviewers)
        .map(|(one, other)| {
            let both = |image: &ReviewedImage| Some((judgement(image, Some(one))?, judgement(image, Some(other))?));
            (one, other, images.iter().filter_map(both).collect())
        })
        .collect();
    scores.tables.push(
        Table::new("agreement")
            .words("reviewer", agreements.iter().map(|(one, ..)| (one + 1).to_string()))
            .words("other", agreements.iter().map(|(_, other, _)| (other + 1).to_string()))
            .counts("images", agreements.iter().map(|(.., both)| both.len()))
            .numbers("kappa", agreements.iter().map(|(.., both)| cohens_kappa(both))),
    );
    let missing = images.iter().flat_map(|image| &image.marks).filter(|mark| mark.is_none()).count();
    if missing > 0 {
        scores.note(format!("{missing} answers are missing and count for nothing"));
    }
    let ties = images.iter().filter(|image| judgement(image, None).is_none()).count();
    if reviewers > 1 && ties > 0 {
        scores.note(format!("{ties} of {} images have no majority and are left out of it", images.len()));
    }
    scores
}

/// Two-sided p-value of Fisher's exact test that two groups have the same share of yes; each group is [yes, no]. Sums the
/// probabilities of all tables with the same margins that are at most as probable. `None` if a group is empty.
pub fn fisher_exact(one: [usize; 2], other: [usize; 2]) -> Option<f64> {
    let (first, second, yes) = (one[0] + one[1], other[0] + other[1], one[0] + other[0]);
    if first == 0 || second == 0 {
        return None;
    }
    let mut logarithms = vec![0.0; first + second + 1];
    for number in 1..logarithms.len() {
        logarithms[number] = logarithms[number - 1] + (number as f64).ln();
    }
    let choose = |n: usize, k: usize| logarithms[n] - logarithms[k] - logarithms[n - k];
    let probability = |k: usize| (choose(first, k) + choose(second, yes - k) - choose(first + second, yes)).exp();
    let observed = probability(one[0]);
    // Equal probabilities differ by rounding.
    let is_rare = |p: &f64| *p <= observed * (1.0 + 1e-7);
    Some((yes.saturating_sub(second)..=first.min(yes)).map(probability).filter(is_rare).sum::<f64>().min(1.0))
}

/// Cohen's kappa of two reviewers: agreement beyond chance. `None` without answers, or if both always give the same one.
pub fn cohens_kappa(answers: &[(bool, bool)]) -> Option<f64> {
    let n = answers.len() as f64;
    let share = |of: &dyn Fn(&(bool, bool)) -> bool| answers.iter().filter(|answer| of(answer)).count() as f64 / n;
    let agreed = share(&|(one, other)| one == other);
    let (one, other) = (share(&|answer| answer.0), share(&|answer| answer.1));
    let chance = one * other + (1.0 - one) * (1.0 - other);
    (n > 0.0 && chance < 1.0).then(|| (agreed - chance) / (1.0 - chance))
}

#[cfg(test)]
mod tests {
    use super::super::Cells;
    use super::*;

    fn close(found: Option<f64>, expected: f64) -> bool {
        found.is_some_and(|found| (found - expected).abs() < 1e-6)
    }

    #[test]
    fn exact_tests_by_hand() {
        // The lady tasting tea: tables 0 to 4 have probabilities 1, 16, 36, 16, 1 of 70. 3 of 4: (1 + 16 + 16 + 1) / 70.
        assert!(close(fisher_exact([3, 1], [1, 3]), 34.0 / 70.0));
        assert!(close(fisher_exact([4, 0], [0, 4]), 2.0 / 70.0));
        // 8 of 10 against 1 of 6: C(10,k) C(6,9−k) / C(16,9) for k = 8, 9 and 3: 270, 10 and 120 of 11440.
        assert!(close(fisher_exact([8, 2], [1, 5]), 400.0 / 11440.0));
        assert!(close(fisher_exact([2, 2], [2, 2]), 1.0));
        assert_eq!(fisher_exact([0, 0], [1, 1]), None);
    }

    #[test]
    fn kappa_by_hand() {
        // Both yes 20, one 5, other 10, both no 15: agreement 0.7, chance 0.5 · 0.6 + 0.5 · 0.4 = 0.5: 0.4.
        let answers: Vec<(bool, bool)> =
            [((true, true), 20), ((true, false), 5), ((false, true), 10), ((false, false), 15)]
                .into_iter()
                .flat_map(|(answer, count)| vec![answer; count])
                .collect();
        assert!(close(cohens_kappa(&answers), 0.4));
        assert_eq!((cohens_kappa(&[]), cohens_kappa(&[(true, true)])), (None, None));
    }

    #[test]
    fn rates_of_generators() {
        let image = |generator, marks: [Option<bool>; 2]| ReviewedImage { generator, prompt: 0, marks: marks.to_vec() };
        let (yes, no) = (Some(true), Some(false));
        let images =
            [image(0, [yes, yes]), image(0, [yes, no]), image(0, [no, None]), image(1, [no, no]), image(1, [no, yes])];
        let scores = review(&["a".into(), "b".into()], 2, &images);
        let table = scores.table("generator").unwrap();
        let rates = [2.0 / 3.0, 0.0, 0.5, 0.5, 0.5, 0.0].map(Some);
        let found: Vec<Option<f64>> = (0..6).map(|row| table.column("rate").unwrap().number(row)).collect();
        assert_eq!(found, rates);
        let Some(Cells::Text(names)) = table.column("reviewer") else { panic!("no names") };
        assert_eq!(names, &["1", "1", "2", "2", "majority", "majority"]);
        // 2 of 3 with z = 1.959964: [0.207660, 0.938510].
        let low = table.column("low").unwrap().number(0);
        assert!(close(low, 0.207_660) || low.is_some_and(|low| (low - 0.20766).abs() < 2e-5), "{low:?}");
        assert_eq!(scores.table("comparison").unwrap().rows(), 3);
        assert_eq!(
            scores.notes,
            ["1 answers are missing and count for nothing", "2 of 5 images have no majority and are left out of it"]
        );
        assert_eq!(scores.table("agreement").unwrap().rows(), 1);
    }
}
