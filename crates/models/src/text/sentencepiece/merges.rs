//! Byte-pair encoding by scores: of all adjacent pairs that form a piece, the one with the highest score is merged
//! first, and the leftmost of equal ones.
//!
//! The BPE model of `tokenizers` needs a list of all merges instead, which are half a million for Gemma.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

/// Part of a text that may be merged with its neighbours.
#[derive(Clone, Copy, Debug)]
struct Symbol {
    start: usize,
    /// Zero after it was merged into the symbol before.
    length: usize,
    before: usize,
    after: usize,
    /// Never merged.
    fixed: bool,
}

/// No neighbour.
const NONE: usize = usize::MAX;

/// Two neighbours that form a piece.
#[derive(Debug)]
struct Pair {
    score: f32,
    left: usize,
    right: usize,
    length: usize,
}

impl Ord for Pair {
    fn cmp(&self, other: &Pair) -> Ordering {
        self.score.total_cmp(&other.score).then(other.left.cmp(&self.left))
    }
}

impl PartialOrd for Pair {
    fn partial_cmp(&self, other: &Pair) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Pair {
    fn eq(&self, other: &Pair) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Pair {}

/// A piece that a pair can form.
#[derive(Clone, Copy, Debug)]
pub(super) struct Merged {
    pub score: f32,
    /// Merged to form longer pieces, but not used itself.
    pub unused: bool,
}

/// Cuts a text into parts: `start..end` in bytes. `find` returns the piece of a text; `symbol` the length of a symbol at
/// the start of a text that is never merged.
pub(super) fn segment(
    text: &str,
    find: impl Fn(&str) -> Option<Merged>,
    symbol: impl Fn(&str) -> Option<usize>,
) -> Vec<(usize, usize)> {
    let mut merging = Merging { text, find, symbols: Vec::new(), queue: BinaryHeap::new(), unused: HashMap::new() };
    let mut start = 0;
    while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        let fixed = symbol(rest);
        let length = fixed.unwrap_or_else(|| rest.chars().next().map_or(1, char::len_utf8));
        let index = merging.symbols.len();
        let before = index.checked_sub(1).unwrap_or(NONE);
        merging.symbols.push(Symbol { start, length, before, after: index + 1, fixed: fixed.is_some() });
        start += length;
    }
    if let Some(last) = merging.symbols.last_mut() {
        last.after = NONE;
    }
    (1..merging.symbols.len()).for_each(|right| merging.consider(right - 1, right));
    merging.run();
    let mut parts = Vec::with_capacity(merging.symbols.len());
    for symbol in merging.symbols.iter().filter(|symbol| symbol.length > 0) {
        merging.split(symbol.start, symbol.length, &mut parts);
    }
    parts
}

struct Merging<'a, F> {
    text: &'a str,
    find: F,
    symbols: Vec<Symbol>,
    queue: BinaryHeap<Pair>,
    /// How unused pieces were formed: the length of their left part.
    unused: HashMap<&'a str, usize>,
}

impl<F: Fn(&str) -> Option<Merged>> Merging<'_, F> {
    /// Queues two neighbours if they form a piece.
    fn consider(&mut self, left: usize, right: usize) {
        let (Some(first), Some(second)) = (self.symbols.get(left), self.symbols.get(right)) else {
            return;
        };
        if first.fixed || second.fixed {
            return;
        }
        let length = first.length + second.length;
        let Some(text) = self.text.get(first.start..first.start + length) else {
            return;
        };
        if let Some(merged) = (self.find)(text) {
            self.queue.push(Pair { score: merged.score, left, right, length });
            if merged.unused {
                self.unused.insert(text, first.length);
            }
        }
    }

    fn run(&mut self) {
        while let Some(pair) = self.queue.pop() {
            let (Some(&left), Some(&right)) = (self.symbols.get(pair.left), self.symbols.get(pair.right)) else {
                continue;
            };
            // One of them has been merged with another one since.
            if left.length == 0 || right.length == 0 || left.length + right.length != pair.length {
                continue;
            }
            if let Some(symbol) = self.symbols.get_mut(pair.left) {
                symbol.length = pair.length;
                symbol.after = right.after;
            }
            if let Some(symbol) = self.symbols.get_mut(pair.right) {
                symbol.length = 0;
            }
            if let Some(symbol) = self.symbols.get_mut(right.after) {
                symbol.before = pair.left;
            }
            self.consider(left.before, pair.left);
            self.consider(pair.left, right.after);
        }
    }

    /// Adds a part, or the parts that it was formed of if its piece is unused.
    fn split(&self, start: usize, length: usize, parts: &mut Vec<(usize, usize)>) {
        let mut pending = vec![(start, length)];
        while let Some((start, length)) = pending.pop() {
            match self.text.get(start..start + length).and_then(|text| self.unused.get(text)) {
                Some(&left) if left < length => {
                    pending.push((start + left, length - left));
                    pending.push((start, left));
                }
                _ => parts.push((start, start + length)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segmented<'a>(text: &'a str, pieces: &[(&str, f32)], fixed: &str) -> Vec<&'a str> {
        let find = |text: &str| {
            let (_, score) = pieces.iter().find(|(piece, _)| *piece == text)?;
            Some(Merged { score: *score, unused: *score < -100.0 })
        };
        let symbol = |text: &str| (!fixed.is_empty() && text.starts_with(fixed)).then_some(fixed.len());
        segment(text, find, symbol).into_iter().map(|(start, end)| &text[start..end]).collect()
    }

    #[test]
    fn the_highest_score_is_merged_first_and_the_leftmost_of_equal_ones() {
        let pieces = [("aa", -1.0), ("aaa", -2.0)];
        // aa|a|a → aa and aa, leftmost first; of (aa, aa) no piece.
        assert_eq!(segmented("aaaa", &pieces, ""), ["aa", "aa"]);
        assert_eq!(segmented("aaa", &pieces, ""), ["aaa"]);
        // bc (-1) before ab (-2), though ab is on the left.
        assert_eq!(segmented("abc", &[("ab", -2.0), ("bc", -1.0)], ""), ["a", "bc"]);
        assert_eq!(segmented("", &pieces, ""), Vec::<&str>::new());
    }

    #[test]
    fn unused_pieces_are_split_and_symbols_are_fixed() {
        assert_eq!(segmented("abc", &[("ab", -200.0)], ""), ["a", "b", "c"]);
        assert_eq!(segmented("abc", &[("ab", -200.0), ("abc", -300.0)], ""), ["a", "b", "c"]);
        assert_eq!(segmented("abc", &[("ab", -200.0), ("abc", -3.0)], ""), ["abc"]);
        assert_eq!(segmented("a<b>a", &[("a<b>", -1.0), (">a", -1.0)], "<b>"), ["a", "<b>", "a"]);
    }
}
