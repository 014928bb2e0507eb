//! Translates scores to the categories and names of SAEBench.

use serde_json::{Map, Value, json};

use super::envelope::SHAPES;
use crate::results::{Cells, Scores, Table};

/// An undefined number in a SAEBench file.
const UNDEFINED: f64 = -1.0;

/// Numbers of latents that SAEBench ablates.
pub(super) const COUNTS: [usize; 7] = [2, 5, 10, 20, 50, 100, 500];
/// Numbers of latents of SAEBench's probes.
pub(super) const SIZES: [usize; 7] = [1, 2, 5, 10, 20, 50, 100];

/// The evaluation, its numbers by category, and its details.
pub(super) type Translated = (&'static str, Map<String, Value>, Vec<Value>);

/// Translates scores; `None` if SAEBench has no such evaluation. `losses` are those of `loss_recovered`, for `core`.
pub(super) fn translate(scores: &Scores, metric: &str, losses: Option<&Scores>) -> Option<Translated> {
    match metric {
        "core" => Some(core(scores, losses)),
        "absorption" => Some(absorption(scores)),
        "sparse_probing" => Some(sparse_probing(scores)),
        "scr" => Some(scr(scores)),
        "tpp" => Some(tpp(scores)),
        "sae_probes" => Some(sae_probes(scores)),
        "meta_structure" => Some(meta_structure(scores)),
        "autointerp" => Some(autointerp(scores)),
        "ravel" => Some(ravel(scores)),
        "unlearning" => Some(unlearning(scores)),
        _ => None,
    }
}

fn headline(scores: &Scores, key: &str) -> Option<f64> {
    scores.headline.iter().find(|headline| headline.key == key)?.value
}

fn autointerp(scores: &Scores) -> Translated {
    let of = |key: &str| json!(headline(scores, key).unwrap_or(UNDEFINED));
    let numbers = json!({
        "autointerp_score": of("autointerp_score"),
        "autointerp_std_dev": of("autointerp_std_dev"),
        "autointerp_balanced": of("autointerp_balanced"),
        "autointerp_fuzzing": of("autointerp_fuzzing"),
        "autointerp_tokens": of("autointerp_tokens"),
    });
    ("autointerp", Map::from_iter([("autointerp".to_string(), numbers)]), Vec::new())
}

fn unlearning(scores: &Scores) -> Translated {
    let of = |key: &str| json!(headline(scores, key).unwrap_or(UNDEFINED));
    let numbers = json!({
        "unlearning_score": of("unlearning_score"),
        "unlearning_score_held_out": of("unlearning_score_held_out"),
        "side_held_out": of("side_held_out"),
    });
    ("unlearning", Map::from_iter([("unlearning".to_string(), numbers)]), Vec::new())
}

/// What SAEBench stores of every judged latent, by its number: explanation, predictions, truth and score.
pub(super) fn judged_latents(scores: &Scores) -> Option<Value> {
    let table = scores.table("latent")?;
    let whole = |name: &str, row: usize| match table.column(name) {
        Some(Cells::WholeLists(lists)) => json!(lists.get(row)),
        _ => json!([]),
    };
    let explanations = words(table, "explanation")?;
    let latent = |row: usize| {
        let score = table.column("score")?.number(row)?;
        let entry = json!({
            "latent": row,
            "explanation": explanations.get(row),
            "predictions": whole("predicted", row),
            "correct seqs": whole("active", row),
            "score": score,
        });
        Some((row.to_string(), entry))
    };
    Some(Value::Object((0..table.rows()).filter_map(latent).collect()))
}

fn ravel(scores: &Scores) -> Translated {
    let keys = ["disentanglement_score", "cause_score", "isolation_score"];
    let number = |key: &str| (key.to_string(), json!(headline(scores, key).unwrap_or(UNDEFINED)));
    let numbers = Value::Object(keys.into_iter().map(number).collect());
    ("ravel", Map::from_iter([("ravel".to_string(), numbers)]), Vec::new())
}

/// The scores of attributes by kind of entity, as SAEBench stores them, and the attributes of every kind.
pub(super) fn attributes(scores: &Scores) -> Option<(Map<String, Value>, Value)> {
    let table = scores.table("attribute")?;
    let (names, kinds, attributes) = (words(table, "name")?, words(table, "kind")?, words(table, "attribute")?);
    let (mut results, mut selection) = (Map::new(), Map::new());
    for (row, ((name, kind), attribute)) in names.iter().zip(kinds).zip(attributes).enumerate() {
        let of = |column: &str| table.column(column).and_then(|cells| cells.number(row)).unwrap_or(UNDEFINED);
        let entry = json!({
            "cause_score": of("cause"),
            "isolation_score": of("isolation"),
            "disentangle_score": of("disentanglement"),
        });
        if let Value::Object(of_kind) = results.entry(format!("{kind}_results")).or_insert_with(|| json!({})) {
            of_kind.insert(name.clone(), entry);
        }
        if let Value::Array(list) = selection.entry(kind.clone()).or_insert_with(|| json!([])) {
            list.push(json!(attribute));
        }
    }
    Some((results, Value::Object(selection)))
}

fn core(scores: &Scores, losses: Option<&Scores>) -> Translated {
    let shape = &SHAPES[0];
    let count = |scores: &Scores, key: &str| {
        scores.headline.iter().find(|headline| headline.key == key).map_or(0, |headline| headline.n)
    };
    let rows = count(scores, "l0");
    // Tokens at which the network was run, or, without a network, rows that were reconstructed.
    let run = losses.map_or(rows, |losses| count(losses, "ce_loss_without_sae"));
    let category = |&(name, keys): &(&str, &[&str])| {
        let number = |key: &&str| match *key {
            "total_tokens_eval_reconstruction" => (key.to_string(), json!(run)),
            "total_tokens_eval_sparsity_variance" => (key.to_string(), json!(rows)),
            key => {
                let value = headline(scores, key).or_else(|| headline(losses?, key));
                (key.to_string(), json!(value.unwrap_or(UNDEFINED)))
            }
        };
        (name.to_string(), Value::Object(keys.iter().map(number).collect()))
    };
    let table = scores.table("latent");
    let detail = |row: usize| {
        let cell = |name: &&str| {
            let found = table.and_then(|table| table.column(name)).and_then(|cells| cells.number(row));
            let value = if *name == "index" { json!(row) } else { json!(found.map_or(UNDEFINED, round)) };
            (name.to_string(), value)
        };
        Value::Object(shape.details.iter().map(cell).collect())
    };
    let details = (0..table.map_or(0, Table::rows)).map(detail).collect();
    (shape.id, shape.categories.iter().map(category).collect(), details)
}

/// Rounds to ten decimals, as SAEBench does.
fn round(value: f64) -> f64 {
    (value * 1e10).round() / 1e10
}

fn absorption(scores: &Scores) -> Translated {
    let table = scores.table("concept");
    let number = |row: usize, name: &str| table?.column(name)?.number(row);
    let deviation = |name: &str| {
        let rows = 0..table.map_or(0, Table::rows);
        let values: Vec<f64> =
            rows.filter_map(|row| number(row, "absorption_fraction").and(number(row, name))).collect();
        let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
        let squares = values.iter().map(|value| (value - mean) * (value - mean)).sum::<f64>();
        if values.len() > 1 { (squares / (values.len() - 1) as f64).sqrt() } else { UNDEFINED }
    };
    let of = |key: &str| json!(headline(scores, key).unwrap_or(UNDEFINED));
    let mean = json!({
        "mean_absorption_fraction_score": of("absorption_fraction"),
        "mean_full_absorption_score": of("full_absorption"),
        "mean_num_split_features": of("split_features"),
        "std_dev_absorption_fraction_score": deviation("absorption_fraction"),
        "std_dev_full_absorption_score": deviation("full_absorption"),
        "std_dev_num_split_features": deviation("split_features"),
        "mean_absorption_fraction_january_score": of("absorption_fraction_january"),
        "mean_absorption_fraction_paper_score": of("absorption_fraction_paper"),
    });
    // Readers accept single letters only. Other classes contribute to the means.
    let letter = |row: usize| {
        let name = words(table?, "name")?.get(row)?;
        let letter = name.chars().next().filter(|first| first.is_ascii_alphabetic() && name.chars().count() == 1)?;
        let whole = |name: &str| number(row, name).map(|value| value as u64);
        Some(json!({
            "first_letter": letter.to_string(),
            "mean_absorption_fraction": number(row, "absorption_fraction")?,
            "full_absorption_rate": number(row, "full_absorption")?,
            "num_full_absorption": whole("fully_absorbed")?,
            "num_probe_true_positives": whole("rows")?,
            "num_split_features": whole("split_features")?,
        }))
    };
    let details = (0..table.map_or(0, Table::rows)).filter_map(letter).collect();
    ("absorption_first_letter", Map::from_iter([("mean".to_string(), mean)]), details)
}

fn words<'a>(table: &'a Table, column: &str) -> Option<&'a [String]> {
    match table.column(column)? {
        Cells::Text(words) => Some(words),
        _ => None,
    }
}

fn list<'a>(table: Option<&'a Table>, column: &str, row: usize) -> &'a [Option<f64>] {
    match table.and_then(|table| table.column(column)) {
        Some(Cells::NumberLists(lists)) => lists.get(row).map_or(&[], Vec::as_slice),
        _ => &[],
    }
}

/// The integers of a column, such as sizes of probes.
fn used(table: Option<&Table>, column: &str) -> Vec<usize> {
    let cells = table.and_then(|table| table.column(column));
    let number = |row: usize| cells.and_then(|cells| cells.number(row)).map(|value| value as usize);
    (0..cells.map_or(0, Cells::len)).filter_map(number).collect()
}

/// The value of column `key` in the row where `column` is `size`; null if it is missing or undefined.
fn by(table: Option<&Table>, column: &str, key: &str, size: usize) -> Value {
    let row = used(table, column).iter().position(|other| *other == size);
    let value = row.and_then(|row| table?.column(key)?.number(row));
    value.map_or(Value::Null, |value| json!(value))
}

/// The element of a list by size that belongs to `size`; null if it is missing or undefined.
fn at(list: &[Option<f64>], sizes: &[usize], size: usize) -> Value {
    let index = sizes.iter().position(|other| *other == size);
    index.and_then(|index| list.get(index).copied().flatten()).map_or(Value::Null, |value| json!(value))
}

fn sparse_probing(scores: &Scores) -> Translated {
    let (sizes, groups) = (scores.table("size"), scores.table("group"));
    let given = used(sizes, "size");
    let mut llm = Map::from_iter([(
        "llm_test_accuracy".to_string(),
        json!(headline(scores, "all_channels_accuracy").unwrap_or(UNDEFINED)),
    )]);
    let mut sae = Map::from_iter([(
        "sae_test_accuracy".to_string(),
        headline(scores, "all_latents_accuracy").map_or(Value::Null, |value| json!(value)),
    )]);
    for size in SIZES {
        llm.insert(format!("llm_top_{size}_test_accuracy"), by(sizes, "size", "channels", size));
        sae.insert(format!("sae_top_{size}_test_accuracy"), by(sizes, "size", "accuracy", size));
    }
    let detail = |(row, name): (usize, &String)| {
        let number = |column: &str| groups?.column(column)?.number(row);
        let mut detail = Map::from_iter([
            ("dataset_name".to_string(), json!(format!("{name}_results"))),
            ("llm_test_accuracy".to_string(), json!(number("all_channels").unwrap_or(UNDEFINED))),
            ("sae_test_accuracy".to_string(), number("all_latents").map_or(Value::Null, |value| json!(value))),
        ]);
        for size in SIZES {
            let lists = [("llm", "channels_by_size"), ("sae", "accuracy_by_size")];
            detail.extend(lists.map(|(kind, column)| {
                (format!("{kind}_top_{size}_test_accuracy"), at(list(groups, column, row), &given, size))
            }));
        }
        Value::Object(detail)
    };
    let names = groups.and_then(|groups| words(groups, "name")).unwrap_or_default();
    let metrics = [("llm".to_string(), Value::Object(llm)), ("sae".to_string(), Value::Object(sae))];
    ("sparse_probing", metrics.into_iter().collect(), names.iter().enumerate().map(detail).collect())
}

fn scr(scores: &Scores) -> Translated {
    let kinds = [("scr_dir1_threshold", "dir1"), ("scr_metric_threshold", "score"), ("scr_dir2_threshold", "dir2")];
    let name = |theirs: &str, count: usize| format!("{theirs}_{count}");
    let (numbers, details) = ablations(scores, "couple", &kinds, &name, "scr");
    ("scr", Map::from_iter([("scr_metrics".to_string(), numbers)]), details)
}

fn tpp(scores: &Scores) -> Translated {
    let kinds = [("total_metric", "total"), ("intended_diff_only", "intended"), ("unintended_diff_only", "unintended")];
    let name = |theirs: &str, count: usize| format!("tpp_threshold_{count}_{theirs}");
    let (numbers, details) = ablations(scores, "concept", &kinds, &name, "tpp");
    ("tpp", Map::from_iter([("tpp_metrics".to_string(), numbers)]), details)
}

fn ablations(
    scores: &Scores,
    axis: &str,
    kinds: &[(&str, &str)],
    name: &dyn Fn(&str, usize) -> String,
    eval: &str,
) -> (Value, Vec<Value>) {
    let (counts, table) = (scores.table("count"), scores.table(axis));
    let given = used(counts, "count");
    let all = || COUNTS.into_iter().flat_map(|count| kinds.iter().map(move |kind| (count, kind)));
    let numbers = all().map(|(count, (theirs, ours))| (name(theirs, count), by(counts, "count", ours, count)));
    let numbers = Value::Object(numbers.collect());
    let detail = |(row, label): (usize, &String)| {
        let own = all().map(|(count, (theirs, ours))| {
            (name(theirs, count), at(list(table, &format!("{ours}_by_count"), row), &given, count))
        });
        let label = ("dataset_name".to_string(), json!(format!("{label}_{eval}_results")));
        Value::Object([label].into_iter().chain(own).collect())
    };
    let names = table.and_then(|table| words(table, "name")).unwrap_or_default();
    (numbers, names.iter().enumerate().map(detail).collect())
}

fn sae_probes(scores: &Scores) -> Translated {
    let sizes = scores.table("size");
    let mut sae = Map::new();
    for size in SIZES {
        for (theirs, ours) in [("accuracy", "accuracy"), ("auc", "auc"), ("f1", "f1")] {
            sae.insert(format!("sae_top_{size}_test_{theirs}"), by(sizes, "size", ours, size));
        }
    }
    let of = |key: &str| json!(headline(scores, key).unwrap_or(UNDEFINED));
    let llm = json!({
        "llm_test_accuracy": of("channels_accuracy"),
        "llm_test_auc": of("channels_auc"),
        "llm_test_f1": of("channels_f1"),
    });
    let metrics = [("llm".to_string(), llm), ("sae".to_string(), Value::Object(sae))];
    ("sparse_probing_sae_probes", metrics.into_iter().collect(), Vec::new())
}

fn meta_structure(scores: &Scores) -> Translated {
    let of = |key: &str| json!(headline(scores, key).unwrap_or(UNDEFINED));
    let numbers = json!({
        "decoder_fraction_variance_explained": of("meta_explained"),
        "train_time_seconds": UNDEFINED,
        "final_reconstruction_mse": of("meta_error"),
    });
    ("meta_structure_decoder_variance", Map::from_iter([("meta_structure".to_string(), numbers)]), Vec::new())
}
