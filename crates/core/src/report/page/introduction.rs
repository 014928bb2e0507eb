//! The introduction: what is measured and how to read the numbers.

use maud::{Markup, html};

use super::Content;

/// The meaning of common names of input sets.
fn meaning(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let meanings = [
        ("oracle", "the true features: an upper bound of what a measure can be expected to give"),
        ("truth", "the true features: an upper bound of what a measure can be expected to give"),
        ("trained", "a dictionary trained on the data"),
        (
            "untrained",
            "a dictionary of the same architecture with random weights: what the architecture achieves without training",
        ),
        ("shuffled", "codes with permuted rows: what activation frequencies alone achieve"),
        ("random", "random codes: what chance achieves"),
        ("neurons", "the units of the representation itself, without a dictionary"),
    ];
    meanings.into_iter().find(|(word, _)| name.starts_with(word)).map(|(_, text)| text)
}

impl Content<'_> {
    pub(super) fn introduction(&self) -> Markup {
        let sets = &self.gathered.sets;
        let described = |index: usize| {
            let set = &sets[index];
            set.description.clone().or_else(|| meaning(&set.name).map(str::to_string))
        };
        // Sets with the same description are listed together.
        let mut known: Vec<(String, Vec<&str>)> = Vec::new();
        for (index, text) in (0..sets.len()).filter_map(|index| Some((index, described(index)?))) {
            let label = sets[index].label.as_str();
            match known.iter_mut().find(|(other, _)| *other == text) {
                Some((_, labels)) => labels.push(label),
                None => known.push((text, vec![label])),
            }
        }
        html! {
            section.introduction aria-label="Introduction" {
                p {
                    "A representation consists of " em { "units" } ": latents of a sparse autoencoder, neurons, or the concepts of a "
                    "concept bottleneck. This report measures how well units correspond to concepts that people understand. "
                    "It compares " (count(sets.len(), "input set", "input sets")) " by "
                    (count(self.gathered.measures.len(), "measure", "measures")) "."
                }
                p {
                    "Compare each number with those of the untrained and random input sets, if there are any: a measure that does not "
                    "separate them from trained ones is not informative. Every number has a 95 % interval. A difference between two "
                    "numbers may be due to chance if the 95 % interval of the difference contains 0. Differences on the same units "
                    "are paired."
                }
                @if !known.is_empty() {
                    dl.sets {
                        @for (text, labels) in known.iter().take(12) {
                            div { dt { (several(labels)) } dd { (text) } }
                        }
                    }
                }
            }
        }
    }
}

/// The first names, and the number of the others.
fn several(labels: &[&str]) -> String {
    match labels.len() {
        0..=3 => labels.join(", "),
        count => format!("{} and {} more", labels[..2].join(", "), count - 2),
    }
}

/// A number with the singular or plural of a noun.
fn count(number: usize, singular: &str, plural: &str) -> String {
    format!("{number} {}", if number == 1 { singular } else { plural })
}
