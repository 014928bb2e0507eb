//! What is measured and how to read it, for somebody who comes from nowhere.

use maud::{Markup, html};

use super::Content;

/// What the customary names of input sets mean.
fn meaning(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let meanings = [
        ("oracle", "the true features themselves: the most that a measure can be expected to give"),
        ("truth", "the true features themselves: the most that a measure can be expected to give"),
        ("trained", "a dictionary trained on the data"),
        ("untrained", "the same kind of dictionary with random weights: what its shape alone achieves"),
        ("shuffled", "codes whose rows have been exchanged: what frequencies alone achieve"),
        ("random", "activities drawn at random: what luck achieves"),
        ("neurons", "the units of the representation as they are, without a dictionary"),
    ];
    meanings.into_iter().find(|(word, _)| name.starts_with(word)).map(|(_, text)| text)
}

impl Content<'_> {
    pub(super) fn introduction(&self) -> Markup {
        let sets = &self.gathered.sets;
        let described = |place: usize| {
            let set = &sets[place];
            set.description.clone().or_else(|| meaning(&set.name).map(str::to_string))
        };
        // Sets of one description stand together.
        let mut known: Vec<(String, Vec<&str>)> = Vec::new();
        for (place, text) in (0..sets.len()).filter_map(|place| Some((place, described(place)?))) {
            let label = sets[place].label.as_str();
            match known.iter_mut().find(|(other, _)| *other == text) {
                Some((_, labels)) => labels.push(label),
                None => known.push((text, vec![label])),
            }
        }
        html! {
            section.introduction aria-label="Introduction" {
                p {
                    "A network represents what it sees in " em { "units" } ": the latents of a sparse autoencoder, neurons, or "
                    "concepts that it was given. This report measures how well such units correspond to things that people "
                    "understand. It compares " (count(sets.len(), "input set", "input sets")) " by "
                    (count(self.gathered.measures.len(), "measure", "measures")) "."
                }
                p {
                    "A measure is worth as much as the differences that it can show. Read each number beside the numbers of the "
                    "untrained and random input sets, if there are any: a measure that does not tell them from trained ones says "
                    "little. Behind every number stands its 95 % interval. Two numbers may differ by chance if the 95 % "
                    "interval of their difference contains 0; it is taken unit by unit where both are about the same units."
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

/// A few names, and how many more there are.
fn several(labels: &[&str]) -> String {
    match labels.len() {
        0..=3 => labels.join(", "),
        many => format!("{} and {} more", labels[..2].join(", "), many - 2),
    }
}

/// A number of things.
fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}
