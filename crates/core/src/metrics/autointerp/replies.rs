//! Reads what a judge answered.

/// The explanation in an answer: what follows the last "activates on", without the final full stop.
pub(super) fn explanation(answer: &str) -> String {
    let last = answer.rsplit("activates on").next().unwrap_or(answer);
    last.trim_end_matches('.').trim().to_string()
}

/// The numbers in an answer as the released program reads them: separated by commas or "and"; "None" and nothing are
/// no number. `None` if there is anything else.
pub(super) fn numbers_as_released(answer: &str) -> Option<Vec<usize>> {
    let text = answer.trim().trim_end_matches('.').replace("and", ",").replace("None", "");
    let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
    parts.map(digits).collect()
}

/// The numbers in an answer: as released, and also separated by semicolons or white space, in brackets, and with "none" in any case.
/// `None` for other words and for an answer without a number that does not say so.
pub(super) fn numbers(answer: &str) -> Option<Vec<usize>> {
    let text = answer.trim().to_lowercase();
    let separator = |c: char| c.is_whitespace() || matches!(c, ',' | ';' | '.' | '[' | ']' | '(' | ')');
    let words: Vec<&str> = text.split(separator).filter(|word| !word.is_empty() && *word != "and").collect();
    match words[..] {
        [] => None,
        ["none"] => Some(Vec::new()),
        _ => words.into_iter().map(digits).collect(),
    }
}

fn digits(word: &str) -> Option<usize> {
    let is_number = word.bytes().all(|byte| byte.is_ascii_digit());
    // A number with too many digits is out of range, whatever it is.
    is_number.then(|| word.parse().unwrap_or(usize::MAX))
}

/// Which of `count` examples, numbered from 1, an answer names. Other numbers mean nothing.
pub(super) fn predictions(numbers: &[usize], count: usize) -> Vec<bool> {
    (1..=count).map(|number| numbers.contains(&number)).collect()
}

/// The share of examples that were predicted correctly.
pub(super) fn accuracy(predicted: &[bool], truth: &[bool]) -> Option<f64> {
    let right = predicted.iter().zip(truth).filter(|(predicted, truth)| predicted == truth).count();
    (!truth.is_empty()).then(|| right as f64 / truth.len() as f64)
}

/// The mean of the shares of active and of inactive examples that were predicted correctly; undefined without one of them.
pub(super) fn balanced_accuracy(predicted: &[bool], truth: &[bool]) -> Option<f64> {
    let of_class = |class: bool| {
        let members: Vec<bool> = predicted
            .iter()
            .zip(truth)
            .filter(|(_, truth)| **truth == class)
            .map(|(predicted, _)| *predicted)
            .collect();
        let right = members.iter().filter(|predicted| **predicted == class).count();
        (!members.is_empty()).then(|| right as f64 / members.len() as f64)
    };
    Some((of_class(true)? + of_class(false)?) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_in_other_words() {
        let cases: [(&str, Option<&[usize]>); 12] = [
            ("1, 4, 9", Some(&[1, 4, 9])),
            ("None", Some(&[])),
            ("none.", Some(&[])),
            ("3 and 5.", Some(&[3, 5])),
            ("[2; 7]", Some(&[2, 7])),
            ("1\n2", Some(&[1, 2])),
            ("99999999999999999999999", Some(&[usize::MAX])),
            ("", None),
            (" . ", None),
            ("2, seven", None),
            ("-3", None),
            ("none, 2", None),
        ];
        for (answer, expected) in cases {
            assert_eq!(numbers(answer).as_deref(), expected, "{answer}");
        }
    }

    #[test]
    fn accuracies_by_hand() {
        // Truth: 1 active of 4. Predicted: example 1 and 2, so 1 of 1 active and 2 of 3 inactive ones are right.
        let (predicted, truth) = (predictions(&[1, 2, 9, 0], 4), [true, false, false, false]);
        assert_eq!(accuracy(&predicted, &truth), Some(0.75));
        assert_eq!(balanced_accuracy(&predicted, &truth), Some((1.0 + 2.0 / 3.0) / 2.0));
        assert_eq!(balanced_accuracy(&predicted[1..], &truth[1..]), None);
        assert_eq!(accuracy(&[], &[]), None);
    }
}
