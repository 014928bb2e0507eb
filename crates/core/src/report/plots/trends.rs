//! Measures against a number that varies between input sets, such as latents, L0 or k.

use std::collections::{BTreeMap, BTreeSet};

use super::super::figure::{COLOURS, Figure, Lines, Point, Series, Stroke};
use super::super::gather::Gathered;
use super::super::words::{plain, slug};

/// One figure per measure for every number that takes at least three values.
pub fn draw(gathered: &Gathered<'_>) -> Vec<(String, Vec<Figure>)> {
    let fields: BTreeSet<&String> = gathered.sets.iter().flat_map(|set| set.numbers.keys()).collect();
    let mut trends = Vec::new();
    let mut names = BTreeSet::new();
    for field in fields {
        let mut values: Vec<f64> = gathered.sets.iter().filter_map(|set| set.numbers.get(field).copied()).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        // The summary compares two values already, and L0 replaces k.
        if values.len() < 3 || *field == "k" && gathered.sets.iter().any(|set| set.numbers.contains_key("l0")) {
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
    let families = families(gathered, field);
    let colours = distinct(families.iter().map(|(_, sets)| gathered.colour_of(sets)));
    for ((label, sets), colour) in families.into_iter().zip(colours) {
        let is_reference = sets.iter().all(|&set| gathered.sets[set].stroke() == Stroke::Dashed);
        let stroke = if is_reference { Stroke::Dashed } else { Stroke::Solid };
        // Input sets of one family with the same value are averaged.
        let mut by_value: BTreeMap<u64, (f64, Vec<usize>)> = BTreeMap::new();
        for set in sets {
            if let Some(&x) = gathered.sets[set].numbers.get(field).filter(|x| x.is_finite()) {
                by_value.entry(x.to_bits()).or_insert((x, Vec::new())).1.push(set);
            }
        }
        let point = |(x, sets): &(f64, Vec<usize>)| {
            let cell = gathered.mean(measure, sets, key)?;
            Some(Point { x: *x, y: cell.value?, interval: cell.interval })
        };
        let mut points: Vec<Point> = by_value.values().filter_map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        if !points.is_empty() {
            series.push(Series { label, colour, stroke, points });
        }
    }
    let points = series.iter().map(|series| series.points.len()).sum::<usize>();
    (points > 2).then(|| {
        Lines {
            name: format!("{}-by-{file}", about.slug),
            title: format!("{} against {field}", about.title),
            across: field.into(),
            up: about.title.clone(),
            categories: Vec::new(),
            bands: true,
            series,
            marks: true,
            width: 430.0,
        }
        .draw()
    })
}

/// Colours of lines: where two are equal, the later one gets the next that is free.
pub(super) fn distinct(colours: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut taken: Vec<usize> = Vec::new();
    for colour in colours {
        let free = (0..COLOURS.len()).map(|step| (colour + step) % COLOURS.len()).find(|other| !taken.contains(other));
        taken.push(free.unwrap_or(colour));
    }
    taken
}

/// Numbers that are chosen, not measured. Along a line, only the one on the horizontal axis may vary.
const CHOSEN: [&str; 2] = ["latents", "k"];

/// A name without its parts that contain digits (`topk-512-k16-seed0` becomes `topk`); if all parts do, without its
/// digits.
fn without_numbers(name: &str) -> String {
    const SEPARATORS: [char; 3] = ['-', '_', ' '];
    let has_digit = |part: &str| part.contains(|c: char| c.is_ascii_digit());
    let parts: String = name.split_inclusive(SEPARATORS).filter(|part| !has_digit(part)).collect();
    let bare = name.replace(|c: char| c.is_ascii_digit(), "");
    let name = if parts.is_empty() { bare } else { parts };
    name.trim_matches(SEPARATORS).to_string()
}

/// The input sets of each line: those of one name if names repeat, else those of one group, else those whose names
/// differ only in numbers; in each case, those that agree in the other chosen numbers.
fn families(gathered: &Gathered<'_>, field: &str) -> Vec<(String, Vec<usize>)> {
    // L0 is measured and follows from k, so k may vary with it.
    let may_vary = |other: &str| other == field || field == "l0" && other == "k";
    let fixed = |set: usize| -> String {
        let numbers = &gathered.sets[set].numbers;
        let known = CHOSEN.iter().filter(|other| !may_vary(other)).filter_map(|name| Some((name, numbers.get(*name)?)));
        known.map(|(name, value)| format!(", {name} {}", plain(*value))).collect()
    };
    let by = |name: &dyn Fn(usize) -> Option<String>| {
        let mut families: Vec<(String, String, Vec<usize>)> = Vec::new();
        for set in (0..gathered.sets.len()).filter(|&set| gathered.sets[set].numbers.contains_key(field)) {
            let Some(name) = name(set) else { continue };
            let fixed = fixed(set);
            match families.iter_mut().find(|(other, rest, _)| *other == name && *rest == fixed) {
                Some((_, _, members)) => members.push(set),
                None => families.push((name, fixed, vec![set])),
            }
        }
        families
    };
    let several = |families: &Vec<(String, String, Vec<usize>)>| families.iter().any(|family| family.2.len() > 1);
    let by_name = by(&|set| Some(gathered.sets[set].name.clone()));
    let by_group = by(&|set| gathered.sets[set].group.clone());
    let by_stem = by(&|set| Some(without_numbers(&gathered.sets[set].name)));
    let mut families = [by_name, by_group, by_stem].into_iter().find(several).unwrap_or_default();
    // A single point is dropped if there is a line of the same name.
    let lines: Vec<String> =
        families.iter().filter(|family| family.2.len() > 1).map(|family| family.0.clone()).collect();
    families.retain(|(name, _, members)| members.len() > 1 || !lines.contains(name));
    let twice = |name: &String| families.iter().filter(|family| family.0 == *name).count() > 1;
    let labels: Vec<String> = families
        .iter()
        .map(|(name, fixed, _)| if twice(name) { format!("{name}{fixed}") } else { name.clone() })
        .collect();
    labels.into_iter().zip(families).map(|(label, (_, _, members))| (label, members)).collect()
}

#[cfg(test)]
mod tests {
    use super::without_numbers;

    #[test]
    fn numbers_are_removed_from_names() {
        for (name, expected) in [
            ("topk-512-k16-seed0", "topk"),
            ("batch_topk-2048-k64", "batch_topk"),
            ("gpt-2-relu-512", "gpt-relu"),
            ("run12", "run"),
            ("trained", "trained"),
        ] {
            assert_eq!(without_numbers(name), expected);
        }
    }
}
