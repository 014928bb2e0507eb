//! The page of `etalon tasks`: every task as a person would see it.

use super::tasks::{Shown, Written};

const STYLE: &str = "\
    :root{color-scheme:light dark}\
    body{font:16px/1.4 system-ui,sans-serif;margin:2em auto;padding:0 1em;max-width:64em}\
    img{width:72px;height:72px;object-fit:cover;background:#eceff2;border-radius:4px;margin:2px}\
    .task{display:grid;grid-template-columns:repeat(auto-fit,minmax(15em,1fr));gap:1em;border-top:1px solid #8886;padding:1em 0}\
    .query img{width:112px;height:112px}details{grid-column:1/-1}h3{font-size:1em;margin:0 0 .5em}";

/// All tasks; which query belongs to the most activating images is hidden.
pub(super) fn page(shown: &Shown<'_>, images: &Written) -> String {
    let mut page = format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
         <title>Two-choice tasks</title><style>{STYLE}</style></head><body><h1>Two-choice tasks</h1><p>On one side are images that activate a \
         unit least, on the other side images that activate it most. Which of the two images in the middle activates it more?</p>"
    );
    for unit in shown.units.iter().filter(|unit| !unit.tasks.is_empty()) {
        page += &format!("<h2>Unit {}</h2>", unit.unit);
        for (number, task) in unit.tasks.iter().enumerate() {
            let sides = shown.images(unit.unit, task).map(|pictures| {
                let image = |(name, picture)| {
                    let file = images.file(unit.unit, number, name, picture);
                    format!("<img loading=\"lazy\" alt=\"\" src=\"{file}\">")
                };
                pictures.iter().map(|(name, picture)| image((name.as_str(), *picture))).collect::<Vec<_>>()
            });
            let [low, high] = &sides;
            let (Some((low_query, low)), Some((high_query, high))) = (low.split_last(), high.split_last()) else {
                continue;
            };
            // The order alternates without a pattern that a reader would notice, and is the same in every export.
            let first = (unit.unit * 7 + number * 3 + number / 2) % 2 == 0;
            let queries = if first { [high_query, low_query] } else { [low_query, high_query] };
            page += &format!(
                "<div class=\"task\"><div><h3>least</h3>{}</div><div class=\"query\"><h3>task {number}</h3>{}{}</div><div><h3>most</h3>{}</div>\
                 <details><summary>answer</summary>{}; simulated probability {:.3}</details></div>",
                low.concat(),
                queries[0],
                queries[1],
                high.concat(),
                if first { "left" } else { "right" },
                task.probability
            );
        }
    }
    page + "</body></html>\n"
}
