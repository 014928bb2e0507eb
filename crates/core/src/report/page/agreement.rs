//! The section with scatter plots and correlations of measures.

use maud::{Markup, html};

use super::Content;

impl Content<'_> {
    pub(super) fn agreement(&self) -> Markup {
        let (matrices, pairs): (Vec<_>, Vec<_>) =
            self.album.agreement.iter().partition(|figure| figure.name == "correlations");
        html! {
            section id="agreement" {
                h2 { "Agreement between measures" }
                p {
                    "Every point is an input set, and r is Pearson's correlation over input sets. A high r is weak evidence of "
                    "agreement if there are few input sets, or if they form separate groups: then it only reflects that the groups "
                    "differ."
                }
                @for figure in matrices { (self.figure(figure, "Pearson's r; blue is positive, orange is negative.")) }
                div.pairs { @for figure in pairs { (self.figure(figure, "")) } }
            }
        }
    }
}
