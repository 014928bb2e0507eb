//! The summary as plain text, for a terminal with 100 columns.

use super::data::{OnData, by_data};
use super::gather::Gathered;
use super::significance::{Significance, significances};
use super::words::{UNDEFINED, plain, short, shorten};
use crate::metrics::Better;
use crate::results::{Aggregate, Stored};

/// The maximum width of a line.
const WIDTH: usize = 100;

/// One row per input set and one column per measure, split into several tables if too wide; separate tables for data
/// sets.
pub fn text_table(results: &[Stored]) -> String {
    if results.is_empty() {
        return "no results\n".into();
    }
    let parts = by_data(results);
    if parts.len() > 1 {
        let titled = |part: &OnData<'_>| format!("{}\n\n{}", part.name, one_table(part.results.iter().copied()));
        return parts.iter().map(titled).collect::<Vec<_>>().join("\n");
    }
    one_table(results)
}

fn one_table<'a>(results: impl IntoIterator<Item = &'a Stored>) -> String {
    let gathered = Gathered::of(results);
    let labels: Vec<String> = gathered.sets.iter().map(|set| shorten(&set.label, 32)).collect();
    let mut first = vec![("input set".to_string(), labels, false)];
    for (name, title) in [("latents", "latents"), ("l0", "L0")] {
        if gathered.sets.iter().any(|set| set.numbers.contains_key(name)) {
            let cells = gathered.sets.iter().map(|set| set.numbers.get(name).map_or(String::new(), |v| plain(*v)));
            first.push((title.to_string(), cells.collect(), true));
        }
    }
    let available = WIDTH - first.iter().map(|column| 2 + column_width(column)).sum::<usize>();
    let mut tables: Vec<Vec<TextColumn>> = Vec::new();
    let mut used = usize::MAX;
    let mut marks = (false, false);
    for measure in (0..gathered.measures.len()).filter(|&measure| !gathered.measures[measure].keys.is_empty()) {
        let column = measure_column(&gathered, measure, &mut marks);
        let width = 2 + column_width(&column);
        if used.saturating_add(width) > available {
            tables.push(Vec::new());
            used = 0;
        }
        used += width;
        if let Some(table) = tables.last_mut() {
            table.push(column);
        }
    }
    if tables.is_empty() {
        tables.push(Vec::new());
    }
    let mut blocks: Vec<String> =
        tables.iter().map(|table| block(&first.iter().chain(table).collect::<Vec<_>>(), gathered.sets.len())).collect();
    let mut legend = Vec::new();
    if blocks.iter().any(|block| block.contains('±')) {
        legend.push("± half-width of the 95 % interval");
    }
    if marks.0 {
        legend.push("* best");
    }
    if marks.1 {
        legend.push("~ within noise of the best");
    }
    if blocks.iter().any(|block| block.contains(UNDEFINED)) {
        legend.push("– undefined");
    }
    if !legend.is_empty() {
        blocks.push(format!("{}\n", legend.join("   ")));
    }
    if let Some((low, high)) = gathered.l0_range().filter(|_| marks.0) {
        let (low, high) = (plain(low), plain(high));
        blocks.push(format!("L0 differs between input sets ({low} to {high}): * is not the best at equal L0\n"));
    }
    if !gathered.superseded.is_empty() {
        let count = gathered.superseded.len();
        let results = if count == 1 { "result" } else { "results" };
        blocks.push(format!("{count} superseded {results} not shown: from earlier inputs under the same name\n"));
    }
    blocks.join("\n")
}

/// A heading, its cells, and whether they are aligned to the right.
type TextColumn = (String, Vec<String>, bool);

fn measure_column(gathered: &Gathered<'_>, measure: usize, marks: &mut (bool, bool)) -> TextColumn {
    let about = &gathered.measures[measure];
    let cells: Vec<Option<Aggregate>> = (0..gathered.sets.len()).map(|set| gathered.main(measure, set)).collect();
    let better = about.keys.first().map_or(Better::Neither, |key| about.better(key));
    let significances =
        gathered.comparison(measure).map_or_else(Vec::new, |column| significances(column, better, None));
    let text = |(cell, significance): (&Option<Aggregate>, &Significance)| {
        let Some(cell) = cell else { return String::new() };
        // A mark or a blank at the end, so that digits are aligned.
        let mark = match significance {
            Significance::Best => '*',
            Significance::WithinNoise => '~',
            Significance::Apart => ' ',
        };
        marks.0 |= mark == '*';
        marks.1 |= mark == '~';
        let Some(value) = cell.value else { return format!("{UNDEFINED} ") };
        match cell.interval {
            Some(noise) => format!("{} ±{}{mark}", short(value), short((noise.high - noise.low) / 2.0)),
            None => format!("{}{mark}", short(value)),
        }
    };
    (shorten(&about.title, 40), cells.iter().zip(&significances).map(text).collect(), true)
}

fn column_width((title, cells, _): &TextColumn) -> usize {
    cells.iter().chain([title]).map(|text| width(text)).max().unwrap_or(0)
}

fn block(columns: &[&TextColumn], rows: usize) -> String {
    let pad = |text: &str, column: &TextColumn| {
        let blanks = " ".repeat(column_width(column).saturating_sub(width(text)));
        if column.2 { format!("{blanks}{text}") } else { format!("{text}{blanks}") }
    };
    let line = |cell: &dyn Fn(&TextColumn) -> String| {
        let cells: Vec<String> = columns.iter().map(|column| cell(column)).collect();
        format!("{}\n", cells.join("  ").trim_end())
    };
    let mut text = line(&|column| pad(&column.0, column));
    text.push_str(&line(&|column| "─".repeat(column_width(column))));
    for row in 0..rows {
        text.push_str(&line(&|column| pad(&column.1[row], column)));
    }
    text
}

/// The width of a text in terminal columns: 0 for combining marks, 2 for wide East Asian characters and emoji.
fn width(text: &str) -> usize {
    let of = |c: char| match c as u32 {
        0x0300..=0x036f | 0x200b..=0x200d | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff | 0xfe30..=0xfe6f | 0xff00..=0xff60 => 2,
        0x1f300..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    };
    text.chars().map(of).sum()
}
