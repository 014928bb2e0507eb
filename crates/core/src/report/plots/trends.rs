//! Measures against a number that varies between input sets, such as latents, L0 or k.

use std::collections::{BTreeMap, BTreeSet};

use super::super::figure::{Figure, Lines, Point, Series};
use super::super::gather::Gathered;
use super::super::words::slug;

/// One figure per measure for every number that takes at least three values.
pub fn draw(gathered: &Gathered<'_>) -> Vec<(String, Vec<Figure>)> {
    let fields: BTreeSet<&String> = gathered.sets.iter().flat_map(|set| set.numbers.keys()).collect();
    let mut trends = Vec::new();
    let mut names = BTreeSet::new();
    for field in fields {
        let mut values: Vec<f64> = gathered.sets.iter().filter_map(|set| set.numbers.get(field).copied()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        // Two values are a comparison, which the summary makes already.
        if values.len() < 3 {
            continue;
        }
        let file = slug(field);
        let figures: Vec<Figure> = match names.insert(file.clone()) {
            true => (0..gathered.measures.len()).filter_map(|m| against(gathered, m, field, &file)).collect(),
            false => Vec::new(),
        };
        if !figures.is_empty() {
            trends.push((field.clone(), figures));
        }
    }
    trends
}

fn against(gathered: &Gathered<'_>, measure: usize, field: &str, file: &str) -> Option<Figure> {
    let about = &gathered.measures[measure];
    let key = about.keys.first()?;
    let mut series: Vec<Series> = Vec::new();
    for (label, sets) in families(gathered, field) {
        // Input sets of one family at the same place become one point.
        let mut places: BTreeMap<u64, (f64, Vec<usize>)> = BTreeMap::new();
        for set in sets {
            if let Some(&x) = gathered.sets[set].numbers.get(field).filter(|x| x.is_finite()) {
                places.entry(x.to_bits()).or_insert((x, Vec::new())).1.push(set);
            }
        }
        let point = |(x, sets): &(f64, Vec<usize>)| {
            let cell = gathered.cell(measure, sets, key)?;
            Some(Point { x: *x, y: cell.value?, interval: cell.interval })
        };
        let mut points: Vec<Point> = places.values().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            series.push(Series { label, colour: series.len(), points });
        }
    }
    let points = series.iter().map(|series| series.points.len()).sum::<usize>();
    (points > 2).then(|| {
        Lines {
            name: format!("{}-by-{file}", about.slug),
            title: format!("{} against {field}", about.title),
            across: field.into(),
            up: about.title.clone(),
            places: Vec::new(),
            series,
            marks: true,
            width: 430.0,
        }
        .draw()
    })
}

/// Input sets that belong on one line: those of one name if names repeat, else those of one group, else those whose
/// names differ in numbers alone. Others have nothing in common that a line could follow.
fn families(gathered: &Gathered<'_>, field: &str) -> Vec<(String, Vec<usize>)> {
    let by = |name: &dyn Fn(usize) -> Option<String>| {
        let mut families: Vec<(String, Vec<usize>)> = Vec::new();
        for set in (0..gathered.sets.len()).filter(|&set| gathered.sets[set].numbers.contains_key(field)) {
            let Some(name) = name(set) else { continue };
            match families.iter_mut().find(|(other, _)| *other == name) {
                Some((_, members)) => members.push(set),
                None => families.push((name, vec![set])),
            }
        }
        families
    };
    let several = |families: &Vec<(String, Vec<usize>)>| families.iter().any(|(_, members)| members.len() > 1);
    let by_name = by(&|set| Some(gathered.sets[set].name.clone()));
    let by_group = by(&|set| gathered.sets[set].group.clone());
    let letters = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "").trim_matches(['-', '_', ' ']).to_string();
    let by_letters = by(&|set| Some(letters(&gathered.sets[set].name)));
    [by_name, by_group, by_letters].into_iter().find(several).unwrap_or_default()
}
