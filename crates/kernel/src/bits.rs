//! Bitsets of rows, for binary codes and labels.

/// A set of row numbers below `len`, one bit each.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Bits {
    words: Vec<u64>,
    len: usize,
}

impl Bits {
    /// The empty set over `len` rows.
    pub fn empty(len: usize) -> Bits {
        Bits { words: vec![0; len.div_ceil(64)], len }
    }

    /// All of `len` rows.
    pub fn full(len: usize) -> Bits {
        let mut bits = Bits { words: vec![!0; len.div_ceil(64)], len };
        if !len.is_multiple_of(64)
            && let Some(last) = bits.words.last_mut()
        {
            *last = (1 << (len % 64)) - 1;
        }
        bits
    }

    /// The set of the given rows. Rows at or beyond `len` are ignored.
    pub fn of(len: usize, rows: impl IntoIterator<Item = usize>) -> Bits {
        let mut bits = Bits::empty(len);
        for row in rows {
            bits.insert(row);
        }
        bits
    }

    /// Number of rows, in the set or not.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if `len` is 0, not if the set is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a row.
    #[inline]
    pub fn insert(&mut self, row: usize) {
        if row < self.len {
            self.words[row / 64] |= 1 << (row % 64);
        }
    }

    /// Removes a row.
    #[inline]
    pub fn remove(&mut self, row: usize) {
        if row < self.len {
            self.words[row / 64] &= !(1 << (row % 64));
        }
    }

    /// Whether the row is in the set.
    #[inline]
    pub fn contains(&self, row: usize) -> bool {
        row < self.len && self.words[row / 64] >> (row % 64) & 1 == 1
    }

    /// Number of rows in the set.
    pub fn count(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Number of rows in both sets.
    pub fn count_and(&self, other: &Bits) -> usize {
        self.words.iter().zip(&other.words).map(|(a, b)| (a & b).count_ones() as usize).sum()
    }

    /// Adds every row of `other`.
    pub fn union(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a |= b);
    }

    /// Keeps only the rows that are also in `other`.
    pub fn intersect(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= b);
    }

    /// Removes every row of `other`.
    pub fn subtract(&mut self, other: &Bits) {
        self.words.iter_mut().zip(&other.words).for_each(|(a, b)| *a &= !b);
    }

    /// The rows in the set, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, &word)| {
            std::iter::successors((word != 0).then_some(word), |left| {
                let rest = left & (left - 1);
                (rest != 0).then_some(rest)
            })
            .map(move |left| index * 64 + left.trailing_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_algebra_over_a_word_boundary() {
        let a = Bits::of(130, [0, 63, 64, 129]);
        let b = Bits::of(130, [63, 64, 65]);
        assert_eq!(a.count(), 4);
        assert_eq!(a.count_and(&b), 2);
        let mut union = a.clone();
        union.union(&b);
        assert_eq!(union.rows().collect::<Vec<_>>(), [0, 63, 64, 65, 129]);
        let mut left = a.clone();
        left.subtract(&b);
        assert_eq!(left.rows().collect::<Vec<_>>(), [0, 129]);
        assert!(a.contains(129) && !a.contains(130));
    }

    #[test]
    fn full_has_no_rows_beyond_its_length() {
        for len in [0, 1, 63, 64, 65, 128] {
            assert_eq!(Bits::full(len).count(), len);
        }
    }
}
