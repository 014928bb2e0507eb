//! Random changes of valid bytes, reproducible by seed.

use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Maximum length of an input.
const LONGEST: usize = 1 << 18;

/// Numbers at which sizes and counts overflow.
const EDGES: [u64; 12] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, 1 << 63, u64::MAX];

/// Texts that parsers handle specially.
const WORDS: [&str; 12] =
    ["-1", "1e400", "NaN", "18446744073709551616", "null", "{", "[", "\"", ",", "\n", "\\u0000", "\u{feff}"];

/// Changes bytes at random.
pub struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    /// The changes of a seed.
    pub fn new(seed: u64) -> Mutator {
        Mutator { random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// One of the seeds with one to four changes.
    pub fn next(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let Some(seed) = seeds.get(self.below(seeds.len())) else { return Vec::new() };
        let mut bytes = seed.clone();
        for _ in 0..1 + self.below(4) {
            self.change(&mut bytes, seeds);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn change(&mut self, bytes: &mut Vec<u8>, seeds: &[Vec<u8>]) {
        let at = self.below(bytes.len() + 1);
        let end = (at + 1 + self.below(16)).min(bytes.len());
        match self.below(9) {
            0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
            1 if at < bytes.len() => bytes[at] = self.random.next_u32() as u8,
            2 => bytes.truncate(at),
            3 => drop(bytes.drain(at.min(end)..end)),
            4 => {
                let twice = bytes[at.min(end)..end].to_vec();
                bytes.splice(at..at, twice);
            }
            5 => {
                let edge = EDGES[self.below(EDGES.len())];
                let width = 1 << self.below(4);
                let number = if self.below(2) == 0 { edge.to_le_bytes() } else { edge.to_be_bytes() };
                let number = if self.below(2) == 0 { &number[..width] } else { &number[8 - width..] };
                bytes.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = *new);
            }
            6 => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(at.min(end)..end, word.bytes());
            }
            7 => {
                let word = WORDS[self.below(WORDS.len())];
                bytes.splice(at..at, word.bytes());
            }
            _ => {
                // A piece of another valid file.
                let other = &seeds[self.below(seeds.len())];
                let from = self.below(other.len() + 1);
                let piece = &other[from..other.len().min(from + 64)];
                bytes.splice(at..at, piece.iter().copied());
            }
        }
    }

    /// A whole number below a limit; 0 when the limit is 0.
    fn below(&mut self, limit: usize) -> usize {
        if limit == 0 { 0 } else { self.random.random_range(0..limit) }
    }
}
