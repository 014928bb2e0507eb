//! The area under the ROC curve with the influence of every row, for standard errors of everything that is a smooth
//! function of areas.

use etalon_kernel::statistics::ranks;

/// An area and how much every row moves it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Area {
    /// The area; ties count half.
    pub value: f64,
    /// The influence of every row. Their squares add up to DeLong's variance; rows that do not count have 0.
    pub influence: Vec<f64>,
}

impl Area {
    /// The variance of the area over samples of rows.
    pub fn variance(&self) -> f64 {
        self.influence.iter().map(|influence| influence * influence).sum()
    }
}

/// The area of a score for one class; `None` if a class is missing.
pub(super) fn area(positive: &[bool], scores: &[f64]) -> Option<Area> {
    let split = |wanted: bool| -> Vec<usize> { (0..positive.len()).filter(|&row| positive[row] == wanted).collect() };
    let (yes, no) = (split(true), split(false));
    if yes.is_empty() || no.is_empty() {
        return None;
    }
    let all = ranks(scores);
    let within = |rows: &[usize]| ranks(&rows.iter().map(|&row| scores[row]).collect::<Vec<_>>());
    // Rank among all minus rank among its own class: the rows of the other class below it.
    let below =
        |rows: &[usize]| -> Vec<f64> { rows.iter().zip(within(rows)).map(|(&row, own)| all[row] - own).collect() };
    let (above_no, above_yes) = (below(&yes), below(&no));
    let value = above_no.iter().sum::<f64>() / (yes.len() as f64 * no.len() as f64);
    let mut influence = vec![0.0; positive.len()];
    let spread = |count: usize| 1.0 / ((count * count.saturating_sub(1).max(1)) as f64).sqrt();
    for (&row, below) in yes.iter().zip(&above_no) {
        influence[row] = (below / no.len() as f64 - value) * spread(yes.len());
    }
    for (&row, below) in no.iter().zip(&above_yes) {
        influence[row] = (1.0 - below / yes.len() as f64 - value) * spread(no.len());
    }
    Some(Area { value, influence })
}

/// The mean one-against-all area over the classes that rows have. `scores` has one logit per row, or one per class. A row
/// of class −1 does not count. `None` with fewer than two classes.
pub(super) fn class_area(truth: &[i32], scores: &[f64], outputs: usize) -> Option<Area> {
    let known: Vec<usize> = (0..truth.len()).filter(|&row| truth[row] >= 0).collect();
    let mut classes: Vec<i32> = known.iter().map(|&row| truth[row]).collect();
    classes.sort_unstable();
    classes.dedup();
    if classes.len() < 2 {
        return None;
    }
    let one = |class: i32| {
        let positive: Vec<bool> = known.iter().map(|&row| truth[row] == class).collect();
        let score = |&row: &usize| match outputs {
            1 => scores[row],
            _ => probability(&scores[row * outputs..][..outputs], class as usize),
        };
        area(&positive, &known.iter().map(score).collect::<Vec<_>>())
    };
    let areas: Vec<Area> = match outputs {
        1 => one(1).into_iter().collect(),
        _ => classes.iter().filter_map(|&class| one(class)).collect(),
    };
    let count = areas.len() as f64;
    let mut influence = vec![0.0; truth.len()];
    for area in &areas {
        known.iter().zip(&area.influence).for_each(|(&row, part)| influence[row] += part / count);
    }
    (!areas.is_empty()).then(|| Area { value: areas.iter().map(|area| area.value).sum::<f64>() / count, influence })
}

/// The mean over pairs of classes of both areas of the rows of a pair, one for either class's probability (Hand and Till
/// 2001). `probabilities` has one column per class. A row of class −1 does not count. `None` with fewer than two classes.
pub(super) fn pairwise_area(truth: &[i32], probabilities: &[f64], outputs: usize) -> Option<Area> {
    let mut classes: Vec<i32> = truth.iter().copied().filter(|&class| class >= 0).collect();
    classes.sort_unstable();
    classes.dedup();
    let mut areas = Vec::new();
    let mut influence = vec![0.0; truth.len()];
    for (place, &one) in classes.iter().enumerate() {
        for &other in &classes[place + 1..] {
            let rows: Vec<usize> = (0..truth.len()).filter(|&row| [one, other].contains(&truth[row])).collect();
            for class in [one, other] {
                let positive: Vec<bool> = rows.iter().map(|&row| truth[row] == class).collect();
                let own = |&row: &usize| probabilities[row * outputs + class as usize];
                let found = area(&positive, &rows.iter().map(own).collect::<Vec<_>>())?;
                rows.iter().zip(&found.influence).for_each(|(&row, part)| influence[row] += part);
                areas.push(found.value);
            }
        }
    }
    let count = areas.len() as f64;
    influence.iter_mut().for_each(|part| *part /= count.max(1.0));
    (!areas.is_empty()).then(|| Area { value: areas.iter().sum::<f64>() / count, influence })
}

/// The softmax of the logits of a row at a class.
fn probability(logits: &[f64], class: usize) -> f64 {
    let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.iter().map(|logit| libm::exp(logit - largest)).sum();
    logits.get(class).map_or(0.0, |logit| libm::exp(logit - largest) / total)
}

#[cfg(test)]
mod tests {
    use super::*;
    use etalon_kernel::statistics::area_under_curve;

    #[test]
    fn worked_example() {
        // Positives 0.9, 0.4, 0.4; negatives 0.4, 0.1. Below: 2; 0.5 + 1; 1.5. Area (2 + 1.5 + 1.5)/6 = 5/6.
        // Positives V: 1, 0.75, 0.75; negatives V: (1 + 0.5 + 0.5)/3 = 2/3 and 1.
        // Variance: positives ((1/6)² + 2(1/12)²)/(3·2) = 0.0069444; negatives (2·(1/6)²)/(2·1) = 0.0277778.
        let positive = [true, true, false, true, false];
        let scores = [0.9, 0.4, 0.4, 0.4, 0.1];
        let found = area(&positive, &scores).unwrap();
        assert_eq!(Some(found.value), area_under_curve(&positive, &scores));
        assert!((found.variance() - (0.041_666_67 / 6.0 + 0.055_555_56 / 2.0)).abs() < 1e-8, "{}", found.variance());
        assert!(found.influence.iter().sum::<f64>().abs() < 1e-12);
        assert_eq!(area(&[true], &[1.0]), None);
    }

    #[test]
    fn pairs_of_classes_match_a_worked_example() {
        // Classes 0 0 1 2. Pair 0, 1: by p0 rows 0.6 0.2 against 0.3: 1/2; by p1 0.5 against 0.3 0.5: (1 + 1/2)/2 = 3/4.
        // Pair 0, 2: by p0 0.6 0.2 against 0.1: 1; by p2 0.7 against 0.1 0.3: 1. Pair 1, 2: by p1 0.5 against 0.2: 1; by p2
        // 0.7 against 0.2: 1. Mean (0.5 + 0.75 + 4)/6 = 0.875.
        let truth = [0, 0, 1, 2, -1];
        let rows = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.3, 0.5, 0.2], [0.1, 0.2, 0.7], [0.0, 0.0, 1.0]];
        let found = pairwise_area(&truth, rows.as_flattened(), 3).unwrap();
        assert!((found.value - 0.875).abs() < 1e-12 && found.influence[4] == 0.0, "{found:?}");
        assert_eq!(pairwise_area(&[1, 1], &[0.1, 0.9, 0.2, 0.8], 2), None);
    }

    #[test]
    fn classes_are_averaged_and_unknown_rows_left_out() {
        // Three classes; class 1 never occurs. Logits favour class 0 in rows 0 and 1, class 2 in row 2.
        let truth = [0, 2, 2, -1];
        let scores = [2.0, 0.0, 0.0, 2.0, 0.0, 1.0, 0.0, 0.0, 2.0, 9.0, 9.0, 9.0];
        let found = class_area(&truth, &scores, 3).unwrap();
        assert_eq!((found.value, found.influence[3]), (1.0, 0.0));
        assert_eq!(class_area(&[1, 1, -1], &[0.0, 1.0, 2.0], 1), None);
    }
}
