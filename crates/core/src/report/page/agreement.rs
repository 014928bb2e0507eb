//! The section with scatter plots and correlations of measures.

use maud::{Markup, html};

use super::super::agreement::Agreement;
use super::Content;

impl Content<'_> {
    pub(super) fn agreement(&self) -> Markup {
        let (matrices, pairs): (Vec<_>, Vec<_>) =
            self.album.agreement.iter().partition(|figure| figure.name == "correlations");
        html! {
            section id="agreement" {
                h2 { "Agreement between measures" }
                p {
                    "Every point is an input set. ρ is Spearman's rank correlation over the input sets that are not baselines, with "
                    "the numbers negated of which lower is better: 1 means that two measures put the sets in the same order, from "
                    "worse to better. n is the number of sets. A value in parentheses is within chance: unrelated measures reach it "
                    "in more than 5 % of all cases."
                    @let undirected = Agreement::of(&self.gathered).undirected;
                    @if !undirected.is_empty() {
                        @let titles: Vec<&str> = undirected.iter().map(|&m| self.gathered.measures[m].title.as_str()).collect();
                        " Left out, because neither end is better: " (titles.join(", ")) "."
                    }
                }
                @for figure in matrices { (self.figure(figure, "Blue: agreement; orange: opposite order; parentheses: within chance.")) }
                div.pairs { @for figure in pairs { (self.figure(figure, "")) } }
            }
        }
    }
}
