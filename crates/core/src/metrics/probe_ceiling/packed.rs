//! Yes and no as bits.

/// Yes and no, 64 in a word.
pub(super) fn pack(answers: impl Iterator<Item = bool>) -> Vec<u64> {
    let mut words: Vec<u64> = Vec::new();
    for (index, answer) in answers.enumerate() {
        if index % 64 == 0 {
            words.push(0);
        }
        if let Some(word) = words.last_mut() {
            *word |= u64::from(answer) << (index % 64);
        }
    }
    words
}

/// The indices of the yeses.
pub(super) fn unpack(words: &[u64]) -> impl Iterator<Item = usize> {
    words
        .iter()
        .enumerate()
        .flat_map(|(number, &word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| number * 64 + bit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predictions_survive_packing() {
        let answers: Vec<bool> = (0..100).map(|i| i % 7 == 0 || i == 31 || i == 32).collect();
        let indices: Vec<usize> = unpack(&pack(answers.iter().copied())).collect();
        assert_eq!(indices, (0..100).filter(|&i| answers[i]).collect::<Vec<_>>());
    }
}
