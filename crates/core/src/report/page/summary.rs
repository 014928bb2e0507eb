//! The summary: the main number of every measure on every input set, and the sanity figure.

use maud::{Markup, html};

use super::super::significance::{Significance, significances};
use super::super::words::{UNDEFINED, arrow, interval, plain, short};
use super::{Content, key_code, scrolling};
use crate::metrics::Better;
use crate::results::Aggregate;

/// Maximum number of measures per table, so that the page can be printed.
const COLUMNS: usize = 5;

impl Content<'_> {
    pub(super) fn summary(&self) -> Markup {
        let measures: Vec<usize> = (0..self.gathered.measures.len())
            .filter(|&measure| !self.gathered.measures[measure].keys.is_empty())
            .collect();
        let tables = measures.len().div_ceil(COLUMNS).max(1);
        let each = measures.len().div_ceil(tables).max(1);
        html! {
            section id=[self.home.is_empty().then_some("summary")] {
                @if self.home.is_empty() { h2 { "Summary" } }
                @for (part, measures) in measures.chunks(each).enumerate() {
                    @let caption = if tables == 1 {
                        "Main number of every measure".to_string()
                    } else {
                        format!("Main number of every measure, part {} of {tables}", part + 1)
                    };
                    (scrolling(&caption, self.summary_table(&caption, measures)))
                }
                @if let Some((low, high)) = self.gathered.l0_range() {
                    p.warning {
                        "L0 (active latents per row) of the input sets differs, from " (plain(low)) " to " (plain(high))
                        ": the best of a column is not the best at equal sparsity. Compare input sets of similar L0"
                        @if self.home.is_empty() && self.album.trends.iter().any(|(field, _)| field == "l0") {
                            ", or see the " a href="#trends" { "charts against L0" }
                        }
                        "."
                    }
                }
                (self.legend())
                @for figure in &self.album.sanity { (self.figure(figure, &self.album.sanity_caption)) }
            }
        }
    }

    fn summary_table(&self, caption: &str, measures: &[usize]) -> Markup {
        let gathered = &self.gathered;
        let known: Vec<&str> = ["latents", "l0"]
            .into_iter()
            .filter(|name| gathered.sets.iter().any(|set| set.numbers.contains_key(*name)))
            .collect();
        let columns: Vec<Vec<Significance>> = measures
            .iter()
            .map(|&measure| {
                let about = &gathered.measures[measure];
                let better = about.keys.first().map_or(Better::Neither, |key| about.better(key));
                let column = gathered.comparison(measure);
                column.map_or_else(Vec::new, |column| significances(column, better, self.pinned))
            })
            .collect();
        let groups = gathered.sets.iter().any(|set| set.group.is_some());
        html! {
            table {
                caption { (caption) }
                thead {
                    tr {
                        th scope="col" { "Input set" }
                        @if groups { th scope="col" { "Group" } }
                        @for name in &known { th.number scope="col" { (if *name == "l0" { "L0" } else { "Latents" }) } }
                        @for &measure in measures {
                            @let about = &gathered.measures[measure];
                            th.number scope="col" {
                                a href=(format!("{}#measure-{}", self.home, about.slug)) { (about.title) }
                                @if let Some(key) = about.keys.first() {
                                    span.under { (key_code(key)) (arrow(about.better(key))) }
                                }
                            }
                        }
                    }
                }
                tbody {
                    @for (set, about) in gathered.sets.iter().enumerate() {
                        tr.pinned[self.pinned == Some(set)] {
                            th scope="row" { (about.label) @if self.pinned == Some(set) { " " span.tag { "pinned" } } }
                            @if groups { td { (about.group.as_deref().unwrap_or("")) } }
                            @for name in &known {
                                td.number { (about.numbers.get(*name).map_or(String::new(), |value| plain(*value))) }
                            }
                            @for (significances, &measure) in columns.iter().zip(measures) {
                                @let significance = significances.get(set).copied().unwrap_or(Significance::Apart);
                                (self.cell(gathered.main(measure, set), significance, measure, set))
                            }
                        }
                    }
                }
            }
        }
    }

    /// A cell: value, mark, interval and number of units.
    pub(super) fn cell(
        &self,
        cell: Option<Aggregate>,
        significance: Significance,
        measure: usize,
        set: usize,
    ) -> Markup {
        let Some(cell) = cell else { return html! { td.number.missing { span.hidden { "not measured" } } } };
        let Some(value) = cell.value else { return html! { td.number { (self.undefined(measure, set)) } } };
        let (class, mark, spoken) = match significance {
            Significance::Best => ("best", "★", "best"),
            Significance::WithinNoise => ("unclear", "≈", "within noise"),
            Significance::Apart => ("", "", ""),
        };
        html! {
            td.number.(class) {
                span.value {
                    @if !mark.is_empty() { span.mark aria-hidden="true" { (mark) } span.hidden { (spoken) " " } }
                    (short(value))
                }
                span.under {
                    @if let Some(noise) = cell.interval { span { (interval(noise)) } " · " }
                    span { "n " (cell.n) }
                    @if cell.runs > 1 { " · " span { (cell.runs) " runs" } }
                }
            }
        }
    }

    /// A dash for an undefined number, with a link to the note that explains it.
    pub(super) fn undefined(&self, measure: usize, set: usize) -> Markup {
        html! {
            span.value.dash aria-label="undefined" { (UNDEFINED) }
            @if let Some(note) = self.gathered.explanation(measure, set) {
                sup { a href=(format!("{}#note-{}", self.home, note + 1)) aria-label=(format!("note {}", note + 1)) { (note + 1) } }
            }
        }
    }

    fn legend(&self) -> Markup {
        let against = if self.pinned.is_some() { "the pinned input set" } else { "the best of its column" };
        html! {
            ul.legend {
                li { span.best { span.mark aria-hidden="true" { "★" } "best" } " of its column" }
                li {
                    span.unclear { span.mark aria-hidden="true" { "≈" } "grey" }
                    ": within noise; the 95 % interval of its difference to " (against) " contains 0"
                }
                li { (UNDEFINED) " undefined; the superscript links to the note that explains why" }
                li { "empty: not measured" }
                li { "low–high: 95 % interval; n: number of units (concepts, latents, pairs) that are averaged" }
                li { "several runs: mean over seeds; the interval covers units (bootstrap) and seeds (Student's t)" }
                @if self.beside { li { "All numbers: " a href="results.csv" { "results.csv" } } }
            }
        }
    }
}
