//! Random streams: every random choice is a function of `(seed, purpose, block)`, never of scheduling.

use rand::seq::SliceRandom;
use rand::{Rng, SeedableRng};
pub use rand_chacha::ChaCha8Rng;

/// The stream for one purpose ("match/bootstrap") and one block of it.
pub fn stream(seed: u64, purpose: &str, block: u64) -> ChaCha8Rng {
    let mut hash = blake3::Hasher::new_derive_key("etalon random stream v1");
    hash.update(&seed.to_le_bytes()).update(&block.to_le_bytes()).update(purpose.as_bytes());
    ChaCha8Rng::from_seed(*hash.finalize().as_bytes())
}

/// The integers below `len` in random order.
pub fn permutation(len: usize, random: &mut ChaCha8Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.shuffle(random);
    order
}

/// A uniform number in `[0, 1)` with 53 random bits.
#[inline]
pub fn unit(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

/// A uniform index below `len` (unbiased to 2⁻⁶⁴; `len` must not be 0).
#[inline]
pub fn index(len: usize, random: &mut ChaCha8Rng) -> usize {
    ((random.next_u64() as u128 * len as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_depend_on_all_three_keys() {
        let first = |seed, purpose, block| stream(seed, purpose, block).next_u64();
        let base = first(1, "a", 0);
        assert_eq!(base, first(1, "a", 0));
        assert!([first(2, "a", 0), first(1, "b", 0), first(1, "a", 1)].iter().all(|&other| other != base));
    }

    #[test]
    fn indices_cover_the_range() {
        let mut random = stream(0, "test", 0);
        let mut seen = [0; 7];
        (0..7000).for_each(|_| seen[index(7, &mut random)] += 1);
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
    }
}
