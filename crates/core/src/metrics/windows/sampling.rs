//! Which windows a judge sees of a latent: active ones by quantile of their strength, and inactive ones.

use std::collections::BTreeSet;

use etalon_kernel::random::{ChaCha8Rng, index, stream};
use serde::{Deserialize, Serialize};

use crate::codes::{Columns, Latent};

/// Why a latent has no score.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Skipped {
    /// Active in too few windows.
    Rare,
    /// Inactive in too few windows.
    Dense,
}

/// The active windows of a latent, strongest first, cut into quantiles of equal size. What remains of the weakest ones is left out.
pub(super) fn quantiles(
    columns: &Columns,
    latent: usize,
    min_active: usize,
    count: usize,
    smallest: usize,
) -> Result<Vec<Vec<u32>>, Skipped> {
    let (rows, values) = columns.latent(Latent(latent as u32));
    let mut active: Vec<(f32, u32)> =
        values.iter().copied().zip(rows.iter().copied()).filter(|(value, _)| *value > 0.0).collect();
    let size = active.len() / count.max(1);
    if active.len() < min_active || size < smallest.max(1) {
        return Err(Skipped::Rare);
    }
    active.sort_unstable_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    Ok(active.chunks_exact(size).take(count).map(|part| part.iter().map(|(_, row)| *row).collect()).collect())
}

/// The stream of a latent. It depends on the latent's active windows, not on its number, so that the order of latents does not
/// matter.
pub(in crate::metrics) fn latent_stream(seed: u64, purpose: &str, columns: &Columns, latent: usize) -> ChaCha8Rng {
    let (rows, values) = columns.latent(Latent(latent as u32));
    let mut hash = blake3::Hasher::new_derive_key("etalon windows of a latent v1");
    hash.update(bytemuck::cast_slice(rows)).update(bytemuck::cast_slice(values));
    let mut first = [0; 8];
    first.copy_from_slice(&hash.finalize().as_bytes()[..8]);
    stream(seed, purpose, u64::from_le_bytes(first))
}

/// `count` of the items, in random order, none twice.
pub(in crate::metrics) fn draw(items: &[u32], count: usize, random: &mut ChaCha8Rng) -> Vec<u32> {
    let mut items = items.to_vec();
    let count = count.min(items.len());
    for position in 0..count {
        let other = position + index(items.len() - position, random);
        items.swap(position, other);
    }
    items.truncate(count);
    items
}

/// `count` different windows in which the latent is not active, in random order; `None` if there are fewer.
pub(super) fn inactive(columns: &Columns, latent: usize, count: usize, random: &mut ChaCha8Rng) -> Option<Vec<u32>> {
    let (rows, values) = columns.latent(Latent(latent as u32));
    let active: Vec<u32> = rows.iter().zip(values).filter(|(_, value)| **value > 0.0).map(|(row, _)| *row).collect();
    let free = columns.rows() - active.len();
    if free < count {
        return None;
    }
    // Positions among the inactive rows; without a list of all of them unless many are needed.
    let chosen = if count > free / 2 {
        draw(&(0..free as u32).collect::<Vec<_>>(), count, random)
    } else {
        let (mut chosen, mut seen) = (Vec::with_capacity(count), BTreeSet::new());
        while chosen.len() < count {
            let position = index(free, random) as u32;
            if seen.insert(position) {
                chosen.push(position);
            }
        }
        chosen
    };
    Some(chosen.into_iter().map(|position| nth_missing(&active, position as usize)).collect())
}

/// The row with `position` smaller rows that are not in `active`.
fn nth_missing(active: &[u32], position: usize) -> u32 {
    // The number of active rows before it: the first k with active[k] − k > position.
    let mut low = 0;
    let mut high = active.len();
    while low < high {
        let middle = low.midpoint(high);
        if active[middle] as usize - middle > position { high = middle } else { low = middle + 1 }
    }
    (position + low) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_between_active_ones_are_counted() {
        let active = [0, 3, 4, 9];
        let missing: Vec<u32> = (0..6).map(|position| nth_missing(&active, position)).collect();
        assert_eq!(missing, [1, 2, 5, 6, 7, 8]);
        assert_eq!(nth_missing(&[], 7), 7);
        let mut random = stream(0, "windows", 0);
        // Few and many of the windows in which a latent is not active: rows 1, 2, 4 and 5 of six.
        let codes = crate::metrics::testing::codes(&[1.0, 0.0, 0.0, 2.0, 0.0, 0.0], 1);
        let columns = codes.columns().unwrap();
        for count in 0..=4 {
            let mut found = inactive(columns, 0, count, &mut random).unwrap();
            found.sort_unstable();
            found.dedup();
            assert!(found.len() == count && found.iter().all(|row| [1, 2, 4, 5].contains(row)), "{found:?}");
        }
        assert_eq!(inactive(columns, 0, 5, &mut random), None);
        let drawn = draw(&[1, 2, 3, 4, 5], 3, &mut random);
        assert!(drawn.len() == 3 && drawn.iter().all(|item| (1..=5).contains(item)));
    }
}
