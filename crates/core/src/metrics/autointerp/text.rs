//! Windows as text.

use std::ops::Range;

use super::positions::LatentValues;
use super::select::{Examples, Origin};
use crate::run::TokenTexts;

/// The text of a window; `is_marked` tokens stand between `<<` and `>>`. Bytes that are no character by themselves are left out,
/// and a line break is shown as ↵.
pub(super) fn text(tokens: &TokenTexts, window: Range<u32>, is_marked: impl Fn(u32) -> bool) -> String {
    let mut text = String::new();
    for position in window {
        let token = tokens.text(position as usize).replace('\u{fffd}', "").replace('\n', "↵");
        if is_marked(position) {
            text.push_str(&format!("<<{token}>>"));
        } else {
            text.push_str(&token);
        }
    }
    text
}

/// Texts numbered from 1, one per line.
pub(super) fn numbered(texts: &[String]) -> String {
    let lines: Vec<String> = texts.iter().enumerate().map(|(index, text)| format!("{}. {text}", index + 1)).collect();
    lines.join("\n")
}

/// What judges see of a latent.
pub(super) struct Shown<'a> {
    pub tokens: &'a TokenTexts,
    pub buffer: usize,
}

impl Shown<'_> {
    fn window(&self, centre: u32) -> Range<u32> {
        centre.saturating_sub(self.buffer as u32)..centre + self.buffer as u32 + 1
    }

    /// The windows that explain, with active tokens marked.
    pub fn explaining(&self, examples: &Examples, values: &LatentValues) -> Vec<String> {
        let marked = |position: u32| values.is_active(position, examples.threshold);
        examples.explaining.iter().map(|centre| text(self.tokens, self.window(*centre), marked)).collect()
    }

    /// The windows that test, without marks.
    pub fn scored(&self, examples: &Examples) -> Vec<String> {
        examples.scored.iter().map(|(_, centre)| text(self.tokens, self.window(*centre), |_| false)).collect()
    }

    /// The windows whose marks are judged.
    pub fn marked(&self, examples: &Examples) -> Vec<String> {
        let shown = |marked: &super::select::Marked| {
            text(self.tokens, self.window(marked.centre), |position| marked.positions.contains(&position))
        };
        examples.marked.iter().map(shown).collect()
    }

    /// Whether the latent is active in each window that tests. With `assumed`, random windows are inactive whatever happens in them.
    pub fn truth(&self, examples: &Examples, values: &LatentValues, assumed: bool) -> Vec<bool> {
        let is_active =
            |centre: u32| self.window(centre).any(|position| values.is_active(position, examples.threshold));
        examples
            .scored
            .iter()
            .map(|(origin, centre)| !(assumed && *origin == Origin::Random) && is_active(*centre))
            .collect()
    }

    /// Random windows in which the latent is active.
    pub fn active_random(&self, examples: &Examples, values: &LatentValues) -> usize {
        let truth = self.truth(examples, values, false);
        examples.scored.iter().zip(truth).filter(|((origin, _), active)| *origin == Origin::Random && *active).count()
    }
}
