//! The section with measures against numbers that vary between input sets.

use maud::{Markup, html};

use super::Content;

impl Content<'_> {
    pub(super) fn trends(&self) -> Markup {
        let caption = "Bands are 95 % intervals.";
        html! {
            section id="trends" {
                h2 { "Scores by dictionary size and sparsity" }
                p {
                    "A measure that increases with the number of units for untrained input sets too rewards size, not correspondence "
                    "to concepts. Compare the slopes of trained and untrained input sets."
                }
                @for (field, figures) in &self.album.trends {
                    h3 { "Against " (field) }
                    div.pairs { @for figure in figures { (self.figure(figure, caption)) } }
                }
            }
        }
    }
}
