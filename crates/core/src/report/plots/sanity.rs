//! The sanity figure: does a measure separate trained, untrained and random input sets?

use super::super::figure::{Bar, Bars, COLOURS, Figure};
use super::super::gather::Gathered;

/// Maximum number of bars per figure: thinner bars have no space for their numbers.
const BARS: usize = 32;

/// A group of bars per measure, a bar per input set. Many sets are averaged by group.
pub fn draw(gathered: &Gathered<'_>) -> Vec<Figure> {
    let conditions = conditions(gathered);
    let measures: Vec<usize> =
        (0..gathered.measures.len()).filter(|&m| !gathered.measures[m].keys.is_empty()).collect();
    if conditions.is_empty() || measures.is_empty() {
        return Vec::new();
    }
    // Measures are distributed evenly over the figures.
    let figures = measures.len().div_ceil((BARS / conditions.len()).max(1));
    let each = measures.len().div_ceil(figures);
    let series: Vec<(String, usize)> =
        conditions.iter().enumerate().map(|(index, (label, _))| (label.clone(), index)).collect();
    let draw = |(part, measures): (usize, &[usize])| {
        let group = |&measure: &usize| {
            let about = &gathered.measures[measure];
            let bar = |(_, sets): &(String, Vec<usize>)| {
                let cell = gathered.mean(measure, sets, about.keys.first()?)?;
                Some(Bar { value: cell.value, interval: cell.interval })
            };
            (about.title.clone(), conditions.iter().map(bar).collect())
        };
        let name = if figures == 1 { "sanity".into() } else { format!("sanity-{}", part + 1) };
        Bars {
            name,
            title: "All measures on all input sets".into(),
            groups: measures.iter().map(group).collect(),
            series: series.clone(),
            axis: "score, clipped to 0–1".into(),
            bounds: (0.0, 1.0),
        }
        .draw()
    };
    measures.chunks(each).enumerate().map(draw).collect()
}

/// The caption of the figure.
pub fn caption(gathered: &Gathered<'_>) -> String {
    let (sets, shown) = (gathered.sets.len(), conditions(gathered));
    let bars = match () {
        () if shown.iter().any(|(_, members)| members.len() > 1) => {
            "Bars: means over groups of input sets; error bars: 95 % intervals".into()
        }
        () if shown.len() < sets => {
            format!("Bars: the first {} of {sets} input sets; error bars: 95 % intervals", shown.len())
        }
        () => String::from("Bars: input sets; error bars: 95 % intervals"),
    };
    format!(
        "{bars}. A valid measure gives clearly better scores to trained input sets than to untrained and random ones."
    )
}

/// The bars: input sets, or their groups if there are more sets than colours.
fn conditions(gathered: &Gathered<'_>) -> Vec<(String, Vec<usize>)> {
    let sets = &gathered.sets;
    if sets.len() > COLOURS.len() {
        let mut groups: Vec<(String, Vec<usize>)> = Vec::new();
        for (index, set) in sets.iter().enumerate() {
            let group = set.group.clone().unwrap_or_else(|| set.name.clone());
            match groups.iter_mut().find(|(other, _)| *other == group) {
                Some((_, members)) => members.push(index),
                None => groups.push((group, vec![index])),
            }
        }
        if (2..=COLOURS.len()).contains(&groups.len()) {
            return groups;
        }
    }
    sets.iter().enumerate().take(COLOURS.len()).map(|(index, set)| (set.label.clone(), vec![index])).collect()
}
