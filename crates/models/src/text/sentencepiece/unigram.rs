//! Unigram segmentation: the sequence of pieces with the highest sum of scores.
//!
//! The order of additions and their precision are those of SentencePiece, because they decide between sequences of
//! almost equal score.

use super::lexicon::Lexicon;
use super::proto::{Kind, Piece};

/// How much worse than the worst piece an unknown character is.
const UNKNOWN_PENALTY: f32 = 10.0;

/// Scores of a vocabulary.
#[derive(Debug)]
pub(super) struct Unigram {
    unknown: f32,
    best: f32,
}

/// The best sequence that ends at a byte.
#[derive(Clone, Copy)]
struct Ending {
    score: f32,
    start: usize,
    /// `None`: an unknown character.
    id: Option<u32>,
}

impl Unigram {
    pub fn new(pieces: &[Piece]) -> Unigram {
        let normal = || pieces.iter().filter(|piece| piece.kind == Kind::Normal).map(|piece| piece.score);
        let worst = normal().fold(f32::MAX, f32::min);
        Unigram { unknown: worst - UNKNOWN_PENALTY, best: normal().fold(f32::MIN_POSITIVE, f32::max) }
    }

    /// Cuts a text into parts `start..end` with the id of their piece, `None` where there is none.
    pub fn segment(&self, text: &str, pieces: &[Piece], lexicon: &Lexicon) -> Vec<(usize, usize, Option<u32>)> {
        let mut endings: Vec<Option<Ending>> = vec![None; text.len() + 1];
        for (start, character) in text.char_indices() {
            let before = match endings.get(start) {
                Some(Some(ending)) => ending.score,
                _ => 0.0,
            };
            let width = character.len_utf8();
            let mut known = false;
            for (length, id) in lexicon.prefixes(text.get(start..).unwrap_or_default()) {
                let score = match pieces.get(id as usize) {
                    None | Some(Piece { kind: Kind::Unused, .. }) => continue,
                    // Preferred to everything else.
                    Some(Piece { kind: Kind::UserDefined, .. }) => length as f32 * self.best - 0.1,
                    Some(piece) => piece.score,
                };
                improve(&mut endings, start + length, score + before, start, Some(id));
                known |= length == width;
            }
            if !known {
                improve(&mut endings, start + width, self.unknown + before, start, None);
            }
        }
        let mut parts = Vec::new();
        let mut end = text.len();
        while let Some(Some(ending)) = endings.get(end).filter(|_| end > 0) {
            parts.push((ending.start, end, ending.id));
            end = ending.start;
        }
        parts.reverse();
        parts
    }
}

fn improve(endings: &mut [Option<Ending>], end: usize, score: f32, start: usize, id: Option<u32>) {
    if let Some(best) = endings.get_mut(end)
        && best.is_none_or(|best| score > best.score)
    {
        *best = Some(Ending { score, start, id });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_sequence_is_found() {
        let piece = |text: &str, score, kind| Piece { text: text.into(), score, kind };
        let pieces = [
            piece("a", -1.0, Kind::Normal),
            piece("b", -2.0, Kind::Normal),
            piece("ab", -2.5, Kind::Normal),
            piece("ba", -0.1, Kind::Unused),
            piece("bb", 0.0, Kind::UserDefined),
        ];
        let lexicon = Lexicon::new(pieces.iter().enumerate().map(|(id, piece)| (piece.text.as_str(), id as u32)));
        let unigram = Unigram::new(&pieces);
        let ids = |text| unigram.segment(text, &pieces, &lexicon).into_iter().map(|part| part.2).collect::<Vec<_>>();
        // ab: -2.5 against a + b: -3; the unused "ba" is ignored.
        assert_eq!(ids("aba"), [Some(2), Some(0)]);
        assert_eq!(ids("abb"), [Some(0), Some(4)]);
        assert_eq!(ids("aéa"), [Some(0), None, Some(0)]);
        assert_eq!(ids(""), []);
    }
}
