//! The sanity figure: does a measure tell trained from untrained from random?

use super::super::figure::{Bar, Bars, COLOURS, Figure};
use super::super::gather::Gathered;

/// How many bars one figure holds before they become too thin to carry their numbers.
const BARS: usize = 32;

/// Every measure as a group, every input set as a bar. Many sets are shown by their groups.
pub fn draw(gathered: &Gathered<'_>) -> Vec<Figure> {
    let conditions = conditions(gathered);
    let measures: Vec<usize> =
        (0..gathered.measures.len()).filter(|&m| !gathered.measures[m].keys.is_empty()).collect();
    if conditions.is_empty() || measures.is_empty() {
        return Vec::new();
    }
    // Figures of equal fullness rather than a full one and a rest.
    let figures = measures.len().div_ceil((BARS / conditions.len()).max(1));
    let each = measures.len().div_ceil(figures);
    let series: Vec<(String, usize)> =
        conditions.iter().enumerate().map(|(place, (label, _))| (label.clone(), place)).collect();
    let draw = |(place, measures): (usize, &[usize])| {
        let group = |&measure: &usize| {
            let about = &gathered.measures[measure];
            let bar = |(_, sets): &(String, Vec<usize>)| {
                let cell = gathered.mean(measure, sets, about.keys.first()?)?;
                Some(Bar { value: cell.value, interval: cell.interval })
            };
            (about.title.clone(), conditions.iter().map(bar).collect())
        };
        let name = if figures == 1 { "sanity".into() } else { format!("sanity-{}", place + 1) };
        Bars {
            name,
            title: "Every measure on every input set".into(),
            groups: measures.iter().map(group).collect(),
            series: series.clone(),
            axis: "score, cut to 0–1".into(),
            bounds: (0.0, 1.0),
        }
        .draw()
    };
    measures.chunks(each).enumerate().map(draw).collect()
}

/// What the bars are, for the reader of the figure.
pub fn caption(gathered: &Gathered<'_>) -> String {
    let (sets, shown) = (gathered.sets.len(), conditions(gathered));
    let bars = match () {
        () if shown.iter().any(|(_, members)| members.len() > 1) => {
            "Bars are the means of groups of input sets, the thin lines the 95 % intervals of these means".into()
        }
        () if shown.len() < sets => {
            format!("Bars are the first {} of {sets} input sets, the thin lines their 95 % intervals", shown.len())
        }
        () => String::from("Bars are input sets, the thin lines their 95 % intervals"),
    };
    format!(
        "{bars}; the numbers are the values. A measure that works gives trained input sets clearly more than untrained and random ones."
    )
}

/// What the bars are: input sets, or their groups when there are more sets than colours.
fn conditions(gathered: &Gathered<'_>) -> Vec<(String, Vec<usize>)> {
    let sets = &gathered.sets;
    if sets.len() > COLOURS.len() {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (place, set) in sets.iter().enumerate() {
            let group = set.group.clone().unwrap_or_else(|| set.name.clone());
            match groups.iter_mut().find(|(other, _)| *other == group) {
                Some((_, members)) => members.push(place),
                None => groups.push((group, vec![place])),
            }
        }
        if (2..=COLOURS.len()).contains(&groups.len()) {
            return groups;
        }
    }
    sets.iter().enumerate().take(COLOURS.len()).map(|(place, set)| (set.label.clone(), vec![place])).collect()
}
