//! Labels of tokens, from the annotated words of a text.

use std::path::{Path, PathBuf};

use etalon::context::Budget;
use etalon::error::Result;
use etalon::store::disk;

use crate::data::{ConceptOptions, Concepts, Label, Words};
use crate::text::Span;

/// Collects the labels of stored rows, one row per token.
#[derive(Debug, Default)]
pub(super) struct WordLabels {
    /// Created by the first text with annotated words, with the columns of its tags.
    table: Option<(Vec<String>, Concepts)>,
    /// Rows so far.
    rows: usize,
}

impl WordLabels {
    /// Adds the row of a token: it has the tags of the word that it belongs to.
    pub fn push(&mut self, words: Option<&Words>, token: Span, budget: &Budget) -> Result<()> {
        if let (None, Some(words)) = (&self.table, words) {
            let columns: Vec<String> = words.tags.iter().map(|(name, _)| name.clone()).collect();
            let mut concepts = Concepts::new(&columns, budget)?;
            // Rows of earlier texts, whose words are not annotated.
            (0..self.rows).try_for_each(|row| concepts.push(&row.to_string(), &[]))?;
            self.table = Some((columns, concepts));
        }
        if let Some((columns, concepts)) = &mut self.table {
            let word = words.and_then(|words| Some((words, word_of(words, token)?)));
            let tag = |column: &String| {
                let (words, word) = word?;
                words.tags.iter().find(|(name, _)| name == column)?.1.get(word).cloned()
            };
            let label = |column| tag(column).map_or(Label::Missing, Label::Value);
            let labels: Vec<Label> = columns.iter().map(label).collect();
            concepts.push(&self.rows.to_string(), &labels)?;
        }
        self.rows += 1;
        Ok(())
    }

    /// Writes the labels; returns their path, if a word is annotated.
    pub fn finish(self, out: &Path, options: &ConceptOptions<'_>) -> Result<Option<PathBuf>> {
        let Some((_, concepts)) = self.table.filter(|(_, concepts)| !concepts.is_empty()) else { return Ok(None) };
        let path = out.join("token_labels.csv");
        disk::write(&path, concepts.finish(options)?.to_csv()?.as_bytes())?;
        Ok(Some(path))
    }
}

/// The word that a token belongs to: the first one that shares a byte with it. Tokens of spaces belong to none.
fn word_of(words: &Words, token: Span) -> Option<usize> {
    let (start, end) = (token.start as usize, token.end as usize);
    let word = words.spans.partition_point(|span| span.end <= start);
    words.spans.get(word).filter(|span| span.start < end).map(|_| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_the_tags_of_their_words() {
        // "A bird, here": the tokens are "A", " bi", "rd,", " ", "here".
        let tags = ["article", "noun", "comma", "adverb"].map(String::from).to_vec();
        let words = Words { spans: vec![0..1, 2..6, 6..7, 8..12], tags: vec![("pos".into(), tags)] };
        let tokens = [(0, 1), (1, 4), (4, 7), (7, 8), (8, 12)];
        let found: Vec<Option<usize>> =
            tokens.iter().map(|&(start, end)| word_of(&words, Span { start, end })).collect();
        assert_eq!(found, [Some(0), Some(1), Some(1), None, Some(3)]);
        let (budget, directory) = (Budget::new(1 << 20), tempfile::tempdir().unwrap());
        let mut labels = WordLabels::default();
        // A text without annotated words comes first.
        labels.push(None, Span { start: 0, end: 3 }, &budget).unwrap();
        for (start, end) in tokens {
            labels.push(Some(&words), Span { start, end }, &budget).unwrap();
        }
        let path = labels.finish(directory.path(), &ConceptOptions::default()).unwrap().unwrap();
        let expected = "sample,adverb,article,noun\n0,,,\n1,0,1,0\n2,0,0,1\n3,0,0,1\n4,,,\n5,1,0,0\n";
        assert_eq!(std::fs::read_to_string(path).unwrap(), expected);
        let mut labels = WordLabels::default();
        labels.push(None, Span { start: 0, end: 3 }, &budget).unwrap();
        assert_eq!(labels.finish(directory.path(), &ConceptOptions::default()).unwrap(), None);
    }
}
