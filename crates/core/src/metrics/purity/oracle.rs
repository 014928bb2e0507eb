//! How well one concept's labels predict another's, in closed form where both have two classes.

use super::areas::{Area, class_area};
use super::concepts::Split;

/// The area of predicting a target of two classes from a source of two classes. A probe's output takes two values, so
/// only the sign of its slope matters, and that is the sign of the association in the training rows. `None` if a class
/// of the target is missing in the test rows.
pub(super) fn closed_form(source: &[i32], target: &[i32], split: &Split) -> Option<Area> {
    let mut counts = [[0i128; 2]; 2];
    for &row in &split.train {
        let (source, target) = (source[row as usize], target[row as usize]);
        if source >= 0 && target >= 0 {
            counts[source as usize][target as usize] += 1;
        }
    }
    // The sign of P(target | source) − P(target | no source).
    let slope = (counts[1][1] * counts[0][0] - counts[0][1] * counts[1][0]).signum() as f64;
    let classes: Vec<i32> =
        split.test.iter().map(|&row| if source[row as usize] < 0 { -1 } else { target[row as usize] }).collect();
    let scores: Vec<f64> = split.test.iter().map(|&row| slope * f64::from(source[row as usize])).collect();
    class_area(&classes, &scores, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worked_example() {
        // Training rows 0 to 3: source and target agree in all. Test rows 4 to 8: source 1 1 0 0 1, target 1 0 0 0 1.
        // True positive rate 2/2, false positive rate 1/3: area (1 + 1 − 1/3)/2 = 5/6.
        let source = [1, 1, 0, 0, 1, 1, 0, 0, 1];
        let target = [1, 1, 0, 0, 1, 0, 0, 0, 1];
        let split = Split { train: vec![0, 1, 2, 3], test: vec![4, 5, 6, 7, 8] };
        let found = closed_form(&source, &target, &split).unwrap();
        assert!((found.value - 5.0 / 6.0).abs() < 1e-12);
        // The association is reversed in training: 1 − 5/6. Without one: 1/2.
        let reversed = [0, 0, 1, 1, 1, 0, 0, 0, 1];
        assert!((closed_form(&source, &reversed, &split).unwrap().value - 1.0 / 6.0).abs() < 1e-12);
        let none = [0, 0, 0, 0, 1, 0, 0, 0, 1];
        assert!((closed_form(&source, &none, &split).unwrap().value - 0.5).abs() < 1e-12);
    }
}
