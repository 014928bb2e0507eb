//! The section of one measure: its description, all numbers, notes, figures and tables.

use maud::{Markup, html};

use super::super::figure::COLOURS;
use super::super::gather::headline;
use super::super::plots::{concept_table, label, label_column, score_column, shown};
use super::super::significance::{Significance, detectable};
use super::super::words::{UNDEFINED, plain, short, tidy};
use super::{Content, key_code, scrolling};
use crate::metrics::Card;
use crate::results::{Aggregate, Cells, Stored, Table, main_rows, seedless_name};

/// Number of concepts shown with the highest and with the lowest scores.
const EXTREMES: usize = 5;

/// Maximum number of columns with numbers per table, so that tables fit a screen.
const COLUMNS: usize = 7;

impl Content<'_> {
    pub(super) fn measure(&self, measure: usize) -> Markup {
        let about = &self.gathered.measures[measure];
        html! {
            section id=(format!("measure-{}", about.slug)) {
                h2 { (about.title) }
                @match about.card {
                    Some(card) => {
                        @if about.first { (describe(card)) } @else { p { (card.summary) } }
                        p.quiet { "95 % interval: " (card.interval) }
                    }
                    None => p.quiet {
                        "This version of Etalon does not know the metric " code { (about.metric) }
                        "; higher is assumed to be better."
                    }
                }
                (self.runs(measure))
                (self.notes(measure))
                @let (small, large): (Vec<_>, Vec<_>) =
                    self.album.measures[measure].iter().partition(|figure| figure.name.contains("-by-"));
                @for figure in large { (self.figure(figure, &self.caption(measure, &figure.name))) }
                @if !small.is_empty() {
                    div.pairs { @for figure in small { (self.figure(figure, &self.caption(measure, &figure.name))) } }
                }
                (self.strategies(measure))
                (self.concepts(measure))
            }
        }
    }

    /// The caption of a figure, by its name.
    fn caption(&self, measure: usize, name: &str) -> String {
        if name.contains("-matrices-") {
            return "Areas under the ROC curve with which the representation of the concept of a row (learned), or its \
                    labels (oracle), predicts the concept of a column; 0.5 is chance. First run."
                .into();
        }
        let omitted = match () {
            () if name.ends_with("-by-layer") || name.ends_with("-by-model") => {
                "; band: 5th to 95th percentile of units"
            }
            () if name.ends_with("-concepts") => "; concepts with undefined scores are omitted",
            () if name.ends_with("-latents") => "; latents with undefined scores are omitted",
            () => "",
        };
        let measured = |set: &usize| !self.gathered.runs(measure, *set).is_empty();
        let (all, shown) =
            ((0..self.gathered.sets.len()).filter(measured).count(), shown(&self.gathered, measure).len());
        if shown < all {
            return format!(
                "First run of {shown} of {all} input sets, the first ones and all kinds of baselines{omitted}."
            );
        }
        format!("First run of every input set{omitted}.")
    }

    /// The table of all headline numbers of all runs.
    fn runs(&self, measure: usize) -> Markup {
        let about = &self.gathered.measures[measure];
        let smallest = about.keys.first().zip(self.gathered.comparison(measure)).and_then(|(key, column)| {
            detectable(column, about.better(key), self.pinned).map(|smallest| (key, smallest))
        });
        let tables = about.keys.len().div_ceil(COLUMNS).max(1);
        let label = |part: usize| match tables {
            1 => format!("{}: all numbers by input set and seed", about.title),
            _ => format!("{}: all numbers by input set and seed, part {} of {tables}", about.title, part + 1),
        };
        let cell = |stored: &Stored, key: &str, set: usize| {
            self.cell(headline(stored, key).map(Aggregate::of_run), Significance::Apart, measure, set)
        };
        html! {
            @for (part, keys) in about.keys.chunks(about.keys.len().div_ceil(tables).max(1)).enumerate() {
                @let label = label(part);
                (scrolling(&label, html! {
                    table {
                        caption { (label) }
                        thead {
                            tr {
                                th scope="col" { "Input set" }
                                th.number scope="col" { "Seed" }
                                @for key in keys { th.number scope="col" { (key_code(key)) } }
                            }
                        }
                        tbody {
                            @for (set, input) in self.gathered.sets.iter().enumerate() {
                                @for stored in self.gathered.runs(measure, set) {
                                    tr {
                                        th scope="row" { (run_label(stored, &input.label)) }
                                        td.number { (stored.result.recipe.seed) }
                                        @for key in keys { (cell(stored, key, set)) }
                                    }
                                }
                            }
                        }
                    }
                }))
            }
            @if let Some((key, smallest)) = smallest {
                p.quiet {
                    "Differences of " code { (tidy(key)) } " below about " (short(smallest))
                    " (the median half-width of the 95 % interval of a difference) are within noise."
                }
            }
        }
    }

    fn notes(&self, measure: usize) -> Markup {
        let notes: Vec<_> =
            self.gathered.notes.iter().enumerate().filter(|(_, note)| note.measure == measure).collect();
        html! {
            @if !notes.is_empty() {
                h3 { "Notes" }
                ul.notes {
                    @for (index, note) in notes {
                        @let sets: Vec<&str> = note.sets.iter().map(|&set| self.gathered.sets[set].label.as_str()).collect();
                        li id=(format!("note-{}", index + 1)) {
                            span.tag { (index + 1) } " " (note.text) " "
                            span.quiet { "(" (sets.join(", ")) ")" }
                        }
                    }
                }
            }
        }
    }

    /// A table of the first run of every input set.
    fn tables(&self, measure: usize, table: fn(&Stored) -> Option<&Table>) -> Vec<(usize, &Table)> {
        let first = |set: usize| Some((set, table(self.gathered.runs(measure, set).first()?)?));
        (0..self.gathered.sets.len()).filter_map(first).filter(|(_, table)| table.rows() > 0).collect()
    }

    /// The scores by strategy and input set.
    fn strategies(&self, measure: usize) -> Markup {
        let keys = &self.gathered.measures[measure].keys;
        let tables: Vec<(usize, &Table)> = self.tables(measure, |stored| stored.result.scores.table("strategy"));
        let mut names: Vec<&String> = Vec::new();
        for name in tables.iter().filter_map(|(_, table)| label_column(table)).flatten() {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        let score = |table: &Table, name: &String| {
            let row = label_column(table)?.iter().position(|other| other == name)?;
            score_column(table, keys)?.1.number(row)
        };
        let label = format!("{} by strategy", self.gathered.measures[measure].title);
        html! {
            // A single strategy would repeat the headline.
            @if names.len() > 1 {
                (scrolling(&label, html! {
                    table {
                        caption { (label) }
                        thead {
                            tr {
                                th scope="col" { "Input set" }
                                @for name in &names { th.number scope="col" { (tidy(name)) } }
                            }
                        }
                        tbody {
                            @for (set, table) in &tables {
                                tr {
                                    th scope="row" { (self.gathered.sets[*set].label) }
                                    @for name in &names {
                                        td.number { (score(table, name).map_or(UNDEFINED.into(), short)) }
                                    }
                                }
                            }
                        }
                    }
                }))
            }
        }
    }

    /// The concepts with the highest and lowest scores, with their latents.
    fn concepts(&self, measure: usize) -> Markup {
        let tables = self.tables(measure, concept_table);
        // The first set under test is unfolded; upper bounds before it are less informative.
        let open = tables.iter().map(|(set, _)| *set).find(|&set| !self.gathered.sets[set].is_ceiling());
        html! {
            @for (set, table) in tables.into_iter().take(COLOURS.len()) {
                @if let Some((column, cells)) = score_column(table, &self.gathered.measures[measure].keys) {
                    @let label = format!("Highest and lowest {}: {}", tidy(column), self.gathered.sets[set].label);
                    details open[open == Some(set)] {
                        summary { (label) }
                        (scrolling(&label, rows(&label, table, &extremes(cells, main_rows(table)))))
                    }
                }
            }
        }
    }
}

/// The label of a run: that of its input set, with the seed of its dictionary if the name of the dictionary has one.
fn run_label(stored: &Stored, label: &str) -> String {
    let seed = stored.about.get("inputs").and_then(|name| seedless_name(name.as_str()?).1);
    match seed.map(|seed| format!("seed{seed}")).filter(|seed| !label.contains(seed.as_str())) {
        Some(seed) => format!("{label}, dictionary {seed}"),
        None => label.into(),
    }
}

/// The rows with the highest and the lowest defined values.
fn extremes(cells: &Cells, rows: Vec<usize>) -> Vec<usize> {
    let mut order: Vec<(f64, usize)> = rows.into_iter().filter_map(|row| Some((cells.number(row)?, row))).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let rows: Vec<usize> = order.into_iter().map(|(_, row)| row).collect();
    if rows.len() <= 2 * EXTREMES {
        return rows;
    }
    [&rows[..EXTREMES], &rows[rows.len() - EXTREMES..]].concat()
}

/// A table of some rows: names, then up to eight columns.
fn rows(caption: &str, table: &Table, chosen: &[usize]) -> Markup {
    let names = label_column(table);
    let is_label =
        |cells: &Cells| matches!((cells, names), (Cells::Text(text), Some(names)) if text.as_slice() == names);
    let columns: Vec<&(String, Cells)> = table
        .columns
        .iter()
        .filter(|(name, cells)| !is_label(cells) && name != "strategy" && !matches!(cells, Cells::NumberLists(_)))
        .take(8)
        .collect();
    let numeric = |cells: &Cells| matches!(cells, Cells::Number(_) | Cells::Whole(_));
    html! {
        table {
            caption.hidden { (caption) }
            thead {
                tr {
                    th scope="col" { (tidy(&table.axis)) }
                    @for (name, cells) in &columns { th.number[numeric(cells)] scope="col" { code { (tidy(name)) } } }
                }
            }
            tbody {
                @for (index, &row) in chosen.iter().enumerate() {
                    // A line separates the highest from the lowest.
                    tr.cut[chosen.len() == 2 * EXTREMES && index == EXTREMES] {
                        th scope="row" { (label(table, row)) }
                        @for (_, cells) in &columns { td.number[numeric(cells)] { (cell_text(cells, row)) } }
                    }
                }
            }
        }
    }
}

fn cell_text(cells: &Cells, row: usize) -> String {
    match cells {
        Cells::Whole(cells) => cells.get(row).copied().flatten().map_or(UNDEFINED.into(), |value| plain(value as f64)),
        Cells::Number(cells) => cells.get(row).copied().flatten().map_or(UNDEFINED.into(), short),
        Cells::Text(cells) => cells.get(row).map_or(String::new(), |text| tidy(text)),
        Cells::WholeLists(cells) => cells.get(row).map_or(String::new(), |list| {
            let limit = 12;
            let shown: Vec<String> = list.iter().take(limit).map(i64::to_string).collect();
            let more = if list.len() > limit { format!(", … ({} in total)", list.len()) } else { String::new() };
            if list.is_empty() { "none".into() } else { format!("{}{more}", shown.join(", ")) }
        }),
        Cells::NumberLists(_) => String::new(),
    }
}

fn describe(card: &Card) -> Markup {
    html! {
        p { (card.measures) }
        details {
            summary { "Definition, source and cost" }
            dl {
                dt { "Definition" } dd.text { (card.definition) }
                @if !card.headline.is_empty() {
                    dt { "Numbers" }
                    @for output in card.headline { dd { code { (output.key) } ": " (output.doc) } }
                }
                dt { "Source" } dd.text { (card.source) }
                dt { "Cost" } dd.text { (card.cost) }
            }
        }
    }
}
