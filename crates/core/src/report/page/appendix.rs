//! The section with the recipe of every result, for reproduction.

use maud::{Markup, html};

use super::super::gather::setting;
use super::super::words::tidy;
use super::{Content, scrolling};

impl Content<'_> {
    pub(super) fn appendix(&self) -> Markup {
        let gathered = &self.gathered;
        let cells =
            (0..gathered.measures.len()).flat_map(|measure| (0..gathered.sets.len()).map(move |set| (measure, set)));
        let runs: Vec<_> = cells
            .flat_map(|(measure, set)| gathered.runs(measure, set).iter().map(move |stored| (measure, set, *stored)))
            .collect();
        let label = "Recipe of every result";
        html! {
            section id="recipes" {
                h2 { "Recipes" }
                p {
                    "The same recipe with the same inputs gives the same numbers, bit for bit. Inputs are identified by the BLAKE3 hash "
                    "of their content, and results by the hash of their recipe. The file of a result is " code { "results/" em { "id" } ".json" } "."
                }
                (scrolling(label, html! {
                    table.recipes {
                        caption { (label) }
                        thead {
                            tr {
                                th scope="col" { "Metric" } th scope="col" { "Input set" } th.number scope="col" { "Seed" }
                                th scope="col" { "Profile" } th scope="col" { "Parameters" } th scope="col" { "Id" }
                            }
                        }
                        tbody {
                            @for (_, set, stored) in &runs {
                                @let recipe = &stored.result.recipe;
                                tr {
                                    th scope="row" { (tidy(&recipe.metric)) " " span.quiet { "v" (recipe.version) } }
                                    td { (gathered.sets[*set].label) }
                                    td.number { (recipe.seed) }
                                    td { (recipe.profile.name()) }
                                    td {
                                        @for (index, (name, value)) in recipe.params.iter().enumerate() {
                                            @if index > 0 { ", " } (tidy(name)) " = " (tidy(&setting(value)))
                                        }
                                    }
                                    td { code { (tidy(&stored.id)) } }
                                }
                            }
                        }
                    }
                }))
                @if !gathered.superseded.is_empty() { (self.superseded()) }
                details {
                    summary { "Inputs by hash" }
                    @for (measure, set, stored) in &runs {
                        h3 { (gathered.measures[*measure].title) ", " (gathered.sets[*set].label) ", seed " (stored.result.recipe.seed) }
                        dl.hashes {
                            dt { "etalon" } dd { (tidy(&stored.result.etalon)) }
                            @for (role, hash) in &stored.result.recipe.inputs {
                                dt { (tidy(role)) } dd { code { (tidy(hash)) } }
                            }
                            @for (name, value) in &stored.about { dt { (tidy(name)) } dd { (tidy(&setting(value))) } }
                        }
                    }
                }
            }
        }
    }

    /// Results that are not part of the report.
    fn superseded(&self) -> Markup {
        let gathered = &self.gathered;
        html! {
            details {
                summary { "Superseded results (" (gathered.superseded.len()) ")" }
                p {
                    "Newer results from other inputs exist under the same name and measure. No number or figure of this report "
                    "includes these."
                }
                ul {
                    @for (measure, set, stored) in &gathered.superseded {
                        li {
                            (gathered.measures[*measure].title) ", " (gathered.sets[*set].label)
                            ", seed " (stored.result.recipe.seed) ": " code { (tidy(&stored.id)) }
                        }
                    }
                }
            }
        }
    }
}
