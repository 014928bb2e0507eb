//! The known name that a mistyped one was probably meant to be.

/// The closest of some names, if it differs from `name` by at most a third of its letters.
pub fn closest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let name: Vec<char> = name.to_lowercase().chars().collect();
    let distances =
        known.into_iter().map(|other| (distance(&name, &other.to_lowercase().chars().collect::<Vec<_>>()), other));
    let (distance, other) = distances.min_by_key(|(distance, _)| *distance)?;
    (distance <= name.len().div_ceil(3) && distance < name.len()).then_some(other)
}

/// The number of letters to insert, delete, replace or swap with their neighbour (optimal string alignment).
fn distance(one: &[char], two: &[char]) -> usize {
    let mut rows = vec![vec![0; two.len() + 1]; one.len() + 1];
    rows[0] = (0..=two.len()).collect();
    for i in 1..=one.len() {
        rows[i][0] = i;
        for j in 1..=two.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(one[i - 1] != two[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(rows[i][j - 1] + 1);
            if i > 1 && j > 1 && one[i - 1] == two[j - 2] && one[i - 2] == two[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            rows[i][j] = least;
        }
    }
    rows[one.len()][two.len()]
}

#[cfg(test)]
mod tests {
    use super::closest;

    #[test]
    fn typing_errors_are_recognised_and_other_words_are_not() {
        let known = ["match", "core", "sparse_probing", "monosemanticity"];
        for (name, meant) in [
            ("mach", Some("match")),
            ("macht", Some("match")),
            ("Core", Some("core")),
            ("sparse-probing", Some("sparse_probing")),
            ("monosemantic", Some("monosemanticity")),
            ("purity", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(closest(name, known), meant, "{name}");
        }
    }
}
