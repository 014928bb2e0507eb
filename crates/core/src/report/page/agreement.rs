//! Measures against each other.

use maud::{Markup, html};

use super::Content;

impl Content<'_> {
    pub(super) fn agreement(&self) -> Markup {
        let (matrices, pairs): (Vec<_>, Vec<_>) =
            self.album.agreement.iter().partition(|figure| figure.name == "correlations");
        html! {
            section id="agreement" {
                h2 { "Do the measures agree?" }
                p {
                    "Every point is an input set. Two measures of the same thing lie near a line; r is Pearson's correlation. "
                    "With few input sets, or with groups that lie far apart, a high r says little: it then only repeats that the "
                    "groups differ."
                }
                @for figure in matrices { (self.figure(figure, "Pearson's r; blue agrees, orange disagrees.")) }
                div.pairs { @for figure in pairs { (self.figure(figure, "")) } }
            }
        }
    }
}
