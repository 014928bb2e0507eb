//! The whole report on synthetic results.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use serde_json::{Value, json};

use super::*;
use crate::context::Budget;
use crate::results::{Cells, Interval, Metadata, Profile, Recipe, ResultFile, Scores, Table};
use etalon_kernel::random::{stream, unit};

/// A result of one metric on one input set.
pub fn stored(metric: &str, seed: u64, params: Value, about: Value, scores: Scores) -> Stored {
    let map = |value: Value| value.as_object().unwrap().clone().into_iter().collect::<BTreeMap<String, Value>>();
    let about: Metadata = map(about);
    let recipe = Recipe {
        metric: metric.into(),
        version: 1,
        profile: Profile::Paper,
        seed,
        params: map(params),
        inputs: BTreeMap::from([(
            "codes".into(),
            format!("blake3:{}", blake3::hash(json!(about).to_string().as_bytes())),
        )]),
    };
    Stored::new(ResultFile { etalon: "0.1.0".into(), recipe, scores, seconds: 0.25 }, about).unwrap()
}

fn headline(scores: &mut Scores, key: &str, value: f64, half: f64, n: usize) {
    scores.headline(key, Some(value), Some(Interval { low: value - half, high: value + half }), n);
}

/// Four input sets, three metrics: what `etalon demo` looks like.
fn demo(concepts: usize) -> Vec<Stored> {
    let sets = [
        ("oracle", 64, 0.97, 0.9),
        ("trained", 512, 0.72, 0.55),
        ("untrained", 512, 0.31, 0.04),
        ("random", 512, 0.12, -0.02),
    ];
    let mut results = Vec::new();
    for (index, (name, latents, level, selective)) in sets.into_iter().enumerate() {
        let about = json!({"inputs": name, "latents": latents, "l0": 7.5 + index as f64 * 0.25});
        let mut random = stream(index as u64, "a made-up report", 0);
        let mut noise = |spread: f64| (unit(&mut random) - 0.5) * spread;
        for seed in 0..if name == "trained" { 2 } else { 1 } {
            let mut scores = Scores::default();
            headline(&mut scores, "match_score", level + 0.02 * seed as f64, 0.04, concepts);
            headline(&mut scores, "delta_match_score", level - 0.31, 0.05, concepts);
            scores.note("1 concept has no positive row: undefined");
            let f1: Vec<Option<f64>> =
                (0..concepts).map(|c| (c != 3).then(|| (level + noise(0.4)).clamp(0.0, 1.0))).collect();
            scores.tables.push(
                // Rows by strategy and concept, as `match` writes them; the second strategy finds nothing.
                Table::new("concept")
                    .words("strategy", (0..2 * concepts).map(|row| if row < concepts { "FBMP" } else { "none" }))
                    .words(
                        "name",
                        (0..2 * concepts).map(|row| format!("concept {}: colour of the wing", row % concepts)),
                    )
                    .numbers("f1", f1.into_iter().chain(vec![Some(0.0); concepts]))
                    .with(
                        "coalition",
                        Cells::WholeLists((0..2 * concepts as i64).map(|c| vec![c, 2 * c + 1, 36]).collect()),
                    )
                    .with("f1_by_step", Cells::NumberLists(vec![vec![Some(0.25), Some(0.5)]; 2 * concepts]))
                    .counts("positives", (0..2 * concepts).map(|c| 10 + 7 * c)),
            );
            scores.tables.push(
                Table::new("strategy")
                    .words("strategy", ["one to one", "naive top-k", "FBMP β=0.25", "FBMP β=0.5", "FBMP β=1"])
                    .numbers("match_score", [-0.1, -0.06, -0.04, 0.0, -0.02].map(|d| Some((level + d).max(0.0)))),
            );
            results.push(stored("match", seed, json!({"matcher": "fbmp", "beta": 0.5, "k": 3}), about.clone(), scores));
        }
        let mut scores = Scores::default();
        if name == "random" {
            scores.headline("tapa_score", None, None, 0);
            scores.note("no pair has a matched latent: undefined");
        } else {
            headline(&mut scores, "tapa_score", selective, 0.06, 180);
        }
        headline(&mut scores, "delta_add", selective / 2.0, 0.03, 180);
        headline(&mut scores, "delta_rem", -selective / 2.0, 0.03, 180);
        let deltas = (0..12).map(|_| Some(selective + noise(0.3)));
        scores.tables.push(
            Table::new("concept").words("name", (0..12).map(|c| format!("attribute {c}"))).numbers("delta", deltas),
        );
        results.push(stored("tapa", 0, json!({"k": 3}), about.clone(), scores));
        let mut scores = Scores::default();
        headline(&mut scores, "monosemanticity", 0.5 + level / 20.0, 0.03, latents as usize);
        let values: Vec<Option<f64>> =
            (0..latents).map(|_| Some((0.5 + level / 20.0 + noise(0.4) + noise(0.4)).clamp(0.0, 1.0))).collect();
        scores.tables.push(Table::new("latent").numbers("score", values));
        results.push(stored("monosemanticity", 0, json!({}), about, scores));
    }
    results
}

/// A grid over sizes and architectures.
fn study() -> Vec<Stored> {
    let mut results = Vec::new();
    for (group, gain) in [("topk", 0.1), ("jumprelu", 0.05), ("untrained", 0.0)] {
        for (step, latents) in [128, 256, 512, 1024].into_iter().enumerate() {
            let about = json!({"inputs": format!("{group}-{latents}"), "group": group, "latents": latents});
            for (metric, factor) in [("match", 1.0), ("tapa", 0.5), ("purity", -0.3)] {
                let mut scores = Scores::default();
                headline(&mut scores, "score", 0.3 + factor * (gain * (1.0 + step as f64)), 0.03, 50);
                results.push(stored(metric, 0, json!({"k": 3}), about.clone(), scores));
            }
        }
    }
    results
}

/// Names with markup, control characters and formulas.
fn hostile() -> Vec<Stored> {
    let bad = "</title><script>alert('1')</script>\u{1b}[31m\u{0}\u{202e}]]>\"&";
    let mut results = Vec::new();
    for set in 0..3 {
        let mut scores = Scores::default();
        headline(&mut scores, bad, 0.25 * f64::from(set), 0.1, 4);
        scores.headline("undefined", None, None, 0);
        scores.note(format!("{bad} undefined"));
        scores.tables.push(Table::new("concept").words("name", [bad, "=1+1"]).numbers("f1", [Some(0.5), None]));
        scores.tables.push(Table::new("strategy").words("name", [bad]).numbers("match_score", [Some(0.5)]));
        scores.tables.push(Table::new("latent").numbers("score", [None, Some(0.5)]));
        let about = json!({"inputs": format!("{bad}{set}"), "group": bad, "latents": set, bad: set});
        results.push(stored(bad, 0, json!({bad: bad}), about.clone(), scores.clone()));
        results.push(stored("other", 0, json!({bad: bad}), about, scores));
    }
    results
}

/// Every tag is closed, in order; attributes are quoted; no id occurs twice.
fn check_markup(text: &str) {
    let void = ["meta", "br", "hr", "img", "link", "input", "wbr"];
    let (mut open, mut ids): (Vec<&str>, BTreeSet<&str>) = (Vec::new(), BTreeSet::new());
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        let before = &rest[..start];
        assert!(open.last() == Some(&"style") || !before.contains('>'), "a bare `>` in {before:?}");
        let end = start + rest[start..].find('>').expect("a tag that does not end");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if tag.starts_with('!') || tag.starts_with('?') {
            continue;
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "quotation marks in <{tag}>");
        for part in tag.split(" id=\"").skip(1) {
            let id = part.split('"').next().unwrap();
            assert!(ids.insert(id), "the id {id} occurs twice");
        }
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            let name = tag.split_whitespace().next().unwrap();
            if !void.contains(&name) {
                open.push(name);
            }
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
    for anchor in text.split("href=\"#").skip(1).map(|part| part.split('"').next().unwrap()) {
        assert!(ids.contains(anchor), "a link to #{anchor}, which is not there");
    }
}

fn everything() -> Vec<Vec<Stored>> {
    vec![Vec::new(), demo(12), demo(120), study(), hostile(), demo(0), [demo(12), study(), hostile()].concat()]
}

#[test]
fn pages_and_figures_are_well_formed_and_load_nothing() {
    for results in everything() {
        let text = page("A <report>", &results, &Options { beside: true, ..Options::default() }).unwrap();
        check_markup(&text);
        assert!(!text.contains("http://") && !text.contains("https://"));
        // Only in numbers: descriptions of metrics may mention NaN.
        assert!(!text.contains(">NaN") && !text.contains("\"NaN") && !text.contains(">inf"));
        assert!(!text.contains("<script") && !text.contains('\u{1b}') && !text.contains('\u{0}'));
        let figures = figures(&results);
        let names: BTreeSet<&String> = figures.iter().map(|(name, _)| name).collect();
        assert_eq!(names.len(), figures.len());
        for (name, svg) in &figures {
            check_markup(svg);
            assert!(svg.contains("<title id=") && svg.contains("<desc id="), "{name}");
            assert_eq!(svg.matches("http://").count(), 1, "only the name space of SVG: {name}");
            assert!(!svg.contains("NaN") && !svg.contains("<script") && !svg.contains('\u{0}'), "{name}");
            assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{name}");
        }
    }
}

#[test]
fn the_order_of_results_does_not_matter() {
    let results = [demo(12), study()].concat();
    let reversed: Vec<Stored> = results.iter().rev().cloned().collect();
    let options = Options::default();
    assert_eq!(page("a", &results, &options).unwrap(), page("a", &reversed, &options).unwrap());
    assert_eq!(
        (figures(&results), csv(&results).unwrap(), text_table(&results)),
        (figures(&reversed), csv(&reversed).unwrap(), text_table(&reversed))
    );
}

#[test]
fn a_report_without_results_is_valid() {
    let text = page("Empty", &[], &Options::default()).unwrap();
    assert!(text.contains("There are no results yet"));
    assert_eq!(text_table(&[]), "no results\n");
    assert_eq!(csv(&[]).unwrap().lines().count(), 1);
    assert!(figures(&[]).is_empty());
}

#[test]
fn the_demo_has_the_expected_figures() {
    let names: Vec<String> = figures(&demo(12)).into_iter().map(|(name, _)| name).collect();
    let expected = ["sanity", "match-and-tapa", "match-concepts", "monosemanticity-latents", "match-strategies"];
    for name in expected {
        assert!(names.iter().any(|other| other == name), "{name} in {names:?}");
    }
    // The four sets of the demo form no line.
    assert!(!names.iter().any(|name| name.contains("-by-")), "{names:?}");
    let study: Vec<String> = figures(&study()).into_iter().map(|(name, _)| name).collect();
    assert!(study.contains(&"match-by-latents".to_string()), "{study:?}");
    // The demo has one set that is not a baseline: no agreement of measures. Four sets are enough, with n in every cell.
    assert!(!names.contains(&"correlations".to_string()));
    let mut results = Vec::new();
    for (metric, set) in (0..3).flat_map(|metric| (0..4).map(move |set| (metric, set))) {
        let mut scores = Scores::default();
        headline(&mut scores, "score", f64::from(set * (metric + 1)), 0.1, 4);
        results.push(stored(
            &format!("metric {metric}"),
            0,
            json!({}),
            json!({"inputs": format!("set {set}")}),
            scores,
        ));
    }
    let figures = figures(&results);
    let matrix = &figures.iter().find(|(name, _)| name == "correlations").unwrap().1;
    // Perfect agreement of four sets is within chance.
    assert_eq!((matrix.matches(">n 4<").count(), matrix.matches(">(1.00)<").count()), (9, 6));
}

#[test]
fn undefined_numbers_link_to_their_note() {
    let text = page("x", &demo(12), &Options::default()).unwrap();
    let note = text.split("no pair has a matched latent: undefined").next().unwrap();
    let id = note.rsplit("id=\"note-").next().unwrap().split('"').next().unwrap();
    assert!(text.contains(&format!("<a href=\"#note-{id}\" aria-label=\"note {id}\">{id}</a>")));
}

#[test]
fn the_best_is_marked_and_noise_is_grey() {
    // Monosemanticity: 0.5485, 0.536, 0.5155, 0.506, each ± 0.03, so that differences are ± 0.03 · √2 = 0.0424: the
    // first two, 0.0125 and 0.033, are within that, and the last, 0.0425, is not.
    let results: Vec<Stored> = demo(12).into_iter().filter(|s| s.result.recipe.metric == "monosemanticity").collect();
    let text = page("x", &results, &Options::default()).unwrap();
    assert_eq!(text.matches("<td class=\"number best\">").count(), 1);
    assert_eq!(text.matches("<td class=\"number unclear\">").count(), 2);
    let pinned = Options { pinned: Some("random".into()), ..Options::default() };
    assert!(page("x", &results, &pinned).unwrap().contains("<tr class=\"pinned\">"));
    let unknown = Options { pinned: Some("unknown".into()), ..Options::default() };
    assert!(page("x", &results, &unknown).unwrap_err().is_input());
}

#[test]
fn seeds_are_averaged() {
    // Trained: 0.72 and 0.74: mean 0.73, error of seeds 0.01 with one degree of freedom; each ± 0.04, an error of
    // 0.0204085. Variances 0.0001 and 0.000416508: freedom 0.000516508² / 0.0001² = 26.6780, whose t is 2.053; times
    // √0.000516508 = 0.0227268 it is 0.046659.
    let results = demo(12);
    let gathered = Gathered::of(&results);
    let measure = gathered.measures.iter().position(|measure| measure.metric == "match").unwrap();
    let cell = gathered.main(measure, 1).unwrap();
    let noise = cell.interval.unwrap();
    assert_eq!((gathered.sets[1].label.as_str(), cell.runs), ("trained", 2));
    for (found, expected) in [(cell.value.unwrap(), 0.73), (noise.low, 0.683341), (noise.high, 0.776659)] {
        assert!((found - expected).abs() < 1e-5, "{found}");
    }
}

#[test]
fn titles_name_the_parameters_that_differ() {
    let mut results = Vec::new();
    for k in [1, 3] {
        let mut scores = Scores::default();
        headline(&mut scores, "match_score", 0.5, 0.1, 4);
        results.push(stored("fantasy", 0, json!({"k": k, "beta": 0.5}), json!({"inputs": "trained"}), scores));
    }
    let gathered = Gathered::of(&results);
    let titles: Vec<&str> = gathered.measures.iter().map(|measure| measure.title.as_str()).collect();
    assert_eq!(titles, ["fantasy (k = 1)", "fantasy (k = 3)"]);
}

#[test]
fn the_text_table_fits_a_terminal() {
    let text = text_table(&[demo(12), study(), hostile()].concat());
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(!text.contains('\u{1b}'));
    let mut scores = Scores::default();
    headline(&mut scores, "score", 0.5, 0.1, 4);
    let mut other = Scores::default();
    headline(&mut other, "score", 0.25, 0.025, 4);
    let results = [
        stored("fantasy", 0, json!({}), json!({"inputs": "trained", "latents": 512}), scores),
        stored("fantasy", 0, json!({}), json!({"inputs": "random", "latents": 64}), other),
    ];
    let expected = "\
input set  latents        fantasy
─────────  ───────  ─────────────
trained        512  0.500 ±0.100*
random          64  0.250 ±0.025

± half-width of the 95 % interval   * best
";
    assert_eq!(text_table(&results), expected);
}

#[test]
fn the_csv_has_every_headline() {
    let results = demo(12);
    let headlines: usize = results.iter().map(|stored| stored.result.scores.headline.len()).sum();
    let text = csv(&results).unwrap();
    assert_eq!(text.lines().count(), headlines + 1);
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let names = reader.headers().unwrap().clone();
    assert_eq!(names.iter().next_back(), Some("latents"));
    assert!(reader.records().all(|record| record.unwrap().len() == names.len()));
    let mut reader = ::csv::ReaderBuilder::new().from_reader(std::io::Cursor::new(csv(&hostile()).unwrap()));
    assert!(reader.records().all(|record| record.is_ok()));
}

#[test]
fn the_csv_tells_seeds_apart() {
    let mut results = Vec::new();
    for (name, extra) in [("topk-seed4", json!({})), ("pca", json!({"seed": 7})), ("oracle", json!({}))] {
        let mut scores = Scores::default();
        headline(&mut scores, "score", 0.5, 0.1, 4);
        let mut about = json!({"inputs": name});
        about.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        results.push(stored("fantasy", 2, json!({}), about, scores));
    }
    let text = csv(&results).unwrap();
    let mut reader = ::csv::Reader::from_reader(text.as_bytes());
    let index = |name: &str, header: &::csv::StringRecord| header.iter().position(|other| other == name).unwrap();
    let header = reader.headers().unwrap().clone();
    let (seed, own, set) = (index("seed", &header), index("dictionary_seed", &header), index("inputs", &header));
    let rows: Vec<(String, String, String)> = reader
        .records()
        .map(|row| row.map(|row| (row[set].to_string(), row[seed].to_string(), row[own].to_string())).unwrap())
        .collect();
    let expected = [("oracle", "2", ""), ("pca", "2", "7"), ("topk-seed4", "2", "4")];
    assert_eq!(rows, expected.map(|(a, b, c)| (a.to_string(), b.to_string(), c.to_string())));
}

/// Two dictionaries with three training seeds each, and two kinds of baselines.
fn seeded(sets: usize) -> Vec<Stored> {
    let mut results = Vec::new();
    let mut add = |name: String, l0: f64, value: f64| {
        let mut scores = Scores::default();
        headline(&mut scores, "match_score", value, 0.05, 30);
        let about = json!({"inputs": name, "latents": 512, "l0": l0});
        results.push(stored("match", 0, json!({}), about.clone(), scores));
        let mut scores = Scores::default();
        headline(&mut scores, "ceiling", 0.8, 0.05, 30);
        results.push(stored("unknown_ceiling", 0, json!({}), about, scores));
    };
    for set in 0..sets {
        (0..3)
            .for_each(|seed| add(format!("topk-{set}-seed{seed}"), 32.0 + seed as f64 / 10.0, 0.5 + 0.1 * seed as f64));
    }
    add("untrained".into(), 32.0, 0.2);
    add("random".into(), 32.0, 0.1);
    results
}

#[test]
fn seeds_of_a_dictionary_are_one_input_set() {
    let results = seeded(1);
    let gathered = Gathered::of(&results);
    let labels: Vec<&str> = gathered.sets.iter().map(|set| set.label.as_str()).collect();
    assert_eq!(labels, ["topk-0", "untrained", "random"]);
    // 0.5, 0.6 and 0.7; their dictionaries have different codes, and are still current.
    let found = gathered.main(0, 0).unwrap();
    assert!((found.value.unwrap() - 0.6).abs() < 1e-12 && found.runs == 3, "{found:?}");
    assert!(gathered.superseded.is_empty());
    let text = page("x", &results, &Options::default()).unwrap();
    assert!(text.contains("topk-0, dictionary seed2") && text.contains("3 runs"));
}

#[test]
fn baselines_are_drawn_among_many_sets_and_colours_stay() {
    let results = seeded(19);
    let gathered = Gathered::of(&results);
    assert_eq!(gathered.sets.len(), 21);
    let chosen = gathered.choose(0..21, 8);
    let names: Vec<&str> = chosen.iter().map(|&set| gathered.sets[set].name.as_str()).collect();
    assert_eq!(names, ["topk-0", "topk-1", "topk-2", "topk-3", "topk-4", "topk-5", "untrained", "random"]);
    assert_eq!(chosen.iter().map(|&set| gathered.colour(set)).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
    assert_eq!(gathered.colour_of(&[3, 4]), gathered.colour(3));
    // No other set has the colour of a baseline.
    assert!((6..19).all(|set| gathered.colour(set) < 6));
    let album = figures(&results);
    let sanity = &album.iter().find(|(name, _)| name == "sanity").unwrap().1;
    assert!(sanity.contains("untrained") && sanity.contains("random"));
}

#[test]
fn every_figure_has_its_own_title() {
    for results in everything() {
        let album = figures(&results);
        let titles: BTreeSet<&str> =
            album.iter().map(|(_, svg)| svg.split("<title id=").nth(1).unwrap().split('<').next().unwrap()).collect();
        let names: BTreeSet<&str> = titles.iter().map(|title| title.split('>').nth(1).unwrap()).collect();
        assert_eq!(names.len(), album.len(), "{names:?}");
    }
    // Thirteen measures do not fit one figure.
    let mut results = Vec::new();
    for measure in 0..13 {
        let mut scores = Scores::default();
        headline(&mut scores, "score", 2.74, 0.1, 4);
        results.push(stored(&format!("metric {measure}"), 0, json!({}), json!({"inputs": "a"}), scores));
    }
    let titles: Vec<String> = figures(&results).into_iter().map(|(_, svg)| svg).collect();
    assert!(titles.iter().any(|svg| svg.contains("input sets, part 1 of 2")));
    assert!(titles.iter().any(|svg| svg.contains("input sets, part 2 of 2")));
}

#[test]
fn figures_of_several_data_sets_name_them() {
    let on = |data: &str| {
        let mut scores = Scores::default();
        headline(&mut scores, "score", 0.5, 0.1, 4);
        stored("metric", 0, json!({}), json!({"inputs": "a", "data": data}), scores)
    };
    let page = overview("two", &by_data(&[on("shapes"), on("superposition")])).unwrap();
    for data in ["shapes", "superposition"] {
        let title = format!("<strong>All measures on all input sets: {data}.</strong>");
        assert_eq!(page.matches(&title).count(), 1, "{page}");
        assert_eq!(page.matches(&format!("id=\"figure-{data}-sanity\"")).count(), 1);
    }
    check_markup(&page);
}

#[test]
fn a_column_that_cannot_differ_has_no_star() {
    let results = seeded(1);
    let text = page("x", &results, &Options::default()).unwrap();
    // Only `match_score` has a best; the ceiling is 0.8 for all.
    assert_eq!(text.matches("<td class=\"number best\">").count(), 1);
    assert_eq!(text_table(&results).matches('*').count(), 2, "one mark and the legend");
}

#[test]
fn different_sparsity_is_stated() {
    assert!(!page("x", &seeded(1), &Options::default()).unwrap().contains("at equal sparsity"));
    let mut results = seeded(1);
    let mut scores = Scores::default();
    headline(&mut scores, "match_score", 0.9, 0.05, 30);
    results.push(stored("match", 0, json!({}), json!({"inputs": "jumprelu", "latents": 512, "l0": 399.0}), scores));
    let text = page("x", &results, &Options::default()).unwrap();
    assert!(text.contains("from 32.1 to 399: the best of a column is not the best at equal sparsity"), "{text}");
    assert!(text_table(&results).contains("L0 differs between input sets (32.1 to 399)"));
}

#[test]
fn writing_twice_gives_the_same_bytes() {
    let directory = tempfile::tempdir().unwrap();
    let results = demo(12);
    let index = write(directory.path(), "Demo", &results, &Budget::new(1 << 24)).unwrap();
    let before = fs::read(&index).unwrap();
    assert_eq!(write(directory.path(), "Demo", &results, &Budget::new(1 << 24)).unwrap(), index);
    assert_eq!(fs::read(&index).unwrap(), before);
    let text = String::from_utf8(before).unwrap();
    for link in text.split("href=\"").skip(1).map(|part| part.split('"').next().unwrap()) {
        assert!(link.starts_with('#') || directory.path().join("report").join(link).is_file(), "{link}");
    }
}
