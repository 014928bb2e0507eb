//! Predictions as bits.

/// Packs 64 predictions per word.
pub(super) fn pack(predictions: impl Iterator<Item = bool>) -> Vec<u64> {
    let mut words: Vec<u64> = Vec::new();
    for (index, predicted) in predictions.enumerate() {
        if index % 64 == 0 {
            words.push(0);
        }
        if let Some(word) = words.last_mut() {
            *word |= u64::from(predicted) << (index % 64);
        }
    }
    words
}

/// The indices of the positive predictions.
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
    fn packing_keeps_predictions() {
        let predictions: Vec<bool> = (0..100).map(|i| i % 7 == 0 || i == 31 || i == 32).collect();
        let indices: Vec<usize> = unpack(&pack(predictions.iter().copied())).collect();
        assert_eq!(indices, (0..100).filter(|&i| predictions[i]).collect::<Vec<_>>());
    }
}
