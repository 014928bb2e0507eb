//! Mutual information of continuous numbers from distances to neighbours: Kraskov's first estimator, and Ross's for a number
//! and a class, with the influence of every row.

use statrs::function::gamma::digamma;

use crate::metrics::purity::information::Information;

/// Neighbours of a row.
const NEIGHBOURS: usize = 3;

/// Up to this many rows of a class scikit-learn measures distances by expanded products.
const EXPANDED: usize = 7;

/// The mean of the terms of rows, at least 0; a row without a term is left out.
fn of_terms(terms: &[Option<f64>]) -> Information {
    let count = terms.iter().flatten().count().max(1) as f64;
    let mean = terms.iter().flatten().sum::<f64>() / count;
    let influence = |term: &Option<f64>| term.filter(|_| mean > 0.0).map_or(0.0, |term| (term - mean) / count);
    Information { value: mean.max(0.0), influence: terms.iter().map(influence).collect() }
}

/// The next smaller number.
fn below(value: f64) -> f64 {
    if value > 0.0 { value.next_down() } else { 0.0 }
}

/// How many numbers of an ascending list are within a distance of a value. Differences are compared, because a sum of value
/// and distance may be rounded to the number that is just outside.
fn within(sorted: &[f64], value: f64, distance: f64) -> usize {
    let end = sorted.partition_point(|other| other - value <= distance);
    end - sorted.partition_point(|other| value - other > distance)
}

/// Ranks of the rows and the values in ascending order.
fn ascending(values: &[f64]) -> (Vec<usize>, Vec<f64>) {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]).then(a.cmp(&b)));
    let sorted = order.iter().map(|&row| values[row]).collect();
    (order, sorted)
}

/// Kraskov's estimator 1: the third neighbour in the larger of both distances, then the other rows that are nearer in each.
pub(super) fn kraskov(x: &[f64], y: &[f64]) -> Information {
    let rows = x.len();
    let neighbours = NEIGHBOURS.min(rows.saturating_sub(1));
    if neighbours == 0 {
        return of_terms(&vec![None; rows]);
    }
    let (order, sorted_x) = ascending(x);
    let (_, sorted_y) = ascending(y);
    let mut terms = vec![None; rows];
    let constant = digamma(rows as f64) + digamma(neighbours as f64);
    let mut nearest = [f64::INFINITY; NEIGHBOURS];
    for (place, &row) in order.iter().enumerate() {
        nearest[..neighbours].fill(f64::INFINITY);
        // Outwards in x, until x alone is farther than the farthest kept neighbour.
        let (mut left, mut right) = (place, place + 1);
        loop {
            let before = if left > 0 { x[row] - sorted_x[left - 1] } else { f64::INFINITY };
            let after = if right < rows { sorted_x[right] - x[row] } else { f64::INFINITY };
            let other = if before <= after { left.wrapping_sub(1) } else { right };
            if before.min(after) >= nearest[neighbours - 1] || before.min(after).is_infinite() {
                break;
            }
            if before <= after {
                left -= 1
            } else {
                right += 1
            }
            let distance = before.min(after).max((y[order[other]] - y[row]).abs());
            let at = nearest[..neighbours].partition_point(|kept| *kept <= distance);
            if at < neighbours {
                nearest[at..neighbours].rotate_right(1);
                nearest[at] = distance;
            }
        }
        let radius = below(nearest[neighbours - 1]);
        // The row itself is within, which is the "+ 1" of the estimator.
        let (near_x, near_y) = (within(&sorted_x, x[row], radius), within(&sorted_y, y[row], radius));
        terms[row] = Some(constant - digamma(near_x as f64) - digamma(near_y as f64));
    }
    of_terms(&terms)
}

/// Ross's estimator: the third neighbour within the class, then the rows of any class that are nearer. Rows whose class
/// has no other row are left out. `expanded` measures the distances within small classes as scikit-learn does.
pub(super) fn ross(values: &[f64], classes: &[u32], expanded: bool) -> Information {
    let mut by_class = std::collections::BTreeMap::<u32, Vec<f64>>::new();
    values.iter().zip(classes).for_each(|(&value, &class)| by_class.entry(class).or_default().push(value));
    by_class.retain(|_, values| values.len() > 1);
    by_class.values_mut().for_each(|values| values.sort_by(f64::total_cmp));
    let mut all: Vec<f64> = by_class.values().flatten().copied().collect();
    all.sort_by(f64::total_cmp);
    let rows = digamma(all.len() as f64);
    let term = |(&value, class): (&f64, &u32)| {
        let own = by_class.get(class)?;
        let neighbours = NEIGHBOURS.min(own.len() - 1);
        let distance = match expanded && own.len() <= EXPANDED {
            true => expanded_nearest(own, value, neighbours),
            false => nearest(own, value, neighbours),
        };
        let near = within(&all, value, below(distance));
        Some(rows + digamma(neighbours as f64) - digamma(own.len() as f64) - digamma(near as f64))
    };
    of_terms(&values.iter().zip(classes).map(term).collect::<Vec<_>>())
}

/// The distance to the n-th nearest of a sorted list that contains the value itself.
fn nearest(sorted: &[f64], value: f64, neighbours: usize) -> f64 {
    let start = sorted.partition_point(|other| *other < value);
    let (mut left, mut right, mut distance) = (start, start + 1, 0.0);
    for _ in 0..neighbours {
        let before = if left > 0 { value - sorted[left - 1] } else { f64::INFINITY };
        let after = if right < sorted.len() { sorted[right] - value } else { f64::INFINITY };
        distance = before.min(after);
        if before <= after { left -= 1 } else { right += 1 }
    }
    distance
}

/// The same with √(x² − 2xy + y²) as the distance, whose rounding may make it larger than the difference.
fn expanded_nearest(own: &[f64], value: f64, neighbours: usize) -> f64 {
    let distance = |other: &f64| (value * value + -2.0 * (value * other) + other * other).max(0.0).sqrt();
    let mut distances: Vec<f64> = own.iter().map(distance).collect();
    distances.sort_by(f64::total_cmp);
    distances[neighbours]
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: [f64; 8] = [0.1, 0.4, 0.35, 0.8, 0.9, 0.55, 0.2, 0.7];

    #[test]
    fn estimates_of_a_worked_example() {
        let y = [0.2, 0.5, 0.3, 0.75, 0.95, 0.4, 0.1, 0.85];
        let found = kraskov(&X, &y);
        assert!((found.value - 0.332_440_5).abs() < 1e-6, "{}", found.value);
        assert!(found.influence.iter().sum::<f64>().abs() < 1e-12);
        // Rows strictly nearer than the third neighbour of the class, with the row itself: 3, 5, 4, 3, 3, 5, 3, 3. Both
        // classes have 4 rows: ψ(8) + ψ(3) − ψ(4) − (5 ψ(3) + ψ(4) + 2 ψ(5))/8.
        let classes = [0, 0, 0, 1, 1, 1, 0, 1];
        let found = ross(&X, &classes, false).value;
        let by_hand =
            digamma(8.0) + digamma(3.0) - digamma(4.0) - (5.0 * digamma(3.0) + digamma(4.0) + 2.0 * digamma(5.0)) / 8.0;
        assert!((found - by_hand).abs() < 1e-12 && (found - 0.572_023_8).abs() < 1e-6, "{found}");
        // The released program: √(0.55² − 2 · 0.55 · 0.9 + 0.9²) is larger than 0.9 − 0.55, so that the radius of 0.55
        // reaches rows at the same distance, and so do those of 0.8 and 0.7. Counts 3, 5, 4, 4, 3, 7, 3, 4.
        let found = ross(&X, &classes, true).value;
        assert!((found - 0.442_857_1).abs() < 1e-6, "{found}");
        assert_eq!(kraskov(&[1.0], &[1.0]).value, 0.0);
        assert_eq!(ross(&[1.0, 2.0], &[0, 1], true).influence, [0.0; 2]);
    }

    #[test]
    fn estimates_are_those_of_scikit_learn() {
        let path = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/purity/leakage.json");
        let golden: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in golden["cases"].as_array().unwrap() {
            let numbers = |key: &str| -> Vec<f64> {
                case[key].as_array().unwrap().iter().map(|value| value.as_f64().unwrap()).collect()
            };
            let classes: Vec<u32> = numbers("classes").into_iter().map(|class| class as u32).collect();
            let x = numbers("x");
            let found = [kraskov(&x, &numbers("y")).value, ross(&x, &classes, true).value];
            let expected = ["numbers", "number_and_class"].map(|key| case[key].as_f64().unwrap());
            for (found, expected) in found.into_iter().zip(expected) {
                assert!((found - expected).abs() < 1e-9, "{} rows: {found} and {expected}", x.len());
            }
        }
    }

    #[test]
    fn classes_of_eight_rows_have_exact_distances() {
        let values: Vec<f64> = (0..3).flat_map(|copy| X.map(|x| x + f64::from(copy) * 0.013)).collect();
        let classes: Vec<u32> = (0..24).map(|row| row % 3).collect();
        assert_eq!(ross(&values, &classes, true), ross(&values, &classes, false));
    }

    #[test]
    fn a_number_with_itself() {
        // Without equal distances two others are nearer than the third neighbour, and with the row itself the estimate is
        // ψ(n) + ψ(3) − 2ψ(3) = ψ(n) − ψ(3) for any values. With noise of its own on both sides, as the released program
        // adds it, one side decides the distance and the other has one row more: ψ(n) − ψ(4).
        let powers: Vec<f64> = (0..8).map(|power| f64::from(1 << power) - 1.0 / 3.0 * f64::from(power)).collect();
        let own = kraskov(&powers, &powers).value;
        assert!((own - (digamma(8.0) - digamma(3.0))).abs() < 1e-9, "{own}");
        let noisy = |start: f64| -> Vec<f64> {
            powers.iter().enumerate().map(|(row, x)| x + 1e-9 * (start * (row * row + 1) as f64).sin()).collect()
        };
        let own = kraskov(&noisy(1.0), &noisy(2.0)).value;
        assert!((own - (digamma(8.0) - digamma(4.0))).abs() < 1e-9, "{own}");
    }

    #[test]
    fn windows_find_the_neighbours_of_all_pairs() {
        let x: Vec<f64> = (0..60).map(|i| f64::from(i * 37 % 61) / 61.0).collect();
        let y: Vec<f64> = (0..60).map(|i| f64::from(i * i % 53) / 53.0 + f64::from(i) * 1e-4).collect();
        let slow: f64 = (0..60)
            .map(|i| {
                let mut distances: Vec<f64> =
                    (0..60).filter(|&j| j != i).map(|j| (x[i] - x[j]).abs().max((y[i] - y[j]).abs())).collect();
                distances.sort_by(f64::total_cmp);
                let radius = below(distances[2]);
                let near = |v: &[f64]| (0..60).filter(|&j| (v[i] - v[j]).abs() <= radius).count() as f64;
                digamma(60.0) + digamma(3.0) - digamma(near(&x)) - digamma(near(&y))
            })
            .sum::<f64>()
            / 60.0;
        assert!((kraskov(&x, &y).value - slow.max(0.0)).abs() < 1e-9);
    }
}
