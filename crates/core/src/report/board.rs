//! The report as JSON: the data of the explorer's tables and charts.

use serde_json::{Map, Value, json};

use super::agreement::Agreement;
use super::data::{OnData, by_data};
use super::figure::Figure;
use super::gather::{Gathered, InputSet, Measure};
use super::plots::Album;
use super::significance::best;
use super::words::tidy;
use crate::metrics::Better;
use crate::results::{Aggregate, Interval, RankAgreement, Stored};

/// Up to this many input sets, differences are computed for all pairs; above, only to the best set and to the
/// baselines.
const ALL_PAIRS: usize = 64;

/// By data set: input sets, measures, scores (of every run, and over all runs), differences between sets, and notes.
/// The explorer draws these numbers and computes no statistics itself.
pub fn board(results: &[Stored]) -> Value {
    json!({ "data": by_data(results).iter().map(one).collect::<Vec<_>>() })
}

/// The figures of the report, by slug of their data set, with the colours of the surrounding page.
pub fn album(results: &[Stored]) -> Vec<(String, Value)> {
    let figure = |figure: &Figure| json!({"name": figure.name, "title": figure.title, "description": figure.description, "svg": figure.inline()});
    let figures = |part: &OnData<'_>| {
        let drawn: Vec<Value> = Album::of(&Gathered::of(part.results.iter().copied())).all().map(figure).collect();
        (part.slug.clone(), json!({"name": part.name, "slug": part.slug, "figures": drawn}))
    };
    by_data(results).iter().map(figures).collect()
}

fn one(part: &OnData<'_>) -> Value {
    let gathered = Gathered::of(part.results.iter().copied());
    let mut cells = Vec::new();
    for measure in 0..gathered.measures.len() {
        for set in 0..gathered.sets.len() {
            let runs = gathered.runs(measure, set);
            if !runs.is_empty() {
                let runs: Vec<Value> = runs.iter().map(|stored| run(stored)).collect();
                let scores: Map<String, Value> = gathered.measures[measure]
                    .keys
                    .iter()
                    .filter_map(|key| Some((tidy(key), aggregate(gathered.cell(measure, set, key)?))))
                    .collect();
                cells.push(json!({"measure": measure, "set": set, "runs": runs, "scores": scores}));
            }
        }
    }
    let notes: Vec<Value> = gathered
        .notes
        .iter()
        .map(|note| json!({"measure": note.measure, "sets": note.sets, "text": note.text}))
        .collect();
    json!({
        "name": part.name,
        "slug": part.slug,
        "sets": gathered.sets.iter().map(input_set).collect::<Vec<_>>(),
        "measures": gathered.measures.iter().map(measure).collect::<Vec<_>>(),
        "cells": cells,
        "differences": (0..gathered.measures.len()).map(|measure| differences(&gathered, measure)).collect::<Vec<_>>(),
        "baselines": baselines(&gathered),
        "agreement": agreement(&gathered),
        "superseded": gathered.superseded.iter().map(superseded).collect::<Vec<_>>(),
        "notes": notes,
    })
}

fn input_set(set: &InputSet) -> Value {
    json!({
        "label": set.label, "name": set.name, "group": set.group, "description": set.description,
        "numbers": set.numbers, "baseline": set.baseline(),
    })
}

fn measure(measure: &Measure) -> Value {
    let key = |key: &String| {
        let better = match measure.better(key) {
            Better::Higher => "higher",
            Better::Lower => "lower",
            Better::Neither => "neither",
        };
        json!({"key": tidy(key), "better": better})
    };
    json!({
        "metric": measure.metric, "title": measure.title, "slug": measure.slug,
        "keys": measure.keys.iter().map(key).collect::<Vec<_>>(),
    })
}

fn run(stored: &Stored) -> Value {
    let mut headline = Map::new();
    for one in &stored.result.scores.headline {
        let (low, high) = ends(one.interval);
        headline.insert(tidy(&one.key), json!({"value": one.value, "low": low, "high": high, "n": one.n}));
    }
    let name = stored.about.get("inputs").and_then(Value::as_str).map(tidy);
    json!({"id": stored.id, "name": name, "seed": stored.result.recipe.seed, "headline": headline})
}

fn ends(interval: Option<Interval>) -> (Option<f64>, Option<f64>) {
    (interval.map(|interval| interval.low), interval.map(|interval| interval.high))
}

/// The mean over the runs of a cell; `seeds_low` and `seeds_high` are the interval over seeds only.
fn aggregate(of: Aggregate) -> Value {
    let ((low, high), (seeds_low, seeds_high)) = (ends(of.interval), ends(of.over_seeds));
    json!({
        "value": of.value, "low": low, "high": high, "n": of.n, "runs": of.runs,
        "deviation": of.deviation, "seeds_low": seeds_low, "seeds_high": seeds_high,
    })
}

/// Differences of the main number of a measure between pairs of input sets, the first minus the second, as columns.
fn differences(gathered: &Gathered<'_>, measure: usize) -> Value {
    let about = &gathered.measures[measure];
    let Some((key, column)) = about.keys.first().zip(gathered.comparison(measure)) else { return Value::Null };
    let all_pairs = gathered.sets.len() <= ALL_PAIRS;
    let best = best(column, about.better(key));
    let chosen = |set: usize| all_pairs || best == Some(set) || gathered.sets[set].baseline().is_some();
    let (mut first, mut second, mut value, mut low, mut high) = (vec![], vec![], vec![], vec![], vec![]);
    let (mut noise, mut paired) = (vec![], vec![]);
    for (a, b) in (0..gathered.sets.len()).flat_map(|a| (0..a).map(move |b| (a, b))) {
        if !chosen(a) && !chosen(b) {
            continue;
        }
        if let Some(difference) = column.difference(a, b) {
            let (below, above) = ends(difference.interval);
            first.push(a);
            second.push(b);
            value.push(difference.value);
            low.push(below);
            high.push(above);
            noise.push(difference.is_noise());
            paired.push(difference.paired);
        }
    }
    json!({
        "key": tidy(key), "first": first, "second": second, "value": value, "low": low, "high": high,
        "noise": noise, "paired": paired,
    })
}

/// The mean of every number over the baselines of one name, such as untrained dictionaries of all sizes.
fn baselines(gathered: &Gathered<'_>) -> Vec<Value> {
    let mut names: Vec<&str> = Vec::new();
    for set in gathered.sets.iter().filter(|set| set.baseline().is_some()) {
        if !names.contains(&set.name.as_str()) {
            names.push(&set.name);
        }
    }
    let mut baselines = Vec::new();
    for name in names {
        let sets: Vec<usize> = (0..gathered.sets.len()).filter(|&set| gathered.sets[set].name == name).collect();
        for (measure, about) in gathered.measures.iter().enumerate() {
            for key in &about.keys {
                if let Some(value) = gathered.mean(measure, &sets, key).and_then(|mean| mean.value) {
                    baselines.push(json!({"measure": measure, "key": tidy(key), "name": name, "value": value}));
                }
            }
        }
    }
    baselines
}

/// The agreement of measures.
fn agreement(gathered: &Gathered<'_>) -> Value {
    let Agreement { measures, cells, undirected } = Agreement::of(gathered);
    let cell = |of: &RankAgreement| json!({"value": of.value, "n": of.n, "chance": of.is_chance});
    let cells: Vec<Vec<Value>> = cells.iter().map(|row| row.iter().map(cell).collect()).collect();
    json!({"measures": measures, "cells": cells, "undirected": undirected})
}

fn superseded((measure, set, stored): &(usize, usize, &Stored)) -> Value {
    json!({"measure": measure, "set": set, "id": stored.id, "seed": stored.result.recipe.seed, "inputs": stored.result.recipe.inputs})
}
