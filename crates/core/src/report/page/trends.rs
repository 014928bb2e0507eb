//! Measures against what varies between input sets.

use maud::{Markup, html};

use super::Content;

impl Content<'_> {
    pub(super) fn trends(&self) -> Markup {
        let caption = "The band is the 95 % interval.";
        html! {
            section id="trends" {
                h2 { "What size and sparsity change" }
                p {
                    "A measure that only grows with the number of units rewards size, not correspondence. Compare the slope of "
                    "trained input sets with that of untrained ones."
                }
                @for (field, figures) in &self.album.trends {
                    h3 { "Against " (field) }
                    div.pairs { @for figure in figures { (self.figure(figure, caption)) } }
                }
            }
        }
    }
}
