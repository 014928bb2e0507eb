//! The same order of results as in the report, as data: what the explorer draws its tables and charts from.

use serde_json::{Value, json};

use super::data::{OnData, by_data};
use super::figure::Figure;
use super::gather::{Gathered, InputSet, Measure};
use super::plots::Album;
use super::words::tidy;
use crate::metrics::Better;
use crate::results::Stored;

/// Everything on one data set: input sets, measures, what each measure says about each set run by run, and notes.
pub fn board(results: &[Stored]) -> Value {
    json!({ "data": by_data(results).iter().map(one).collect::<Vec<_>>() })
}

/// The figures of the report by the slug of their data set, to be drawn in the colours of a page.
pub fn album(results: &[Stored]) -> Vec<(String, Value)> {
    let figure = |figure: &Figure| json!({"name": figure.name, "title": figure.title, "description": figure.description, "svg": figure.inline()});
    let figures = |part: &OnData| {
        let drawn: Vec<Value> = Album::of(&Gathered::of(&part.results)).all().map(figure).collect();
        (part.slug.clone(), json!({"name": part.name, "slug": part.slug, "figures": drawn}))
    };
    by_data(results).iter().map(figures).collect()
}

fn one(part: &OnData) -> Value {
    let gathered = Gathered::of(&part.results);
    let mut cells = Vec::new();
    for measure in 0..gathered.measures.len() {
        for set in 0..gathered.sets.len() {
            let runs = gathered.runs(measure, set);
            if !runs.is_empty() {
                let runs: Vec<Value> = runs.iter().map(|stored| run(stored)).collect();
                cells.push(json!({"measure": measure, "set": set, "runs": runs}));
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
    let mut headline = serde_json::Map::new();
    for one in &stored.result.scores.headline {
        let (low, high) = (one.interval.map(|interval| interval.low), one.interval.map(|interval| interval.high));
        headline.insert(tidy(&one.key), json!({"value": one.value, "low": low, "high": high, "n": one.n}));
    }
    json!({"id": stored.id, "seed": stored.result.recipe.seed, "headline": headline})
}
