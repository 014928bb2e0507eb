//! The sanity figure: does a measure separate trained, untrained and random input sets?

use super::super::figure::{Bar, Bars, Figure, Panel};
use super::super::gather::Gathered;
use super::super::words::arrow;

/// Maximum number of rows: more do not fit on a page.
const ROWS: usize = 24;

/// Maximum number of panels per figure.
const PANELS: usize = 12;

/// A panel per measure, a bar per input set. Many sets are averaged by group.
pub fn draw(gathered: &Gathered<'_>) -> Vec<Figure> {
    let conditions = conditions(gathered);
    let measures: Vec<usize> =
        (0..gathered.measures.len()).filter(|&m| !gathered.measures[m].keys.is_empty()).collect();
    if conditions.is_empty() || measures.is_empty() {
        return Vec::new();
    }
    // Measures are distributed evenly over the figures.
    let figures = measures.len().div_ceil(PANELS);
    let each = measures.len().div_ceil(figures);
    let rows: Vec<(String, usize)> =
        conditions.iter().map(|(label, sets)| (label.clone(), gathered.colour_of(sets))).collect();
    let draw = |(part, measures): (usize, &[usize])| {
        let panel = |&measure: &usize| {
            let about = &gathered.measures[measure];
            let bar = |(_, sets): &(String, Vec<usize>)| {
                let cell = gathered.mean(measure, sets, about.keys.first()?)?;
                Some(Bar { value: cell.value, interval: cell.interval })
            };
            let arrow = about.keys.first().map_or("", |key| arrow(about.better(key)));
            Panel { title: format!("{}{arrow}", about.title), bars: conditions.iter().map(bar).collect() }
        };
        let (name, of) = match figures {
            1 => ("sanity".into(), String::new()),
            _ => (format!("sanity-{}", part + 1), format!(", part {} of {figures}", part + 1)),
        };
        let title = format!("All measures on all input sets{of}");
        Bars { name, title, rows: rows.clone(), panels: measures.iter().map(panel).collect() }.draw()
    };
    measures.chunks(each).enumerate().map(draw).collect()
}

/// The caption of the figure.
pub fn caption(gathered: &Gathered<'_>) -> String {
    let (sets, shown) = (gathered.sets.len(), conditions(gathered));
    let bars = match () {
        () if shown.iter().any(|(_, members)| members.len() > 1) => "Bars: means over groups of input sets".into(),
        () if shown.len() < sets => {
            format!("Bars: {} of {sets} input sets, the first ones and all kinds of baselines", shown.len())
        }
        () => String::from("Bars: input sets"),
    };
    format!(
        "{bars}; error bars: 95 % intervals; every measure has its own axis, and an arrow shows which end is better. A \
         valid measure gives clearly better scores to trained input sets than to untrained and random ones."
    )
}

/// The rows: input sets, or their groups if there are too many sets.
fn conditions(gathered: &Gathered<'_>) -> Vec<(String, Vec<usize>)> {
    let sets = &gathered.sets;
    if sets.len() > ROWS {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, set) in sets.iter().enumerate() {
            let group = set.group.clone().unwrap_or_else(|| set.name.clone());
            match groups.iter_mut().find(|(other, _)| *other == group) {
                Some((_, members)) => members.push(index),
                None => groups.push((group, vec![index])),
            }
        }
        if (2..=ROWS).contains(&groups.len()) {
            return groups;
        }
    }
    gathered.choose(0..sets.len(), ROWS).into_iter().map(|set| (sets[set].label.clone(), vec![set])).collect()
}
